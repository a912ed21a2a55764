//! `bench`: compares servers with each other and with the ceiling, on this machine, and prints tables in
//! Markdown.
//!
//! It starts executables ([`servers`], by the [`launcher`]) on generated files ([`site`]) and looks at them
//! from outside (crate `machine`): [`compare`] with wrk, [`callgrind`] with valgrind, [`connections`] with
//! connections of its own. And it looks at our load generator: [`agreement`] beside httperf, [`clients`]
//! beside wrk, [`overload`] by itself. [`measurement`] is what they have in common; README.md explains the
//! columns.
//!
//! The experiments compare our server with itself, under other settings: [`sweep`] accept limits, [`disk`]
//! ways to wait for a disk, [`partition`] placements, [`architectures`] all of them. [`experiment`] is what
//! they have in common, [`rounds`] what is measured in which order, [`trial`] one measured run (server
//! [`subject`], load [`generator`], [`network`], [`bounds`], and [`share`] and [`turns`] of a CPU),
//! [`journal`] what has been measured so far, [`series`] the cells of tables, [`claims`] and [`remarks`] what
//! is said below them, and [`janitor`] who cleans up.

mod agreement;
mod architectures;
mod background;
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
mod measurement;
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

use anyhow::Result;
use clap::{Parser, Subcommand};

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
    Compare(compare::Options),
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

fn main() -> Result<()> {
    let command = Options::parse().command;
    // The janitor ends when the others have; they end what they have started.
    if !matches!(command, Measurement::Janitor { .. }) {
        interrupt::catch()?;
    }
    match command {
        Measurement::Compare(options) => compare::run(&options),
        Measurement::Callgrind(options) => callgrind::run(&options),
        Measurement::Connections(options) => connections::run(&options),
        Measurement::Agreement(options) => agreement::run(&options),
        Measurement::Clients(options) => clients::run(&options),
        Measurement::Overload(options) => overload::run(&options),
        Measurement::Sweep(options) => sweep::run(options),
        Measurement::Disk(options) => disk::run(options),
        Measurement::Partition(options) => partition::run(options),
        Measurement::Architectures(options) => architectures::run(options),
        Measurement::Janitor { run } => janitor::attend(run),
    }
}
