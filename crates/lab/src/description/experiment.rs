//! An experiment as its file describes it: which servers, asked for what, under how much load, how often.
//!
//! The file is TOML; docs/experiments.md explains each key. What it says is checked as a whole before
//! anything is started: an error names the place, the value and what is allowed.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error as _, IntoDeserializer as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::Table;

use crate::description::finding::{Finding, Of, Relation, Term};
use crate::description::grid::Grid;
use crate::description::keys::{self, Place};
use crate::description::lengths::Lengths;
use crate::description::load::Load;
use crate::description::quantity::{Quantity, REPLIES};
use crate::description::tool::Tool;
use crate::description::workload::Workload;
use crate::servers::spec::{Kind, Spec};
use crate::servers::{self, Application};
use crate::statistics::FEWEST_ROUNDS;
use crate::unique::unique;

/// What is to be done, checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    /// What stands above its report.
    pub title: String,
    /// Why it is done.
    pub about: String,
    /// How often everything is measured.
    pub rounds: u32,
    /// What the order and the arrivals are drawn from.
    pub seed: u32,
    /// What is called a difference is larger than this, as a part of one.
    pub margin: f64,
    /// Whether the first server is measured once more, beside itself.
    pub again: bool,
    /// What says how much load saturates a server, for loads that are multiples of that.
    pub saturating: Load,
    /// `name=value`, for the servers' network namespaces.
    pub sysctls: Vec<String>,
    /// Whether each server is watched once for longer, for how it changes with time.
    pub settling: Duration,
    /// For how long it is sampled what each server's CPUs run, at each point. `None`: it is not.
    pub profile: Option<Duration>,
    /// For how long each server's system calls are counted, at each point. `None`: they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<Duration>,
    /// Where servers are compared.
    pub points: Vec<PointSpec>,
    /// Who is measured afresh against the best of the others, after all else.
    pub judge: Option<Judge>,
    /// What others have found.
    pub findings: Vec<Finding>,
}

/// One point: these servers in this setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointSpec {
    /// What tells it from the others.
    pub name: String,
    /// What findings may call it, whatever its workload and its load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The first is what the others are compared with.
    pub servers: Vec<Spec>,
    /// What a trial has to know besides its server.
    pub setting: Setting,
    /// By what servers are compared here; the first is the main one.
    pub compare: Vec<Quantity>,
}

/// What a trial has to know besides its server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// How the servers of a point are measured.
    pub order: Order,
    /// What clients ask for.
    pub workload: Workload,
    /// How much of it.
    pub load: Load,
    /// Who asks for it.
    #[serde(skip_serializing_if = "Tool::is_sluicelab")]
    pub generator: Tool,
    /// More options of `sluicelab load`, for clients that come at a rate.
    pub clients: Vec<String>,
    /// What servers hand requests to.
    pub application: Option<Application>,
    /// Memory of the server with its page cache, in bytes; with `disk`.
    pub memory: Option<u64>,
    /// Bytes per second that may be read from the disk.
    pub disk: Option<u64>,
    /// How many others read from the disk meanwhile.
    pub others: u32,
    /// Whether files are forgotten before, rather than read.
    pub cold: bool,
    /// The part of its CPU that a server has, in percent. `None`: all of it.
    pub share: Option<f64>,
    /// How long a server has it at a time, in microseconds.
    pub turn_us: u32,
    /// Whether servers and clients are on all CPUs, each of which has a network of its own.
    pub both_cpus: bool,
    /// On how many CPUs servers run. `None`: on all that the lab has for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Which CPU does the work of receiving a packet.
    #[serde(skip_serializing_if = "Receive::is_receivers")]
    pub receive: Receive,
    /// By which rules results count.
    #[serde(skip_serializing_if = "Rules::are_usual")]
    pub rules: Rules,
    /// For which part of the time, in percent, a generator may wait for its CPU. `None`: as `sluicelab load`
    /// has it.
    pub may_wait: Option<u32>,
    /// How long things take.
    pub lengths: Lengths,
}

/// Which CPU does the work of receiving a packet: finding its socket, and waking who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Receive {
    /// The one that sent it, as on the loopback interface.
    Sender,
    /// One of those on which whoever it is for runs. The sender interrupts it, which a virtual machine makes
    /// dearer than all else that a small reply costs. With `both_cpus` each network has its own CPU for it.
    Receiver,
    /// The first of the servers' CPUs.
    One,
    /// All of the servers' CPUs, connections by their hash.
    Spread,
}

