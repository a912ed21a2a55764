//! The outcome of a trial, as the journal stores it. `measuring::figures` makes it.
//!
//! Members have the same names as in the results of `sluicelab load`. A name ends with its unit: `_per_s`,
//! `_ms`, `_us`, `_mb` and `_mbps` (10^6), `_cpus` (1: a whole one), `_part` (0 to 1). `docs/lab-data.md`
//! lists all of them. Renaming one requires a new [`SCHEMA`](super::SCHEMA).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::record::profile::Part;

/// The outcome of a trial. Rates are per second of the measured time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Outcome {
    /// The trial's records within the directory of results. A run that is not compared has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The requested rate; `None` in a closed loop.
    pub asked_requests_per_s: Option<f64>,
    /// Whole replies.
    pub replies_per_s: f64,
    /// Whole replies of status 2xx: with clients that give up, the goodput.
    #[serde(default)]
    pub replies_2xx_per_s: Option<f64>,
    /// The figures of each class of clients, and of files and computed replies, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parties: Vec<Party>,
    /// What the server's application has done, if the application logs it.
    #[serde(default)]
    pub work: Option<Work>,
    /// Replies by the server's own count, if it has one. These include replies to disconnected clients.
    pub served_replies_per_s: Option<f64>,
    /// The average number of requests on a connection; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<f64>,
    /// 10^6 bits of bodies.
    pub replies_body_mbps: Option<f64>,
    /// The part of the calls that clients gave up.
    pub calls_timeouts_part: f64,
    /// The part of the calls that failed, timeouts included.
    pub calls_errors_part: f64,
    /// The part of the calls that were answered with a status 4xx or 5xx. These also count as replies.
    #[serde(default)]
    pub replies_4xx_5xx_part: f64,
    /// How long clients waited for replies. With wrk, only the time after a request was sent.
    pub wait_ms: Times,
    /// TLS handshakes on the connections that were opened in the measured time; `None` without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
    /// Calls by size of the body.
    pub by_size: Vec<OfSize>,
    /// How the server accepted connections, if it reports that.
    pub accepting: Option<Accepting>,
    /// Connections that the kernel dropped, by cause (`/proc/net/netstat` of the server's namespace), and
    /// packets dropped before a CPU's backlog (`/proc/net/softnet_stat`, of the whole machine).
    pub drops_per_s: BTreeMap<String, f64>,
    /// Where CPU time went.
    pub cpu: Cpu,
    /// Microseconds of CPU time that the generator used for each call.
    pub generator_cpu_us_per_call: f64,
    /// Times per second that the server's threads were taken off a CPU, or left it to wait. NaN if its
    /// processes are unknown.
    #[serde(deserialize_with = "number_or_null")]
    pub context_switches_per_s: f64,
    /// Memory of the server's processes at the end, in 10^6 bytes; shared memory is divided among them. NaN
    /// if the processes are unknown, and then so is their CPU time.
    #[serde(deserialize_with = "number_or_null")]
    pub memory_mb: f64,
    /// Their open descriptors at the end; `None` if the processes are unknown.
    pub descriptors: Option<u64>,
    /// The page cache that counts for the server, if its memory is limited; else that of the machine. In
    /// 10^6 bytes.
    pub page_cache_mb: f64,
    /// What its processes read from the disk, in 10^6 bytes per second. NaN if they are unknown.
    #[serde(deserialize_with = "number_or_null")]
    pub read_mb_per_s: f64,
    /// The quanta of a shared CPU.
    pub turns: Option<Given>,
    /// How close to the window's edges the counters were read, if that was during a run.
    #[serde(rename = "looks")]
    pub sample_times: Option<SampleTimes>,
    /// Replies in each whole second of the measured time.
    pub replies_each_second: Vec<f64>,
    /// The slices of which this outcome is the median, if there were several.
    pub slices: Vec<Slice>,
    /// The rates that a search for the highest one tried. All other figures are those of the highest rate
    /// that was served in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
    /// Where its CPU time went, if it was sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<Part>,
    /// The server's system calls for each reply, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls_per_reply: Option<f64>,
    /// The reasons why the figures don't count: objections of the generator, and counters that were read
    /// outside the window. Empty for a valid trial. An invalid trial is repeated.
    pub invalid: Vec<String>,
    /// Whether the only reason is that the generator was short of CPU.
    #[serde(skip)]
    pub(crate) lacked_cpu_only: bool,
    /// The reasons why the clients of a closed loop could not have sent more requests. The number of
    /// replies and their times then depend on the clients. The server's cost per reply does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients_were_short: Vec<String>,
    /// The papers' rules that the server broke. A failed trial is shown, but never included in an average.
    pub failed: Vec<String>,
}

/// Reads a number; JSON has null for NaN.
fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// The value of a number that older journals do not have.
fn unknown() -> f64 {
    f64::NAN
}

/// Times in milliseconds. A time begins when a call should have been issued, and includes connecting. It
/// ends with the last byte of the reply, or when the client gave up: such a client would have waited at
/// least that long. NaN without any client.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Times {
    #[serde(deserialize_with = "number_or_null")]
    pub mean: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub p50: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub p90: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub p99: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub p999: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub max: f64,
    /// Pairs of a fraction and the time below which that fraction of the calls is.
    #[serde(default)]
    pub percentiles: Vec<(f64, f64)>,
}

/// The times of no calls.
impl Default for Times {
    fn default() -> Self {
        let [mean, p50, p90, p99, p999, max] = [f64::NAN; 6];
        Self { mean, p50, p90, p99, p999, max, percentiles: Vec::new() }
    }
}

