//! What load generators themselves cost: CPU time for each request of a closed loop on 1 KB files, ours
//! beside wrk and httperf, against the same server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use machine::process::waited_children_cpu_ns;
use serde::Serialize;

use crate::measurement::Lab;
use crate::servers::{self, Environment};
use crate::wrk::Wrk;
use lab::child::{on_cpus, output};
use lab::generator;
use lab::launcher::Server;
use lab::statistics::Spread;
use lab::table::{self, Column};

/// How they are run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    lab: Lab,
    /// How often each is run
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of one run in seconds
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Connections that are kept busy
    #[arg(long, default_value_t = 64)]
    connections: usize,
}

/// One generator.
#[derive(Debug, Serialize)]
struct Cost {
    client: &'static str,
    cpu_us_per_request: Spread,
    /// Against wrk of the same round.
    ratio: Spread,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { lab, rounds, seconds, .. } = options;
    let results = lab.common.measure(|environment| costs(options, environment))?;
    let how = format!("{rounds} rounds of {seconds} s for each, in turn; medians (quartiles).\n\n");
    lab.common.report("clients", &results, &(how + &markdown(&results)))
}

fn costs(options: &Options, environment: &Environment<'_>) -> Result<Vec<Cost>> {
    let Options { lab, rounds, seconds, connections } = options;
    let executable = lab.executable()?;
    let duration = Duration::from_secs(*seconds);
    let wrk = Wrk { connections: *connections, duration, cpu: lab.client_cpu };
    let server = servers::start(&lab.common.lineup.ours()?, environment)?;
    let url = format!("http://{}/1k.html", server.address);
    let (mut of_wrk, mut of_ours, mut of_httperf) = (Vec::new(), Vec::new(), Vec::new());
    // One more, which warms up and does not count.
    for round in 0..=*rounds {
        eprintln!("round {round} of {rounds}");
        let theirs = cost_of(|| wrk.run(&[], &url, false).map(|counted| counted.requests))?;
        let ours = cost_of(|| sluicelab(&executable, &wrk, &url))?;
        // It can't be told a time, so it gets as many requests as wrk made.
        let httperf = cost_of(|| httperf(&wrk, &server, theirs.1))?;
        if round > 0 {
            of_wrk.push(theirs);
            of_ours.push(ours);
            of_httperf.push(httperf);
        }
    }
    server.stop()?;
    let cost = |client, rounds: &[(f64, u64)]| -> Result<Cost> {
        let spread =
            |value: &dyn Fn(usize) -> f64| Spread::of((0..rounds.len()).map(value)).context("no rounds");
        Ok(Cost {
            client,
            cpu_us_per_request: spread(&|round| rounds[round].0)?,
            ratio: spread(&|round| rounds[round].0 / of_wrk[round].0)?,
        })
    };
    Ok(vec![cost("wrk", &of_wrk)?, cost("sluicelab load", &of_ours)?, cost("httperf", &of_httperf)?])
}

/// CPU microseconds per request of a child that counts its requests, and their number.
fn cost_of(run: impl FnOnce() -> Result<u64>) -> Result<(f64, u64)> {
    let before = waited_children_cpu_ns(std::process::id())?;
    let requests = run()?;
    let used = waited_children_cpu_ns(std::process::id())? - before;
    ensure!(requests > 0, "no request was answered");
    Ok((used as f64 / 1e3 / requests as f64, requests))
}

fn sluicelab(executable: &Path, like: &Wrk, url: &str) -> Result<u64> {
    let Wrk { connections, duration, cpu } = *like;
    let options = [
        "--requests-per-connection=1000000".to_owned(),
        format!("--target={url}"),
        format!("--connections={connections}"),
        format!("--duration={}s", Duration::as_secs(&duration).max(1)),
    ];
    // A closed loop saturates its generator, which makes the figures invalid as measures of the server.
    let results = generator::run(executable, cpu, &options)?;
    results["replies"]["count"].as_u64().context("no replies in sluicelab's results")
}

/// As many connections at once as wrk has, each with its part of the requests.
fn httperf(like: &Wrk, server: &Server, requests: u64) -> Result<u64> {
    let connections = like.connections as u64;
    let mut command = on_cpus(&[like.cpu]);
    command.args(["httperf", "--hog", "--uri=/1k.html", "--rate=100000"]).args([
        format!("--server={}", server.address.ip()),
        format!("--port={}", server.address.port()),
        format!("--num-conns={connections}"),
        format!("--num-calls={}", requests / connections),
    ]);
    let said = output(&mut command, " (Debian packages util-linux, httperf)")?;
    let replies = said.split_once(" replies ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    replies.with_context(|| format!("no replies in httperf's report: {said}"))
}

fn markdown(results: &[Cost]) -> String {
    let columns: &[Column<'_, Cost>] = &[
        ("client", &|of| of.client.to_owned()),
        ("CPU per request, us", &|of| of.cpu_us_per_request.to_string()),
        ("times wrk", &|of| of.ratio.to_string()),
    ];
    table::of(columns, results)
}