/// How the alternatives of a point are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All are started, and asked one after the other, in slices of the measured time.
    Interleaved,
    /// In heats of three at the same time, the first in each: what the machine does to one it does to those
    /// beside it.
    Abreast,
    /// One after the other, each started when it is its turn.
    InTurn,
}

/// The rules of a paper, by which a trial counts or has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Rules {
    /// Of Harji and others 2012.
    #[default]
    H12,
    /// Of Pariag and others 2007.
    P07,
    /// None, as in papers that have not told any.
    #[serde(rename = "none")]
    None,
}

impl Rules {
    /// Whether nobody has said anything else.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Who is judged, and in how many rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// A server of the points.
    pub server: String,
    /// Servers of the points, the best of whom it is judged beside: all others, where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// How often.
    pub rounds: u32,
}

/// BBR paces what it sends by timers, each of which costs a virtual machine more than the reply: nginx takes
/// 44 us for one of 100 KB with it, and 24 us without. Where no packet is lost, `cubic` does as `reno` does,
/// which every network namespace may have.
const USUAL_SYSCTLS: [&str; 1] = ["net.ipv4.tcp_congestion_control=reno"];

/// Rounds that there may be at most.
pub const MOST_ROUNDS: u32 = 1_000;

/// The file, as it is written.
#[derive(Debug, Deserialize)]
struct Written {
    title: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    servers: Vec<String>,
    /// What servers name in braces.
    #[serde(default)]
    vary: Table,
    rounds: Option<u32>,
    seed: Option<u32>,
    margin: Option<f64>,
    again: Option<bool>,
    saturating: Option<Load>,
    settling: Option<Time>,
    profile: Option<Time>,
    system_calls: Option<Time>,
    sysctls: Option<Vec<String>>,
    /// What points have that don't say anything else: a [`WrittenSetting`].
    #[serde(flatten)]
    usual: Table,
    #[serde(default)]
    points: Vec<WrittenPoint>,
    judge: Option<Judge>,
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

/// What points may set, or the file for all of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSetting {
    application: Option<Application>,
    generator: Option<Tool>,
    clients: Option<Vec<String>>,
    order: Option<Order>,
    memory: Option<Size>,
    disk: Option<Size>,
    others: Option<u32>,
    cold: Option<bool>,
    share: Option<f64>,
    turn_us: Option<u32>,
    both_cpus: Option<bool>,
    cpus: Option<u32>,
    receive: Option<Receive>,
    rules: Option<Rules>,
    may_wait: Option<u32>,
    warm_up: Option<Time>,
    measured: Option<Time>,
    timeout: Option<Time>,
    slices: Option<u32>,
}

/// Strings of something, or one.
#[derive(Debug)]
struct OneOrMany<T>(Vec<T>);

#[derive(Clone, Copy, Debug)]
struct Time(Duration);

#[derive(Clone, Copy, Debug)]
struct Size(u64);

/// A value that is written as a string.
fn from_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    read(&text).map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, units::parse_time).map(Self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, |text| units::parse_size(text.trim_end_matches("/s"))).map(Self)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Texts(PhantomData))
    }
}

struct Texts<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Texts<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or several")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(|one| OneOrMany(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, texts: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(texts)).map(OneOrMany)
    }
}

impl WrittenSetting {
    /// # Errors
    /// What is not understood, and under which key.
    fn of(table: Table) -> Result<Self, String> {
        table.try_into().map_err(|error| error.to_string().trim().replace('\n', ", "))
    }

