//! Response times at one point: the whole distribution twice, once for its tail and once for its middle,
//! and the times of replies of different sizes.

use super::figure::{Figure, Table};
use super::group::Group;
use super::sample::{cell, counts, digits};
use super::svg::Of;
use super::svg::axis::Axis;
use super::svg::plot::Plot;
use crate::judging::series::Found;
use crate::judging::series::Series;
use crate::record::outcome::{OfSize, Outcome};
use crate::statistics;
use crate::unique::unique;

/// How to read these figures.
pub(super) const READING: &str = "Medians over the trials that count.";

/// The calls that a figure is about.
#[derive(Clone, Copy, Debug)]
enum Whose<'a> {
    /// All calls.
    All,
    /// The whole replies of one party, by its name.
    Of(&'a str),
}

impl Whose<'_> {
    fn curve(self, outcome: &Outcome) -> Vec<(f64, f64)> {
        let times = &outcome.wait_ms;
        match self {
            Self::All if times.percentiles.is_empty() => {
                vec![(0.5, times.p50), (0.9, times.p90), (0.99, times.p99), (0.999, times.p999)]
            }
            Self::All => times.percentiles.clone(),
            Self::Of(name) => {
                let party = outcome.parties.iter().find(|party| party.name == name);
                party.map_or_else(Vec::new, |party| party.percentiles.clone())
            }
        }
    }

    /// The text before a load.
    fn told(self) -> String {
        match self {
            Self::All => String::new(),
            Self::Of(name) => format!("{name}, "),
        }
    }
}

/// Pairs of a fraction and the time below which that fraction of the calls is: medians over the rounds.
fn curve(series: &Series, whose: Whose<'_>) -> Vec<(f64, f64)> {
    let of = |outcome: &Outcome| whose.curve(outcome);
    let all: Vec<Vec<(f64, f64)>> = series.outcomes().filter(|outcome| counts(outcome)).map(of).collect();
    let at = |part: f64| {
        let of_one = |curve: &Vec<(f64, f64)>| {
            curve.iter().find(|point| (point.0 - part).abs() < 1e-9).map(|point| point.1)
        };
        Some((part, statistics::median(all.iter().filter_map(of_one))?))
    };
    all.first().into_iter().flatten().filter_map(|(part, _)| at(*part)).collect()
}

/// The percentiles of all servers at a point, and their cumulative distributions: of all calls, and of each
/// party's replies.
pub(super) fn distributions(group: &Group<'_>, found: &Found) -> Vec<Figure> {
    let parties = found.series.iter().flat_map(Series::outcomes).flat_map(|outcome| &outcome.parties);
    let told = parties.filter(|party| !party.percentiles.is_empty());
    let names = unique(told.map(|party| party.name.as_str()));
    let whose = [Whose::All].into_iter().chain(names.into_iter().map(Whose::Of));
    whose.flat_map(|whose| distribution(group, found, whose)).collect()
}

fn distribution(group: &Group<'_>, found: &Found, whose: Whose<'_>) -> [Figure; 2] {
    let curves: Vec<(&Series, Vec<(f64, f64)>)> =
        found.series.iter().map(|series| (series, curve(series, whose))).collect();
    let times = || curves.iter().flat_map(|(_, curve)| curve.iter().map(|(_, ms)| *ms));
    let most = curves.iter().flat_map(|(_, curve)| curve.iter().map(|(part, _)| *part)).fold(0.9, f64::max);
    let load = &found.point.setting.load;
    let of = whose.told();
    let label = |what: &str| format!("{what} of response times, {}, {of}{load}", group.title);
    let tail = Axis::nines("part of the calls", most);
    let mut percentiles = Plot::new(&label("Percentiles"), tail, Axis::log("ms", times()));
    let percent = Axis::linear("% of the calls", [100.0]);
    let mut cdf = Plot::new(&label("Distribution"), Axis::log("ms", times()), percent);
    let mut keys = Vec::new();
    let mut table = Table::new(&["server"]);
    for (series, curve) in &curves {
        let name = &series.server.name;
        let look = group.scene.look(name);
        keys.push(group.key(name));
        let points: [Vec<(f64, f64)>; 2] = [
            curve.iter().map(|(part, ms)| (Axis::nines_of(*part), *ms)).collect(),
            curve.iter().map(|(part, ms)| (*ms, part * 100.0)).collect(),
        ];
        for (plot, points) in [&mut percentiles, &mut cdf].into_iter().zip(points) {
            plot.line(look, points.iter().copied());
            // Enough markers to tell the lines apart.
            for point in points.iter().step_by(points.len() / 6 + 1) {
                plot.point(look, *point, Of::Median);
            }
        }
        if table.headings.len() == 1 {
            table.headings.extend(curve.iter().map(|(part, _)| format!("{}% ms", percent_of(*part))));
        }
        let cells = curve.iter().map(|(_, ms)| digits(*ms));
        let mut row: Vec<String> = [name.clone()].into_iter().chain(cells).collect();
        row.resize(table.headings.len().max(row.len()), "–".to_owned());
        table.rows.push(row);
    }
    let notes = match whose {
        Whose::All => ["Each nine is as far from the one before.", "Which part of the calls took no longer."],
        Whose::Of(_) => ["Of whole replies, since they were asked for."; 2],
    };
    [("Percentiles", notes[0], percentiles), ("Cumulative distribution", notes[1], cdf)].map(
        |(title, note, plot)| Figure {
            title: format!("{title}, {of}{load}"),
            note,
            keys: keys.clone(),
            drawing: plot.drawing(),
            table: table.clone(),
        },
    )
}

