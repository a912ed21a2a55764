//! Session files: nothing panics, and what was understood is written and understood again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use workload::wsesslog;

fuzz_target!(|text: &[u8]| {
    let Ok(log) = wsesslog::parse(text) else { return };
    let mut written = Vec::new();
    wsesslog::write(&mut written, &log).expect("a vector takes everything");
    let again = wsesslog::parse(&written).expect("what was written is a session file");
    assert_eq!(again.requests(), log.requests());
    assert_eq!(again.len(), log.len());
    for session in 0..log.len() {
        assert!(again.session(session).eq(log.session(session)));
    }
});
