//! `bench sweep`: what a limit on accepts is worth below, at and beyond saturation: the 2004 paper's figures 2, 8, 16 and 17.
//!
//! For each server and workload, the saturating rate is measured once ([`saturation`]); the rates of the experiment are multiples of
//! it that were chosen beforehand. Each round then runs every limit at every rate, the limits next to each other
//! and in another order each time, so that they are compared in pairs. [`report`] says what came of it.

mod report;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::experiment::{self, Experiment, Lengths, Progress, Slowness};
use crate::journal::Journal;
use crate::statistics::Spread;
use crate::subject::Variant;
use crate::trial::{Load, Outcome, Site};
use crate::workload::{Kind, Workload};

/// How the sweep is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    experiment: Experiment,
    #[command(flatten)]
    slowness: Slowness,
    /// A server: its name and settings; may be repeated
    #[arg(
        long,
        value_name = "NAME: --OPTION=VALUE ...",
        default_values = ["epoll: --architecture=sped", "select: --architecture=sped --events=select"]
    )]
    server: Vec<Variant>,
    /// Accept limits
    #[arg(long, value_name = "N|inf|auto", value_delimiter = ',', default_value = "1,10,50,inf,auto")]
    limits: Vec<String>,
    /// What clients ask for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "one-packet,specweb99,one-packet-idle")]
    workloads: Vec<Kind>,
    /// Rates, as multiples of the saturating one
    #[arg(long, value_delimiter = ',', default_value = "0.8,1,2", value_parser = multiple)]
    multiples: Vec<f64>,
    /// How often everything is measured
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 2.5)]
    seconds: f64,
    /// Seconds before it
    #[arg(long, default_value_t = 1.5)]
    warm_up: f64,
    /// How long a client waits for a connection, and then for each reply, in seconds. A SYN that was dropped is sent again after one
    #[arg(long, default_value_t = 1.1)]
    timeout: f64,
    /// How many connections may wait to be accepted
    #[arg(long, default_value_t = 128)]
    backlog: u32,
    /// Directories of the SPECweb99 set (5.1 MB each)
    #[arg(long, default_value_t = 10)]
    directories: u32,
    /// A look: two rounds of 1 s at saturation and twice that
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "warm_up", "timeout", "multiples"])]
    quick: bool,
}

/// What is to be measured.
#[derive(Debug)]
struct Plan {
    /// With the limits that each takes.
    servers: Vec<(Variant, Vec<String>)>,
    workloads: Vec<Workload>,
    multiples: Vec<f64>,
    rounds: u32,
}

/// The load at which a server begins to fall behind.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Saturation {
    /// Requests per second.
    rate: f64,
}

/// How many sessions at a time saturate a server.
const SESSIONS: u32 = 64;

/// A measurement and what it is of.
#[derive(Debug)]
struct Point {
    server: String,
    workload: Kind,
    multiple: f64,
    limit: String,
    round: u32,
    outcome: Outcome,
}

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.quick {
        (options.rounds, options.seconds, options.warm_up, options.timeout) = (2, 1.0, 1.0, 1.1);
        options.multiples = vec![1.0, 2.0];
    }
    let seconds = |time: f64| Duration::try_from_secs_f64(time);
    let lengths = Lengths {
        warm_up: seconds(options.warm_up)?,
        measured: seconds(options.seconds)?,
        timeout: seconds(options.timeout)?,
    };
    let begun = options.experiment.begin("sweep", options.slowness.duty(), lengths)?;
    let site = &begun.site;
    let settings = json!({
        "builds": begun.builds,
        "servers": options.server,
        "backlog": options.backlog,
        "directories": options.directories,
        "seconds": options.seconds,
        "warm_up": options.warm_up,
        "timeout": options.timeout,
        "slowdown": site.slowdown,
        "sysctls": site.sysctls,
    });
    let mut journal = Journal::open(&begun.journal, &settings)?;
    let plan = options.plan(site)?;
    measure(&plan, site, &mut journal)?;

    let points = plan.points(&journal)?;
    println!("{}\n", options.experiment.machine().line());
    let slowness = match site.slowdown {
        Some(duty) => format!(
            "its CPU taken away for {} us and left to it for {} us by turns",
            duty.busy_us, duty.asleep_us
        ),
        None => "its CPU all its own".to_owned(),
    };
    println!(
        "Backlog {}, {slowness}; {} rounds of {} s after {} s of warm-up; clients wait {} s; medians. \
         Sysctls: {}. Journal: {}\n",
        options.backlog,
        plan.rounds,
        options.seconds,
        options.warm_up,
        options.timeout,
        if site.sysctls.is_empty() { "as they come".to_owned() } else { site.sysctls.join(", ") },
        begun.journal.display(),
    );
    print!("{}", report::markdown(&points, &plan.rates(&journal)?, &options.limits));
    Ok(())
}

