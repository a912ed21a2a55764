//! Response times at one point: the whole distribution twice, once for its tail and once for its middle, and
//! what becomes of replies of different sizes.

use super::figure::{Figure, Key, Table};
use super::group::{Group, Place};
use super::sample::{counts, digits};
use super::svg::axis::Axis;
use super::svg::plot::Plot;
use super::svg::{Look, Of};
use crate::outcome::{OfSize, Outcome};
use crate::plan::Found;
use crate::series::Series;
use crate::statistics;

/// How these figures are to be read.
pub(super) const READING: &str = "Medians over the trials that count.";

/// Parts of one, and the time below which that part of the calls was: medians over the rounds.
fn curve(series: &Series) -> Vec<(f64, f64)> {
    let of = |outcome: &Outcome| {
        let times = &outcome.times;
        let few = || vec![(0.5, times.p50), (0.9, times.p90), (0.99, times.p99), (0.999, times.p999)];
        if times.percentiles.is_empty() { few() } else { times.percentiles.clone() }
    };
    let all: Vec<Vec<(f64, f64)>> =
        series.taken().map(|taken| &taken.outcome).filter(|outcome| counts(outcome)).map(of).collect();
    let at = |part: f64| {
        let of_one = |curve: &Vec<(f64, f64)>| {
            curve.iter().find(|point| (point.0 - part).abs() < 1e-9).map(|point| point.1)
        };
        Some((part, statistics::median(all.iter().filter_map(of_one))?))
    };
    all.first().into_iter().flatten().filter_map(|(part, _)| at(*part)).collect()
}

/// The percentiles of all servers at a point, and their cumulative distributions.
pub(super) fn distributions(group: &Group<'_>, found: &Found) -> [Figure; 2] {
    let curves: Vec<(&Series, Vec<(f64, f64)>)> =
        found.series.iter().map(|series| (series, curve(series))).collect();
    let times = || curves.iter().flat_map(|(_, curve)| curve.iter().map(|(_, ms)| *ms));
    let most = curves.iter().flat_map(|(_, curve)| curve.iter().map(|(part, _)| *part)).fold(0.9, f64::max);
    let load = &found.point.setting.load;
    let label = |what: &str| format!("{what} of response times, {}, {load}", group.title);
    let tail = Axis::nines("part of the calls", most);
    let mut percentiles = Plot::new(&label("Percentiles"), tail, Axis::log("ms", times()));
    let percent = Axis::linear("% of the calls", [100.0]);
    let mut cdf = Plot::new(&label("Distribution"), Axis::log("ms", times()), percent);
    let mut keys = Vec::new();
    let mut table = Table::new(&["server"]);
    for (series, curve) in &curves {
        let name = &series.server.name;
        let look = group.scene.look(name);
        keys.push(Key::of(name, look));
        let points: [Vec<(f64, f64)>; 2] = [
            curve.iter().map(|(part, ms)| (Axis::nines_of(*part), *ms)).collect(),
            curve.iter().map(|(part, ms)| (*ms, part * 100.0)).collect(),
        ];
        for (plot, points) in [&mut percentiles, &mut cdf].into_iter().zip(points) {
            plot.line(look, points.iter().copied());
            // Enough of them to tell lines apart.
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
    let figure = |title: String, note: &str, drawing: String| Figure {
        title,
        note: note.to_owned(),
        keys: keys.clone(),
        drawing,
        table: table.clone(),
        setting: group.setting(),
    };
    [
        figure(
            format!("Percentiles, {load}"),
            "Each nine is as far from the one before.",
            percentiles.to_string(),
        ),
        figure(
            format!("Cumulative distribution, {load}"),
            "Which part of the calls took no longer.",
            cdf.to_string(),
        ),
    ]
}

fn percent_of(part: f64) -> f64 {
    (part * 1e6).round() / 1e4
}

/// Response times by the size of the body, and the part of the calls that timed out.
pub(super) fn by_size(group: &Group<'_>, found: &Found) -> Vec<Figure> {
    let mut sizes: Vec<String> = Vec::new();
    let of_all = found.series.iter().flat_map(Series::taken).flat_map(|taken| &taken.outcome.by_size);
    for of in of_all {
        if !sizes.contains(&of.size) {
            sizes.push(of.size.clone());
        }
    }
    if sizes.is_empty() {
        return Vec::new();
    }
    let load = &found.point.setting.load;
    let times = sizes_figure(group, found, &sizes, &format!("Mean response time by size, {load}"), true);
    let timeouts = sizes_figure(group, found, &sizes, &format!("Timeouts by size, {load}"), false);
    [Some(times), has_timeouts(found).then_some(timeouts)].into_iter().flatten().collect()
}

pub(super) fn has_timeouts(found: &Found) -> bool {
    let outcomes = found.series.iter().flat_map(Series::taken).map(|taken| &taken.outcome);
    outcomes.flat_map(|outcome| &outcome.by_size).any(|of| of.timeouts > 0.0)
}

/// Of either the mean times or the timeouts.
fn sizes_figure(group: &Group<'_>, found: &Found, sizes: &[String], title: &str, is_time: bool) -> Figure {
    let value = if is_time { |of: &OfSize| of.mean_ms } else { |of: &OfSize| of.timeouts / of.calls * 100.0 };
    let median = |series: &Series, size: &str, value: &dyn Fn(&OfSize) -> f64| {
        let of = |outcome: &Outcome| {
            let of = outcome.by_size.iter().find(|of| of.size == size);
            of.map_or(f64::NAN, value)
        };
        let sample = Place { found, series }.sample(of);
        statistics::median(sample.counted.into_iter().filter(|value| value.is_finite()))
    };
    let values = || {
        found.series.iter().flat_map(|series| sizes.iter().filter_map(|size| median(series, size, &value)))
    };
    let y = if is_time { Axis::log("mean ms", values()) } else { Axis::linear("% of the calls", values()) };
    let label = format!("{title}, {}", group.title);
    let mut plot = Plot::new(&label, Axis::names("size of the body", sizes), y);
    let headings = ["server", "size", "calls", "mean ms", "p99 ms", "timeouts %", "not served %"];
    let mut table = Table::new(&headings);
    let mut keys = Vec::new();
    let servers = found.series.len() as f64;
    for (number, series) in found.series.iter().enumerate() {
        let name = &series.server.name;
        let look: Look = group.scene.look(name);
        keys.push(Key::of(name, look));
        for (place, size) in sizes.iter().enumerate() {
            // Beside each other.
            let x = place as f64 + ((number as f64 + 0.5) / servers - 0.5) * 0.6;
            if let Some(value) = median(series, size, &value) {
                plot.point(look, (x, value), Of::Median);
            }
            let part = |count: fn(&OfSize) -> f64| move |of: &OfSize| count(of) / of.calls * 100.0;
            let (timeouts, unserved) = (part(|of| of.timeouts), part(|of| of.unserved));
            let columns: [&dyn Fn(&OfSize) -> f64; 5] =
                [&|of| of.calls, &|of| of.mean_ms, &|of| of.p99_ms, &timeouts, &unserved];
            let cells = columns.map(|column| median(series, size, column).map_or("–".to_owned(), digits));
            table.rows.push([name.clone(), size.clone()].into_iter().chain(cells).collect());
        }
    }
    let note = String::new();
    Figure { title: title.to_owned(), note, keys, drawing: plot.to_string(), table, setting: group.setting() }
}
