//! Sessions that arrived in the window, and those that ended in it, whenever they had arrived.

use std::ops::Range;

use super::{Moments, Rates, add_all};
use crate::record::{Nanos, SessionEnd, SessionOutcome};

/// Session lengths that are told apart.
const LONGEST_SESSION: usize = 1024;

/// How sessions came and went.
#[derive(Clone, Debug)]
pub struct Sessions {
    /// Those that were due in the window, and arrived.
    pub arrived: u64,
    /// Those that ended with all calls answered.
    pub completed: u64,
    /// Those that ended with a call that failed.
    pub failed: u64,
    /// Those that were under way when the window ended.
    pub unfinished: u64,
    /// Completed sessions in each five seconds.
    pub rates: Rates,
    /// Completed sessions, from arrival to the end, in seconds.
    pub lifetime_s: Moments,
    /// Failed sessions, from arrival to the failure, in seconds.
    pub failtime_s: Moments,
    /// Connections of completed sessions.
    pub connections: u64,
    /// How many sessions that ended got so many replies; the last place counts those with more.
    pub lengths: Vec<u64>,
}

impl Sessions {
    pub(super) fn new(from: Nanos) -> Self {
        Self {
            arrived: 0,
            completed: 0,
            failed: 0,
            unfinished: 0,
            rates: Rates::new(from),
            lifetime_s: Moments::default(),
            failtime_s: Moments::default(),
            connections: 0,
            lengths: vec![0; LONGEST_SESSION + 1],
        }
    }

    pub(super) fn session(&mut self, session: &SessionEnd, window: &Range<Nanos>) {
        self.arrived += u64::from(window.contains(&session.intended));
        if session.outcome == SessionOutcome::Unfinished || session.ended >= window.end {
            self.unfinished += u64::from(session.intended < window.end);
            return;
        }
        if session.ended < window.start {
            return;
        }
        let seconds = session.ended.saturating_sub(session.started) as f64 / 1e9;
        if session.outcome == SessionOutcome::Completed {
            self.completed += 1;
            self.connections += u64::from(session.connections);
            self.lifetime_s.add(seconds);
            self.rates.add(session.ended);
        } else {
            self.failed += 1;
            self.failtime_s.add(seconds);
        }
        self.lengths[(session.replies as usize).min(LONGEST_SESSION)] += 1;
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.completed += other.completed;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.rates.take_in(&other.rates);
        self.lifetime_s.take_in(&other.lifetime_s);
        self.failtime_s.take_in(&other.failtime_s);
        self.connections += other.connections;
        add_all(&mut self.lengths, &other.lengths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_come_and_those_that_go_are_counted_apart() {
        let mut sessions = Sessions::new(10);
        for (intended, ended, outcome) in [
            (1, 9, SessionOutcome::Completed),
            (1, 12, SessionOutcome::Completed),
            (11, 12, SessionOutcome::Failed),
            (11, 25, SessionOutcome::Completed),
            (15, 16, SessionOutcome::Unfinished),
            (1, 25, SessionOutcome::Unfinished),
            (21, 25, SessionOutcome::Completed),
        ] {
            let end = SessionEnd { intended, started: intended, ended, replies: 1, connections: 1, outcome };
            sessions.session(&end, &(10..20));
        }
        let Sessions { arrived, completed, failed, unfinished, .. } = sessions;
        assert_eq!((arrived, completed, failed, unfinished), (3, 1, 1, 3));
        assert_eq!(sessions.lengths[..2], [0, 2]);
    }
}