    fn setting(self, workload: Workload, load: Load) -> Result<Setting, String> {
        let time = |time: Option<Time>, usual| time.map_or(Duration::from_millis(usual), |time| time.0);
        if self.memory.is_some() != self.disk.is_some() {
            return Err("memory and disk are given together".to_owned());
        }
        let lengths = Lengths {
            warm_up: time(self.warm_up, 1_000),
            measured: time(self.measured, 4_000),
            timeout: time(self.timeout, 5_000),
            slices: within("slices", self.slices.unwrap_or(4), 1, 100)?,
        };
        if lengths.measured < Duration::from_millis(200) {
            return Err("measured is at least 200ms".to_owned());
        }
        if let Some(share) = self.share.filter(|share| !(3.0..=50.0).contains(share)) {
            return Err(format!("share: {share} is not allowed; allowed: 3 to 50 (percent of a CPU)"));
        }
        let clients = self.clients.unwrap_or_default();
        if let Some(word) = clients.iter().find(|word| !word.starts_with("--")) {
            return Err(format!(
                "clients: {word:?} is not allowed; allowed: options of sluicelab load, such as \
                 '--on-timeout=retry'"
            ));
        }
        let has_classes = clients.iter().any(|option| option.starts_with("--class="));
        if has_classes && !matches!(load, Load::Rate(_)) {
            return Err(format!(
                "clients: classes have rates of their own, and the load is {load}; allowed with them: what \
                 these come to, such as '500 requests/s'"
            ));
        }
        // Files that one server has read are in memory for the others.
        let cold = self.cold.unwrap_or(self.disk.is_some());
        let order = match (self.order, cold || self.memory.is_some()) {
            (None, false) => Order::Interleaved,
            (None | Some(Order::InTurn), true) => Order::InTurn,
            (Some(_), true) => {
                return Err("order: servers that read from a disk are measured in-turn".to_owned());
            }
            (Some(order), false) => order,
        };
        if self.share.is_some() && self.both_cpus == Some(true) {
            return Err("share: it is one of a single CPU; allowed: without both_cpus".to_owned());
        }
        if let Some(cpus) = self.cpus {
            within("cpus", cpus, 1, 1_024)?;
            if self.both_cpus == Some(true) {
                return Err("cpus: with both_cpus servers are on all; allowed: one of the two".to_owned());
            }
            if self.share.is_some() && cpus > 1 {
                return Err(format!("cpus: {cpus}, and a share is one of a single CPU; allowed with it: 1"));
            }
        }
        let both_cpus = self.both_cpus.unwrap_or(false);
        let receive = match (self.receive, both_cpus, &load) {
            (Some(Receive::Sender), true, _) => {
                let why = "with both_cpus each CPU receives for its own address";
                return Err(format!("receive: {why}; allowed: 'receiver'"));
            }
            (Some(receive), ..) => receive,
            // What a server drops would cost the clients.
            (None, true, _) | (None, _, Load::Times(_)) => Receive::Receiver,
            (None, false, _) => Receive::Sender,
        };
        if order == Order::Abreast && self.share.is_none() {
            return Err("order: servers abreast need a share".to_owned());
        }
        let generator = self.generator.unwrap_or_default();
        let setting = Setting {
            order,
            workload,
            load,
            generator,
            clients,
            application: self.application,
            memory: self.memory.map(|size| size.0),
            disk: self.disk.map(|size| size.0),
            others: within("others", self.others.unwrap_or(0), 0, 64)?,
            cold,
            share: self.share,
            turn_us: within("turn_us", self.turn_us.unwrap_or(500), 20, 10_000)?,
            both_cpus,
            cpus: self.cpus,
            receive,
            rules: self.rules.unwrap_or_default(),
            may_wait: self.may_wait.map(|percent| within("may_wait", percent, 0, 100)).transpose()?,
            lengths,
        };
        match generator {
            Tool::Sluicelab => {
                let workload = setting.workload.at(!matches!(load, Load::Sessions(_)));
                Ok(Setting { workload, ..setting })
            }
            Tool::Wrk { .. } => setting.for_wrk(),
        }
    }
}

impl Receive {
    /// Older journals know nothing else, and have it unsaid.
    pub fn is_receivers(&self) -> bool {
        *self == Self::Receiver
    }

    /// Whether somebody chose among the servers' CPUs.
    pub(crate) fn is_chosen(self) -> bool {
        matches!(self, Self::One | Self::Spread)
    }
}

impl PointSpec {
    /// Whether that is what findings call it.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.id.as_deref() == Some(name)
    }

    /// Whether all its servers tell what they are compared by.
    fn check_compared(&self) -> Result<(), String> {
        let of_status = self.compare.iter().find(|quantity| quantity.is_of_status());
        match (of_status, self.servers.iter().find(|server| !servers::tells_status(server))) {
            (Some(Quantity { name, .. }), Some(server)) => Err(format!(
                "compare: {name} is told by the status of sluice, and {} has none; allowed: in a point with \
                 servers of sluice alone, without replicas",
                server.name
            )),
            _ => Ok(()),
        }
    }

    /// Whether it may have the servers that run already, and they what it has.
    fn check_running(&self) -> Result<(), String> {
        let Setting { workload, application, share, memory, both_cpus, cpus, receive, cold, .. } =
            &self.setting;
        let started = self.servers.iter().find(|server| server.running().is_none());
        if let Some(Spec { name, .. }) = started.filter(|_| workload.has_no_root()) {
            return Err(format!("workload: {name} is started to serve files, and needs root=DIR (--root)"));
        }
        let Some(running) = self.servers.iter().find(|server| server.running().is_some()) else {
            return Ok(());
        };
        let set = [
            (application.is_some(), "application"),
            (share.is_some(), "share"),
            (memory.is_some(), "memory"),
            (*both_cpus, "both_cpus"),
            (cpus.is_some(), "cpus"),
            (receive.is_chosen(), "receive"),
            (*cold, "cold"),
        ];
        if let Some((_, key)) = set.into_iter().find(|(is_set, _)| *is_set) {
            return Err(format!("{key}: {running} runs already, and stays as it is"));
        }
        let of_processes = self.compare.iter().find(|quantity| quantity.is_of_processes());
        match (of_processes, self.servers.iter().find(|server| !server.is_seen())) {
            (Some(Quantity { name, .. }), Some(unseen)) => Err(format!(
                "compare: {name} is that of processes, and which are those of {unseen}? Allowed: \
                 '{unseen} pid=1234'"
            )),
            _ => Ok(()),
        }
    }
}

