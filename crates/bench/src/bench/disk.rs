//! `bench disk`: what more processes, helpers and blocking sends bring where files have to come from a disk,
//! and what they cost where they don't: the 2007 paper's figures 4, 5 and 7.
//!
//! Bound by the disk, each trial's server gets a control group of its own with less memory than the files
//! need, a disk of known speed, and files that nobody has read yet. The resident part serves the same files
//! from memory.
//!
//! A throttled disk has no latency, and loses nothing while nobody asks it for anything: what it could have
//! read then, it reads at once afterwards. To make a read take its time, as with the papers' disks, others
//! read from it as well, each with one read under way: a server with one more has a small share of the disk,
//! one with several a larger one.

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::bounds::{self, Bounds};
use crate::claims::{self, COST, REPLIES};
use crate::experiment::{self, Begun, Experiment};
use crate::generator::Lengths;
use crate::journal::Journal;
use crate::remarks;
use crate::rounds::{CALIBRATING_ROUNDS, Found, MOST_ROUNDS, Order, Plan, Point, Stage};
use crate::series::{INVALID, Series};
use crate::subject::Variant;
use crate::table::{self, Column};
use crate::trial::{Load, Site};
use crate::workload::{Kind, Workloads};

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
    /// Requests per second where sessions arrive, as a multiple of what the first server does for a fixed
    /// number of them
    #[arg(long, default_value_t = 1.5)]
    multiple: f64,
    /// How long a client waits for a connection, and then for each reply, in seconds
    #[arg(long, default_value_t = 3.0)]
    timeout: f64,
    /// How often everything is measured. Below 6 there are no intervals and no verdicts
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=MOST_ROUNDS))]
    rounds: u32,
    /// Length of one measurement that is bound by the disk, in seconds; half as long is one from memory
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Seconds before it, in which memory fills
    #[arg(long, default_value_t = 6.0)]
    warm_up: f64,
    /// A look: one round of 3 s after 3 s, from which nothing follows
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

/// For which part of the time, in percent, the generator may wait where files come from memory: it asks so
/// often that the time that its CPU takes to wake up from being idle, a fifth of the time, is more than
/// usual.
const MAY_WAIT_RESIDENT: u32 = 15;

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
    let lengths = Lengths::of_seconds(options.warm_up, options.seconds, options.timeout)?;
    let bounds = Bounds {
        memory: options.memory * 1_000_000,
        reads_per_s: options.speed * 1_000_000,
        others: options.others,
    };
    let settings = json!({
        "servers": options.server,
        "bounds": bounds,
        "directories": options.directories,
        "sessions": options.sessions,
        "multiple": options.multiple,
    });
    let (mut journal, begun) = options.experiment.begin("disk", None, lengths, settings)?;
    let servers = experiment::runnable(options.server.clone(), begun.as_ref(), &mut journal)?;
    let calibration = options.calibration(&servers);
    let plan = options.plan(&servers);
    if let Some(Begun { site, .. }) = &begun {
        options.measure(&calibration, &plan, bounds, site, &mut journal)?;
    }

    println!("{}", options.experiment.heading(&journal)?);
    println!(
        "SPECweb99 set of {:.0} MB, sessions on kept connections; clients wait {} s; {} rounds of {} s after \
         {} s (resident: half as long); medians.\n",
        f64::from(options.directories) * 5.119_484,
        options.timeout,
        options.rounds,
        options.seconds,
        options.warm_up,
    );
    let bound = format!(
        "bound by the disk: {} MB of memory, cold, {} MB/s, {} others reading {} KiB each",
        options.memory,
        options.speed,
        options.others,
        bounds::OTHERS_READ >> 10
    );
    let rate = options.arriving(&calibration, &journal)?.unwrap_or(0.0);
    let found = plan.found(&journal)?;
    for Found { point, series, .. } in &found {
        let heading = match point.of {
            Part::Closed => format!("{} sessions at a time, {bound}", options.sessions),
            Part::Open => format!(
                "Sessions arrive, {rate:.0} requests/s ({} times what the first server answered to {} \
                 sessions at a time \
                 before), {bound}",
                options.multiple, options.sessions
            ),
            Part::Resident => format!("{} sessions at a time, from memory", options.sessions),
        };
        println!("### {heading}\n\n{}", markdown(series, point.of));
    }
    let quantities = |part: &Part| match part {
        Part::Closed | Part::Open => &[REPLIES][..],
        Part::Resident => &[REPLIES, COST],
    };
    println!("### Verdicts\n\n{}", claims::markdown(&found, options.rounds, quantities));
    let before = calibration.found(&journal)?;
    let all: Vec<&Series> = before.iter().chain(&found).flat_map(|found| &found.series).collect();
    let missing = before.iter().chain(&found).map(|found| found.missing).sum();
    print!("### Trials\n\n{}", remarks::markdown(&all, missing));
    Ok(())
}

