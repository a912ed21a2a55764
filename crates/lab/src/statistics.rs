//! Order statistics and tests for a small number of rounds. Tables print medians with intervals instead of
//! means.

use std::fmt;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The median of some values, and their quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Spread {
    pub minimum: f64,
    pub lower_quartile: f64,
    pub median: f64,
    pub upper_quartile: f64,
    pub maximum: f64,
}

impl Spread {
    /// The spread of `values`; `None` when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| Self {
            minimum: quantile(&sorted, 0.0),
            lower_quartile: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            upper_quartile: quantile(&sorted, 0.75),
            maximum: quantile(&sorted, 1.0),
        })
    }
}

/// The median of some values; `None` when there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// `median (lower quartile to upper quartile)`, with the formatter's precision (default 2).
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(
            f,
            "{:.digits$} ({:.digits$} to {:.digits$})",
            self.median, self.lower_quartile, self.upper_quartile
        )
    }
}

/// The quantile of sorted values, by linear interpolation between the two nearest.
pub fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    below + (above - below) * position.fract()
}

/// How many times as large one value is as another, measured in pairs: the median of the ratios, and a
/// confidence interval for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Half of the ratios are below it.
    pub median: f64,
    /// `None` where there are too few pairs, see [`ranks`].
    pub interval: Option<Interval>,
    /// The number of pairs.
    pub pairs: usize,
}

/// An interval that holds the median with at least 95% certainty, whatever the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Interval {
    pub lower: f64,
    pub upper: f64,
}

impl Ratio {
    /// The median ratio of these quotients. `None` if there are none, or if one is not finite.
    pub fn of(quotients: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = quotients.into_iter().collect();
        if sorted.is_empty() || sorted.iter().any(|value| !value.is_finite()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let interval = ranks(sorted.len())
            .map(|(low, high)| Interval { lower: sorted[low - 1], upper: sorted[high - 1] });
        Some(Self { median: quantile(&sorted, 0.5), interval, pairs: sorted.len() })
    }

    /// Whether the whole interval is below 1 by more than `margin`.
    pub fn is_below_one(&self, margin: f64) -> bool {
        self.interval.is_some_and(|interval| interval.upper < 1.0 - margin)
    }

    /// Whether the whole interval is above 1 by more than `margin`.
    pub fn is_above_one(&self, margin: f64) -> bool {
        self.interval.is_some_and(|interval| interval.lower > 1.0 + margin)
    }

    /// Whether the whole interval is below or above 1 by more than `margin`.
    pub fn is_off(&self, margin: f64) -> bool {
        self.is_below_one(margin) || self.is_above_one(margin)
    }
}

/// `median (lower to upper)`, or the median alone where there is no interval.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        write!(f, "{:.digits$}", self.median)?;
        match self.interval {
            Some(Interval { lower, upper }) => write!(f, " ({lower:.digits$} to {upper:.digits$})"),
            None => Ok(()),
        }
    }
}

/// The fewest rounds with which a median has an interval.
pub const FEWEST_ROUNDS: u32 = 6;

/// The ranks (from 1) of the sorted values between which the true median lies with at least 95%
/// probability, as close together as possible. `None` for fewer than [`FEWEST_ROUNDS`] values, which never
/// reach 95%.
pub fn ranks(count: usize) -> Option<(usize, usize)> {
    let low = (1..=count / 2).take_while(|low| coverage(count, *low) >= 0.95).last()?;
    Some((low, count + 1 - low))
}

/// The probability that the median lies between the value of rank `low` and its counterpart from above.
/// Each value is below the median with probability one half.
pub fn coverage(count: usize, low: usize) -> f64 {
    let mut ways = 1.0;
    let mut outside = 0.0;
    for below in 0..low {
        outside += ways;
        ways *= (count - below) as f64 / (below + 1) as f64;
    }
    1.0 - 2.0 * outside / 2f64.powi(count as i32)
}

/// The p-value: the probability of ratios this far beyond `margin` on either side, if the true ratio were
/// within it. It is 1 with fewer than two pairs, or if a ratio is not finite and positive.
pub fn chance(ratios: &[f64], margin: f64) -> f64 {
    chance_outside(ratios, 1.0 - margin, 1.0 + margin)
}

/// The p-value of ratios this far outside a range on either side, if the true ratio were inside or at the
/// nearer end.
pub fn chance_outside(ratios: &[f64], least: f64, most: f64) -> f64 {
    (2.0 * one_sided(ratios, |mean| (mean - most.ln()).max(least.ln() - mean))).min(1.0)
}