impl Setting {
    /// The same, if wrk can have servers in it.
    fn for_wrk(self) -> Result<Self, String> {
        let Self { workload, load, lengths, .. } = &self;
        let slice = lengths.measured / lengths.slices;
        let is_whole = !slice.is_zero() && slice.subsec_nanos() == 0;
        let has_calls = workload.has_calls();
        let others = [
            (self.application.is_some(), "application"),
            (self.both_cpus, "both_cpus"),
            (self.may_wait.is_some(), "may_wait"),
            (!self.rules.are_usual(), "rules"),
            (self.order == Order::Abreast, "order = 'abreast'"),
        ];
        let wrong = if !matches!(load, Load::Sessions(_)) {
            format!(
                "load: wrk asks again once it is answered, and the load is {load}; allowed: '64 sessions'"
            )
        } else if !workload.asks_for_one_file() || has_calls {
            format!(
                "workload: wrk asks for one file again and again, and the workload is {workload}; allowed: \
                 one-packet, single, fixed with bytes=SIZE, and paths with one path, each without calls"
            )
        } else if !is_whole {
            format!(
                "measured: {:?} in {} slices is not allowed with wrk; allowed: whole seconds in each slice",
                lengths.measured, lengths.slices
            )
        } else if let Some((_, key)) = others.into_iter().find(|(is_set, _)| *is_set) {
            format!("generator: wrk can't have {key}; allowed with it: the generator sluicelab")
        } else {
            return Ok(self);
        };
        Err(wrong)
    }
}

/// Names that are allowed.
fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// Whether there is an area below a curve over these points: loads are rates, or multiples, each another one.
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
        "an area is over rates, and the loads are {}; allowed: rates such as '500 requests/s', or multiples \
         such as '2x', each another one",
        names.join(", ")
    ))
}

/// What is compared where nothing else is said: nothing of processes that are not known.
fn usually_compared(load: Load, servers: &[Spec]) -> Vec<Quantity> {
    let mut compared = load.usually_compared();
    if !servers.iter().all(Spec::is_seen) {
        compared.retain(|quantity| !quantity.is_of_processes());
    }
    if compared.is_empty() { vec![REPLIES] } else { compared }
}

/// Why the generator can't have servers compared by that, if it can't.
fn untold(tool: Tool, compare: &[Quantity]) -> Option<String> {
    let quantity = compare.iter().find(|quantity| !tool.is_sluicelab() && !quantity.is_told_by_wrk())?;
    Some(format!("compare: wrk does not tell {}; allowed with it: all others", quantity.name))
}

fn within(key: &str, value: u32, least: u32, most: u32) -> Result<u32, String> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(format!("{key}: {value} is not allowed; allowed: {least} to {most}"))
}

