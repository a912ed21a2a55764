//! How long clients waited, whether or not a reply came.

use super::Times;
use crate::record::{Call, Nanos, Outcome};

/// How long clients waited, those included who did not wait to the end: percentiles of whole replies alone
/// tell nothing of a server that stops answering. A time that was cut short is a lower bound, and so is each
/// percentile that is not below all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// All of them.
    pub times: Times,
    /// How many are bounds: clients gave up, or the run ended.
    pub bounds: u64,
    least_bound: Option<Nanos>,
}

impl Waits {
    /// The least of the bounds, in milliseconds, as the histogram has it: what is not below it is a bound as
    /// well.
    pub fn least_bound_ms(&self) -> Option<f64> {
        let least = self.least_bound?;
        let below = self.times.histogram().lowest_equivalent((least + 500) / 1000);
        Some(below as f64 / 1e3)
    }

    /// Whether a time in milliseconds, such as a percentile, is a lower bound only.
    pub fn is_bound(&self, ms: f64) -> bool {
        self.least_bound_ms().is_some_and(|least| ms >= least)
    }

    pub(super) fn call(&mut self, call: &Call) {
        let waited = call.ended.saturating_sub(call.intended);
        match call.outcome {
            Outcome::Reply => self.times.record(waited),
            Outcome::ConnectTimeout | Outcome::Unfinished | Outcome::Abandoned => self.cut_short(waited),
            outcome if outcome.reached_server() => self.cut_short(waited),
            // Nobody waited for a connection that was refused at once.
            _ => {}
        }
    }

    fn cut_short(&mut self, time: Nanos) {
        self.times.record(time);
        self.bounds += 1;
        self.least_bound = Some(self.least_bound.map_or(time, |least| least.min(time)));
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.times.take_in(&other.times);
        self.bounds += other.bounds;
        self.least_bound = self.least_bound.into_iter().chain(other.least_bound).min();
    }
}
