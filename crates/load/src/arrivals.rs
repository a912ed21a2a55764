//! Which session comes next, and when: one thread's share of the sessions of each class.
//!
//! Classes take turns with the numbers of sessions: of `c` classes, session `n` of the run is session `n / c`
//! of class `n mod c`. Of these, thread `t` of so many plays `t`, `t + threads`, and so on.

use crate::record::Nanos;
use crate::run::{Class, Load};
use crate::schedule::Schedule;

/// Sessions to come.
pub(crate) struct Arrivals(Vec<OfClass>);

struct OfClass {
    kind: Kind,
    /// The number of the next session in its class.
    number: u64,
    step: u64,
    count: u64,
}

enum Kind {
    /// By a schedule; the time of the next one.
    Scheduled(Schedule, Nanos),
    /// As one leaves; so many at a time.
    AsOneLeaves(u64),
}

impl Arrivals {
    /// Those of thread `number` of so many.
    pub(crate) fn new(classes: &[Class], number: usize, threads: usize) -> Self {
        let (first, step) = (number as u64, threads as u64);
        let of_class = |class: &Class| match &class.load {
            Load::Arriving { schedule, count, .. } => {
                let mut schedule = schedule.clone();
                let at = schedule.nth(number).unwrap_or(Nanos::MAX);
                let kind = Kind::Scheduled(schedule, at);
                OfClass { kind, number: first, step, count: count.unwrap_or(u64::MAX) }
            }
            Load::Closed { connections, count, .. } => {
                let kind = Kind::AsOneLeaves(share(*connections, first, step));
                OfClass { kind, number: first, step, count: count.unwrap_or(u64::MAX) }
            }
        };
        Self(classes.iter().map(of_class).collect())
    }

    /// The number of the session that has been due for longest, if one is by now, and when it was.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<(u32, Nanos)> {
        let classes = self.0.len() as u64;
        let earliest = self.0.iter_mut().enumerate().min_by_key(|(_, of)| of.at());
        let (class, of) = earliest.filter(|(_, of)| of.at() <= now)?;
        let Kind::Scheduled(schedule, at) = &mut of.kind else { return None };
        let intended = *at;
        *at = schedule.nth(of.step as usize - 1).unwrap_or(Nanos::MAX);
        Some(((of.take() * classes + class as u64) as u32, intended))
    }

    /// When the next one is due; the end of time, if none is.
    pub(crate) fn next_at(&self) -> Nanos {
        self.0.iter().map(OfClass::at).min().unwrap_or(Nanos::MAX)
    }

    /// The classes that are closed loops, with how many sessions there are at a time.
    pub(crate) fn loops(&self) -> Vec<(u32, u64)> {
        let loops = self.0.iter().zip(0..).filter_map(|(of, class)| match of.kind {
            Kind::AsOneLeaves(at_a_time) => Some((class, at_a_time)),
            Kind::Scheduled(..) => None,
        });
        loops.collect()
    }

    /// The session that comes as this one leaves, or as the first ones of a class do, if its class is a
    /// closed loop.
    pub(crate) fn after(&mut self, session: u32) -> Option<u32> {
        let classes = self.0.len() as u64;
        let class = u64::from(session) % classes;
        let of = &mut self.0[class as usize];
        let is_loop = matches!(of.kind, Kind::AsOneLeaves(_));
        (is_loop && of.number < of.count).then(|| (of.take() * classes + class) as u32)
    }

    /// Whether none is left.
    pub(crate) fn over(&self) -> bool {
        self.0.iter().all(|of| of.number >= of.count)
    }
}

impl OfClass {
    /// When its next session is due by a schedule.
    fn at(&self) -> Nanos {
        match self.kind {
            Kind::Scheduled(_, at) if self.number < self.count => at,
            _ => Nanos::MAX,
        }
    }

    fn take(&mut self) -> u64 {
        let number = self.number;
        self.number += self.step;
        number
    }
}

/// How many of `all` fall to a thread.
pub(crate) fn share(all: u32, thread: u64, threads: u64) -> u64 {
    (u64::from(all) + threads - 1 - thread) / threads
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::Timeouts;

    #[test]
    fn shares_add_up() {
        for (all, threads) in [(1, 1), (7, 3), (64, 2), (2, 5), (15_000, 4)] {
            let sum: u64 = (0..threads).map(|thread| share(all, thread, threads)).sum();
            assert_eq!(sum, u64::from(all));
            assert!(share(all, 0, threads) - share(all, threads - 1, threads) <= 1);
        }
    }

    #[test]
    fn classes_take_turns_with_numbers_and_come_by_their_times() {
        let second = Duration::from_secs(1);
        let class = |load| Class {
            name: String::new(),
            load,
            sources: Vec::new(),
            handshakes_only: false,
            timeouts: Timeouts { connect: second, reply: second, think: second, retries: 0 },
        };
        let at = |ms: &[u64]| Load::Arriving {
            schedule: Schedule::logged(ms.iter().map(|ms| Duration::from_millis(*ms))),
            count: Some(ms.len() as u64),
            kept: None,
        };
        let looped = Load::Closed { connections: 3, count: Some(4), kept: false };
        let classes = [class(at(&[10, 20, 40])), class(looped), class(at(&[0, 15, 16]))];
        let mut alone = Arrivals::new(&classes, 0, 1);
        let come = |arrivals: &mut Arrivals, ms: u64| {
            std::iter::from_fn(|| arrivals.due(ms * 1_000_000)).map(|(number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!(come(&mut alone, 15), [2, 0, 5]);
        assert_eq!(alone.next_at(), 16_000_000);
        assert_eq!(alone.loops(), [(1, 3)]);
        assert_eq!(
            [alone.after(1), alone.after(1), alone.after(4), alone.after(7)].map(Option::unwrap),
            [1, 4, 7, 10]
        );
        assert_eq!((alone.after(10), alone.after(2), alone.over()), (None, None, false));
        assert_eq!(come(&mut alone, 99), [8, 3, 6]);
        assert!(alone.over());
        let mut second_of_two = Arrivals::new(&classes, 1, 2);
        assert_eq!(come(&mut second_of_two, 99), [5, 3]);
        assert_eq!((second_of_two.loops(), second_of_two.after(1)), (vec![(1, 1)], Some(4)));
    }
}
