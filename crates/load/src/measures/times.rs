//! Distributions of times: histograms for percentiles, moments for means and deviations.

use hdrhistogram::Histogram;

use crate::record::Nanos;

/// The longest time that is told from longer ones: an hour.
const LONGEST_US: u64 = 3_600_000_000;
/// Times are kept to three digits.
const DIGITS: u8 = 3;

/// A histogram of times, in microseconds to three significant digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    histogram: Histogram<u64>,
}

impl Times {
    /// None yet; room for all there can be is made at once.
    ///
    /// # Panics
    ///
    /// Never: the bounds are right.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("bounds that are right");
        Self { histogram }
    }

    /// Counts a time. Less than a microsecond is nothing, more than an hour is an hour.
    pub fn record(&mut self, time: Nanos) {
        self.histogram.saturating_record((time + 500) / 1000);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean in milliseconds; 0 where there is none.
    pub fn mean_ms(&self) -> f64 {
        self.histogram.mean() / 1e3
    }

    /// The standard deviation in milliseconds.
    pub fn deviation_ms(&self) -> f64 {
        self.histogram.stdev() / 1e3
    }

    /// The time in milliseconds that so many percent (0 to 100) do not exceed.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        if self.histogram.is_empty() { 0.0 } else { self.histogram.value_at_percentile(percent) as f64 / 1e3 }
    }

    /// How many are longer than so many milliseconds.
    pub fn count_above_ms(&self, ms: f64) -> u64 {
        let above = (ms * 1e3) as u64 + 1;
        self.histogram.count_between(above, LONGEST_US)
    }

    /// All there are, from the shortest on: milliseconds, and how many times were that long.
    pub fn counts(&self) -> impl Iterator<Item = (f64, u64)> {
        let recorded = self.histogram.iter_recorded();
        recorded.map(|of| {
            let lowest = self.histogram.lowest_equivalent(of.value_iterated_to());
            (lowest as f64 / 1e3, of.count_since_last_iteration())
        })
    }

    /// Adds another's.
    pub fn take_in(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.histogram.add(&other.histogram);
    }

    /// The histogram, whose unit is the microsecond.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

/// Count, mean, deviation and extremes, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    sum: f64,
    sum_of_squares: f64,
    least: f64,
    most: f64,
}

impl Moments {
    /// Takes in a value.
    pub fn add(&mut self, value: f64) {
        (self.least, self.most) = match self.count {
            0 => (value, value),
            _ => (self.least.min(value), self.most.max(value)),
        };
        self.count += 1;
        self.sum += value;
        self.sum_of_squares += value * value;
    }

    /// Takes in another's values.
    pub fn take_in(&mut self, other: &Self) {
        (self.least, self.most) = match (self.count, other.count) {
            (_, 0) => (self.least, self.most),
            (0, _) => (other.least, other.most),
            _ => (self.least.min(other.least), self.most.max(other.most)),
        };
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; 0 where there is none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// The standard deviation of the sample; 0 for fewer than two values.
    pub fn deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let n = self.count as f64;
        ((self.sum_of_squares - self.sum * self.sum / n) / (n - 1.0)).max(0.0).sqrt()
    }

    /// The least; 0 where there is none.
    pub fn least(&self) -> f64 {
        self.least
    }

    /// The most; 0 where there is none.
    pub fn most(&self) -> f64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_have_three_digits() {
        let mut times = Times::new();
        for ms in 1..=1000_u64 {
            times.record(ms * 1_000_000);
        }
        assert_eq!(times.count(), 1000);
        for (percent, expected) in [(50.0, 500.0), (99.0, 990.0), (99.9, 999.0), (100.0, 1000.0)] {
            let found = times.percentile_ms(percent);
            assert!((found - expected).abs() <= expected / 500.0, "{percent}: {found}");
        }
        assert!((times.mean_ms() - 500.5).abs() < 0.5);
        times.record(u64::MAX / 2);
        assert!(times.percentile_ms(100.0) >= 3_600_000.0 * 0.999);
        assert!(Times::new().percentile_ms(99.0) < f64::MIN_POSITIVE);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_times(
            mut all in proptest::collection::vec(1_u64..10_000_000_000, 1..500),
            percent in 0.1_f64..100.0,
        ) {
            let mut times = Times::new();
            for time in &all {
                times.record(*time);
            }
            all.sort_unstable();
            let rank = ((percent / 100.0 * all.len() as f64).ceil() as usize).clamp(1, all.len());
            let expected = all[rank - 1] as f64 / 1e6;
            let found = times.percentile_ms(percent);
            // Three digits, and a microsecond at least.
            prop_assert!((found - expected).abs() <= expected * 0.001 + 0.001, "{} for {}", found, expected);
        }
    }

    #[test]
    fn moments_are_those_of_the_textbook() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.deviation()), (0.0, 0.0));
        for value in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0] {
            moments.add(value);
        }
        assert_eq!((moments.count(), moments.mean(), moments.least(), moments.most()), (8, 5.0, 2.0, 9.0));
        assert!((moments.deviation() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        let mut other = Moments::default();
        other.add(-1.0);
        moments.take_in(&other);
        moments.take_in(&Moments::default());
        assert_eq!((moments.count(), moments.least(), moments.most()), (9, -1.0, 9.0));
    }
}
