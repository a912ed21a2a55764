//! `bench architectures`: the table of all architectures and two workloads. Each is looked at when it is
//! saturated by a fixed number of sessions, and when sessions arrive at rates that are the same for all: 0.8
//! and 2 times what the first server does saturated.

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use crate::claims::{self, COST, REPLIES};
use crate::experiment::{self, Begun, Experiment, Sharing};
use crate::generator::Lengths;
use crate::journal::Journal;
use crate::remarks;
use crate::rounds::{CALIBRATING_ROUNDS, MOST_ROUNDS, Order, Plan, Point, Stage};
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
    #[command(flatten)]
    sharing: Sharing,
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
    /// How often everything is measured. Below 6 there are no intervals and no verdicts
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=MOST_ROUNDS))]
    rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seconds before it: more than clients wait, or nobody has given up when it ends
    #[arg(long, default_value_t = 3.0)]
    warm_up: f64,
    /// How long a client waits for a connection, and then for each reply, in seconds. A SYN that was dropped
    /// is sent again after one
    #[arg(long, default_value_t = 1.1)]
    timeout: f64,
    /// A look: one round of 0.8 s, from which nothing follows
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "warm_up"])]
    quick: bool,
}

/// Each with the number of workers that suits one CPU and files in memory; of processes and threads for
/// connections, whose sends always block, there are more than the fixed number of sessions.
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
    let lengths = Lengths::of_seconds(options.warm_up, options.seconds, options.timeout)?;
    let turns = Some(options.sharing.turns());
    let settings = json!({
        "servers": options.server,
        "directories": options.directories,
        "sessions": options.sessions,
    });
    let (mut journal, begun) = options.experiment.begin("architectures", turns, lengths, settings)?;
    let servers = experiment::runnable(options.server.clone(), begun.as_ref(), &mut journal)?;
    let calibration = options.calibration(&servers);
    let plan = options.plan(&servers);
    if let Some(Begun { site, .. }) = &begun {
        options.measure(&calibration, &plan, site, &mut journal)?;
    }

    println!("{}", options.experiment.heading(&journal)?);
    println!(
        "Saturated: {} sessions at a time. {}; {} rounds of {} s after {} s; clients wait {} s; \
         medians.\n",
        options.sessions,
        options.sharing.told(),
        options.rounds,
        options.seconds,
        options.warm_up,
        options.timeout,
    );
    let rates = calibration.rates(&journal)?;
    let found = plan.found(&journal)?;
    for (kind, rate) in options.workloads.iter().zip(rates) {
        println!("### {}: 1x is {:.0} requests/s\n", kind.name(), rate.unwrap_or(0.0));
        let of = |case: Case| {
            let at = found.iter().find(|found| found.point.of == (*kind, case));
            at.map_or(&[][..], |found| &found.series)
        };
        println!("{}", markdown(of(Case::Saturated), of(BELOW), of(BEYOND)));
    }
    let quantities = |(_, case): &(Kind, Case)| if *case == BELOW { &[][..] } else { &[REPLIES] };
    println!("### Verdicts\n\n{}", claims::markdown(&found, options.rounds, quantities));
    let before = calibration.found(&journal)?;
    let all: Vec<&Series> = before
        .iter()
        .flat_map(|found| &found.series)
        .chain(found.iter().flat_map(|found| &found.series))
        .collect();
    let missing = found.iter().map(|found| found.missing).sum();
    print!("### Trials\n\n{}", remarks::markdown(&all, missing));
    Ok(())
}

impl Options {
    /// Says what each workload's rates are multiples of.
    fn calibration(&self, servers: &[Variant]) -> Plan<Kind> {
        // With others beside the first, as when it is measured: they have the caches in between.
        let abreast = &servers[..servers.len().min(2)];
        let points = self
            .workloads
            .iter()
            .map(|kind| Point::comparing(format!("calibration, {}", kind.name()), *kind, abreast));
        self.experiment.plan(Stage::Calibrating, CALIBRATING_ROUNDS, Order::Abreast, points)
    }

    fn plan(&self, servers: &[Variant]) -> Plan<(Kind, Case)> {
        let points = self.workloads.iter().flat_map(|kind| {
            CASES.map(|case| {
                Point::comparing(format!("{}, {}", kind.name(), case.name()), (*kind, case), servers)
            })
        });
        self.experiment.plan(Stage::Measuring, self.rounds, Order::Abreast, points)
    }

    fn measure(
        &self,
        calibration: &Plan<Kind>,
        plan: &Plan<(Kind, Case)>,
        site: &Site,
        journal: &mut Journal,
    ) -> Result<()> {
        let workloads = Workloads::prepare(site, &self.workloads, self.directories, 20_000)?;
        let closed = Load::Closed(self.sessions);
        calibration
            .measure(journal, |kind, servers, seed| site.run(servers, workloads.of(*kind)?, closed, seed))?;
        let rates = calibration.rates(journal)?;
        plan.measure(journal, |(kind, case), servers, seed| {
            let load = match case {
                Case::Saturated => closed,
                Case::Arriving(tenths) => {
                    let at = self.workloads.iter().position(|other| other == kind);
                    let rate = at.and_then(|at| rates[at]).context("there is no rate")?;
                    Load::Open(rate * f64::from(*tenths) / 10.0)
                }
            };
            site.run(servers, workloads.of(*kind)?, load, seed)
        })
    }
}

impl Case {
    fn name(self) -> String {
        match self {
            Self::Saturated => "saturated".to_owned(),
            Self::Arriving(tenths) => format!("{}x", f64::from(tenths) / 10.0),
        }
    }
}

fn markdown(saturated: &[Series], below: &[Series], beyond: &[Series]) -> String {
    // Interrupted work may have the one and not yet the other.
    let at = |all: &'_ [Series], of: &Series| all.iter().position(|other| other.server == of.server);
    let rows: Vec<[&Series; 3]> = saturated
        .iter()
        .filter_map(|of| Some([of, &below[at(below, of)?], &beyond[at(beyond, of)?]]))
        .collect();
    let columns: &[Column<'_, [&Series; 3]>] = &[
        ("architecture", &|[of, ..]| of.server.name.clone()),
        ("settings", &|[of, ..]| format!("`{}`", of.server)),
        ("saturated: replies/s", &|[of, ..]| of.median_cell(REPLIES.of, 0)),
        ("to the first (95%)", &|[of, ..]| of.ratio_cell(&saturated[0], REPLIES.of)),
        ("server us per reply", &|[of, ..]| of.median_cell(COST.of, 1)),
        ("at 0.8x: p50, ms", &|[_, below, _]| below.median_cell(|of| of.times.p50, 2)),
        ("p99, ms", &|[_, below, _]| below.median_cell(|of| of.times.p99, 1)),
        ("errors, %", &|[_, below, _]| below.median_cell(|of| of.errors * 100.0, 2)),
        ("at 2x: replies/s", &|[.., beyond]| beyond.median_cell(REPLIES.of, 0)),
        ("to the first (95%)", &|[.., of]| of.ratio_cell(&beyond[0], REPLIES.of)),
        ("to its own saturated", &|[of, _, beyond]| beyond.across_cell(of, REPLIES.of)),
        ("p50, ms", &|[.., beyond]| beyond.median_cell(|of| of.times.p50, 2)),
        ("p99, ms", &|[.., beyond]| beyond.median_cell(|of| of.times.p99, 1)),
        (INVALID, &|all| all.map(Series::invalid).join(", ")),
    ];
    table::of(columns, &rows)
}
