//! The table that names every counter. All status formats use it.

use results::status::{
    Bucket, ConnectionState, Counts, DiskWait, Failure, HelperJob, InTime, LineLoss, LoopPhase, Refusal,
    ReplyCode, Reset, RingOperation, Stage, Timeout,
};
use results::{By, Label as _, StatusClass};

use super::{Counter, Counters};

/// Upper bounds of the buckets in all histograms. One more bucket holds larger values.
pub const HISTOGRAM_BOUNDS: [u64; 13] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// A block of counters.
pub trait Block: 'static {
    /// The type that a status has for its values.
    type Told: Default;
}

impl Block for Counters {
    type Told = Counts;
}

/// One row of the table for a block `B`: the name for programs, the help text, and where the values are.
#[derive(Debug)]
pub struct Metric<B: Block = Counters> {
    /// The name without prefix and unit suffix. JSON uses it unchanged. Prometheus uses `sluice_<name>`,
    /// plus `_total` for counters.
    pub name: &'static str,
    /// One sentence of help, without the full stop.
    pub help: &'static str,
    /// How the values behave over time.
    pub kind: Kind,
    /// The labels that distinguish several values. `None` if there is one value.
    pub labels: Option<Labels>,
    pub(super) read: fn(&B) -> &[Counter],
    pub(super) told: fn(&B::Told) -> &[u64],
    pub(super) told_mut: fn(&mut B::Told) -> &mut [u64],
}

/// How a value behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, so a rate has a meaning. Totals over workers are sums.
    Counter,
    /// Goes up and down. Totals over workers are sums.
    Gauge,
    /// Goes up and down. Totals over workers are maxima, because a sum would have no meaning.
    Level,
    /// A high-water mark. Totals over workers are maxima.
    Peak,
    /// Counts per bucket, not cumulative; bounds as in [`HISTOGRAM_BOUNDS`]. Totals over workers are sums.
    Histogram {
        /// The counter that holds the sum of all values in the buckets.
        sum: &'static str,
    },
}

/// The labels that distinguish the values of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Labels {
    /// The label's name in Prometheus.
    pub label: &'static str,
    /// The label's values, in the order of the metric's values.
    pub names: &'static [&'static str],
}

impl<B: Block> Metric<B> {
    /// The values of this metric in `block`.
    pub fn read<'a>(&self, block: &'a B) -> &'a [Counter] {
        (self.read)(block)
    }

    /// The values of this metric in a status.
    pub fn told<'a>(&self, told: &'a B::Told) -> &'a [u64] {
        (self.told)(told)
    }

    /// The values of this metric in a status, mutable.
    pub fn told_mut<'a>(&self, told: &'a mut B::Told) -> &'a mut [u64] {
        (self.told_mut)(told)
    }
}

/// The current values of a block, as a status has them.
pub fn told<B: Block>(table: &[Metric<B>], block: &B) -> B::Told {
    let mut told = B::Told::default();
    for metric in table {
        for (value, counter) in metric.told_mut(&mut told).iter_mut().zip(metric.read(block)) {
            *value = counter.get();
        }
    }
    told
}

/// A row of the table: kind, field and help. A metric with several values also has a label and the
/// label's type. The field has the same name in the block and in the type of crate `results`, so that
/// neither can be renamed alone.
macro_rules! metric {
    ($kind:expr, $field:ident, $help:expr) => {
        Metric {
            name: stringify!($field),
            help: $help,
            kind: $kind,
            labels: None,
            read: |block| std::slice::from_ref(&block.$field),
            told: |told| std::slice::from_ref(&told.$field),
            told_mut: |told| std::slice::from_mut(&mut told.$field),
        }
    };
    ($kind:expr, $field:ident, $help:expr, $label:expr, $type:ty) => {
        Metric {
            name: stringify!($field),
            help: $help,
            kind: $kind,
            labels: Some(Labels { label: $label, names: <$type>::NAMES }),
            read: |block| &block.$field,
            told: |told| By::<$type>::values(&told.$field),
            told_mut: |told| By::<$type>::values_mut(&mut told.$field),
        }
    };
}

pub(super) use metric;

