//! Whether a client makes progress, or only occupies its slot.
//!
//! Timeouts allow a slow client many seconds, which costs nothing while there is room. When other clients
//! wait for its slot, the client has one second for each step: to send its request, to send the next one,
//! to close. A reply may take as long as it takes, if the client keeps up with the minimum rate in each
//! period of two seconds. The period is that long because a packet that is lost more than once is more than
//! one second late.

use http1::{Tick, Timeouts};

use crate::counters::ConnectionState;

/// What a worker's client is doing, and since when.
#[derive(Debug)]
pub(super) struct Progress {
    stage: Stage,
    /// When it was first seen doing that. During a reply: when the current period began.
    since: Tick,
    /// The value of [`Seen::taken`] at that time.
    taken: u64,
    /// It was too slow in the previous period.
    slow: bool,
}

/// What is seen of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) stage: Stage,
    /// Bytes that this client and those before it have taken. Used only during a reply.
    pub(super) taken: u64,
}

/// What a client is doing: a TLS handshake, or the state of its connection after that many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) state: ConnectionState,
    pub(super) requests: u32,
    pub(super) is_shaking_hands: bool,
}

/// How long a client may stay in one stage.
const STAGE_TICKS: u32 = 1000 / Tick::MS;
/// The period in which it has to take some of a reply.
const TAKING_TICKS: u32 = 2000 / Tick::MS;

impl Progress {
    /// For a client that has been in that stage since then.
    pub(super) fn new(stage: Stage, since: Tick) -> Self {
        Self { stage, since, taken: 0, slow: false }
    }

    /// Notes what is seen now, and returns whether the client is too slow. It must take `rate` bytes per
    /// second; with 0, any number will do.
    pub(super) fn is_too_slow(&mut self, now: Tick, seen: Seen, rate: u32) -> bool {
        if self.stage != seen.stage {
            *self = Self { stage: seen.stage, since: now, taken: seen.taken, slow: false };
            return false;
        }
        let elapsed = now.remaining(self.since);
        if seen.stage.state != ConnectionState::Writing {
            return elapsed >= STAGE_TICKS;
        }
        if elapsed >= TAKING_TICKS {
            self.slow = seen.taken.saturating_sub(self.taken) < Timeouts::progress(elapsed, rate);
            (self.since, self.taken) = (now, seen.taken);
        }
        self.slow
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: u32 = 500;

    fn seen(state: ConnectionState, requests: u32, taken: u64) -> Seen {
        Seen { stage: Stage { state, requests, is_shaking_hands: false }, taken }
    }

    fn new_client() -> Progress {
        Progress::new(seen(ConnectionState::ReadingHead, 0, 0).stage, at(0))
    }

    fn at(ms: u32) -> Tick {
        Tick(u32::MAX).after(ms / Tick::MS)
    }

    #[test]
    fn a_request_has_a_second_to_come_whatever_trickles_in() {
        let mut progress = new_client();
        let head = seen(ConnectionState::ReadingHead, 0, 0);
        assert!(!progress.is_too_slow(at(990), head, RATE));
        assert!(progress.is_too_slow(at(1000), head, RATE));
        let body = seen(ConnectionState::ReadingBody, 1, 0);
        assert!(!progress.is_too_slow(at(1010), body, RATE));
        assert!(progress.is_too_slow(at(2010), body, RATE));
    }

    #[test]
    fn whoever_asks_again_has_another_second() {
        let mut progress = new_client();
        for round in 1..10 {
            let idle = seen(ConnectionState::Idle, round, 0);
            assert!(!progress.is_too_slow(at(round * 2000), idle, RATE));
            assert!(!progress.is_too_slow(at(round * 2000 + 900), idle, RATE));
            assert!(progress.is_too_slow(at(round * 2000 + 1500), idle, RATE));
        }
    }

    proptest! {
        /// However often it is checked, and whatever came before, a reader is judged by what it takes.
        #[test]
        fn a_reply_is_judged_by_the_rate(
            stall_ms in 0_u32..100_000,
            looks_ms in prop::collection::vec(10_u32..700, 20..60),
            rate in 0_u32..2000,
        ) {
            let writing = |taken| seen(ConnectionState::Writing, 3, taken);
            let mut progress = new_client();
            progress.is_too_slow(at(0), writing(77), RATE);
            // There may have been no waiting client in all that time.
            let mut now = stall_ms;
            progress.is_too_slow(at(now), writing(77), RATE);
            let (began, mut longest, mut taken) = (now, 0, 77);
            for look in looks_ms {
                now += look;
                longest = longest.max(look);
                taken += u64::from(rate) * u64::from(look / Tick::MS * Tick::MS) / 1000 + u64::from(rate > 0);
                let is_too_slow = progress.is_too_slow(at(now), writing(taken), RATE);
                // By then a whole period has passed at this rate.
                if now - began >= 2 * (2000 + longest) {
                    prop_assert!(rate < RATE + 100 || !is_too_slow, "{rate} {}", now - began);
                    prop_assert!(rate > RATE - 200 || is_too_slow, "{rate} {}", now - began);
                }
            }
        }
    }
}
