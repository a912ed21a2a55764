//! `bench`: compares servers with each other and with the ceiling, on this machine, and prints tables in
//! Markdown.
//!
//! It starts executables ([`servers`], by the [`launcher`]) on generated files ([`site`]) and looks at them
//! from outside (crate `machine`): [`compare`] with wrk, [`callgrind`] with valgrind, [`connections`] with
//! connections of its own. And it looks at our load generator: [`agreement`] beside httperf, [`clients`]
//! beside wrk, [`overload`] by itself. README.md explains the columns.
//!
//! The experiments compare our server with itself, under other settings: [`sweep`] accept limits, [`disk`]
//! ways to wait for a disk, [`partition`] placements, [`architectures`] all of them. [`experiment`] is what
//! they have in common, [`rounds`] what is measured in which order, [`trial`] one measured run (server
//! [`subject`], load [`generator`], [`network`], [`bounds`], and [`share`] and [`turns`] of a CPU),
//! [`journal`] what has been measured so far, [`series`] the cells of tables, [`claims`] and [`remarks`] what
//! is said below them, and [`janitor`] who cleans up.

mod agreement;
mod architectures;
mod bounds;
mod callgrind;
mod cgroup;
mod child;
mod claims;
mod client;
mod clients;
mod compare;
mod connections;
mod disk;
mod experiment;
mod generator;
mod interrupt;
mod janitor;
mod journal;
mod launcher;
mod lineup;
mod network;
mod overload;
mod partition;
mod remarks;
mod rounds;
#[path = "../scripted.rs"]
mod scripted;
mod series;
mod servers;
mod share;
mod site;
mod spinner;
mod statistics;
mod subject;
mod sweep;
mod table;
mod testbed;
mod trial;
mod turns;
mod workload;
mod wrk;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use serde_json::json;

use crate::connections::State;
use crate::lineup::Lineup;
use crate::servers::Environment;
use crate::testbed::Testbed;
use crate::wrk::Wrk;

/// Compare web servers on this machine: CPU time per request, instructions, memory per connection.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Measurement,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    /// CPU time, requests per second and system calls per request, against the ceiling
    Compare(Compare),
    /// User-space instructions per keep-alive 1 KB request
    Callgrind(Callgrind),
    /// Memory per connection that is held open
    Connections(Connections),
    /// Whether sluicelab load measures what the real httperf measures
    Agreement(Agreement),
    /// CPU time of load generators per request: sluicelab load beside wrk and httperf
    Clients(Clients),
    /// Whether sluicelab load holds many connections, and its rate when the server can't keep up
    Overload(Overload),
    /// Accept limits below, at and beyond saturation, in network namespaces made for it
    Sweep(sweep::Options),
    /// Processes, helpers and blocking sends where files come from a slow disk, and where they don't
    Disk(disk::Options),
    /// Two address groups on two CPUs: served by any worker, by the one that their packets come to, or by the
    /// other
    Partition(partition::Options),
    /// All architectures, two workloads: the table in docs/architectures.md
    Architectures(architectures::Options),
    /// Clean up behind the process with this id once standard input ends
    #[command(name = janitor::SUBCOMMAND, hide = true)]
    Janitor { run: u32 },
}

#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    lineup: Lineup,
    /// The CPU that servers run on
    #[arg(long, default_value_t = 0)]
    server_cpu: usize,
    /// Write everything that was measured to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Compare {
    #[command(flatten)]
    common: Common,
    /// How often each server is measured in each case
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Connections that wrk keeps busy
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// The CPU that wrk runs on
    #[arg(long, default_value_t = 1)]
    client_cpu: usize,
    /// Fixed send buffer of the ceiling's connections in bytes, or `unset`; several to compare them
    #[arg(long, value_name = "BYTES|unset", value_delimiter = ',', default_value = "unset",
          value_parser = send_buffer)]
    send_buffer: Vec<SendBuffer>,
    /// Only the cases with these numbers (1: 1 KB, 2: 10 KB, 3: 100 KB, 4: 1 KB with a connection each)
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4",
          value_parser = clap::value_parser!(u8).range(1..=4))]
    cases: Vec<u8>,
}

#[derive(Debug, Args)]
struct Callgrind {
    #[command(flatten)]
    common: Common,
    /// Requests of the first of the two runs
    #[arg(long, default_value_t = 32_000)]
    requests: usize,
}

