//! What each worker counts, and the one table that names it for every status format.
//!
//! A worker is the only writer of its [`Counters`]; the status thread (of the same process, or of the
//! supervisor when the block lies in a shared mapping) reads them at any time. So an increment is a plain
//! load, add and store, with no locked instruction, and a reader may see one counter a moment before another
//! but never a torn value.
//!
//! Three kinds of value: counters only grow; gauges are set by the worker when they change; the *census*
//! (connections by state) would cost an update per state change and is therefore taken on demand: see
//! [`Census`].
//!
//! [`METRICS`] describes every value once. Text, JSON and Prometheus output all walk it, so a value added to
//! the struct and to the table appears everywhere.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use http1::{ErrorKind, TimerKind};

use crate::accept::Assessment;

sys::shareable! {
    /// One number with a single writer and any number of readers.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct Counter(AtomicU64);
}

impl Counter {
    /// Adds `n`. Only the owning worker may call this: two writers would lose increments.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Replaces the value (gauges).
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Raises the value to `value` if that is more (high-water marks).
    #[inline]
    pub fn raise_to(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// The value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

sys::shareable! {
    /// Everything one worker counts. It may lie in a [`Shared`](sys::shared::Shared) mapping; the alignment
    /// keeps two workers' blocks off one (doubly fetched) cache line.
    #[derive(Debug, Default)]
    #[repr(C, align(128))]
    pub struct Counters {
        /// Times that the supervisor started the worker again after it died. It adds while there is no
        /// worker.
        pub restarts: Counter,
        /// Connections accepted.
        pub accepts: Counter,
        /// Accept phases, including those that accepted nothing.
        pub accept_phases: Counter,
        /// Accept phases by the number of connections they accepted; see [`Counters::accept_phase`].
        pub accepts_per_phase: [Counter; HISTOGRAM_BOUNDS.len() + 1],
        /// The most connections accepted in one accept phase.
        pub accepts_per_phase_max: Counter,
        /// Turns of the event loop.
        pub phases: Counter,
        /// System calls that waited or asked for events.
        pub event_waits: Counter,
        /// Nanoseconds spent in the phases of the event loop; see [`Counters::spent`].
        pub phase_time_ns: [Counter; LoopPhase::NAMES.len()],
        /// Samples of the accept queue's length; see [`Counters::accept_queue_seen`].
        pub accept_queue_lengths: [Counter; HISTOGRAM_BOUNDS.len() + 1],
        /// The sum of these lengths.
        pub accept_queue_lengths_seen: Counter,
        /// Samples of the time that connections waited in the accept queue; see
        /// [`Counters::accept_wait_seen`].
        pub accept_waits_ms: [Counter; HISTOGRAM_BOUNDS.len() + 1],
        /// The sum of these times.
        pub accept_waits_seen_ms: Counter,
        /// What the accept policy thinks; see [`Counters::accept_policy`].
        pub accept_limit: Counter,
        /// Microseconds that the work phase may take; 0: it is not bounded.
        pub work_limit_us: Counter,
        /// Microseconds of delay that the accept policy tries to stay below; 0: it steers by none.
        pub accept_delay_target_us: Counter,
        /// Microseconds that a client who came now would wait, as the accept policy estimates.
        pub accept_delay_us: Counter,
        /// 1 if the accept policy sees that delay stays above its target.
        pub accept_overloaded: Counter,

        /// Connections taken into service.
        pub connections_opened: Counter,
        /// Connections closed, for whatever reason.
        pub connections_closed: Counter,
        /// Idle connections closed to make room for new ones.
        pub connections_closed_under_pressure: Counter,
        /// Connections that ended by a reset, by cause.
        pub resets: [Counter; Reset::NAMES.len()],
        /// Deadlines that passed.
        pub timeouts: [Counter; TIMEOUTS.len()],
        /// Requests refused because they broke the protocol or a limit.
        pub refusals: [Counter; REFUSALS.len()],

        /// Request heads received whole.
        pub requests: Counter,
        /// Replies by class, counted when they end.
        pub replies: [Counter; REPLY_CLASSES.len()],
        /// Replies with the codes of [`REPLY_CODES`].
        pub replies_by_code: [Counter; REPLY_CODES.len()],
        /// Bytes handed to sockets, heads included.
        pub bytes_sent: Counter,
        /// Bytes taken from sockets.
        pub bytes_received: Counter,

        /// System calls that failed in a way that the worker had to survive.
        pub errors: [Counter; Failure::NAMES.len()],
        /// Access log lines that were not written, by cause.
        pub access_log_dropped: [Counter; LineLoss::NAMES.len()],

        /// Look-ups answered by the open-file table.
        pub file_table_hits: Counter,
        /// Look-ups that had to go to the file system.
        pub file_table_misses: Counter,
        /// Entries removed to make room.
        pub file_table_evictions: Counter,
        /// Entries in the table now.
        pub file_table_entries: Counter,
        /// Descriptors held by the table now.
        pub file_table_descriptors: Counter,
        /// Bytes of heads and small bodies held by the table now.
        pub file_table_memory_bytes: Counter,

        /// Connections that there is room for in memory set aside.
        pub connection_places: Counter,
        /// What a connection takes, by the sizes of its parts.
        pub connection_bytes: Counter,
        /// What the worker had of its own when it began to serve.
        pub start_memory_bytes: Counter,
        /// Jobs given to helpers, by kind.
        pub helper_jobs: [Counter; HelperJob::NAMES.len()],
        /// Jobs that helpers have not finished.
        pub helper_queue: Counter,
        /// The most of them at a time.
        pub helper_queue_max: Counter,
        /// Helpers whose job has taken long.
        pub helpers_stuck: Counter,
        /// Waits for the disk that had no end, by who waited.
        pub disk_waits_given_up: [Counter; DiskWait::NAMES.len()],
        /// Times that it was asked whether a part of a file is in memory.
        pub residency_probes: Counter,
        /// Times that it was not.
        pub residency_misses: Counter,

        /// Connections by state, as of the last census.
        pub connections: [Counter; ConnectionState::NAMES.len()],
        /// The request for a census and its answer.
        pub census: Census,
        /// The worker's process; 0 while there is none. The supervisor writes it.
        pub pid: AtomicU32,
    }
}

impl Counters {
    /// Where a worker's process has ended: what it had open is closed. Only when there is no worker.
    pub fn settle(&self) {
        self.pid.store(0, Ordering::Relaxed);
        self.connections_closed.set(self.connections_opened.get());
        for metric in METRICS.iter().filter(|metric| matches!(metric.kind, Kind::Gauge | Kind::Level)) {
            metric.read(self).iter().for_each(|gauge| gauge.set(0));
        }
    }

    /// Moves what was counted here to `past`. Only when there is no worker.
    pub fn retire_to(&self, past: &Self) {
        self.settle();
        for metric in METRICS {
            for (here, there) in metric.read(self).iter().zip(metric.read(past)) {
                match metric.kind {
                    Kind::Peak | Kind::Level => there.raise_to(here.get()),
                    Kind::Counter | Kind::Histogram { .. } | Kind::Gauge => there.add(here.get()),
                }
                here.set(0);
            }
        }
    }

    /// Counts one accept phase that took `accepted` connections out of the accept queue.
    pub fn accept_phase(&self, accepted: u64) {
        self.accepts.add(accepted);
        self.accept_phases.add(1);
        self.accepts_per_phase[bucket(accepted)].add(1);
        self.accepts_per_phase_max.raise_to(accepted);
    }

    /// Counts time spent in a phase.
    #[inline]
    pub fn spent(&self, phase: LoopPhase, ns: u64) {
        self.phase_time_ns[phase as usize].add(ns);
    }

    /// Counts a sample of the accept queue's length.
    pub fn accept_queue_seen(&self, length: u64) {
        self.accept_queue_lengths[bucket(length)].add(1);
        self.accept_queue_lengths_seen.add(length);
    }

    /// Counts a sample of the time that a connection waited in the accept queue.
    pub fn accept_wait_seen(&self, ms: u64) {
        self.accept_waits_ms[bucket(ms)].add(1);
        self.accept_waits_seen_ms.add(ms);
    }

    /// Shows what the accept policy thinks.
    pub fn accept_policy(&self, assessment: &Assessment) {
        self.accept_limit.set(assessment.limit.into());
        self.work_limit_us.set(assessment.work_ns / 1000);
        self.accept_delay_target_us.set(assessment.target_ns / 1000);
        self.accept_delay_us.set(assessment.delay_ns / 1000);
        self.accept_overloaded.set(assessment.overloaded.into());
    }

    /// Counts one ended reply.
    #[inline]
    pub fn reply(&self, status: u16) {
        if let Some(class) = self.replies.get(usize::from(status / 100).wrapping_sub(1)) {
            class.add(1);
        }
        if let Some(&slot) = REPLY_CODE_SLOTS.get(usize::from(status))
            && let Some(code) = self.replies_by_code.get(usize::from(slot))
        {
            code.add(1);
        }
    }

    /// Counts a passed deadline.
    pub fn timeout(&self, kind: TimerKind) {
        self.timeouts[kind as usize].add(1);
    }

    /// Counts a refused request.
    pub fn refusal(&self, cause: ErrorKind) {
        self.refusals[cause as usize].add(1);
    }

    /// Counts a connection that ended by a reset.
    pub fn reset(&self, cause: Reset) {
        self.resets[cause as usize].add(1);
    }

    /// Counts a failed system call.
    pub fn error(&self, failure: Failure) {
        self.errors[failure as usize].add(1);
    }

    /// Counts a job given to a helper, with which there are `unfinished`.
    pub fn helper_jobs(&self, kind: HelperJob, unfinished: u64) {
        self.helper_jobs[kind as usize].add(1);
        self.helper_queue.set(unfinished);
        self.helper_queue_max.raise_to(unfinished);
    }

    /// Counts a wait for the disk that was given up.
    pub fn disk_wait_given_up(&self, wait: DiskWait) {
        self.disk_waits_given_up[wait as usize].add(1);
    }

    /// Counts access log lines that were not written.
    pub fn access_log_dropped(&self, cause: LineLoss, lines: u64) {
        self.access_log_dropped[cause as usize].add(lines);
    }

    /// Answers a pending census with the connections of each state in [`ConnectionState`] order. `count`
    /// walks the worker's connections; it is called only when somebody asks.
    #[inline]
    pub fn answer_census(&self, count: impl FnOnce() -> [u64; ConnectionState::NAMES.len()]) {
        let Some(wanted) = self.census.pending() else { return };
        for (gauge, value) in self.connections.iter().zip(count()) {
            gauge.set(value);
        }
        self.census.done.store(wanted, Ordering::Release);
    }
}

sys::shareable! {
    /// How the status thread asks a worker to count its connections by state: it bumps `wanted` and wakes the
    /// worker, which stores the gauges and then sets `done` to the generation that it has seen.
    #[derive(Debug, Default)]
    #[repr(C)]
    pub struct Census {
        wanted: AtomicU32,
        done: AtomicU32,
    }
}

impl Census {
    /// Asks for a new census and returns its generation, for [`Census::is_done`]. The worker has to be woken
    /// as well.
    pub fn request(&self) -> u32 {
        self.wanted.fetch_add(1, Ordering::Release).wrapping_add(1)
    }

    /// The generation to answer, if there is one.
    #[inline]
    pub fn pending(&self) -> Option<u32> {
        let wanted = self.wanted.load(Ordering::Acquire);
        (wanted != self.done.load(Ordering::Relaxed)).then_some(wanted)
    }

    /// Whether the census of `generation`, or a later one, has been taken. Generations may wrap.
    pub fn is_done(&self, generation: u32) -> bool {
        self.done.load(Ordering::Acquire).wrapping_sub(generation) < u32::MAX / 2
    }
}

/// The phases of an event loop's turn (Brecht et al. 2004, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopPhase {
    /// Learning which sockets can go on, and waiting until some can.
    GetEvents,
    /// Taking connections out of the accept queue.
    Accept,
    /// Serving the connections that can go on, and those whose deadline has passed.
    Work,
}

impl LoopPhase {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["get_events", "accept", "work"];
}

/// What a connection is doing, for the census.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// Part of a request head has arrived, or none yet on a new connection.
    ReadingHead,
    /// A request body is arriving.
    ReadingBody,
    /// A reply is being sent.
    Writing,
    /// Kept alive between two requests.
    Idle,
    /// Shut down for writing; what the client still sends is read and dropped.
    Lingering,
}

