//! Controls the rate at which new connections are admitted. The target is the time that requests spend in
//! the stages: nine of ten replies should be in time. This is the controller of Welsh and Culler (2003),
//! with other constants.
//!
//! Additive increase, multiplicative decrease:
//!
//! - There is no bound until more than a tenth of the replies are late. Then the bound is half of the rate
//!   at which connections came in.
//! - From then on the bound falls by an eighth if more than a tenth of the replies are late. It rises by a
//!   64th of the rate it fell to if less than a twentieth are late. In between it stays.
//! - The effect of a change shows only after the time at which a reply counts as late. So at least that
//!   time passes between two decisions.
//! - After a fall, the bound does not fall again until the connections already admitted have had time to
//!   finish.
//! - The bound rises only if it has made a client wait, because a bound that is never reached proves
//!   nothing. If it has not been reached for a long time, it is dropped.

/// What was seen since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// The length of that time in nanoseconds.
    pub(super) ns: u64,
    /// Connections accepted.
    pub(super) accepted: u64,
    /// Replies in time, and late.
    pub(super) timely: u64,
    pub(super) late: u64,
    /// Some connection had to wait for its admission.
    pub(super) has_held: bool,
}

/// The state of the law.
#[derive(Debug)]
pub(super) struct Admission {
    target_ns: u64,
    /// Connections a second, if they are bounded.
    rate: Option<f64>,
    /// What the rate rises by.
    step: f64,
    /// What was seen since the last decision.
    seen: Sample,
    /// Nanoseconds until the rate may fall again. `unheld_ns`: nanoseconds since a client was made to wait.
    cooling_ns: u64,
    unheld_ns: u64,
}

/// The lowest rate, so that clients are never kept out for good. `MOST` is a rate that no server here comes
/// near.
const LEAST: f64 = 10.0;
const MOST: f64 = 1e7;
/// Enough replies for a decision. After `LONG_NS` nanoseconds fewer are enough.
const ENOUGH: u64 = 32;
const LONG_NS: u64 = 1_000_000_000;
/// The shortest time between two decisions.
const SHORT_NS: u64 = 100_000_000;
/// The shortest time between two falls.
const COOLING_NS: u64 = 200_000_000;
/// A bound that has not made any client wait for this long is dropped.
const FORGOTTEN_NS: u64 = 30_000_000_000;

impl Admission {
    /// Without a bound.
    pub(super) fn new(target_ns: u64) -> Self {
        let seen = Sample::default();
        Self { target_ns, rate: None, step: 0.0, seen, cooling_ns: 0, unheld_ns: 0 }
    }

    /// The rate, in connections a second; `None`: it is not bounded.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Takes in a sample, and returns the new rate.
    pub(super) fn sampled(&mut self, sample: Sample) -> Option<f64> {
        self.cooling_ns = self.cooling_ns.saturating_sub(sample.ns);
        self.unheld_ns = if sample.has_held { 0 } else { self.unheld_ns.saturating_add(sample.ns) };
        self.seen = Sample {
            ns: self.seen.ns.saturating_add(sample.ns),
            accepted: self.seen.accepted.saturating_add(sample.accepted),
            timely: self.seen.timely.saturating_add(sample.timely),
            late: self.seen.late.saturating_add(sample.late),
            has_held: self.seen.has_held || sample.has_held,
        };
        let replies = self.seen.timely.saturating_add(self.seen.late);
        let waits_for_more = self.seen.ns < LONG_NS && replies < ENOUGH;
        if replies > 0 && self.seen.ns >= self.target_ns.max(SHORT_NS) && !waits_for_more {
            let seen = std::mem::take(&mut self.seen);
            self.decide(seen, replies);
        }
        if self.unheld_ns >= FORGOTTEN_NS {
            self.rate = None;
        }
        self.rate
    }

    fn decide(&mut self, seen: Sample, replies: u64) {
        let late = seen.late as f64 / replies as f64;
        if late > 0.1 {
            if self.cooling_ns == 0 {
                self.fall(seen);
            }
        } else if late < 0.05
            && seen.has_held
            && let Some(rate) = &mut self.rate
        {
            *rate = (*rate + self.step).min(MOST);
        }
    }

    fn fall(&mut self, seen: Sample) {
        let came = seen.accepted as f64 * 1e9 / seen.ns.max(1) as f64;
        let rate = self.rate.map_or(came / 2.0, |rate| rate * 7.0 / 8.0).clamp(LEAST, MOST);
        self.rate = Some(rate);
        self.step = rate / 64.0;
        self.unheld_ns = 0;
        self.cooling_ns = COOLING_NS.max(self.target_ns.saturating_mul(2));
    }
}
