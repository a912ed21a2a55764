//! Results for other programs: CSV with a line of all figures for each trial, and JSON with everything. A
//! column has the name of the figure in JSON, with `_` between the names of nested members.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::record::outcome::Outcome;
use crate::report::results::{Results, Trial};

/// The columns about a trial besides its figures.
const HEADINGS: [&str; 11] = [
    "stage",
    "point",
    "load",
    "server",
    "round",
    "try",
    "valid",
    "invalid",
    "clients_were_short",
    "failed",
    "directory",
];

/// A line of headings, then a line for each try of each trial.
pub(super) fn csv(results: &Results) -> String {
    let place = |trial: &Trial<'_>| {
        let Trial { stage, found, server, round, number, outcome } = trial;
        let load = found.point.setting.load.to_string();
        let [round, number] = [round, number].map(usize::to_string);
        let reasons = [&outcome.invalid, &outcome.clients_were_short, &outcome.failed];
        let [invalid, short, failed] = reasons.map(|reasons| reasons.join("; "));
        let (stage, server) = ((*stage).to_owned(), (*server).to_owned());
        let valid = outcome.is_valid().to_string();
        let directory = outcome.directory.clone().unwrap_or_default();
        [
            stage,
            found.point.name.clone(),
            load,
            server,
            round,
            number,
            valid,
            invalid,
            short,
            failed,
            directory,
        ]
    };
    let trials: Vec<_> =
        results.trials().iter().map(|trial| (place(trial), figures(trial.outcome))).collect();
    let names: BTreeSet<&String> = trials.iter().flat_map(|(_, figures)| figures.keys()).collect();
    let headings = HEADINGS.into_iter().chain(names.iter().map(|name| name.as_str()));
    let mut text = line(headings.map(str::to_owned));
    for (place, figures) in &trials {
        let figures = names.iter().map(|name| figures.get(*name).map_or(String::new(), f64::to_string));
        text += &line(place.iter().cloned().chain(figures));
    }
    text
}

/// A line in the format of RFC 4180.
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

/// All numbers outside lists, by the names of their members.
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
                let name = if name.is_empty() { key.clone() } else { format!("{name}_{key}") };
                gather(value, &name, all);
            }
        }
        _ => {}
    }
}