impl ConnectionState {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 5] = ["reading_head", "reading_body", "writing", "idle", "lingering"];
}

/// Why a connection ended by a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The client reset it.
    Peer,
    /// We did: a deadline, a stop, a broken protocol.
    Local,
    /// We did because the file changed while it was sent, and the promised length could not be kept.
    FileChanged,
}

impl Reset {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["peer", "local", "file_changed"];
}

/// Which system call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// `accept` found no free descriptor in this process (EMFILE) or system (ENFILE), or no memory; accepting
    /// pauses.
    AcceptExhausted,
    /// `accept` failed otherwise, ECONNABORTED included.
    Accept,
    /// Receiving failed with something other than a reset.
    Receive,
    /// Sending failed with something other than a reset.
    Send,
    /// A file could not be opened or read for another reason than not being there.
    File,
}

impl Failure {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 5] = ["accept_exhausted", "accept", "receive", "send", "file"];
}

/// What a helper does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperJob {
    /// Finding, opening and describing a file, and reading its body if that is small.
    Look,
    /// Reading a part of a file that is being sent.
    Fetch,
}

impl HelperJob {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["look", "fetch"];
}

/// Who waited for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskWait {
    /// A request, which is answered without what the disk has.
    Request,
    /// A reply that has been begun, whose connection is reset.
    Reply,
    /// A client that has shut down its side, and may be gone.
    HalfClosed,
}

