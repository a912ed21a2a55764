//! Shows a row's shape in a few minutes, without root. It runs the row's servers over the loopback
//! interface. It leaves out settings that need root, and the rounds that a verdict needs, and lists what it
//! leaves out.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use toml::{Table, Value};

use super::picture;
use crate::analysis::holding;
use crate::description::expected::expected;
use crate::description::experiment::{Experiment, PointSpec};
use crate::description::finding::Finding;
use crate::description::load::Load;
use crate::description::setting::{Rules, Setting};
use crate::measuring::means::Means;
use crate::progress::Progress;
use crate::report::results::Results;
use crate::run;
use crate::servers::spec::Spec;
use crate::unique::unique;

/// The longest expected time. It does not include steps of unknown length: making files and sessions, and
/// repeating trials.
const MOST: Duration = Duration::from_secs(140);

/// The highest load, as a multiple of what a server can do.
const MOST_TIMES: f64 = 1.5;

/// A reduced experiment, run instead of the original.
#[derive(Debug)]
pub struct Quick {
    /// The text of the reduced experiment.
    pub text: String,
    /// What it leaves out, one line each.
    pub left_out: Vec<String>,
    /// The findings that it checks.
    pub(super) findings: Vec<Finding>,
    /// The points of the findings, in the order of the experiment's.
    points: Vec<String>,
}

impl Quick {
    /// Reduces an experiment to one row.
    ///
    /// # Errors
    /// The experiment has no finding of that row, or none that can be checked here.
    pub fn of(experiment: &Experiment, id: &str) -> Result<Self, String> {
        let its = |finding: &&Finding| finding.id.as_deref() == Some(id);
        let all: Vec<Finding> = experiment.findings.iter().filter(its).cloned().collect();
        if all.is_empty() {
            return Err(format!("no finding of the experiment {:?} has the id {id}", experiment.title));
        }
        let (same, mut findings): (Vec<Finding>, Vec<Finding>) =
            all.iter().cloned().partition(|finding| is_same_here(experiment, finding));
        if findings.is_empty() {
            return Err(format!("{id}: without root, nothing differs between what it compares"));
        }
        let mut rounds = 3;
        loop {
            let this = Self::with(experiment, &findings, rounds);
            let time = Experiment::parse(&this.text).map(|quick| expected(&quick))?;
            if time <= MOST || (rounds == 1 && findings.len() == 1) {
                let left = all.len() - findings.len();
                let why = if same.is_empty() { "" } else { ", some as they compare what is the same here" };
                let note = (left > 0).then(|| format!("{left} of {} findings of the row{why}", all.len()));
                let left_out = note.into_iter().chain(this.left_out).collect();
                return Ok(Self { left_out, ..this });
            }
            if rounds > 1 {
                rounds -= 1;
            } else {
                findings.pop();
            }
        }
    }

    fn with(experiment: &Experiment, findings: &[Finding], rounds: u32) -> Self {
        let names =
            unique(findings.iter().flat_map(|finding| finding.expect.terms()).flat_map(|term| &term.points));
        let names: Vec<String> = names.into_iter().cloned().collect();
        let at = |name: &String| experiment.points.iter().find(|point| point.name == *name);
        let points: Vec<&PointSpec> = names.iter().filter_map(at).collect();
        let mut table = Table::new();
        let mut put = |key: &str, value: Value| table.insert(key.to_owned(), value);
        put("title", format!("{} (quick)", experiment.title).into());
        put("rounds", i64::from(rounds).into());
        put("again", false.into());
        put("slices", 1.into());
        let written = |point: &&PointSpec| Value::Table(written(point, findings));
        put("points", points.iter().map(written).collect::<Vec<_>>().into());
        let left_out = left_out(experiment, &points, rounds);
        Self { text: table.to_string(), left_out, findings: findings.to_vec(), points: names }
    }

    /// Runs it in a temporary directory. Returns the ratio for each finding.
    ///
    /// # Errors
    /// It cannot run here, or it fails.
    pub fn run(&self, means: &Means, progress: &Progress) -> Result<String> {
        let directory = tempfile::tempdir()?;
        let means = Means { loopback: true, ..means.clone() };
        run::check(&self.text, directory.path(), &means)?.run(progress)?;
        Ok(self.told(Results::of(directory.path())?))
    }

