//! How a poll stage has those go first whom it has handed something on: it yields its CPU, and learns in one
//! go what clients have done meanwhile. Going on at once, it would hand on clients one by one.
//!
//! Yielding lets everybody go first, also a program that has nothing to do with this and takes the CPU for as
//! long as it gets it (4 ms). Where one shares the CPU, such as an application, yields are rare. A control
//! group whose time is used up looks the same from here, and a stage refrains there for nothing.

use sys::{clock, process};

/// Whether a poll stage yields.
#[derive(Debug, Default)]
pub(super) struct Courtesy {
    /// Until then it does not.
    refrains_until_ns: u64,
}

/// More than stages take for a batch, less than the scheduler gives somebody who never sleeps.
const LONG_NS: u64 = 2_000_000;
/// After a yield that took so long, it refrains from others for this time.
const REFRAINS_NS: u64 = 1_000_000_000;

impl Courtesy {
    /// Has others go first, unless it has lately taken too long until it was this thread's turn again.
    pub(super) fn give_way(&mut self) {
        let began_ns = clock::monotonic_ns();
        if self.may_yield(began_ns) {
            process::yield_cpu();
            self.yielded(began_ns, clock::monotonic_ns());
        }
    }

    fn may_yield(&self, now_ns: u64) -> bool {
        now_ns >= self.refrains_until_ns
    }

    fn yielded(&mut self, began_ns: u64, ended_ns: u64) {
        if ended_ns.saturating_sub(began_ns) >= LONG_NS {
            self.refrains_until_ns = ended_ns + REFRAINS_NS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_refrains_for_a_while_when_a_yield_has_taken_long() {
        let mut courtesy = Courtesy::default();
        courtesy.yielded(0, LONG_NS - 1);
        assert!(courtesy.may_yield(LONG_NS));
        courtesy.yielded(LONG_NS, 2 * LONG_NS);
        assert!(!courtesy.may_yield(2 * LONG_NS + REFRAINS_NS - 1));
        assert!(courtesy.may_yield(2 * LONG_NS + REFRAINS_NS));
    }
}
