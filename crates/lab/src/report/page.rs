//! The page: verdicts first, then what was measured where, the findings of others, the sections, and at the
//! end the trials that don't count. The page loads nothing from outside, and tells the browser to refuse
//! that.

use askama::Template;
use serde_json::Value;

use super::configurations::Configuration;
use super::figure::{Figure, Table, slug};
use super::forest;
use super::group::Scene;
use super::heat_map::Searched;
use super::sample::{counts, digits};
use super::section::Section;
use crate::analysis::holding::Holding;
use crate::record::profile::Profile;
use crate::record::tuned::Found;
use crate::report::results::{Held, Results, Sentence, Trial};
use crate::unique::unique;

/// The data of the template.
#[derive(Debug, Template)]
#[template(path = "report.html")]
pub(super) struct Page<'a> {
    results: &'a Results,
    headline: String,
    forest: Option<Figure>,
    verdicts: Vec<Sentence>,
    facts: Vec<(&'static str, String)>,
    servers: Table,
    configurations: Vec<Configuration>,
    control: Table,
    sections: Vec<Section>,
    searched: Option<Searched>,
    profiles: Vec<(String, Table)>,
    uncounted: Table,
    tries: usize,
}

impl<'a> Page<'a> {
    pub(super) fn of(
        results: &'a Results,
        searched: Option<&Found>,
        configurations: Vec<Configuration>,
    ) -> Self {
        let scene = Scene::of(results);
        let verdicts = results.sentences();
        Self {
            results,
            headline: forest::headline(results),
            forest: forest::figure(results),
            verdicts,
            facts: facts(results),
            servers: servers(results),
            configurations,
            control: control(results),
            sections: scene.groups().iter().map(Section::of).collect(),
            searched: searched.map(Searched::of),
            profiles: profile_tables(&results.profiles),
            uncounted: uncounted(results),
            tries: results.trials().len(),
        }
    }
}

impl Page<'_> {
    /// All figures, each with a name for a file.
    pub(super) fn figures(&self) -> Vec<(String, &Figure)> {
        let mut all: Vec<(String, &Figure)> = Vec::new();
        all.extend(self.forest.iter().map(|figure| ("comparisons".to_owned(), figure)));
        for (number, section) in (1..).zip(&self.sections) {
            let figures = section.blocks.iter().flat_map(|block| &block.figures);
            all.extend(figures.map(|figure| (format!("{number}-{}", slug(&figure.title)), figure)));
        }
        all
    }
}

/// The class of a finding, and its badge.
fn badge(held: &Held) -> (&'static str, &'static str) {
    let class = match held.says {
        Holding::Holds => "better",
        Holding::OtherSize | Holding::CannotTell(_) => "cannot",
        Holding::Contradicted => "worse",
    };
    (class, held.says.word())
}

fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let list = |path: &str| {
        let of = results.settings.pointer(path).and_then(Value::as_array);
        let all = of.into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
        all.join(", ")
    };
    let network = match results.settings["network"].as_str() {
        Some("namespaces") => "network namespaces, joined by veth: packets don't leave the machine",
        Some("loopback") => "the loopback interface",
        other => other.unwrap_or("not known"),
    };
    let machines = results.machines();
    let mut facts: Vec<_> = machines.into_iter().map(|machine| ("Machine", machine)).collect();
    facts.push(("CPUs", format!("servers {}; clients {}", list("/cpus/server"), list("/cpus/clients"))));
    facts.push(("Network", network.to_owned()));
    if !results.experiment.sysctls.is_empty() && results.settings["network"] == "namespaces" {
        facts.push(("sysctl", results.experiment.sysctls.join(", ")));
    }
    facts
}

fn servers(results: &Results) -> Table {
    let mut table = Table::new(&["server", "as written", "build"]);
    let build = |name: &str| results.settings["builds"][name].as_str().unwrap_or("–").to_owned();
    for server in results.experiment.servers() {
        table.rows.push(vec![server.name.clone(), server.typed(), build(&server.name)]);
    }
    table.rows.push(vec!["load generator".to_owned(), "sluicelab load".to_owned(), build("sluicelab")]);
    table
}

/// The A/A control of each point: the first server against itself.
fn control(results: &Results) -> Table {
    let mut table = Table::new(&["point", "quantity", "server", "times itself", "which is"]);
    let margin = results.experiment.margin;
    for found in results.found.iter().chain(&results.confirming) {
        let Some(first) = found.series.first() else { continue };
        let control = found.series.iter().find(|series| series.server.is_control_of(&first.server));
        let Some(control) = control else { continue };
        for quantity in &found.point.compare {
            let ratio = control.ratio(first, quantity.of);
            let is_off = ratio.is_some_and(|of| of.is_off(margin));
            let says = if is_off { "a difference: no verdict here" } else { "no difference" };
            let (point, name) = (found.point.name.clone(), first.server.name.clone());
            let told = control.ratio_cell(first, quantity.of);
            table.rows.push(vec![point, quantity.name.to_owned(), name, told, says.to_owned()]);
        }
    }
    table
}

/// Every trial that is not included in averages, with the reason.
fn uncounted(results: &Results) -> Table {
    let mut table =
        Table::new(&["point", "server", "round", "try", "replies/s", "", "why it does not count"]);
    let row = |Trial { found, server, round, number, outcome, .. }: Trial<'_>| {
        vec![
            found.point.name.clone(),
            server.to_owned(),
            round.to_string(),
            number.to_string(),
            digits(outcome.replies_per_s),
            if outcome.is_valid() { "failed" } else { "not valid" }.to_owned(),
            [&outcome.invalid[..], &outcome.failed[..]].concat().join("; "),
        ]
    };
    let trials = results.trials().into_iter();
    table.rows.extend(trials.filter(|trial| !counts(trial.outcome)).map(row));
    table
}

/// For each point, a row for each group of functions and a column for each server.
fn profile_tables(profiles: &[Profile]) -> Vec<(String, Table)> {
    let mut points: Vec<&str> = profiles.iter().map(|profile| profile.point.as_str()).collect();
    points.dedup();
    let of_point = |point: &str| {
        let columns: Vec<&Profile> = profiles.iter().filter(|profile| profile.point == point).collect();
        let names = unique(columns.iter().flat_map(|profile| &profile.groups).map(|part| &part.group));
        let headings = ["function group"].into_iter().chain(columns.iter().map(|of| of.server.as_str()));
        let mut table = Table::new(&headings.collect::<Vec<_>>());
        for name in names {
            let cell = |profile: &&Profile| {
                let part = profile.groups.iter().find(|part| part.group == *name);
                part.map_or("–".to_owned(), |part| format!("{:.2}", part.percent))
            };
            table.rows.push([name.to_owned()].into_iter().chain(columns.iter().map(cell)).collect());
        }
        (point.to_owned(), table)
    };
    points.into_iter().map(of_point).collect()
}
