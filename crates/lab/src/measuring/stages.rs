//! The stages of an experiment: which plans follow from its file and from the results so far.
//!
//! First, each server is asked whether it accepts its settings, and its replies are compared with their
//! files. Servers that fail are left out. Then the calibration measures the rates for loads that are
//! multiples. Then the points are measured. Last come the confirmatory rounds of `[judge]`, beside the best
//! of the others. These rounds are fresh, because a server that was chosen as the best owes part of its
//! figure to chance.

use std::fmt::Write as _;

use anyhow::Result;

use crate::analysis::series::{Found, Series};
use crate::analysis::steady::Settling;
use crate::description::classes::{self, Multiple};
use crate::description::experiment::{Confirmation, Experiment, PointSpec};
use crate::description::load::Load;
use crate::description::quantity::REPLIES;
use crate::description::setting::{Order, Rules, Setting};
use crate::measuring::plan::{CALIBRATING_ROUNDS, Plan, Stage, number};
use crate::record::journal::Journal;
use crate::servers::spec::Spec;
use crate::unique::unique;

/// The plans of an experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stages<'a>(pub(crate) &'a Experiment);

impl Stages<'_> {
    /// The journal's key for the reason why a server refuses its settings.
    pub(crate) fn refusal_key(spec: &Spec) -> String {
        format!("refusal of {spec}")
    }

    /// The journal's key for a server's wrong replies.
    pub(crate) fn verification_key(spec: &Spec, setting: &Setting) -> String {
        let by = setting.application.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        let over = setting.tls.map_or_else(String::new, |tls| format!(" over {tls}"));
        let exactly = number(&serde_json::to_string(&setting.workload).unwrap_or_default());
        format!("verification of {spec} with {}{by}{over} ({exactly:x})", setting.workload)
    }

    /// The journal's key for the results of a server's long runs.
    pub(crate) fn settling_key(spec: &Spec) -> String {
        format!("settling of {spec}")
    }

    /// The journal's key for the profile of a server at a point.
    pub(crate) fn profile_key(spec: &Spec, point: &PointSpec) -> String {
        format!("profile of {spec} at {}", point.name)
    }

    /// The reason why a server is left out at a point, if so.
    pub(crate) fn left_out(journal: &Journal, spec: &Spec, setting: &Setting) -> Result<Option<String>> {
        if let Some(why) = journal.get::<Option<String>>(&Self::refusal_key(spec))?.flatten() {
            return Ok(Some(why));
        }
        let failures: Option<Vec<String>> = journal.get(&Self::verification_key(spec, setting))?;
        Ok(failures.filter(|failures| !failures.is_empty()).map(|failures| failures.join("; ")))
    }

    /// The points, with the servers that are not left out.
    fn points(self, journal: &Journal) -> Result<Vec<PointSpec>> {
        let mut points = Vec::new();
        for point in &self.0.points {
            let mut servers = Vec::new();
            for server in &point.servers {
                if Self::left_out(journal, server, &point.setting)?.is_none() {
                    servers.push(server.clone());
                }
            }
            if !servers.is_empty() {
                points.push(PointSpec { servers, ..point.clone() });
            }
        }
        Ok(points)
    }

    fn plan(self, stage: Stage, rounds: u32, points: Vec<PointSpec>) -> Plan {
        Plan { points, rounds, seed: self.0.seed, stage }
    }

    /// The plan that measures the meaning of `2x`, for each point with such a load, and for each server and
    /// class of clients with such a rate.
    pub(crate) fn calibration(self, journal: &Journal) -> Result<Plan> {
        let points = self.points(journal)?;
        let multiples = points.iter().filter(|point| matches!(point.setting.load, Load::Times(_)));
        let mut saturating: Vec<_> = multiples.map(|point| self.calibrating(point)).collect();
        for point in &points {
            for class in multiples_of(&point.setting) {
                saturating.extend(point.servers.iter().map(|spec| saturated_by(point, spec, &class)));
            }
        }
        let points = unique(saturating);
        Ok(self.plan(Stage::Calibrating, CALIBRATING_ROUNDS, points))
    }

    /// A point that saturates the first server. If servers are concurrent, others run beside it, as in the
    /// measurement, because they use the caches in between.
    fn calibrating(self, point: &PointSpec) -> PointSpec {
        let mut setting = point.setting.clone();
        setting.load = self.0.saturating;
        let Setting { workload, application, tls, memory, share, .. } = &setting;
        // The name has the interesting differences; the number separates settings that differ in anything.
        let exactly = serde_json::to_string(&(&setting, &point.servers[0])).unwrap_or_default();
        let exactly = number(&exactly);
        let mut name = format!("calibration, {workload}, {}", point.servers[0].name);
        if let Some(application) = application {
            let _ = write!(name, ", {application}");
        }
        if tls.is_some() {
            name += ", over TLS";
        }
        if memory.is_some() {
            name += ", from disk";
        }
        if let Some(share) = share {
            let _ = write!(name, ", {share}% of a CPU");
        }
        let _ = write!(name, " ({exactly:x})");
        let is_concurrent = point.setting.order == Order::Concurrent;
        let servers = if is_concurrent { 2 } else { 1 };
        let servers = point.servers.iter().take(servers).cloned().collect();
        let calibrating = PointSpec { name, id: None, servers, setting, compare: vec![REPLIES] };
        if is_concurrent { calibrating.with_control() } else { calibrating }
    }

    /// A point's load, with multiples as rates. `None` if the calibration is not complete.
    pub(crate) fn load(self, point: &PointSpec, journal: &Journal) -> Result<Option<Load>> {
        let Load::Times(times) = point.setting.load else { return Ok(Some(point.setting.load)) };
        let calibration = self.calibration(journal)?;
        let name = self.calibrating(point).name;
        let at = calibration.points.iter().position(|point| point.name == name);
        let rates = calibration.rates(journal)?;
        Ok(at.and_then(|at| rates[at]).map(|rate| Load::Rate(rate * times)))
    }

    /// The options for a point's clients of one server, with multiples as rates. `None` if the calibration is
    /// not complete.
    pub(crate) fn clients(
        self,
        point: &PointSpec,
        spec: &Spec,
        journal: &Journal,
    ) -> Result<Option<Vec<String>>> {
        let mut clients = point.setting.clients.clone();
        let multiples = multiples_of(&point.setting);
        if multiples.is_empty() {
            return Ok(Some(clients));
        }
        // A server beside itself gets the same load.
        let original = point.servers.iter().find(|other| spec.is_control_of(other)).unwrap_or(spec);
        let calibration = self.calibration(journal)?;
        let rates = calibration.rates(journal)?;
        for multiple in multiples {
            let name = saturated_by(point, original, &multiple).name;
            let at = calibration.points.iter().position(|point| point.name == name);
            let Some(per_s) = at.and_then(|at| rates[at]) else { return Ok(None) };
            multiple.put(&mut clients, per_s);
        }
        Ok(Some(clients))
    }

    /// The plan of the comparisons.
    pub(crate) fn measuring(self, journal: &Journal) -> Result<Plan> {
        let points = self.points(journal)?.into_iter();
        let points = points.map(|point| if self.0.control { point.with_control() } else { point }).collect();
        Ok(self.plan(Stage::Measuring, self.0.rounds, points))
    }

    /// The plan of the confirmatory rounds: the chosen server beside the best of the others, at each point
    /// that is completely measured.
    pub(crate) fn confirmation(self, found: &[Found], journal: &Journal) -> Result<Plan> {
        let Some(confirmation) = &self.0.confirmation else {
            return Ok(self.plan(Stage::Confirming, 0, Vec::new()));
        };
        let mut points = Vec::new();
        for found in found {
            let Some(mut point) = confirming(confirmation, found) else { continue };
            // A multiple refers to the first server of the original point, which may not be the first here.
            let Some(load) = self.load(&found.point, journal)? else { continue };
            point.setting.load = load;
            points.push(point);
        }
        Ok(self.plan(Stage::Confirming, confirmation.rounds, points))
    }

    /// The journal's key for the number of system calls per reply of a server at a point.
    pub(crate) fn counting_key(spec: &Spec, point: &PointSpec) -> String {
        format!("system calls of {spec} at {}", point.name)
    }

    /// The reason against a server's trials, if it changed in its long runs.
    pub(crate) fn unsettled(journal: &Journal, spec: &Spec, point: &PointSpec) -> Result<Option<String>> {
        let settling: Option<Settling> = journal.get(&Self::settling_key(spec))?;
        Ok(settling.and_then(|settling| settling.against(&spec.name, point.setting.lengths)))
    }
}