impl DiskWait {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["request", "reply", "half_closed"];
}

/// Why an access log line was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineLoss {
    /// The writer fell behind.
    Behind,
    /// Writing failed.
    WriteError,
}

impl LineLoss {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["behind", "write_error"];
}

/// The timers of [`TimerKind`], in the order of [`Counters::timeouts`].
pub const TIMEOUTS: [&str; 5] = ["header", "body", "write", "idle", "linger"];

/// The kinds of [`ErrorKind`], in the order of [`Counters::refusals`].
pub const REFUSALS: [&str; ErrorKind::ALL.len()] = [
    "request_line",
    "request_line_too_long",
    "unknown_method",
    "target",
    "version",
    "field",
    "bare_line_end",
    "too_many_fields",
    "head_too_large",
    "host",
    "content_length",
    "framing",
    "transfer_coding",
    "chunk",
    "body_too_large",
    "expectation",
    "cut_short",
    "header_timeout",
    "body_timeout",
];

/// The classes of status codes, in the order of [`Counters::replies`].
pub const REPLY_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The status codes that are counted singly, in the order of [`Counters::replies_by_code`].
pub const REPLY_CODES: [&str; 20] = [
    "200", "204", "206", "301", "304", "400", "403", "404", "405", "408", "412", "413", "414", "416", "417",
    "431", "500", "501", "503", "505",
];

