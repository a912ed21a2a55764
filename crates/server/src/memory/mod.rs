//! What the memory of a running server consists of, in the form of Harji, Buhr and Brecht 2012 (section 8):
//! so much for each connection, worker and cached file, and so much once.
//!
//! ```text
//! memory = c*368 + p*(412,000) + f*1,204 + 1,930,240
//! ```
//!
//! Two sources meet here. The kernel tells what each process uses (`smaps`, proc(5)): pages of its own, and
//! its part of those that several processes use, so that shared memory is counted once when parts are added
//! up. The workers tell, through the status, what they set aside for connections and files. What is left of a
//! worker's own pages is the worker itself. That a connection takes what the sizes of its parts say is not
//! taken on trust: the growth of the workers since they began to serve, less the files, is divided by the
//! connections that there has been room for, and shown beside it.
//!
//! Memory of the kernel's (sockets, their buffers, the page cache) is not in it, as it was not in the
//! paper's.

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
    /// The version of these members: changes when something is removed or comes to mean something else.
    pub schema: u32,
    /// As given to `--architecture`.
    pub architecture: String,
    /// `memory = c*... + p*(...) + f*... + ...`
    pub formula: String,
    /// The term of connections.
    pub connections: Connections,
    /// The term of workers.
    pub workers: Workers,
    /// The term of cached files.
    pub files: Files,
    /// What applications take of it.
    pub applications: Applications,
    /// What is there once, measured: pages that several processes use, and those of the supervisor and of the
    /// process that answers for the status.
    pub once: u64,
    /// What the terms add up to.
    pub sum: u64,
    /// What all processes use, measured; pages that are shared with programs other than the server count in
    /// part.
    pub measured: u64,
    /// Each of them.
    pub processes: Vec<Process>,
}

/// `c`: what connections take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Connections {
    /// How many there are.
    pub open: u64,
    /// How many there is room for in memory that has been set aside: those that there were at the same time,
    /// and some more.
    pub places: u64,
    /// What one takes, by the sizes of its parts; 0 where the architecture has not told.
    pub each: u64,
    /// What one takes, by how the workers have grown since they began to serve. Only where the growth is
    /// large enough to tell.
    pub each_by_growth: Option<u64>,
}

/// `p`: what workers take beside connections and files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workers {
    /// How many there are.
    pub count: u64,
    /// What one takes: its own pages, measured, less those of connections and files.
    pub each: u64,
    /// What one took when it began to serve, measured.
    pub each_at_start: u64,
}

/// `f`: what cached files take: in each worker's table by itself, or once in the one that workers share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Files {
    /// Entries of all tables.
    pub entries: u64,
    /// What one takes on average, counted by the tables: path, header lines, and small bodies; `None` where
    /// there is none.
    pub each: Option<u64>,
}

/// What is kept and set aside for applications. It is no term: bodies and replies are in the workers' own
/// pages already, and pages that are shared with an application are measured where they were touched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Applications {
    /// Bodies, replies, and all of the memory that is shared with applications, used or not, as the workers
    /// tell; `gateway.memory` bounds it in each.
    pub bytes: u64,
}

/// One process of the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// `worker`, `supervisor` or `other`. What a worker has started is a worker's.
    pub role: &'static str,
    /// Pages that no other process has.
    pub private: u64,
    /// Those of them that it has written to, which stay its own whoever else runs the program.
    pub own: u64,
    /// Pages that no other process has, and its part of those that others have as well.
    pub proportional: u64,
}

/// The memory could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Its processes are not to be seen from here.
    #[error(
        "process {pid} of the server is not on this machine, or in another PID namespace: ask where the \
         server runs"
    )]
    NotHere {
        /// The process.
        pid: u32,
    },
    /// They may not be looked at.
    #[error(
        "process {pid} of the server may not be looked at: ask as root (a server that was started as root \
         and became another user is root's in this respect)"
    )]
    NotPermitted {
        /// The process.
        pid: u32,
    },
    /// Something else.
    #[error("cannot read the memory of process {pid}: {source}")]
    Io {
        /// The process.
        pid: u32,
        /// What happened.
        source: io::Error,
    },
}

