//! How a poll stage lets other threads go first after it has handed something on to them: it yields its CPU
//! (`sched_yield(2)`). Afterwards it receives in one go what clients have done meanwhile. If it went on at
//! once, it would hand on clients one by one.
//!
//! A yield lets every thread go first. That includes an unrelated program, which takes the CPU for as long
//! as it can (4 ms). If such a program shares the CPU, for example an application, every yield takes that
//! long; then the stage yields rarely. A control group that has used up its CPU time makes one yield in
//! many long. Such a yield ends with the next period and is no reason to stop yielding.

use sys::{clock, process};

/// Whether a poll stage yields.
#[derive(Debug)]
pub(super) struct Yielding {
    /// Until then it does not yield.
    refrains_until_ns: u64,
    /// For how long it will not yield, the next time.
    refrains_for_ns: u64,
    /// The last yield took long.
    was_long: bool,
}

/// More than stages take for a batch, and less than the scheduler gives a thread that never sleeps.
const LONG_NS: u64 = 2_000_000;
/// After two yields in a row that took so long, the stage does not yield for this time. If the next yield
/// is long as well, it stops for twice as long, up to `MOST_NS`.
const REFRAINS_NS: u64 = 1_000_000_000;
const MOST_NS: u64 = 16 * REFRAINS_NS;

impl Default for Yielding {
    fn default() -> Self {
        Self { refrains_until_ns: 0, refrains_for_ns: REFRAINS_NS, was_long: false }
    }
}

impl Yielding {
    /// Yields to other threads, unless yields have lately taken too long.
    pub(super) fn yield_now(&mut self) {
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
        if ended_ns.saturating_sub(began_ns) < LONG_NS {
            *self = Self::default();
        } else if self.was_long {
            self.refrains_until_ns = ended_ns + self.refrains_for_ns;
            self.refrains_for_ns = (2 * self.refrains_for_ns).min(MOST_NS);
        }
        self.was_long = ended_ns.saturating_sub(began_ns) >= LONG_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a yield of that length at that moment, and returns for how long the stage does not yield
    /// afterwards.
    fn refrains(yielding: &mut Yielding, at_ns: u64, took_ns: u64) -> u64 {
        assert!(yielding.may_yield(at_ns));
        yielding.yielded(at_ns, at_ns + took_ns);
        yielding.refrains_until_ns.saturating_sub(at_ns + took_ns)
    }

    #[test]
    fn it_refrains_when_yields_have_taken_long_and_longer_if_they_still_do() {
        let (mut yielding, mut now_ns) = (Yielding::default(), 0);
        assert_eq!(refrains(&mut yielding, 0, LONG_NS - 1), 0);
        assert_eq!(refrains(&mut yielding, LONG_NS, LONG_NS), 0, "once is no habit");
        for times in [1, 2, 4, 8, 16, 16] {
            now_ns += MOST_NS + 2 * LONG_NS;
            assert_eq!(refrains(&mut yielding, now_ns, LONG_NS), times * REFRAINS_NS);
            assert!(!yielding.may_yield(now_ns + LONG_NS + times * REFRAINS_NS - 1));
        }
        now_ns += MOST_NS + 2 * LONG_NS;
        assert_eq!(refrains(&mut yielding, now_ns, LONG_NS - 1), 0);
        assert_eq!(refrains(&mut yielding, now_ns + LONG_NS, LONG_NS), 0, "all is forgotten");
    }

    #[test]
    fn one_long_yield_in_many_is_a_group_whose_time_was_used_up() {
        let mut yielding = Yielding::default();
        for at in 0..1000 {
            let took_ns = if at % 3 == 0 { 40 * LONG_NS } else { 1 };
            assert_eq!(refrains(&mut yielding, at * 100 * LONG_NS, took_ns), 0);
        }
    }
}
