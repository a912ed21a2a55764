//! `bench architectures`: the table of all architectures and two workloads. Each is looked at when it is saturated by a fixed number of
//! sessions, and when sessions arrive at rates that are the same for all: 0.8 and 2 times what the first server does saturated.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::experiment::{self, Experiment, Lengths, Progress, Slowness};
use crate::journal::Journal;
use crate::series::Series;
use crate::statistics::Ratio;
use crate::subject::Variant;
use crate::table;
use crate::trial::{Load, Outcome};
use crate::workload::{Kind, Workload};

/// How it is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    experiment: Experiment,
    #[command(flatten)]
    slowness: Slowness,
    /// A server: its name and settings; may be repeated. The first is what the others are compared with
    #[arg(long, value_name = "NAME: --OPTION=VALUE ...", default_values = SERVERS)]
    server: Vec<Variant>,
    /// What clients ask for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "one-packet,specweb99")]
    workloads: Vec<Kind>,
    /// Directories of the SPECweb99 set (5.1 MB each)
    #[arg(long, default_value_t = 10)]
    directories: u32,
    /// Sessions at a time where their number is fixed
    #[arg(long, default_value_t = 64)]
    sessions: u32,
    /// How often everything is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seconds before it
    #[arg(long, default_value_t = 1.5)]
    warm_up: f64,
    /// How long a client waits for a connection, and then for each reply, in seconds. A SYN that was dropped is sent again after one
    #[arg(long, default_value_t = 1.1)]
    timeout: f64,
    /// A look: one round of 0.8 s
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "warm_up"])]
    quick: bool,
}

/// Each with the number of workers that suits one CPU and files in memory; of processes and threads for connections, whose sends
/// always block, there are more than the fixed number of sessions.
pub(crate) const SERVERS: [&str; 13] = [
    "sped: --architecture=sped --backlog=128",
    "sped, accept limit 10: --architecture=sped --accept-limit=10 --backlog=128",
    "sped, no accept limit: --architecture=sped --accept-limit=inf --backlog=128",
    "symped: --architecture=symped --workers=2 --backlog=128",
    "symped, no accept limit: --architecture=symped --workers=2 --accept-limit=inf --backlog=128",
    "shared-symped: --architecture=shared-symped --workers=2 --backlog=128",
    "n-copy: --architecture=n-copy --copies=1 --backlog=128",
    "amped: --architecture=amped --backlog=128",
    "processes: --architecture=processes --workers=128 --backlog=128",
    "threads: --architecture=threads --workers=128 --backlog=128",
    "sped, blocking: --architecture=sped --send=blocking --backlog=128",
    "symped, blocking: --architecture=symped --workers=2 --send=blocking --backlog=128",
    "shared-symped, blocking: --architecture=shared-symped --workers=2 --send=blocking --backlog=128",
];

/// The cases of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Saturated,
    /// In tenths of what saturates the first server.
    Arriving(u32),
}