    fn told(&self, mut results: Results) -> String {
        // In the reduced file, the name of each point ends with its original name.
        for found in &mut results.found {
            let is_its = |name: &&String| found.point.name.ends_with(&format!(", {name}"));
            if let Some(name) = self.points.iter().find(is_its) {
                found.point.name.clone_from(name);
            }
        }
        let mut text = String::new();
        for finding in &self.findings {
            let relation = &finding.expect;
            let ratio = holding::ratio(relation, &results.found);
            let ours = match ratio {
                Some(ratio) => format!("about {} times", picture::number(ratio.median)),
                None => "not measured, as a server failed".to_owned(),
            };
            let _ = writeln!(text, "{relation}\n  \"{}\"; here {ours}", finding.says);
        }
        text
    }
}

/// A point with the servers of the findings.
fn written(point: &PointSpec, findings: &[Finding]) -> Table {
    let is_asked = |name: &str| {
        let terms = findings.iter().flat_map(|finding| finding.expect.terms());
        let at = terms.filter(|term| term.points.contains(&point.name));
        at.flat_map(|term| &term.servers).any(|asked| asked == name)
    };
    let servers = point.servers.iter().filter(|server| is_asked(&server.name));
    let mut table = asked(&point.setting);
    let mut put = |key: &str, value: Value| table.insert(key.to_owned(), value);
    put("name", point.name.clone().into());
    put("servers", servers.map(Spec::typed).collect::<Vec<_>>().into());
    table
}

/// The reduced setting.
fn asked(setting: &Setting) -> Table {
    let Setting { workload, load, application, both_cpus, cpus, rules, clients, lengths, .. } = setting;
    let mut table = Table::new();
    let mut put = |key: &str, value: Value| table.insert(key.to_owned(), value);
    put("workload", workload.typed().into());
    put("load", here(*load).to_string().into());
    put("may_wait", 100.into());
    put("timeout", format!("{} ms", lengths.timeout.as_millis()).into());
    // A search tries a dozen rates.
    let (warm_up, measured) =
        if matches!(load, Load::Most(_)) { ("100 ms", "300 ms") } else { ("300 ms", "1 s") };
    put("warm_up", warm_up.into());
    put("measured", measured.into());
    if let Some(application) = application {
        put("application", application.to_string().into());
    }
    if *both_cpus {
        put("both_cpus", true.into());
    }
    if let Some(cpus) = cpus {
        put("cpus", i64::from(*cpus).into());
    }
    if *rules != Rules::default()
        && let Ok(rules) = Value::try_from(rules)
    {
        put("rules", rules);
    }
    if !clients.is_empty() && here(*load).is_open() {
        put("clients", clients.clone().into());
    }
    table
}

/// A load that one CPU of clients can make while the server has a whole one.
fn here(load: Load) -> Load {
    match load {
        Load::Times(times) => Load::Times(times.min(MOST_TIMES)),
        other => other,
    }
}

/// Whether the two sides of a finding are the same here, because they differ only in settings that the
/// quick run leaves out.
fn is_same_here(experiment: &Experiment, finding: &Finding) -> bool {
    let [left, right] = finding.expect.terms().map(|term| {
        let settings = term.points.iter().filter_map(|name| {
            experiment.points.iter().find(|point| point.name == *name).map(|point| asked(&point.setting))
        });
        (&term.servers, settings.collect::<Vec<_>>())
    });
    left == right
}

fn left_out(experiment: &Experiment, points: &[&PointSpec], rounds: u32) -> Vec<String> {
    let any = |is: &dyn Fn(&Setting) -> bool| points.iter().any(|point| is(&point.setting));
    let loads = unique(points.iter().map(|point| point.setting.load).filter(|of| here(*of) != *of));
    let loads: Vec<String> = loads.iter().map(ToString::to_string).collect();
    let sysctls = experiment.sysctls.join(", ");
    let all = [
        Some("network namespaces: servers and clients are on the loopback interface".to_owned()),
        (!sysctls.is_empty()).then(|| format!("settings of the network: {sysctls}")),
        any(&|of| of.receive.is_chosen() || of.both_cpus)
            .then(|| "which CPU receives: it is the sender's".to_owned()),
        any(&|of| of.memory.is_some() || of.disk.is_some())
            .then(|| "bounds of the page cache and the disk: files come from memory".to_owned()),
        any(&|of| of.share.is_some()).then(|| "shares of a CPU: servers have a whole one".to_owned()),
        (!loads.is_empty()).then(|| format!("loads: {MOST_TIMES}x instead of {}", loads.join(", "))),
        Some(format!("rounds: {rounds} instead of {}, so nothing is certain", experiment.rounds)),
    ];
    all.into_iter().flatten().collect()
}
