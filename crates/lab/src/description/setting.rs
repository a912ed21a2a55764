//! What points of an experiment may set, or its file for all of them: how much load, on which CPUs, from
//! which disk, for how long.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::Table;

use crate::description::lengths::Lengths;
use crate::description::load::Load;
use crate::description::tool::Tool;
use crate::description::workload::Workload;
use crate::description::written::{Size, Time, within};
use crate::servers::Application;

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
    /// Whether servers and clients are on all CPUs, and each CPU has a network.
    pub both_cpus: bool,
    /// On how many CPUs servers run, with `both_cpus` clients as well. `None`: on all that the lab has.
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
    /// One of those on which the server runs, or the clients. The sender interrupts it, which a virtual
    /// machine makes dearer than all else that a small reply costs. With `both_cpus` each network has its own
    /// CPU for it.
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

impl Receive {
    /// Older journals know nothing else, and have it unsaid.
    pub fn is_receivers(&self) -> bool {
        *self == Self::Receiver
    }

    /// Whether the point chooses among the servers' CPUs.
    pub(crate) fn is_chosen(self) -> bool {
        matches!(self, Self::One | Self::Spread)
    }
}

impl Rules {
    /// Whether they are those of a point that says nothing of them.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What points may set, or the file for all of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSetting {
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

impl WrittenSetting {
    /// # Errors
    /// What is not understood, and under which key.
    pub(super) fn of(table: Table) -> Result<Self, String> {
        table.try_into().map_err(|error| error.to_string().trim().replace('\n', ", "))
    }

    pub(super) fn setting(self, workload: Workload, load: Load) -> Result<Setting, String> {
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
