//! What the kernel tells: of the server's processes (proc(5)) and of all listening TCP sockets of its network
//! namespace.

use std::fs;

use sys::queue_drops::{CAUSES, QueueDrops};

use crate::counters::Kind;

/// Every value that is not a worker's, in the order in which people see them.
pub static SYSTEM: &[SystemMetric] = &[
    SystemMetric {
        group: Group::Process,
        name: "open_fds",
        help: "Open descriptors",
        kind: Kind::Gauge,
        find: |files| files.sum(|process| process.open_descriptors),
    },
    SystemMetric {
        group: Group::Process,
        name: "max_fds",
        help: "Most descriptors that may be open in one process",
        kind: Kind::Gauge,
        find: |files| column(line(&files.limits, "Max open files")?, 0),
    },
    SystemMetric {
        group: Group::Process,
        name: "resident_memory_bytes",
        help: "Memory in use, pages shared with others included",
        kind: Kind::Gauge,
        find: |files| files.sum(|process| Some(column(line(&process.status, "VmRSS:")?, 0)? * 1024)),
    },
    SystemMetric {
        group: Group::Process,
        name: "shared_memory_bytes",
        help: "The part of it that is shared with other processes",
        kind: Kind::Gauge,
        find: |files| files.sum(|process| Some(column(line(&process.status, "RssShmem:")?, 0)? * 1024)),
    },
    SystemMetric {
        group: Group::Process,
        name: "threads",
        help: "Threads",
        kind: Kind::Gauge,
        find: |files| files.sum(|process| column(line(&process.status, "Threads:")?, 0)),
    },
    queue_drops::<0>(),
    queue_drops::<1>(),
    queue_drops::<2>(),
    queue_drops::<3>(),
    queue_drops::<4>(),
    queue_drops::<5>(),
    queue_drops::<6>(),
    SystemMetric {
        group: Group::Kernel,
        name: "tcp_syncookies",
        help: "net.ipv4.tcp_syncookies: 0 drops SYNs when a SYN queue is full, 1 answers them with cookies, 2 always does",
        kind: Kind::Gauge,
        find: |files| column(&files.syncookies, 0),
    },
    SystemMetric {
        group: Group::Kernel,
        name: "tcp_abort_on_overflow",
        help: "net.ipv4.tcp_abort_on_overflow: 1 resets clients whose handshake ends when the accept queue is full",
        kind: Kind::Gauge,
        find: |files| column(&files.abort_on_overflow, 0),
    },
];

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
    syncookies: String,
    abort_on_overflow: String,
}

#[derive(Debug)]
struct ProcessFiles {
    status: String,
    open_descriptors: Option<u64>,
}

impl Files {
    fn read(processes: &[u32]) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let process = |pid: &u32| ProcessFiles {
            status: text(&format!("/proc/{pid}/status")),
            open_descriptors: open_descriptors(*pid),
        };
        Self {
            // One that has just ended is not there any more.
            processes: processes.iter().map(process).filter(|files| !files.status.is_empty()).collect(),
            limits: text("/proc/self/limits"),
            queue_drops: QueueDrops::here(),
            syncookies: text("/proc/sys/net/ipv4/tcp_syncookies"),
            abort_on_overflow: text("/proc/sys/net/ipv4/tcp_abort_on_overflow"),
        }
    }

    fn sum(&self, value: impl Fn(&ProcessFiles) -> Option<u64>) -> Option<u64> {
        self.processes.iter().map(value).sum()
    }
}

/// `None` where the process belongs to somebody else, or has given up root since it was started.
///
/// Linux 6.2 and later tell the number as the directory's size. To count its entries is to have the kernel
/// make one for each descriptor, and take them all away when the process ends.
fn open_descriptors(pid: u32) -> Option<u64> {
    let directory = format!("/proc/{pid}/fd");
    match fs::metadata(&directory).ok()?.len() {
        0 => {
            let count = fs::read_dir(directory).ok()?.count() as u64;
            // The listing itself has one open.
            Some(count.saturating_sub(u64::from(pid == std::process::id())))
        }
        count => Some(count),
    }
}

/// What follows `name` in the line that begins with it.
fn line<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

fn column(line: &str, number: usize) -> Option<u64> {
    line.split_ascii_whitespace().nth(number)?.parse().ok()
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

    #[test]
    fn descriptors_are_counted() {
        let open = |values: Vec<Option<u64>>| values[0].unwrap();
        let own = || read(&[std::process::id()]);
        let before = open(own());
        let held: Vec<_> = (0..500).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        // Other tests open and close files meanwhile, but not as many.
        assert!(open(own()) > before + 300, "{before}");
        drop(held);
    }

    #[test]
    fn a_value_is_found_by_its_name() {
        let limits = "Max open files            20000     1048576   files";
        assert_eq!(column(line(limits, "Max open files").unwrap(), 0), Some(20000));
    }
}
