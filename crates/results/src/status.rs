//! The status of a server: one object, [`Snapshot`]. `docs/status.md` says what each member means. The help
//! texts of the server's tables of metrics say it in one sentence each.

mod labels;

use serde::{Deserialize, Serialize};

pub use self::labels::{
    Bucket, ConnectionState, DiskWait, Failure, HelperJob, InTime, LineLoss, LoopPhase, Refusal, ReplyCode,
    Reset, RingOperation, Stage, Timeout,
};
use crate::{By, QueueDrops, StatusClass};

/// The version of the schema: changes when something is removed or comes to mean something else.
pub const SCHEMA: u64 = 1;

/// Everything. Readers check the schema first.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Snapshot {
    /// [`SCHEMA`] if this crate knows it.
    pub schema: u64,
    /// When the values were read, in milliseconds since the Unix epoch.
    pub time_unix_ms: u64,
    /// The program's version.
    pub version: String,
    /// The architecture's name.
    pub architecture: String,
    /// The supervisor's process.
    pub pid: u32,
    /// When the server began to serve, in milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// All processes of the server together.
    #[serde(default)]
    pub process: Process,
    /// All TCP sockets of the network namespace.
    #[serde(default)]
    pub kernel: Kernel,
    /// How fast the counters of the kernel grow.
    #[serde(default)]
    pub kernel_per_second: KernelRates,
    /// An entry for each address; several copies' together.
    pub listeners: Vec<Listener>,
    /// What all workers have counted, and those before them: sums, but of a peak or a level the largest.
    #[serde(default)]
    pub total: Counts,
    /// What workers have counted that a reload has replaced.
    #[serde(default)]
    pub past: Counts,
    /// An entry for each worker, in the order of their numbers.
    pub workers: Vec<Worker>,
    /// An entry for each pool of applications.
    #[serde(default)]
    pub pools: Vec<Pool>,
    /// An entry for each of the 100 certificates that end first, the first to end first.
    #[serde(default)]
    pub certificates: Vec<Certificate>,
}

/// What all processes of the server have now; none where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the server's table of metrics says it")]
pub struct Process {
    pub open_fds: Option<u64>,
    pub max_fds: Option<u64>,
    pub resident_memory_bytes: Option<u64>,
    pub shared_memory_bytes: Option<u64>,
    pub threads: Option<u64>,
}

/// What the kernel tells of all TCP sockets of the network namespace; none where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the server's table of metrics says it")]
pub struct Kernel {
    #[serde(flatten)]
    pub drops: QueueDrops<u64>,
    pub tcp_syncookies: Option<u64>,
    pub tcp_abort_on_overflow: Option<u64>,
}

/// How fast the kernel's counters grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct KernelRates {
    /// Over how long, in milliseconds.
    pub over_ms: u64,
    /// Per second.
    #[serde(flatten)]
    pub drops: QueueDrops<f64>,
}

/// The queues at one address. Unix sockets do not tell theirs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Listener {
    /// As in `listening on http://127.0.0.1:8080/`.
    pub address: String,
    /// Connections that wait to be accepted.
    pub accept_queue_length: Option<u64>,
    /// How many may wait: the smaller of backlog and `net.core.somaxconn`.
    pub accept_queue_limit: Option<u64>,
    /// Packets dropped at the socket, whatever the cause; wraps at 2^32.
    pub drops: Option<u64>,
    /// How fast that grows, over the same time as the kernel's counters.
    pub drops_per_second: Option<f64>,
}