/// Upper bounds of the buckets of all histograms; one more bucket holds what lies above.
pub const HISTOGRAM_BOUNDS: [u64; 13] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// One row of the table: a name for programs, words for people, and where the values are.
#[derive(Debug)]
pub struct Metric {
    /// Without prefix and unit suffix: JSON uses it as it is, Prometheus as `sluice_<name>`, plus `_total`
    /// for counters.
    pub name: &'static str,
    /// One sentence for people, without the full stop.
    pub help: &'static str,
    /// How the values behave over time.
    pub kind: Kind,
    /// Where the values are.
    pub values: Values,
}

/// How a value behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; a rate makes sense. Totals over workers are sums.
    Counter,
    /// Goes up and down. Totals over workers are sums.
    Gauge,
    /// Goes up and down. Totals over workers are maxima, as a sum would mean nothing.
    Level,
    /// A high-water mark. Totals over workers are maxima.
    Peak,
    /// Counts per bucket, not cumulative; bounds as in [`HISTOGRAM_BOUNDS`]. Totals over workers are sums.
    Histogram {
        /// The counter that sums up what was put into the buckets.
        sum: &'static str,
    },
}

/// Where a metric's values are in the block.
#[derive(Debug)]
pub enum Values {
    /// A single number.
    One(fn(&Counters) -> &Counter),
    /// One number for each value of a label.
    By {
        /// What tells the numbers apart.
        label: &'static str,
        /// The label's values, in the order of `read`'s result.
        names: &'static [&'static str],
        /// The numbers.
        read: fn(&Counters) -> &[Counter],
    },
}

