//! The sluicelab command: parse, call, print. Each subcommand has its file in `lab/`.
//!
//! Exit codes: 0 clean, 1 failure while running (a run that nobody answered, or not with what was asked for,
//! is one), 2 bad usage or input, 3 a run whose figures are not valid, 4 one that is valid and does not keep
//! to what was set to it.

mod console;
mod lab;
mod pages;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

/// The lab: makes workloads, loads web servers with them, and says what came of it.
#[derive(Parser)]
#[command(name = "sluicelab", version, max_term_width = 110)]
#[command(after_help = "Try `sluicelab doctor` first: it tells what this machine can measure.\n\
    Sizes take KB, MB, KiB, MiB; times take us, ms, s, min, h, d, and only 0 may be bare.\n\
    Exit codes: 0 clean, 1 failure while running (or a check that failed, a run without an answer), 2 bad \
    usage or input, \
    3 a run whose figures are not valid, 4 a run that does not keep to its thresholds.")]
struct Sluicelab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the files that a server is to serve
    Fileset(lab::fileset::Options),
    /// Write session files for httperf and for `sluicelab load`
    #[command(subcommand)]
    Sessions(lab::sessions::Options),
    /// Answer what the pages of the Support workload ask a back end
    Besim(lab::besim::Options),
    /// Load servers, and measure what they do
    Load(Box<lab::load::Options>),
    /// Compare servers under one workload, in pairs, and say whether they differ
    Compare(Box<lab::compare::Options>),
    /// Run an experiment that a file describes
    Run(lab::run::Options),
    /// Look for the settings with which a server does best
    Tune(Box<lab::tune::Options>),
    /// Say what a directory of results says
    Report(lab::run::Report),
    /// Tell what five papers found, and whether it is so here
    Papers(lab::papers::Options),
    /// Clean up behind the process with this id once standard input ends
    #[command(name = ::lab::programs::janitor::SUBCOMMAND, hide = true)]
    Janitor {
        /// Its process id
        run: u32,
    },
    /// Tell what this machine can and cannot measure, and what to do about it
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

/// Of an option that another subcommand has, the error names that one, and not an option that looks like it.
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

/// Which of a command's subcommands have an option.
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
