//! A thread that fails ends the process, because the other threads cannot replace it. The process is
//! started again.

use std::{process, thread};

/// Ends the process if the thread that holds this panics.
pub(in crate::architecture) struct AbortIfPanicking;

impl Drop for AbortIfPanicking {
    fn drop(&mut self) {
        if thread::panicking() {
            fail("a thread has panicked");
        }
    }
}

/// Writes a line to the error log, and ends the process.
pub(in crate::architecture) fn fail(message: &str) -> ! {
    tracing::error!("{message}");
    process::abort()
}
