//! Whether a worker gives up the CPU before it awaits its client's next request.
//!
//! Where more workers have something to do than there are CPUs, that request will have come by the time that
//! the others have had their turn. Then the call that receives it need not sleep, and nobody has to wake it:
//! with 64 connections that saves a quarter of what a request costs, for one system call more. Where nobody
//! else wants the CPU it is a call too many.
//!
//! Nothing tells which it is but the time that `sched_yield(2)` takes. So one request in a while is preceded
//! by a yield that is timed, and those after it by one if it was long.

/// Requests between two that are preceded by a timed yield.
const BETWEEN: u8 = 31;

/// A client asks again no sooner than this, even over loopback: who is back earlier sleeps all the same.
const LONG_NS: u64 = 50_000;

/// What the last timed yield has shown.
#[derive(Debug, Default)]
pub(super) struct Yielding {
    pays: bool,
    left: u8,
}

impl Yielding {
    /// A client has been answered, and its next request is to be awaited.
    pub(super) fn before_waiting(&mut self) {
        if self.left == 0 {
            let before_ns = sys::clock::monotonic_ns();
            sys::process::yield_cpu();
            self.pays = sys::clock::monotonic_ns() - before_ns > LONG_NS;
            self.left = BETWEEN;
            return;
        }
        self.left -= 1;
        if self.pays {
            sys::process::yield_cpu();
        }
    }
}
