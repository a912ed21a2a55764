//! Figures over the offered rate, or over the servers' CPU time: how servers behave as the rate rises.
//! Every repetition is a point, the median is a line, and the interval of the median is a band.

use super::figure::{Figure, Key, Table};
use super::group::{Group, Place, offered};
use super::sample::{Value, cell, counts};
use super::svg::Of;
use super::svg::axis::Axis;
use super::svg::plot::Plot;
use crate::analysis::series::Series;
use crate::statistics::Interval;

/// The horizontal axis of curves.
#[derive(Clone, Copy)]
pub(super) struct Over {
    /// The end of a figure's title.
    told: &'static str,
    /// The unit, for the axis and the table.
    unit: &'static str,
    heading: &'static str,
    /// The heading for the repetitions' own values, where they differ.
    each: Option<&'static str>,
    of: Value,
}

/// Over the offered rate.
pub(super) const RATE: Over = Over {
    told: " over the offered rate",
    unit: "offered, requests/s",
    heading: "offered",
    each: None,
    of: offered,
};

/// Over the server's CPU time (Hashemian et al. 2014, figures 5 and 6).
pub(super) const CPU: Over = Over {
    told: "",
    unit: "server, % of a CPU",
    heading: "CPU %",
    each: Some("CPU % of each"),
    of: |outcome| outcome.cpu.server_cpus * 100.0,
};

/// The vertical axis of a curve.
pub(super) struct Curve<'a> {
    pub(super) over: Over,
    pub(super) title: &'a str,
    pub(super) unit: &'a str,
    pub(super) of: Value,
    pub(super) is_log: bool,
    /// The value for each offered request, if all requests are answered.
    pub(super) per_request: Option<f64>,
}

/// How to read these figures.
pub(super) const READING: &str = "Lines: medians; bands: their 95% confidence intervals; small: each \
    repetition; crosses: trials that don't count.";

pub(super) fn figure(group: &Group<'_>, curve: &Curve<'_>) -> Figure {
    let Curve { over, title, unit, of, is_log, per_request } = curve;
    let values = || group.places().flat_map(|place| place.sample(of).all().collect::<Vec<_>>());
    let rates = group.places().flat_map(|place| place.sample(over.of).all().collect::<Vec<_>>());
    let x = Axis::linear(over.unit, rates);
    let y = if *is_log { Axis::log(unit, values()) } else { Axis::linear(unit, values()) };
    let mut plot = Plot::new(&format!("{title}{}, {}", over.told, group.title), x, y);
    let mut table = Table::new(&["server", "load", over.heading, unit, "each repetition"]);
    table.headings.extend(over.each.map(str::to_owned));
    let mut keys = Vec::new();
    if let Some(factor) = per_request {
        plot.diagonal(*factor);
        keys.push(Key::area("all that was offered", "diagonal"));
    }
    for (name, places) in group.by_server() {
        let style = group.scene.style(name);
        keys.push(group.key(name));
        let mut line = Vec::new();
        let mut band = Vec::new();
        for place in places {
            let (sample, at) = (place.sample(of), place.sample(over.of).median());
            for (at, value, is_counted) in each(place.series, over.of, *of) {
                plot.point(style, (at, value), if is_counted { Of::One } else { Of::Uncounted });
            }
            if let (Some(at), Some((median, interval))) = (at, sample.middle()) {
                line.push((at, median));
                band.extend(interval.map(|Interval { lower, upper }| (at, lower, upper)));
            }
            let mut row = place.cells([cell(at), sample.told(), sample.listed()]);
            row.extend(over.each.map(|_| place.sample(over.of).listed()));
            table.rows.push(row);
        }
        if !style.is_control {
            plot.band(style, &band);
            plot.line(style, line.iter().copied());
        }
        for at in line {
            plot.point(style, at, Of::Median);
        }
    }
    Figure { title: (*title).to_owned(), note: "", keys, drawing: plot.drawing(), table }
}

/// The position of each trial, and whether it counts.
fn each(series: &Series, over: Value, value: Value) -> impl Iterator<Item = (f64, f64, bool)> {
    let placed = series.tries().map(move |outcome| (over(outcome), value(outcome), counts(outcome)));
    placed.filter(|(at, value, _)| at.is_finite() && value.is_finite())
}

/// The area below each server's curve, over the rates that all servers have, as a fraction of the largest
/// area.
pub(super) fn areas(group: &Group<'_>, of: Value) -> Vec<(String, Option<f64>)> {
    let area = |places: &[Place<'_>]| {
        let corner = |place: &Place<'_>| Some((place.offered()?, place.sample(of).median()?));
        let corners: Vec<(f64, f64)> = places.iter().map(corner).collect::<Option<_>>()?;
        let strip = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0;
        (corners.len() == group.points.len() && corners.len() > 1)
            .then(|| corners.windows(2).map(strip).sum::<f64>())
    };
    let areas: Vec<(String, Option<f64>)> =
        group.by_server().iter().map(|(name, places)| ((*name).to_owned(), area(places))).collect();
    let best = areas.iter().filter_map(|(_, area)| *area).fold(0.0, f64::max);
    let part = |area: f64| if best > 0.0 { area / best } else { 0.0 };
    areas.into_iter().map(|(name, area)| (name, area.map(part))).collect()
}
