//! What the kernel tells: of the server's processes (proc(5)) and of all listening TCP sockets of its network
//! namespace.

use machine::Machine;
use machine::process::open_descriptors;
use machine::queue_drops::{CAUSES, QueueDrops};
use machine::text::number;
use results::status::{Kernel, KernelRates, Process, Snapshot};

use crate::counters::Kind;

/// Every value that is not a worker's, in the order in which people see them.
pub static SYSTEM: &[SystemMetric] = &[
    process("open_fds", "Open descriptors", |process| process.open_fds),
    process("max_fds", "Most descriptors that may be open in one process", |process| process.max_fds),
    process("resident_memory_bytes", "Memory in use, pages shared with others included", |process| {
        process.resident_memory_bytes
    }),
    process("shared_memory_bytes", "The part of it that is shared with other processes", |process| {
        process.shared_memory_bytes
    }),
    process("threads", "Threads", |process| process.threads),
    queue_drops::<0>(),
    queue_drops::<1>(),
    queue_drops::<2>(),
    queue_drops::<3>(),
    queue_drops::<4>(),
    queue_drops::<5>(),
    queue_drops::<6>(),
    SystemMetric {
        name: "tcp_syncookies",
        help: "net.ipv4.tcp_syncookies: 0 drops SYNs when a SYN queue is full, 1 answers them with cookies, \
               2 always does",
        kind: Kind::Gauge,
        value: Find::Kernel(|kernel| kernel.tcp_syncookies),
        rate: |_| None,
    },
    SystemMetric {
        name: "tcp_abort_on_overflow",
        help: "net.ipv4.tcp_abort_on_overflow: 1 resets clients whose handshake ends when the accept queue \
               is full",
        kind: Kind::Gauge,
        value: Find::Kernel(|kernel| kernel.tcp_abort_on_overflow),
        rate: |_| None,
    },
];

/// What the processes have now.
const fn process(name: &'static str, help: &'static str, find: fn(&Process) -> Option<u64>) -> SystemMetric {
    SystemMetric { name, help, kind: Kind::Gauge, value: Find::Process(find), rate: |_| None }
}

/// The row of one of [`CAUSES`].
const fn queue_drops<const PLACE: usize>() -> SystemMetric {
    SystemMetric {
        name: CAUSES[PLACE].name,
        help: CAUSES[PLACE].help,
        kind: Kind::Counter,
        value: Find::Kernel(|kernel| kernel.drops.each()[PLACE]),
        rate: |rates| rates.drops.each()[PLACE],
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct SystemMetric {
    /// As in JSON; Prometheus puts the group before it.
    pub name: &'static str,
    /// One sentence for people, without the full stop.
    pub help: &'static str,
    /// How the value behaves over time.
    pub kind: Kind,
    value: Find,
    rate: fn(&KernelRates) -> Option<f64>,
}

/// Finds a value. `None`: this kernel, or container, does not tell.
#[derive(Debug)]
enum Find {
    Process(fn(&Process) -> Option<u64>),
    Kernel(fn(&Kernel) -> Option<u64>),
}

impl SystemMetric {
    /// What the value belongs to.
    pub fn group(&self) -> Group {
        match self.value {
            Find::Process(_) => Group::Process,
            Find::Kernel(_) => Group::Kernel,
        }
    }

    /// The value. `None`: this kernel, or container, does not tell.
    pub fn value(&self, snapshot: &Snapshot) -> Option<u64> {
        match self.value {
            Find::Process(find) => find(&snapshot.process),
            Find::Kernel(find) => find(&snapshot.kernel),
        }
    }

    /// How fast it grows, if it is a counter.
    pub fn rate(&self, snapshot: &Snapshot) -> Option<f64> {
        (self.rate)(&snapshot.kernel_per_second)
    }
}

/// What a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// All processes of the server taken together: supervisor, workers, and the one that answers.
    Process,
    /// All TCP sockets of the network namespace.
    Kernel,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 2] = [Self::Process, Self::Kernel];

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Kernel => "kernel",
        }
    }

    /// What Prometheus names begin with. `process_` is what every exporter calls these values.
    pub fn prometheus_prefix(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Kernel => "sluice_kernel",
        }
    }
}

/// Reads all values now, for the processes with these ids.
pub fn read(processes: &[u32]) -> (Process, Kernel) {
    let files = Files::read(processes);
    let process = Process {
        open_fds: files.sum(|process| process.open_descriptors),
        max_fds: number(&files.limits, "Max open files"),
        resident_memory_bytes: files.sum(|process| Some(number(&process.status, "VmRSS:")? * 1024)),
        shared_memory_bytes: files.sum(|process| Some(number(&process.status, "RssShmem:")? * 1024)),
        threads: files.sum(|process| number(&process.status, "Threads:")),
    };
    let kernel = Kernel {
        drops: files.queue_drops.counts.into(),
        tcp_syncookies: files.syncookies,
        tcp_abort_on_overflow: files.abort_on_overflow,
    };
    (process, kernel)
}

/// The kernel's files; empty where they can't be read.
#[derive(Debug)]
struct Files {
    processes: Vec<ProcessFiles>,
    limits: String,
    queue_drops: QueueDrops,
    syncookies: Option<u64>,
    abort_on_overflow: Option<u64>,
}

#[derive(Debug)]
struct ProcessFiles {
    status: String,
    /// `None` where the process belongs to somebody else, or has given up root since it was started.
    open_descriptors: Option<u64>,
}

impl Files {
    fn read(processes: &[u32]) -> Self {
        let machine = Machine::this();
        let text = |path: &str| machine.text(path).unwrap_or_default();
        let process = |pid: &u32| ProcessFiles {
            status: text(&format!("/proc/{pid}/status")),
            open_descriptors: open_descriptors(*pid).ok(),
        };
        Self {
            // One that has just ended is not there any more.
            processes: processes.iter().map(process).filter(|files| !files.status.is_empty()).collect(),
            limits: text("/proc/self/limits"),
            queue_drops: QueueDrops::here(),
            syncookies: machine.number_setting("net.ipv4.tcp_syncookies"),
            abort_on_overflow: machine.number_setting("net.ipv4.tcp_abort_on_overflow"),
        }
    }

    fn sum(&self, value: impl Fn(&ProcessFiles) -> Option<u64>) -> Option<u64> {
        self.processes.iter().map(value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_tells_every_value() {
        let (process, kernel) = read(&[std::process::id()]);
        let snapshot = Snapshot { process, kernel, ..Snapshot::default() };
        for metric in SYSTEM {
            assert!(metric.value(&snapshot).is_some(), "{}", metric.name);
        }
    }
}