/// Every value of [`Counters`], in display order.
pub static METRICS: &[Metric] = &[
    metric!(Kind::Counter, restarts, "Times that the worker was started again after it died"),
    metric!(Kind::Counter, accepts, "Connections accepted"),
    metric!(Kind::Counter, accept_phases, "Accept phases"),
    metric!(
        Kind::Histogram { sum: "accepts" },
        accepts_per_phase,
        "Accept phases by the connections that they accepted",
        "at_most",
        Bucket
    ),
    metric!(Kind::Peak, accepts_per_phase_max, "Most connections accepted in one accept phase"),
    metric!(Kind::Counter, phases, "Turns of the event loop"),
    metric!(Kind::Counter, event_waits, "System calls that asked for events"),
    metric!(
        Kind::Counter,
        phase_time_ns,
        "Nanoseconds spent in the phases of the event loop",
        "phase",
        LoopPhase
    ),
    metric!(
        Kind::Histogram { sum: "accept_queue_lengths_seen" },
        accept_queue_lengths,
        "Samples of the accept queue before an accept phase, by its length",
        "at_most",
        Bucket
    ),
    metric!(Kind::Counter, accept_queue_lengths_seen, "Sum of the sampled lengths of the accept queue"),
    metric!(
        Kind::Histogram { sum: "accept_waits_seen_ms" },
        accept_waits_ms,
        "Samples of connections just accepted, by their milliseconds in the accept queue",
        "at_most",
        Bucket
    ),
    metric!(Kind::Counter, accept_waits_seen_ms, "Sum of the sampled milliseconds in the accept queue"),
    metric!(Kind::Level, accept_limit, "Most connections that an accept phase may take"),
    metric!(Kind::Level, work_limit_us, "Most microseconds that a work phase may take, 0 if not bounded"),
    metric!(
        Kind::Level,
        accept_delay_target_us,
        "Microseconds of delay that the accept policy tries to stay below"
    ),
    metric!(
        Kind::Level,
        accept_delay_us,
        "Microseconds that a client that connects now would wait, as estimated by the accept policy"
    ),
    metric!(Kind::Gauge, accept_overloaded, "Workers whose accept policy sees a persistent delay"),
    metric!(Kind::Gauge, connections, "Open connections by state", "state", ConnectionState),
    metric!(Kind::Counter, connections_opened, "Connections taken into service"),
    metric!(Kind::Counter, connections_closed, "Connections closed"),
    metric!(Kind::Counter, connections_closed_under_pressure, "Idle or slow connections closed to make room"),
    metric!(Kind::Counter, resets, "Connections ended by a reset", "cause", Reset),
    metric!(Kind::Counter, timeouts, "Deadlines that passed", "kind", Timeout),
    metric!(Kind::Counter, refusals, "Requests refused", "cause", Refusal),
    metric!(Kind::Counter, requests, "Requests received"),
    metric!(Kind::Counter, replies, "Replies by class", "class", StatusClass),
    metric!(Kind::Counter, replies_by_code, "Replies by status code", "code", ReplyCode),
    metric!(Kind::Counter, bytes_sent, "Bytes sent, heads included"),
    metric!(Kind::Counter, bytes_received, "Bytes received"),
    metric!(Kind::Counter, errors, "System calls that failed", "call", Failure),
    metric!(Kind::Counter, access_log_dropped, "Access log lines not written", "cause", LineLoss),
    metric!(Kind::Counter, file_table_hits, "Look-ups answered by the open-file table"),
    metric!(Kind::Counter, file_table_misses, "Look-ups that went to the file system"),
    metric!(Kind::Counter, file_table_evictions, "Open-file table entries removed to make room"),
    metric!(Kind::Gauge, file_table_entries, "Open-file table entries"),
    metric!(Kind::Gauge, file_table_descriptors, "Descriptors held by the open-file table"),
    metric!(Kind::Gauge, file_table_memory_bytes, "Bytes held by the open-file table"),
    metric!(Kind::Counter, proxy_headers_refused, "Connections closed for lack of a valid PROXY header"),
    metric!(Kind::Gauge, tls_connections, "Open connections of clients that speak TLS"),
    metric!(Kind::Counter, tls_handshakes, "TLS handshakes completed, resumed ones included"),
    metric!(Kind::Counter, tls_resumed, "TLS handshakes that continued an earlier session"),
    metric!(Kind::Counter, tls_failures, "Connections closed because TLS failed, or was not spoken"),
    metric!(Kind::Counter, tls_handshakes_begun, "TLS handshakes whose first message has come"),
    metric!(Kind::Counter, tls_handshakes_waited, "TLS handshakes that had to wait"),
    metric!(Kind::Counter, tls_handshake_wait_us, "How long they waited, in microseconds"),
    metric!(
        Kind::Counter,
        tls_handshakes_refused,
        "TLS handshakes refused because others of the network wait in vain"
    ),
    metric!(
        Kind::Counter,
        tls_handshakes_given_up,
        "TLS handshakes whose client left, or was too late, while they waited"
    ),
    metric!(Kind::Counter, tls_handshakes_aside, "TLS handshakes computed in time that nothing else wanted"),
    metric!(Kind::Counter, tls_handshake_cpu_us, "CPU time of TLS handshakes, in microseconds"),
    metric!(Kind::Gauge, tls_handshakes_waiting, "TLS handshakes that wait"),
    metric!(
        Kind::Gauge,
        application_memory_bytes,
        "Bytes of bodies and replies that are kept in memory for applications"
    ),
    metric!(Kind::Gauge, connection_places, "Connections that memory has been set aside for"),
    metric!(Kind::Peak, connection_bytes, "Bytes that a connection takes, by the sizes of its parts"),
    metric!(
        Kind::Gauge,
        start_memory_bytes,
        "Bytes of private memory that the worker had when it began to serve"
    ),
    metric!(Kind::Counter, helper_jobs, "Jobs given to helper threads", "kind", HelperJob),
    metric!(Kind::Gauge, helper_queue, "Jobs that helper threads have not finished"),
    metric!(Kind::Peak, helper_queue_max, "Most jobs that helper threads had not finished"),
    metric!(Kind::Level, disk_delay_us, "Microseconds that a new job would take, as estimated"),
    metric!(Kind::Counter, disk_holds, "Times that accepting stopped because jobs took too long"),
    metric!(Kind::Gauge, helpers_stuck, "Helper threads whose job has taken long"),
    metric!(Kind::Counter, disk_waits_given_up, "Waits for the disk that had no end", "what", DiskWait),
    metric!(Kind::Counter, residency_probes, "Looks at whether a part of a file is in memory"),
    metric!(Kind::Counter, residency_misses, "Parts of files that were not in memory"),
    metric!(Kind::Gauge, user_threads, "User-level threads"),
    metric!(Kind::Gauge, user_threads_busy, "User-level threads that have a client"),
    metric!(Kind::Gauge, user_threads_awaited, "Clients that wait for a user-level thread"),
    metric!(Kind::Counter, user_thread_switches, "Switches to user-level threads"),
    metric!(Kind::Peak, user_thread_stack_bytes, "Bytes of the stack that takes most memory"),
    metric!(Kind::Gauge, user_thread_stacks_bytes, "Bytes of all stacks, as estimated"),
    metric!(Kind::Counter, ring_operations, "Operations given to a ring", "operation", RingOperation),
    metric!(Kind::Counter, ring_enters, "Calls that handed operations to the kernel, or waited for them"),
    metric!(Kind::Gauge, ring_in_flight, "Operations of a ring that are still to complete"),
    metric!(
        Kind::Gauge,
        stage_threads,
        "Threads of the stages of a pipeline that are in use",
        "stage",
        Stage
    ),
    metric!(Kind::Gauge, stage_queue, "Connections in the queues of stages", "stage", Stage),
    metric!(
        Kind::Counter,
        stage_batches,
        "Times that a thread of a stage has taken connections to work on",
        "stage",
        Stage
    ),
    metric!(
        Kind::Counter,
        stage_connections,
        "Connections that threads of a stage have taken to work on",
        "stage",
        Stage
    ),
    metric!(
        Kind::Counter,
        stage_wait_ns,
        "Nanoseconds that these connections were in the queues of stages",
        "stage",
        Stage
    ),
    metric!(
        Kind::Counter,
        stage_idle_ns,
        "Nanoseconds that threads of a stage had nothing to do",
        "stage",
        Stage
    ),
    metric!(
        Kind::Counter,
        stage_blocked,
        "Times that a stage waited until the one behind it had room",
        "stage",
        Stage
    ),
    metric!(
        Kind::Counter,
        stage_threads_changed,
        "Times that a controller changed the number of threads in use",
        "stage",
        Stage
    ),
    metric!(Kind::Level, stage_batch_limit, "Most connections that a thread of a stage works on at once"),
    metric!(Kind::Counter, stage_batch_limit_changed, "Times that a controller changed that"),
    metric!(
        Kind::Gauge,
        admission_rate,
        "New connections a second that a controller admits at most, 0 if not bounded"
    ),
    metric!(Kind::Counter, admission_rate_changed, "Times that a controller changed that"),
    metric!(
        Kind::Counter,
        admission_replies,
        "Replies of a pipeline with a response target, by whether they met it",
        "time",
        InTime
    ),
];
