//! What the kernel tells: of the server's processes (proc(5)) and of all listening TCP sockets of its network
//! namespace.

use machine::Machine;
use machine::process::open_descriptors;
use machine::queue_drops::{CAUSES, QueueDrops};
use machine::text::number;

use crate::counters::Kind;

/// Every value that is not a worker's, in the order in which people see them.
pub static SYSTEM: &[SystemMetric] = &[
    process("open_fds", "Open descriptors", |files| files.sum(|process| process.open_descriptors)),
    process("max_fds", "Most descriptors that may be open in one process", |files| {
        number(&files.limits, "Max open files")
    }),
    process("resident_memory_bytes", "Memory in use, pages shared with others included", |files| {
        files.sum(|process| Some(number(&process.status, "VmRSS:")? * 1024))
    }),
    process("shared_memory_bytes", "The part of it that is shared with other processes", |files| {
        files.sum(|process| Some(number(&process.status, "RssShmem:")? * 1024))
    }),
    process("threads", "Threads", |files| files.sum(|process| number(&process.status, "Threads:"))),
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
        group: Group::Kernel,
        kind: Kind::Gauge,
        find: |files| files.syncookies,
    },
    SystemMetric {
        name: "tcp_abort_on_overflow",
        help: "net.ipv4.tcp_abort_on_overflow: 1 resets clients whose handshake ends when the accept queue \
               is full",
        group: Group::Kernel,
        kind: Kind::Gauge,
        find: |files| files.abort_on_overflow,
    },
];

/// What the processes have now.
const fn process(name: &'static str, help: &'static str, find: fn(&Files) -> Option<u64>) -> SystemMetric {
    SystemMetric { group: Group::Process, name, help, kind: Kind::Gauge, find }
}

/// The row of one of [`CAUSES`].
const fn queue_drops<const PLACE: usize>() -> SystemMetric {
    SystemMetric {
        group: Group::Kernel,
        name: CAUSES[PLACE].name,
        help: CAUSES[PLACE].help,
        kind: Kind::Counter,
        find: |files| files.queue_drops.counts[PLACE],
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct SystemMetric {
    /// What the value belongs to.
    pub group: Group,
    /// As in JSON; Prometheus puts the group before it.
    pub name: &'static str,
    /// One sentence for people, without the full stop.
    pub help: &'static str,
    /// How the value behaves over time.
    pub kind: Kind,
    /// Finds the value. `None`: this kernel, or container, does not tell.
    find: fn(&Files) -> Option<u64>,
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

/// Reads all values now, in the order of [`SYSTEM`], for the processes with these ids.
pub fn read(processes: &[u32]) -> Vec<Option<u64>> {
    let files = Files::read(processes);
    SYSTEM.iter().map(|metric| (metric.find)(&files)).collect()
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
        for (metric, value) in SYSTEM.iter().zip(read(&[std::process::id()])) {
            assert!(value.is_some(), "{}", metric.name);
        }
    }
}
