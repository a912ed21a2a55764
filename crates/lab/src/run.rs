//! Runs an experiment, from its file to its directory of results.
//!
//! The directory holds `experiment.toml` as given, `environment.json` (machine, versions, builds),
//! `journal.jsonl` with every figure, `trials/` with each trial's configuration, logs and raw results, and
//! `SHA256SUMS` over all of these. If servers speak TLS, `tls.pem` or `tls-rsa.pem` has their certificate. A
//! run measures what is missing in the journal. So an interrupted experiment continues when it is run again,
//! whatever interrupted it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base16ct::lower::encode_string as hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::analysis::steady::Settling;
use crate::description::experiment::{Experiment, PointSpec};
use crate::description::lengths::Lengths;
use crate::description::load::Load;
use crate::description::setting::{Order, Rules, Setting};
use crate::description::tool::Tool;
use crate::description::workload::Prepared;
use crate::measuring::bounds::files_below;
use crate::measuring::counter;
use crate::measuring::means::Means;
use crate::measuring::plan::Plan;
use crate::measuring::profiler;
use crate::measuring::stages::Stages;
use crate::measuring::subject;
use crate::measuring::trial::{Block, NotStarted, Purpose, Site};
use crate::measuring::wrk;
use crate::programs::interrupt;
use crate::programs::janitor::{self, Janitor};
use crate::programs::others;
use crate::programs::testbed::Testbed;
use crate::progress::Progress;
use crate::record::TRIALS;
use crate::record::journal::{Journal, Session};
use crate::record::outcome::Outcome;
use crate::record::tuned::is_search;
use crate::report;
use crate::report::results::{EXPERIMENT, JOURNAL};
use crate::servers::spec::Spec;
use crate::servers::{self, Tls, certificate};
use crate::unique::unique;

pub use crate::measuring::network::may_isolate;

/// The file that describes where the experiment ran.
pub const ENVIRONMENT: &str = "environment.json";
/// The file with hashes of all other files.
const HASHES: &str = "SHA256SUMS";

/// Why this machine cannot do what was requested. Nothing was written.
#[derive(Debug)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Refused {
    pub(crate) fn new(error: &anyhow::Error) -> Self {
        Self(format!("{error:#}"))
    }

    /// Refuses for this reason.
    pub fn because(why: String) -> Self {
        Self(why)
    }
}

/// An experiment that passed all checks and can run.
#[derive(Debug)]
pub struct Checked<'a> {
    /// What to run.
    pub experiment: Experiment,
    text: &'a str,
    directory: &'a Path,
    means: &'a Means,
}

/// Checks whether the experiment in `text` can run with these means, in that directory. Writes nothing.
///
/// # Errors
/// The reason why it cannot run.
pub fn check<'a>(text: &'a str, directory: &'a Path, means: &'a Means) -> Result<Checked<'a>, Refused> {
    let experiment = Experiment::of_options(text).map_err(Refused)?;
    is_its(directory, EXPERIMENT, text).map_err(|error| Refused::new(&error))?;
    experiment.check_files().map_err(Refused)?;
    possible(&experiment, means).map_err(|error| Refused::new(&error))?;
    Ok(Checked { experiment, text, directory, means })
}

fn possible(experiment: &Experiment, means: &Means) -> Result<()> {
    ensure!(
        means.server_cpus.iter().all(|cpu| !means.client_cpus.contains(cpu)),
        "servers and clients need different CPUs"
    );
    let all = means.server_cpus.len() + means.client_cpus.len();
    for PointSpec { name, setting, .. } in &experiment.points {
        let cpus = setting.cpus.map_or(means.server_cpus.len(), |cpus| cpus as usize);
        ensure!(
            cpus == 1 || setting.share.is_none(),
            "a share is a part of one CPU, and servers have {cpus}: name one CPU with --server-cpus"
        );
        ensure!(
            cpus == 1 || setting.slow_cpu.is_none(),
            "{name:?}: slow_cpu: it is one CPU, and servers have {cpus}: name one CPU with --server-cpus"
        );
        ensure!(cpus <= all, "{name:?}: cpus: {cpus}, and servers and clients have {all} together");
    }
    if !has_namespaces(experiment, means) {
        needs_no_namespaces(experiment)?;
    }
    for spec in experiment.servers() {
        if let Some(running) = spec.running() {
            subject::is_there(&running)?;
            continue;
        }
        for spec in [Some(spec.clone()), servers::behind(spec)?].into_iter().flatten() {
            let path = servers::executable(&spec, &means.sluice).filter(|path| path.is_file());
            path.with_context(|| servers::not_there(&spec))?;
        }
    }
    for application in experiment.applications() {
        application.executable()?;
    }
    if experiment.points.iter().any(|point| !point.setting.generator.is_sluicelab()) {
        wrk::find()?;
    }
    if experiment.profile.is_some() {
        profiler::check()?;
    }
    if experiment.system_calls.is_some() {
        counter::check()?;
    }
    Ok(())
}

