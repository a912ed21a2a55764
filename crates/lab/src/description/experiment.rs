//! An experiment as its file describes it: the servers, what clients request, how much load, and how many
//! repetitions.
//!
//! The file is TOML; docs/experiments.md explains each key. The whole file is checked before anything is
//! started. An error names the place, the value and what is allowed.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::Table;

use crate::description::classes::CLASS;
use crate::description::finding::{Finding, Is, Of, Relation, Term};
use crate::description::grid::Grid;
use crate::description::keys::{self, Place};
use crate::description::load::Load;
use crate::description::quantity::{Quantity, REPLIES};
use crate::description::setting::{Setting, WrittenSetting};
use crate::description::tool::Tool;
use crate::description::workload::Workload;
use crate::description::written::{OneOrMany, Time, within};
use crate::servers::spec::{Kind, Spec};
use crate::servers::{self, Application};
use crate::statistics::FEWEST_ROUNDS;
use crate::unique::unique;

/// A checked experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    /// The heading of its report.
    pub title: String,
    /// The purpose of the experiment.
    pub about: String,
    /// How often everything is measured.
    pub rounds: u32,
    /// The seed for the random orders and arrivals.
    pub seed: u32,
    /// Only a difference larger than this fraction counts as one.
    pub margin: f64,
    /// Whether the first server is also measured against itself, as an A/A control.
    #[serde(rename = "again")]
    pub control: bool,
    /// The load that saturates a server, for loads that are multiples of that.
    pub saturating: Load,
    /// `name=value`, for the servers' network namespaces.
    pub sysctls: Vec<String>,
    /// The length of the long run that shows how each server changes over time. Zero: there is none.
    pub settling: Duration,
    /// How long the CPUs of each server are sampled, at each point. `None`: they are not.
    pub profile: Option<Duration>,
    /// How long the system calls of each server are counted, at each point. `None`: they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<Duration>,
    /// The points at which servers are compared.
    pub points: Vec<PointSpec>,
    /// The server for confirmatory rounds against the best of the others, after all else.
    #[serde(rename = "judge")]
    pub confirmation: Option<Confirmation>,
    /// What others have found.
    pub findings: Vec<Finding>,
}

/// One point: some servers in one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointSpec {
    /// A name that is unique among the points.
    pub name: String,
    /// The name that findings may use for it, whatever its workload and load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// All others are compared with the first.
    pub servers: Vec<Spec>,
    /// What a trial needs to know besides its server.
    pub setting: Setting,
    /// The quantities that are compared here; the first is the main one.
    pub compare: Vec<Quantity>,
}

/// The confirmatory rounds: their server, and their number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirmation {
    /// The name of a server of the points.
    pub server: String,
    /// The candidates; the server is measured beside the best of these. Empty: all others are candidates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// The number of rounds.
    pub rounds: u32,
}

/// BBR paces packets with timers, each of which costs a virtual machine more than the reply does. For a
/// reply of 100 KB, nginx takes 44 us with BBR and 24 us without. Where no packet is lost, `cubic` behaves
/// like `reno`, which every network namespace may use.
const USUAL_SYSCTLS: [&str; 1] = ["net.ipv4.tcp_congestion_control=reno"];

/// The largest allowed number of rounds.
pub const MOST_ROUNDS: u32 = 1_000;

/// The file as written.
#[derive(Debug, Deserialize)]
struct Written {
    title: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    servers: Vec<String>,
    /// The values of the names in braces in servers' lines.
    #[serde(default)]
    vary: Table,
    rounds: Option<u32>,
    seed: Option<u32>,
    margin: Option<f64>,
    #[serde(rename = "again")]
    control: Option<bool>,
    saturating: Option<Load>,
    settling: Option<Time>,
    profile: Option<Time>,
    system_calls: Option<Time>,
    sysctls: Option<Vec<String>>,
    /// The defaults of points: a [`WrittenSetting`].
    #[serde(flatten)]
    usual: Table,
    #[serde(default)]
    points: Vec<WrittenPoint>,
    #[serde(rename = "judge")]
    confirmation: Option<Confirmation>,
    #[serde(default)]
    findings: Vec<Finding>,
}

