//! Access logs: nothing panics, each line is played or told, and what comes of them is a session file that
//! says when.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use workload::{replay, wsesslog};

fuzz_target!(|text: &[u8]| {
    let replayed = replay::sessions(text, Duration::from_secs(60), 3.0);
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    let log = replayed.log;
    assert_eq!(log.calls() + replayed.odd.len(), lines);
    let mut written = Vec::new();
    wsesslog::write(&mut written, &log).expect("a vector takes everything");
    let again = wsesslog::parse(&written).expect("what was written is a session file");
    assert_eq!(again.requests(), log.requests());
    assert_eq!(again.len(), log.len());
    for session in 0..log.len() {
        assert!(again.session(session).eq(log.session(session)));
    }
    assert!(again.is_empty() || again.arrivals().is_some());
});
