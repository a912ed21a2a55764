//! Reply times for those who watch while a run goes on: coarse counts that a recorder adds to and anybody may
//! read.
//!
//! A recorder is the only writer of its counts, so that it neither locks nor waits: plain loads and stores of
//! relaxed atomics. Whoever reads them sees some moment or other of each, which is good enough for a line on
//! a terminal.

use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::record::Nanos;

/// Counts for each power of two: an error of at most an eighth.
const STEPS: usize = 8;
/// Up to 2^44 ns, almost five hours.
const BUCKETS: usize = 42 * STEPS;

/// Reply times of one recorder so far.
#[derive(Debug)]
pub struct Live {
    counts: Box<[AtomicU64; BUCKETS]>,
}

/// Reply times of all recorders at a moment; before the first there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    counts: Vec<u64>,
}

impl Default for Live {
    fn default() -> Self {
        Self { counts: Box::new([const { AtomicU64::new(0) }; BUCKETS]) }
    }
}

impl Live {
    /// Only the recorder may call this.
    pub(super) fn record(&self, time: Nanos) {
        let count = &self.counts[bucket(time)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl Snapshot {
    /// As of now.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Live>) -> Self {
        let mut counts = vec![0; BUCKETS];
        for live in all {
            for (sum, count) in counts.iter_mut().zip(live.counts.iter()) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        Self { counts }
    }

    /// The time in milliseconds that so many percent (0 to 100) of the replies since an earlier moment did
    /// not exceed; `None` if there was none.
    pub fn percentile_ms_since(&self, before: &Self, percent: f64) -> Option<f64> {
        let earlier = || before.counts.iter().copied().chain(iter::repeat(0));
        let new = || self.counts.iter().zip(earlier()).map(|(now, then)| now.saturating_sub(then));
        let all: u64 = new().sum();
        let wanted = ((percent / 100.0 * all as f64).ceil() as u64).max(1);
        let mut sum = 0;
        let reaches = new().position(|count| {
            sum += count;
            sum >= wanted
        })?;
        Some(middle_ns(reaches) / 1e6)
    }
}

/// Times below 8 ns have a bucket each, which nothing reaches.
fn bucket(time: Nanos) -> usize {
    let power = (time | 1).ilog2() as usize;
    if power < 3 {
        return time as usize;
    }
    let step = (time >> (power - 3)) as usize & (STEPS - 1);
    ((power - 2) * STEPS + step).min(BUCKETS - 1)
}

fn middle_ns(bucket: usize) -> f64 {
    let (power, step) = (bucket / STEPS, bucket % STEPS);
    if power == 0 {
        return step as f64;
    }
    let width = f64::exp2(power as f64 - 1.0);
    (STEPS + step) as f64 * width + width / 2.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_of_what_is_new() {
        let (one, other) = (Live::default(), Live::default());
        let before = Snapshot::of([&one, &other]);
        assert_eq!(before.percentile_ms_since(&before, 50.0), None);
        assert_eq!(before.percentile_ms_since(&Snapshot::default(), 50.0), None);
        for _ in 0..99 {
            one.record(1_000_000);
        }
        other.record(200_000_000);
        let now = Snapshot::of([&one, &other]);
        let found = |percent| now.percentile_ms_since(&before, percent).unwrap();
        assert!((found(50.0) - 1.0).abs() < 0.125, "{}", found(50.0));
        assert!((found(99.0) - 1.0).abs() < 0.125);
        assert!((found(99.9) - 200.0).abs() < 25.0, "{}", found(99.9));
        one.record(5_000_000);
        let later = Snapshot::of([&one, &other]);
        assert!((later.percentile_ms_since(&now, 50.0).unwrap() - 5.0).abs() < 0.625);
    }

    proptest! {
        #[test]
        fn every_time_finds_a_bucket_near_it(time in 1_u64..1 << 43) {
            let middle = middle_ns(bucket(time));
            let time = time as f64;
            prop_assert!((middle - time).abs() <= time * 0.126, "{} for {}", middle, time);
        }
    }
}