/// A table of `points`: each workload under each load.
#[derive(Debug, Deserialize)]
struct WrittenPoint {
    name: Option<String>,
    id: Option<String>,
    workload: OneOrMany<Workload>,
    load: OneOrMany<Load>,
    servers: Option<Vec<String>>,
    compare: Option<Vec<Quantity>>,
    #[serde(flatten)]
    own: Table,
}

impl PointSpec {
    /// Whether findings may use that name for this point.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.id.as_deref() == Some(name)
    }

    /// Checks that all its servers report the quantities by which they are compared.
    fn check_compared(&self) -> Result<(), String> {
        let classes = self.setting.clients.iter().filter(|option| option.starts_with(CLASS)).count();
        let of_class = |quantity: &&Quantity| quantity.class().is_some_and(|class| class > classes);
        if let Some(Quantity { name, .. }) = self.compare.iter().find(of_class) {
            return Err(format!(
                "compare: {name}, and there are {classes} classes of clients; allowed: with more \
                 '{CLASS}...' in clients"
            ));
        }
        let of_status = self.compare.iter().find(|quantity| quantity.is_of_status());
        match (of_status, self.servers.iter().find(|server| !servers::tells_status(server))) {
            (Some(Quantity { name, .. }), Some(server)) => Err(format!(
                "compare: {name} comes from sluice's status endpoint, and {} has none; allowed: in a point \
                 whose servers are all sluice, without replicas",
                server.name
            )),
            _ => Ok(()),
        }
    }

    /// Checks that all its servers can speak TLS, if they have to, and that no quantity needs it otherwise.
    fn check_tls(&self) -> Result<(), String> {
        let find = |is_it: fn(&Spec) -> bool| self.servers.iter().find(|server| is_it(server));
        if self.setting.tls.is_some() {
            return find(|server| !servers::can_speak_tls(server)).map_or(Ok(()), |server| {
                Err(format!("tls: {}: {}", server.name, servers::CANNOT_SPEAK_TLS))
            });
        }
        if let Some(server) = find(servers::names_certificate) {
            let name = &server.name;
            return Err(format!(
                "servers: {name} names {{certificate}}, and there is none; allowed: with tls = true"
            ));
        }
        match self.compare.iter().find(|quantity| quantity.is_of_handshakes()) {
            Some(Quantity { name, .. }) => {
                Err(format!("compare: {name} is of TLS handshakes; allowed: with tls = true"))
            }
            None => Ok(()),
        }
    }

    /// Checks that the point is possible with servers that are already running, if it has any.
    fn check_running(&self) -> Result<(), String> {
        let Setting {
            workload,
            application,
            tls,
            share,
            slow_cpu,
            memory,
            both_cpus,
            cpus,
            receive,
            cold,
            ..
        } = &self.setting;
        let started = self.servers.iter().find(|server| server.running().is_none());
        if let Some(Spec { name, .. }) = started.filter(|_| workload.has_no_root()) {
            return Err(format!("workload: the lab starts {name} to serve files, so set root=DIR (--root)"));
        }
        let Some(running) = self.servers.iter().find(|server| server.running().is_some()) else {
            return Ok(());
        };
        let set = [
            (application.is_some(), "application"),
            (tls.is_some(), "tls"),
            (share.is_some(), "share"),
            (slow_cpu.is_some(), "slow_cpu"),
            (memory.is_some(), "memory"),
            (*both_cpus, "both_cpus"),
            (cpus.is_some(), "cpus"),
            (receive.is_chosen(), "receive"),
            (*cold, "cold"),
        ];
        if let Some((_, key)) = set.into_iter().find(|(is_set, _)| *is_set) {
            return Err(format!("{key}: {running} is already running, and the lab cannot change it"));
        }
        let of_processes = self.compare.iter().find(|quantity| quantity.is_of_processes());
        match (of_processes, self.servers.iter().find(|server| !server.is_seen())) {
            (Some(Quantity { name, .. }), Some(unseen)) => Err(format!(
                "compare: {name} is measured on processes, and the process of {unseen} is not known; name \
                 it, as in '{unseen} pid=1234'"
            )),
            _ => Ok(()),
        }
    }
}