/// The servers of all lines; an error says which line it is about.
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
                "id: it is of one point, and there are {count}, each workload under each load; allowed: \
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
    /// Whether it sets what takes network namespaces to set.
    pub(crate) fn asks_for_sysctls(&self) -> bool {
        self.sysctls.iter().any(|own| !USUAL_SYSCTLS.contains(&own.as_str()))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The same from its text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::of(text).map_err(|(place, error)| match keys::line_of(text, place, &error) {
            Some(line) => format!("line {line}: {place}{error}"),
            None => format!("{place}{error}"),
        })
    }

    /// Of a text that a command has made of its options.
    ///
    /// # Errors
    /// What is wrong with it; nobody has seen the lines where that is.
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
        // Which table of the file each is of.
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
            again: written.again.unwrap_or(true),
            saturating: written.saturating.unwrap_or(Load::Sessions(64)),
            settling: written.settling.map_or(Duration::ZERO, |time| time.0),
            profile: written.profile.map(|time| time.0),
            system_calls: written.system_calls.map(|time| time.0),
            sysctls: written.sysctls.unwrap_or_else(|| USUAL_SYSCTLS.map(str::to_owned).into()),
            points,
            judge: written.judge,
            findings,
        };
        this.check().map_err(of_file)?;
        for (number, point) in tables.into_iter().zip(&this.points) {
            let named = |error| (Place::Point(number), format!("{:?}: {error}", point.name));
            this.check_point(point).map_err(named)?;
        }
        this.check_judge().map_err(|error| (Place::Judge, error))?;
        for (number, finding) in this.findings.iter().enumerate() {
            this.check_finding(finding).map_err(|error| (Place::Finding(number), error))?;
        }
        Ok(this)
    }

    fn check(&self) -> Result<(), String> {
        if self.points.is_empty() {
            return Err("it has no points ([[points]] with a workload and a load)".to_owned());
        }
        within("rounds", self.rounds, 1, MOST_ROUNDS)?;
        if !(0.0..0.5).contains(&self.margin) {
            return Err(format!("margin: {} is not allowed; allowed: 0 to 0.5 (a part of one)", self.margin));
        }
        if let Load::Times(_) | Load::Most(_) = self.saturating {
            return Err(format!(
                "saturating: {} rests on it; allowed: such as '64 sessions'",
                self.saturating
            ));
        }
        let by_wrk = self.points.iter().find(|point| !point.setting.generator.is_sluicelab());
        if let (Some(point), false) = (by_wrk, self.settling.is_zero()) {
            return Err(format!(
                "settling: {:?} has the generator wrk, which tells no second from another; allowed with \
                 it: 0s",
                point.name
            ));
        }
        for (key, time) in [("profile", self.profile), ("system_calls", self.system_calls)] {
            if let (Some(point), Some(time)) = (by_wrk, time.filter(|time| time.subsec_nanos() > 0)) {
                let name = &point.name;
                return Err(format!("{key}: {time:?}, and {name:?} has wrk; allowed with it: whole seconds"));
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
                return Err(format!("{key}: {running} runs already, and its processes are not known (pid=)"));
            }
        }
        Ok(())
    }

    fn check_point(&self, point: &PointSpec) -> Result<(), String> {
        let others = || self.points.iter().filter(|other| !std::ptr::eq(*other, point));
        if others().any(|other| other.name == point.name) {
            return Err("name: another point is called so; give one of them a name".to_owned());
        }
        if let Some(id) = point.id.as_ref().filter(|id| others().any(|other| other.is_called(id))) {
            return Err(format!("id: another point is called {id:?}"));
        }
        let mut servers = HashSet::new();
        if let Some(twice) = point.servers.iter().find(|server| !servers.insert(&server.name)) {
            return Err(format!("servers: two servers of it are called {:?}", twice.name));
        }
        for server in &point.servers {
            servers::check(server).map_err(|error| format!("servers: {error}"))?;
        }
        let workload = &point.setting.workload;
        let ceiling = point.servers.iter().find(|server| server.kind == Kind::Ceiling);
        if let Some(ceiling) = ceiling.filter(|_| !workload.asks_for_one_file()) {
            return Err(format!(
                "workload: {} sends one file to all, and the workload is {workload}; allowed with it: \
                 one-packet, single, fixed with bytes=SIZE, and paths with one path",
                ceiling.name
            ));
        }
        let is_answered = point.setting.application.is_some()
            || point.servers.iter().any(|server| matches!(server.kind, Kind::Command | Kind::Running));
        if workload.asks_for_no_file() && !is_answered {
            return Err(format!(
                "workload: an application answers what {workload} asks for, and there is none; allowed with \
                 it: a key such as application = 'c: experiments/applications/constant.c' in an \
                 experiment's file"
            ));
        }
        point.check_running()?;
        point.check_compared()?;
        let cannot = |server: &&Spec| !servers::can_hand_on(server);
        match (&point.setting.application, point.servers.iter().find(cannot)) {
            (Some(_), Some(server)) => {
                Err(format!("application: {}: {}", server.name, servers::CANNOT_HAND_ON))
            }
            _ => Ok(()),
        }
    }

    fn check_judge(&self) -> Result<(), String> {
        let Some(judge) = &self.judge else { return Ok(()) };
        within("rounds", judge.rounds, 1, MOST_ROUNDS)?;
        self.server(&judge.server).map_err(|error| format!("server: {error}"))?;
        for server in &judge.beside {
            self.server(server).map_err(|error| format!("beside: {error}"))?;
        }
        for of in self.points.iter().filter_map(|point| point.compare.first()) {
            Quantity::to_be_best(of.name)
                .map_err(|error| format!("server: it is measured beside the best of others, and {error}"))?;
        }
        Ok(())
    }

    /// Whether the files that it names are there. Programs are the machine's, and not looked for here.
    ///
    /// # Errors
    /// Which is not, and where.
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

    /// Why nothing can be told of what it measures, if that is so.
    pub fn too_few_rounds(&self) -> Option<String> {
        (self.rounds < FEWEST_ROUNDS).then(|| {
            format!(
                "rounds = {} is too few to tell one server from another, whatever is measured; it takes \
                 {FEWEST_ROUNDS}",
                self.rounds
            )
        })
    }

    /// Whether a server of that name is somewhere.
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

    /// Whether it has the servers and the points that a finding is about.
    pub(crate) fn has(&self, finding: &Finding) -> bool {
        self.check_finding(finding).is_ok()
    }

    /// Whether it has what a finding is about.
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

    /// The points of a term, at each of which its servers are.
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

