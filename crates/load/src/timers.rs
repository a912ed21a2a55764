//! Wake-ups of thousands of sessions. Deadlines come to the millisecond: a wheel of slots, one for each
//! millisecond of the next few seconds. Pauses end when they should: a millisecond later, half of it would be
//! in the waits of what comes next. They are fewer, in a heap.
//!
//! A wake-up is a promise to look, not a deadline: who is woken too early, because its deadline has moved on
//! or lies beyond the wheel, is put in again. So a deadline that moves with each request costs nothing. Where
//! a nearer wake-up overtakes one, the later one stays in its slot, and is dropped when its time comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::record::Nanos;

/// Milliseconds that the wheel spans; a power of two.
const SLOTS: u64 = 8192;
const NANOS_PER_SLOT: Nanos = 1_000_000;

/// Which sessions are to be looked at when.
#[derive(Debug)]
pub(crate) struct Timers {
    slots: Vec<Vec<u32>>,
    /// A bit for each slot that holds something.
    occupied: Vec<u64>,
    /// The first slot that has not been emptied, counted from the beginning of the run.
    next: u64,
    /// For each session the nearest wake-up, the only one that counts; [`Nanos::MAX`] if it has none.
    wake_ups: Vec<Nanos>,
    /// What [`expired`](Self::expired) is handing out.
    due: Vec<u32>,
    /// Pauses, the nearest first.
    pauses: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: vec![0; (SLOTS / 64) as usize],
            next: 0,
            wake_ups: Vec::new(),
            due: Vec::new(),
            pauses: BinaryHeap::new(),
        }
    }

    /// Has a session looked at when a time has passed, or when the wheel ends before that; sooner, if it was
    /// going to be.
    pub(crate) fn schedule(&mut self, session: u32, at: Nanos) {
        // Rounded up: nobody is woken before its time.
        let slot = at.div_ceil(NANOS_PER_SLOT).clamp(self.next, self.next + SLOTS - 1);
        let session_at = session as usize;
        if self.wake_ups.len() <= session_at {
            self.wake_ups.resize(session_at + 1, Nanos::MAX);
        }
        if self.wake_ups[session_at] <= slot * NANOS_PER_SLOT {
            return;
        }
        self.wake_ups[session_at] = slot * NANOS_PER_SLOT;
        let place = slot % SLOTS;
        self.slots[place as usize].push(session);
        self.occupied[(place / 64) as usize] |= 1 << (place % 64);
    }

    /// Has a session looked at just when a time has passed.
    pub(crate) fn schedule_precisely(&mut self, session: u32, at: Nanos) {
        self.pauses.push(Reverse((at, session)));
    }

    /// A session whose wake-up has come, one at a time.
    pub(crate) fn expired(&mut self, now: Nanos) -> Option<u32> {
        if let Some(&Reverse((at, session))) = self.pauses.peek()
            && at <= now
        {
            self.pauses.pop();
            return Some(session);
        }
        loop {
            while let Some(session) = self.due.pop() {
                let wake_up = &mut self.wake_ups[session as usize];
                if *wake_up <= now {
                    *wake_up = Nanos::MAX;
                    return Some(session);
                }
            }
            let present = now / NANOS_PER_SLOT + 1;
            let Some(slot) = self.next_occupied().filter(|&slot| slot < present) else {
                // Whatever lies in between is empty: the wheel's span begins now.
                self.next = self.next.max(present);
                return None;
            };
            self.next = slot + 1;
            let place = (slot % SLOTS) as usize;
            self.occupied[place / 64] &= !(1 << (place % 64));
            // The slot gets the emptied vector, so that neither is ever allocated anew.
            std::mem::swap(&mut self.slots[place], &mut self.due);
        }
    }

    /// When the next wake-up comes, if there is one.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let pause = self.pauses.peek().map(|Reverse((at, _))| *at);
        self.next_occupied().map(|slot| slot * NANOS_PER_SLOT).into_iter().chain(pause).min()
    }

    fn next_occupied(&self) -> Option<u64> {
        let start = self.next % SLOTS;
        let words = SLOTS / 64;
        for step in 0..=words {
            let word = (start / 64 + step) % words;
            let mut bits = self.occupied[word as usize];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            } else if step == words {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                let place = word * 64 + u64::from(bits.trailing_zeros());
                return Some(self.next + (place + SLOTS - start) % SLOTS);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn nobody_is_woken_early_and_nobody_forgotten() {
        let mut timers = Timers::new();
        assert_eq!(timers.next(), None);
        timers.schedule(1, 5 * MS + 1);
        assert_eq!(timers.next(), Some(6 * MS));
        timers.schedule(2, 3 * MS);
        assert_eq!(timers.next(), Some(3 * MS));
        assert_eq!(timers.expired(3 * MS - 1), None);
        assert_eq!(timers.expired(3 * MS), Some(2));
        assert_eq!(timers.expired(5 * MS + 1), None);
        assert_eq!(timers.expired(60 * MS), Some(1));
        assert_eq!(timers.expired(60 * MS), None);
    }

    #[test]
    fn pauses_end_when_they_should() {
        let mut timers = Timers::new();
        timers.schedule(1, 5 * MS + 1);
        timers.schedule_precisely(2, 5 * MS + 10);
        timers.schedule_precisely(3, 5 * MS + 2);
        assert_eq!((timers.next(), timers.expired(5 * MS + 1)), (Some(5 * MS + 2), None));
        assert_eq!((timers.expired(5 * MS + 2), timers.expired(5 * MS + 2)), (Some(3), None));
        assert_eq!((timers.expired(6 * MS), timers.expired(6 * MS)), (Some(2), Some(1)));
        assert_eq!((timers.expired(7 * MS), timers.next()), (None, None));
    }

    #[test]
    fn what_lies_beyond_the_wheel_comes_up_at_its_end() {
        let mut timers = Timers::new();
        timers.schedule(1, u64::MAX);
        assert_eq!(timers.next(), Some((SLOTS - 1) * MS));
        assert_eq!(timers.expired((SLOTS - 1) * MS), Some(1));
        timers.schedule(1, 0);
        assert_eq!(timers.next(), Some(SLOTS * MS), "time that has passed comes up in the next slot");
    }

    #[test]
    fn wake_ups_that_were_overtaken_do_not_pile_up() {
        // A client whose timeout is seconds, and that thinks for a millisecond after each reply.
        let mut timers = Timers::new();
        let mut woken = 0;
        for now in 0..100_000 {
            while timers.expired(now * MS).is_some() {
                woken += 1;
            }
            timers.schedule(7, (now + 5_000) * MS);
            timers.schedule(7, (now + 1) * MS);
        }
        assert_eq!(woken, 99_999, "once for each thought");
        let waiting: usize = timers.slots.iter().map(Vec::len).sum();
        assert!(waiting <= 5_002, "{waiting}");
    }

    proptest! {
        #[test]
        fn wakes_in_order_of_time(
            times in proptest::collection::vec(0_u64..20_000, 1..200),
            step in 1_u64..3_000,
        ) {
            let mut timers = Timers::new();
            let mut left: Vec<u64> = times.clone();
            for (session, at) in times.iter().enumerate() {
                timers.schedule(session as u32, at * MS);
            }
            let mut now = 0;
            while !left.iter().all(|&at| at == u64::MAX) {
                now += step;
                prop_assert!(timers.next().is_some());
                while let Some(session) = timers.expired(now * MS) {
                    let at = times[session as usize];
                    if at > now {
                        timers.schedule(session, at * MS);
                    } else {
                        let in_time = at + step >= now || at + step >= now - now % step;
                        prop_assert!(in_time, "{at} woken at {now}");
                        left[session as usize] = u64::MAX;
                    }
                }
                for at in left.iter().filter(|&&at| at != u64::MAX) {
                    prop_assert!(*at > now, "{at} was not woken by {now}");
                }
            }
        }
    }
}