/// A quoted list of the allowed names.
fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// Checks that there is an area below a curve over these points: loads are rates or multiples, and all
/// differ.
fn have_rates(points: &[&PointSpec]) -> Result<(), String> {
    let loads: Vec<Load> = points.iter().map(|point| point.setting.load).collect();
    let are_rates = loads.iter().all(|load| matches!(load, Load::Rate(_)));
    let are_times = loads.iter().all(|load| matches!(load, Load::Times(_)));
    let is_twice = (1..loads.len()).any(|at| loads[..at].contains(&loads[at]));
    if (are_rates || are_times) && !is_twice {
        return Ok(());
    }
    let names: Vec<String> = loads.iter().map(ToString::to_string).collect();
    Err(format!(
        "an area needs different rates, and the loads are {}; allowed: rates such as '500 requests/s', or \
         multiples such as '2x', each once",
        names.join(", ")
    ))
}

/// The default quantities. Those of processes are left out if a server's processes are unknown.
fn usually_compared(load: Load, servers: &[Spec]) -> Vec<Quantity> {
    let mut compared = load.usually_compared();
    if !servers.iter().all(Spec::is_seen) {
        compared.retain(|quantity| !quantity.is_of_processes());
    }
    if compared.is_empty() { vec![REPLIES] } else { compared }
}

/// An error if this generator does not report one of these quantities.
fn untold(tool: Tool, compare: &[Quantity]) -> Option<String> {
    let quantity = compare.iter().find(|quantity| !tool.is_sluicelab() && !quantity.is_told_by_wrk())?;
    Some(format!("compare: wrk does not report {}; allowed: others, such as replies/s", quantity.name))
}

/// The servers of all lines; an error names its line.
fn all_servers(lines: &[String], grid: &Grid) -> Result<Vec<Spec>, String> {
    let each = lines
        .iter()
        .enumerate()
        .map(|(number, line)| grid.servers(line).map_err(|error| format!("servers[{number}]: {error}")));
    Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
}

impl WrittenPoint {
    fn points(self, servers: &[Spec], usual: &Table, grid: &Grid) -> Result<Vec<PointSpec>, String> {
        let own = self.servers.as_deref().map(|lines| all_servers(lines, grid)).transpose()?;
        let servers = own.as_deref().unwrap_or(servers);
        if servers.is_empty() {
            return Err("there are no servers: neither in the file nor in the point".to_owned());
        }
        let count = self.workload.0.len() * self.load.0.len();
        if self.id.is_some() && count > 1 {
            return Err(format!(
                "id: an id names one point, and here are {count}, each workload under each load; allowed: \
                 with one workload and one load"
            ));
        }
        let mut setting = usual.clone();
        setting.extend(self.own);
        let setting = WrittenSetting::of(setting)?;
        let mut points = Vec::new();
        for workload in self.workload.0 {
            for load in &self.load.0 {
                let setting = setting.clone().setting(workload.clone(), *load)?;
                let name = match &self.name {
                    Some(name) => format!("{workload}, {load}, {name}"),
                    None => format!("{workload}, {load}"),
                };
                let compare = self.compare.clone().unwrap_or_else(|| usually_compared(*load, servers));
                if let Some(why) = untold(setting.generator, &compare) {
                    return Err(why);
                }
                points.push(PointSpec {
                    name,
                    id: self.id.clone(),
                    servers: servers.to_vec(),
                    setting,
                    compare,
                });
            }
        }
        Ok(points)
    }
}

impl Experiment {
    /// Whether it sets sysctls, which needs network namespaces.
    pub(crate) fn asks_for_sysctls(&self) -> bool {
        self.sysctls.iter().any(|own| !USUAL_SYSCTLS.contains(&own.as_str()))
    }

    /// The congestion control that it sets for servers; `None`: they use the machine's.
    pub(crate) fn congestion_control(&self) -> Option<&str> {
        self.sysctls.iter().find_map(|own| own.strip_prefix("net.ipv4.tcp_congestion_control="))
    }

