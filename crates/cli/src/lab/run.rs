//! `sluicelab run` and `report`: runs experiments and reports their results. `compare`, `tune` and `papers`
//! use the same functions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use lab::description::classes;
use lab::description::expected::expected;
use lab::description::experiment::{Experiment, PointSpec};
use lab::measuring::means::Means;
use lab::programs::{interrupt, shell};
use lab::progress::Progress;
use lab::record::tuned;
use lab::report;
use lab::report::results::{self, Results};
use lab::report::summary;
use lab::run;

use super::{BadInput, load, means, pinned};
use crate::console::print;

/// `sluicelab run`.
#[derive(Debug, Args)]
#[command(
    after_help = "An experiment is a TOML file, see docs/experiments.md and the directory experiments/.\n\
    To continue an interrupted run, use --resume DIR, or the same command with --out DIR.\n\
    As root, it makes its own network namespaces and control groups, and removes them afterwards.\n\n\
    Exit codes: 0 measured, whatever was found; 1 failure while running, or interrupted; 2 bad usage or \
    input."
)]
pub(crate) struct Options {
    /// The experiment's file
    #[arg(value_name = "EXPERIMENT.toml", required_unless_present = "resume")]
    experiment: Option<PathBuf>,
    /// Continue an interrupted run in its directory of results
    #[arg(long, value_name = "DIR", conflicts_with_all = ["experiment", "out"])]
    resume: Option<PathBuf>,
    /// Only check the experiment's file and the files that it names, and print how long a run takes
    #[arg(long, conflicts_with = "resume")]
    check: bool,
    #[command(flatten)]
    means: means::Where,
}

