//! A drawing of ratios: the findings of others as bars, beside the intervals that were measured here.

use super::svg::Style;
use super::svg::axis::Axis;
use super::svg::rows::Rows;
use crate::statistics::Interval;

/// A row of the drawing.
#[derive(Debug)]
pub(crate) struct Size {
    /// The name of the ratio.
    pub(crate) name: String,
    /// Both ratios in words.
    pub(crate) told: String,
    /// Their ratio, from and to, if they give one.
    pub(crate) theirs: Option<[f64; 2]>,
    /// Our ratio: the median and its interval.
    pub(crate) ours: Option<(f64, Option<Interval>)>,
}

/// The drawing, with the margin within which two values count as equal.
pub(crate) fn drawing(label: &str, margin: f64, sizes: &[Size]) -> String {
    let of = |size: &Size| {
        let ours = size.ours.into_iter().flat_map(|(median, of)| {
            [median].into_iter().chain(of.into_iter().flat_map(|of| [of.lower, of.upper]))
        });
        size.theirs.into_iter().flatten().chain(ours).collect::<Vec<f64>>()
    };
    let ends = sizes.iter().flat_map(of).chain([1.0 - margin * 2.0, 1.0 + margin * 2.0]);
    let mut rows = Rows::new(label, Axis::around("times as much", ends));
    rows.margin(margin);
    for Size { name, told, theirs, ours } in sizes {
        let style = Style { number: 0, is_control: false };
        rows.beside((name, style), told.clone(), *theirs, *ours);
    }
    rows.to_string()
}