fn percent_of(part: f64) -> f64 {
    (part * 1e6).round() / 1e4
}

/// Response times by the size of the body, and the part of the calls that timed out.
pub(super) fn by_size(group: &Group<'_>, found: &Found) -> Vec<Figure> {
    let of_all = found.series.iter().flat_map(Series::outcomes).flat_map(|outcome| &outcome.by_size);
    let sizes = unique(of_all.map(|of| of.size.clone()));
    if sizes.is_empty() {
        return Vec::new();
    }
    let load = &found.point.setting.load;
    let figure = |title: &str, y: fn(Vec<f64>) -> Axis, value: OfOneSize| {
        let title = format!("{title} by size, {load}");
        let values =
            found.series.iter().flat_map(|one| sizes.iter().filter_map(|size| median(one, size, value)));
        let x = Axis::names("size of the body", &sizes);
        let mut plot = Plot::new(&format!("{title}, {}", group.title), x, y(values.collect()));
        for (number, series) in found.series.iter().enumerate() {
            // The servers' markers stand side by side.
            let beside = ((number as f64 + 0.5) / found.series.len() as f64 - 0.5) * 0.6;
            for (place, size) in sizes.iter().enumerate() {
                if let Some(value) = median(series, size, value) {
                    let look = group.scene.look(&series.server.name);
                    plot.point(look, (place as f64 + beside, value), Of::Median);
                }
            }
        }
        let keys = found.series.iter().map(|series| group.key(&series.server.name)).collect();
        Figure { title, note: "", keys, drawing: plot.drawing(), table: sizes_table(found, &sizes) }
    };
    let times =
        figure("Mean response time", |values| Axis::log("mean ms", values), |of| of.reply_time_ms_mean);
    let timeouts = |of: &OfSize| of.timeouts / of.calls * 100.0;
    let timeouts = figure("Timeouts", |values| Axis::linear("% of the calls", values), timeouts);
    [Some(times), has_timeouts(found).then_some(timeouts)].into_iter().flatten().collect()
}

/// A figure of calls for bodies of one size.
type OfOneSize = fn(&OfSize) -> f64;

/// The median over the trials that count.
fn median(series: &Series, size: &str, value: OfOneSize) -> Option<f64> {
    let counted = series.tries().filter(|outcome| counts(outcome));
    let same = counted.filter_map(|outcome| outcome.by_size.iter().find(|of| of.size == size));
    statistics::median(same.map(value))
}

fn sizes_table(found: &Found, sizes: &[String]) -> Table {
    let columns: [(&str, OfOneSize); 5] = [
        ("calls", |of| of.calls),
        ("mean ms", |of| of.reply_time_ms_mean),
        ("p99 ms", |of| of.reply_time_ms_p99),
        ("timeouts %", |of| of.timeouts / of.calls * 100.0),
        ("not served %", |of| of.unserved / of.calls * 100.0),
    ];
    let mut table = Table::new(&[&["server", "size"], &columns.map(|(heading, _)| heading)[..]].concat());
    for series in &found.series {
        for size in sizes {
            let cells = columns.map(|(_, value)| cell(median(series, size, value)));
            table.rows.push([series.server.name.clone(), size.clone()].into_iter().chain(cells).collect());
        }
    }
    table
}

pub(super) fn has_timeouts(found: &Found) -> bool {
    let outcomes = found.series.iter().flat_map(Series::outcomes);
    outcomes.flat_map(|outcome| &outcome.by_size).any(|of| of.timeouts > 0.0)
}