impl Metric {
    /// The numbers of this metric in `block`.
    pub fn read<'a>(&self, block: &'a Counters) -> &'a [Counter] {
        match self.values {
            Values::One(read) => std::slice::from_ref(read(block)),
            Values::By { read, .. } => read(block),
        }
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        match self.values {
            Values::One(_) => 1,
            Values::By { names, .. } => names.len(),
        }
    }

    /// Never: a metric has at least one number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Every value of [`Counters`], in the order in which people see them.
pub static METRICS: &[Metric] = &[
    one(Kind::Counter, "restarts", "Times that the worker was started again after it died", |w| &w.restarts),
    one(Kind::Counter, "accepts", "Connections accepted", |w| &w.accepts),
    one(Kind::Counter, "accept_phases", "Accept phases", |w| &w.accept_phases),
    by(
        Kind::Histogram { sum: "accepts" },
        "accepts_per_phase",
        "Accept phases by the connections that they accepted",
        ("at_most", &HISTOGRAM_NAMES),
        |w| &w.accepts_per_phase,
    ),
    one(Kind::Peak, "accepts_per_phase_max", "Most connections accepted in one accept phase", |w| {
        &w.accepts_per_phase_max
    }),
    one(Kind::Counter, "phases", "Turns of the event loop", |w| &w.phases),
    one(Kind::Counter, "event_waits", "System calls that asked for events", |w| &w.event_waits),
    by(
        Kind::Counter,
        "phase_time_ns",
        "Nanoseconds spent in the phases of the event loop",
        ("phase", &LoopPhase::NAMES),
        |w| &w.phase_time_ns,
    ),
    by(
        Kind::Histogram { sum: "accept_queue_lengths_seen" },
        "accept_queue_lengths",
        "Samples of the accept queue before an accept phase, by its length",
        ("at_most", &HISTOGRAM_NAMES),
        |w| &w.accept_queue_lengths,
    ),
    one(Kind::Counter, "accept_queue_lengths_seen", "Sum of the sampled lengths of the accept queue", |w| {
        &w.accept_queue_lengths_seen
    }),
    by(
        Kind::Histogram { sum: "accept_waits_seen_ms" },
        "accept_waits_ms",
        "Samples of connections just accepted, by their milliseconds in the accept queue",
        ("at_most", &HISTOGRAM_NAMES),
        |w| &w.accept_waits_ms,
    ),
    one(Kind::Counter, "accept_waits_seen_ms", "Sum of the sampled milliseconds in the accept queue", |w| {
        &w.accept_waits_seen_ms
    }),
    one(Kind::Level, "accept_limit", "Most connections that an accept phase may take", |w| &w.accept_limit),
    one(
        Kind::Level,
        "work_limit_us",
        "Most microseconds that a work phase may take, 0 if not bounded",
        |w| &w.work_limit_us,
    ),
    one(
        Kind::Level,
        "accept_delay_target_us",
        "Microseconds of delay that the accept policy tries to stay below",
        |w| &w.accept_delay_target_us,
    ),
    one(
        Kind::Level,
        "accept_delay_us",
        "Microseconds that a client who came now would wait, as estimated by the accept policy",
        |w| &w.accept_delay_us,
    ),
    one(Kind::Gauge, "accept_overloaded", "Workers whose accept policy sees delay that stays", |w| {
        &w.accept_overloaded
    }),
    by(Kind::Gauge, "connections", "Open connections by state", ("state", &ConnectionState::NAMES), |w| {
        &w.connections
    }),
    one(Kind::Counter, "connections_opened", "Connections taken into service", |w| &w.connections_opened),
    one(Kind::Counter, "connections_closed", "Connections closed", |w| &w.connections_closed),
    one(
        Kind::Counter,
        "connections_closed_under_pressure",
        "Idle or slow connections closed to make room",
        |w| &w.connections_closed_under_pressure,
    ),
    by(Kind::Counter, "resets", "Connections ended by a reset", ("cause", &Reset::NAMES), |w| &w.resets),
    by(Kind::Counter, "timeouts", "Deadlines that passed", ("kind", &TIMEOUTS), |w| &w.timeouts),
    by(Kind::Counter, "refusals", "Requests refused", ("cause", &REFUSALS), |w| &w.refusals),
    one(Kind::Counter, "requests", "Requests received", |w| &w.requests),
    by(Kind::Counter, "replies", "Replies by class", ("class", &REPLY_CLASSES), |w| &w.replies),
    by(Kind::Counter, "replies_by_code", "Replies by status code", ("code", &REPLY_CODES), |w| {
        &w.replies_by_code
    }),
    one(Kind::Counter, "bytes_sent", "Bytes sent, heads included", |w| &w.bytes_sent),
    one(Kind::Counter, "bytes_received", "Bytes received", |w| &w.bytes_received),
    by(Kind::Counter, "errors", "System calls that failed", ("call", &Failure::NAMES), |w| &w.errors),
    by(
        Kind::Counter,
        "access_log_dropped",
        "Access log lines not written",
        ("cause", &LineLoss::NAMES),
        |w| &w.access_log_dropped,
    ),
    one(Kind::Counter, "file_table_hits", "Look-ups answered by the open-file table", |w| &w.file_table_hits),
    one(Kind::Counter, "file_table_misses", "Look-ups that went to the file system", |w| {
        &w.file_table_misses
    }),
    one(Kind::Counter, "file_table_evictions", "Open-file table entries removed to make room", |w| {
        &w.file_table_evictions
    }),
    one(Kind::Gauge, "file_table_entries", "Open-file table entries", |w| &w.file_table_entries),
    one(Kind::Gauge, "file_table_descriptors", "Descriptors held by the open-file table", |w| {
        &w.file_table_descriptors
    }),
    one(Kind::Gauge, "file_table_memory_bytes", "Bytes held by the open-file table", |w| {
        &w.file_table_memory_bytes
    }),
    one(Kind::Gauge, "connection_places", "Connections that memory has been set aside for", |w| {
        &w.connection_places
    }),
    one(Kind::Peak, "connection_bytes", "Bytes that a connection takes, by the sizes of its parts", |w| {
        &w.connection_bytes
    }),
    one(
        Kind::Gauge,
        "start_memory_bytes",
        "Bytes that the worker had of its own when it began to serve",
        |w| &w.start_memory_bytes,
    ),
    by(Kind::Counter, "helper_jobs", "Jobs given to helper threads", ("kind", &HelperJob::NAMES), |w| {
        &w.helper_jobs
    }),
    one(Kind::Gauge, "helper_queue", "Jobs that helper threads have not finished", |w| &w.helper_queue),
    one(Kind::Peak, "helper_queue_max", "Most jobs that helper threads had not finished", |w| {
        &w.helper_queue_max
    }),
    one(Kind::Gauge, "helpers_stuck", "Helper threads whose job has taken long", |w| &w.helpers_stuck),
    by(
        Kind::Counter,
        "disk_waits_given_up",
        "Waits for the disk that had no end",
        ("what", &DiskWait::NAMES),
        |w| &w.disk_waits_given_up,
    ),
    one(Kind::Counter, "residency_probes", "Looks at whether a part of a file is in memory", |w| {
        &w.residency_probes
    }),
    one(Kind::Counter, "residency_misses", "Parts of files that were not in memory", |w| &w.residency_misses),
];