/// The p-value of ratios this far inside a range, if the true ratio were outside or at the nearer end. It
/// is the larger of two one-sided t-tests (Schuirmann 1987), each at its full level.
pub fn chance_inside(ratios: &[f64], least: f64, most: f64) -> f64 {
    one_sided(ratios, |mean| (most.ln() - mean).min(mean - least.ln()))
}

/// Student's t-test of the ratios' logarithms, one for each pair, by the distance of their mean on the
/// tested side. Unlike a sign test, it can be very certain after a few pairs, if these agree well.
fn one_sided(ratios: &[f64], distance: impl Fn(f64) -> f64) -> f64 {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let (count, mean) = (logarithms.len() as f64, mean(&logarithms));
    let distance = distance(mean);
    let squares: f64 = logarithms.iter().map(|one| (one - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    // The result is NaN with too few values, or if one is NaN.
    let Ok(student) = StudentsT::new(0.0, 1.0, count - 1.0) else { return 1.0 };
    if distance.is_nan() || error.is_nan() || distance <= 0.0 {
        return 1.0;
    }
    if error > 0.0 { student.sf(distance / error) } else { 0.0 }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Holm's correction (Holm 1979): which of several tests are significant, so that chance makes any of them
/// wrong in at most `level` of cases. The smallest p-value may be `level` divided by their number, the next
/// `level` divided by one less, until one is too large.
pub fn holm(chances: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut holds = vec![false; chances.len()];
    for (rank, &number) in order.iter().enumerate() {
        if chances[number] > level / (chances.len() - rank) as f64 {
            break;
        }
        holds[number] = true;
    }
    holds
}

/// A 95% interval of the median ratio by a bootstrap of two levels (Kalibera and Jones 2013): draws rounds
/// again, and slices again within each round. Each round has the slices of both servers. `None` with fewer
/// than [`ROUNDS_OF_BOOTSTRAP`] rounds.
pub fn bootstrap(rounds: &[(Vec<f64>, Vec<f64>)]) -> Option<Interval> {
    if rounds.len() < ROUNDS_OF_BOOTSTRAP
        || rounds.iter().any(|(one, other)| one.is_empty() || other.is_empty())
    {
        return None;
    }
    // A fixed seed, so that the same rounds always give the same result.
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut medians = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut ratios = Vec::with_capacity(rounds.len());
        for _ in rounds {
            let (one, other) = &rounds[random.random_range(0..rounds.len())];
            let mut resample = |slices: &Vec<f64>| {
                median(slices.iter().map(|_| slices[random.random_range(0..slices.len())]))
            };
            ratios.push(resample(one)? / resample(other)?);
        }
        medians.push(median(ratios)?);
    }
    medians.sort_by(f64::total_cmp);
    Some(Interval { lower: quantile(&medians, 0.025), upper: quantile(&medians, 0.975) })
}

/// The fewest rounds for a [`bootstrap`]: with fewer its intervals are too narrow.
pub const ROUNDS_OF_BOOTSTRAP: usize = 10;

/// How many times rounds are drawn again.
const DRAWS: usize = 2_000;

/// One of two states that figures jump between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// The mean of its figures.
    pub mean: f64,
    /// How many figures are in it.
    pub count: usize,
}

/// The lower and the upper state, if `values` are in two states rather than around one middle. The cut is
/// where it leaves the least variance, with at least a fifth of the values on each side. Values are in two
/// states if less than [`LEFT_BY_TWO_STATES`] of the variance is left, and if the means are a tenth apart.
/// `None` for fewer than [`VALUES_OF_STATES`], which chance cuts well too often.
pub fn two_states(values: &[f64]) -> Option<[State; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    if count < VALUES_OF_STATES || sorted.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let spread = |part: &[f64]| {
        let middle = mean(part);
        part.iter().map(|value| (value - middle).powi(2)).sum::<f64>()
    };
    let least = count.div_ceil(5);
    let cuts = (least..=count - least).map(|at| (at, spread(&sorted[..at]) + spread(&sorted[at..])));
    let (at, left) = cuts.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let states = [&sorted[..at], &sorted[at..]].map(|part| State { mean: mean(part), count: part.len() });
    let [lower, upper] = states;
    let are_apart = upper.mean > lower.mean * 1.1 && left < LEFT_BY_TWO_STATES * spread(&sorted);
    are_apart.then_some(states)
}

/// The fewest values that can show [`two_states`].
pub const VALUES_OF_STATES: usize = 20;

/// The largest part of the variance that two states may leave. A normal distribution leaves more in 999 of
/// 1,000 samples of 24 values, a uniform one in 19 of 20.
const LEFT_BY_TWO_STATES: f64 = 0.15;

/// The straight line through `points` by least squares: (intercept, slope). `None` with fewer than two
/// different x values.
pub fn line_through(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let variance: f64 = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum();
    let covariance: f64 = points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum();
    (variance > 0.0).then(|| {
        let slope = covariance / variance;
        (mean_y - slope * mean_x, slope)
    })
}

/// How often chance may make any verdict wrong, if there are no differences.
pub(crate) const LEVEL: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_interpolate_between_neighbours() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(format!("{spread}"), "2.50 (1.75 to 3.25)");
        assert_eq!(format!("{spread:.0}"), "2 (2 to 3)");
        assert_eq!((spread.minimum.to_bits(), spread.maximum.to_bits()), (1f64.to_bits(), 4f64.to_bits()));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn ranks_are_the_narrowest_that_cover_95_percent() {
        let known = [(6, 1, 6, 0.968), (7, 1, 7, 0.984), (9, 2, 8, 0.960), (10, 2, 9, 0.978)];
        for (count, low, high, covered) in known.into_iter().chain([(15, 4, 12, 0.964), (20, 6, 15, 0.958)]) {
            assert_eq!(ranks(count), Some((low, high)), "{count}");
            assert!((coverage(count, low) - covered).abs() < 1e-3, "{count}: {}", coverage(count, low));
            assert!(coverage(count, low + 1) < 0.95, "{count}");
        }
        assert!((0..FEWEST_ROUNDS as usize).all(|count| ranks(count).is_none()));
        // 1,000 rounds are allowed.
        assert!(ranks(1_000).is_some_and(|(low, _)| (460..480).contains(&low)));
    }

    #[test]
    fn a_ratio_has_the_interval_of_its_median() {
        let ratio = Ratio::of((1..=9).map(|one| f64::from(one) / 10.0)).unwrap();
        assert_eq!(format!("{ratio:.1}"), "0.5 (0.2 to 0.8)");
        assert!(ratio.is_below_one(0.02));
        // A single outlier changes neither.
        let odd = Ratio::of((1..=9).map(|one| if one == 9 { 1e5 } else { f64::from(one) / 10.0 })).unwrap();
        assert_eq!(odd, ratio);
    }

    #[test]
    fn a_difference_is_larger_than_the_margin() {
        let around = |middle: f64| Ratio::of((0..6).map(|n| middle + f64::from(n) * 1e-3)).unwrap();
        assert!(around(0.970).is_below_one(0.02) && !around(0.979).is_below_one(0.02));
        assert!(around(1.021).is_above_one(0.02) && !around(1.019).is_above_one(0.02));
    }

    #[test]
    fn the_surer_the_better_pairs_agree() {
        // By numeric integration of Student's density beyond (mean(log x) - log 1.02) / (sd(log x) / sqrt n).
        for (ratios, expected) in [
            (&[1.30, 1.25, 1.35, 1.28, 1.33, 1.31][..], 3.692_384e-6),
            (&[0.80, 0.95, 0.85, 0.90, 1.05, 0.70], 0.088_134_8),
            (&[1.01, 0.99, 1.02, 0.98], 1.0),
        ] {
            let found = chance(ratios, 0.02);
            assert!((found - expected).abs() < 1e-3 * expected, "{ratios:?}: {found}");
        }
        assert!(chance(&[1.5; 3], 0.02) < 1e-9, "all alike");
        for none in [&[][..], &[2.0], &[f64::NAN, 2.0, 2.0], &[0.0, 2.0, 2.0], &[-1.0, 2.0, 2.0]] {
            assert!((chance(none, 0.02) - 1.0).abs() < 1e-9, "{none:?}");
        }
    }

    #[test]
    fn a_size_and_equality_are_tested_as_a_difference_is() {
        let more = [1.30, 1.25, 1.35, 1.28, 1.33, 1.31];
        let equal = [1.01, 0.99, 1.02, 0.98, 1.00, 1.005];
        let nearly = [1.0, 1.04, 1.03, 0.99, 1.05, 1.02];
        // By Simpson's rule over Student's density with five degrees of freedom.
        for (found, expected) in [
            (chance_outside(&more, 1.65, 1.65), 4.412_536e-6),
            (chance_outside(&more, 1.38, 1.47), 3.648_293e-3),
            (chance_outside(&more, 1.28, 1.32), 1.0),
            (chance_inside(&equal, 1.0 / 1.02, 1.02), 0.011_161_756),
            (chance_inside(&equal, 1.0 / 1.05, 1.05), 2.155_128e-4),
            (chance_inside(&nearly, 1.0 / 1.05, 1.05), 0.015_565_231),
            (chance_inside(&more, 1.0 / 1.05, 1.05), 1.0),
            (chance_inside(&[1.0], 0.9, 1.1), 1.0),
        ] {
            assert!((found - expected).abs() < 1e-5 * expected, "{found}, not {expected}");
        }
        // The value for a one-sided 5% in a table is 2.015.
        let student = StudentsT::new(0.0, 1.0, 5.0).unwrap();
        assert!((student.sf(2.015_048) - 0.05).abs() < 1e-7);
    }

    #[test]
    fn several_tests_have_to_be_surer() {
        assert_eq!(holm(&[0.03], 0.05), [true]);
        assert_eq!(holm(&[0.03, 0.04], 0.05), [false, false]);
        assert_eq!(holm(&[0.04, 0.01, 0.03], 0.05), [false, true, false]);
        assert_eq!(holm(&[0.04, 0.01, 0.02], 0.05), [true, true, true]);
        assert_eq!(holm(&[], 0.05), Vec::<bool>::new());
    }

    #[test]
    fn a_bootstrap_is_around_the_median_and_needs_rounds() {
        let noise = |n: u32| 1.0 + f64::from(n * 7 % 5) / 100.0;
        let round = |n: u32| {
            ((0..4).map(|k| 2.0 * noise(n + k)).collect(), (0..4).map(|k| noise(n * 3 + k)).collect())
        };
        let rounds: Vec<_> = (0..12).map(round).collect();
        let interval = bootstrap(&rounds).unwrap();
        assert!(
            interval.lower > 1.9 && interval.lower < 2.0 && interval.upper > 2.0 && interval.upper < 2.1,
            "{interval:?}"
        );
        assert_eq!(bootstrap(&rounds), Some(interval));
        assert_eq!(bootstrap(&rounds[..9]), None);
    }

    #[test]
    fn two_states_are_distinguished_from_one_that_is_noisy() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut noise = || (0..12).map(|_| random.random::<f64>() - 0.5).sum::<f64>();
        let around = |middle: f64, count: usize, noise: &mut dyn FnMut() -> f64| {
            (0..count).map(|_| middle + 2.0 * noise()).collect::<Vec<f64>>()
        };
        let found = (0..200).filter(|_| two_states(&around(30.0, 40, &mut noise)).is_some()).count();
        assert!(found <= 1, "{found} of 200 that are around one middle");
        let both =
            |noise: &mut dyn FnMut() -> f64| [around(27.0, 24, noise), around(37.0, 16, noise)].concat();
        let found = (0..200).filter(|_| two_states(&both(&mut noise)).is_some()).count();
        assert!(found >= 150, "{found} of 200 that are around two");
        let [lower, upper] = two_states(&[vec![27.0; 15], vec![37.0; 5]].concat()).unwrap();
        assert_eq!((lower.count, upper.count, lower.mean.round(), upper.mean.round()), (15, 5, 27.0, 37.0));
        // A single outlier is no state, nor are two middles that hardly differ, nor a few values.
        assert_eq!(two_states(&[vec![27.0; 39], vec![90.0]].concat()), None);
        assert_eq!(two_states(&[vec![27.0; 20], vec![28.0; 20]].concat()), None);
        assert_eq!(two_states(&[vec![27.0; 9], vec![37.0; 9]].concat()), None);
    }

    #[test]
    fn few_pairs_say_nothing_certain() {
        let five = Ratio::of([2.0; 5]).unwrap();
        assert!(five.interval.is_none() && !five.is_above_one(0.02));
        assert_eq!(format!("{five}"), "2.000");
        assert_eq!(Ratio::of([]), None);
        assert_eq!(Ratio::of([f64::INFINITY, 1.0]), None);
        assert_eq!(Ratio::of([f64::NAN]), None);
    }

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<_> = (0..5).map(|x| (f64::from(x), 7.0 + 400.0 * f64::from(x))).collect();
        let (intercept, slope) = line_through(&points).unwrap();
        assert!((intercept - 7.0).abs() < 1e-9 && (slope - 400.0).abs() < 1e-9);
        assert_eq!(line_through(&points[..1]), None);
    }
}
