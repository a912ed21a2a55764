//! The `sluicelab` command: parses the command line, calls a subcommand, and prints. Each subcommand has its
//! file in `lab/`.
//!
//! Exit codes: 0 clean, 1 failure while running (a run without any reply, or with wrong ones, is a failure),
//! 2 bad usage or input, 3 the figures of a run are not valid, 4 they are valid and break a threshold.

mod console;
mod lab;
mod pages;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

/// Measures web servers: makes workloads, generates load, compares servers and tunes their settings
#[derive(Parser)]
#[command(name = "sluicelab", version, max_term_width = 110)]
#[command(after_help = "Try `sluicelab doctor` first: it shows what this machine can measure.\n\
    Sizes take KB, MB, KiB, MiB; times take us, ms, s, min, h, d; only 0 needs no unit.\n\
    Exit codes: 0 clean, 1 failure while running (also a failed check, or a run without any reply), 2 bad \
    usage or input, 3 the figures of a run are not valid, 4 a run breaks its thresholds.")]
struct Sluicelab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the files of a workload, for servers to serve
    Fileset(lab::fileset::Options),
    /// Write session files for httperf and for `sluicelab load`
    #[command(subcommand)]
    Sessions(lab::sessions::Options),
    /// Run the back-end simulator that the pages of the Support workload query
    Besim(lab::besim::Options),
    /// Run an application over HTTP with a set time and capacity, for servers to stand before
    Application(lab::application::Options),
    /// Generate load for servers, and measure how they answer
    Load(Box<lab::load::Options>),
    /// Compare servers under one workload, in pairs, and say whether they differ
    Compare(Box<lab::compare::Options>),
    /// Run an experiment from its TOML file
    Run(lab::run::Options),
    /// Search for the best settings of a server
    Tune(Box<lab::tune::Options>),
    /// Print the results in a directory, and write their report
    Report(lab::run::Report),
    /// List the findings of five papers, and whether they hold here
    Papers(lab::papers::Options),
    /// Clean up after the process with this id, once standard input ends
    #[command(name = ::lab::programs::janitor::SUBCOMMAND, hide = true)]
    Janitor {
        /// The process id
        run: u32,
    },
    /// Check what this machine can and cannot measure, and how to improve that
    Doctor(lab::doctor::Doctor),
    /// Write manual pages and shell completions
    Pages(pages::Options),
}

fn main() -> ExitCode {
    let typed = Sluicelab::try_parse().unwrap_or_else(|error| elsewhere(error).exit());
    let result = match typed.command {
        Command::Fileset(options) => lab::fileset::run(&options),
        Command::Sessions(options) => lab::sessions::run(&options),
        Command::Besim(options) => lab::besim::run(&options),
        Command::Application(options) => lab::application::run(&options),
        Command::Load(options) => lab::load::run(&options),
        Command::Compare(options) => lab::compare::run(&options),
        Command::Run(options) => lab::run::run(&options),
        Command::Tune(options) => lab::tune::run(&options),
        Command::Report(options) => lab::run::report(&options),
        Command::Papers(options) => lab::papers::run(&options),
        Command::Janitor { run } => ::lab::programs::janitor::attend(run).map(|()| ExitCode::SUCCESS),
        Command::Pages(options) => options.write(Sluicelab::command()).map(|()| ExitCode::SUCCESS),
        Command::Doctor(command) => command.run().map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            for line in format!("{error:#}").lines() {
                lab::tell(&format!("sluicelab: {line}"));
            }
            let is_refused = error.is::<lab::BadInput>() || error.is::<::lab::run::Refused>();
            ExitCode::from(if is_refused { 2 } else { 1 })
        }
    }
}

/// If an unknown option belongs to another subcommand, makes the error name that subcommand, instead of a
/// similar option.
fn elsewhere(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return error };
    let option = typed.split('=').next().unwrap_or_default().to_owned();
    let owners = owners(&Sluicelab::command(), option.trim_start_matches("--"));
    if error.kind() != ErrorKind::UnknownArgument || !option.starts_with("--") || owners.is_empty() {
        return error;
    }
    error.remove(ContextKind::SuggestedArg);
    let hint = format!("'{option}' is an option of `{}`", owners.join("`, `"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    error
}

/// Which of a command and its subcommands have an option.
fn owners(command: &clap::Command, option: &str) -> Vec<String> {
    let has = |command: &clap::Command| {
        command.get_arguments().any(|known| known.get_long() == Some(option) && !known.is_hide_set())
    };
    let named =
        |below: Vec<String>| below.into_iter().map(move |name| format!("{} {name}", command.get_name()));
    let own = has(command).then(|| command.get_name().to_owned());
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    own.into_iter().chain(shown.flat_map(|below| named(owners(below, option)))).collect()
}
