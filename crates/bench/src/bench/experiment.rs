//! What all experiments take on the command line, and what they do before they begin and while they go on.

use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::generator::Lengths;
use crate::janitor::Janitor;
use crate::journal::{Journal, Session};
use crate::launcher::program;
use crate::network::Link;
use crate::rounds::{Order, Plan, Point, Stage};
use crate::subject::Variant;
use crate::testbed::Testbed;
use crate::trial::Site;
use crate::turns::Turns;

/// Programs, CPUs, files.
#[derive(Debug, Args)]
pub(crate) struct Experiment {
    /// The server
    #[arg(long, value_name = "FILE", default_value = "target/release/sluice")]
    sluice: PathBuf,
    /// Our load generator
    #[arg(long, value_name = "FILE", default_value = "target/release/sluicelab")]
    sluicelab: PathBuf,
    /// The CPU that the server runs on, and that receives its packets
    #[arg(long, default_value_t = 0)]
    server_cpu: usize,
    /// The CPU that the clients run on
    #[arg(long, default_value_t = 1)]
    client_cpu: usize,
    /// Where file sets and sessions are kept for the next run
    #[arg(long, value_name = "DIR", default_value = "target/bench-data")]
    data: PathBuf,
    /// What was measured so far, to go on with after an interruption, as JSON lines [default: named for the
    /// experiment, in --data]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Measure nothing, and print the tables of what the journal has. Needs neither root nor the programs
    #[arg(long)]
    print: bool,
    /// What the order of trials is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// For the server's network namespace, such as `net.ipv4.tcp_syncookies=0`; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    sysctl: Vec<String>,
}

/// How the servers of an experiment share a CPU.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Sharing {
    /// The part of the server's CPU that each server has, in percent, from 3 to 33: the less, the sooner
    /// clients on one CPU overload it
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    share: f64,
    /// How long each has it at a time, in microseconds
    #[arg(
        long,
        value_name = "US",
        default_value_t = 500,
        value_parser = clap::value_parser!(u32).range(20..=10_000)
    )]
    turn: u32,
}

impl Sharing {
    pub(crate) fn turns(self) -> Turns {
        Turns { share: self.share / 100.0, turn_us: self.turn }
    }

    /// What is said of it above tables.
    pub(crate) fn told(self) -> String {
        format!(
            "{}% of a CPU for each server, in turns of {} us, all at the same time",
            self.share, self.turn
        )
    }
}

fn percent(text: &str) -> Result<f64, String> {
    // Three are to have no more than there is, and two more than the kernel keeps from real-time threads.
    let allowed = "a part of a CPU from 3 to 33 percent";
    let percent: f64 = text.parse().map_err(|_| allowed.to_owned())?;
    if (3.0..=33.0).contains(&percent) { Ok(percent) } else { Err(allowed.to_owned()) }
}

/// For which part of the time, in percent, generators may wait for a CPU that others have on purpose as well.
pub(crate) const MAY_WAIT: u32 = 50;

/// An experiment that measures: signals are caught, and what it sets up will be taken away.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) site: Site,
    // The directory goes before the janitor, which waits for the end.
    _scratch: tempfile::TempDir,
    _janitor: Janitor,
}

impl Experiment {
    /// Opens the journal, which has to be of the same `settings` (a JSON object), and gets ready to measure,
    /// unless only tables are to be printed.
    pub(crate) fn begin(
        &self,
        name: &str,
        turns: Option<Turns>,
        lengths: Lengths,
        mut settings: Value,
    ) -> Result<(Journal, Option<Begun>)> {
        let path = self.journal.clone().unwrap_or_else(|| self.data.join(format!("{name}.jsonl")));
        settings["experiment"] = json!(name);
        settings["seed"] = json!(self.seed);
        settings["turns"] = json!(turns);
        settings["sysctls"] = json!(self.sysctl);
        settings["cpus"] = json!({ "server": self.server_cpu, "clients": self.client_cpu });
        settings["seconds"] = json!({
            "warm_up": lengths.warm_up.as_secs_f64(),
            "measured": lengths.measured.as_secs_f64(),
            "timeout": lengths.timeout.as_secs_f64(),
        });
        if self.print {
            return Ok((Journal::read(&path, &settings)?, None));
        }
        ensure!(self.server_cpu != self.client_cpu, "server and clients need different CPUs");
        let (sluice, sluicelab) = (program("program", &self.sluice)?, program("program", &self.sluicelab)?);
        // Figures of other builds don't belong into the same journal.
        settings["builds"] = json!({
            "sluice": build(&sluice)?,
            "sluicelab": build(&sluicelab)?,
            "bench": build(&std::env::current_exe()?)?,
        });
        // Silent connections are held here.
        sys::process::raise_descriptor_limit()?;
        let mut journal = Journal::open(&path, &settings)?;
        let machine = Testbed::describe(&[&sluice, &sluicelab]);
        journal.begin_session(&Session { command: command_line(std::env::args()), machine })?;
        let janitor = Janitor::employ()?;
        let scratch = tempfile::Builder::new().prefix("bench-").tempdir()?;
        let site = Site {
            sluice,
            sluicelab,
            data: self.data.clone(),
            scratch: scratch.path().to_owned(),
            server_cpus: vec![self.server_cpu],
            client_cpus: vec![self.client_cpu],
            links: vec![Link { server_cpus: vec![self.server_cpu], client_cpus: vec![self.client_cpu] }],
            turns,
            // Generators of other servers are on the same CPU, and wait as long.
            may_wait: turns.map(|_| MAY_WAIT),
            bounds: None,
            sysctls: self.sysctl.clone(),
            lengths,
        };
        Ok((journal, Some(Begun { site, _scratch: scratch, _janitor: janitor })))
    }

