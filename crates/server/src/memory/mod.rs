//! What the memory of a running server consists of, in the form of Harji, Buhr and Brecht 2012 (section
//! 8): an amount for each connection, worker and cached file, and an amount that exists once.
//!
//! ```text
//! memory = c*368 + p*(412,000) + f*1,204 + 1,930,240
//! ```
//!
//! The values come from two sources. The kernel reports what each process uses (`smaps`, proc(5)): its
//! own pages, and its part of the pages that several processes use. So the sum counts shared memory once.
//! The workers report, through the status, what they reserve for connections and files. The rest of a
//! worker's own pages is the worker itself.
//!
//! The sizes of a connection's parts give its memory, and this module checks that value. It takes the
//! growth of the workers since they began to serve, without the files. It divides the growth by the
//! number of connections that there has been room for, and shows the result next to the first value.
//!
//! The kernel's own memory (sockets, their buffers, the page cache) is not included. The paper does not
//! include it either.

mod text;

use std::collections::BTreeSet;
use std::io;

use machine::memory::Usage;
use machine::process::descendants;
use results::status::Snapshot;
use serde::Serialize;

pub use self::text::render;
use crate::config::Architecture;
use crate::status::sum;

/// The memory of a server at one moment. All sizes are bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// The version of these members. It changes when one is removed or gets another meaning.
    pub schema: u32,
    /// As given to `--architecture`.
    pub architecture: String,
    /// `memory = c*... + p*(...) + f*... + ...`
    pub formula: String,
    /// The term of connections.
    pub connections: Connections,
    /// The term of TLS sessions. `None` if no client speaks TLS.
    pub sessions: Option<Sessions>,
    /// The term of user-level threads. `None` if the architecture has none.
    pub threads: Option<Threads>,
    /// The term of workers.
    pub workers: Workers,
    /// The term of cached files.
    pub files: Files,
    /// The part that applications use.
    pub applications: Applications,
    /// What exists once, measured: pages that several processes use, and the pages of the supervisor and
    /// of the process that answers for the status.
    pub once: u64,
    /// The sum of the terms.
    pub sum: u64,
    /// What all processes use, measured. Pages shared with programs other than the server count in part.
    pub measured: u64,
    /// The processes that were measured.
    pub processes: Vec<Process>,
}

/// `c`: the memory of connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Connections {
    /// The number of open connections.
    pub open: u64,
    /// The number of connections that reserved memory has room for: the most that were open at the same
    /// time, and a few more.
    pub places: u64,
    /// Bytes for each, from the sizes of its parts. 0 if the architecture has not reported it.
    pub each: u64,
    /// Bytes for each, from the growth of the workers since they began to serve. Present only if the
    /// growth is large enough to be meaningful.
    pub each_by_growth: Option<u64>,
}

/// `e`: the memory of TLS sessions, beside that of their connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sessions {
    /// Open connections of clients that speak TLS.
    pub open: u64,
    /// Bytes for each while it waits: the state of the session, and what the handshake has established. This
    /// is a constant. It was measured by the growth of a worker.
    pub each: u64,
}

/// `t`: the memory of user-level threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threads {
    /// Threads that exist. As many had a client at the same time at most.
    pub count: u64,
    /// Bytes of a stack that have been used, on average, among those that the workers looked at.
    pub each: u64,
}

/// `p`: the memory of workers, without connections and files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workers {
    /// The number of workers.
    pub count: u64,
    /// Bytes for each: its own pages, measured, without those of connections and files.
    pub each: u64,
    /// Bytes for each when it began to serve, measured.
    pub each_at_start: u64,
}

/// `f`: the memory of cached files. Each worker's table counts by itself; a table that the workers share
/// counts once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Files {
    /// Entries of all tables.
    pub entries: u64,
    /// Bytes for each on average, counted by the tables: path, header lines, and small bodies. `None` if
    /// there are no files.
    pub each: Option<u64>,
}

/// Memory used and reserved for applications. It is not a term of the formula. Bodies and replies are
/// already in the workers' own pages. Pages shared with an application are measured where they were
/// touched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Applications {
    /// Bodies, replies, and all memory shared with applications, used or not, as the workers report.
    /// `gateway.memory` limits it in each worker.
    pub bytes: u64,
}

/// One process of the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// `worker`, `supervisor` or `other`. A process that a worker started counts as a worker.
    pub role: &'static str,
    /// Pages that no other process has.
    pub private: u64,
    /// The private pages that it has written to. They stay private even if another process runs the same
    /// program.
    pub own: u64,
    /// Pages that no other process has, and its part of the pages that others have as well.
    pub proportional: u64,
}

