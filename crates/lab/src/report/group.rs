//! Points that differ only in their load form a group, which is one section of the page: figures over the
//! load, or rows for each load. This module has what all figures of a section need.

use std::time::Duration;

use super::figure::Key;
use super::sample::Sample;
use super::svg::Style;
use crate::analysis::series::Found;
use crate::analysis::series::Series;
use crate::description::load::Load;
use crate::description::setting::{Receive, Rules, Setting};
use crate::record::outcome::Outcome;
use crate::report::results::Results;
use crate::unique::unique;

/// What all sections of the page share.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) results: &'a Results,
    /// The names of all servers. A server's index determines its colour and marker.
    names: Vec<&'a str>,
}

/// Points that differ only in their load, in order of the loads.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) scene: &'a Scene<'a>,
    /// The part of the name that they share.
    pub(crate) title: String,
    pub(crate) points: Vec<&'a Found>,
}

/// One server at one point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) found: &'a Found,
    pub(crate) series: &'a Series,
}

impl<'a> Scene<'a> {
    pub(crate) fn of(results: &'a Results) -> Self {
        let servers = results.experiment.servers().into_iter();
        Self { results, names: unique(servers.map(|server| server.name.as_str())) }
    }

    /// The colour and marker of a server.
    pub(crate) fn style(&self, name: &str) -> Style {
        let number = |name: &str| self.names.iter().position(|other| *other == name);
        let first = name.strip_suffix(" again").and_then(number);
        match (number(name), first) {
            (Some(number), _) => Style { number, is_control: false },
            (None, Some(number)) => Style { number, is_control: true },
            (None, None) => Style { number: self.names.len(), is_control: false },
        }
    }

    /// All points with results, in groups.
    pub(crate) fn groups(&'a self) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for found in self.results.found.iter().chain(&self.results.confirming) {
            if found.series.is_empty() {
                continue;
            }
            let (title, setting) = (title(found), &found.point.setting);
            let is_its = |group: &&mut Group<'_>| {
                let other = &group.points[0].point.setting;
                group.title == title
                    && group.is_open() == setting.load.is_open()
                    && Setting { load: setting.load, ..other.clone() } == *setting
            };
            match groups.iter_mut().find(is_its) {
                Some(group) => group.points.push(found),
                None => groups.push(Group { scene: self, title, points: vec![found] }),
            }
        }
        for group in &mut groups {
            group.points.sort_by(|one, other| load(one).total_cmp(&load(other)));
        }
        groups
    }
}

/// A point's name without its load.
fn title(found: &Found) -> String {
    found.point.name.replacen(&format!(", {}", found.point.setting.load), "", 1)
}

/// The number by which loads are sorted.
fn load(found: &Found) -> f64 {
    match found.point.setting.load {
        Load::Sessions(sessions) => f64::from(sessions),
        Load::Rate(load) | Load::Times(load) => load,
        Load::Classes => 0.0,
        Load::Most(threshold) => threshold.time.as_secs_f64(),
    }
}

impl<'a> Group<'a> {
    /// Whether clients come at set rates, whatever the server does.
    pub(crate) fn is_open(&self) -> bool {
        self.points[0].point.setting.load.is_open()
    }

