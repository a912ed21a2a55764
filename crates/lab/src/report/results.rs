//! What a directory of results says, whether all of it has been measured or not: tables, plots and pages are
//! made from this.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use crate::description::experiment::Experiment;
use crate::description::finding::Finding;
use crate::judging::holding::Holding;
use crate::judging::series::Found;
use crate::judging::series::{Series, Taken};
use crate::judging::steady;
use crate::judging::verdict::{self, Doubts, Verdict};
use crate::measuring::stages::Stages;
use crate::record::journal::{Journal, Session};
use crate::record::outcome::Outcome;
use crate::record::profile::Profile;
use crate::statistics::{Ratio, chance};

/// The experiment, in a directory of results.
pub const EXPERIMENT: &str = "experiment.toml";
/// What was measured so far.
pub const JOURNAL: &str = "journal.jsonl";

/// The version of `results.json`, which it has as `schema`: changes when something is removed, renamed or
/// comes to mean something else. Journals have a version of their own.
pub const SCHEMA: u64 = 3;

/// Everything. What it looks like as `results.json` is in `docs/schemas/results.schema.json`.
#[derive(Debug, Serialize)]
pub struct Results {
    /// The version of this.
    pub schema: u64,
    /// What was asked for.
    pub experiment: Experiment,
    /// CPUs, network, builds.
    pub settings: Value,
    /// Who measured, and on which machine.
    pub sessions: Vec<Session>,
    /// Servers that take no part somewhere: name, point, and why.
    pub left_out: Vec<LeftOut>,
    /// What came of each point, those that calibrate first, those that judge last.
    pub calibrating: Vec<Found>,
    /// The points of the experiment.
    pub found: Vec<Found>,
    /// Who was judged.
    pub judged: Vec<Found>,
    /// What follows.
    pub verdicts: Vec<Verdict>,
    /// Why servers were not in a steady state.
    pub unsteady: Vec<String>,
    /// What others have found, and whether it holds.
    pub findings: Vec<Held>,
    /// Where CPU time went, of those that were sampled.
    pub profiles: Vec<Profile>,
    /// How many system calls replies took, of those whose calls were counted.
    pub system_calls: Vec<SystemCalls>,
    /// How many trials there are, as far as is known.
    pub trials: usize,
    /// How many of them are not measured yet.
    pub missing: usize,
}

/// A server that takes no part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct LeftOut {
    pub server: String,
    pub point: String,
    pub why: String,
}

/// System calls of a server at a point.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct SystemCalls {
    pub point: String,
    pub server: String,
    pub per_reply: f64,
}

/// One try of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// What it was for: `calibrating`, `measuring` or `judging`.
    pub stage: &'static str,
    /// Where.
    pub found: &'a Found,
    /// Whose name.
    pub server: &'a str,
    /// From 1.
    pub round: usize,
    /// From 1: which of the round's tries.
    pub number: usize,
    /// What came of it.
    pub outcome: &'a Outcome,
}

/// What is to be said of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The same as [`Verdict::word`].
    pub word: &'static str,
    /// Where it is so.
    pub point: String,
    /// All of it.
    pub says: String,
}

/// A relation that somebody has found, beside what is found here.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// Theirs.
    pub finding: Finding,
    /// Ours: what has more over what has less.
    pub ratio: Option<Ratio>,
    /// Whether it is so here.
    pub says: Holding,
}

impl Results {
    /// Of a run's directory.
    pub fn of(directory: &Path) -> Result<Self> {
        let experiment = Experiment::read(&directory.join(EXPERIMENT)).map_err(anyhow::Error::msg)?;
        let journal = Journal::read(&directory.join(JOURNAL))
            .with_context(|| format!("{} has no results", directory.display()))?;
        Self::from(experiment, &journal)
    }