/// The memory could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Its processes are not visible from here.
    #[error(
        "process {pid} of the server is not on this machine, or in another PID namespace: run this where \
         the server runs"
    )]
    NotHere {
        /// The process.
        pid: u32,
    },
    /// This process may not read their memory use.
    #[error(
        "not allowed to inspect process {pid} of the server: run this as root (a server that was started as \
         root \
         and became another user is root's in this respect)"
    )]
    NotPermitted {
        /// The process.
        pid: u32,
    },
    /// Another error.
    #[error("cannot read the memory of process {pid}: {source}")]
    Io {
        /// The process.
        pid: u32,
        /// The error.
        source: io::Error,
    },
}

/// The fewest slots per worker for a meaningful growth. With fewer, other allocations in a worker's first
/// requests hide it.
const TELLING: u64 = 512;

/// What an idle client takes for TLS. A test compares it with the growth of a worker.
const SESSION_BYTES: u64 = 3_300;

/// Measures the server that this status describes. It must run on this machine.
///
/// # Errors
///
/// See [`MeasureError`].
pub fn measure(status: &Snapshot) -> Result<Memory, MeasureError> {
    let workers: BTreeSet<u32> =
        status.workers.iter().map(|worker| worker.pid).filter(|&pid| pid != 0).collect();
    let mut processes = Vec::new();
    let family = descendants(status.pid).map_err(|source| MeasureError::Io { pid: status.pid, source })?;
    for (pid, ancestors) in family {
        let role = if ancestors.iter().any(|pid| workers.contains(pid)) {
            "worker"
        } else if pid == status.pid {
            "supervisor"
        } else {
            "other"
        };
        match Usage::of(pid) {
            Ok(Usage { private, own, proportional }) => {
                processes.push(Process { pid, role, private, own, proportional });
            }
            // A process that has just ended takes no memory, unless it is the one that the status is
            // about.
            Err(error) if is_gone(&error) && pid != status.pid => {}
            Err(error) if is_gone(&error) => return Err(MeasureError::NotHere { pid }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(MeasureError::NotPermitted { pid });
            }
            Err(source) => return Err(MeasureError::Io { pid, source }),
        }
    }
    // The measuring process probably runs the same program. Then the pages of the program's file are
    // divided by one more process.
    let is_one = processes.iter().any(|process| process.pid == std::process::id());
    let lent = if is_one { 0 } else { Usage::here().map_or(0, |usage| usage.proportional - usage.private) };
    Ok(model(status, processes, lent))
}

/// Memory that the calling process has written to and shares with no other process.
///
/// # Errors
///
/// The kernel does not report it.
pub fn own_bytes() -> io::Result<u64> {
    Ok(Usage::here()?.own)
}

/// Reading the file of a process that ends gives `ESRCH`.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || sys::process::is_gone(error)
}

/// Divides the measured memory among the terms. `lent` is the part of shared pages that fell to the
/// measuring process.
fn model(status: &Snapshot, processes: Vec<Process>, lent: u64) -> Memory {
    let told = sum(status.workers.iter().map(|worker| &worker.counts));

    let count = status.workers.len().max(1) as u64;
    let (places, each_connection) = (told.connection_places, told.connection_bytes);
    let (entries, in_tables) = (told.file_table_entries, told.file_table_memory_bytes);
    let own: u64 =
        processes.iter().filter(|process| process.role == "worker").map(|process| process.own).sum();
    let measured = processes.iter().map(|process| process.proportional).sum::<u64>() + lent;

    // A table that workers share is in the own pages of none of them.
    let is_shared = status.architecture == Architecture::SharedSymped.name();
    let (of_workers, in_common) = if is_shared { (0, in_tables) } else { (in_tables, 0) };
    let stacks = told.user_thread_stacks_bytes;
    let threads = (told.user_threads > 0)
        .then(|| Threads { count: told.user_threads, each: stacks / told.user_threads });
    let open_sessions = told.tls_connections;
    let sessions = (open_sessions > 0).then_some(Sessions { open: open_sessions, each: SESSION_BYTES });
    let of_sessions = open_sessions * SESSION_BYTES;
    let growth = own.saturating_sub(told.start_memory_bytes + of_workers + stacks + of_sessions);
    let each_by_growth = (places >= TELLING * count).then(|| growth / places);
    let each_file = in_tables.checked_div(entries);
    let each_worker =
        own.saturating_sub(places * each_connection + of_workers + stacks + of_sessions) / count;
    let once = measured.saturating_sub(own + in_common);
    let of_threads = threads.as_ref().map_or_else(String::new, |t| format!(" + t*{}", text::grouped(t.each)));
    let of_tls = sessions.as_ref().map_or_else(String::new, |s| format!(" + e*{}", text::grouped(s.each)));
    let files = each_file.map_or_else(String::new, |each| format!(" + f*{}", text::grouped(each)));
    Memory {
        schema: 1,
        architecture: status.architecture.clone(),
        formula: format!(
            "memory = c*{}{of_tls}{of_threads} + p*({}){files} + {}",
            text::grouped(each_connection),
            text::grouped(each_worker),
            text::grouped(once)
        ),
        connections: Connections {
            open: told.connections.sum(),
            places,
            each: each_connection,
            each_by_growth,
        },
        sessions,
        threads,
        workers: Workers { count, each: each_worker, each_at_start: told.start_memory_bytes / count },
        files: Files { entries, each: each_file },
        applications: Applications { bytes: told.application_memory_bytes },
        once,
        sum: places * each_connection
            + of_sessions
            + stacks
            + count * each_worker
            + entries * each_file.unwrap_or(0)
            + once,
        measured,
        processes,
    }
}

