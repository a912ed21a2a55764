//! `sluicelab papers`: findings of papers, their measurements here, and the verdicts on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Subcommand};
use lab::description::experiment::Experiment;
use lab::papers::catalogue::{self, Catalogue, Here, Row};
use lab::papers::measured::{self, Measured};
use lab::papers::quick::Quick;
use lab::papers::text::{self, Terminal};
use lab::papers::verdict::{self, Verdict};
use lab::papers::{document, kept, page, show};
use lab::programs::interrupt;
use lab::progress::Progress;
use lab::report::{self, results::EXPERIMENT};
use lab::run::Refused;

use super::{BadInput, means, run as runs};
use crate::console::print;

/// `sluicelab papers`.
#[derive(Debug, Args)]
#[command(
    subcommand_value_name = "WHAT",
    after_help = "Without a subcommand, all findings are listed, one row each, with their verdicts today.\n\n\
    Exit codes: 0 done; 1 failure while running, or interrupted; 2 bad usage or input."
)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show all that is known of a row: the paper's numbers, ours, and how to repeat it
    Show {
        /// The row's name in the list, such as B04-8
        #[arg(value_name = "ROW")]
        id: String,
    },
    /// Measure rows, and keep the results
    Run(Box<Run>),
    /// Write the page of all rows
    ///
    /// In the source tree, also evaluates all kept journals again, and writes docs/papers.md.
    Report {
        /// The page [default: papers.html; in the source tree target/reports/papers.html]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// `sluicelab papers run`.
#[derive(Debug, Args)]
#[command(
    after_help = "A row is measured in results/papers. When it is complete, its journal, its environment and \
    its experiment are kept in docs/measurements/papers of the source tree, elsewhere in results/papers, or \
    in --out DIR. With --resume, an interrupted run continues, and rows are skipped if the same version of \
    their experiment is already kept.\n\n\
    Exit codes: 0 measured, whatever was found; 1 failure while running, or interrupted; 2 bad usage or \
    input."
)]
struct Run {
    /// Rows by their names in the list, such as B04-8
    #[arg(value_name = "ROW", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All rows that have an experiment, one after the other; a failure does not stop the others
    #[arg(long)]
    all: bool,
    /// Continue an interrupted run, and skip what is measured already
    #[arg(long)]
    resume: bool,
    /// Show the shape in at most three minutes, without root: ratios, but no verdict; nothing is kept
    #[arg(long, conflicts_with_all = ["resume", "all"])]
    quick: bool,
    #[command(flatten)]
    means: means::Where,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    match &options.command {
        None => list()?,
        Some(Command::Show { id }) => show(id)?,
        Some(Command::Run(options)) => return options.run(),
        Some(Command::Report { out }) => report(out.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<()> {
    let (catalogue, measured) = (catalogue()?, known()?);
    print(&text::list(&verdict::verdicts(&catalogue, &measured), Terminal::of_standard_output()))?;
    Ok(())
}

fn show(id: &str) -> Result<()> {
    let (catalogue, measured) = (catalogue()?, known()?);
    let row = catalogue.row(id).map_err(BadInput)?;
    print(&show::text(&catalogue, &Verdict::of(row, &measured), Terminal::of_standard_output()))?;
    Ok(())
}

fn report(out: Option<&Path>) -> Result<()> {
    let catalogue = catalogue()?;
    let root = source_tree();
    let measured = match &root {
        Some(root) => {
            let measured = kept::evaluate_all(&catalogue, root)?;
            write(&root.join("docs/measurements").join(measured::FILE), &measured.text()?)?;
            write(&root.join(document::FILE), &document::markdown(&catalogue, &measured))?;
            measured
        }
        None => known()?,
    };
    let usual =
        root.map_or_else(|| PathBuf::from("papers.html"), |root| root.join("target/reports/papers.html"));
    let path = out.map_or(usual, Path::to_owned);
    write(&path, &page::html(&catalogue, &measured)?)?;
    print(&format!(
        "{}\nreport: {}\n",
        verdicts(&catalogue, &measured),
        report::address(&path.canonicalize()?)
    ))?;
    Ok(())
}

/// How many rows there are of each kind.
fn verdicts(catalogue: &Catalogue, measured: &Measured) -> String {
    page::sentence(&verdict::verdicts(catalogue, measured))
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn catalogue() -> Result<Catalogue> {
    Catalogue::embedded().map_err(|error| anyhow!("experiments/papers.toml: {error}"))
}

/// Measurements from the source tree or `results`, and otherwise those that are built into this program.
fn known() -> Result<Measured> {
    Measured::embedded()?.with(&base().join(measured::FILE))
}

fn source_tree() -> Option<PathBuf> {
    measured::source_tree(&std::env::current_dir().ok()?)
}

/// Where measurements are kept.
fn base() -> PathBuf {
    source_tree().map_or_else(|| PathBuf::from("results"), |root| root.join("docs/measurements"))
}

/// The experiments of rows, each once with the first row that names it.
fn experiments_of<'a>(rows: &[&'a Row]) -> Vec<(&'a str, &'a str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        for name in row.measurable() {
            if !all.iter().any(|(known, _)| *known == name) {
                all.push((name, &row.id));
            }
        }
    }
    all
}

/// Why a row cannot be run, if so.
fn why_not(row: &Row) -> Option<String> {
    match &row.here {
        Here::Waits(what) => Some(format!("{} cannot be measured yet: it waits for {what}", row.id)),
        Here::NotHere { reason, instead } => {
            Some(format!("{} can't be measured here: {reason}; instead: {instead}", row.id))
        }
        Here::Measured(names) => row
            .measurable()
            .is_empty()
            .then(|| format!("{}: experiments/{} is planned, but not written yet", row.id, names.join(", "))),
    }
}

impl Run {
    fn run(&self) -> Result<ExitCode> {
        let catalogue = catalogue()?;
        let mut rows = Vec::new();
        for id in &self.ids {
            let row = catalogue.row(id).map_err(BadInput)?;
            if let Some(why) = why_not(row) {
                return Err(BadInput(why).into());
            }
            rows.push(row);
        }
        if self.all {
            rows = catalogue.rows.iter().filter(|row| why_not(row).is_none()).collect();
        }
        if self.quick {
            rows.iter().try_for_each(|row| self.quick(row))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut failed = Vec::new();
        for (name, id) in experiments_of(&rows) {
            if let Err(error) = self.measure(&catalogue, name, id) {
                if !self.all || interrupt::is_asked() {
                    return Err(error);
                }
                super::tell(&format!("sluicelab: {name}: {error:#}"));
                failed.push(name);
            }
        }
        Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Measures an experiment and keeps the results, unless they are kept already.
    fn measure(&self, catalogue: &Catalogue, name: &str, id: &str) -> Result<()> {
        let text = catalogue::experiment(name).with_context(|| format!("no experiment is called {name}"))?;
        let experiment = Experiment::parse(text).map_err(Refused::because)?;
        let to = match &self.means.out {
            Some(out) => out.join(catalogue::stem(name)),
            None => base().join(catalogue::fresh_directory(name)),
        };
        let older = self.means.out.is_none().then(|| base().join(catalogue.directory(name)));
        for directory in [Some(&to), older.as_ref()].into_iter().flatten().filter(|_| self.resume) {
            if kept::is_kept(&experiment, directory)? {
                super::tell(&format!("{name}: already measured, in {}", directory.display()));
                // A run may have been interrupted before it was noted.
                return if directory == &to { self.note(name, &experiment, &to) } else { Ok(()) };
            }
        }
        let hash = &kept::version(&experiment)?[..8];
        let work = Path::new("results/papers").join(format!("{}-{hash}", catalogue::stem(name)));
        if work.exists() && !self.resume {
            let told = format!(
                "a run of this experiment was begun in {}; continue it with --resume, or remove that \
                 directory",
                work.display()
            );
            return Err(BadInput(told).into());
        }
        super::tell(&format!("\n{name}, for {id}"));
        // Its text may have changed since, as long as it measures the same.
        let begun = work.join(EXPERIMENT);
        if begun.exists() {
            write(&begun, text)?;
        }
        runs::carry_out_as(text, &work, &self.means, &self.go_on())?;
        let today = jiff::Zoned::now().date().to_string();
        kept::keep(&work, &to, &today)?;
        self.note(name, &experiment, &to)?;
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
        let measured = known()?.with(&self.noted())?;
        let rows = catalogue.rows.iter().filter(|row| row.all_experiments().any(|other| other == name));
        for row in rows {
            print(&format!(
                "\n{}",
                show::text(catalogue, &Verdict::of(row, &measured), Terminal::of_standard_output())
            ))?;
        }
        Ok(())
    }

    /// The command that continues with all rows that were asked for.
    fn go_on(&self) -> String {
        let rows = if self.all { "--all".to_owned() } else { self.ids.join(" ") };
        let out = self.means.out.as_ref();
        let out = out.map_or_else(String::new, |out| format!(" --out {}", runs::quoted_path(out)));
        format!("papers run {rows} --resume{out}{}", self.means.typed())
    }

    /// The file that notes what was measured.
    fn noted(&self) -> PathBuf {
        match &self.means.out {
            Some(out) => out.join("measured.json"),
            None => base().join(measured::FILE),
        }
    }

    /// Notes what a kept experiment says of the rows.
    fn note(&self, name: &str, experiment: &Experiment, kept: &Path) -> Result<()> {
        let told = source_tree()
            .and_then(|root| Some(kept.canonicalize().ok()?.strip_prefix(root).ok()?.to_owned()))
            .unwrap_or_else(|| kept.to_owned());
        let one = kept::evaluate((name, experiment), kept, (&told.display().to_string(), None))?;
        let file = self.noted();
        let mut measured = Measured::default().with(&file)?;
        measured.put(one);
        write(&file, &measured.text()?)
    }

    /// The shape of a row.
    fn quick(&self, row: &Row) -> Result<()> {
        let means = self.means.means()?;
        print(&format!("{}: {}\n", row.id, row.finding))?;
        for name in row.measurable() {
            let text =
                catalogue::experiment(name).with_context(|| format!("no experiment is called {name}"))?;
            let experiment = Experiment::parse(text).map_err(Refused::because)?;
            let quick = Quick::of(&experiment, &row.id).map_err(BadInput)?;
            for left_out in &quick.left_out {
                print(&format!("left out: {left_out}\n"))?;
            }
            interrupt::catch()?;
            print(&format!("\n{}\n", quick.run(&means, &Progress::new())?))?;
        }
        print("This is a pilot run, not a verdict.\n")?;
        Ok(())
    }
}