impl Options {
    /// Says how many requests a disk can bear.
    fn calibration(&self, servers: &[Variant]) -> Plan<Part> {
        let servers = servers.iter().take(1).cloned().collect();
        let point = Point { name: "calibration".to_owned(), of: Part::Closed, servers };
        self.experiment.plan(Stage::Calibrating, CALIBRATING_ROUNDS, Order::InTurn, [point])
    }

    fn plan(&self, servers: &[Variant]) -> Plan<Part> {
        let points = PARTS.map(|part| Point::comparing(part.name().to_owned(), part, servers));
        self.experiment.plan(Stage::Measuring, self.rounds, Order::InTurn, points)
    }

    /// Requests per second where sessions arrive: the same for all servers and rounds.
    fn arriving(&self, calibration: &Plan<Part>, journal: &Journal) -> Result<Option<f64>> {
        let rate = calibration.rates(journal)?.into_iter().next().flatten();
        Ok(rate.map(|rate| (rate * self.multiple).round()))
    }

    fn measure(
        &self,
        calibration: &Plan<Part>,
        plan: &Plan<Part>,
        bounds: Bounds,
        site: &Site,
        journal: &mut Journal,
    ) -> Result<()> {
        let workloads = Workloads::prepare(site, &[Kind::Specweb99], self.directories, 50_000)?;
        let workload = workloads.of(Kind::Specweb99)?;
        let trial = |part: Part, servers: &[&Variant], load, seed| {
            let site = match part {
                Part::Closed | Part::Open => {
                    bounds::forget(&workload.root)?;
                    Site { bounds: Some(bounds), ..site.clone() }
                }
                Part::Resident => {
                    bounds::read_all(&workload.root)?;
                    let Lengths { warm_up, measured, timeout } = site.lengths;
                    let lengths = Lengths { warm_up: warm_up / 2, measured: measured / 2, timeout };
                    Site { lengths, may_wait: Some(MAY_WAIT_RESIDENT), ..site.clone() }
                }
            };
            site.run(servers, workload, load, seed)
        };
        let closed = Load::Closed(self.sessions);
        calibration.measure(journal, |part, servers, seed| trial(*part, servers, closed, seed))?;
        let arriving = self.arriving(calibration, journal)?.context("nothing is left to be measured")?;
        plan.measure(journal, |part, servers, seed| {
            let load = if *part == Part::Open { Load::Open(arriving) } else { closed };
            trial(*part, servers, load, seed)
        })
    }
}

fn markdown(all: &[Series], part: Part) -> String {
    let Some(first) = all.first() else { return String::new() };
    let columns: &[Column<'_, Series>] = &[
        ("server", &|of| of.server.name.clone()),
        ("settings", &|of| format!("`{}`", of.server)),
        ("replies/s", &|of| of.median_cell(REPLIES.of, 0)),
        ("Mbit/s", &|of| of.median_cell(|of| of.body_mbps, 0)),
        ("to the first (95%)", &|of| of.ratio_cell(first, REPLIES.of)),
        ("mean, ms", &|of| of.median_cell(|of| of.times.mean, 2)),
        ("p50, ms", &|of| of.median_cell(|of| of.times.p50, 2)),
        ("p99, ms", &|of| of.median_cell(|of| of.times.p99, 1)),
        ("errors, %", &|of| of.median_cell(|of| of.errors * 100.0, 2)),
        ("server CPU, %", &|of| of.median_cell(|of| of.cpu.server * 100.0, 1)),
        ("idle, %", &|of| of.median_cell(|of| of.cpu.server_idle * 100.0, 1)),
    ];
    let from_disk: &[Column<'_, Series>] = &[
        ("I/O wait, %", &|of| of.median_cell(|of| of.cpu.server_io_wait * 100.0, 1)),
        ("page cache, MB", &|of| of.median_cell(|of| of.disk.map_or(0.0, |disk| disk.page_cache_mb), 1)),
        ("read, MB/s", &|of| of.median_cell(|of| of.disk.map_or(0.0, |disk| disk.read_mb_per_s), 1)),
    ];
    let from_memory: &[Column<'_, Series>] = &[
        ("server us per reply", &|of| of.median_cell(COST.of, 2)),
        ("to the first (95%)", &|of| of.ratio_cell(first, COST.of)),
    ];
    let particular = if part == Part::Resident { from_memory } else { from_disk };
    table::of(&[columns, particular, &[(INVALID, &Series::invalid)]].concat(), all)
}