/// Whether the experiment gets network namespaces. Servers that are already running are on the loopback
/// interface, and so is every server compared with them.
fn has_namespaces(experiment: &Experiment, means: &Means) -> bool {
    let is_started = |server: &&Spec| server.running().is_none();
    !means.loopback && experiment.servers().iter().all(is_started) && may_isolate()
}

/// A server's objection to its settings, if it has one and can be asked.
///
/// # Errors
/// The server cannot be asked although it should be.
pub(crate) fn objection(spec: &Spec, tls: Option<Tls>, means: &Means) -> Result<Option<String>, Refused> {
    subject::objection(spec, tls, &means.sluice, &means.server_cpus).map_err(|error| Refused::new(&error))
}

/// Runs what is missing of the experiment in `text`.
pub fn run(text: &str, directory: &Path, means: &Means, progress: &Progress) -> Result<()> {
    check(text, directory, means)?.run(progress)
}

impl Checked<'_> {
    /// Checks whether servers accept their settings, as far as they can be asked. [`Checked::run`] leaves
    /// out a server that does not.
    ///
    /// # Errors
    /// The objection of the first server that refuses its settings.
    pub fn ask_servers(&self) -> Result<(), Refused> {
        let all =
            self.experiment.points.iter().flat_map(|PointSpec { servers, setting, .. }| {
                servers.iter().map(|spec| (spec, setting.tls))
            });
        for (spec, tls) in unique(all) {
            if let Some(why) = objection(spec, tls, self.means)? {
                return Err(Refused(format!("{spec}: {why}")));
            }
        }
        Ok(())
    }

    /// Runs what is missing of the experiment.
    pub fn run(&self, progress: &Progress) -> Result<()> {
        let Self { experiment, means, .. } = self;
        keep(self.directory, EXPERIMENT, self.text)?;
        // Servers run in another directory, so the path has to be absolute.
        let directory = self.directory.canonicalize()?;
        let directory = directory.as_path();
        let has_namespaces = has_namespaces(experiment, means);
        if !has_namespaces {
            let why = if means.loopback {
                "--loopback"
            } else if may_isolate() {
                "some servers are already running there"
            } else {
                "network namespaces need root and ip(8)"
            };
            progress.remark(&format!("on the loopback interface: {why}"));
        }
        let (machine, environment) = environment(experiment, means, has_namespaces)?;
        let mut journal = Journal::open(&directory.join(JOURNAL), &environment["settings"])?;
        fs::write(directory.join(ENVIRONMENT), serde_json::to_string_pretty(&environment)?)?;
        let busy_percent = others::watch();
        if let Some(percent) = busy_percent {
            progress.remark(&others::told(percent));
        }
        journal.begin_session(&Session { command: means.command.clone(), machine, busy_percent })?;
        // This process holds the connections of idle clients.
        sys::process::raise_descriptor_limit()?;
        let _janitor = Janitor::employ()?;
        let scratch = tempfile::Builder::new().prefix(&janitor::prefix(std::process::id())).tempdir()?;
        let site = Site {
            means: (*means).clone(),
            has_namespaces,
            sysctls: experiment.sysctls.clone(),
            scratch: scratch.path().to_owned(),
            certificates: directory.to_owned(),
        };
        for tls in experiment.points.iter().filter_map(|point| point.setting.tls) {
            certificate::keep(&site.certificates, tls.key)?;
        }
        let workshop = Workshop { experiment, site, directory, progress };
        workshop.run(&mut journal)?;
        progress.end();
        drop(journal);
        hash(directory)
    }
}