#[derive(Debug, Args)]
struct Connections {
    #[command(flatten)]
    common: Common,
    /// How many connections are held
    #[arg(long, default_value_t = 15_000)]
    count: usize,
    /// How many are held in the middle of a reply, where each fills socket buffers in the kernel
    #[arg(long, default_value_t = 1_000)]
    half_reply_count: usize,
    /// What the connections are doing
    #[arg(long, value_enum, value_delimiter = ',', default_value = "silent,idle,half-head,half-reply")]
    states: Vec<State>,
}

#[derive(Debug, Args)]
struct Lab {
    #[command(flatten)]
    common: Common,
    /// Our load generator
    #[arg(long, value_name = "FILE", default_value = "target/release/sluicelab")]
    sluicelab: PathBuf,
    /// The CPU that load generators run on
    #[arg(long, default_value_t = 1)]
    client_cpu: usize,
}

#[derive(Debug, Args)]
struct Agreement {
    #[command(flatten)]
    lab: Lab,
    /// How often each pair is run
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Sessions of each run
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    sessions: u32,
    /// Sessions per second
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
}

#[derive(Debug, Args)]
struct Clients {
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

#[derive(Debug, Args)]
struct Overload {
    #[command(flatten)]
    lab: Lab,
    /// Connections to be held at once
    #[arg(long, default_value_t = 15_000)]
    held: u32,
    /// Requests per second, each on a connection of its own
    #[arg(long, default_value_t = 6_000)]
    rate: u32,
    /// Length of the overload in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

#[derive(Clone, Copy, Debug)]
struct SendBuffer(Option<usize>);

fn send_buffer(text: &str) -> Result<SendBuffer, String> {
    match text {
        "unset" => Ok(SendBuffer(None)),
        number => number
            .parse()
            .map(|bytes| SendBuffer(Some(bytes)))
            .map_err(|_| "a number of bytes, or unset".to_owned()),
    }
}

fn main() -> Result<()> {
    let command = Options::parse().command;
    // The janitor ends when the others have; they end what they have started.
    if !matches!(command, Measurement::Janitor { .. }) {
        interrupt::catch()?;
    }
    match command {
        Measurement::Compare(options) => options.run(),
        Measurement::Callgrind(options) => options.run(),
        Measurement::Connections(options) => options.run(),
        Measurement::Agreement(options) => options.run(),
        Measurement::Clients(options) => options.run(),
        Measurement::Overload(options) => options.run(),
        Measurement::Sweep(options) => sweep::run(options),
        Measurement::Disk(options) => disk::run(options),
        Measurement::Partition(options) => partition::run(options),
        Measurement::Architectures(options) => architectures::run(options),
        Measurement::Janitor { run } => janitor::attend(run),
    }
}

impl Compare {
    fn run(self) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let site = site::write(scratch.path())?;
        let environment = self.common.environment(&site, scratch.path());
        ensure!(self.common.server_cpu != self.client_cpu, "server and client need different CPUs");
        let settings = compare::Settings {
            send_buffers: self.send_buffer.iter().map(|buffer| buffer.0).collect(),
            cases: self.cases.iter().map(|number| usize::from(*number) - 1).collect(),
            rounds: self.rounds,
            wrk: Wrk {
                connections: self.connections,
                duration: Duration::from_secs(self.seconds),
                cpu: self.client_cpu,
            },
        };
        let results = compare::run(&settings, &self.common.lineup, &environment)?;
        let machine = self.common.machine();
        println!("{}\n", machine.line());
        println!(
            "{} rounds of {} s for each, {} connections; medians (quartiles), steal: maximum.\n",
            self.rounds, self.seconds, self.connections
        );
        print!("{}", compare::markdown(&results));
        self.common.write_json(&json!({ "machine": machine, "cases": results }))
    }
}

impl Callgrind {
    fn run(self) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let site = site::write(scratch.path())?;
        let environment = self.common.environment(&site, scratch.path());
        let mut results = Vec::new();
        for (name, kind) in self.common.lineup.one_of_each()? {
            for connections in [1, 64] {
                results.push(callgrind::run(&name, &kind, &environment, connections, self.requests)?);
            }
        }
        let machine = self.common.machine();
        println!("{}\n", machine.line());
        print!("{}", callgrind::markdown(&results));
        self.common.write_json(&json!({ "machine": machine, "callgrind": results }))
    }
}

