//! How fast queues drop packets or connections: the rate per second since a sample at least one second
//! old.
//!
//! A page is requested once, and a sum since the namespace was created does not describe the present. So
//! each request stores a sample for later requests. The first request is compared with the server's
//! start. Without requests, nothing is read.

use std::time::{Duration, Instant};

use results::QueueDrops;
use results::status::KernelRates;

/// The shortest useful distance between two samples.
const SHORTEST: Duration = Duration::from_secs(1);

/// Monotonic counts at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// The kernel's counters.
    pub(super) drops: QueueDrops<u64>,
    /// What each listener dropped.
    pub(super) listeners: Vec<Option<u64>>,
}

/// The samples that rates are computed from.
#[derive(Debug)]
pub(super) struct Lookback {
    /// The sample that the current one is compared with.
    earlier: Sample,
    /// Replaces `earlier` once this sample is one second old.
    latest: Sample,
}

/// How fast counts have grown.
#[derive(Debug)]
pub(super) struct Rates {
    /// The kernel's counters.
    pub(super) kernel: KernelRates,
    /// Per second, in the order of the listeners.
    pub(super) listeners: Vec<Option<f64>>,
}

impl Lookback {
    /// Starts with this sample for the first comparison.
    pub(super) fn new(first: Sample) -> Self {
        Self { earlier: first.clone(), latest: first }
    }

    /// Compares a sample with an earlier one, and stores it.
    pub(super) fn look(&mut self, now: &Sample) -> Rates {
        if now.at.duration_since(self.latest.at) >= SHORTEST {
            self.earlier = std::mem::replace(&mut self.latest, now.clone());
        }
        let time = now.at.duration_since(self.earlier.at);
        let rate = |now: u64, earlier: u64| per_second(now.saturating_sub(earlier), time);
        let listeners = now.listeners.iter().zip(&self.earlier.listeners);
        Rates {
            kernel: KernelRates {
                over_ms: time.as_millis() as u64,
                drops: now.drops.with(self.earlier.drops, rate),
            },
            listeners: listeners.map(|(now, earlier)| Some(rate((*now)?, (*earlier)?))).collect(),
        }
    }
}

/// Rounds to hundredths. More digits would be noise.
fn per_second(count: u64, time: Duration) -> f64 {
    (count as f64 / time.as_secs_f64().max(1e-3) * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_a_second_at_least_once_the_server_is_as_old() {
        let start = Instant::now();
        let sample = |ms: u64, count: u64| Sample {
            at: start + Duration::from_millis(ms),
            drops: QueueDrops { listen_drops: Some(count), ..QueueDrops::default() },
            listeners: vec![Some(2 * count)],
        };
        let mut lookback = Lookback::new(sample(0, 100));
        for (ms, count, over_ms, rate) in [
            (500, 110, 500, 20.0),
            // The previous sample is too recent, so this is compared with the start.
            (900, 109, 900, 10.0),
            (2000, 120, 2000, 10.0),
            (2100, 131, 2100, 14.76),
            (3000, 150, 1000, 30.0),
            (3500, 150, 1500, 20.0),
            (60_000, 150, 57_000, 0.0),
        ] {
            let rates = lookback.look(&sample(ms, count));
            let drops = QueueDrops { listen_drops: Some(rate), ..QueueDrops::default() };
            assert_eq!(rates.kernel, KernelRates { over_ms, drops }, "{ms}");
            assert!((rates.listeners[0].unwrap() - 2.0 * rate).abs() < 0.011);
        }
    }
}
