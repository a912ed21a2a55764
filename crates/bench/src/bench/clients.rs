//! What load generators themselves cost: CPU time for each request of a closed loop on 1 KB files, ours
//! beside wrk and httperf, against the same server.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;
use machine::process::waited_children_cpu_ns;
use serde::Serialize;

use crate::httperf;
use crate::measurement::Lab;
use crate::servers::{self, Environment, spec};
use lab::measuring::generator;
use lab::measuring::wrk::Wrk;
use lab::programs::launcher::Server;
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
    #[command(flatten)]
    like: Alike,
}

/// What all of them do.
#[derive(Clone, Copy, Debug, Args)]
struct Alike {
    /// Connections that are kept busy
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// Length of one run in seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The CPU that clients run on
    #[arg(long, default_value_t = 1)]
    client_cpu: usize,
}

/// One generator.
#[derive(Debug, Serialize)]
struct Cost {
    client: &'static str,
    cpu_us_per_request: Spread,
    /// Against wrk of the same round.
    ratio: Spread,
}

const CLIENTS: [&str; 3] = ["wrk", "sluicelab load", "httperf"];

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { lab, rounds, like } = options;
    let results = lab.common.measure(|environment| costs(options, environment))?;
    let how = format!("{rounds} rounds of {} s for each, in turn; medians (quartiles).\n\n", like.seconds);
    let columns: &[Column<'_, Cost>] = &[
        ("client", &|of| of.client.to_owned()),
        ("CPU per request, us", &|of| of.cpu_us_per_request.to_string()),
        ("times wrk", &|of| of.ratio.to_string()),
    ];
    lab.common.report("clients", &results, &(how + &table::of(columns, &results)))
}

fn costs(options: &Options, environment: Environment<'_>) -> Result<Vec<Cost>> {
    let Options { lab, rounds, like } = options;
    let executable = lab.executable()?;
    let server = servers::start(&spec("sluice")?, environment)?;
    let url = server.url("/1k.html");
    let wrk = Wrk {
        cpus: &[like.client_cpu],
        wrapper: &[],
        url: &url,
        connections: like.connections,
        closes: false,
        timeout_s: 2,
        directory: environment.scratch,
    };
    // Of each round what each client cost, in the order of their names.
    let mut costs: Vec<[f64; CLIENTS.len()]> = Vec::new();
    // One more, which warms up and does not count.
    for round in 0..=*rounds {
        eprintln!("round {round} of {rounds}");
        let (theirs, requests) = cost_of(|| wrk.run(like.seconds).map(|told| told.requests))?;
        let (ours, _) = cost_of(|| sluicelab(&executable, *like, &url))?;
        // It can't be told a time, so it gets as many requests as wrk made.
        let (httperf, _) = cost_of(|| httperf(*like, &server, requests))?;
        if round > 0 {
            costs.push([theirs, ours, httperf]);
        }
    }
    server.stop()?;
    let spread =
        |cost: &dyn Fn(&[f64; CLIENTS.len()]) -> f64| Spread::of(costs.iter().map(cost)).context("no rounds");
    let cost = |(place, client)| -> Result<Cost> {
        let cpu_us_per_request = spread(&|round| round[place])?;
        Ok(Cost { client, cpu_us_per_request, ratio: spread(&|round| round[place] / round[0])? })
    };
    CLIENTS.into_iter().enumerate().map(cost).collect()
}

/// CPU microseconds per request of a child that counts its requests, and their number.
fn cost_of(run: impl FnOnce() -> Result<u64>) -> Result<(f64, u64)> {
    let before = waited_children_cpu_ns(std::process::id())?;
    let requests = run()?;
    let used = waited_children_cpu_ns(std::process::id())? - before;
    ensure!(requests > 0, "no request was answered");
    Ok((used as f64 / 1e3 / requests as f64, requests))
}

fn sluicelab(executable: &Path, like: Alike, url: &str) -> Result<u64> {
    let options = [
        "--requests-per-connection=1000000".to_owned(),
        format!("--target={url}"),
        format!("--connections={}", like.connections),
        format!("--duration={}s", like.seconds),
    ];
    // A closed loop saturates its generator, which makes the figures invalid as measures of the server.
    Ok(generator::run(executable, like.client_cpu, &options)?.replies.count)
}

/// As many connections at once as wrk has, each with its part of the requests.
fn httperf(like: Alike, server: &Server, requests: u64) -> Result<u64> {
    let connections = u64::from(like.connections);
    let options = [
        "--uri=/1k.html".to_owned(),
        "--rate=100000".to_owned(),
        format!("--num-conns={connections}"),
        format!("--num-calls={}", requests / connections),
    ];
    let said = httperf::run(like.client_cpu, server.address, &options)?;
    let replies = httperf::number(&said, " replies ", 0);
    replies.map(|replies| replies as u64).with_context(|| format!("no replies in httperf's report: {said}"))
}
