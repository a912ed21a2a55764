//! A thread that fails takes the process along, which is started again: the others can't make up for it.

use std::{process, thread};

/// What a thread holds that is to have the process end if it panics.
pub(in crate::architecture) struct AbortIfPanicking;

impl Drop for AbortIfPanicking {
    fn drop(&mut self) {
        if thread::panicking() {
            fail("a thread has panicked");
        }
    }
}

/// Ends the process, after a line in the error log.
pub(in crate::architecture) fn fail(message: &str) -> ! {
    tracing::error!("{message}");
    process::abort()
}
