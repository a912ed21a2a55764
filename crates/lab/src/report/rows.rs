//! Figures with rows: a server's repetitions as dots with the interval of their median, its ratio to the
//! first server with the margin that a difference has to exceed, and bars in parts.

use super::figure::{Figure, Key, Table};
use super::group::{Group, Place};
use super::sample::{cell, digits};
use super::svg::axis::Axis;
use super::svg::rows::Rows;
use crate::analysis::verdict::{Says, Verdict};
use crate::description::quantity::Quantity;
use crate::record::outcome::Outcome;
use crate::statistics::Ratio;

/// How to read these figures.
pub(super) const READING: &str = "Large: medians; bars: their 95% confidence intervals; small: each \
    repetition; crosses: trials that don't count.";

/// The values of each server.
pub(super) fn dots(group: &Group<'_>, quantity: Quantity) -> Figure {
    let values = group.places().flat_map(|place| place.sample(quantity.of).all().collect::<Vec<_>>());
    let title = in_words(quantity);
    let mut rows = Rows::new(&format!("{title}, {}", group.title), Axis::linear(quantity.name, values));
    let mut table = Table::new(&["server", "load", quantity.name, "each repetition"]);
    for place in group.places() {
        let (sample, style) = (place.sample(quantity.of), group.scene.style(place.name()));
        let (row, told) = (group.row(place), sample.told());
        rows.dots((&row, style, ""), told.clone(), (&sample.counted, &sample.uncounted), sample.middle());
        table.rows.push(place.cells([told, sample.listed()]));
    }
    Figure { title, note: "", keys: Vec::new(), drawing: rows.drawing(), table }
}

/// A quantity, and whether more or less is better, if either is.
fn in_words(Quantity { name, better, .. }: Quantity) -> String {
    better.told().map_or_else(|| name.to_owned(), |better| format!("{name} ({better})"))
}

/// The ratio of each server to the first of its point; `None` if there is nothing to compare.
pub(super) fn ratios(group: &Group<'_>, quantity: Quantity) -> Option<Figure> {
    let results = group.scene.results;
    let margin = results.experiment.margin;
    let compared: Vec<(Place<'_>, Ratio, Vec<f64>)> =
        group.places().filter_map(|place| compared(place, quantity)).collect();
    let first = &compared.first()?.0.found.series[0].server.name;
    let ends = compared.iter().flat_map(|(_, _, quotients)| quotients.clone());
    let axis = Axis::around(&format!("times {first}"), ends.chain([1.0 - margin * 1.5, 1.0 + margin * 1.5]));
    let title = format!("{}, compared with {first}", in_words(quantity));
    let mut rows = Rows::new(&format!("{title}, {}", group.title), axis);
    rows.margin(margin);
    let mut table = Table::new(&["server", "load", &format!("times {first}"), "verdict", "each round"]);
    for (place, ratio, quotients) in &compared {
        let is_its = |verdict: &&Verdict| {
            verdict.server == place.name()
                && verdict.point == place.found.point.name
                && verdict.quantity == quantity
        };
        let verdict = results.verdicts.iter().find(is_its);
        let (class, says) = match verdict.map(|verdict| &verdict.says) {
            Some(Says::Less) => ("sure", "less"),
            Some(Says::More) => ("sure", "more"),
            Some(Says::CannotTell(_)) => ("unsure", "cannot tell"),
            Some(Says::Failed(_)) => ("unsure", "failed"),
            None => ("unsure", "A/A control"),
        };
        let told = format!("{ratio:.3}");
        let (row, style) = (group.row(*place), group.scene.style(place.name()));
        let middle = Some((ratio.median, ratio.interval));
        rows.dots((&row, style, class), told.clone(), (quotients, &[]), middle);
        let each: Vec<String> = quotients.iter().map(|quotient| format!("{quotient:.3}")).collect();
        table.rows.push(place.cells([told, says.to_owned(), each.join(" ")]));
    }
    Some(Figure { title, note: "", keys: Vec::new(), drawing: rows.drawing(), table })
}

fn compared(place: Place<'_>, quantity: Quantity) -> Option<(Place<'_>, Ratio, Vec<f64>)> {
    let (first, series) = (&place.found.series[0], place.series);
    if std::ptr::eq(first, series) {
        return None;
    }
    let ratio = series.ratio(first, quantity.of)?;
    Some((place, ratio, series.quotients(first, quantity.of)))
}

/// A part of a bar.
pub(super) struct Part<'a> {
    name: &'a str,
    /// Its class on the page.
    class: String,
    of: Box<dyn Fn(&Outcome) -> f64 + 'a>,
}

impl<'a> Part<'a> {
    pub(super) fn new(name: &'a str, class: impl Into<String>, of: impl Fn(&Outcome) -> f64 + 'a) -> Self {
        Self { name, class: class.into(), of: Box::new(of) }
    }
}

/// Bars in parts, from the medians of each part.
pub(super) fn parts(
    group: &Group<'_>,
    (title, unit, note): (&str, &str, &'static str),
    parts: &[Part<'_>],
) -> Figure {
    let of = |place: Place<'_>| parts.iter().map(|part| place.sample(&part.of).median()).collect();
    let medians: Vec<(Place<'_>, Vec<Option<f64>>)> =
        group.places().map(|place| (place, of(place))).collect();
    let sum = |medians: &[Option<f64>]| medians.iter().flatten().sum::<f64>();
    let axis = Axis::linear(unit, medians.iter().map(|(_, medians)| sum(medians)));
    let mut rows = Rows::new(&format!("{title}, {}", group.title), axis);
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    let mut table = Table::new(&[&["server", "load"], &names[..]].concat());
    for (place, medians) in &medians {
        let bar = |(part, median): (&Part<'_>, &Option<f64>)| (part.class.clone(), median.unwrap_or(0.0));
        let bars: Vec<(String, f64)> = parts.iter().zip(medians).map(bar).collect();
        // Parts that are unused, or used by others, do not count.
        let used = bars.iter().filter(|(class, _)| !["idle", "others"].contains(&class.as_str()));
        rows.bars(&group.row(*place), digits(used.map(|(_, part)| part).sum()), &bars);
        table.rows.push(place.cells(medians.iter().copied().map(cell)));
    }
    let keys = parts.iter().map(|part| Key::area(part.name, &part.class)).collect();
    Figure { title: title.to_owned(), note, keys, drawing: rows.drawing(), table }
}
