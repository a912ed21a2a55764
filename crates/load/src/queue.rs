//! The queue of sessions of a class that have arrived and wait for one of the connections that a thread keeps
//! for it.
//!
//! A session gives up at the timeout for a connection. So if a server is slower than its load, no session
//! stays in the queue for longer than that, and the queue is not endless.

use std::collections::VecDeque;

use crate::kit::Kit;
use crate::record::{Call, Nanos, Outcome, SessionEnd, SessionOutcome};

/// A session that has arrived, or is about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Among all of the run.
    pub(crate) number: u32,
    /// When it was due.
    pub(crate) intended: Nanos,
    /// When it came: later, if the generator was late.
    pub(crate) came: Nanos,
}

/// In order of intended arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue(VecDeque<Arrival>);

impl Arrival {
    /// Its first call ends like this before it ever had a connection, and the session with it.
    pub(crate) fn turn_away(self, kit: &mut Kit<'_>, outcome: Outcome) {
        let Self { number, intended, came } = self;
        let ended = kit.now();
        let call = Call { ended, outcome, ..Call::new(kit.first_request(number), number, 0, intended, came) };
        kit.recorder.issue(&call);
        kit.recorder.call(&call);
        let outcome = match outcome {
            Outcome::Unfinished => SessionOutcome::Unfinished,
            _ => SessionOutcome::Failed,
        };
        let started = came;
        kit.recorder.session(&SessionEnd { intended, started, ended, replies: 0, connections: 0, outcome });
    }
}

impl Queue {
    pub(crate) fn join(&mut self, arrival: Arrival) {
        self.0.push_back(arrival);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who has waited longest; nobody, if nobody waits.
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        self.0.pop_front()
    }

    /// Who has waited longest, if that is for so long already.
    pub(crate) fn next_to_give_up(&mut self, timeout: Nanos, now: Nanos) -> Option<Arrival> {
        self.0.pop_front_if(|arrival| arrival.came + timeout <= now)
    }

    /// How many wait, and since when the first of them was due.
    pub(crate) fn waits(&self) -> Option<(Nanos, u64)> {
        self.0.front().map(|first| (first.intended, self.0.len() as u64))
    }

    /// When the one came who has waited longest.
    pub(crate) fn since(&self) -> Option<Nanos> {
        self.0.front().map(|arrival| arrival.came)
    }

    /// How many were due before a time.
    pub(crate) fn due_before(&self, time: Nanos) -> u64 {
        self.0.partition_point(|arrival| arrival.intended < time) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served() {
        let mut queue = Queue::default();
        for number in 0..4 {
            let due = u64::from(number) * 10;
            queue.join(Arrival { number, intended: due, came: due + 5 });
        }
        assert_eq!((queue.since(), queue.due_before(20), queue.due_before(21)), (Some(5), 2, 3));
        let mut left = || queue.next_to_give_up(100, 115).map(|arrival| arrival.number);
        assert_eq!([left(), left(), left()], [Some(0), Some(1), None]);
        assert_eq!(queue.next().map(|arrival| arrival.number), Some(2));
        assert!(queue.next().is_some() && queue.is_empty() && queue.next().is_none());
    }
}