/// Growth by fewer places than this is hidden by what else a worker does in its first requests.
const TELLING: u64 = 512;

/// Measures the server whose status this is. It has to run on this machine.
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
            // One that has just ended takes no memory, unless it is the one whose status it is.
            Err(error) if is_gone(&error) && pid != status.pid => {}
            Err(error) if is_gone(&error) => return Err(MeasureError::NotHere { pid }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(MeasureError::NotPermitted { pid });
            }
            Err(source) => return Err(MeasureError::Io { pid, source }),
        }
    }
    // Who measures is probably the same program, and pages of its file are divided by one more for that.
    let is_one = processes.iter().any(|process| process.pid == std::process::id());
    let lent = if is_one { 0 } else { Usage::here().map_or(0, |usage| usage.proportional - usage.private) };
    Ok(model(status, processes, lent))
}

/// Memory that the calling process has written to and shares with nobody.
///
/// # Errors
///
/// The kernel does not tell.
pub fn own_bytes() -> io::Result<u64> {
    Ok(Usage::here()?.own)
}

/// `ESRCH` is what reading the file of a process that ends gives.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || sys::process::is_gone(error)
}

/// Divides what was measured among the terms. `lent`: the part of shared pages that has fallen to the process
/// that measures.
fn model(status: &Snapshot, processes: Vec<Process>, lent: u64) -> Memory {
    let told = sum(status.workers.iter().map(|worker| &worker.counts));

    let count = status.workers.len().max(1) as u64;
    let (places, each_connection) = (told.connection_places, told.connection_bytes);
    let (entries, in_tables) = (told.file_table_entries, told.file_table_memory_bytes);
    let own: u64 =
        processes.iter().filter(|process| process.role == "worker").map(|process| process.own).sum();
    let measured = processes.iter().map(|process| process.proportional).sum::<u64>() + lent;

    // A table that workers share is in none of them.
    let is_shared = status.architecture == Architecture::SharedSymped.name();
    let (of_workers, in_common) = if is_shared { (0, in_tables) } else { (in_tables, 0) };
    let growth = own.saturating_sub(told.start_memory_bytes + of_workers);
    let each_by_growth = (places >= TELLING * count).then(|| growth / places);
    let each_file = in_tables.checked_div(entries);
    let each_worker = own.saturating_sub(places * each_connection + of_workers) / count;
    let once = measured.saturating_sub(own + in_common);
    let files = each_file.map_or_else(String::new, |each| format!(" + f*{}", text::grouped(each)));
    Memory {
        schema: 1,
        architecture: status.architecture.clone(),
        formula: format!(
            "memory = c*{} + p*({}){files} + {}",
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
        workers: Workers { count, each: each_worker, each_at_start: told.start_memory_bytes / count },
        files: Files { entries, each: each_file },
        applications: Applications { bytes: told.application_memory_bytes },
        once,
        sum: places * each_connection + count * each_worker + entries * each_file.unwrap_or(0) + once,
        measured,
        processes,
    }
}

/// As JSON, indented.
pub fn json(memory: &Memory) -> String {
    // Strings, numbers and lists of them: nothing that JSON can't say.
    serde_json::to_string_pretty(memory).unwrap_or_default() + "\n"
}

impl Memory {
    /// What the formula says for so many connections, workers and files.
    pub fn predict(&self, connections: u64, workers: u64, files: u64) -> u64 {
        connections * self.connections.each
            + workers * self.workers.each
            + files * self.files.each.unwrap_or(0)
            + self.once
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::counters::{ConnectionState, Counters, METRICS, told};
    use crate::status::tests::sample;

    /// Two workers with 1,024 places of 368 bytes and 10 files of 1,500 bytes each; a supervisor, and a
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