impl Connections {
    fn run(self) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let site = site::write(scratch.path())?;
        let environment = self.common.environment(&site, scratch.path());
        let (mut results, mut failures) = (Vec::new(), Vec::new());
        for (name, kind) in self.common.lineup.one_of_each()? {
            for state in &self.states {
                eprintln!("{name}: {}", state.name());
                let count = if *state == State::HalfReply { self.half_reply_count } else { self.count };
                match connections::run(&name, &kind, &environment, *state, count) {
                    Ok(growth) => results.push(growth),
                    // Others may hold more: go on, but say at the end that something is missing.
                    Err(error) => {
                        failures.push(format!("{name}, {count} connections, {}: {error:#}", state.name()));
                    }
                }
            }
        }
        let machine = self.common.machine();
        println!("{}\n", machine.line());
        print!("{}", connections::markdown(&results));
        self.common.write_json(&json!({ "machine": machine, "connections": results }))?;
        ensure!(failures.is_empty(), "not measured:\n{}", failures.join("\n"));
        Ok(())
    }
}

impl Agreement {
    fn run(self) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let site = site::write(scratch.path())?;
        let environment = self.lab.common.environment(&site, scratch.path());
        let settings = agreement::Settings {
            sluicelab: self.lab.executable()?,
            rounds: self.rounds,
            sessions: self.sessions,
            rate: self.rate,
            cpu: self.lab.client_cpu,
        };
        let results = agreement::run(&settings, &environment)?;
        let machine = self.lab.common.machine();
        println!("{}\n", machine.line());
        println!(
            "{} rounds of {} sessions at {} per second, in turn; medians (quartiles).\n",
            self.rounds, self.sessions, self.rate
        );
        print!("{}", agreement::markdown(&results));
        self.lab.common.write_json(&json!({ "machine": machine, "agreement": results }))?;
        ensure!(agreement::all_agree(&results), "some figures do not agree");
        Ok(())
    }
}

impl Clients {
    fn run(self) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let site = site::write(scratch.path())?;
        let environment = self.lab.common.environment(&site, scratch.path());
        let duration = Duration::from_secs(self.seconds);
        let wrk = Wrk { connections: self.connections, duration, cpu: self.lab.client_cpu };
        let settings = clients::Settings { sluicelab: self.lab.executable()?, rounds: self.rounds, wrk };
        let results = clients::run(&settings, &self.lab.common.lineup.ours()?, &environment)?;
        let machine = self.lab.common.machine();
        println!("{}\n", machine.line());
        println!("{} rounds of {} s for each, in turn; medians (quartiles).\n", self.rounds, self.seconds);
        print!("{}", clients::markdown(&results));
        self.lab.common.write_json(&json!({ "machine": machine, "clients": results }))
    }
}

impl Overload {
    fn run(self) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let site = site::write(scratch.path())?;
        let capacity = self.held as usize + 1_000;
        let environment = Environment { capacity, ..self.lab.common.environment(&site, scratch.path()) };
        let settings = overload::Settings {
            sluicelab: self.lab.executable()?,
            held: self.held,
            rate: self.rate,
            seconds: self.seconds,
            cpu: self.lab.client_cpu,
        };
        let results = overload::run(&settings, &self.lab.common.lineup.ours()?, &environment)?;
        let machine = self.lab.common.machine();
        println!("{}\n", machine.line());
        print!("{}", overload::markdown(&results));
        self.lab.common.write_json(&json!({ "machine": machine, "overload": results }))
    }
}

impl Lab {
    fn executable(&self) -> Result<PathBuf> {
        let path = &self.sluicelab;
        path.canonicalize()
            .with_context(|| format!("no sluicelab at {} (cargo build --release)", path.display()))
    }
}

impl Common {
    fn environment<'a>(&self, site: &'a Path, scratch: &'a Path) -> Environment<'a> {
        Environment { site, scratch, cpu: self.server_cpu, capacity: 9_000, wrapper: Vec::new() }
    }

    fn machine(&self) -> Testbed {
        Testbed::describe(self.lineup.first_sluice().as_slice())
    }

    fn write_json(&self, results: &serde_json::Value) -> Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        fs::write(path, serde_json::to_string_pretty(results)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