/// Names of the buckets of [`HISTOGRAM_BOUNDS`].
const HISTOGRAM_NAMES: [&str; HISTOGRAM_BOUNDS.len() + 1] =
    ["0", "1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "inf"];

/// For each status code its place in [`REPLY_CODES`], or a place past the end.
static REPLY_CODE_SLOTS: [u8; 600] = reply_code_slots();

const fn reply_code_slots() -> [u8; 600] {
    let mut slots = [u8::MAX; 600];
    let mut place = 0;
    while place < REPLY_CODES.len() {
        let [hundreds, tens, ones] = *REPLY_CODES[place].as_bytes() else {
            panic!("codes have three digits")
        };
        let code = (hundreds - b'0') as usize * 100 + (tens - b'0') as usize * 10 + (ones - b'0') as usize;
        slots[code] = place as u8;
        place += 1;
    }
    slots
}

/// The first bucket whose bound is at least `value`: bounds are 0 and the powers of two.
fn bucket(value: u64) -> usize {
    let bucket = match value {
        0 => 0,
        n => 1 + (u64::BITS - (n - 1).leading_zeros()) as usize,
    };
    bucket.min(HISTOGRAM_BOUNDS.len())
}

const fn one(kind: Kind, name: &'static str, help: &'static str, read: fn(&Counters) -> &Counter) -> Metric {
    Metric { name, help, kind, values: Values::One(read) }
}

const fn by(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    (label, names): (&'static str, &'static [&'static str]),
    read: fn(&Counters) -> &[Counter],
) -> Metric {
    Metric { name, help, kind, values: Values::By { label, names, read } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_table_names_every_counter_once() {
        let block = Counters::default();
        let addresses: Vec<*const Counter> =
            METRICS.iter().flat_map(|m| m.read(&block)).map(std::ptr::from_ref).collect();
        let distinct: HashSet<_> = addresses.iter().collect();
        assert_eq!(distinct.len(), addresses.len());
        // The block ends with the census; whatever lies before it is counters and nothing else.
        let counters = std::mem::offset_of!(Counters, census) / size_of::<Counter>();
        assert_eq!(addresses.len(), counters);
    }

    #[test]
    fn counters_may_lie_in_shared_memory() {
        let block = sys::shared::Shared::<Counters>::new().unwrap();
        block.accept_phase(2);
        assert_eq!(block.accepts.get(), 2);
        assert_eq!(std::ptr::from_ref(&*block).addr() % 128, 0);
    }

    #[test]
    fn names_are_distinct_and_match_their_values() {
        let block = Counters::default();
        let names: HashSet<_> = METRICS.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            assert_eq!(metric.read(&block).len(), metric.len(), "{}", metric.name);
        }
    }

    #[test]
    fn refusals_and_timeouts_are_named_after_their_kinds() {
        let snake_case = |kind: &dyn std::fmt::Debug| {
            let camel = format!("{kind:?}");
            let words = camel.split_inclusive(|_| true).map(|c| match c {
                c if c.chars().all(char::is_uppercase) => format!("_{}", c.to_lowercase()),
                c => c.to_owned(),
            });
            words.collect::<String>().trim_start_matches('_').to_owned()
        };
        let refusals: Vec<_> = ErrorKind::ALL.iter().map(|kind| snake_case(kind)).collect();
        assert_eq!(refusals, REFUSALS);
        for kind in [TimerKind::Header, TimerKind::Body, TimerKind::Write, TimerKind::Idle, TimerKind::Linger]
        {
            assert_eq!(snake_case(&kind), TIMEOUTS[kind as usize]);
        }
    }

    #[test]
    fn every_code_that_is_sent_is_counted_and_no_other() {
        let sent = http1::Status::SENT.map(|status| status.0.to_string());
        assert_eq!(REPLY_CODES.as_slice(), sent.as_slice());
    }

    #[test]
    fn replies_are_counted_by_class_and_code() {
        let block = Counters::default();
        for status in [200, 200, 206, 404, 299, 599, 42, 700, u16::MAX] {
            block.reply(status);
        }
        assert_eq!(block.replies.each_ref().map(Counter::get), [0, 4, 0, 1, 1]);
        let by_code: Vec<_> =
            REPLY_CODES.iter().zip(&block.replies_by_code).filter(|(_, n)| n.get() > 0).collect();
        assert_eq!(
            by_code.iter().map(|(c, n)| (**c, n.get())).collect::<Vec<_>>(),
            [("200", 2), ("206", 1), ("404", 1)]
        );
    }

    #[test]
    fn values_fall_into_the_bucket_whose_bound_holds_them() {
        for value in (0..5000).chain([u64::MAX]) {
            let expected = HISTOGRAM_BOUNDS.partition_point(|&bound| bound < value);
            assert_eq!(bucket(value), expected, "{value}");
        }
        let block = Counters::default();
        for accepted in [0, 3, 7, 2] {
            block.accept_phase(accepted);
        }
        assert_eq!((block.accepts.get(), block.accept_phases.get()), (12, 4));
        assert_eq!(block.accepts_per_phase_max.get(), 7);
        block.accept_queue_seen(3);
        block.accept_wait_seen(9);
        assert_eq!((block.accept_queue_lengths[3].get(), block.accept_queue_lengths_seen.get()), (1, 3));
        assert_eq!((block.accept_waits_ms[5].get(), block.accept_waits_seen_ms.get()), (1, 9));
    }

    #[test]
    fn histograms_name_the_counter_that_sums_them_up() {
        for metric in METRICS {
            if let Kind::Histogram { sum } = metric.kind {
                let sum = METRICS.iter().find(|metric| metric.name == sum);
                assert!(
                    sum.is_some_and(|sum| sum.kind == Kind::Counter && sum.len() == 1),
                    "{}",
                    metric.name
                );
                assert_eq!(metric.len(), HISTOGRAM_BOUNDS.len() + 1);
            }
        }
    }

    #[test]
    fn what_a_worker_that_is_gone_had_counted_is_kept() {
        let (block, past) = (Counters::default(), Counters::default());
        for round in 1..=2 {
            block.accept_phase(5);
            block.connections_opened.add(5);
            block.connections_closed.add(1);
            block.connections[ConnectionState::Idle as usize].set(4);
            block.pid.store(17, Ordering::Relaxed);
            block.retire_to(&past);
            assert_eq!((past.accepts.get(), past.accepts_per_phase_max.get()), (5 * round, 5));
            assert_eq!(
                (past.connections_opened.get(), past.connections_closed.get()),
                (5 * round, 5 * round)
            );
            assert!(METRICS.iter().flat_map(|m| m.read(&block)).all(|counter| counter.get() == 0));
            assert_eq!(
                (block.pid.load(Ordering::Relaxed), past.connections[ConnectionState::Idle as usize].get()),
                (0, 0)
            );
        }
    }

    #[test]
    fn a_census_is_taken_once_for_each_request() {
        let block = Counters::default();
        block.answer_census(|| panic!("nobody asked"));
        let first = block.census.request();
        assert!(!block.census.is_done(first));
        let second = block.census.request();
        block.answer_census(|| [1, 2, 3, 4, 5]);
        assert!(block.census.is_done(first) && block.census.is_done(second));
        assert_eq!(block.connections[ConnectionState::Lingering as usize].get(), 5);
        block.answer_census(|| panic!("already answered"));
    }
}