    /// A plan, the order of which is drawn from this experiment's seed.
    pub(crate) fn plan<T>(
        &self,
        stage: Stage,
        rounds: u32,
        order: Order,
        points: impl IntoIterator<Item = Point<T>>,
    ) -> Plan<T> {
        Plan { points: points.into_iter().collect(), rounds, seed: self.seed, stage, order }
    }

    /// What stands above all tables: where figures come from, and how others get them.
    pub(crate) fn heading(&self, journal: &Journal) -> Result<String> {
        let sessions = journal.sessions()?;
        let mut machines: Vec<String> = sessions.iter().map(|session| session.machine.line()).collect();
        machines.dedup();
        let commands: Vec<String> = sessions.iter().map(|session| format!("`{}`", session.command)).collect();
        let build = |name: &str| journal.builds()[name].as_str().unwrap_or("unknown").to_owned();
        Ok(format!(
            "{}\n\nMeasured by {}. Builds: sluice {}, sluicelab {}. Sysctls: {}. Order drawn with seed {}. \
             Journal: {}\n",
            machines.join("\n\n"),
            commands.join(", then "),
            build("sluice"),
            build("sluicelab"),
            if self.sysctl.is_empty() { "as they come".to_owned() } else { self.sysctl.join(", ") },
            self.seed,
            journal.path.display(),
        ))
    }
}

/// As a shell takes it.
fn command_line(words: impl IntoIterator<Item = String>) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+,./:@%".contains(letter);
    let quoted = words.into_iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// What tells one build of a program from another: a hash of its bytes.
fn build(path: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(path)?);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Those of `variants` that are [`accepted`], of which there has to be one.
pub(crate) fn runnable(
    variants: Vec<Variant>,
    begun: Option<&Begun>,
    journal: &mut Journal,
) -> Result<Vec<Variant>> {
    let runnable = accepted(variants, begun, journal)?;
    ensure!(!runnable.is_empty(), "nothing is left to be measured");
    Ok(runnable)
}

/// Those of `variants` that the server runs; a line on standard error says why others are left out. It is
/// asked once, and the journal remembers.
pub(crate) fn accepted(
    variants: Vec<Variant>,
    begun: Option<&Begun>,
    journal: &mut Journal,
) -> Result<Vec<Variant>> {
    let mut accepted = Vec::new();
    for variant in variants {
        let key = format!("refusal of {variant}");
        let refusal: Option<String> = match begun {
            Some(Begun { site, .. }) => {
                journal.get_or(&key, || variant.refusal(&site.sluice, site.links.len(), &site.scratch))?
            }
            None => journal.get(&key)?.flatten(),
        };
        match refusal {
            Some(why) => eprintln!("left out: {} ({variant}): {why}", variant.name),
            None => accepted.push(variant),
        }
    }
    Ok(accepted)
}

/// Tells on standard error how far long work has come.
#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    all: usize,
    done: usize,
    /// Done before this run, or too fast to count.
    skipped: usize,
}

impl Progress {
    pub(crate) fn of(all: usize) -> Self {
        Self { begun: Instant::now(), all, done: 0, skipped: 0 }
    }

    pub(crate) fn skip(&mut self) {
        self.done += 1;
        self.skipped += 1;
    }

    pub(crate) fn step(&mut self, what: &str) {
        self.done += 1;
        let left = self.all - self.done;
        let each = self.begun.elapsed() / (self.done - self.skipped) as u32;
        eprintln!("[{}/{}, {} s left] {what}", self.done, self.all, (each * left as u32).as_secs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let words = ["bench", "disk", "--server", "a: --b=c", "it's"].map(str::to_owned);
        assert_eq!(command_line(words), "bench disk --server 'a: --b=c' 'it'\\''s'");
    }
}
