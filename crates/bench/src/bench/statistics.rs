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
fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    below + (above - below) * position.fract()
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
    fn a_line_is_found_again() {
        let points: Vec<_> = (0..5).map(|x| (f64::from(x), 7.0 + 400.0 * f64::from(x))).collect();
        let (intercept, slope) = line_through(&points).unwrap();
        assert!((intercept - 7.0).abs() < 1e-9 && (slope - 400.0).abs() < 1e-9);
        assert_eq!(line_through(&points[..1]), None);
    }
}
