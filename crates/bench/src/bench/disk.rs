//! `bench disk`: what more processes, helpers and blocking sends bring where files have to come from a disk, and what they cost where
//! they don't: the 2007 paper's figures 4, 5 and 7.
//!
//! Bound by the disk, each trial's server gets a control group of its own with less memory than the files need, a disk of known
//! speed, and files that nobody has read yet. The resident part serves the same files from memory.
//!
//! A throttled disk has no latency, and loses nothing while nobody asks it for anything: what it could have read then, it reads
//! at once afterwards. To make a read take its time, as with the papers' disks, others read from it as well, each with one read
//! under way: a server with one more has a small share of the disk, one with several a larger one.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::cgroup::{self, Bounds};
use crate::experiment::{self, Experiment, Lengths, Progress};
use crate::journal::Journal;
use crate::series::Series;
use crate::subject::Variant;
use crate::table;
use crate::trial::{Load, Outcome, Site};
use crate::workload::{Kind, Workload};

/// How it is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    experiment: Experiment,
    /// A server: its name and settings; may be repeated. The first is what the others are compared with
    #[arg(long, value_name = "NAME: --OPTION=VALUE ...", default_values = SERVERS)]
    server: Vec<Variant>,
    /// Memory of the server, its page cache included, in MB
    #[arg(long, value_name = "MB", default_value_t = 100)]
    memory: u64,
    /// Speed of the disk in MB per second
    #[arg(long, value_name = "MB", default_value_t = 50)]
    speed: u64,
    /// Others who read from the disk all the time, each with one read of 64 KiB under way
    #[arg(long, value_name = "N", default_value_t = 4)]
    others: u32,
    /// Directories of the SPECweb99 set (5.1 MB each)
    #[arg(long, default_value_t = 78)]
    directories: u32,
    /// Sessions at a time
    #[arg(long, default_value_t = 100)]
    sessions: u32,
    /// Requests per second where sessions arrive, as a multiple of what the first server does for a fixed number of them
    #[arg(long, default_value_t = 1.5)]
    multiple: f64,
    /// How long a client waits for a connection, and then for each reply, in seconds
    #[arg(long, default_value_t = 3.0)]
    timeout: f64,
    /// How often everything is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one measurement that is bound by the disk, in seconds; half as long is one from memory
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Seconds before it, in which memory fills
    #[arg(long, default_value_t = 6.0)]
    warm_up: f64,
    /// A look: one round of 3 s after 3 s
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "warm_up"])]
    quick: bool,
}

pub(crate) const SERVERS: [&str; 8] = [
    "sped: --small-file=0 --architecture=sped",
    "symped, 2 processes: --small-file=0 --architecture=symped --workers=2",
    "symped, 4 processes: --small-file=0 --architecture=symped --workers=4",
    "symped, 8 processes: --small-file=0 --architecture=symped --workers=8",
    "amped: --small-file=0 --architecture=amped",
    "sped, blocking: --small-file=0 --architecture=sped --send=blocking",
    "symped, 4 processes, blocking: --small-file=0 --architecture=symped --workers=4 --send=blocking",
    "symped, 8 processes, blocking: --small-file=0 --architecture=symped --workers=8 --send=blocking",
];

/// Where the files come from, and how the load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// From the disk, for a fixed number of sessions at a time.
    Closed,
    /// From the disk, for sessions that arrive whatever the server does.
    Open,
    /// From memory, for a fixed number of sessions.
    Resident,
}

const PARTS: [Part; 3] = [Part::Closed, Part::Open, Part::Resident];

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Closed => "disk-bound",
            Self::Open => "disk-bound, arriving",
            Self::Resident => "resident",
        }
    }
}

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.quick {
        (options.rounds, options.seconds, options.warm_up) = (1, 3.0, 3.0);
    }
    let lengths = Lengths {
        warm_up: Duration::try_from_secs_f64(options.warm_up)?,
        measured: Duration::try_from_secs_f64(options.seconds)?,
        timeout: Duration::try_from_secs_f64(options.timeout)?,
    };
    let begun = options.experiment.begin("disk", None, lengths)?;
    let site = &begun.site;
    let bounds = Bounds {
        memory: options.memory * 1_000_000,
        reads_per_s: options.speed * 1_000_000,
        others: options.others,
    };
    let settings = json!({
        "builds": begun.builds,
        "bounds": bounds,
        "directories": options.directories,
        "sessions": options.sessions,
        "multiple": options.multiple,
        "timeout": options.timeout,
        "seconds": options.seconds,
        "warm_up": options.warm_up,
        "sysctls": site.sysctls,
    });
    let servers = experiment::runnable(options.server.clone(), site)?;
    let workload = Workload::prepare(
        &site.sluicelab,
        Kind::Specweb99,
        options.directories,
        50_000,
        &options.experiment.data,
    )?;
    let mut journal = Journal::open(&begun.journal, &settings)?;
    measure(&servers, &workload, &options, bounds, site, &mut journal)?;

    println!("{}\n", options.experiment.machine().line());
    println!(
        "SPECweb99 set of {:.0} MB, sessions on kept connections; clients wait {} s; {} rounds of {} s after {} s (resident: half as long); \
         medians. Journal: {}\n",
        f64::from(options.directories) * 5.119_484,
        options.timeout,
        options.rounds,
        options.seconds,
        options.warm_up,
        begun.journal.display(),
    );
    let bound = format!(
        "bound by the disk: {} MB of memory, cold, {} MB/s, {} others reading {} KiB each",
        options.memory,
        options.speed,
        options.others,
        cgroup::OTHERS_READ >> 10
    );
    let rate = arriving(&servers, &options, &journal)?.unwrap_or(0.0);
    for part in PARTS {
        let heading = match part {
            Part::Closed => format!("{} sessions at a time, {bound}", options.sessions),
            Part::Open => format!(
                "Sessions arrive, {rate:.0} requests/s ({} times the first server's above), {bound}",
                options.multiple
            ),
            Part::Resident => format!("{} sessions at a time, from memory", options.sessions),
        };
        println!("### {heading}\n");
        let all =
            Series::of_all(&servers, options.rounds, &journal, |server, round| key(server, part, round))?;
        println!("{}", markdown(&all, part));
    }
    Ok(())
}

