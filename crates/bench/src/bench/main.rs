//! `bench`: counts what the lab's experiments don't, on this machine, and prints tables in Markdown.
//!
//! It starts executables ([`servers`], by the lab's launcher) on generated files ([`site`]) and looks at them
//! from outside (crate `machine`): [`callgrind`] with valgrind, [`connections`] with
//! connections of its own. And it looks at our load generator: [`agreement`] beside httperf, [`clients`]
//! beside wrk, [`overload`] by itself. [`measurement`] is what they have in common; README.md explains the
//! columns. Experiments, with figures that are compared by their intervals, are the lab's: `sluicelab run`.

mod agreement;
mod callgrind;
mod client;
mod clients;
mod connections;
mod httperf;
mod measurement;
mod overload;
#[path = "../scripted.rs"]
mod scripted;
mod servers;
mod site;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Count what web servers take on this machine: instructions, memory per connection; and what our load
/// generator does.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Measurement,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    /// User-space instructions per keep-alive 1 KB request
    Callgrind(callgrind::Options),
    /// Memory per connection that is held open
    Connections(connections::Options),
    /// Whether sluicelab load measures what the real httperf measures
    Agreement(agreement::Options),
    /// CPU time of load generators per request: sluicelab load beside wrk and httperf
    Clients(clients::Options),
    /// Whether sluicelab load holds many connections, and its rate when the server can't keep up
    Overload(overload::Options),
}

fn main() -> Result<()> {
    let command = Options::parse().command;
    lab::programs::interrupt::catch()?;
    match command {
        Measurement::Callgrind(options) => callgrind::run(&options),
        Measurement::Connections(options) => connections::run(&options),
        Measurement::Agreement(options) => agreement::run(&options),
        Measurement::Clients(options) => clients::run(&options),
        Measurement::Overload(options) => overload::run(&options),
    }
}