/// Checks that the directory's file of that name, if it exists, has the same content.
fn is_its(directory: &Path, name: &str, text: &str) -> Result<()> {
    ensure!(directory.is_dir() || !directory.exists(), "{} is no directory", directory.display());
    let path = directory.join(name);
    if let Ok(there) = fs::read_to_string(&path) {
        ensure!(there == text, "{} is another experiment: name another directory", path.display());
    }
    ensure!(
        !is_search(directory),
        "{} has the results of `tune`: name another directory",
        directory.display()
    );
    Ok(())
}

/// Writes a file of the directory, which must not change later.
fn keep(directory: &Path, name: &str, text: &str) -> Result<()> {
    let path = directory.join(name);
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn environment(experiment: &Experiment, means: &Means, has_namespaces: bool) -> Result<(Testbed, Value)> {
    let mut programs = vec![means.sluicelab.clone()];
    let mut builds = BTreeMap::from([("sluicelab".to_owned(), build(&means.sluicelab)?)]);
    let mut versions = BTreeMap::new();
    let mut add = |name: &str, program: &Path, words: &[String], version: Value| {
        builds.insert(name.to_owned(), build(program)?);
        // If a command runs a script, the script has to be hashed, not only the interpreter; libraries too.
        for file in named(words) {
            builds.insert(format!("{name}: {}", file.display()), build(file)?);
        }
        versions.insert(name.to_owned(), version);
        programs.push(program.to_owned());
        Ok::<_, anyhow::Error>(())
    };
    // The program of a server that is already running is unknown.
    let started = experiment.servers().into_iter().filter(|spec| spec.running().is_none());
    for spec in started {
        for spec in [Some(spec.clone()), servers::behind(spec)?].into_iter().flatten() {
            let path =
                servers::executable(&spec, &means.sluice).with_context(|| servers::not_there(&spec))?;
            add(&spec.name, &path, &spec.settings, json!({ "typed": spec.typed(), "program": path }))?;
        }
    }
    for application in experiment.applications() {
        let (name, path) = (application.to_string(), application.executable()?);
        let words: Vec<String> = name.split_whitespace().map(str::to_owned).collect();
        add(&name, &path, &words, json!({ "program": path }))?;
    }
    if experiment.points.iter().any(|point| !point.setting.generator.is_sluicelab()) {
        add("generator wrk", &wrk::find()?, &[], Value::Null)?;
    }
    let machine = Testbed::describe(programs.iter().map(PathBuf::as_path));
    let environment = json!({
        "machine": machine,
        "servers": versions,
        "settings": {
            "experiment": experiment,
            // Figures of other builds don't belong in the same journal.
            "builds": builds,
            "cpus": { "server": means.server_cpus, "clients": means.client_cpus },
            "network": if has_namespaces { "namespaces" } else { "loopback" },
        },
    });
    Ok((machine, environment))
}

/// Files that words name, either as the whole word or after an equals sign.
fn named(words: &[String]) -> impl Iterator<Item = &Path> {
    words.iter().filter_map(|word| word.rsplit('=').next()).map(Path::new).filter(|path| path.is_file())
}

/// A hash of a program's bytes, which tells one build from another.
fn build(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hex(&Sha256::digest(bytes))[..16].to_owned())
}

/// Refuses an experiment that requires root, before anything is measured.
pub(crate) fn needs_no_namespaces(experiment: &Experiment) -> Result<()> {
    for point in &experiment.points {
        let Setting { memory, share, receive, .. } = &point.setting;
        let what = [
            (memory.is_some(), "memory and disk"),
            (share.is_some(), "share"),
            (receive.is_chosen(), "receive"),
            (experiment.asks_for_sysctls(), "sysctls"),
        ];
        if let Some((_, what)) = what.iter().find(|(is_set, _)| *is_set) {
            anyhow::bail!(
                "{:?} has {what}, which needs control groups and network namespaces: run it as root, without \
                 --loopback",
                point.name
            );
        }
    }
    Ok(())
}

