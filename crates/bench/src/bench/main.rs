//! `bench`: compares servers with each other and with the ceiling, on this machine, and prints tables in Markdown.
//!
//! It drives executables ([`servers`]) on generated files ([`site`]) and looks at them from outside ([`proc`]):
//! [`compare`] with wrk, [`callgrind`] with valgrind, [`connections`] with connections of its own. README.md explains the columns.

mod callgrind;
mod client;
mod compare;
mod connections;
mod machine;
mod proc;
mod servers;
mod site;
mod statistics;
mod table;
mod wrk;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::json;

use crate::connections::State;
use crate::machine::Machine;
use crate::servers::{CeilingVariant, Environment, Kind};
use crate::site::CASES;
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
}

#[derive(Debug, Args)]
struct Common {
    /// Which servers take part (the ceiling always does in `compare`)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sluice,nginx,lighttpd")]
    servers: Vec<Who>,
    /// The executable of ours; give it twice or more to compare builds
    #[arg(long, value_name = "FILE", default_value = "target/release/sluice")]
    sluice: Vec<PathBuf>,
    /// The configuration that ours runs with, rather than a generated one
    #[arg(long, value_name = "FILE")]
    sluice_config: Option<PathBuf>,
    /// The ceiling server [default: beside this program]
    #[arg(long, value_name = "FILE")]
    ceiling: Option<PathBuf>,
    /// The CPU that servers run on
    #[arg(long, default_value_t = 0)]
    server_cpu: usize,
    /// Write everything that was measured to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    Ceiling,
    Sluice,
    Nginx,
    Lighttpd,
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
    #[arg(long, value_name = "BYTES|unset", value_delimiter = ',', default_value = "unset", value_parser = send_buffer)]
    send_buffer: Vec<SendBuffer>,
    /// Only the cases with these numbers (1: 1 KB, 2: 10 KB, 3: 100 KB, 4: 1 KB with a connection each)
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4", value_parser = clap::value_parser!(u8).range(1..=4))]
    cases: Vec<u8>,
}

#[derive(Debug, Args)]
struct Callgrind {
    #[command(flatten)]
    common: Common,
    /// Requests of the first of the two runs
    #[arg(long, default_value_t = 6400)]
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
    match Options::parse().command {
        Measurement::Compare(options) => options.run(),
        Measurement::Callgrind(options) => options.run(),
        Measurement::Connections(options) => options.run(),
    }
}

impl Compare {
    fn run(self) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let site = site::write(scratch.path())?;
        let environment = self.common.environment(&site, scratch.path());
        ensure!(self.common.server_cpu != self.client_cpu, "server and client need different CPUs");
        let settings = compare::Settings {
            ceiling: self.common.ceiling()?,
            send_buffers: self.send_buffer.iter().map(|buffer| buffer.0).collect(),
            others: self.common.contenders(true)?,
            cases: self.cases.iter().map(|number| usize::from(*number) - 1).collect(),
            rounds: self.rounds,
            wrk: Wrk {
                connections: self.connections,
                duration: Duration::from_secs(self.seconds),
                cpu: self.client_cpu,
            },
        };
        let results = compare::run(&settings, &environment)?;
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
        for (name, kind) in self.common.contenders(false)? {
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
        let mut results = Vec::new();
        for (name, kind) in self.common.contenders(false)? {
            for state in &self.states {
                let count = if *state == State::HalfReply { self.half_reply_count } else { self.count };
                results.push(connections::run(&name, &kind, &environment, *state, count)?);
            }
        }
        let machine = self.common.machine();
        println!("{}\n", machine.line());
        print!("{}", connections::markdown(&results));
        self.common.write_json(&json!({ "machine": machine, "connections": results }))
    }
}

impl Common {
    fn environment<'a>(&self, site: &'a std::path::Path, scratch: &'a std::path::Path) -> Environment<'a> {
        Environment { site, scratch, cpu: self.server_cpu, wrapper: Vec::new() }
    }

    fn ceiling(&self) -> Result<PathBuf> {
        let beside = || Ok(std::env::current_exe()?.with_file_name("ceiling"));
        let path = self.ceiling.clone().map_or_else(beside, Ok::<_, anyhow::Error>)?;
        ensure!(
            path.is_file(),
            "there is no ceiling server at {} (cargo build --release -p bench)",
            path.display()
        );
        Ok(path)
    }

    /// The servers to run, the ceiling left out; of the peers all `variants` that might be their best, or one.
    fn contenders(&self, variants: bool) -> Result<Vec<(String, Kind)>> {
        let mut contenders = Vec::new();
        for who in &self.servers {
            match who {
                Who::Ceiling if variants => {}
                Who::Ceiling => {
                    let (executable, variant, case) =
                        (self.ceiling()?, CeilingVariant::Memory, CASES[0].clone());
                    contenders.push((
                        "ceiling".to_owned(),
                        Kind::Ceiling { executable, variant, case, send_buffer: None },
                    ));
                }
                Who::Sluice => {
                    for path in &self.sluice {
                        let executable = path.canonicalize().with_context(|| {
                            format!("no sluice at {} (cargo build --release)", path.display())
                        })?;
                        let name = match self.sluice.len() {
                            1 => "sluice".to_owned(),
                            _ => format!("sluice, {}", path.display()),
                        };
                        contenders
                            .push((name, Kind::Sluice { executable, config: self.sluice_config.clone() }));
                    }
                }
                Who::Nginx => contenders.extend(nginx_settings(variants)),
                Who::Lighttpd => {
                    let backends: &[_] = if variants { &["sendfile", "writev"] } else { &["sendfile"] };
                    contenders.extend(
                        backends
                            .iter()
                            .map(|&backend| (format!("lighttpd, {backend}"), Kind::Lighttpd { backend })),
                    );
                }
            }
        }
        Ok(contenders)
    }

    fn machine(&self) -> Machine {
        Machine::describe(self.sluice.first().map(PathBuf::as_path).filter(|path| path.is_file()))
    }

    fn write_json(&self, results: &serde_json::Value) -> Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        fs::write(path, serde_json::to_string_pretty(results)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// nginx with each switch that might make it faster; all of them only where it is about the best one.
fn nginx_settings(variants: bool) -> Vec<(String, Kind)> {
    let plain = ("nginx".to_owned(), Kind::Nginx { sendfile: true, tcp_nopush: false, multi_accept: false });
    if !variants {
        return vec![plain];
    }
    let mut settings = vec![plain];
    for (words, tcp_nopush, multi_accept) in
        [("tcp_nopush", true, false), ("multi_accept", false, true), ("tcp_nopush, multi_accept", true, true)]
    {
        settings.push((format!("nginx, {words}"), Kind::Nginx { sendfile: true, tcp_nopush, multi_accept }));
    }
    settings.push((
        "nginx, sendfile off".to_owned(),
        Kind::Nginx { sendfile: false, tcp_nopush: false, multi_accept: false },
    ));
    settings
}