impl Options {
    fn plan(&self, site: &Site) -> Result<Plan> {
        let mut servers = Vec::new();
        for server in &self.server {
            let server = server.with("backlog", &self.backlog.to_string());
            let mut limits = Vec::new();
            for limit in &self.limits {
                let mut variant = server.with("accept-limit", limit);
                variant.name = format!("{}, accept limit {limit}", server.name);
                if experiment::is_runnable(&variant, site)? {
                    limits.push(limit.clone());
                }
            }
            if !limits.is_empty() {
                servers.push((server, limits));
            }
        }
        ensure!(!servers.is_empty(), "nothing is left to be measured");
        let workloads = self.workloads.iter().map(|kind| {
            Workload::prepare(&site.sluicelab, *kind, self.directories, 20_000, &self.experiment.data)
        });
        Ok(Plan {
            servers,
            workloads: workloads.collect::<Result<_>>()?,
            multiples: self.multiples.clone(),
            rounds: self.rounds,
        })
    }
}

/// Runs what the journal does not have yet.
fn measure(plan: &Plan, site: &Site, journal: &mut Journal) -> Result<()> {
    for (server, _) in &plan.servers {
        for workload in &plan.workloads {
            let key = saturation_key(server, workload);
            journal.get_or(&key, || saturation(server, workload, site))?;
        }
    }
    let limits: usize = plan.servers.iter().map(|(_, limits)| limits.len()).sum();
    let of_each = plan.multiples.len() * plan.workloads.len() * plan.rounds as usize;
    let mut progress = Progress::of(limits * of_each);
    for round in 0..plan.rounds {
        for (server, limits) in &plan.servers {
            for workload in &plan.workloads {
                let saturation: Option<Saturation> = journal.get(&saturation_key(server, workload))?;
                let Some(saturation) = saturation else { continue };
                for multiple in &plan.multiples {
                    for limit in in_turn(limits, round) {
                        let key = point_key(&server.name, workload.kind, *multiple, limit, round);
                        if journal.has(&key) {
                            progress.skip();
                            continue;
                        }
                        let variant = server.with("accept-limit", limit);
                        let rate = saturation.rate * multiple;
                        let outcome = site.run(&variant, workload, Load::Open(rate), u64::from(round) + 1)?;
                        journal.put(&key, &outcome)?;
                        progress.step(&format!("{key}: {:.0} of {rate:.0}/s", outcome.replies_per_s));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Each round begins with another limit, and every second one goes the other way round: none is always behind the same one.
fn in_turn(limits: &[String], round: u32) -> Vec<&String> {
    let mut order: Vec<_> = limits.iter().collect();
    order.rotate_left(round as usize % limits.len());
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// What the server answers when it always has 64 sessions to do, without an accept limit: the median of three short runs.
///
/// Looking for the highest open rate that is answered would be truer to the word, but takes minutes: in a second or two, sessions
/// ask for more or less than they should by several percent.
fn saturation(server: &Variant, workload: &Workload, site: &Site) -> Result<Saturation> {
    let server = server.with("accept-limit", "inf");
    let mut rates = Vec::new();
    for seed in 1..=3 {
        rates.push(site.run(&server, workload, Load::Closed(SESSIONS), seed)?.replies_per_s);
    }
    let rate = Spread::of(rates).map_or(0.0, |spread| spread.median).round();
    ensure!(rate > 0.0, "{} answers nothing", server.name);
    eprintln!("{}, {}: saturated at {rate:.0} requests/s", server.name, workload.kind.name());
    Ok(Saturation { rate })
}

impl Plan {
    fn points(&self, journal: &Journal) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for (server, limits) in &self.servers {
            for workload in &self.workloads {
                for &multiple in &self.multiples {
                    for limit in limits {
                        for round in 0..self.rounds {
                            let (server, workload) = (server.name.clone(), workload.kind);
                            let key = point_key(&server, workload, multiple, limit, round);
                            let Some(outcome) = journal.get(&key)? else { continue };
                            let limit = limit.clone();
                            points.push(Point { server, workload, multiple, limit, round, outcome });
                        }
                    }
                }
            }
        }
        Ok(points)
    }

    fn rates(&self, journal: &Journal) -> Result<Vec<(String, Kind, Saturation)>> {
        let mut rates = Vec::new();
        for (server, _) in &self.servers {
            for workload in &self.workloads {
                if let Some(saturation) = journal.get(&saturation_key(server, workload))? {
                    rates.push((server.name.clone(), workload.kind, saturation));
                }
            }
        }
        Ok(rates)
    }
}

fn saturation_key(server: &Variant, workload: &Workload) -> String {
    format!("saturation, {}, {}", server.name, workload.kind.name())
}

fn point_key(server: &str, workload: Kind, multiple: f64, limit: &str, round: u32) -> String {
    format!("{server}, {}, {multiple}x, limit {limit}, round {}", workload.name(), round + 1)
}

fn multiple(text: &str) -> Result<f64, String> {
    let allowed = "a multiple of the saturating rate, from 0.1 to 10";
    let multiple: f64 = text.parse().map_err(|_| allowed.to_owned())?;
    if (0.1..=10.0).contains(&multiple) { Ok(multiple) } else { Err(allowed.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_always_comes_first() {
        let limits = ["1", "10", "inf"].map(str::to_owned);
        let first = |round| in_turn(&limits, round)[0].as_str();
        assert_eq!([first(0), first(1), first(2)], ["1", "1", "inf"]);
        let mut third = in_turn(&limits, 2);
        third.sort();
        assert_eq!(third, ["1", "10", "inf"]);
    }

    #[test]
    fn multiples_are_positive() {
        assert_eq!(multiple("1.5"), Ok(1.5));
        assert!(multiple("0").is_err() && multiple("x").is_err());
    }
}