/// A finding that calls points by their names, where it called them by their ids.
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
mod tests {
    use super::*;

    const SMALL: &str = "
        title = 'Two'
        servers = ['nginx', 'four = sluice: --workers=4']
        rounds = 6
        timeout = '1.1 s'
        [[points]]
        workload = ['one-packet', 'specweb99: directories=3']
        load = ['64 sessions', '2x']
        [[points]]
        name = 'disk'
        workload = 'specweb99'
        load = '500 requests/s'
        memory = '100 MB'
        disk = '50 MB/s'
        warm_up = '3s'
    ";

    fn error(text: &str) -> String {
        Experiment::parse(text).unwrap_err()
    }

    #[test]
    fn points_are_each_workload_under_each_load() {
        let experiment = Experiment::parse(SMALL).unwrap();
        let names: Vec<&str> = experiment.points.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "one-packet, 64 sessions",
                "one-packet, 2x",
                "specweb99, 64 sessions",
                "specweb99, 2x",
                "specweb99, 500 requests/s, disk"
            ]
        );
        let disk = &experiment.points[4].setting;
        assert_eq!((disk.memory, disk.disk, disk.cold), (Some(100_000_000), Some(50_000_000), true));
        assert_eq!(disk.lengths.timeout, Duration::from_millis(1_100));
        assert_eq!((disk.lengths.warm_up, experiment.points[0].setting.lengths.warm_up).0.as_secs(), 3);
        assert_eq!(experiment.points[0].compare.len(), 2);
    }

    const GRID: &str = "\
title = 'Grid'
servers = [
  'w{workers} = sluice: --workers={workers}',
  'nginx',
]
[vary]
workers = [75, 100]
connections = ['10', '20']
[[points]]
workload = 'single'
load = '2x'
[[points]]
id = 'few'
workload = 'single'
load = '4 sessions'
servers = ['c{connections} = sluice: --max-connections={connections}', 'w{workers} = nginx']
[judge]
server = 'w75'
rounds = 6
[[findings]]
paper = 'p'
says = 's'
expect = 'c20 > w75 in replies/s at few'
";

    #[test]
    fn what_is_varied_makes_servers_of_lines() {
        let experiment = Experiment::parse(GRID).unwrap();
        let names = |point: &PointSpec| {
            point.servers.iter().map(|server| server.name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&experiment.points[0]), "w75 w100 nginx");
        assert_eq!(names(&experiment.points[1]), "c10 c20 w75 w100");
        assert_eq!(experiment.points[0].servers[1].settings, ["--workers=100"]);
    }

    #[test]
    fn errors_name_the_line_of_what_they_are_about() {
        let wrong = [
            ("={workers}'", "={worker}'", "line 3: servers[0]: {worker} is not in [vary] (is it workers?)"),
            ("'nginx'", "'ngnix'", "line 4: servers[1]: \"ngnix\": \"ngnix\" is no server (is it nginx?)"),
            ("['10'", "[[1]", "line 8: vary.connections: allowed: numbers and words"),
            ("['10'", "['10', '10'", "line 8: vary.connections: 10 is there twice"),
            ("\n[[points]]", "\nidle = [1]\n[[points]]", "line 9: vary.idle: no server has {idle}"),
            (
                "'4 sessions'",
                "['2x', '4 sessions']",
                "line 13: points[1]: id: it is of one point, and there are 2",
            ),
            (
                "'w{workers} = nginx'",
                "'c{connections} = nginx'",
                "line 16: points[1]: \"single, 4 sessions\": s",
            ),
            ("single'\nload = '2x'", "specweb99'\nload = '1 people'", "line 11"),
            ("'single'\nload = '2x'", "'constant: bytes=32KiB'\nload = '2x'", "line 10: points[0]: "),
            ("'w75'\nrounds", "'w7'\nrounds", "line 18: judge.server: no server is called \"w7\""),
            ("at few", "at fewer", "line 23: findings[0]: expect: no point is called \"fewer\""),
            ("rounds = 6", "rounds = 0", "line 19: judge.rounds: 0 is not allowed"),
        ];
        for (right, wrong, expected) in wrong {
            assert!(GRID.contains(right), "{right}");
            let said = error(&GRID.replacen(right, wrong, 1));
            assert!(said.contains(expected), "{said}");
        }
        let said = error(&GRID.replacen("[[points]]\n", "[[points]]\nid = 'few'\n", 1));
        assert!(said.contains("id: another point is called \"few\""), "{said}");
        // A command has no file whose lines anybody could look at.
        let said = Experiment::of_options(&GRID.replace("'w75'\n", "'w7'\n"));
        assert!(said.unwrap_err().starts_with("server: no server is called \"w7\""));
    }

    #[test]
    fn points_have_cpus_receivers_and_rules() {
        let text = |keys: &str| {
            format!(
                "title = 't'\nservers = ['sluice']\n[[points]]\nworkload = 'single'\nload = '4 sessions'\n\
                 {keys}"
            )
        };
        let setting = |keys: &str| Experiment::parse(&text(keys)).unwrap().points.remove(0).setting;
        let set = setting("cpus = 2\nreceive = 'one'\nrules = 'P07'");
        assert_eq!((set.cpus, set.receive, set.rules), (Some(2), Receive::One, Rules::P07));
        assert_eq!(setting("rules = 'none'").rules, Rules::None);
        // What nobody has said is in no file of results, so that those of before are read as they were.
        let usual = serde_json::to_value(setting("")).unwrap();
        assert!(["cpus", "rules"].iter().all(|key| usual.get(key).is_none()));
        let receive = |load: &str, keys: &str| {
            Experiment::parse(&text(keys).replace("4 sessions", load)).unwrap().points[0].setting.receive
        };
        assert_eq!(receive("4 sessions", ""), Receive::Sender);
        assert_eq!(receive("500 requests/s", ""), Receive::Sender);
        assert_eq!(receive("500 requests/s", "receive = 'receiver'"), Receive::Receiver);
        // Clients would pay for what the server drops.
        assert_eq!(receive("2x", ""), Receive::Receiver);
        assert_eq!(receive("4 sessions", "both_cpus = true"), Receive::Receiver);
        // It was the only one once, so results of before are read as they were.
        let once = serde_json::to_value(setting("receive = 'receiver'")).unwrap();
        assert!(once.get("receive").is_none());
        for (keys, expected) in [
            ("cpus = 1\nboth_cpus = true", "cpus: with both_cpus servers are on all"),
            ("receive = 'sender'\nboth_cpus = true", "receive: with both_cpus each CPU receives for its own"),
            ("cpus = 2\nshare = 10", "cpus: 2, and a share is one of a single CPU"),
            ("rules = 'none'\ngenerator = 'wrk'", "generator: wrk can't have rules"),
        ] {
            let said = error(&text(keys));
            assert!(said.contains(expected), "{said}");
        }
        let running = text("receive = 'spread'").replace("'sluice'", "'http://127.0.0.1:80/'");
        assert!(error(&running).contains("runs already, and stays as it is"));
    }

    #[test]
    fn what_a_server_or_a_judge_cannot_tell_is_refused() {
        let text = |server: &str, compare: &str| {
            format!(
                "title = 't'\nservers = ['sluice', '{server}']\n[[points]]\nworkload = 'single'\n\
                 load = '2x'\ncompare = ['{compare}']"
            )
        };
        let amped = "amped = sluice: --architecture=amped";
        assert!(Experiment::parse(&text(amped, "accepts/phase")).is_ok());
        assert!(Experiment::parse(&text("nginx", "switches/s")).is_ok());
        let said = error(&text("nginx", "accepts/phase"));
        assert!(said.contains("accepts/phase is told by the status of sluice, and nginx has none"), "{said}");
        let said = error(&text("sluice: replicas=direct", "event waits/s"));
        assert!(said.contains("sluice replicas direct has none"), "{said}");
        let judge = "\n[judge]\nserver = 'sluice'\nrounds = 6";
        let said = error(&(text("nginx", "switches/s") + judge));
        assert!(said.contains("in switches/s neither more nor less is better"), "{said}");
        let by_wrk = text("nginx", "Mbit/s").replace("2x", "64 sessions") + "\ngenerator = 'wrk'";
        assert!(error(&by_wrk).contains("wrk does not tell Mbit/s"));
        assert!(Experiment::parse(&by_wrk.replace("Mbit/s", "timeouts %")).is_ok());
    }

    #[test]
    fn a_comparison_takes_rounds() {
        let said =
            |rounds: &str| Experiment::parse(&SMALL.replace("rounds = 6", rounds)).unwrap().too_few_rounds();
        assert!(said("rounds = 5").unwrap().starts_with("rounds = 5 is too few to tell"));
        assert_eq!((said("rounds = 6"), said("")), (None, None));
    }

    #[test]
    fn an_application_is_for_servers_that_hand_requests_on() {
        let php = |server| {
            format!(
                "title = 'PHP'\nservers = ['{server}']\napplication = 'php-fpm: workers=4'\n\
                 [[points]]\nworkload = 'mine: root=. sessions=log'\nload = '4 sessions'"
            )
        };
        for server in ["sluice", "nginx", "haproxy: behind=sluice", "mine = ./s {port} {socket}"] {
            let experiment = Experiment::parse(&php(server)).unwrap();
            let application = experiment.points[0].setting.application.clone();
            assert_eq!(application, Some("php-fpm: workers=4".parse().unwrap()));
        }
        let said = error(&php("mine = ./s {port}"));
        assert!(said.contains("hands no requests to an application; allowed with one: sluice"), "{said}");
        assert!(error(&php("nginx").replace("php-fpm", "php")).contains("allowed: 'php-fpm'"));
    }

    #[test]
    fn a_finding_is_about_what_the_experiment_has() {
        let finding = |expect: &str| {
            let text = format!("{SMALL}[[findings]]\npaper = 'p'\nsays = 's'\nexpect = '{expect}'\n");
            Experiment::parse(&text)
        };
        for fits in [
            "nginx > four in replies/s at one-packet, 2x",
            "best of (nginx; four) at one-packet, 2x > nginx at specweb99, 2x in replies/s",
        ] {
            assert!(finding(fits).is_ok(), "{:?}", finding(fits));
        }
        for (expect, said) in [
            (
                "nginx > five in replies/s at one-packet, 2x",
                "is called \"five\"; allowed: \"nginx\", \"four\"",
            ),
            (
                "nginx > four in replies/s at one, 2x",
                "no point is called \"one, 2x\"; allowed: \"one-packet, 64",
            ),
            ("best of (four; six) > nginx in replies/s at one-packet, 2x", "is called \"six\""),
            ("peak of four at (one-packet, 2x; three) > nginx at one-packet, 2x in replies/s", "\"three\""),
            (
                "area of four at (one-packet, 2x; specweb99, 2x) > area of nginx at (one-packet, 2x; \
                 specweb99, 2x) in replies/s",
                "the loads are 2x, 2x; allowed: rates",
            ),
        ] {
            let error = finding(expect).expect_err(expect);
            assert!(error.contains("findings[0]: expect: ") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn errors_name_the_place_the_value_and_what_is_allowed() {
        let said = error(&SMALL.replace("'2x'", "'twice'"));
        assert!(
            said.contains("line 8") && said.contains("\"twice\"") && said.contains("allowed: loads"),
            "{said}"
        );
        let said = error(&SMALL.replace("nginx", "ngnix"));
        assert!(said.contains("is it nginx?"), "{said}");
        let said = error(&SMALL.replace("rounds = 6", "rounds = 0"));
        assert!(said.contains("rounds: 0 is not allowed; allowed: 1 to 1000"), "{said}");
        let said = error(&SMALL.replace("rounds", "round"));
        assert!(said.contains("round"), "{said}");
        let said = error(&SMALL.replace("disk = '50 MB/s'", ""));
        assert!(said.contains("points[1]: memory and disk are given together"), "{said}");
        let said = error(&SMALL.replace("name = 'disk'", "nam = 'disk'"));
        assert!(said.contains("nam"), "{said}");
        let said = error(&SMALL.replace("'four = ", "'nginx = "));
        assert!(said.contains("are called \"nginx\""), "{said}");
        let said = error(&format!("clients = ['retry']\n{SMALL}"));
        assert!(said.contains("clients: \"retry\" is not allowed; allowed: options"), "{said}");
        let said = error(&format!("clients = ['--class=a: rate=5']\n{SMALL}"));
        assert!(said.contains("points[0]: clients: classes have rates of their own"), "{said}");
        assert!(error("title = 'none'").contains("no points"));
        let said = error(&format!("order = 'abreast'\n{SMALL}"));
        assert!(said.contains("need a share"), "{said}");
    }
}
