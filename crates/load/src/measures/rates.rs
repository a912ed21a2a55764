//! Rates over time: counts in each five seconds of a run, httperf's samples.

use super::Moments;
use crate::record::Nanos;

/// How long a sample is: httperf's `RATE_INTERVAL`.
const SAMPLE: Nanos = 5_000_000_000;

/// Room for samples of a day; what comes later joins the last.
const MOST_SAMPLES: usize = 24 * 3600 / 5;

/// Counts in each sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    from: Nanos,
    counts: Vec<u64>,
    used: usize,
}

impl Rates {
    /// Nothing counted; samples begin at `from`.
    pub fn new(from: Nanos) -> Self {
        Self { from, counts: vec![0; MOST_SAMPLES], used: 0 }
    }

    /// Counts something that happened then.
    pub fn add(&mut self, at: Nanos) {
        let sample = ((at.saturating_sub(self.from) / SAMPLE) as usize).min(MOST_SAMPLES - 1);
        self.counts[sample] += 1;
        self.used = self.used.max(sample + 1);
    }

    /// Rates per second of the samples that were over when the run ended.
    pub fn per_second(&self, ended: Nanos) -> Moments {
        let whole = (ended.saturating_sub(self.from) / SAMPLE) as usize;
        let mut moments = Moments::default();
        for count in self.counts.iter().take(whole) {
            moments.add(*count as f64 / (SAMPLE as f64 / 1e9));
        }
        moments
    }

    /// Adds another's, of the same beginning.
    pub fn take_in(&mut self, other: &Self) {
        super::add_all(&mut self.counts, &other.counts[..other.used]);
        self.used = self.used.max(other.used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_samples_count() {
        let second = 1_000_000_000;
        let mut rates = Rates::new(second);
        for at in 1..=13 {
            rates.add(at * second);
            rates.add(at * second);
        }
        let of = |moments: Moments| (moments.count(), moments.least(), moments.mean(), moments.most());
        assert_eq!(of(rates.per_second(13 * second)), (2, 2.0, 2.0, 2.0));
        assert_eq!(of(rates.per_second(5 * second)), (0, 0.0, 0.0, 0.0), "as httperf has it");
        assert_eq!(of(rates.per_second(21 * second)), (4, 0.0, 1.3, 2.0), "silence counts as well");
    }
}
