//! Figures of calls by a name that several servers share: by the size of the body, and by the class of
//! clients. The servers' markers stand side by side above each name.

use super::figure::{Figure, Table};
use super::group::Group;
use super::sample::{cell, counts};
use super::svg::Of;
use super::svg::axis::Axis;
use super::svg::plot::Plot;
use crate::analysis::series::Found;
use crate::analysis::series::Series;
use crate::record::outcome::{OfSize, Outcome, Party};
use crate::statistics;
use crate::unique::unique;

/// A figure's title, the label of its names, and the names.
type Told<'a> = (&'a str, &'a str, &'a [String]);

/// A column of a table: its heading, and a figure of calls that have the same name.
type Column<T> = (&'static str, fn(&T) -> f64);

/// A figure with a marker for each server above each name. A name without a value has no marker.
fn side_by_side(
    group: &Group<'_>,
    found: &Found,
    (title, label, names): Told<'_>,
    y: fn(Vec<f64>) -> Axis,
    value: &dyn Fn(&Series, &str) -> Option<f64>,
    table: Table,
) -> Figure {
    let title = format!("{title}, {}", found.point.setting.load);
    let of_all = || found.series.iter().flat_map(|one| names.iter().filter_map(|name| value(one, name)));
    let mut plot =
        Plot::new(&format!("{title}, {}", group.title), Axis::names(label, names), y(of_all().collect()));
    for (number, series) in found.series.iter().enumerate() {
        let beside = ((number as f64 + 0.5) / found.series.len() as f64 - 0.5) * 0.6;
        for (place, name) in names.iter().enumerate() {
            if let Some(value) = value(series, name) {
                let style = group.scene.style(&series.server.name);
                plot.point(style, (place as f64 + beside, value), Of::Median);
            }
        }
    }
    let keys = found.series.iter().map(|series| group.key(&series.server.name)).collect();
    Figure { title, note: "", keys, drawing: plot.drawing(), table }
}

/// A table with a row for each server and name.
fn table<T>(
    (found, heading, names): (&Found, &str, &[String]),
    columns: &[Column<T>],
    median: impl Fn(&Series, &str, fn(&T) -> f64) -> Option<f64>,
) -> Table {
    let headings = ["server", heading].into_iter().chain(columns.iter().map(|(heading, _)| *heading));
    let mut table = Table::new(&headings.collect::<Vec<_>>());
    for series in &found.series {
        for name in names {
            let cells = columns.iter().map(|(_, value)| cell(median(series, name, *value)));
            table.rows.push([series.server.name.clone(), name.clone()].into_iter().chain(cells).collect());
        }
    }
    table
}

/// Outcomes of all trials, whether they count or not.
fn outcomes(found: &Found) -> impl Iterator<Item = &Outcome> {
    found.series.iter().flat_map(Series::outcomes)
}

/// Response times by the size of the body, and the part of the calls that timed out. None if all bodies have
/// the same size, as then they say nothing that other figures don't.
pub(super) fn by_size(group: &Group<'_>, found: &Found) -> Vec<Figure> {
    let sizes = unique(outcomes(found).flat_map(|outcome| &outcome.by_size).map(|of| of.size.clone()));
    if sizes.len() < 2 {
        return Vec::new();
    }
    let median = |series: &Series, size: &str, value: fn(&OfSize) -> f64| {
        let counted = series.tries().filter(|outcome| counts(outcome));
        let same = counted.filter_map(|outcome| outcome.by_size.iter().find(|of| of.size == size));
        statistics::median(same.map(value))
    };
    let timeouts = |of: &OfSize| of.timeouts / of.calls * 100.0;
    let columns: [Column<OfSize>; 5] = [
        ("calls", |of| of.calls),
        ("mean ms", |of| of.reply_time_ms_mean),
        ("p99 ms", |of| of.reply_time_ms_p99),
        ("timeouts %", timeouts),
        ("not served %", |of| of.unserved / of.calls * 100.0),
    ];
    let figure = |title, y: fn(Vec<f64>) -> Axis, value: fn(&OfSize) -> f64| {
        let table = table((found, "size", &sizes), &columns, median);
        let value = |series: &Series, size: &str| median(series, size, value);
        side_by_side(group, found, (title, "size of the body", &sizes), y, &value, table)
    };
    let times = figure(
        "Mean response time by size",
        |values| Axis::log("mean ms", values),
        |of| of.reply_time_ms_mean,
    );
    let timed_out = figure("Timeouts by size", |values| Axis::linear("% of the calls", values), timeouts);
    [Some(times), has_timeouts(found).then_some(timed_out)].into_iter().flatten().collect()
}

/// Whether any call timed out.
pub(super) fn has_timeouts(found: &Found) -> bool {
    outcomes(found).flat_map(|outcome| &outcome.by_size).any(|of| of.timeouts > 0.0)
}

/// The part of what each class of clients asked for that was answered well. It shows whether a server is fair
/// between clients. Also for files and computed replies, if a workload has both.
pub(super) fn by_class(group: &Group<'_>, found: &Found) -> Option<Figure> {
    let classes = unique(outcomes(found).flat_map(|outcome| &outcome.parties).map(|of| of.name.clone()));
    if classes.len() < 2 {
        return None;
    }
    let median = |series: &Series, class: &str, value: fn(&Party) -> f64| {
        let counted = series.tries().filter(|outcome| counts(outcome));
        let same = counted.filter_map(|outcome| outcome.parties.iter().find(|of| of.name == class));
        statistics::median(same.map(value))
    };
    let answered = |of: &Party| of.replies_2xx_per_s / of.calls_per_s * 100.0;
    let columns: [Column<Party>; 4] = [
        ("calls/s", |of| of.calls_per_s),
        ("2xx/s", |of| of.replies_2xx_per_s),
        ("answered %", answered),
        ("p99 ms", |of| of.reply_time_ms_p99),
    ];
    let table = table((found, "class", &classes), &columns, median);
    let value = |series: &Series, class: &str| median(series, class, answered);
    let y: fn(Vec<f64>) -> Axis = |values| Axis::linear("% of the calls with a reply 2xx", values);
    let told = ("Answered by class", "class of clients", &classes[..]);
    Some(side_by_side(group, found, told, y, &value, table))
}
