//! What each worker counts, and the one table that describes it for every status format.
//!
//! A worker is the only writer of its [`Counters`]. The status thread reads them at any time. It runs in
//! the same process, or in the supervisor's if the block lies in a shared mapping. So an increment is a
//! plain load, add and store, with no locked instruction. A reader may see one counter a moment before
//! another, but never a torn value.
//!
//! There are three kinds of value. Counters only grow. The worker sets gauges when they change. The
//! *census* (connections by state) would cost an update per state change, so the worker takes it on demand:
//! see [`Census`].
//!
//! [`METRICS`] describes every value once. Text, JSON and Prometheus output all walk it, so a value added
//! to the struct and to the table appears everywhere. Each pool of applications has a separate block
//! ([`PoolCounters`]), to which all workers add, and a separate table, [`POOL_METRICS`].

mod metrics;
mod pool;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::thread;
use std::time::Duration;

use http1::{ErrorKind, TimerKind};
use sys::ring::Counts;

pub use results::status::{
    ConnectionState, DiskWait, Failure, HelperJob, InTime, LineLoss, LoopPhase, Reset, RingOperation, Stage,
};
use results::status::{Refusal, ReplyCode, Timeout};
use results::{Label as _, StatusClass};

pub use self::metrics::{Block, HISTOGRAM_BOUNDS, Kind, Labels, METRICS, Metric, told};
pub use self::pool::{POOL_METRICS, PoolCounters};

/// How many times a block is read while values are being moved to it, and how long to wait for the end of a
/// move.
const MOST_READINGS: u32 = 100;
const A_MOVE: Duration = Duration::from_micros(50);

