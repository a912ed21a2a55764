//! Bounds blocking calls, so that a slow client cannot hold the worker with them.
//!
//! On a blocking socket, one `sendfile` sends a whole file (Pariag et al. 2007, section 4.3; Harji et al.
//! 2012, section 6.2, on the benefit when files come from the disk). It returns when the client has made
//! room for the last byte. So the client decides how long it holds the worker. Three things bound this:
//!
//! - An [`Alarm`] interrupts the call again and again. That ends the reply's turn, whatever is left of it,
//!   and the worker checks its timers, its supervisor and its other clients. What the client has taken by
//!   then is counted as usual, and the timers of the connection's state machine judge it.
//!   [`TimerKind::Write`](http1::TimerKind::Write) bounds each period, and bounds the whole reply by the
//!   minimum rate.
//! - The alarm also interrupts the receive in which a worker with one client waits for the next request:
//!   see `architecture/one_at_a_time.rs`.
//! - A worker with many clients has an [`Allowance`] of time in such calls. A client that uses it up is
//!   served without blocking from then on. So are all other clients until the allowance has grown again.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use sys::alarm::Alarm;

use crate::config::Settings;

/// How a worker makes blocking sends.
#[derive(Debug)]
pub struct BlockingSends {
    alarm: Alarm,
    period_ms: u64,
    /// When a send last began, in monotonic milliseconds.
    began_ms: u64,
    /// `None`: the worker has one client at a time. The client may hold it for as long as the client's
    /// timers allow.
    allowance: Option<Allowance>,
}

/// The most bytes in one `sendfile`. At this size the cost of one more call cannot be measured. No alarm
/// interrupts a call that the disk delays, so the size bounds it.
pub const MOST_AT_ONCE: u64 = 16 << 20;

/// How often a send is interrupted: rarely enough to cost nothing, often enough for a supervisor that waits
/// for an answer.
const PERIOD: Duration = Duration::from_millis(50);

/// The alarm continues to ring for this long after the last send. That is cheaper than setting it for each
/// send.
const QUIET_MS: u64 = 1000;

impl BlockingSends {
    /// For a worker (the calling thread) with many clients. Sends may hold it for `send_hold` in total
    /// before other clients come first. This is at most a quarter of the write timeout; otherwise clients
    /// would miss that timeout because of other clients. `rings` counts the alarm's rings.
    ///
    /// # Errors
    ///
    /// There is no timer left.
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
    /// There is no timer left.
    pub fn of_one_client(rings: &'static AtomicU32) -> io::Result<Self> {
        Self::new(PERIOD, rings, None)
    }

    fn new(period: Duration, rings: &'static AtomicU32, allowance: Option<Allowance>) -> io::Result<Self> {
        let alarm = Alarm::new(period, rings)?;
        Ok(Self { alarm, period_ms: period.as_millis() as u64, began_ms: 0, allowance })
    }

    /// Whether a send that begins now may block. If so, it will be interrupted.
    pub fn begin(&mut self, now_ms: u64) -> bool {
        if self.allowance.as_mut().is_some_and(|allowance| allowance.is_used_up(now_ms)) {
            return false;
        }
        self.began_ms = now_ms;
        self.alarm.start();
        self.alarm.has_rung();
        true
    }

    /// Whether a receive that begins now will be interrupted, and when at the latest.
    pub fn breaks_off_within_ms(&self) -> Option<u64> {
        self.alarm.is_running().then_some(2 * self.period_ms)
    }

    /// Whether the alarm has rung since the send began.
    pub fn has_rung(&mut self) -> bool {
        self.alarm.has_rung()
    }

    /// The alarm has interrupted a send. These samples show how long clients hold the worker: the alarm
    /// rings independently of the sends, and does not interrupt work that a send does without waiting.
    pub fn held(&mut self, now_ms: u64) {
        if let Some(allowance) = &mut self.allowance {
            allowance.spend(self.period_ms, now_ms);
        }
    }

    /// Called before the worker waits for something else. The alarm stops when nothing has been sent for a
    /// while.
    pub fn rest(&mut self, now_ms: u64) {
        if self.alarm.is_running() && now_ms.saturating_sub(self.began_ms) >= QUIET_MS {
            self.alarm.stop();
        }
    }
}

/// Time for which clients may hold a worker with blocking sends. It grows with time, up to its initial
/// value, and is spent at double speed. So in the long run clients hold the worker for half of its time.
/// They never hold it for longer at once than the allowance and a period of the alarm.
#[derive(Debug)]
struct Allowance {
    /// Both in milliseconds.
    most: i64,
    left: i64,
    /// The time up to which growth has been counted.
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
        /// beyond it. The last send may exceed this, because it is interrupted a little later.
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