    /// All combinations of server and point.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place<'a>> {
        let of = |found: &'a Found| found.series.iter().map(move |series| Place { found, series });
        self.points.clone().into_iter().flat_map(of)
    }

    /// All combinations of server and point, server by server.
    pub(crate) fn by_server(&self) -> Vec<(&'a str, Vec<Place<'a>>)> {
        let names = unique(self.places().map(Place::name)).into_iter();
        names.map(|name| (name, self.places().filter(|place| place.name() == name).collect())).collect()
    }

    /// A server's entry in the legend of a figure.
    pub(in crate::report) fn key(&self, name: &str) -> Key {
        Key::of(name, self.scene.style(name))
    }

    /// The heading of the section.
    pub(crate) fn heading(&self) -> String {
        match &self.points[..] {
            [one] => one.point.name.clone(),
            _ if self.is_open() => format!("{}, clients come at set rates", self.title),
            [one, ..] if matches!(one.point.setting.load, Load::Most(_)) => {
                format!("{}, the highest rate that is answered in time", self.title)
            }
            _ => format!("{}, a set number of clients", self.title),
        }
    }

    /// The name of a row, which includes the load if there are several.
    pub(crate) fn row(&self, place: Place<'_>) -> String {
        let name = place.name();
        if self.points.len() == 1 { name.to_owned() } else { format!("{name}, {}", place.load()) }
    }

    /// The common setting of these points in words.
    pub(crate) fn setting(&self) -> String {
        let loads: Vec<String> =
            self.points.iter().map(|found| found.point.setting.load.to_string()).collect();
        let (experiment, setting) = (&self.scene.results.experiment, &self.points[0].point.setting);
        let Setting { workload, clients, tls, memory, disk, others, cold, share, .. } = setting;
        let Setting { turn_us, both_cpus, cpus, receive, rules, lengths, generator, .. } = setting;
        let mut said = vec![format!("workload {workload}")];
        // Properties of the workload that its name does not show.
        let members = serde_json::to_value(workload).unwrap_or_default();
        if matches!(members["kind"].as_str(), Some("specweb99" | "support")) {
            let of = ["directories", "sessions"].into_iter().filter_map(|key| Some((key, members.get(key)?)));
            said.extend(of.map(|(key, value)| format!("{key}={value}")));
        }
        let each = members["paths"]["requests_per_connection"].as_u64();
        said.extend(each.map(|each| format!("{each} requests on a connection")));
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        said.push(format!("load {}", loads.join(", ")));
        said.extend((!generator.is_sluicelab()).then(|| format!("generator: {generator}")));
        said.extend(clients.iter().cloned());
        said.extend(tls.map(|tls| tls.to_string()));
        said.extend(share.map(|share| format!("{share}% of a CPU for each server, {turn_us} us at a time")));
        let who = if *both_cpus { "servers and clients" } else { "servers" };
        said.extend(match cpus {
            Some(cpus) => Some(format!("{who} on {cpus} {}", if *cpus == 1 { "CPU" } else { "CPUs" })),
            None => both_cpus.then(|| format!("{who} on all CPUs")),
        });
        said.extend(match receive {
            Receive::Sender => Some("packets received on the sender's CPU".to_owned()),
            Receive::Receiver => None,
            Receive::One => Some("the first of the servers' CPUs receives".to_owned()),
            Receive::Spread => Some("all of the servers' CPUs receive".to_owned()),
        });
        said.extend(match rules {
            Rules::H12 => None,
            Rules::P07 => Some("rules: those of Pariag and others 2007".to_owned()),
            Rules::None => Some("rules: none, so that a server's failures count as well".to_owned()),
        });
        said.extend(memory.map(|memory| format!("memory with page cache {} MB", memory as f64 / 1e6)));
        said.extend(disk.map(|disk| format!("disk {} MB/s, {others} other readers", disk as f64 / 1e6)));
        said.push(if *cold { "files not cached before" } else { "files cached before" }.to_owned());
        said.push(format!("warm-up {}", seconds(lengths.warm_up)));
        said.push(format!("measured {} in {} slices", seconds(lengths.measured), lengths.slices));
        said.push(format!("client timeout {}", seconds(lengths.timeout)));
        said.push(format!("{} rounds, seed {}", experiment.rounds, experiment.seed));
        let order = serde_json::to_value(setting.order).unwrap_or_default();
        said.push(format!("servers {}", order.as_str().unwrap_or_default().replace('-', " ")));
        said.push(format!("margin {}%", (experiment.margin * 1e4).round() / 1e2));
        said.join("; ")
    }
}

impl<'a> Place<'a> {
    pub(crate) fn name(self) -> &'a str {
        &self.series.server.name
    }

    pub(crate) fn load(&self) -> String {
        self.found.point.setting.load.to_string()
    }

    /// A row of a table. Server and load come first.
    pub(crate) fn cells(&self, more: impl IntoIterator<Item = String>) -> Vec<String> {
        [self.name().to_owned(), self.load()].into_iter().chain(more).collect()
    }

    pub(crate) fn sample(&self, value: impl Fn(&Outcome) -> f64) -> Sample {
        Sample::of(self.series, value)
    }

    /// The median of the requested rates.
    pub(crate) fn offered(&self) -> Option<f64> {
        self.sample(offered).median().filter(|offered| offered.is_finite())
    }
}

/// The requested rate of a trial.
pub(crate) fn offered(outcome: &Outcome) -> f64 {
    outcome.asked_requests_per_s.unwrap_or(f64::NAN)
}