    /// Of a journal, for this experiment.
    pub(crate) fn from(experiment: Experiment, journal: &Journal) -> Result<Self> {
        let stages = Stages(&experiment);
        let calibration = stages.calibration(journal)?;
        let measuring = stages.measuring(journal)?;
        let (calibrating, found) = (calibration.found(journal)?, measuring.found(journal)?);
        let judging = stages.judging(&found, journal)?;
        let judged = judging.found(journal)?;
        let trials = calibration.trials() + measuring.trials() + judging.trials();
        let mut left_out = Vec::new();
        let (mut unsettled, mut profiles, mut system_calls) = (Vec::new(), Vec::new(), Vec::new());
        for point in &experiment.points {
            for server in &point.servers {
                if let Some(why) = Stages::left_out(journal, server, &point.setting)? {
                    let (server, point) = (server.name.clone(), point.name.clone());
                    left_out.push(LeftOut { server, point, why });
                }
                if let Some(per_reply) = journal.get(&Stages::counting_key(server, point))? {
                    let (point, server) = (point.name.clone(), server.name.clone());
                    system_calls.push(SystemCalls { point, server, per_reply });
                }
                if let Some(groups) = journal.get(&Stages::profile_key(server, point))? {
                    profiles.push(Profile { point: point.name.clone(), server: server.name.clone(), groups });
                }
                if let Some(why) = Stages::unsettled(journal, server, point)? {
                    unsettled.push((server.name.clone(), point.name.clone(), why));
                }
            }
        }
        for found in found.iter().chain(&judged) {
            for series in &found.series {
                if let Some(why) = steady::drift(series) {
                    unsettled.push((series.server.name.clone(), found.point.name.clone(), why));
                }
            }
        }
        let doubts = |server: &str, point: &str| {
            // Points of judges are called after those that they judge.
            let is_at = |at: &String| point == at || point.starts_with(&format!("{at}, judging against "));
            let of = unsettled.iter().find(|(name, at, _)| name == server && is_at(at));
            of.map(|(_, _, why)| why.clone())
        };
        let verdicts = verdict::verdicts(found.iter().chain(&judged), experiment.margin, &doubts);
        let held = |finding| Held::of(finding, &found, experiment.margin, &doubts);
        let findings = beyond_chance(experiment.findings.iter().map(held).collect());
        let jumps = found.iter().flat_map(|found| {
            let of = move |series| found.point.compare.iter().map(move |of| steady::jump(series, found, *of));
            found.series.iter().flat_map(of).flatten()
        });
        let unsteady = unsettled.into_iter().map(|(_, _, why)| why).chain(jumps);
        let mut unsteady: Vec<String> = unsteady.collect();
        unsteady.sort();
        unsteady.dedup();
        let missing = [&calibrating, &found, &judged].into_iter().flatten().map(|found| found.missing).sum();
        Ok(Self {
            schema: SCHEMA,
            settings: journal.settings().clone(),
            sessions: journal.sessions()?,
            experiment,
            left_out,
            calibrating,
            found,
            judged,
            verdicts,
            unsteady,
            findings,
            profiles,
            system_calls,
            trials,
            missing,
        })
    }

    /// All tries of all trials.
    pub fn trials(&self) -> Vec<Trial<'_>> {
        let stages =
            [("calibrating", &self.calibrating), ("measuring", &self.found), ("judging", &self.judged)];
        let mut all = Vec::new();
        for (stage, found) in
            stages.into_iter().flat_map(|(stage, all)| all.iter().map(move |one| (stage, one)))
        {
            for Series { server, rounds, .. } in &found.series {
                for (round, taken) in (1..).zip(rounds) {
                    let tries = (1..).zip(taken.iter().flat_map(Taken::tries));
                    let trial = |(number, outcome)| Trial {
                        stage,
                        found,
                        server: &server.name,
                        round,
                        number,
                        outcome,
                    };
                    all.extend(tries.map(trial));
                }
            }
        }
        all
    }

    /// How far it is: the same numbers as the progress of a run; `None` where all is measured.
    pub fn so_far(&self) -> Option<String> {
        let measured = self.trials.saturating_sub(self.missing);
        (self.missing > 0).then(|| format!("{measured} of {} trials are measured.", self.trials))
    }

    /// What is to be said first, the most certain before the others.
    pub fn sentences(&self) -> Vec<Sentence> {
        let mut verdicts: Vec<&Verdict> = self.verdicts.iter().collect();
        verdicts.sort_by_key(|verdict| !verdict.is_a_difference());
        let of_verdict = |verdict: &Verdict| Sentence {
            word: verdict.word(),
            point: verdict.point.clone(),
            says: format!("{verdict}."),
        };
        let of_left_out = |out: &LeftOut| Sentence {
            word: "failed",
            point: out.point.clone(),
            says: format!("{} takes no part: {}.", out.server, out.why),
        };
        self.left_out.iter().map(of_left_out).chain(verdicts.into_iter().map(of_verdict)).collect()
    }
}

