//! Whether the generator had the CPU time that it wanted, second by second.
//!
//! A thread that is busy all the time, or that queues for its core behind others, issues requests
//! late and notices replies late: what is measured then is the generator. An average over the run would hide
//! the seconds in which that was so.

use machine::process::RunTime;

use crate::record::Nanos;

/// Part of a second that a thread may want its core for, or run.
const SATURATED: f64 = 0.97;
/// What is shorter than this is no second.
const SHORTEST: Nanos = 900_000_000;

/// The measured time of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Seconds that were sampled.
    pub seconds: u64,
    /// Seconds in which a thread ran, or waited for its core, all the time.
    pub saturated: u64,
    /// The saturated seconds in which the thread ran all the time, so no other program took its core.
    pub ran_throughout: u64,
    /// All the time that was sampled, whole seconds or not.
    pub time: Nanos,
    /// Time spent running.
    pub ran: Nanos,
    /// Time spent waiting for the core although there was something to do.
    pub waited: Nanos,
    /// The largest part of a second for which a thread wanted its core.
    pub most: f64,
}

/// A thread's account as of some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    at: Nanos,
    time: RunTime,
}

impl Account {
    /// That of the calling thread; `None` where the kernel keeps none.
    pub(super) fn of_this_thread(at: Nanos) -> Option<Self> {
        Some(Self { at, time: RunTime::of_this_thread()? })
    }
}

impl Pressure {
    /// Takes in what a thread did from one moment to another.
    pub(super) fn add(&mut self, from: Account, to: Account) {
        let time = to.at.saturating_sub(from.at);
        let ran = to.time.ran.saturating_sub(from.time.ran);
        let waited = to.time.waited.saturating_sub(from.time.waited);
        self.time += time;
        self.ran += ran;
        self.waited += waited;
        if time < SHORTEST {
            return;
        }
        let part = (ran + waited) as f64 / time as f64;
        self.seconds += 1;
        self.saturated += u64::from(part > SATURATED);
        self.ran_throughout += u64::from(ran as f64 / time as f64 > SATURATED);
        self.most = self.most.max(part.min(1.0));
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.saturated += other.saturated;
        self.ran_throughout += other.ran_throughout;
        self.time += other.time;
        self.ran += other.ran;
        self.waited += other.waited;
        self.most = self.most.max(other.most);
    }

    /// The part of the time for which threads waited for their cores, 0 to 1; 0 where the kernel keeps no
    /// accounts.
    pub fn waited_part(&self) -> f64 {
        if self.time == 0 { 0.0 } else { self.waited as f64 / self.time as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn waiting_for_the_core_is_pressure_as_well() {
        let at = |at: u64, ran: u64, waited: u64| Account {
            at: at * MS,
            time: RunTime { ran: ran * MS, waited: waited * MS },
        };
        let mut pressure = Pressure::default();
        pressure.add(at(0, 0, 0), at(1000, 400, 100));
        pressure.add(at(1000, 400, 100), at(2000, 900, 590));
        pressure.add(at(2000, 900, 590), at(3000, 1880, 600));
        pressure.add(at(3000, 1880, 600), at(3100, 1980, 600));
        let expected = Pressure {
            seconds: 3,
            saturated: 2,
            ran_throughout: 1,
            time: 3100 * MS,
            ran: 1980 * MS,
            waited: 600 * MS,
            most: 0.99,
        };
        assert_eq!(pressure, expected);
        let mut both = Pressure::default();
        both.take_in(&pressure);
        both.take_in(&pressure);
        assert_eq!((both.seconds, both.saturated, both.ran_throughout), (6, 4, 2));
        assert!((both.waited_part() - 600.0 / 3100.0).abs() < 1e-9);
    }
}
