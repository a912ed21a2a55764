//! Calls that block, and what keeps a slow client from holding the worker with them.
//!
//! On a socket that blocks, one `sendfile` sends a whole file (Pariag et al. 2007, section 4.3; Harji et al.
//! 2012, section 6.2, on what that is worth when files come from the disk). It comes back when the client has
//! made room for the last byte, so that the client decides how long the worker is held. This bounds it:
//!
//! - An [`Alarm`] breaks the call off again and again. The reply's turn is over then, whatever is left of it:
//!   the worker looks at its timers, its supervisor and its other clients. What the client has taken by then
//!   is counted as ever, and the timers of the connection's state machine judge it:
//!   [`TimerKind::Write`](http1::TimerKind::Write) bounds each period, and by the minimum rate the whole
//!   reply.
//! - The alarm breaks off a receive as well, in which a worker with one client awaits the next request: see
//!   `architecture/one_at_a_time.rs`.
//! - A worker with many clients has an [`Allowance`] of time in such calls. A client that uses it up is
//!   served without blocking from there on, like everybody else until the allowance has grown again.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use sys::alarm::Alarm;

use crate::config::Settings;

/// A worker's means for blocking sends.
#[derive(Debug)]
pub struct BlockingSends {
    alarm: Alarm,
    period_ms: u64,
    /// When a send last began, in monotonic milliseconds.
    began_ms: u64,
    /// `None`: the worker has one client at a time, and may be held for as long as that client's timers
    /// allow.
    allowance: Option<Allowance>,
}

/// The most in one `sendfile`. At this size a call more or less cannot be measured, and one that the disk
/// delays, which no alarm breaks off, has an end.
pub const MOST_AT_ONCE: u64 = 16 << 20;

/// How often a send is broken off: rarely enough to cost nothing, often enough for a supervisor that waits
/// for an answer.
const PERIOD: Duration = Duration::from_millis(50);

/// The alarm goes on ringing for so long after the last send, which is cheaper than to set it for each.
const QUIET_MS: u64 = 1000;

impl BlockingSends {
    /// For a worker (the calling thread) that sends may hold for a while altogether before other clients come
    /// first: as long as the settings say, and a quarter of the write timeout at most, or clients would miss
    /// it because of one another. `rings` counts the alarm's.
    ///
    /// # Errors
    ///
    /// There is no timer to be had.
    pub fn of_many_clients(settings: &Settings, rings: &'static AtomicU32) -> io::Result<Self> {
        let hold = settings.event.send_hold.min(settings.timeouts.write / 4);
        let period = PERIOD.min(hold / 2).max(Duration::from_millis(5));
        let allowance = Some(Allowance::new(hold.as_millis() as u64));
        Self::new(period, rings, allowance)
    }

    /// For a worker (the calling thread) that serves one client at a time.
    ///
    /// # Errors
    ///
    /// There is no timer to be had.
    pub fn of_one_client(rings: &'static AtomicU32) -> io::Result<Self> {
        Self::new(PERIOD, rings, None)
    }

    fn new(period: Duration, rings: &'static AtomicU32, allowance: Option<Allowance>) -> io::Result<Self> {
        let alarm = Alarm::new(period, rings)?;
        Ok(Self { alarm, period_ms: period.as_millis() as u64, began_ms: 0, allowance })
    }

    /// Whether a send that begins now may block. If so, it will be broken off.
    pub fn begin(&mut self, now_ms: u64) -> bool {
        if self.allowance.as_mut().is_some_and(|allowance| allowance.is_used_up(now_ms)) {
            return false;
        }
        self.began_ms = now_ms;
        self.alarm.start();
        self.alarm.has_rung();
        true
    }

    /// Whether a receive that begins now will be broken off, and when at the latest.
    pub fn breaks_off_within_ms(&self) -> Option<u64> {
        self.alarm.is_running().then_some(2 * self.period_ms)
    }

    /// Whether the alarm has rung since the send began.
    pub fn has_rung(&mut self) -> bool {
        self.alarm.has_rung()
    }

    /// The alarm has broken a send off. That tells by sampling how long clients hold the worker: it rings
    /// independently of the sends, and work that a send does without waiting is not broken off.
    pub fn held(&mut self, now_ms: u64) {
        if let Some(allowance) = &mut self.allowance {
            allowance.spend(self.period_ms, now_ms);
        }
    }

    /// Before the worker waits for something else: the alarm stops when nothing has been sent for a while.
    pub fn rest(&mut self, now_ms: u64) {
        if self.alarm.is_running() && now_ms.saturating_sub(self.began_ms) >= QUIET_MS {
            self.alarm.stop();
        }
    }
}

/// Time that clients may hold a worker with sends that block. It grows with time, up to where it began, and
/// is spent at double speed: so in the long run they hold the worker for half of its time, and never for
/// longer at once than the allowance and a period of the alarm.
#[derive(Debug)]
struct Allowance {
    /// Both in milliseconds.
    most: i64,
    left: i64,
    /// Until when growth has been counted.
    counted_ms: u64,
}

impl Allowance {
    fn new(most: u64) -> Self {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        Self { most, left: most, counted_ms: 0 }
    }

    fn is_used_up(&mut self, now_ms: u64) -> bool {
        self.grow(now_ms);
        self.left <= 0
    }

    fn spend(&mut self, held_ms: u64, now_ms: u64) {
        self.grow(now_ms);
        self.left -= 2 * held_ms as i64;
    }

    fn grow(&mut self, now_ms: u64) {
        let grown = now_ms.saturating_sub(self.counted_ms);
        self.left = self.left.saturating_add(grown as i64).min(self.most);
        self.counted_ms = self.counted_ms.max(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However clients come, they hold the worker for no more than the allowance and half of the time
        /// beyond it, but for the last send, which is broken off a little later.
        #[test]
        fn clients_hold_a_worker_for_half_of_its_time(
            steps in prop::collection::vec((0_u64..300, 1_u64..100), 1..300),
        ) {
            let (most, mut allowance) = (1000, Allowance::new(1000));
            let (began, mut now, mut held) = (5000_u64, 5000, 0);
            for (idle, send) in steps {
                now += idle;
                if !allowance.is_used_up(now) {
                    now += send;
                    held += send;
                    allowance.spend(send, now);
                }
                prop_assert!(2 * held <= now - began + most + 200, "{held} of {}", now - began);
            }
        }
    }

    #[test]
    fn is_used_up_by_one_client_in_its_own_time_and_grows_back() {
        let mut allowance = Allowance::new(1000);
        let mut now = 7000;
        while !allowance.is_used_up(now) {
            now += 50;
            allowance.spend(50, now);
        }
        assert_eq!(now, 7950);
        assert!(!allowance.is_used_up(now + 1));
        allowance.spend(50, now + 10);
        assert!(allowance.is_used_up(now + 99));
        assert!(!allowance.is_used_up(now + 101));
        assert!(!allowance.is_used_up(now + 99_999));
        assert_eq!(allowance.left, 1000);
    }

    #[test]
    fn a_worker_with_one_client_may_always_block() {
        let mut sends = BlockingSends::of_one_client(Box::leak(Box::default())).unwrap();
        for round in 1..100 {
            assert!(sends.begin(round * 1000));
            sends.held(round * 1000 + 999);
        }
        sends.rest(u64::MAX);
        assert!(!sends.alarm.is_running());
    }
}
