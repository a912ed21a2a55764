//! User-space instructions per request, counted by valgrind's callgrind: no clock, so the same on every run
//! and machine.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::client;
use crate::measurement::Common;
use crate::servers::{self, Environment};
use crate::site::SMALL;
use lab::servers::spec::Spec;
use lab::table::{self, Column};

/// How it is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Whose instructions are counted, as `sluicelab compare` takes servers
    #[arg(value_name = "SERVER", default_values = ["sluice", "nginx", "lighttpd"])]
    servers: Vec<Spec>,
    #[command(flatten)]
    common: Common,
    /// Requests of the first of the two runs
    #[arg(long, default_value_t = 32_000)]
    requests: usize,
}

/// Instructions per keep-alive request for the 1 KB file.
#[derive(Debug, Serialize)]
struct Instructions {
    server: String,
    connections: usize,
    requests: usize,
    per_request: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let results = common.measure(|environment| {
        let mut results = Vec::new();
        for server in &options.servers {
            for connections in [1, 64] {
                results.push(count(server, environment, connections, options.requests)?);
            }
        }
        Ok(results)
    })?;
    let columns: &[Column<'_, Instructions>] = &[
        ("server", &|of| of.server.clone()),
        ("connections", &|of| of.connections.to_string()),
        ("user-space instructions per 1 KB keep-alive request", &|of| format!("{:.0}", of.per_request)),
    ];
    common.report("callgrind", &results, &table::of(columns, &results))
}

/// Counts for one server with so many connections: the difference between a run with `requests` and one with
/// twice as many, so that starting, accepting and stopping cancel out.
fn count(
    server: &Spec,
    environment: Environment<'_>,
    connections: usize,
    requests: usize,
) -> Result<Instructions> {
    let rounds = (requests / connections).max(1);
    eprintln!("callgrind: {}, {connections} connections", server.name);
    let once = instructions(server, environment, connections, rounds)?;
    let twice = instructions(server, environment, connections, 2 * rounds)?;
    let requests = rounds * connections;
    let difference = twice.checked_sub(once).context("twice the requests took fewer instructions")?;
    let per_request = difference as f64 / requests as f64;
    Ok(Instructions { server: server.name.clone(), connections, requests, per_request })
}

fn instructions(
    server: &Spec,
    environment: Environment<'_>,
    connections: usize,
    rounds: usize,
) -> Result<u64> {
    let directory = tempfile::tempdir_in(environment.scratch)?;
    let output = format!("--callgrind-out-file={}/%p", directory.path().display());
    let wrapper = &["valgrind", "--tool=callgrind", "--trace-children=yes", &output].map(str::to_owned);
    let server = servers::start(server, Environment { wrapper, ..environment })?;
    client::ask(server.address, SMALL, connections, rounds)?;
    // A server that gets the signal before it waits for events again may not notice it: let it see the
    // connections end first.
    server.settle()?;
    server.stop()?;
    total(directory.path())
}

/// The sum over all processes that left a profile.
fn total(directory: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let text = fs::read_to_string(entry?.path())?;
        let line =
            text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
        sum += line.context("a profile without its total")?.trim().parse::<u64>()?;
    }
    ensure!(sum > 0, "callgrind left no profile");
    Ok(sum)
}