/// Writes hashes of all files, in the format of sha256sum(1).
fn hash(directory: &Path) -> Result<()> {
    let mut files = files_below(directory)?;
    files.sort();
    let mut lines = String::new();
    for path in files {
        let name = path.strip_prefix(directory)?.display().to_string();
        if name != HASHES && !report::FILES.contains(&name.as_str()) {
            writeln!(lines, "{}  {name}", hex(&Sha256::digest(fs::read(&path)?)))?;
        }
    }
    Ok(fs::write(directory.join(HASHES), lines)?)
}

/// Everything that trials need.
struct Workshop<'a> {
    experiment: &'a Experiment,
    site: Site,
    directory: &'a Path,
    progress: &'a Progress,
}

/// One server at one point.
#[derive(Clone, Copy)]
struct Case<'a> {
    /// The point's number, from 1.
    number: usize,
    point: &'a PointSpec,
    spec: &'a Spec,
    files: &'a Prepared,
}

impl Case<'_> {
    /// Whether the journal has a result under `key`, or the server was left out here.
    fn is_settled(&self, journal: &Journal, key: &str) -> Result<bool> {
        Ok(journal.has(key) || Stages::left_out(journal, self.spec, &self.point.setting)?.is_some())
    }
}

/// The load and duration of the run that compares replies with their files.
const VERIFYING: (Load, Lengths) = (
    Load::Sessions(8),
    Lengths {
        // Clients that think for seconds ask at the very beginning, and perhaps not again after that.
        warm_up: Duration::ZERO,
        measured: Duration::from_millis(1_600),
        timeout: Duration::from_secs(3),
        slices: 1,
    },
);