const BELOW: Case = Case::Arriving(8);
const BEYOND: Case = Case::Arriving(20);
const CASES: [Case; 3] = [Case::Saturated, BELOW, BEYOND];

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.quick {
        (options.rounds, options.seconds, options.warm_up) = (1, 0.8, 0.7);
    }
    let lengths = Lengths {
        warm_up: Duration::try_from_secs_f64(options.warm_up)?,
        measured: Duration::try_from_secs_f64(options.seconds)?,
        timeout: Duration::try_from_secs_f64(options.timeout)?,
    };
    let begun = options.experiment.begin("architectures", options.slowness.duty(), lengths)?;
    let site = &begun.site;
    let settings = json!({
        "builds": begun.builds,
        "directories": options.directories,
        "sessions": options.sessions,
        "seconds": options.seconds,
        "warm_up": options.warm_up,
        "timeout": options.timeout,
        "slowdown": site.slowdown,
        "sysctls": site.sysctls,
    });
    let servers = experiment::runnable(options.server.clone(), site)?;
    let mut journal = Journal::open(&begun.journal, &settings)?;
    let workloads = options.workloads.iter().map(|kind| {
        Workload::prepare(&site.sluicelab, *kind, options.directories, 20_000, &options.experiment.data)
    });
    let workloads: Vec<Workload> = workloads.collect::<Result<_>>()?;

    let mut progress = Progress::of(servers.len() * workloads.len() * CASES.len() * options.rounds as usize);
    for round in 0..options.rounds {
        for workload in &workloads {
            for case in CASES {
                for server in &servers {
                    let key = key(server, workload.kind, case, round);
                    if journal.has(&key) {
                        progress.skip();
                        continue;
                    }
                    let load = match case {
                        Case::Saturated => Load::Closed(options.sessions),
                        Case::Arriving(tenths) => {
                            let saturated = saturated(&servers[0], workload.kind, &journal)?;
                            let saturated = saturated.context("the first server is missing")?;
                            Load::Open(saturated * f64::from(tenths) / 10.0)
                        }
                    };
                    let outcome = site.run(server, workload, load, u64::from(round) + 1)?;
                    journal.put(&key, &outcome)?;
                    progress.step(&format!("{key}: {:.0} replies/s", outcome.replies_per_s));
                }
            }
        }
    }

    println!("{}\n", options.experiment.machine().line());
    let slowness = site.slowdown.map_or_else(
        || "server's CPU all its own".to_owned(),
        |duty| {
            format!(
                "server's CPU taken away for {} us and left for {} us by turns",
                duty.busy_us, duty.asleep_us
            )
        },
    );
    println!(
        "Saturated: {} sessions at a time. One CPU, {slowness}; {} rounds of {} s after {} s; clients wait {} s; medians. Journal: {}\n",
        options.sessions,
        options.rounds,
        options.seconds,
        options.warm_up,
        options.timeout,
        begun.journal.display(),
    );
    for workload in &workloads {
        let rate = saturated(&servers[0], workload.kind, &journal)?.unwrap_or(0.0);
        println!("### {}: 1x is {rate:.0} requests/s\n", workload.kind.name());
        let of = |case: Case| {
            Series::of_all(&servers, options.rounds, &journal, |server, round| {
                key(server, workload.kind, case, round)
            })
        };
        println!("{}", markdown(&of(Case::Saturated)?, &of(BELOW)?, &of(BEYOND)?));
    }
    Ok(())
}

fn key(server: &Variant, kind: Kind, case: Case, round: u32) -> String {
    let case = match case {
        Case::Saturated => "saturated".to_owned(),
        Case::Arriving(tenths) => format!("{}x", f64::from(tenths) / 10.0),
    };
    format!("{} ({server}), {}, {case}, round {}", server.name, kind.name(), round + 1)
}

/// Replies per second of a server that is saturated, in its first round.
fn saturated(server: &Variant, kind: Kind, journal: &Journal) -> Result<Option<f64>> {
    let outcome: Option<Outcome> = journal.get(&key(server, kind, Case::Saturated, 0))?;
    Ok(outcome.map(|outcome| outcome.replies_per_s))
}

fn markdown(saturated: &[Series], below: &[Series], beyond: &[Series]) -> String {
    let headings = [
        "architecture",
        "settings",
        "saturated: replies/s",
        "to the first (95%)",
        "us per reply",
        "at 0.8x: p50, ms",
        "p99, ms",
        "errors, %",
        "at 2x: replies/s",
        "to the first (95%)",
        "to its own saturated",
        "p50, ms",
        "p99, ms",
    ];
    let mut rows = Vec::new();
    // Interrupted work may have the one and not yet the other.
    for ((of, below_of), beyond_of) in saturated.iter().zip(below).zip(beyond) {
        let pairs = beyond_of.outcomes().iter().zip(of.outcomes());
        let kept =
            Ratio::of(pairs.map(|(beyond, saturated)| (beyond.replies_per_s, saturated.replies_per_s)));
        rows.push(vec![
            of.server.name.clone(),
            format!("`{}`", of.server),
            of.median(|of| of.replies_per_s, 0),
            of.ratio(&saturated[0], |of| of.replies_per_s),
            of.median(|of| of.cpu.server_us_per_reply, 1),
            below_of.median(|of| of.times.p50, 2),
            below_of.median(|of| of.times.p99, 1),
            below_of.median(|of| of.errors * 100.0, 2),
            beyond_of.median(|of| of.replies_per_s, 0),
            beyond_of.ratio(&beyond[0], |of| of.replies_per_s),
            kept.map_or_else(|| "–".to_owned(), |kept| format!("{:.3}", kept.mean)),
            beyond_of.median(|of| of.times.p50, 2),
            beyond_of.median(|of| of.times.p99, 1),
        ]);
    }
    table::markdown(&headings, rows)
}
