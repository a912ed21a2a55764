//! The sluicelab command: parse, call, print. Each subcommand has its file in `lab/`.
//!
//! Exit codes: 0 clean, 1 failure while running, 2 bad usage.

mod lab;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Makes workloads, puts servers under load, and measures them.
#[derive(Parser)]
#[command(name = "sluicelab", version, max_term_width = 110)]
#[command(after_help = "Try `sluicelab doctor` first: it tells what this machine can measure.")]
struct Sluicelab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tell what this machine can and cannot measure, and what to do about it
    Doctor(lab::doctor::Doctor),
}

fn main() -> ExitCode {
    let result = match Sluicelab::parse().command {
        Command::Doctor(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluicelab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The reader of our output has seen enough, as in `sluicelab doctor | head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
