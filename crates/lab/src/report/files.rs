//! Results for other programs: a line of CSV for each trial with all of its figures, and everything as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::outcome::Outcome;
use crate::results::Results;
use crate::series::Taken;

/// What a line says of a trial besides figures.
const HEADINGS: [&str; 8] = ["stage", "point", "load", "server", "round", "try", "not_valid", "failed"];

/// A line for each try of each trial, after one with headings.
pub(super) fn csv(results: &Results) -> String {
    let stages =
        [("calibrating", &results.calibrating), ("measuring", &results.found), ("judging", &results.judged)];
    let mut trials: Vec<(Vec<String>, BTreeMap<String, f64>)> = Vec::new();
    for (stage, found) in stages.into_iter().flat_map(|(stage, all)| all.iter().map(move |one| (stage, one)))
    {
        for series in &found.series {
            for (round, taken) in series.rounds.iter().enumerate() {
                for (number, outcome) in taken.iter().flat_map(Taken::tries).enumerate() {
                    let (point, load) = (found.point.name.clone(), found.point.setting.load.to_string());
                    let (round, number) = ((round + 1).to_string(), (number + 1).to_string());
                    let reasons = [outcome.invalid.join("; "), outcome.failed.join("; ")];
                    let name = series.server.name.clone();
                    let place = [stage.to_owned(), point, load, name, round, number];
                    trials.push((place.into_iter().chain(reasons).collect(), figures(outcome)));
                }
            }
        }
    }
    let names: BTreeSet<&String> = trials.iter().flat_map(|(_, figures)| figures.keys()).collect();
    let headings = HEADINGS.into_iter().chain(names.iter().map(|name| name.as_str()));
    let mut text = line(headings.map(str::to_owned));
    for (place, figures) in &trials {
        let figures = names.iter().map(|name| figures.get(*name).map_or(String::new(), f64::to_string));
        text += &line(place.iter().cloned().chain(figures));
    }
    text
}

/// RFC 4180.
fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |cell: String| {
        if cell.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell
        }
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}

/// All numbers that are not in lists, by the names of their members.
fn figures(outcome: &Outcome) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    gather(&serde_json::to_value(outcome).unwrap_or_default(), "", &mut all);
    all
}

fn gather(value: &Value, name: &str, all: &mut BTreeMap<String, f64>) {
    match value {
        Value::Number(number) => all.extend(number.as_f64().map(|number| (name.to_owned(), number))),
        Value::Object(members) => {
            for (key, value) in members {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                gather(value, &name, all);
            }
        }
        _ => {}
    }
}
