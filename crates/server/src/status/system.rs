//! Values from the kernel: about the server's processes (proc(5)), and about all listening TCP sockets of
//! its network namespace.

use machine::Machine;
use machine::process::open_descriptors;
use machine::queue_drops::{CAUSES, QueueDrops};
use machine::text::number;
use results::status::{Kernel, KernelRates, Process, Snapshot};

use crate::counters::Kind;

/// Every value that does not belong to a worker, in display order.
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

/// A current value of the processes.
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
    /// The name in JSON. Prometheus puts the group before it.
    pub name: &'static str,
    /// One sentence of help, without the full stop.
    pub help: &'static str,
    /// How the value behaves over time.
    pub kind: Kind,
    value: Find,
    rate: fn(&KernelRates) -> Option<f64>,
}

/// Finds a value. `None`: this kernel, or container, does not provide it.
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

    /// The value. `None`: this kernel, or container, does not provide it.
    pub fn value(&self, snapshot: &Snapshot) -> Option<u64> {
        match self.value {
            Find::Process(find) => find(&snapshot.process),
            Find::Kernel(find) => find(&snapshot.kernel),
        }
    }

    /// The growth rate, if the value is a counter.
    pub fn rate(&self, snapshot: &Snapshot) -> Option<f64> {
        (self.rate)(&snapshot.kernel_per_second)
    }
}

/// What a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// All processes of the server together: supervisor, workers, and the process that answers.
    Process,
    /// All TCP sockets of the network namespace.
    Kernel,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 2] = [Self::Process, Self::Kernel];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Kernel => "kernel",
        }
    }

    /// The prefix of the names in Prometheus. Every exporter uses `process_` for these values.
    pub fn prometheus_prefix(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Kernel => "sluice_kernel",
        }
    }
}

/// Reads all current values, for the processes with these ids.
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

/// The contents of the kernel's files. A file that cannot be read is empty.
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
    /// `None` if the process belongs to another user, or has given up root since it started.
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
            // A process that has just ended has no files.
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
