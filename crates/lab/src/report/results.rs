//! The content of a directory of results, complete or not. Tables, plots and pages are made from this.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use crate::analysis::holding::{self, Holding};
use crate::analysis::series::Found;
use crate::analysis::series::{Series, Taken};
use crate::analysis::steady;
use crate::analysis::verdict::Verdict;
use crate::description::experiment::Experiment;
use crate::description::finding::Finding;
use crate::description::quantity::Quantity;
use crate::measuring::stages::Stages;
use crate::record::journal::{Journal, Session};
use crate::record::outcome::Outcome;
use crate::record::profile::Profile;
use crate::statistics::Ratio;

/// The experiment's file in a directory of results.
pub const EXPERIMENT: &str = "experiment.toml";
/// The journal's file in a directory of results.
pub const JOURNAL: &str = "journal.jsonl";

/// The version of `results.json`, in its member `schema`. It changes when something is removed, renamed or
/// gets another meaning. Journals have a separate version.
pub const SCHEMA: u64 = 3;

/// All results. `docs/schemas/results.schema.json` describes their form in `results.json`.
#[derive(Debug, Serialize)]
pub struct Results {
    /// The version of these results.
    pub schema: u64,
    /// The experiment.
    pub experiment: Experiment,
    /// CPUs, network, builds.
    pub settings: Value,
    /// The commands that measured, with their machines.
    pub sessions: Vec<Session>,
    /// The servers that were left out somewhere: name, point, and reason.
    pub left_out: Vec<LeftOut>,
    /// The results of calibration points.
    pub calibrating: Vec<Found>,
    /// The results of the experiment's points.
    pub found: Vec<Found>,
    /// The results of confirmatory rounds.
    #[serde(rename = "judged")]
    pub confirming: Vec<Found>,
    /// The verdicts.
    pub verdicts: Vec<Verdict>,
    /// The reasons why servers were not in a steady state.
    pub unsteady: Vec<String>,
    /// The findings of others, and whether they hold.
    pub findings: Vec<Held>,
    /// The profiles of servers that were sampled.
    pub profiles: Vec<Profile>,
    /// The system calls per reply of servers whose calls were counted.
    pub system_calls: Vec<SystemCalls>,
    /// The number of trials, as far as it is known.
    pub trials: usize,
    /// The number of trials that are not measured yet.
    pub missing: usize,
}

/// A server that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct LeftOut {
    pub server: String,
    pub point: String,
    pub why: String,
}

/// The system calls of a server at a point.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct SystemCalls {
    pub point: String,
    pub server: String,
    pub per_reply: f64,
}

/// A server's figure that jumps between two states at a point.
struct Jump<'a> {
    server: &'a str,
    point: &'a str,
    of: Quantity,
    /// The first server does not jump with it, so the two cannot be compared.
    is_alone: bool,
    why: String,
}

/// One try of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// Its stage: `calibrating`, `measuring` or `judging`.
    pub stage: &'static str,
    /// Its point.
    pub found: &'a Found,
    /// The server's name.
    pub server: &'a str,
    /// The round, from 1.
    pub round: usize,
    /// The number of the try within the round, from 1.
    pub number: usize,
    /// Its outcome.
    pub outcome: &'a Outcome,
}

/// A sentence about a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The verdict in a word, see [`Verdict::word`].
    pub word: &'static str,
    /// The better server in words; the verdict's word, if neither is better.
    pub badge: String,
    /// The point's name.
    pub point: String,
    /// The whole sentence.
    pub says: String,
}

/// A finding of others, and what was measured here.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// The finding.
    pub finding: Finding,
    /// The ratio here: the left term over the right one.
    pub ratio: Option<Ratio>,
    /// Whether the finding holds here.
    pub says: Holding,
}

impl Results {
    /// The results in a run's directory.
    pub fn of(directory: &Path) -> Result<Self> {
        let experiment = Experiment::read(&directory.join(EXPERIMENT)).map_err(anyhow::Error::msg)?;
        let journal = Journal::read(&directory.join(JOURNAL))
            .with_context(|| format!("{} has no results", directory.display()))?;
        Self::from(experiment, &journal)
    }

    /// The machines that measured, a line each.
    pub(crate) fn machines(&self) -> Vec<String> {
        let is_isolated = self.settings["network"] == "namespaces";
        let set = self.experiment.congestion_control().filter(|_| is_isolated);
        let line = |session: &Session| {
            let busy = session
                .busy_percent
                .map(|percent| format!("; busy with other work for {percent}% of its time"));
            session.machine.line(set) + &busy.unwrap_or_default()
        };
        let mut machines: Vec<String> = self.sessions.iter().map(line).collect();
        machines.dedup();
        machines
    }