fn measure(
    servers: &[Variant],
    workload: &Workload,
    options: &Options,
    bounds: Bounds,
    site: &Site,
    journal: &mut Journal,
) -> Result<()> {
    let mut progress = Progress::of(servers.len() * PARTS.len() * options.rounds as usize);
    for round in 0..options.rounds {
        for part in PARTS {
            let site = match part {
                Part::Closed | Part::Open => Site { bounds: Some(bounds), ..site.clone() },
                Part::Resident => {
                    Site { warm_up: site.warm_up / 2, measured: site.measured / 2, ..site.clone() }
                }
            };
            for server in servers {
                let key = key(server, part, round);
                if journal.has(&key) {
                    progress.skip();
                    continue;
                }
                match part {
                    Part::Closed | Part::Open => cgroup::forget(&workload.root)?,
                    Part::Resident => cgroup::read_all(&workload.root)?,
                }
                let load = match part {
                    Part::Closed | Part::Resident => Load::Closed(options.sessions),
                    Part::Open => Load::Open(
                        arriving(servers, options, journal)?.context("the first server is missing")?,
                    ),
                };
                let outcome = site.run(server, workload, load, u64::from(round) + 1)?;
                journal.put(&key, &outcome)?;
                progress.step(&format!("{key}: {:.0} replies/s", outcome.replies_per_s));
            }
        }
    }
    Ok(())
}

/// Requests per second where sessions arrive: it follows from the first server's first round, and is the same for all.
fn arriving(servers: &[Variant], options: &Options, journal: &Journal) -> Result<Option<f64>> {
    let first: Option<Outcome> = journal.get(&key(&servers[0], Part::Closed, 0))?;
    Ok(first.map(|outcome| (outcome.replies_per_s * options.multiple).round()))
}

fn key(server: &Variant, part: Part, round: u32) -> String {
    format!("{} ({server}), {}, round {}", server.name, part.name(), round + 1)
}

fn markdown(all: &[Series], part: Part) -> String {
    let mut headings = vec!["server", "settings", "replies/s", "Mbit/s", "to the first (95%)"];
    headings.extend(["mean, ms", "p50, ms", "p99, ms", "errors, %", "server CPU, %", "idle, %"]);
    headings.extend(match part {
        Part::Closed | Part::Open => ["I/O wait, %", "page cache, MB", "read, MB/s"].as_slice(),
        Part::Resident => &["us per reply", "to the first (95%)"],
    });
    let Some(first) = all.first() else { return String::new() };
    let rows = all.iter().map(|of| {
        let mut cells = vec![
            of.server.name.clone(),
            format!("`{}`", of.server),
            of.median(|of| of.replies_per_s, 0),
            of.median(|of| of.body_mbps, 0),
            of.ratio(first, |of| of.replies_per_s),
            of.median(|of| of.times.mean, 2),
            of.median(|of| of.times.p50, 2),
            of.median(|of| of.times.p99, 1),
            of.median(|of| of.errors * 100.0, 2),
            of.median(|of| of.cpu.server * 100.0, 1),
            of.median(|of| of.cpu.server_idle * 100.0, 1),
        ];
        cells.extend(match part {
            Part::Closed | Part::Open => vec![
                of.median(|of| of.cpu.server_io_wait * 100.0, 1),
                of.median(|of| of.disk.map_or(0.0, |disk| disk.page_cache_mb), 1),
                of.median(|of| of.disk.map_or(0.0, |disk| disk.read_mb_per_s), 1),
            ],
            Part::Resident => vec![
                of.median(|of| of.cpu.server_us_per_reply, 2),
                of.ratio(first, |of| of.cpu.server_us_per_reply),
            ],
        });
        cells
    });
    table::markdown(&headings, rows)
}
