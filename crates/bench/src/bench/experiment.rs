//! What all experiments take on the command line, and what they do before they begin and while they go on.

use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::interrupt;
use crate::janitor::Janitor;
use crate::machine::Machine;
use crate::network::Link;
use crate::spinner::Duty;
use crate::subject::Variant;
use crate::trial::Site;

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
    pub(crate) data: PathBuf,
    /// What was measured so far, to go on with after an interruption, as JSON lines [default: named for the experiment, in --data]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// For the server's network namespace, such as `net.ipv4.tcp_syncookies=0`; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) sysctl: Vec<String>,
}

/// How a CPU is made slow.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Slowness {
    /// The server's CPU is taken away for so many microseconds by a real-time thread ...
    #[arg(long, value_name = "US", default_value_t = 500)]
    spin: u32,
    /// ... and left to it for so many, by turns
    #[arg(long, value_name = "US", default_value_t = 100)]
    sleep: u32,
    /// The server has its CPU for itself
    #[arg(long, conflicts_with_all = ["spin", "sleep"])]
    unhindered: bool,
}

impl Slowness {
    pub(crate) fn duty(self) -> Option<Duty> {
        (!self.unhindered).then_some(Duty { busy_us: self.spin, asleep_us: self.sleep })
    }
}

/// An experiment that has begun: signals are caught, and what it sets up will be taken away.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) site: Site,
    pub(crate) journal: PathBuf,
    /// Which builds of server and generator take part: figures of others don't belong into the same journal.
    pub(crate) builds: [String; 2],
    // The directory goes before the janitor, which waits for the end.
    _scratch: tempfile::TempDir,
    _janitor: Janitor,
}

/// Lengths of the parts of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    pub(crate) timeout: Duration,
}

impl Experiment {
    pub(crate) fn begin(&self, name: &str, slowdown: Option<Duty>, lengths: Lengths) -> Result<Begun> {
        ensure!(self.server_cpu != self.client_cpu, "server and clients need different CPUs");
        interrupt::catch()?;
        let janitor = Janitor::employ()?;
        let scratch = tempfile::Builder::new().prefix("bench-").tempdir()?;
        let site = Site {
            sluice: executable(&self.sluice)?,
            sluicelab: executable(&self.sluicelab)?,
            scratch: scratch.path().to_owned(),
            server_cpus: vec![self.server_cpu],
            client_cpus: vec![self.client_cpu],
            links: vec![Link { server_cpus: vec![self.server_cpu], client_cpus: vec![self.client_cpu] }],
            slowdown,
            bounds: None,
            sysctls: self.sysctl.clone(),
            warm_up: lengths.warm_up,
            measured: lengths.measured,
            timeout: lengths.timeout,
        };
        let journal = self.journal.clone().unwrap_or_else(|| self.data.join(format!("{name}.jsonl")));
        let builds = [build(&site.sluice)?, build(&site.sluicelab)?];
        Ok(Begun { site, journal, builds, _scratch: scratch, _janitor: janitor })
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine::describe(Some(&self.sluice))
    }
}

fn executable(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("no program at {} (cargo build --release)", path.display()))
}

/// What tells one build of a program from another: a hash of its bytes.
fn build(path: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(path)?);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Those of `variants` that the server runs.
pub(crate) fn runnable(mut variants: Vec<Variant>, site: &Site) -> Result<Vec<Variant>> {
    let runnable: Vec<bool> =
        variants.iter().map(|variant| is_runnable(variant, site)).collect::<Result<_>>()?;
    let mut of_each = runnable.iter();
    variants.retain(|_| of_each.next() == Some(&true));
    ensure!(!variants.is_empty(), "nothing is left to be measured");
    Ok(variants)
}

/// Whether the server runs so; if not, a line on standard error says why not.
pub(crate) fn is_runnable(variant: &Variant, site: &Site) -> Result<bool> {
    let refusal = variant.refusal(&site.sluice, site.links.len(), &site.scratch)?;
    if let Some(why) = &refusal {
        eprintln!("left out: {} ({variant}): {why}", variant.name);
    }
    Ok(refusal.is_none())
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
