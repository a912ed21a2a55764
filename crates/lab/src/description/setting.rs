//! The settings of points, which an experiment's file may also set for all points: load, CPUs, disk,
//! lengths.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::Table;

use crate::description::classes::{self, CLASS};
use crate::description::lengths::Lengths;
use crate::description::load::Load;
use crate::description::slow_cpu::SlowCpu;
use crate::description::tool::Tool;
use crate::description::workload::Workload;
use crate::description::written::{Size, Time, within};
use crate::servers::tls::{Cipher, Group, Key};
use crate::servers::{Application, Tls, Version};

/// What a trial needs to know besides its server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// How the servers of a point are measured.
    pub order: Order,
    /// What clients request.
    pub workload: Workload,
    /// How much load there is.
    pub load: Load,
    /// The load generator.
    #[serde(skip_serializing_if = "Tool::is_sluicelab")]
    pub generator: Tool,
    /// More options of `sluicelab load`, for clients that come at a rate.
    pub clients: Vec<String>,
    /// The application to which servers pass requests.
    pub application: Option<Application>,
    /// The TLS that servers and clients speak; `None`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Memory of the server with its page cache, in bytes; with `disk`.
    pub memory: Option<u64>,
    /// Bytes per second that may be read from the disk.
    pub disk: Option<u64>,
    /// How many extra readers use the disk meanwhile.
    pub others: u32,
    /// Whether files are dropped from the page cache before, rather than read into it.
    pub cold: bool,
    /// The part of its CPU that a server has, in percent. `None`: all of it.
    pub share: Option<f64>,
    /// The quantum: how long a server has its share at a time, in microseconds.
    pub turn_us: u32,
    /// How much of its CPU a server does not get. `None`: it gets all of it, or its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_cpu: Option<SlowCpu>,
    /// Whether servers and clients run on all CPUs, and each CPU has a network.
    pub both_cpus: bool,
    /// On how many CPUs servers run; with `both_cpus` clients as well. `None`: on all that the lab has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Which CPU does the work of receiving a packet.
    #[serde(skip_serializing_if = "Receive::is_receivers")]
    pub receive: Receive,
    /// The rules that decide whether a trial has failed.
    #[serde(skip_serializing_if = "Rules::are_usual")]
    pub rules: Rules,
    /// The part of the time, in percent, that a generator may wait for its CPU. `None`: the default of
    /// `sluicelab load`.
    pub may_wait: Option<u32>,
    /// The lengths of the parts of a run.
    pub lengths: Lengths,
}

/// The CPU that does the work of receiving a packet: finding its socket, and waking the process that waits
/// for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Receive {
    /// The CPU that sent it, as on the loopback interface.
    Sender,
    /// A CPU on which the receiving program runs, server or clients. The sender interrupts that CPU. In a
    /// virtual machine this costs more than all else about a small reply. With `both_cpus` each network has
    /// its own CPU for it.
    Receiver,
    /// The first of the servers' CPUs.
    One,
    /// All of the servers' CPUs, connections by their hash.
    Spread,
}

/// How the servers of a point are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The lab starts all servers and loads them one after the other, in slices of the measured time.
    Interleaved,
    /// Blocks of three servers run at the same time, with the first server in each. What the machine does to
    /// one server it does to all in the block.
    #[serde(rename = "abreast")]
    Concurrent,
    /// The lab starts each server only when its turn comes.
    #[serde(rename = "in-turn")]
    Sequential,
}

/// The rules of a paper, which decide whether a trial has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Rules {
    /// The rules of Harji and others 2012.
    #[default]
    H12,
    /// The rules of Pariag and others 2007.
    P07,
    /// None, for papers that state no rules.
    #[serde(rename = "none")]
    None,
}

impl Receive {
    /// Whether this is [`Receive::Receiver`]. Older journals have no other choice, and leave it out.
    pub fn is_receivers(&self) -> bool {
        *self == Self::Receiver
    }

    /// Whether one of the choices among the servers' CPUs is set.
    pub(crate) fn is_chosen(self) -> bool {
        matches!(self, Self::One | Self::Spread)
    }
}

impl Rules {
    /// Whether these are the default rules.
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// The settings as written, in a point or in the file for all points.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSetting {
    application: Option<Application>,
    generator: Option<Tool>,
    clients: Option<Vec<String>>,
    tls: Option<bool>,
    tls_version: Option<Version>,
    tls_group: Option<Group>,
    tls_cipher: Option<Cipher>,
    tls_resumption: Option<bool>,
    tls_key: Option<Key>,
    order: Option<Order>,
    memory: Option<Size>,
    disk: Option<Size>,
    others: Option<u32>,
    cold: Option<bool>,
    share: Option<f64>,
    turn_us: Option<u32>,
    slow_cpu: Option<SlowCpu>,
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
    /// The key, and its mistake.
    pub(super) fn of(table: Table) -> Result<Self, String> {
        table.try_into().map_err(|error| error.to_string().trim().replace('\n', ", "))
    }

