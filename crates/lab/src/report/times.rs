//! Response times at one point: the whole distribution twice, once for its tail and once for its middle.

use super::figure::{Figure, Table};
use super::group::Group;
use super::sample::{counts, digits};
use super::svg::Of;
use super::svg::axis::Axis;
use super::svg::plot::Plot;
use crate::analysis::series::Found;
use crate::analysis::series::Series;
use crate::record::outcome::Outcome;
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
        let style = group.scene.style(name);
        keys.push(group.key(name));
        let points: [Vec<(f64, f64)>; 2] = [
            curve.iter().map(|(part, ms)| (Axis::nines_of(*part), *ms)).collect(),
            curve.iter().map(|(part, ms)| (*ms, part * 100.0)).collect(),
        ];
        for (plot, points) in [&mut percentiles, &mut cdf].into_iter().zip(points) {
            plot.line(style, points.iter().copied());
            // Enough markers to tell the lines apart.
            for point in points.iter().step_by(points.len() / 6 + 1) {
                plot.point(style, *point, Of::Median);
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
        Whose::All => [
            "The axis is logarithmic: each further nine takes the same distance.",
            "The part of the calls that took no longer.",
        ],
        Whose::Of(_) => ["Whole replies only, from when they were requested."; 2],
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