/// Those of which chance alone makes one like them too often, among so many, are nothing that can be told.
fn beyond_chance(all: Vec<(Held, f64)>) -> Vec<Held> {
    let is_told = |held: &Held| !matches!(held.says, Holding::CannotTell(_));
    let chances: Vec<f64> = all.iter().filter(|(held, _)| is_told(held)).map(|(_, chance)| *chance).collect();
    let mut are_beyond = verdict::beyond_chance(&chances).into_iter();
    let judge = |(held, chance): (Held, f64)| {
        if !is_told(&held) || are_beyond.next() == Some(true) {
            return held;
        }
        let count = chances.len();
        let why = format!("among {count} findings, chance alone makes one like it too often ({chance:.3})");
        Held { says: Holding::CannotTell(why), ..held }
    };
    all.into_iter().map(judge).collect()
}

impl Held {
    /// Ours in words.
    pub(crate) fn ours(&self) -> String {
        self.ratio.map_or_else(|| "not measured".to_owned(), |ratio| format!("{ratio:.3} times"))
    }

    /// And how likely ratios this far beyond the margin would be, if there were nothing to find.
    fn of(finding: &Finding, found: &[Found], margin: f64, doubts: Doubts<'_>) -> (Self, f64) {
        let relation = &finding.expect;
        let at = found.iter().find(|found| found.point.is_called(&relation.point));
        let series = |name: &str| at?.series.iter().find(|series| series.server.name == name);
        let quotients = series(&relation.more)
            .zip(series(&relation.less))
            .map_or(Vec::new(), |(more, less)| more.quotients(less, relation.quantity.of));
        let ratio = Ratio::of(quotients.iter().copied());
        let is_in_doubt = |name: &str| at.is_some_and(|at| doubts(name, &at.point.name).is_some());
        let counts = |name: &str| series(name).is_some_and(Series::counts) && !is_in_doubt(name);
        let first_is_off = at.is_some_and(|at| {
            let first = at.series.first();
            first.is_some_and(|first| verdict::against_first(at, first, relation.quantity, margin).is_some())
        });
        let cannot = |why: &str| Holding::CannotTell(why.to_owned());
        let says = match &ratio {
            None => cannot("not measured"),
            _ if first_is_off => cannot("the first server differs from itself"),
            _ if !(counts(&relation.more) && counts(&relation.less)) => cannot("not all trials count"),
            Some(ratio) if ratio.is_above_one(margin) => Holding::Holds,
            Some(ratio) if ratio.is_below_one(margin) => Holding::Contradicted,
            Some(_) => cannot("the interval is not beyond the margin"),
        };
        (Self { finding: finding.clone(), ratio, says }, chance(&quotients, margin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::series;

    fn told(count: usize) -> Vec<&'static str> {
        let finding =
            "[[findings]]\npaper = 'p'\nsays = 's'\nexpect = 'sped > nginx in replies/s at single, 2x'\n";
        let text = "title = 't'\nservers = ['sped = sluice', 'nginx']\n[[points]]\nworkload = 'single'\n\
                    load = '2x'\n";
        let mut experiment = Experiment::parse(&(text.to_owned() + &finding.repeat(count))).unwrap();
        let series =
            vec![series("sped", &[100.0; 6]), series("nginx", &[75.0, 93.0, 88.0, 80.0, 93.0, 85.0])];
        let found = [Found { point: experiment.points.remove(0), series, missing: 0 }];
        let all = experiment.findings.iter().map(|finding| Held::of(finding, &found, 0.02, &|_, _| None));
        beyond_chance(all.collect()).into_iter().map(|held| held.says.word()).collect()
    }

    #[test]
    fn the_more_findings_are_looked_at_the_less_is_told_of_each() {
        assert_eq!(told(1), ["holds"]);
        assert_eq!(told(20), ["cannot tell"; 20]);
    }
}