    /// The TLS that is asked for.
    fn tls(&self) -> Result<Option<Tls>, String> {
        let Self { tls, tls_version: version, tls_group: group, tls_cipher: cipher, .. } = self;
        if *tls == Some(true) {
            return Tls::of(*version, *group, *cipher, self.tls_resumption, self.tls_key).map(Some);
        }
        let set = [
            version.map(|version| ("tls_version", version.to_string())),
            group.map(|group| ("tls_group", group.to_string())),
            cipher.map(|cipher| ("tls_cipher", cipher.to_string())),
            self.tls_resumption.map(|resumption| ("tls_resumption", resumption.to_string())),
            self.tls_key.map(|key| ("tls_key", key.name().to_owned())),
        ];
        match set.into_iter().flatten().next() {
            Some((key, value)) if tls.is_none() => {
                Err(format!("{key}: {value} is set, and tls is not; allowed: with tls = true"))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn setting(self, workload: Workload, load: Load) -> Result<Setting, String> {
        let time = |time: Option<Time>, usual| time.map_or(Duration::from_millis(usual), |time| time.0);
        if self.memory.is_some() != self.disk.is_some() {
            return Err("memory and disk must be set together".to_owned());
        }
        let tls = self.tls()?;
        let lengths = Lengths {
            warm_up: time(self.warm_up, 1_000),
            measured: time(self.measured, 4_000),
            timeout: time(self.timeout, 5_000),
            slices: within("slices", self.slices.unwrap_or(4), 1, 100)?,
        };
        if lengths.measured < Duration::from_millis(200) {
            return Err("measured must be at least 200ms".to_owned());
        }
        if let Some(share) = self.share.filter(|share| !(3.0..=50.0).contains(share)) {
            return Err(format!("share: {share} is not allowed; allowed: 3 to 50 (percent of a CPU)"));
        }
        let clients = self.clients.unwrap_or_default();
        check_clients(&clients, load)?;
        if tls.is_some() && workload.idle > 0 {
            return Err(format!(
                "workload: idle={}, and idle clients make no handshake; allowed with tls: workloads without \
                 idle",
                workload.idle
            ));
        }
        // Files that one server has read would be in memory for the others.
        let cold = self.cold.unwrap_or(self.disk.is_some());
        let order = match (self.order, cold || self.memory.is_some()) {
            (None, false) => Order::Interleaved,
            (None | Some(Order::Sequential), true) => Order::Sequential,
            (Some(_), true) => {
                return Err("order: for servers that read from a disk only 'in-turn' is allowed".to_owned());
            }
            (Some(order), false) => order,
        };
        if self.share.is_some() && self.both_cpus == Some(true) {
            return Err("share: a share is a part of one CPU; allowed: without both_cpus".to_owned());
        }
        if let Some(cpus) = self.cpus {
            within("cpus", cpus, 1, 1_024)?;
            if self.share.is_some() && cpus > 1 {
                return Err(format!("cpus: {cpus}, and a share is a part of one CPU; allowed with share: 1"));
            }
        }
        let both_cpus = self.both_cpus.unwrap_or(false);
        let receive = match (self.receive, both_cpus, &load) {
            (Some(Receive::Sender), true, _) => {
                let why = "with both_cpus each CPU receives for its own address";
                return Err(format!("receive: {why}; allowed: 'receiver'"));
            }
            (Some(receive), ..) => receive,
            // Otherwise clients would pay for packets that the server drops.
            (None, true, _) | (None, _, Load::Times(_)) => Receive::Receiver,
            (None, false, _) => Receive::Sender,
        };
        if order == Order::Concurrent && self.share.is_none() {
            return Err("order: concurrent servers need a share".to_owned());
        }
        let generator = self.generator.unwrap_or_default();
        let setting = Setting {
            order,
            workload,
            load,
            generator,
            clients,
            application: self.application,
            tls,
            memory: self.memory.map(|size| size.0),
            disk: self.disk.map(|size| size.0),
            others: within("others", self.others.unwrap_or(0), 0, 64)?,
            cold,
            share: self.share,
            turn_us: within("turn_us", self.turn_us.unwrap_or(500), 20, 10_000)?,
            slow_cpu: self.slow_cpu,
            both_cpus,
            cpus: self.cpus,
            receive,
            rules: self.rules.unwrap_or_default(),
            may_wait: self.may_wait.map(|percent| within("may_wait", percent, 0, 100)).transpose()?,
            lengths,
        };
        setting.check_slow_cpu()?;
        match generator {
            Tool::Sluicelab => {
                let workload = setting.workload.at(!matches!(load, Load::Sessions(_)));
                Ok(Setting { workload, ..setting })
            }
            Tool::Wrk { .. } => setting.for_wrk(),
        }
    }
}

/// Checks the options for clients.
fn check_clients(clients: &[String], load: Load) -> Result<(), String> {
    if let Some(word) = clients.iter().find(|word| !word.starts_with("--")) {
        return Err(format!(
            "clients: {word:?} is not allowed; allowed: options of sluicelab load, such as \
             '--on-timeout=retry'"
        ));
    }
    let has_classes = clients.iter().any(|option| option.starts_with(CLASS));
    if has_classes && !matches!(load, Load::Rate(_) | Load::Classes) {
        return Err(format!(
            "clients: each class has its own rate, and the load is {load}; allowed with classes: \
             'classes', or the sum of their rates, such as '500 requests/s'"
        ));
    }
    if load == Load::Classes && !has_classes {
        return Err(format!("load: {load}, and clients has none; allowed: with '{CLASS}...' in clients"));
    }
    let multiples = classes::multiples(clients).map_err(|error| format!("clients: {error}"))?;
    if let Some(multiple) = multiples.first().filter(|_| load != Load::Classes) {
        return Err(format!(
            "clients: the rate of {} is a multiple, and the load is {load}; allowed with multiples: \
             'classes'",
            multiple.name
        ));
    }
    let is_of_tls = |word: &&String| {
        let name = word.split('=').next().unwrap_or_default();
        name.starts_with("--tls-") || ["--roots", "--insecure", "--resumption"].contains(&name)
    };
    if let Some(word) = clients.iter().find(is_of_tls) {
        return Err(format!(
            "clients: {word:?} is not allowed; allowed: the keys tls, tls_version, tls_group, tls_cipher, \
             tls_resumption and tls_key, which hold for servers as well"
        ));
    }
    Ok(())
}

impl Setting {
    /// Checks that a slow CPU is the only one of a single server.
    fn check_slow_cpu(&self) -> Result<(), String> {
        let Some(slow_cpu) = self.slow_cpu else { return Ok(()) };
        let others = [
            (self.share.is_some(), "share"),
            (self.both_cpus, "both_cpus"),
            (self.cpus.is_some_and(|cpus| cpus > 1), "cpus above 1"),
        ];
        let Some((_, key)) = others.into_iter().find(|(is_set, _)| *is_set) else { return Ok(()) };
        Err(format!("slow_cpu: '{slow_cpu}' is for one CPU of one server; allowed: without {key}"))
    }

    /// The setting itself, if trials with wrk can have it.
    fn for_wrk(self) -> Result<Self, String> {
        let Self { workload, load, lengths, .. } = &self;
        let slice = lengths.measured / lengths.slices;
        let is_whole = !slice.is_zero() && slice.subsec_nanos() == 0;
        let has_calls = workload.has_calls();
        let others = [
            (self.application.is_some(), "application"),
            (self.tls.is_some(), "tls"),
            (self.both_cpus, "both_cpus"),
            (self.may_wait.is_some(), "may_wait"),
            (!self.rules.are_usual(), "rules"),
            (self.order == Order::Concurrent, "order = 'abreast'"),
        ];
        let wrong = if !matches!(load, Load::Sessions(_)) {
            format!(
                "load: wrk sends the next request after each reply, and the load is {load}; allowed with \
                 wrk: '64 sessions'"
            )
        } else if !workload.asks_for_one_file() || has_calls {
            format!(
                "workload: wrk requests one file repeatedly, and the workload is {workload}; allowed with \
                 wrk: \
                 one-packet, single, fixed with bytes=SIZE, and paths with one path, each without calls"
            )
        } else if !is_whole {
            format!(
                "measured: {:?} in {} slices is not allowed with wrk; allowed: whole seconds in each slice",
                lengths.measured, lengths.slices
            )
        } else if let Some((_, key)) = others.into_iter().find(|(is_set, _)| *is_set) {
            format!("generator: wrk does not support {key}; allowed with {key}: the generator sluicelab")
        } else {
            return Ok(self);
        };
        Err(wrong)
    }
}