sys::shareable! {
    /// One number with any number of readers and a single writer, except for the counters of a pool.
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

    /// Adds `n` if there are other writers. This takes a locked instruction.
    pub fn add_among_others(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Replaces the value (gauges).
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Raises the value to `value` if that is larger (high-water marks).
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
    /// Everything that one worker counts. It may lie in a [`Shared`](sys::shared::Shared) mapping. The
    /// alignment keeps two workers' blocks off one (doubly fetched) cache line.
    #[derive(Debug, Default)]
    #[repr(C, align(128))]
    pub struct Counters {
        /// Times that the supervisor started the worker again after it died. The supervisor adds to this
        /// while there is no worker.
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
        /// Connections that an accept phase may take, as set by the accept policy.
        pub accept_limit: Counter,
        /// Microseconds that the work phase may take; 0: it is not bounded.
        pub work_limit_us: Counter,
        /// Microseconds of delay that the accept policy tries to stay below; 0: it has no target.
        pub accept_delay_target_us: Counter,
        /// The accept policy's estimate of how long a client that arrives now would wait, in microseconds.
        pub accept_delay_us: Counter,
        /// 1 if the accept policy sees a delay that stays above its target.
        pub accept_overloaded: Counter,

        /// Connections that the worker started to serve.
        pub connections_opened: Counter,
        /// Connections closed, for whatever reason.
        pub connections_closed: Counter,
        /// Idle connections closed to make room for new ones.
        pub connections_closed_under_pressure: Counter,
        /// Connections that ended by a reset, by cause.
        pub resets: [Counter; Reset::NAMES.len()],
        /// Deadlines that passed.
        pub timeouts: [Counter; Timeout::NAMES.len()],
        /// Requests refused because they broke the protocol or a limit.
        pub refusals: [Counter; Refusal::NAMES.len()],

        /// Request heads received whole.
        pub requests: Counter,
        /// Replies by class, counted when they end.
        pub replies: [Counter; StatusClass::NAMES.len()],
        /// Replies with the codes of [`ReplyCode`].
        pub replies_by_code: [Counter; ReplyCode::NAMES.len()],
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

        /// Connections closed because they did not begin with the required PROXY header.
        pub proxy_headers_refused: Counter,
        /// Open connections of clients that speak TLS.
        pub tls_connections: Counter,
        /// Complete TLS handshakes, resumed ones included.
        pub tls_handshakes: Counter,
        /// Those that have continued an earlier session.
        pub tls_resumed: Counter,
        /// Connections closed because the client broke the TLS protocol, or did not speak it.
        pub tls_failures: Counter,
        /// TLS handshakes begun: their first message has come.
        pub tls_handshakes_begun: Counter,
        /// Those that had to wait.
        pub tls_handshakes_waited: Counter,
        /// How long they waited, in microseconds.
        pub tls_handshake_wait_us: Counter,
        /// Handshakes refused because others of the network wait in vain.
        pub tls_handshakes_refused: Counter,
        /// Those that ended while they waited: the client has left, or its time was over.
        pub tls_handshakes_given_up: Counter,
        /// Those that a thread has computed in time that nothing else wanted.
        pub tls_handshakes_aside: Counter,
        /// CPU time of handshakes, in microseconds.
        pub tls_handshake_cpu_us: Counter,
        /// Handshakes that wait now.
        pub tls_handshakes_waiting: Counter,
        /// Bytes of bodies and replies that are kept in memory for applications.
        pub application_memory_bytes: Counter,
        /// Connections that the reserved memory has room for.
        pub connection_places: Counter,
        /// The bytes that a connection takes, by the sizes of its parts.
        pub connection_bytes: Counter,
        /// The worker's own memory when it began to serve.
        pub start_memory_bytes: Counter,
        /// Jobs given to helpers, by kind.
        pub helper_jobs: [Counter; HelperJob::NAMES.len()],
        /// Jobs that helpers have not finished.
        pub helper_queue: Counter,
        /// The most unfinished jobs at one time.
        pub helper_queue_max: Counter,
        /// How long a client that arrives now would wait for a job, as estimated, in microseconds.
        pub disk_delay_us: Counter,
        /// Times that accepting was paused because that was too long.
        pub disk_holds: Counter,
        /// Helpers whose current job has taken long.
        pub helpers_stuck: Counter,
        /// Waits for the disk that were given up, by what waited.
        pub disk_waits_given_up: [Counter; DiskWait::NAMES.len()],
        /// Times that the worker checked whether a part of a file is in memory.
        pub residency_probes: Counter,
        /// Times that the part was not in memory.
        pub residency_misses: Counter,

        /// User-level threads that exist.
        pub user_threads: Counter,
        /// User-level threads that have a client: they run, or are parked until it is ready.
        pub user_threads_busy: Counter,
        /// Clients that wait for a user-level thread, because all have one.
        pub user_threads_awaited: Counter,
        /// Times that the scheduler has switched to a user-level thread, and back.
        pub user_thread_switches: Counter,
        /// The memory that one stack has taken, at most, among the stacks looked at.
        pub user_thread_stack_bytes: Counter,
        /// The memory of all stacks, estimated from the stacks looked at.
        pub user_thread_stacks_bytes: Counter,

        /// Operations given to a ring, by kind.
        pub ring_operations: [Counter; RingOperation::NAMES.len()],
        /// Calls that handed operations to the kernel, or waited for them.
        pub ring_enters: Counter,
        /// Operations that are still to complete.
        pub ring_in_flight: Counter,

        /// Threads in use of each stage of a pipeline.
        pub stage_threads: [Counter; Stage::NAMES.len()],
        /// Connections in the queue of each stage, as last seen by a thread of it.
        pub stage_queue: [Counter; Stage::NAMES.len()],
        /// Times that a thread of a stage has taken connections to work on. `stage_connections` is how many
        /// connections these were.
        pub stage_batches: [Counter; Stage::NAMES.len()],
        /// See [`stage_batches`](Self::stage_batches).
        pub stage_connections: [Counter; Stage::NAMES.len()],
        /// How long these connections were in the stage's queue, in nanoseconds.
        pub stage_wait_ns: [Counter; Stage::NAMES.len()],
        /// How long threads of a stage had nothing to do, in nanoseconds.
        pub stage_idle_ns: [Counter; Stage::NAMES.len()],
        /// Times that a stage had to wait until the next one had room.
        pub stage_blocked: [Counter; Stage::NAMES.len()],
        /// Times that a controller has changed the number of a stage's threads in use.
        pub stage_threads_changed: [Counter; Stage::NAMES.len()],
        /// The largest number of connections in a batch.
        pub stage_batch_limit: Counter,
        /// Times that a controller has changed this number.
        pub stage_batch_limit_changed: Counter,
        /// The most new connections admitted a second; 0: there is no bound.
        pub admission_rate: Counter,
        /// Times that a controller has changed this rate.
        pub admission_rate_changed: Counter,
        /// Replies that a stage has sent, by whether they took longer than their target.
        pub admission_replies: [Counter; InTime::NAMES.len()],

        /// Connections by state, as of the last census.
        pub connections: [Counter; ConnectionState::NAMES.len()],
        /// The request for a census and its answer.
        pub census: Census,
        /// The worker's process; 0 while there is none. The supervisor writes it.
        pub pid: AtomicU32,
        /// Odd while another block's values are being moved to this one; see [`Counters::read_with`].
        pub moves: AtomicU32,
        /// How many times the alarm that bounds the worker's [sends](crate::sends) has rung.
        pub alarm_rings: AtomicU32,
    }
}

impl Counters {
    /// Called when a worker's process has ended: everything that it had open is closed. Only when there is
    /// no worker.
    pub fn settle(&self) {
        self.pid.store(0, Ordering::Relaxed);
        self.connections_closed.set(self.connections_opened.get());
        for metric in METRICS.iter().filter(|metric| matches!(metric.kind, Kind::Gauge | Kind::Level)) {
            metric.read(self).iter().for_each(|gauge| gauge.set(0));
        }
    }

    /// Moves the values of this block to `past`. Only when there is no worker, and only by the one thread
    /// that moves values there.
    pub fn retire_to(&self, past: &Self) {
        self.settle();
        past.moves.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        for metric in METRICS {
            for (here, there) in metric.read(self).iter().zip(metric.read(past)) {
                match metric.kind {
                    Kind::Peak | Kind::Level => there.raise_to(here.get()),
                    Kind::Counter | Kind::Histogram { .. } | Kind::Gauge => there.add(here.get()),
                }
                here.set(0);
            }
        }
        past.moves.fetch_add(1, Ordering::Release);
    }

    /// What `read` reads of this block and of the blocks that are moved to it. It reads while none is being
    /// moved, because such a block would count twice. It does not wait for ever: the supervisor may have
    /// died during a move.
    pub fn read_with<T>(&self, read: impl Fn() -> T) -> T {
        for _ in 0..MOST_READINGS {
            let before = self.moves.load(Ordering::Acquire);
            if !before.is_multiple_of(2) {
                thread::sleep(A_MOVE);
                continue;
            }
            let values = read();
            fence(Ordering::Acquire);
            if self.moves.load(Ordering::Relaxed) == before {
                return values;
            }
        }
        read()
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

    /// What a ring has done since it was made, and what it is doing.
    pub fn ring(&self, counts: &Counts, in_flight: usize) {
        self.ring_in_flight.set(in_flight as u64);
        let Counts { enters, accepts, receives, sends, reads, closes, polls, cancels, registrations } =
            *counts;
        for (kind, count) in self.ring_operations.iter().zip([
            accepts,
            receives,
            sends,
            reads,
            closes,
            polls,
            cancels,
            registrations,
        ]) {
            kind.set(count);
        }
        self.ring_enters.set(enters);
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

    /// Counts one ended reply.
    #[inline]
    pub fn reply(&self, status: u16) {
        if status == 200 {
            // Nearly all replies. Their slots are constants, so the table is not read, which lies in a
            // separate page.
            self.replies[1].add(1);
            self.replies_by_code[const { REPLY_CODE_SLOTS[200] as usize }].add(1);
        } else {
            self.other_reply(status);
        }
    }

    #[inline(never)]
    fn other_reply(&self, status: u16) {
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

    /// Counts a job given to a helper. There are `unfinished` jobs with this one.
    pub fn helper_jobs(&self, kind: HelperJob, unfinished: u64) {
        self.helper_jobs[kind as usize].add(1);
        self.helper_queue.set(unfinished);
        self.helper_queue_max.raise_to(unfinished);
    }

    /// Counts a wait for the disk that was given up.
    pub fn disk_wait_given_up(&self, wait: DiskWait) {
        self.disk_waits_given_up[wait as usize].add(1);
    }

    /// Counts connections that a thread of a stage has taken to work on. `wait_ns` is the sum of the times
    /// that they waited in its queue.
    pub fn stage_batch(&self, stage: Stage, connections: u64, wait_ns: u64) {
        let stage = stage as usize;
        self.stage_batches[stage].add(1);
        self.stage_connections[stage].add(connections);
        self.stage_wait_ns[stage].add(wait_ns);
    }

    /// Counts an access log line that the worker had no room for, because the writer has fallen behind.
    pub fn access_log_behind(&self) {
        self.access_log_dropped[LineLoss::Behind as usize].add(1);
    }

    /// Counts access log lines that could not be written. The writers of all logs call this when lines are
    /// lost.
    pub fn access_log_lost(&self, lines: u64) {
        if lines > 0 {
            self.access_log_dropped[LineLoss::WriteError as usize].add_among_others(lines);
        }
    }

    /// Answers a pending census with the connections of each state in [`ConnectionState`] order. `count`
    /// walks the worker's connections. It is called only if a census is pending.
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
    /// How the status thread requests a count of connections by state. It increments `wanted` and wakes the
    /// worker. The worker stores the gauges and then sets `done` to the generation that it has seen.
    #[derive(Debug, Default)]
    #[repr(C)]
    pub struct Census {
        wanted: AtomicU32,
        done: AtomicU32,
    }
}

impl Census {
    /// Requests a new census and returns its generation, for [`Census::is_done`]. The caller must also wake
    /// the worker.
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

/// For each status code its index in [`ReplyCode`], or an index past the end.
static REPLY_CODE_SLOTS: [u8; 600] = reply_code_slots();

const fn reply_code_slots() -> [u8; 600] {
    let mut slots = [u8::MAX; 600];
    let mut place = 0;
    while place < ReplyCode::NAMES.len() {
        let [hundreds, tens, ones] = *ReplyCode::NAMES[place].as_bytes() else {
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

#[cfg(test)]
mod tests;
