//! The shape of a row in a few minutes, for anybody: its servers over the loopback interface, without what
//! takes root and without the rounds that a verdict takes. It says what it leaves out.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use toml::{Table, Value};

use super::picture;
use crate::description::expected::expected;
use crate::description::experiment::{Experiment, PointSpec};
use crate::description::finding::Finding;
use crate::description::load::Load;
use crate::judging::holding;
use crate::measuring::means::Means;
use crate::progress::Progress;
use crate::report::results::Results;
use crate::run;
use crate::servers::spec::Spec;
use crate::unique::unique;

/// How long it takes at most, without what takes no time that is known: files, sessions, trials that have to
/// be repeated.
const MOST: Duration = Duration::from_secs(140);

/// What is run in place of an experiment.
#[derive(Debug)]
pub struct Quick {
    /// The experiment.
    pub text: String,
    /// What it leaves out, a line each.
    pub left_out: Vec<String>,
    /// What is looked at.
    findings: Vec<Finding>,
    /// The points of the findings, in the order of the experiment's.
    points: Vec<String>,
}

impl Quick {
    /// Of a row of an experiment.
    ///
    /// # Errors
    /// The experiment has no finding of that row.
    pub fn of(experiment: &Experiment, id: &str) -> Result<Self, String> {
        let its = |finding: &&Finding| finding.id.as_deref() == Some(id);
        let mut findings: Vec<Finding> = experiment.findings.iter().filter(its).cloned().collect();
        if findings.is_empty() {
            return Err(format!("no finding of the experiment {:?} has the id {id}", experiment.title));
        }
        let all = findings.len();
        let mut rounds = 3;
        loop {
            let this = Self::with(experiment, &findings, rounds);
            let time = Experiment::parse(&this.text).map(|quick| expected(&quick))?;
            if time <= MOST || (rounds == 1 && findings.len() == 1) {
                let left = all - findings.len();
                let note = (left > 0).then(|| format!("{left} of {all} findings of the row"));
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
        put("warm_up", "300 ms".into());
        put("measured", "1 s".into());
        put("slices", 1.into());
        let written = |point: &&PointSpec| Value::Table(written(point, findings));
        put("points", points.iter().map(written).collect::<Vec<_>>().into());
        let left_out = left_out(experiment, &points, rounds);
        Self { text: table.to_string(), left_out, findings: findings.to_vec(), points: names }
    }

    /// Runs it where nothing is kept. Gives how many times as much one has as the other, finding by finding.
    ///
    /// # Errors
    /// It can't be run here, or fails.
    pub fn run(&self, means: &Means, progress: &Progress) -> Result<String> {
        let directory = tempfile::tempdir()?;
        let means = Means { loopback: true, ..means.clone() };
        run::check(&self.text, directory.path(), &means)?.run(progress)?;
        Ok(self.told(Results::of(directory.path())?))
    }

    fn told(&self, mut results: Results) -> String {
        // Points have other names in the file that was run.
        for (found, name) in results.found.iter_mut().zip(&self.points) {
            found.point.name.clone_from(name);
        }
        let mut text = String::new();
        for finding in &self.findings {
            let relation = &finding.expect;
            let ratio = holding::ratio(relation, &results.found);
            let ours = ratio.map_or("not measured".to_owned(), |ratio| picture::number(ratio.median));
            let _ = writeln!(text, "{relation}\n  \"{}\"; here about {ours} times", finding.says);
        }
        text
    }
}

/// A point with the servers that findings are about.
fn written(point: &PointSpec, findings: &[Finding]) -> Table {
    let is_asked = |name: &str| {
        let terms = findings.iter().flat_map(|finding| finding.expect.terms());
        let at = terms.filter(|term| term.points.contains(&point.name));
        at.flat_map(|term| &term.servers).any(|asked| asked == name)
    };
    let servers = point.servers.iter().filter(|server| is_asked(&server.name));
    let setting = &point.setting;
    let mut table = Table::new();
    let mut put = |key: &str, value: Value| table.insert(key.to_owned(), value);
    put("name", point.name.clone().into());
    put("workload", setting.workload.typed().into());
    put("load", load(setting.load).to_string().into());
    put("servers", servers.map(Spec::typed).collect::<Vec<_>>().into());
    put("may_wait", 100.into());
    if let Some(application) = &setting.application {
        put("application", application.to_string().into());
    }
    table
}

/// What more than a closed loop of clients takes is not for one CPU of clients.
fn load(load: Load) -> Load {
    if let Load::Sessions(_) | Load::Rate(_) = load { load } else { Load::Sessions(64) }
}

fn left_out(experiment: &Experiment, points: &[&PointSpec], rounds: u32) -> Vec<String> {
    let any = |is: &dyn Fn(&PointSpec) -> bool| points.iter().any(|point| is(point));
    let loads = unique(points.iter().map(|point| point.setting.load).filter(|of| load(*of) != *of));
    let loads: Vec<String> = loads.iter().map(ToString::to_string).collect();
    let all = [
        Some("network namespaces: servers and clients are on the loopback interface".to_owned()),
        any(&|point| point.setting.memory.is_some() || point.setting.disk.is_some())
            .then(|| "bounds of the page cache and the disk: files come from memory".to_owned()),
        any(&|point| point.setting.share.is_some())
            .then(|| "shares of a CPU: servers have a whole one".to_owned()),
        any(&|point| point.setting.both_cpus).then(|| "servers on the CPUs of the clients".to_owned()),
        (!loads.is_empty()).then(|| format!("loads: 64 sessions at a time instead of {}", loads.join(", "))),
        Some(format!("rounds: {rounds} instead of {}, so nothing is certain", experiment.rounds)),
    ];
    all.into_iter().flatten().collect()
}