    /// Reads an experiment's file.
    ///
    /// # Errors
    /// The mistake in the file, and its place.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Parses an experiment from its text.
    ///
    /// # Errors
    /// The mistake in the text, and its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::of(text).map_err(|(place, error)| match keys::line_of(text, place, &error) {
            Some(line) => format!("line {line}: {place}{error}"),
            None => format!("{place}{error}"),
        })
    }

    /// Parses a text that a command has made from its options.
    ///
    /// # Errors
    /// The mistake, without its line, because the program wrote the text.
    pub fn of_options(text: &str) -> Result<Self, String> {
        Self::of(text).map_err(|(_, error)| error)
    }

    fn of(text: &str) -> Result<Self, (Place, String)> {
        let of_file = |error: String| (Place::File, error);
        let of_vary = |error: String| (Place::Vary, error);
        keys::check(text).map_err(|error| (Place::Told, error))?;
        let written: Written = toml::from_str(text).map_err(|error| (Place::Told, error.to_string()))?;
        WrittenSetting::of(written.usual.clone()).map_err(of_file)?;
        let grid = Grid::of(&written.vary).map_err(of_vary)?;
        let own = written.points.iter().flat_map(|point| &point.servers).flatten();
        if let Some(unused) = grid.unused(written.servers.iter().chain(own)) {
            return Err(of_vary(unused));
        }
        let servers = all_servers(&written.servers, &grid).map_err(of_file)?;
        // For each point, the number of its table in the file, for error messages.
        let (mut points, mut tables) = (Vec::new(), Vec::new());
        for (number, point) in written.points.into_iter().enumerate() {
            let of = point.points(&servers, &written.usual, &grid);
            points.extend(of.map_err(|error| (Place::Point(number), error))?);
            tables.resize(points.len(), number);
        }
        let findings = written.findings.into_iter().map(|finding| by_names(finding, &points)).collect();
        let this = Self {
            title: written.title,
            about: written.about,
            rounds: written.rounds.unwrap_or(10),
            seed: written.seed.unwrap_or(1),
            margin: written.margin.unwrap_or(0.02),
            control: written.control.unwrap_or(true),
            saturating: written.saturating.unwrap_or(Load::Sessions(64)),
            settling: written.settling.map_or(Duration::ZERO, |time| time.0),
            profile: written.profile.map(|time| time.0),
            system_calls: written.system_calls.map(|time| time.0),
            sysctls: written.sysctls.unwrap_or_else(|| USUAL_SYSCTLS.map(str::to_owned).into()),
            points,
            confirmation: written.confirmation,
            findings,
        };
        this.check().map_err(of_file)?;
        for (number, point) in tables.into_iter().zip(&this.points) {
            let named = |error| (Place::Point(number), format!("{:?}: {error}", point.name));
            this.check_point(point).map_err(named)?;
        }
        this.check_confirmation().map_err(|error| (Place::Confirmation, error))?;
        for (number, finding) in this.findings.iter().enumerate() {
            this.check_finding(finding)
                .and_then(|()| this.check_size(finding))
                .map_err(|error| (Place::Finding(number), error))?;
        }
        Ok(this)
    }

    fn check(&self) -> Result<(), String> {
        if self.points.is_empty() {
            return Err("there are no points; add [[points]] with a workload and a load".to_owned());
        }
        within("rounds", self.rounds, 1, MOST_ROUNDS)?;
        if !(0.0..0.5).contains(&self.margin) {
            return Err(format!("margin: {} is not allowed; allowed: 0 to 0.5 (a part of one)", self.margin));
        }
        if let Load::Times(_) | Load::Classes | Load::Most(_) = self.saturating {
            return Err(format!(
                "saturating: {} is itself derived from a saturating load; allowed: a load such as '64 \
                 sessions'",
                self.saturating
            ));
        }
        let by_wrk = self.points.iter().find(|point| !point.setting.generator.is_sluicelab());
        if let (Some(point), false) = (by_wrk, self.settling.is_zero()) {
            return Err(format!(
                "settling: {:?} uses the generator wrk, which reports no single seconds; allowed with wrk: \
                 0s",
                point.name
            ));
        }
        for (key, time) in [("profile", self.profile), ("system_calls", self.system_calls)] {
            if let (Some(point), Some(time)) = (by_wrk, time.filter(|time| time.subsec_nanos() > 0)) {
                let name = &point.name;
                return Err(format!("{key}: {time:?}, and {name:?} uses wrk; allowed: whole seconds"));
            }
        }
        if let Some(time) = self.system_calls.filter(|time| *time < Duration::from_secs(1)) {
            return Err(format!("system_calls: {time:?} is not allowed; allowed: 1s or more"));
        }
        let is_elsewhere = |server: &&Spec| server.running().is_some();
        if let Some(running) = self.servers().into_iter().find(is_elsewhere) {
            let needs = [
                (self.asks_for_sysctls(), "sysctls"),
                (!running.is_seen() && self.profile.is_some(), "profile"),
                (!running.is_seen() && self.system_calls.is_some(), "system_calls"),
            ];
            if let Some((_, key)) = needs.into_iter().find(|(is_set, _)| *is_set) {
                return Err(format!(
                    "{key}: {running} is already running, and its process is not known; name it with pid="
                ));
            }
        }
        Ok(())
    }

    fn check_point(&self, point: &PointSpec) -> Result<(), String> {
        let others = || self.points.iter().filter(|other| !std::ptr::eq(*other, point));
        if others().any(|other| other.name == point.name) {
            return Err("name: another point has the same name; give one of them another name".to_owned());
        }
        if let Some(id) = point.id.as_ref().filter(|id| others().any(|other| other.is_called(id))) {
            return Err(format!("id: another point has the id {id:?}"));
        }
        let mut servers = HashSet::new();
        if let Some(twice) = point.servers.iter().find(|server| !servers.insert(&server.name)) {
            return Err(format!("servers: two servers of it are called {:?}", twice.name));
        }
        for server in &point.servers {
            servers::check(server).map_err(|error| format!("servers: {error}"))?;
        }
        let workload = &point.setting.workload;
        let ceiling = point.servers.iter().find(|server| servers::has_one_file(server));
        if let Some(ceiling) = ceiling.filter(|_| !workload.asks_for_one_file()) {
            return Err(format!(
                "workload: {} answers every request with one file, and the workload is {workload}; allowed \
                 with this server: \
                 one-packet, single, fixed with bytes=SIZE, and paths with one path",
                ceiling.name
            ));
        }
        let is_answered = point.setting.application.is_some()
            || point.servers.iter().any(|server| matches!(server.kind, Kind::Command | Kind::Running));
        if workload.asks_for_no_file() && !is_answered {
            return Err(format!(
                "workload: {workload} needs an application, and there is none; add a key such as \
                 application = 'c: experiments/applications/constant.c' to the experiment's file"
            ));
        }
        point.check_running()?;
        point.check_tls()?;
        point.check_compared()?;
        let Some(application) = &point.setting.application else { return Ok(()) };
        let cannot = |server| servers::cannot_hand_on(server, application);
        point.servers.iter().find_map(cannot).map_or(Ok(()), |why| Err(format!("application: {why}")))
    }

    fn check_confirmation(&self) -> Result<(), String> {
        let Some(confirmation) = &self.confirmation else { return Ok(()) };
        within("rounds", confirmation.rounds, 1, MOST_ROUNDS)?;
        self.server(&confirmation.server).map_err(|error| format!("server: {error}"))?;
        for server in &confirmation.beside {
            self.server(server).map_err(|error| format!("beside: {error}"))?;
        }
        for of in self.points.iter().filter_map(|point| point.compare.first()) {
            Quantity::to_be_best(of.name).map_err(|error| {
                format!("server: it is compared with the best of the others, and {error}")
            })?;
        }
        Ok(())
    }

    /// Checks that the files it names exist. Programs belong to the machine, and are not checked here.
    ///
    /// # Errors
    /// The missing file, and the place that names it.
    pub fn check_files(&self) -> Result<(), String> {
        for PointSpec { name, setting, .. } in &self.points {
            let application = setting.application.as_ref();
            if let Some(source @ Application::C { .. }) = application {
                source.executable().map_err(|error| format!("{name:?}: application: {error}"))?;
            }
            let is_computed = application.is_some();
            setting
                .workload
                .check_files(is_computed)
                .map_err(|error| format!("{name:?}: workload: {error}"))?;
        }
        Ok(())
    }

    /// An error if there are too few rounds to find any difference.
    pub fn too_few_rounds(&self) -> Option<String> {
        (self.rounds < FEWEST_ROUNDS).then(|| {
            format!(
                "rounds = {} is too few for any significant difference; use at least {FEWEST_ROUNDS}",
                self.rounds
            )
        })
    }

    /// Checks that there is a server of that name.
    pub(crate) fn server(&self, name: &str) -> Result<(), String> {
        let mut names: Vec<&str> = self.servers().iter().map(|server| server.name.as_str()).collect();
        if names.contains(&name) {
            return Ok(());
        }
        names.sort_unstable();
        Err(format!("no server is called {name:?}; allowed: {}", names.join(", ")))
    }

    /// All servers, each once.
    pub fn servers(&self) -> Vec<&Spec> {
        unique(self.points.iter().flat_map(|point| &point.servers))
    }

    /// Whether it has the servers and points of a finding.
    pub(crate) fn has(&self, finding: &Finding) -> bool {
        self.check_finding(finding).is_ok()
    }

    /// Checks that it has the servers and points of a finding.
    fn check_finding(&self, finding: &Finding) -> Result<(), String> {
        let relation = &finding.expect;
        relation.terms().into_iter().try_for_each(|term| {
            let points = self.points_of(term).map_err(|error| format!("expect: {error}"))?;
            match term.of {
                Of::Area => have_rates(&points).map_err(|error| format!("expect: {error}")),
                Of::Server | Of::Best | Of::Peak => Ok(()),
            }
        })
    }

    /// Checks that a difference of the finding's size would exceed the margin.
    fn check_size(&self, Finding { expect, size, .. }: &Finding) -> Result<(), String> {
        let Some(size) = size else { return Ok(()) };
        let is_within = match expect.is {
            Is::More => size.most <= 1.0 + self.margin,
            Is::Less => size.least >= 1.0 - self.margin,
            Is::Equal => false,
        };
        if !is_within {
            return Ok(());
        }
        Err(format!(
            "size: {size} is within the margin of {}, so the finding can't hold; allowed: a smaller margin",
            self.margin
        ))
    }

    /// The points of a term. Each of them must have all servers of the term.
    fn points_of(&self, term: &Term) -> Result<Vec<&PointSpec>, String> {
        let mut points = Vec::new();
        for name in &term.points {
            let point = self.points.iter().find(|point| point.name == *name).ok_or_else(|| {
                let names = quoted(self.points.iter().map(|point| &point.name));
                format!("no point is called {name:?}; allowed: {names}")
            })?;
            let names = || point.servers.iter().map(|server| &server.name);
            if let Some(server) = term.servers.iter().find(|server| !names().any(|name| name == *server)) {
                let names = quoted(names());
                return Err(format!("no server of {name:?} is called {server:?}; allowed: {names}"));
            }
            points.push(point);
        }
        Ok(points)
    }

    /// All applications, each once.
    pub(crate) fn applications(&self) -> Vec<&Application> {
        unique(self.points.iter().filter_map(|point| point.setting.application.as_ref()))
    }
}

/// Replaces the ids of points in a finding by the points' names.
fn by_names(mut finding: Finding, points: &[PointSpec]) -> Finding {
    let Relation { left, right, .. } = &mut finding.expect;
    for called in left.points.iter_mut().chain(&mut right.points) {
        if let Some(point) = points.iter().find(|point| point.is_called(called)) {
            called.clone_from(&point.name);
        }
    }
    finding
}

#[cfg(test)]
mod tests;
