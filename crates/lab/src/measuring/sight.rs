//! Reads the counters of a server, its CPUs and its network from outside, at one moment.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};
use machine::cpu::CpuTicks;
use machine::{Machine, network, process};
use results::status::Snapshot;

use crate::measuring::bounds::Bounded;
use crate::measuring::counter::Calls;
use crate::measuring::generator::Edge;
use crate::measuring::subject::Subject;
use crate::programs::launcher;

/// Counters at one moment.
pub(crate) struct Sight {
    pub(crate) at: Instant,
    /// The status of sluice.
    pub(crate) status: Option<Snapshot>,
    /// What its application has computed: requests, and the seconds that these took.
    pub(crate) work: Option<(f64, f64)>,
    pub(crate) drops: BTreeMap<String, u64>,
    /// Whether the server's processes are known. The next figures are those of the processes.
    pub(crate) is_seen: bool,
    pub(crate) server_ns: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    pub(crate) switches: u64,
    /// The system calls, if they are counted.
    pub(crate) calls: Option<Calls>,
    pub(crate) server_cpu: CpuTicks,
    pub(crate) client_cpu: CpuTicks,
    pub(crate) read: u64,
    /// How many processes the kernel has killed for lack of memory, since the server began.
    pub(crate) killed: u64,
    /// Read only at the end of the measured window. Reading takes enough CPU time to delay one request in a
    /// hundred of that window.
    pub(crate) held: Option<Held>,
}

/// The server's resources at one moment.
pub(crate) struct Held {
    pub(crate) memory: u64,
    pub(crate) descriptors: u64,
    pub(crate) page_cache: u64,
}

impl Sight {
    /// Time-critical counters come first, because reading the status and memory takes a while.
    pub(crate) fn of(
        edge: Edge,
        server: &Subject,
        bounded: Option<&Bounded>,
        server_cpus: &[usize],
        client_cpus: &[usize],
    ) -> Result<Self> {
        let processes = server.processes()?;
        let at = Instant::now();
        let work = server.work();
        // If a worker ends, its time moves to its parent.
        let time = |pid| Ok(process::cpu_time_ns(pid)? + process::waited_children_cpu_ns(pid)?);
        let server_ns = launcher::sum(&processes, time)?;
        let cpu =
            |cpus: &[usize]| Machine::this().cpu_ticks_of(cpus).with_context(|| format!("no CPUs {cpus:?}"));
        let (server_cpu, client_cpu) = (cpu(server_cpus)?, cpu(client_cpus)?);
        let drops = drops(server.id())?;
        let status = server.status()?;
        Ok(Self {
            at,
            status,
            work,
            drops,
            is_seen: !processes.is_empty(),
            server_ns,
            user_ticks: launcher::sum(&processes, |pid| Ok(process::cpu_ticks(pid)?.0))?,
            system_ticks: launcher::sum(&processes, |pid| Ok(process::cpu_ticks(pid)?.1))?,
            switches: launcher::sum(&processes, process::context_switches)?,
            calls: None,
            server_cpu,
            client_cpu,
            read: launcher::sum(&processes, process::bytes_read)?,
            killed: bounded.map_or(Ok(0), Bounded::killed)?,
            held: (edge == Edge::End).then(|| Held::by(&processes, bounded)).transpose()?,
        })
    }

    /// The seconds between an earlier reading and this one.
    pub(crate) fn seconds_since(&self, earlier: &Self) -> f64 {
        (self.at - earlier.at).as_secs_f64()
    }
}

impl Held {
    fn by(processes: &[u32], bounded: Option<&Bounded>) -> Result<Self> {
        // Memory of another user's process may not be readable.
        let memory = |pid| machine::memory::Usage::of(pid).map_or(0, |usage| usage.proportional);
        Ok(Self {
            memory: processes.iter().copied().map(memory).sum(),
            descriptors: launcher::sum(processes, process::open_descriptors)?,
            page_cache: match bounded {
                Some(bounded) => bounded.page_cache()?,
                None => Machine::this().page_cache().unwrap_or(0),
            },
        })
    }
}

/// The kernel's counters of dropped connections in `TcpExt`, and their names in the status of sluice and in
/// `sluicelab load`. These two do not have the last three.
const DROPS: [(&str, &str); 8] = [
    ("ListenOverflows", "listen_overflows"),
    ("ListenDrops", "listen_drops"),
    ("TCPReqQFullDrop", "req_queue_full_drops"),
    ("TCPReqQFullDoCookies", "req_queue_full_cookies"),
    ("SyncookiesSent", "syn_cookies_sent"),
    ("SyncookiesRecv", "syn_cookies_received"),
    ("SyncookiesFailed", "syn_cookies_failed"),
    ("TCPAbortOnTimeout", "aborts_on_timeout"),
];
/// The name for packets that were dropped before a CPU's backlog.
const SOFTNET: &str = "softnet_drops";

/// The drops in the network namespace of process `pid`.
fn drops(pid: u32) -> Result<BTreeMap<String, u64>> {
    let netstat = fs::read_to_string(format!("/proc/{pid}/net/netstat"))?;
    let of = |(counter, name): &(&str, &str)| {
        Some(((*name).to_owned(), network::tcp_extension(&netstat, counter)?))
    };
    let mut drops: BTreeMap<String, u64> = DROPS.iter().filter_map(of).collect();
    let softnet = fs::read_to_string("/proc/net/softnet_stat")?;
    drops.insert(SOFTNET.to_owned(), network::softnet_drops(&softnet));
    Ok(drops)
}
