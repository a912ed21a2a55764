//! How long clients waited, whether or not a reply came.

use super::Times;
use crate::record::{Call, Outcome};

/// How long clients waited, with those that got no reply: percentiles of whole replies alone tell nothing of
/// a server that stops answering.
///
/// A call without a reply counts as longer than every reply. So percentiles up to the part of the calls that
/// were answered are known, however soon the others failed. Beyond that part they are lower bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// All of them, each for as long as it was waited for.
    pub times: Times,
    /// Those that ended with a whole reply, or with the handshake that was wanted.
    replies: Times,
    /// Those that nobody knows how long they would have taken: clients gave up, or the run ended.
    given_up: u64,
    /// How much longer clients would have waited for those that failed before, in nanoseconds, together.
    left: u128,
}

/// A time in milliseconds that a run came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The time, or the least that it can be.
    pub ms: f64,
    /// It may be more.
    pub is_bound: bool,
    /// The most that it can be; none if that is not known.
    pub at_most_ms: Option<f64>,
}

impl Found {
    fn exactly(ms: f64) -> Self {
        Self { ms, is_bound: false, at_most_ms: Some(ms) }
    }
}

impl Waits {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.times.count()
    }

    /// How many of them ended without a reply.
    pub fn bounds(&self) -> u64 {
        self.times.count() - self.replies.count()
    }

    /// The part of them that ended with a reply: percentiles up to it are known. None where there are none.
    pub fn known_part(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.replies.count() as f64 / self.count() as f64)
    }

    /// The mean. It is between the times that were waited, and those that clients would have waited; none
    /// where there is nothing.
    pub fn mean(&self) -> Option<Found> {
        let count = self.count();
        match self.bounds() {
            _ if count == 0 => None,
            0 => Some(Found::exactly(self.times.mean_ms())),
            _ => {
                let ms = self.times.mean_ms();
                let at_most_ms = (self.given_up == 0).then(|| ms + self.left as f64 / 1e6 / count as f64);
                Some(Found { ms, is_bound: true, at_most_ms })
            }
        }
    }

    /// The time that so many percent (0 to 100) do not exceed; none where there is nothing.
    pub fn percentile(&self, percent: f64) -> Option<Found> {
        let (count, replies) = (self.count(), self.replies.count());
        if count == 0 {
            return None;
        }
        let rank = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count);
        if rank <= replies {
            // In the middle of its rank, so that rounding leads to no other.
            let part = (rank as f64 - 0.5) / replies as f64;
            return Some(Found::exactly(self.replies.percentile_ms(part * 100.0)));
        }
        let ms = self.times.percentile_ms(percent).max(self.replies.percentile_ms(100.0));
        Some(Found { ms, is_bound: true, at_most_ms: None })
    }

    /// The standard deviation of the times that were waited, in milliseconds.
    pub fn deviation_ms(&self) -> f64 {
        self.times.deviation_ms()
    }

    pub(super) fn call(&mut self, call: &Call) {
        let waited = call.ended.saturating_sub(call.intended);
        match call.outcome {
            Outcome::Reply | Outcome::Handshake => self.replies.record(waited),
            Outcome::Unfinished => self.given_up += 1,
            outcome if outcome.is_timeout() => self.given_up += 1,
            outcome if outcome.reached_server() || outcome == Outcome::Abandoned => {
                self.left += u128::from(call.gives_up.saturating_sub(call.ended));
            }
            // Nobody waited for a connection that was refused at once.
            _ => return,
        }
        self.times.record(waited);
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.times.take_in(&other.times);
        self.replies.take_in(&other.replies);
        self.given_up += other.given_up;
        self.left += other.left;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;
    use crate::record::Nanos;

    const MS: Nanos = 1_000_000;

    /// The least and the most that each is, in whole milliseconds.
    fn told(found: Option<Found>) -> (u64, Option<u64>) {
        let whole = |ms: f64| ms.round() as u64;
        found.map_or((0, None), |found| (whole(found.ms), found.at_most_ms.map(whole)))
    }

    #[test]
    fn one_fast_failure_hides_the_top_alone() {
        let mut waits = Waits::default();
        assert_eq!((waits.mean(), waits.percentile(50.0), waits.known_part()), (None, None, None));
        for ms in 1..=99 {
            waits.call(&Call { intended: 0, ..call(Outcome::Reply, 0, ms * MS) });
        }
        let failed = call(Outcome::CutShort, 0, MS / 10);
        waits.call(&Call { intended: 0, gives_up: 10_000 * MS, ..failed });
        assert_eq!((waits.count(), waits.bounds(), waits.known_part()), (100, 1, Some(0.99)));
        assert_eq!(told(waits.percentile(50.0)), (50, Some(50)));
        assert_eq!(told(waits.percentile(99.0)), (99, Some(99)));
        assert_eq!(told(waits.percentile(99.5)), (99, None));
        assert_eq!(told(waits.percentile(100.0)), (99, None));
        // 49.5 ms, and 100 more if it had been answered at the last moment.
        let mean = waits.mean().unwrap();
        assert!(mean.is_bound && (mean.ms - 49.5).abs() < 0.1, "{mean:?}");
        assert!(mean.at_most_ms.is_some_and(|ms| (ms - 149.5).abs() < 0.2), "{mean:?}");
    }

    #[test]
    fn those_given_up_have_no_end() {
        let mut waits = Waits::default();
        for _ in 0..90 {
            waits.call(&Call { intended: 0, ..call(Outcome::Reply, 0, 4 * MS) });
        }
        for _ in 0..10 {
            waits.call(&Call { intended: 0, ..call(Outcome::ReplyTimeout, 0, 1000 * MS) });
        }
        let mut both = waits.clone();
        both.take_in(&Waits::default());
        assert_eq!(both, waits);
        assert_eq!(told(waits.percentile(90.0)), (4, Some(4)));
        assert_eq!(told(waits.percentile(91.0)), (1000, None));
        assert_eq!(told(waits.mean()), (104, None));
    }
}
