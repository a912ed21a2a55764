//! `bench partition`: two address groups on two CPUs, each group's packets received on its own CPU. Who serves a group: any worker, the
//! one on that CPU (direct mapping), or the one on the other (indirect)? The 2012 paper's partitioning, and figure 9 of the 2014 one.
//!
//! On a machine of two CPUs the clients share them: on both alike, each with half of either group's connections. All CPUs
//! are busy then, and throughput tells the cost of everything together, the clients' work included, which is the same for all.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;

use crate::experiment::{self, Experiment, Lengths, Progress};
use crate::journal::Journal;
use crate::network::Link;
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
    /// What clients ask for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "one-packet,specweb99")]
    workloads: Vec<Kind>,
    /// Directories of the SPECweb99 set (5.1 MB each)
    #[arg(long, default_value_t = 10)]
    directories: u32,
    /// Sessions at a time
    #[arg(long, default_value_t = 64)]
    sessions: u32,
    /// How often everything is measured
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// A look: two rounds of 1.5 s
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    quick: bool,
}

pub(crate) const SERVERS: [&str; 7] = [
    "unpartitioned, not pinned: --architecture=symped --workers=2",
    "unpartitioned: --architecture=symped --workers=2 --cpus=0,1",
    "one process: --architecture=sped",
    "partitioned, direct: --architecture=n-copy --copies=2 --copies-by=address placement.mapping=\"direct\"",
    "partitioned, indirect: --architecture=n-copy --copies=2 --copies-by=address placement.mapping=\"indirect\"",
    "two copies, SO_REUSEPORT: --architecture=n-copy --copies=2 --copies-by=reuseport",
    "two copies, steered by CPU: --architecture=n-copy --copies=2 --copies-by=cpu",
];

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.quick {
        (options.rounds, options.seconds) = (2, 1.5);
    }
    let lengths = Lengths {
        warm_up: Duration::from_secs(1),
        measured: Duration::try_from_secs_f64(options.seconds)?,
        timeout: Duration::from_secs(5),
    };
    let mut begun = options.experiment.begin("partition", None, lengths)?;
    begun.site = on_two_cpus(begun.site)?;
    let site = &begun.site;
    let settings = json!({
        "builds": begun.builds,
        "directories": options.directories,
        "sessions": options.sessions,
        "seconds": options.seconds,
        "sysctls": site.sysctls,
    });
    let servers = experiment::runnable(options.server.clone(), site)?;
    let mut journal = Journal::open(&begun.journal, &settings)?;

    let mut progress = Progress::of(servers.len() * options.workloads.len() * options.rounds as usize);
    for round in 0..options.rounds {
        for kind in &options.workloads {
            let workload = Workload::prepare(
                &site.sluicelab,
                *kind,
                options.directories,
                20_000,
                &options.experiment.data,
            )?;
            for server in &servers {
                let key = key(server, *kind, round);
                if journal.has(&key) {
                    progress.skip();
                    continue;
                }
                let outcome = site.run(server, &workload, Load::Closed(options.sessions), 1)?;
                journal.put(&key, &outcome)?;
                progress.step(&format!("{key}: {:.0} replies/s", outcome.replies_per_s));
            }
        }
    }

    println!("{}\n", options.experiment.machine().line());
    println!(
        "Two address groups, packets of each received on a CPU of its own; {} sessions at a time, clients on both CPUs; {} rounds of {} s; \
         medians. Journal: {}\n",
        options.sessions,
        options.rounds,
        options.seconds,
        begun.journal.display(),
    );
    for kind in &options.workloads {
        let all =
            Series::of_all(&servers, options.rounds, &journal, |server, round| key(server, *kind, round))?;
        println!("### {}\n\n{}", kind.name(), markdown(&all));
    }
    Ok(())
}

/// The CPUs that were the server's and the clients' are both of both, and each has a link of which it is the receiver.
fn on_two_cpus(site: Site) -> Result<Site> {
    let cpus: Vec<usize> = [site.server_cpus.clone(), site.client_cpus.clone()].concat();
    ensure!(cpus.len() == 2, "two CPUs are needed");
    let links = cpus.iter().map(|cpu| Link { server_cpus: vec![*cpu], client_cpus: cpus.clone() }).collect();
    Ok(Site { server_cpus: cpus.clone(), client_cpus: cpus, links, ..site })
}

fn key(server: &Variant, kind: Kind, round: u32) -> String {
    format!("{} ({server}), {}, round {}", server.name, kind.name(), round + 1)
}

fn markdown(all: &[Series]) -> String {
    let headings = [
        "server",
        "settings",
        "replies/s",
        "to the first (95%)",
        "server us per reply",
        "to the first (95%)",
        "softirq, %",
        "idle, %",
        "mean, ms",
        "p50, ms",
        "p99, ms",
        "shares of the workers, %",
    ];
    let Some(first) = all.first() else { return String::new() };
    let rows = all.iter().map(|of| {
        vec![
            of.server.name.clone(),
            format!("`{}`", of.server),
            of.median(|of| of.replies_per_s, 0),
            of.ratio(first, |of| of.replies_per_s),
            of.median(|of| of.cpu.server_us_per_reply, 2),
            of.ratio(first, |of| of.cpu.server_us_per_reply),
            of.median(|of| of.cpu.server_softirq * 100.0, 1),
            of.median(|of| of.cpu.server_idle * 100.0, 1),
            of.median(|of| of.times.mean, 3),
            of.median(|of| of.times.p50, 3),
            of.median(|of| of.times.p99, 2),
            of.outcomes().last().map(shares).unwrap_or_default(),
        ]
    });
    table::markdown(&headings, rows)
}

fn shares(of: &Outcome) -> String {
    let shares = of.accepting.shares.iter().map(|share| format!("{:.0}", share * 100.0));
    shares.collect::<Vec<_>>().join(" ")
}