/// The memory as JSON, indented.
pub fn json(memory: &Memory) -> String {
    // Strings, numbers and lists of them can always be written as JSON.
    serde_json::to_string_pretty(memory).unwrap_or_default() + "\n"
}

impl Memory {
    /// The result of the formula for these numbers, with as many TLS sessions and user-level threads as there
    /// are now.
    pub fn predict(&self, connections: u64, workers: u64, files: u64) -> u64 {
        connections * self.connections.each
            + workers * self.workers.each
            + files * self.files.each.unwrap_or(0)
            + self.sessions.as_ref().map_or(0, |sessions| sessions.open * sessions.each)
            + self.threads.as_ref().map_or(0, |threads| threads.count * threads.each)
            + self.once
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::counters::{ConnectionState, Counters, METRICS, told};
    use crate::status::tests::sample;

    /// Two workers with 1,024 slots of 368 bytes and 10 files of 1,500 bytes each, a supervisor, and a
    /// process that answers.
    pub(crate) fn memory() -> Memory {
        memory_of("sped")
    }

    fn memory_of(architecture: &str) -> Memory {
        let mut status = sample();
        status.architecture = architecture.to_owned();
        let counters = Counters::default();
        counters.connections[ConnectionState::Idle as usize].set(1000);
        counters.connection_places.set(1024);
        counters.connection_bytes.set(368);
        counters.file_table_entries.set(10);
        counters.file_table_memory_bytes.set(15_000);
        counters.start_memory_bytes.set(300_000);
        counters.application_memory_bytes.set(1 << 20);
        for worker in &mut status.workers {
            worker.counts = told(METRICS, &counters);
        }
        let process =
            |pid, role, own| Process { pid, role, private: own + 50_000, own, proportional: own + 200_000 };
        let processes = vec![
            process(4711, "supervisor", 100_000),
            process(4712, "worker", 700_000),
            process(4713, "worker", 720_000),
            process(4714, "other", 90_000),
        ];
        model(&status, processes, 10_000)
    }

    #[test]
    fn what_was_measured_is_divided_among_the_terms() {
        let memory = memory();
        assert_eq!(
            (memory.connections.open, memory.connections.places, memory.connections.each),
            (2000, 2048, 368)
        );
        // (1,420,000 - 600,000 - 30,000) / 2,048
        assert_eq!(memory.connections.each_by_growth, Some(385));
        assert_eq!(memory.files, Files { entries: 20, each: Some(1500) });
        // (1,420,000 - 2,048 * 368 - 30,000) / 2
        assert_eq!(memory.workers, Workers { count: 2, each: 318_168, each_at_start: 300_000 });
        assert_eq!((memory.once, memory.applications.bytes), (1_000_000, 2 << 20));
        assert_eq!((memory.sum, memory.measured), (2_420_000, 2_420_000));
        assert_eq!(memory.formula, "memory = c*368 + p*(318,168) + f*1,500 + 1,000,000");
        assert_eq!(memory.predict(2048, 2, 20), memory.sum);
        assert_eq!(memory.predict(3048, 3, 20), memory.sum + 1000 * 368 + 318_168);
    }

    #[test]
    fn a_table_that_workers_share_is_not_theirs() {
        let (own, shared) = (memory_of("symped"), memory_of("shared-symped"));
        assert_eq!((shared.files, shared.connections.each), (own.files, own.connections.each));
        assert_eq!(shared.workers.each, own.workers.each + 15_000);
        assert_eq!(shared.once, own.once - 30_000);
        assert_eq!((shared.sum, shared.measured), (own.sum, own.measured));
    }

    #[test]
    fn a_server_that_has_done_nothing_has_no_term_of_files_and_no_growth() {
        let process = Process { pid: 4712, role: "worker", private: 12, own: 10, proportional: 30 };
        let memory = model(&sample(), vec![process], 0);
        assert_eq!((memory.files.each, memory.connections.each_by_growth), (None, None));
        assert_eq!(memory.formula, "memory = c*0 + p*(5) + 20");
    }

    #[test]
    fn a_server_that_is_not_here_is_an_error() {
        let mut status = sample();
        status.pid = u32::MAX;
        let error = measure(&status).unwrap_err().to_string();
        assert!(error.contains("is not on this machine"), "{error}");
    }

    #[test]
    fn this_process_can_be_measured() {
        let mut status = sample();
        status.pid = std::process::id();
        let memory = measure(&status).unwrap();
        assert!(memory.measured > 100_000 && memory.processes[0].role == "supervisor", "{memory:?}");
    }
}
