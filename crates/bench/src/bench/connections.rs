//! What a connection that does nothing costs: memory of the server against the number of connections held.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use machine::memory::{self, Usage};
use machine::process;
use serde::Serialize;

use crate::client;
use crate::measurement::Common;
use crate::servers::{self, Environment};
use crate::site::{HUGE, SMALL};
use lab::programs::launcher::{self, Server};
use lab::servers::spec::Spec;
use lab::statistics::line_through;
use lab::table::{self, Column};

/// How it is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Whose memory is measured, as `sluicelab compare` takes servers
    #[arg(value_name = "SERVER", default_values = ["sluice", "nginx", "lighttpd"])]
    servers: Vec<Spec>,
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

/// What the connections have been through when they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// Connected, nothing sent.
    Silent,
    /// One request answered, kept open.
    Idle,
    /// The first part of a request sent.
    HalfHead,
    /// A file of 64 MB asked for, the first bytes of the reply received, the rest not read.
    HalfReply,
}

impl State {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The memory of all processes of a server, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Memory {
    /// Resident: private pages, and the proportional part of those that are shared.
    resident: u64,
    /// Size of all writable mappings, whether their pages were ever touched or not: slabs show here.
    writable: u64,
}

/// The memory of a server as a straight line over the number of connections.
#[derive(Debug, Serialize)]
struct Growth {
    server: String,
    state: State,
    /// The numbers of connections and what the server used with them.
    points: Vec<(usize, Memory)>,
    /// Of resident memory.
    resident: Line,
    /// Of writable mappings, touched or not.
    writable: Line,
    /// What a connection costs by the one or by the other, whichever is more.
    bytes_per_connection: f64,
}

/// One kind of memory, in bytes.
#[derive(Debug, Serialize)]
struct Line {
    /// With no connection.
    intercept: f64,
    /// More for each.
    slope: f64,
    /// Without any connection for each one that there is room for: what was set aside at the start.
    set_aside: f64,
    /// What was set aside, and growth from the first point to the last.
    per_connection: f64,
}

/// Room beyond the connections that are held, for the one that warms up.
const SPARE: usize = 500;

/// How many points there are on the line besides 0.
const STEPS: usize = 5;

pub(crate) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let mut failures = Vec::new();
    let results = common.measure(|environment| {
        let mut results = Vec::new();
        for server in &options.servers {
            for &state in &options.states {
                let what = format!("{}, {}", server.name, state.name());
                eprintln!("{what}");
                let count = if state == State::HalfReply { options.half_reply_count } else { options.count };
                match hold(server, environment, state, count) {
                    Ok(growth) => results.push(growth),
                    // Others may hold more: go on, but say at the end that something is missing.
                    Err(error) => failures.push(format!("{what}, {count} connections: {error:#}")),
                }
            }
        }
        Ok(results)
    })?;
    let columns: &[Column<'_, Growth>] = &[
        ("server", &|of| of.server.clone()),
        ("connections", &|of| of.points[STEPS].0.to_string()),
        ("state", &|of| of.state.name()),
        ("bytes per connection", &|of| format!("{:.0}", of.bytes_per_connection)),
        ("resident: intercept, KiB", &|of| format!("{:.0}", of.resident.intercept / 1024.0)),
        ("slope, bytes", &|of| format!("{:.0}", of.resident.slope)),
        ("set aside, bytes", &|of| format!("{:.0}", of.resident.set_aside)),
        ("writable: intercept, KiB", &|of| format!("{:.0}", of.writable.intercept / 1024.0)),
        ("slope, bytes", &|of| format!("{:.0}", of.writable.slope)),
        ("set aside, bytes", &|of| format!("{:.0}", of.writable.set_aside)),
    ];
    common.report("connections", &results, &table::of(columns, &results))?;
    ensure!(failures.is_empty(), "not measured:\n{}", failures.join("\n"));
    Ok(())
}

/// Starts the server and opens `count` connections to it in steps, measuring its memory at each.
fn hold(spec: &Spec, environment: Environment<'_>, state: State, count: usize) -> Result<Growth> {
    let limit = sys::process::raise_descriptor_limit()?;
    ensure!(count as u64 + 100 <= limit, "{count} connections need more descriptors than {limit}");
    ensure!(count < 28_000, "{count} connections need more ports than one pair of addresses has");
    // nginx closes idle connections when less than a sixteenth of its room is left.
    let (little, enough) = (SPARE, count + count / 10 + SPARE);
    let start = |capacity| {
        let server = servers::start(spec, Environment { capacity, ..environment })?;
        warm(server.address)?;
        anyhow::Ok(server)
    };
    let with_little = settled_memory(&start(little)?)?;
    let server = start(enough)?;

    let mut held = Vec::with_capacity(count);
    let mut points = vec![(0, settled_memory(&server)?)];
    for step in 1..=STEPS {
        while held.len() < count * step / STEPS {
            held.push(open(server.address, state).with_context(|| format!("connection {}", held.len() + 1))?);
        }
        points.push((held.len(), settled_memory(&server)?));
    }
    let accepted = launcher::sum(&server.processes()?, process::open_descriptors)?;
    ensure!(accepted >= count as u64, "{} accepts no more than {accepted} of {count}", spec.name);
    let lost = held.iter().filter(|stream| is_closed(stream)).count();
    ensure!(lost == 0, "{} closed {lost} of {count} connections while they were being counted", spec.name);

    let line = |value: fn(&Memory) -> u64| -> Result<Line> {
        let line: Vec<_> =
            points.iter().map(|(count, memory)| (*count as f64, value(memory) as f64)).collect();
        let (intercept, slope) = line_through(&line).context("no line through one point")?;
        let (without, with) = (line[0].1, line[STEPS].1);
        let set_aside = ((without - value(&with_little) as f64) / (enough - little) as f64).max(0.0);
        let per_connection = set_aside + (with - without) / count as f64;
        Ok(Line { intercept, slope, set_aside, per_connection })
    };
    let resident = line(|memory| memory.resident)?;
    let writable = line(|memory| memory.writable)?;
    let bytes_per_connection = resident.per_connection.max(writable.per_connection);
    Ok(Growth { server: spec.name.clone(), state, points, resident, writable, bytes_per_connection })
}

/// Lets the server fill its caches and pools with both files, so that they are not counted as the
/// connections'.
fn warm(address: SocketAddr) -> Result<()> {
    client::ask(address, SMALL, 1, 10)?;
    drop(open(address, State::HalfReply)?);
    thread::sleep(Duration::from_millis(200));
    Ok(())
}

fn open(address: SocketAddr, state: State) -> Result<TcpStream> {
    let mut stream = client::connect(address)?;
    let request = client::request(address, SMALL);
    match state {
        State::Silent => {}
        State::Idle => {
            stream.write_all(&request)?;
            client::read_reply(&stream)?;
        }
        State::HalfHead => stream.write_all(&request[..request.len() - 4])?,
        State::HalfReply => {
            stream.write_all(&client::request(address, HUGE))?;
            stream.read_exact(&mut [0; 16])?;
        }
    }
    Ok(stream)
}

fn settled_memory(server: &Server) -> Result<Memory> {
    server.settle()?;
    let mut sum = Memory::default();
    for pid in server.processes()? {
        let usage = Usage::of(pid).with_context(|| format!("cannot read the memory of process {pid}"))?;
        sum.resident += usage.proportional;
        sum.writable += memory::writable(pid)?;
    }
    Ok(sum)
}

fn is_closed(stream: &TcpStream) -> bool {
    // Nothing to read on an open connection, or an unread reply.
    let probe = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    !matches!(probe, Ok(1)) && !matches!(probe, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}
