//! How late the best of generators would be here: a loop that does nothing but look at the clock.
//!
//! Whenever two readings lie far apart, the core was somewhere else: a timer tick, an interrupt, another
//! thread, or stolen by the hypervisor. Whatever is due then is late, however the generator is written.

use sys::clock;

/// Readings closer than this are the loop's own work.
const WORTH_KEEPING_NS: u64 = 500;

/// When a spinning loop was away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spin {
    gaps_ns: Vec<u64>,
    spun_ns: u64,
}

impl Spin {
    /// Spins for so long on the core that the caller is on.
    pub fn for_ns(duration_ns: u64) -> Self {
        // Room for a gap each 20 us, which no machine that can be used has.
        let mut gaps_ns = Vec::with_capacity((duration_ns / 20_000) as usize + 16);
        let began = clock::monotonic_ns();
        let mut last = began;
        while last - began < duration_ns {
            let now = clock::monotonic_ns();
            if now - last >= WORTH_KEEPING_NS && gaps_ns.len() < gaps_ns.capacity() {
                gaps_ns.push(now - last);
            }
            last = now;
        }
        Self { gaps_ns, spun_ns: last - began }
    }

    /// How late something is that falls due at any moment, in nanoseconds, but for the given share (0 to 1)
    /// of the worst cases.
    pub fn lateness_ns(&self, share: f64) -> u64 {
        let allowed = share * self.spun_ns as f64;
        // Falling due within a gap of g means to be up to g late, each with the same chance: more than x late
        // is a share of (g - x) of the time.
        let later_than = |x: u64| self.gaps_ns.iter().map(|gap| gap.saturating_sub(x)).sum::<u64>() as f64;
        let (mut low, mut high) = (0, self.longest_ns());
        while low < high {
            let middle = low.midpoint(high);
            if later_than(middle) > allowed { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The longest time away.
    pub fn longest_ns(&self) -> u64 {
        self.gaps_ns.iter().copied().max().unwrap_or(0)
    }

    /// The share of the time away, in percent.
    pub fn away_percent(&self) -> f64 {
        if self.spun_ns == 0 {
            return 0.0;
        }
        100.0 * self.gaps_ns.iter().sum::<u64>() as f64 / self.spun_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_that_of_chance_arrivals() {
        // Away for 10 of 1000: half a percent of arrivals is more than 5 late.
        let spin = Spin { gaps_ns: vec![10_000], spun_ns: 1_000_000 };
        assert_eq!(spin.lateness_ns(0.005), 5_000);
        assert_eq!(spin.lateness_ns(0.5), 0);
        assert_eq!(spin.lateness_ns(0.0), 10_000);
        assert!((spin.away_percent() - 1.0).abs() < 1e-9);
        let twice = Spin { gaps_ns: vec![10_000, 10_000], spun_ns: 1_000_000 };
        assert_eq!(twice.lateness_ns(0.01), 5_000);
    }

    #[test]
    fn spinning_takes_its_time() {
        let spin = Spin::for_ns(3_000_000);
        assert!(spin.spun_ns >= 3_000_000);
        assert!(spin.lateness_ns(0.001) <= spin.longest_ns());
    }
}