/// `sluicelab report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// A directory that `sluicelab run`, `compare` or `tune` has written
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print Markdown tables: a row for each point, with the best of each kind of server
    #[arg(long, conflicts_with = "pictures")]
    markdown: bool,
    /// Write every figure of the report to this directory, as SVG for light and dark documents
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (path, directory) = match (&options.resume, &options.experiment) {
        (Some(directory), _) => (directory.join(results::EXPERIMENT), Some(directory.clone())),
        (None, Some(path)) => (path.clone(), options.means.out.clone()),
        (None, None) => {
            let said = "no experiment is named; give its file, or --resume DIR";
            return Err(BadInput(said.to_owned()).into());
        }
    };
    let experiment = Experiment::read(&path).map_err(BadInput)?;
    if options.check {
        experiment.check_files().map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
        check_clients(&experiment)?;
        print(&format!(
            "{}: {} points, {} rounds, {} if no trial has to be repeated\n",
            path.display(),
            experiment.points.len(),
            experiment.rounds,
            about(expected(&experiment))
        ))?;
        if let Some(why) = experiment.too_few_rounds() {
            print(&format!("{why}\n"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let text = std::fs::read_to_string(&path)?;
    let name = path.file_stem().map_or_else(|| "experiment".to_owned(), |name| name.display().to_string());
    let directory = directory.unwrap_or_else(|| fresh(&name));
    carry_out(&text, &directory, &options.means)?;
    Ok(ExitCode::SUCCESS)
}

/// Checks and runs an experiment, and prints its results. Warns first if there are too few rounds.
pub(super) fn carry_out(text: &str, directory: &Path, options: &means::Where) -> Result<()> {
    carry_out_as(text, directory, options, &resuming(directory, options))
}

/// Measures an experiment for a command other than `run`. `go_on` is what follows the program's name in the
/// command that resumes.
pub(super) fn carry_out_as(text: &str, directory: &Path, options: &means::Where, go_on: &str) -> Result<()> {
    let means = options.means()?;
    carry(&run::check(text, directory, &means)?, directory, options, go_on)
}

/// The `run` command that resumes a directory.
fn resuming(directory: &Path, options: &means::Where) -> String {
    format!("run --resume {}{}", quoted_path(directory), options.typed())
}

/// The same, but first each server is asked whether it accepts its settings, so that all of them take part.
pub(super) fn carry_out_with_all(text: &str, directory: &Path, options: &means::Where) -> Result<()> {
    let means = options.means()?;
    let checked = run::check(text, directory, &means)?;
    checked.ask_servers()?;
    carry(&checked, directory, options, &resuming(directory, options))
}

fn carry(checked: &run::Checked<'_>, directory: &Path, options: &means::Where, go_on: &str) -> Result<()> {
    check_clients(&checked.experiment)?;
    if let Some(why) = checked.experiment.too_few_rounds() {
        super::tell(&why);
    }
    interrupt::catch()?;
    let is_usual = |point: &PointSpec| !point.setting.both_cpus && point.setting.cpus.is_none();
    if checked.experiment.points.iter().all(is_usual) {
        super::tell(&options.means()?.where_it_runs());
    }
    tell_of_unpinned(&checked.experiment, &options.means()?);
    let progress = Progress::new();
    checked.run(&progress).map_err(|error| {
        let go_on = format!("{} {go_on}", program());
        let has_any = directory.join(results::JOURNAL).is_file();
        or_how_to_go_on(error, &progress, &go_on, has_any.then_some(directory))
    })?;
    tell(directory)
}

/// Prints a note about servers that already run and may use the clients' CPUs.
fn tell_of_unpinned(experiment: &Experiment, means: &Means) {
    for spec in experiment.servers() {
        let pid = spec.running().and_then(|running| running.pid);
        let remark =
            pid.and_then(|pid| pinned::remark(&spec.name, pid, &means.client_cpus, &means.server_cpus));
        if let Some(remark) = remark {
            super::tell(&format!("sluicelab: NOTE: {remark}"));
        }
    }
}

/// This program, as it was called.
fn program() -> String {
    std::env::args().next().map_or_else(|| "sluicelab".to_owned(), |program| shell::quoted(&program))
}

pub(super) fn quoted_path(path: &Path) -> String {
    shell::quoted(&path.display().to_string())
}

/// The error. If the user has interrupted the program, it says instead how far the run has come, which
/// command continues it, and which one shows the results so far.
pub(super) fn or_how_to_go_on(
    error: anyhow::Error,
    progress: &Progress,
    go_on: &str,
    reported: Option<&Path>,
) -> anyhow::Error {
    if !interrupt::is_asked() {
        return error;
    }
    let done = match progress.counts() {
        (_, 0) => "before the first trial".to_owned(),
        (done, all) => format!("after {done} of {all} trials"),
    };
    // Removing the bar sets it to full, so it ends only after its count was read.
    progress.end();
    let report = reported.map_or_else(String::new, |directory| {
        format!("\nsee the report so far with: {} report {}", program(), quoted_path(directory))
    });
    anyhow!("interrupted {done}\ncontinue with: {go_on}{report}")
}

/// Checks that `sluicelab load` takes the options for clients.
fn check_clients(experiment: &Experiment) -> Result<(), BadInput> {
    for point in &experiment.points {
        for option in &classes::as_for_one(&point.setting.clients) {
            // The actual networks are known only in a trial.
            load::check_option(&option.replace("{networks}", "127.78"))
                .map_err(|why| BadInput(format!("{:?}: clients: {option:?}: {why}", point.name)))?;
        }
    }
    Ok(())
}

/// Prints the results, writes the report, and prints its address last.
pub(super) fn tell(directory: &Path) -> Result<()> {
    let directory = &tuned::reported(directory);
    let results = Results::of(directory)?;
    print(&summary::text(&results))?;
    let page = report::write(&results, directory)?.canonicalize()?;
    print(&format!("\nresults: {}\n", directory.canonicalize()?.display()))?;
    print(&format!("report:  {}\n", report::address(&page)))?;
    Ok(())
}

pub(crate) fn report(options: &Report) -> Result<ExitCode> {
    if let Some(out) = &options.pictures {
        let results = Results::of(&tuned::reported(&options.directory))?;
        for path in report::pictures::write(&results, out)? {
            print(&format!("{}\n", path.display()))?;
        }
    } else if options.markdown {
        let results = Results::of(&tuned::reported(&options.directory))?;
        print(&report::markdown::text(&results))?;
    } else {
        tell(&options.directory)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A time as people say it: "about 4 minutes".
fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    let (number, unit) = match seconds {
        0..100 => (seconds.max(1), "second"),
        100..6_000 => ((seconds + 30) / 60, "minute"),
        _ => ((seconds + 1_800) / 3_600, "hour"),
    };
    format!("about {number} {unit}{}", if number == 1 { "" } else { "s" })
}

/// The path of a new directory for results.
pub(super) fn fresh(name: &str) -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    Path::new("results").join(format!("{name}-{now}"))
}