    /// The results in a journal, for this experiment.
    pub(crate) fn from(experiment: Experiment, journal: &Journal) -> Result<Self> {
        let stages = Stages(&experiment);
        let calibration = stages.calibration(journal)?;
        let measuring = stages.measuring(journal)?;
        let (calibrating, found) = (calibration.found(journal)?, measuring.found(journal)?);
        let confirmation = stages.confirmation(&found, journal)?;
        let confirming = confirmation.found(journal)?;
        let trials = calibration.trials() + measuring.trials() + confirmation.trials();
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
        for found in found.iter().chain(&confirming) {
            for series in &found.series {
                if let Some(why) = steady::drift(series) {
                    unsettled.push((series.server.name.clone(), found.point.name.clone(), why));
                }
            }
        }
        let mut jumps = Vec::new();
        for found in found.iter().chain(&confirming) {
            for (series, of) in
                found.series.iter().flat_map(|series| found.point.compare.iter().map(move |of| (series, *of)))
            {
                if let Some(why) = steady::jump(series, found, of) {
                    let is_alone = steady::jumps_alone(series, found, of);
                    jumps.push(Jump {
                        server: &series.server.name,
                        point: &found.point.name,
                        of,
                        is_alone,
                        why,
                    });
                }
            }
        }
        let doubts = |server: &str, point: &str, quantity: Quantity| {
            // The name of a point for confirmatory rounds begins with that of the original point.
            let is_at = |at: &String| point == at || point.starts_with(&format!("{at}, judging against "));
            let of = unsettled.iter().find(|(name, at, _)| name == server && is_at(at));
            let two_states = || {
                let is_its = |jump: &&Jump<'_>| {
                    jump.is_alone && jump.server == server && jump.point == point && jump.of == quantity
                };
                jumps.iter().find(is_its).map(|jump| format!("two states: {}", jump.why))
            };
            of.map(|(_, _, why)| why.clone()).or_else(two_states)
        };
        let (verdicts, holdings) =
            holding::evaluate(&found, &confirming, &experiment.findings, experiment.margin, &doubts);
        let held = |(finding, (ratio, says)): (&Finding, _)| Held { finding: finding.clone(), ratio, says };
        let findings = experiment.findings.iter().zip(holdings).map(held).collect();
        let jumps = jumps.into_iter().map(|jump| jump.why);
        let unsteady = unsettled.into_iter().map(|(_, _, why)| why).chain(jumps);
        let mut unsteady: Vec<String> = unsteady.collect();
        unsteady.sort();
        unsteady.dedup();
        let all = [&calibrating, &found, &confirming];
        let missing = all.into_iter().flatten().map(|found| found.missing).sum();
        Ok(Self {
            schema: SCHEMA,
            settings: journal.settings().clone(),
            sessions: journal.sessions()?,
            experiment,
            left_out,
            calibrating,
            found,
            confirming,
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
            [("calibrating", &self.calibrating), ("measuring", &self.found), ("judging", &self.confirming)];
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

    /// How complete the results are, in the same numbers as the progress of a run. `None` if everything is
    /// measured.
    pub fn so_far(&self) -> Option<String> {
        let measured = self.trials.saturating_sub(self.missing);
        (self.missing > 0).then(|| format!("{measured} of {} trials are measured.", self.trials))
    }

    /// The most important sentences, the most certain first.
    pub fn sentences(&self) -> Vec<Sentence> {
        let mut verdicts: Vec<&Verdict> = self.verdicts.iter().collect();
        verdicts.sort_by_key(|verdict| !verdict.is_a_difference());
        let of_verdict = |verdict: &Verdict| Sentence {
            word: verdict.word(),
            badge: verdict.badge(),
            point: verdict.point.clone(),
            says: format!("{verdict}."),
        };
        let of_left_out = |out: &LeftOut| Sentence {
            word: "failed",
            badge: "failed".to_owned(),
            point: out.point.clone(),
            says: format!("{} is left out: {}.", out.server, out.why),
        };
        self.left_out.iter().map(of_left_out).chain(verdicts.into_iter().map(of_verdict)).collect()
    }
}

impl Held {
    /// Our result in words.
    pub(crate) fn ours(&self) -> String {
        self.ratio.map_or_else(|| "no ratio".to_owned(), |ratio| format!("{ratio:.3} times"))
    }

    /// The finding in numbers: the paper's and ours. If there is no conclusion, it includes the reason.
    pub(crate) fn told(&self) -> String {
        let theirs = self.finding.size.map(|size| format!("the paper has {size} times, "));
        let within = self.finding.within.map(|within| format!("within {}%, ", (within * 1e4).round() / 1e2));
        let why = if let Holding::CannotTell(why) = &self.says { format!("; {why}") } else { String::new() };
        format!("{}{}here {}{why}", theirs.unwrap_or_default(), within.unwrap_or_default(), self.ours())
    }
}
