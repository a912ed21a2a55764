//! Off times: how long clients make no request, between pages and within them (Barford and Crovella, SURGE,
//! 1998).
//!
//! *Inactive* off times are a user's thinking between pages, *active* ones a browser's work between the
//! objects of a page. Here a page is an object and those embedded in it, whose number is Pareto-distributed
//! as SURGE has it (k 1, alpha 2.43).

use std::time::Duration;

use rand::Rng;
use rand_distr::{Distribution as _, Pareto, Weibull};

/// How off times are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffTimes {
    /// None: requests follow replies at once.
    #[default]
    None,
    /// Always the same, those of Pariag et al. 2007: 3.0 s inactive, 0.343 s active.
    Fixed,
    /// SURGE's: inactive Pareto with k 1 and alpha 1.5 (mean 3.0 s), active Weibull with shape 1.46 and scale
    /// 0.382 (mean 0.346 s).
    Surge,
}

/// A pause of more than this is none that a session waits for.
const LONGEST: f64 = 100.0;
/// Objects of a page, at most.
const LARGEST_PAGE: f64 = 100.0;

impl OffTimes {
    /// Thinking between pages.
    ///
    /// # Panics
    ///
    /// Never: the parameters are right.
    pub fn inactive(self, random: &mut impl Rng) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Fixed => Some(Duration::from_secs(3)),
            Self::Surge => {
                let pareto = Pareto::new(1.0, 1.5).expect("parameters that are right");
                Some(seconds(pareto.sample(random)))
            }
        }
    }

    /// A browser's work between the objects of a page.
    ///
    /// # Panics
    ///
    /// Never: the parameters are right.
    pub fn active(self, random: &mut impl Rng) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Fixed => Some(Duration::from_millis(343)),
            Self::Surge => {
                let weibull = Weibull::new(0.382, 1.46).expect("parameters that are right");
                Some(seconds(weibull.sample(random)))
            }
        }
    }

    /// Objects of a page, itself included.
    ///
    /// # Panics
    ///
    /// Never: the parameters are right.
    pub fn page(self, random: &mut impl Rng) -> u32 {
        let pareto = Pareto::new(1.0, 2.43).expect("parameters that are right");
        let objects: f64 = pareto.sample(random);
        objects.min(LARGEST_PAGE) as u32
    }
}

/// To the millisecond, as session files are written.
fn seconds(time: f64) -> Duration {
    Duration::from_millis((time.min(LONGEST) * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn means_are_those_of_the_papers() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut mean = |off: OffTimes, active: bool| {
            let one = |random: &mut Pcg64Mcg| if active { off.active(random) } else { off.inactive(random) };
            (0..200_000).map(|_| one(&mut random).unwrap().as_secs_f64()).sum::<f64>() / 200_000.0
        };
        assert!((mean(OffTimes::Fixed, true) - 0.343).abs() < 1e-9);
        assert!((mean(OffTimes::Fixed, false) - 3.0).abs() < 1e-9);
        assert!((mean(OffTimes::Surge, true) - 0.346).abs() < 0.003, "Weibull");
        // Cut at 100 s, the mean of this Pareto distribution is 3 - 2 / sqrt(100).
        assert!((mean(OffTimes::Surge, false) - 2.8).abs() < 0.05, "Pareto");
        assert_eq!(OffTimes::None.inactive(&mut Pcg64Mcg::seed_from_u64(1)), None);
    }

    #[test]
    fn pages_have_an_object_at_least() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let pages: Vec<u32> = (0..10_000).map(|_| OffTimes::Surge.page(&mut random)).collect();
        assert!(pages.iter().all(|objects| (1..=100).contains(objects)));
        let mean = f64::from(pages.iter().sum::<u32>()) / 10_000.0;
        assert!((1.2..1.6).contains(&mean), "{mean}");
    }
}