/// The classes of clients whose rates are multiples.
fn multiples_of(setting: &Setting) -> Vec<Multiple> {
    // An experiment with a wrong one is refused.
    classes::multiples(&setting.clients).unwrap_or_default()
}

/// A point that saturates one server with one class of clients alone.
fn saturated_by(point: &PointSpec, spec: &Spec, class: &Multiple) -> PointSpec {
    let clients = class.saturating(&point.setting.clients);
    // Only what the server does counts, by no paper's rules.
    let setting = Setting { clients, order: Order::Sequential, rules: Rules::None, ..point.setting.clone() };
    let exactly = number(&serde_json::to_string(&(&setting, spec)).unwrap_or_default());
    let name =
        format!("calibration, {}, {}, class {} ({exactly:x})", setting.workload, spec.name, class.name);
    PointSpec { name, id: None, servers: vec![spec.clone()], setting, compare: vec![REPLIES] }
}

/// The point of confirmatory rounds: the chosen server beside the best of the others.
fn confirming(confirmation: &Confirmation, found: &Found) -> Option<PointSpec> {
    let Found { point, series, .. } = found;
    let is_whole = series.len() == point.servers.len() && series.iter().all(Series::is_whole);
    let chosen = series.iter().find(|series| series.server.name == confirmation.server && is_whole)?;
    let quantity = point.compare.first()?;
    let is_other = |other: &&Series| {
        other.server != chosen.server
            && (confirmation.beside.is_empty() || confirmation.beside.contains(&other.server.name))
            && !other.server.is_control_of(&point.servers[0])
            && other.failures().is_empty()
    };
    let others = series.iter().filter(is_other);
    let worths = others.filter_map(|other| Some((other, quantity.worth(other.median(quantity.of)?))));
    let (best, _) = worths.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    // Each choice of the best is a separate point, so that trials beside different servers are not
    // compared.
    let name = format!("{}, judging against {}", point.name, best.server.name);
    let servers = vec![best.server.clone(), chosen.server.clone()];
    Some(PointSpec { name, id: None, servers, ..point.clone() }.with_control())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;
    use crate::record::outcome::Outcome;
    use crate::tests::journal;
    use crate::tests::outcome;

    const EXPERIMENT: &str = "
        title = 't'
        rounds = 2
        servers = ['auto = nginx', 'one = nginx: worker_processes=1', 'lost = nginx: worker_processes=2']
        [[points]]
        workload = 'specweb99: directories=3'
        load = '2x'
        [[points]]
        name = 'of more files'
        workload = 'specweb99: directories=5'
        load = '2x'
        [judge]
        server = 'auto'
        rounds = 3
    ";

    fn measure(plan: &Plan, journal: &mut Journal, rate: impl Fn(&PointSpec, &Spec) -> Option<f64>) {
        let result = plan.measure(journal, &Progress::new(), |point, servers, _, _| {
            let of = |spec: &&Spec| rate(point, spec).map_or(Outcome::lost("gone".to_owned()), outcome);
            Ok(servers.iter().map(of).collect())
        });
        result.unwrap();
    }

    #[test]
    fn one_may_be_confirmed_beside_some_of_the_others_only() {
        let beside = EXPERIMENT.replace("server = 'auto'", "server = 'auto'\nbeside = ['lost', 'one']");
        let experiment = Experiment::parse(&beside.replace("'lost =", "'best = nginx', 'lost =")).unwrap();
        let (stages, mut journal) = (Stages(&experiment), journal());
        measure(&stages.calibration(&journal).unwrap(), &mut journal, |_, _| Some(100.0));
        let plan = stages.measuring(&journal).unwrap();
        measure(&plan, &mut journal, |_, spec| Some(if spec.name == "best" { 9.0 } else { 5.0 }));
        let confirmation = stages.confirmation(&plan.found(&journal).unwrap(), &journal).unwrap();
        let is_named = |point: &PointSpec| ["one", "lost"].contains(&point.servers[0].name.as_str());
        assert!(confirmation.points.iter().all(is_named));
        assert_eq!(confirmation.points.len(), 2);

        let error = Experiment::parse(&beside.replace("'lost', 'one'", "'two'")).unwrap_err();
        assert!(error.contains(": judge.beside: no server"), "{error}");
    }

    #[test]
    fn each_server_has_multiples_of_its_own_capacity() {
        let text = "
            title = 't'
            rounds = 2
            servers = ['one = nginx', 'two = nginx: worker_processes=2']
            [[points]]
            name = 'alone'
            workload = 'single'
            load = 'classes'
            clients = ['--class=kept: connections=4 rate=0.5x', '--class=new: rate=1']
            [[points]]
            name = 'beside others'
            workload = 'single'
            load = 'classes'
            clients = ['--class=kept: connections=4 rate=0.5x', '--class=flood: handshakes-only rate=2x']
        ";
        let experiment = Experiment::parse(text).unwrap();
        let (stages, mut journal) = (Stages(&experiment), journal());
        let calibration = stages.calibration(&journal).unwrap();
        assert_eq!(calibration.points.len(), 4, "the points share the capacity of kept connections");
        let point = &experiment.points[1];
        let of = |at: usize, journal: &Journal| stages.clients(point, &point.servers[at], journal).unwrap();
        assert_eq!(of(0, &journal), None, "not measured yet");
        let result = calibration.measure(&mut journal, &Progress::new(), |point, servers, _, _| {
            let per_s = if servers[0].name == "one" { 100.0 } else { 300.0 };
            let mut outcome = outcome(per_s);
            if point.name.contains("class flood") {
                outcome.parties[0].handshakes_per_s = Some(per_s / 10.0);
            }
            Ok(vec![outcome])
        });
        result.unwrap();
        let rates = |kept: u32, flood: u32| {
            Some(vec![
                format!("--class=kept: connections=4 rate={kept}.000"),
                format!("--class=flood: handshakes-only rate={flood}.000"),
            ])
        };
        assert_eq!((of(0, &journal), of(1, &journal)), (rates(50, 20), rates(150, 60)));
        let plan = stages.measuring(&journal).unwrap();
        let control = plan.points[1].servers.last().unwrap();
        assert_eq!(stages.clients(&plan.points[1], control, &journal).unwrap(), rates(50, 20));
    }

    #[test]
    fn confirmatory_rounds_ask_for_what_the_point_was_asked_for() {
        let experiment = Experiment::parse(EXPERIMENT).unwrap();
        let (stages, mut journal) = (Stages(&experiment), journal());
        let calibration = stages.calibration(&journal).unwrap();
        assert_eq!(calibration.points.len(), 2, "each set of files has a rate of its own");
        let of_files = |point: &PointSpec| if point == &calibration.points[0] { 100.0 } else { 300.0 };
        measure(&calibration, &mut journal, |point, _| Some(of_files(point)));
        let plan = stages.measuring(&journal).unwrap();
        measure(&plan, &mut journal, |_, spec| match spec.name.as_str() {
            "one" => Some(5.0),
            "lost" => None,
            _ => Some(4.0),
        });
        let found = plan.found(&journal).unwrap();
        let confirmation = stages.confirmation(&found, &journal).unwrap();
        let loads: Vec<Load> = confirmation.points.iter().map(|point| point.setting.load).collect();
        assert_eq!(loads, [Load::Rate(200.0), Load::Rate(600.0)]);
        for point in &confirmation.points {
            let names: Vec<&str> = point.servers.iter().map(|spec| spec.name.as_str()).collect();
            assert_eq!(names, ["one", "auto", "one again"], "who failed is not the best");
            assert_eq!(stages.load(point, &journal).unwrap(), Some(point.setting.load));
        }
    }
}