/// A certificate in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Certificate {
    /// The path of its file, or `self-signed`.
    pub name: String,
    /// Until when it is valid, in seconds since the Unix epoch.
    pub valid_until_unix_s: i64,
    /// The whole days until then. Negative if it has expired.
    pub days_left: i64,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Worker {
    /// Its number, from 0.
    pub worker: usize,
    /// Its process; 0 while there is none.
    pub pid: u32,
    /// Whether it answered within 100 ms. If not, it hangs in something, and its connections by state are
    /// old.
    pub responsive: bool,
    /// What it has counted.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A server that does not say so has workers that respond.
impl Default for Worker {
    fn default() -> Self {
        Self { worker: 0, pid: 0, responsive: true, counts: Counts::default() }
    }
}

/// What workers count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the server's table of metrics says it")]
pub struct Counts {
    pub restarts: u64,
    pub accepts: u64,
    pub accept_phases: u64,
    pub accepts_per_phase: By<Bucket>,
    pub accepts_per_phase_max: u64,
    pub phases: u64,
    pub event_waits: u64,
    pub phase_time_ns: By<LoopPhase>,
    pub accept_queue_lengths: By<Bucket>,
    pub accept_queue_lengths_seen: u64,
    pub accept_waits_ms: By<Bucket>,
    pub accept_waits_seen_ms: u64,
    pub accept_limit: u64,
    pub work_limit_us: u64,
    pub accept_delay_target_us: u64,
    pub accept_delay_us: u64,
    pub accept_overloaded: u64,
    pub connections: By<ConnectionState>,
    pub connections_opened: u64,
    pub connections_closed: u64,
    pub connections_closed_under_pressure: u64,
    pub resets: By<Reset>,
    pub timeouts: By<Timeout>,
    pub refusals: By<Refusal>,
    pub requests: u64,
    pub replies: By<StatusClass>,
    pub replies_by_code: By<ReplyCode>,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub errors: By<Failure>,
    pub access_log_dropped: By<LineLoss>,
    pub file_table_hits: u64,
    pub file_table_misses: u64,
    pub file_table_evictions: u64,
    pub file_table_entries: u64,
    pub file_table_descriptors: u64,
    pub file_table_memory_bytes: u64,
    pub proxy_headers_refused: u64,
    pub tls_connections: u64,
    pub tls_handshakes: u64,
    pub tls_resumed: u64,
    pub tls_failures: u64,
    pub tls_handshakes_begun: u64,
    pub tls_handshakes_waited: u64,
    pub tls_handshake_wait_us: u64,
    pub tls_handshakes_refused: u64,
    pub tls_handshakes_given_up: u64,
    pub tls_handshakes_aside: u64,
    pub tls_handshake_cpu_us: u64,
    pub tls_handshakes_waiting: u64,
    pub application_memory_bytes: u64,
    pub connection_places: u64,
    pub connection_bytes: u64,
    pub start_memory_bytes: u64,
    pub helper_jobs: By<HelperJob>,
    pub helper_queue: u64,
    pub helper_queue_max: u64,
    pub disk_delay_us: u64,
    pub disk_holds: u64,
    pub helpers_stuck: u64,
    pub disk_waits_given_up: By<DiskWait>,
    pub residency_probes: u64,
    pub residency_misses: u64,
    pub user_threads: u64,
    pub user_threads_busy: u64,
    pub user_threads_awaited: u64,
    pub user_thread_switches: u64,
    pub user_thread_stack_bytes: u64,
    pub user_thread_stacks_bytes: u64,
    pub ring_operations: By<RingOperation>,
    pub ring_enters: u64,
    pub ring_in_flight: u64,
    pub stage_threads: By<Stage>,
    pub stage_queue: By<Stage>,
    pub stage_batches: By<Stage>,
    pub stage_connections: By<Stage>,
    pub stage_wait_ns: By<Stage>,
    pub stage_idle_ns: By<Stage>,
    pub stage_blocked: By<Stage>,
    pub stage_threads_changed: By<Stage>,
    pub stage_batch_limit: u64,
    pub stage_batch_limit_changed: u64,
    pub admission_rate: u64,
    pub admission_rate_changed: u64,
    pub admission_replies: By<InTime>,
}

/// One pool of applications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Pool {
    /// As routes call it.
    pub name: String,
    /// What all workers have counted of it.
    #[serde(flatten)]
    pub counts: PoolCounts,
}

/// What workers count of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the server's table of metrics says it")]
pub struct PoolCounts {
    pub queued: u64,
    pub in_flight: u64,
    pub requests: u64,
    pub failures: u64,
    pub refused: u64,
    pub expired: u64,
    pub clients_left: u64,
    pub reused: u64,
    pub retried: u64,
    pub spilled: u64,
    pub passed: u64,
    pub shared: u64,
    pub fell_back: u64,
    pub upgraded: u64,
    pub upgrades: u64,
    pub upgrades_refused: u64,
    pub waits_ms: By<Bucket>,
    pub wait_us: u64,
    pub connects_ms: By<Bucket>,
    pub connect_us: u64,
    pub first_bytes_ms: By<Bucket>,
    pub first_byte_us: u64,
    pub last_bytes_ms: By<Bucket>,
    pub last_byte_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Label as _;

    #[test]
    fn the_status_of_an_older_server_is_read() {
        let told = r#"{"schema":1,"time_unix_ms":2,"version":"0","architecture":"sped","pid":7,
            "started_unix_ms":1,"listeners":[],"workers":[{"worker":0,"accepts":3,"replies":{"2xx":2}}],
            "kernel":{"listen_drops":5,"tcp_syncookies":null},"kernel_per_second":{"over_ms":9},"new":[]}"#;
        let status: Snapshot = serde_json::from_str(told).unwrap();
        let worker = &status.workers[0];
        assert!(worker.responsive);
        assert_eq!((worker.counts.accepts, worker.counts.replies[StatusClass::Successful]), (3, 2));
        assert_eq!((status.kernel.drops.listen_drops, status.kernel.tcp_syncookies), (Some(5), None));
        assert_eq!(
            (status.kernel_per_second.over_ms, status.kernel_per_second.drops.listen_drops),
            (9, None)
        );
        assert_eq!(status.total, Counts::default());
    }

    #[test]
    fn what_is_written_is_read() {
        let mut status = Snapshot { schema: SCHEMA, ..Snapshot::default() };
        status.workers = vec![Worker { pid: 7, ..Worker::default() }];
        status.workers[0].counts.stage_idle_ns.values_mut()[Stage::Read.place()] = 5;
        status.pools = vec![Pool { name: "php".to_owned(), ..Pool::default() }];
        let json = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), status);
    }
}
