//! Access logs: nothing panics, each line is played or told, and what comes of them is a session file that
//! says when.

#![no_main]

#[path = "../shared/session_file.rs"]
mod session_file;

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use workload::replay;

fuzz_target!(|text: &[u8]| {
    let replayed = replay::sessions(text, Duration::from_secs(60), 3.0);
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    let log = replayed.log;
    assert_eq!(log.calls() + replayed.odd.len(), lines);
    let again = session_file::written_and_read(&log);
    assert!(again.is_empty() || again.arrivals().is_some());
});
