//! Whether what was drawn is what was asked for: each frequency against its probability.

use serde::{Deserialize, Serialize};

/// One figure, asked and got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What of.
    pub what: String,
    /// What was asked for.
    pub asked: f64,
    /// What came of it.
    pub got: f64,
    /// How far they may be apart by chance.
    pub tolerance: f64,
}

/// Standard deviations that chance may take: one run in half a million goes beyond.
const DEVIATIONS: f64 = 5.0;

impl Check {
    /// A frequency: `count` of `all` draws, each with this probability.
    pub fn frequency(what: impl Into<String>, probability: f64, count: u64, all: u64) -> Self {
        let draws = all.max(1) as f64;
        let tolerance = DEVIATIONS * (probability * (1.0 - probability) / draws).sqrt();
        Self { what: what.into(), asked: probability, got: count as f64 / draws, tolerance }
    }

    /// A mean of `all` draws with this standard deviation.
    pub fn mean(what: impl Into<String>, mean: f64, deviation: f64, got: f64, all: u64) -> Self {
        let tolerance = DEVIATIONS * deviation / (all.max(1) as f64).sqrt();
        Self { what: what.into(), asked: mean, got, tolerance }
    }

    /// Whether chance explains the difference.
    pub fn holds(&self) -> bool {
        (self.asked - self.got).abs() <= self.tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_allowed_and_mistakes_are_not() {
        assert!(Check::frequency("a", 0.35, 35_100, 100_000).holds());
        assert!(!Check::frequency("a", 0.35, 36_000, 100_000).holds());
        assert!(Check::mean("b", 7.3, 5.0, 7.35, 10_000).holds());
        assert!(!Check::mean("b", 7.3, 5.0, 7.7, 10_000).holds());
    }
}