/// TLS handshakes. A time begins when TCP is connected, and ends when the client could send a request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Handshakes {
    /// Full handshakes.
    pub full_per_s: f64,
    /// Handshakes that resumed a session.
    pub resumed_per_s: f64,
    /// Handshakes that failed, or that clients gave up.
    pub failed_per_s: f64,
    /// The times of full and resumed handshakes.
    pub time_ms: Times,
    /// Those of full handshakes.
    pub full_time_ms: Times,
    /// Those of resumed handshakes.
    pub resumed_time_ms: Times,
}

/// Calls for bodies of one class of sizes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct OfSize {
    pub size: String,
    pub calls: f64,
    /// Calls that got a connection.
    pub reached: f64,
    pub timeouts: f64,
    pub unserved: f64,
    /// The mean time of whole replies; NaN if there are none.
    #[serde(deserialize_with = "number_or_null")]
    pub reply_time_ms_mean: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub reply_time_ms_p99: f64,
}

/// A group of calls or handshakes: of a class of clients, of files (`files`), or of computed replies
/// (`computed`).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Party {
    pub name: String,
    pub calls_per_s: f64,
    /// Whole replies of status 2xx to these calls.
    pub replies_2xx_per_s: f64,
    /// The 99th percentile of the times of their whole replies; NaN if there are none.
    #[serde(deserialize_with = "number_or_null")]
    pub reply_time_ms_p99: f64,
    /// The 99th percentile of the times from when a call was due, with calls that were not answered. Those
    /// waited at least so long. NaN of files and computed replies, and in older journals.
    #[serde(default = "unknown", deserialize_with = "number_or_null")]
    pub wait_ms_p99: f64,
    /// TLS handshakes that were completed, of a class of clients that only makes these. Its calls are
    /// handshakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes_per_s: Option<f64>,
    /// Pairs of a fraction and the time below which that fraction of these replies is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<(f64, f64)>,
}

/// What an application has done.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Work {
    /// Requests that it computed.
    pub requests_per_s: f64,
    /// How many of its processes were busy with requests.
    pub busy_processes: f64,
    /// How many of its processes were busy with requests whose clients got no good reply.
    pub in_vain_processes: f64,
}

/// How connections were accepted. Equation 1 of the 2004 paper: accepts per second are phases per second
/// times accepts per phase.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Accepting {
    /// Accepts per second.
    pub accepts_per_s: f64,
    /// Phases that accepted a connection, or tried to.
    pub accept_phases_per_s: f64,
    /// Accepts in each phase.
    pub accepts_per_phase: f64,
    /// Turns of the event loop.
    pub phases_per_s: f64,
    /// System calls that asked for events.
    pub event_waits_per_s: f64,
    /// Each worker's part of the accepts.
    pub accepts_parts: Vec<f64>,
}

/// Where CPU time went, in CPUs (1: a whole one).
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Cpu {
    /// CPU time of the server's processes, including soft interrupts that came while they ran.
    #[serde(deserialize_with = "number_or_null")]
    pub server_cpus: f64,
    /// The part of that in user mode.
    #[serde(deserialize_with = "number_or_null")]
    pub server_user_part: f64,
    /// Microseconds of the server's CPU time for each reply.
    #[serde(deserialize_with = "number_or_null")]
    pub server_us_per_reply: f64,
    /// Soft interrupts on the server's CPUs, whatever they interrupted (sampled at the timer's ticks).
    pub server_softirq_cpus: f64,
    /// Waiting for the disk on the server's CPUs while there was nothing else to do.
    pub server_io_wait_cpus: f64,
    /// Idle time of the server's CPUs.
    pub server_idle_cpus: f64,
    /// Soft interrupts on the clients' CPUs.
    pub client_softirq_cpus: f64,
    /// Idle time of the clients' CPUs.
    pub client_idle_cpus: f64,
}

/// The quanta of servers that shared a CPU.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Given {
    /// The part of the CPU that all servers had together.
    pub part: f64,
    /// The median quantum, in microseconds.
    pub turn_us_p50: f64,
    /// The 99th percentile of the quanta.
    pub turn_us_p99: f64,
    /// The median time in which no server had a quantum, in microseconds.
    pub between_us_p50: f64,
    /// The 99th percentile of that time.
    pub between_us_p99: f64,
    /// The longest such time.
    pub between_us_max: f64,
}

/// How close to the edges of the measured window the counters were read, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct SampleTimes {
    /// From the start of the generator's process to the start of its run: it reads the sessions first.
    pub began_after_ms: f64,
    /// The largest distance of a reading from its edge.
    pub off_ms: f64,
}

/// One slice of the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Slice {
    #[serde(deserialize_with = "number_or_null")]
    pub cpu_server_us_per_reply: f64,
    pub replies_per_s: f64,
}

/// A rate that a search tried.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Probe {
    /// The requested rate.
    pub asked_requests_per_s: f64,
    /// The time that the threshold is about, in milliseconds; NaN if no call was answered.
    #[serde(deserialize_with = "number_or_null")]
    pub found_ms: f64,
    /// Whether it was served in time.
    pub is_served: bool,
}

impl Outcome {
    /// The outcome of a server that ended during the trial: without any figures.
    pub(crate) fn lost(why: String) -> Self {
        let [server_cpus, server_user_part, server_us_per_reply] = [f64::NAN; 3];
        let cpu = Cpu { server_cpus, server_user_part, server_us_per_reply, ..Cpu::default() };
        let [memory_mb, context_switches_per_s, read_mb_per_s] = [f64::NAN; 3];
        Self { failed: vec![why], cpu, memory_mb, context_switches_per_s, read_mb_per_s, ..Self::default() }
    }

    /// Whether its figures count as a measurement.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }

    /// Whether the server broke none of the rules.
    pub fn is_good(&self) -> bool {
        self.failed.is_empty()
    }
}
