//! Order statistics of a handful of rounds: what the tables print instead of means.

use std::fmt;

use serde::Serialize;

/// The middle of some values, and how far they spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) minimum: f64,
    pub(crate) lower_quartile: f64,
    pub(crate) median: f64,
    pub(crate) upper_quartile: f64,
    pub(crate) maximum: f64,
}

impl Spread {
    /// The spread of `values`; `None` when there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
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

/// Linear interpolation between the two nearest of the sorted values.
pub(crate) fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    below + (above - below) * position.fract()
}

/// By how much one thing is more than another, measured in pairs: the geometric mean of the ratios, and the interval that holds
/// it with 95% by Student's t on their logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub(crate) mean: f64,
    /// 0 where there is but one pair.
    pub(crate) lower: f64,
    /// Infinite where there is but one pair.
    pub(crate) upper: f64,
    pub(crate) pairs: usize,
}

impl Ratio {
    /// Of `(one, other)`; `None` without pairs, and where one of them is not positive, which has no logarithm.
    pub(crate) fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        Self::of_logarithms(&pairs.into_iter().map(|(one, other)| (one / other).ln()).collect::<Vec<_>>())
    }

    /// Of the logarithms of ratios.
    pub(crate) fn of_logarithms(logarithms: &[f64]) -> Option<Self> {
        if logarithms.is_empty() || logarithms.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let count = logarithms.len() as f64;
        let mean = logarithms.iter().sum::<f64>() / count;
        let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
        let half = match logarithms.len() {
            1 => f64::INFINITY,
            pairs => student_t(pairs - 1) * (squares / (count - 1.0) / count).sqrt(),
        };
        Some(Self {
            mean: mean.exp(),
            lower: (mean - half).exp(),
            upper: (mean + half).exp(),
            pairs: logarithms.len(),
        })
    }

    /// Whether the whole interval is below 1, and by more than [`Self::NOTHING`].
    pub(crate) fn is_below_one(&self) -> bool {
        self.upper < 1.0 - Self::NOTHING
    }

    /// Whether the whole interval is above 1, and by more than [`Self::NOTHING`].
    pub(crate) fn is_above_one(&self) -> bool {
        self.lower > 1.0 + Self::NOTHING
    }

    /// Where a server keeps up, pairs differ by so little that a reply at the edge of the measured time makes an interval that is
    /// wholly on one side of 1. A difference of less than this is called none.
    pub(crate) const NOTHING: f64 = 0.002;
}

/// `mean (lower to upper)`.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.mean, self.lower, self.upper)
    }
}

/// The quantile 0.975 of Student's t distribution.
fn student_t(degrees_of_freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // Beyond the table the largest of what remains, which is at most 0.08 too much.
    TABLE.get(degrees_of_freedom - 1).copied().unwrap_or(2.042)
}

/// The straight line through `points` by least squares: (intercept, slope). `None` with fewer than two different abscissae.
pub(crate) fn line_through(points: &[(f64, f64)]) -> Option<(f64, f64)> {
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
    fn a_ratio_has_students_interval() {
        // Logarithms -0.1, 0.0, 0.1: deviation 0.1, standard error 0.0577, times 4.303.
        let ratio = Ratio::of([(0.9f64, 0.9), (1.1f64.ln().exp(), 1.0), (1.0, 1.1)]).unwrap();
        assert!((ratio.mean - 1.0).abs() < 1e-9);
        let half = 4.303 * 1.1f64.ln() / 3f64.sqrt();
        assert!((ratio.upper.ln() - half).abs() < 1e-9 && (ratio.lower.ln() + half).abs() < 1e-9);
        assert!(!ratio.is_below_one() && !ratio.is_above_one());
        let less = Ratio::of([(0.80, 1.0), (0.81, 1.0), (0.79, 1.0)]).unwrap();
        assert!(less.is_below_one());
    }

    #[test]
    fn one_pair_says_nothing_certain() {
        let one = Ratio::of([(2.0, 1.0)]).unwrap();
        assert!(one.lower < 1e-9 && one.upper.is_infinite() && !one.is_above_one());
        assert_eq!(Ratio::of([]), None);
        assert_eq!(Ratio::of([(0.0, 1.0), (1.0, 1.0)]), None);
    }

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<_> = (0..5).map(|x| (f64::from(x), 7.0 + 400.0 * f64::from(x))).collect();
        let (intercept, slope) = line_through(&points).unwrap();
        assert!((intercept - 7.0).abs() < 1e-9 && (slope - 400.0).abs() < 1e-9);
        assert_eq!(line_through(&points[..1]), None);
    }
}
