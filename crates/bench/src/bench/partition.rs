//! `bench partition`: two address groups on two CPUs, each group's packets received on its own CPU. Who
//! serves a group: any worker, the one on that CPU (direct mapping), or the one on the other (indirect)? The
//! 2012 paper's partitioning, and figure 9 of the 2014 one.
//!
//! On a machine of two CPUs the clients share them: on both alike, each with half of either group's
//! connections. All CPUs are busy then, and throughput tells the cost of everything together, the clients'
//! work included, which is the same for all.

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;

use crate::claims::{self, COST, REPLIES};
use crate::experiment::{self, Begun, Experiment};
use crate::generator::Lengths;
use crate::network::Link;
use crate::remarks;
use crate::rounds::{Found, MOST_ROUNDS, Order, Point, Stage};
use crate::series::{INVALID, Series};
use crate::subject::Variant;
use crate::table::{self, Column};
use crate::trial::{Load, Outcome, Site};
use crate::workload::{Kind, Workloads};

/// How it is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    experiment: Experiment,
    /// A server: its name and settings; may be repeated. The first is what the others are compared with
    #[arg(long, value_name = "NAME: --OPTION=VALUE ...", default_values = SERVERS)]
    server: Vec<Variant>,
    /// What clients ask for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "one-packet,specweb99")]
    workloads: Vec<Kind>,
    /// Directories of the SPECweb99 set (5.1 MB each)
    #[arg(long, default_value_t = 10)]
    directories: u32,
    /// Sessions at a time
    #[arg(long, default_value_t = 64)]
    sessions: u32,
    /// How often everything is measured. Below 6 there are no intervals and no verdicts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=MOST_ROUNDS))]
    rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// A look: two rounds of 1.5 s, from which nothing follows
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    quick: bool,
}

pub(crate) const SERVERS: [&str; 7] = [
    "unpartitioned, not pinned: --architecture=symped --workers=2",
    "unpartitioned: --architecture=symped --workers=2 --cpus=0,1",
    "one process: --architecture=sped",
    "partitioned, direct: --architecture=n-copy --copies=2 --copies-by=address placement.mapping=\"direct\"",
    "partitioned, indirect: --architecture=n-copy --copies=2 --copies-by=address \
     placement.mapping=\"indirect\"",
    "two copies, SO_REUSEPORT: --architecture=n-copy --copies=2 --copies-by=reuseport",
    "two copies, steered by CPU: --architecture=n-copy --copies=2 --copies-by=cpu",
];

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.quick {
        (options.rounds, options.seconds) = (2, 1.5);
    }
    let lengths = Lengths::of_seconds(1.0, options.seconds, 5.0)?;
    let settings = json!({
        "servers": options.server,
        "directories": options.directories,
        "sessions": options.sessions,
    });
    let (mut journal, mut begun) = options.experiment.begin("partition", None, lengths, settings)?;
    if let Some(begun) = &mut begun {
        begun.site = on_two_cpus(&begun.site)?;
    }
    let servers = experiment::runnable(options.server.clone(), begun.as_ref(), &mut journal)?;
    let points = options.workloads.iter().map(|kind| Point::comparing(kind.name(), *kind, &servers));
    let plan = options.experiment.plan(Stage::Measuring, options.rounds, Order::InTurn, points);
    if let Some(Begun { site, .. }) = &begun {
        let workloads = Workloads::prepare(site, &options.workloads, options.directories, 20_000)?;
        plan.measure(&mut journal, |kind, servers, seed| {
            site.run(servers, workloads.of(*kind)?, Load::Closed(options.sessions), seed)
        })?;
    }

    println!("{}", options.experiment.heading(&journal)?);
    println!(
        "Two address groups, packets of each received on a CPU of its own; {} sessions at a time, clients on \
         both CPUs; {} rounds of {} s; medians.\n",
        options.sessions, options.rounds, options.seconds,
    );
    let found = plan.found(&journal)?;
    for Found { point, series, .. } in &found {
        println!("### {}\n\n{}", point.name, markdown(series));
    }
    println!("### Verdicts\n\n{}", claims::markdown(&found, options.rounds, |_| &[REPLIES, COST]));
    let all: Vec<&Series> = found.iter().flat_map(|found| &found.series).collect();
    let missing = found.iter().map(|found| found.missing).sum();
    print!("### Trials\n\n{}", remarks::markdown(&all, missing));
    Ok(())
}

/// The CPUs that were the server's and the clients' are both of both, and each has a link of which it is the
/// receiver.
fn on_two_cpus(site: &Site) -> Result<Site> {
    let cpus: Vec<usize> = [site.server_cpus.clone(), site.client_cpus.clone()].concat();
    ensure!(cpus.len() == 2, "two CPUs are needed");
    let links = cpus.iter().map(|cpu| Link { server_cpus: vec![*cpu], client_cpus: cpus.clone() }).collect();
    // Whoever waits for a CPU, it is busy: throughput tells what all of it together costs.
    let may_wait = Some(experiment::MAY_WAIT);
    Ok(Site { server_cpus: cpus.clone(), client_cpus: cpus, links, may_wait, ..site.clone() })
}

fn markdown(all: &[Series]) -> String {
    let Some(first) = all.first() else { return String::new() };
    let columns: &[Column<'_, Series>] = &[
        ("server", &|of| of.server.name.clone()),
        ("settings", &|of| format!("`{}`", of.server)),
        ("replies/s", &|of| of.median_cell(REPLIES.of, 0)),
        ("to the first (95%)", &|of| of.ratio_cell(first, REPLIES.of)),
        ("server us per reply", &|of| of.median_cell(COST.of, 2)),
        ("to the first (95%)", &|of| of.ratio_cell(first, COST.of)),
        ("softirq, %", &|of| of.median_cell(|of| of.cpu.server_softirq * 100.0, 1)),
        ("idle, %", &|of| of.median_cell(|of| of.cpu.server_idle * 100.0, 1)),
        ("mean, ms", &|of| of.median_cell(|of| of.times.mean, 3)),
        ("p50, ms", &|of| of.median_cell(|of| of.times.p50, 3)),
        ("p99, ms", &|of| of.median_cell(|of| of.times.p99, 2)),
        ("shares of the workers, %", &|of| of.last().map(shares).unwrap_or_default()),
        (INVALID, &Series::invalid),
    ];
    table::of(columns, all)
}

fn shares(of: &Outcome) -> String {
    let shares = of.accepting.shares.iter().map(|share| format!("{:.0}", share * 100.0));
    shares.collect::<Vec<_>>().join(" ")
}
