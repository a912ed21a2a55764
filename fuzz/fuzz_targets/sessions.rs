//! Session files: nothing panics, and what was understood is written and understood again.

#![no_main]

#[path = "../shared/session_file.rs"]
mod session_file;

use libfuzzer_sys::fuzz_target;
use workload::wsesslog;

fuzz_target!(|text: &[u8]| {
    let Ok(log) = wsesslog::parse(text) else { return };
    session_file::written_and_read(&log);
});