impl Workshop<'_> {
    fn run(&self, journal: &mut Journal) -> Result<()> {
        let stages = Stages(self.experiment);
        self.ask(journal)?;
        let files = self.prepare()?;
        self.verify(&files, journal)?;
        self.settle(&files, journal)?;
        let (calibration, measuring) = (stages.calibration(journal)?, stages.measuring(journal)?);
        self.progress.expect(calibration.trials() + measuring.trials());
        self.measure(&calibration, &files, journal)?;
        self.measure(&measuring, &files, journal)?;
        let confirmation = stages.confirmation(&measuring.found(journal)?, journal)?;
        self.progress.expect(confirmation.trials());
        self.measure(&confirmation, &files, journal)?;
        let Experiment { profile, system_calls, .. } = self.experiment;
        self.diagnose(&files, journal, *profile, Purpose::Profiling)?;
        self.diagnose(&files, journal, *system_calls, Purpose::Counting)
    }

    /// Asks whether servers run with these settings.
    fn ask(&self, journal: &mut Journal) -> Result<()> {
        for point in &self.experiment.points {
            for spec in &point.servers {
                let (addresses, tls) = (self.site.links(&point.setting).len(), point.setting.tls);
                let refusal: Option<String> = journal.get_or(&Stages::refusal_key(spec), || {
                    subject::refusal(spec, tls, &self.site.means.sluice, addresses, &self.site.scratch)
                })?;
                if let Some(why) = refusal {
                    self.progress.remark(&format!("left out: {}: {why}", spec.typed()));
                }
            }
        }
        Ok(())
    }

    /// Compiles applications that need it, and makes files and sessions of all points, in their order.
    fn prepare(&self) -> Result<Vec<Prepared>> {
        for application in self.experiment.applications() {
            application.prepare(&self.site.scratch)?;
        }
        let each = |point: &PointSpec| {
            interrupt::check()?;
            self.progress.begin(&format!("files and sessions for {}", point.setting.workload));
            let Means { sluicelab, data, .. } = &self.site.means;
            point.setting.workload.prepare(sluicelab, data)
        };
        self.experiment.points.iter().map(each).collect()
    }

    /// All combinations of server and point.
    fn cases<'a>(&'a self, files: &'a [Prepared]) -> impl Iterator<Item = Case<'a>> {
        let points = (1..).zip(&self.experiment.points).zip(files);
        points.flat_map(|((number, point), files)| {
            point.servers.iter().map(move |spec| Case { number, point, spec, files })
        })
    }

    /// Checks in a separate run whether each server's replies are the same as their files, and whether it
    /// serves all sizes equally.
    fn verify(&self, files: &[Prepared], journal: &mut Journal) -> Result<()> {
        let (load, lengths) = VERIFYING;
        for case in self.cases(files) {
            let Case { number, point, spec, .. } = case;
            if case.is_settled(journal, &Stages::verification_key(spec, &point.setting))? {
                continue;
            }
            self.progress.begin(&format!("comparing {}'s replies with their files", spec.name));
            // Files come from memory and the server has a whole CPU, because this run is not measured.
            let (memory, disk, cold, share, slow_cpu) = (None, None, false, None, None);
            // Wrong bytes are never right, whichever paper's rules apply.
            let (generator, rules) = (Tool::Sluicelab, Rules::H12);
            let usual = point.setting.clone();
            let setting =
                Setting { load, generator, memory, disk, cold, share, slow_cpu, rules, lengths, ..usual };
            // No file has the replies of an application.
            let Setting { workload, application, .. } = &setting;
            let is_computed = application.is_some() || workload.asks_for_no_file() || workload.has_no_root();
            let purpose = if is_computed { Purpose::Measuring } else { Purpose::Verifying };
            let failures = match self.alone(&format!("verifying-{number}"), case, &setting, purpose) {
                Ok(outcome) => {
                    let percent = outcome.replies_4xx_5xx_part * 100.0;
                    let refused = format!("{percent:.2}% of its replies were 4xx or 5xx");
                    outcome.failed.into_iter().chain((percent > 0.0).then_some(refused)).collect()
                }
                Err(error) if error.downcast_ref::<NotStarted>().is_some() => {
                    interrupt::check()?;
                    vec![format!("{error:#}")]
                }
                Err(error) => return Err(error),
            };
            self.leave_out(journal, case, &failures)?;
        }
        Ok(())
    }

    /// Leaves a server out of the points where it has failures.
    fn leave_out(&self, journal: &mut Journal, case: Case<'_>, failures: &[String]) -> Result<()> {
        let Case { spec, point, .. } = case;
        if !failures.is_empty() {
            self.progress.remark(&format!("failed: {}: {}", spec.name, failures.join("; ")));
        }
        journal.put(&Stages::verification_key(spec, &point.setting), &failures)
    }

    /// Runs each server for a long time, to see whether it is stationary.
    fn settle(&self, files: &[Prepared], journal: &mut Journal) -> Result<()> {
        if self.experiment.settling.is_zero() {
            return Ok(());
        }
        for case in self.cases(files) {
            let key = Stages::settling_key(case.spec);
            if !case.is_settled(journal, &key)?
                && let Some(settling) = self.watch(journal, case)?
            {
                journal.put(&key, &settling)?;
            }
        }
        Ok(())
    }

    /// Runs a server in long runs until it is clear whether it is stationary. `None` if one of them fails.
    fn watch(&self, journal: &mut Journal, case: Case<'_>) -> Result<Option<Settling>> {
        let (of_trials, measured) = (case.point.setting.lengths, self.experiment.settling);
        let lengths = Lengths { warm_up: Duration::ZERO, measured, slices: 1, ..of_trials };
        let setting = Setting { lengths, load: self.experiment.saturating, ..case.point.setting.clone() };
        let mut settling = Settling::default();
        while settling.is_open(of_trials) {
            let again = if settling.runs.is_empty() { "" } else { " again, as its rate changed" };
            self.progress.begin(&format!("watching {} for {measured:?}{again}", case.spec.name));
            let outcome = self.alone("settling", case, &setting, Purpose::Measuring)?;
            if !outcome.is_good() {
                self.leave_out(journal, case, &outcome.failed)?;
                return Ok(None);
            }
            settling.runs.push(outcome.replies_each_second);
        }
        Ok(Some(settling))
    }

    /// Samples where each server's CPU time goes at each point, or counts its system calls. This is a
    /// separate run after all measurements.
    fn diagnose(
        &self,
        files: &[Prepared],
        journal: &mut Journal,
        measured: Option<Duration>,
        purpose: Purpose,
    ) -> Result<()> {
        let Some(measured) = measured else { return Ok(()) };
        let is_count = purpose == Purpose::Counting;
        let name = if is_count { "counting" } else { "profiling" };
        for case in self.cases(files) {
            let Case { number, point, spec, .. } = case;
            let load = match Stages(self.experiment).load(point, journal)? {
                None => continue,
                // The searched rate differs between trials.
                Some(Load::Most(_)) => self.experiment.saturating,
                Some(load) => load,
            };
            let key_of = if is_count { Stages::counting_key } else { Stages::profile_key };
            let key = key_of(spec, point);
            if case.is_settled(journal, &key)? {
                continue;
            }
            let lengths = Lengths { measured, slices: 1, ..point.setting.lengths };
            let setting = Setting { load, lengths, ..point.setting.clone() };
            self.progress.begin(&format!("{name} {} at {}", spec.name, point.name));
            let clients = Stages(self.experiment).clients(point, spec, journal)?;
            let clients = clients.with_context(|| unknown_rates(point, spec))?;
            let outcome = self.alone_with(clients, &format!("{name}-{number}"), case, &setting, purpose)?;
            match (outcome.is_good(), is_count) {
                (true, false) => journal.put(&key, &outcome.profile)?,
                (true, true) => journal.put(&key, &outcome.system_calls_per_reply)?,
                (false, _) => {
                    let why = outcome.failed.join("; ");
                    self.progress.remark(&format!("no {name} of {} at {}: {why}", spec.name, point.name));
                }
            }
        }
        Ok(())
    }

    /// Runs one server alone.
    fn alone(&self, name: &str, case: Case<'_>, setting: &Setting, purpose: Purpose) -> Result<Outcome> {
        self.alone_with(setting.clients.clone(), name, case, setting, purpose)
    }

    /// Runs one server alone, with these options of the generator.
    fn alone_with(
        &self,
        clients: Vec<String>,
        name: &str,
        case: Case<'_>,
        setting: &Setting,
        purpose: Purpose,
    ) -> Result<Outcome> {
        let Case { spec, files, .. } = case;
        let directory = self.directory.join(TRIALS).join(format!("{name}-{}", spec.plain_name()));
        let setting = &Setting { order: Order::Sequential, ..setting.clone() };
        let (load, seed) = (setting.load, u64::from(self.experiment.seed));
        let (servers, clients, directory) = (&[spec], &[clients], &directory);
        let block = Block { setting, load, files, servers, clients, seed, directory, purpose };
        self.site.run(block, self.progress)?.pop().context("a run without an outcome")
    }

    fn measure(&self, plan: &Plan, files: &[Prepared], journal: &mut Journal) -> Result<()> {
        let stages = Stages(self.experiment);
        // Multiples need a meaning before the points that use them are measured.
        let mut loads = BTreeMap::new();
        let mut clients = BTreeMap::new();
        for point in &plan.points {
            loads.insert(point.name.clone(), stages.load(point, journal)?);
            for spec in &point.servers {
                let key = (point.name.clone(), spec.name.clone());
                clients.insert(key, stages.clients(point, spec, journal)?);
            }
        }
        plan.measure(journal, self.progress, |point, servers, seed, name| {
            let load = loads.get(&point.name).copied().flatten();
            let load =
                load.with_context(|| format!("nobody knows what saturates {}", point.servers[0].name))?;
            let clients_of = |spec: &&Spec| {
                let key = (point.name.clone(), spec.name.clone());
                clients.get(&key).cloned().flatten().with_context(|| unknown_rates(point, spec))
            };
            let clients = &*servers.iter().map(clients_of).collect::<Result<Vec<_>>>()?;
            let is_its = |other: &PointSpec| other.setting.workload == point.setting.workload;
            let at = self.experiment.points.iter().position(is_its).context("a point without a workload")?;
            let directory = self.directory.join(TRIALS).join(name);
            let (files, setting) = (&files[at], &point.setting);
            let purpose = Purpose::Measuring;
            let directory = &directory;
            let block = Block { setting, load, files, servers, clients, seed, directory, purpose };
            self.site.run(block, self.progress)
        })
    }
}

/// The reason why a server cannot be loaded with multiples of what it can do.
fn unknown_rates(point: &PointSpec, spec: &Spec) -> String {
    format!("nobody knows what saturates {} with each class of clients at {}", spec.name, point.name)
}
