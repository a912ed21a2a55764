//! What came of a trial, as the journal keeps it. `measuring::figures` makes it.
//!
//! Its members are called as the same figures are in the results of `sluicelab load`, and have their unit at
//! the end: `_per_s`, `_ms`, `_us`, `_mb` and `_mbps` (10^6), `_cpus` (1: a whole one), `_part` (0 to 1).
//! `docs/lab-data.md` has all of them. What is renamed here takes another [`SCHEMA`](super::SCHEMA).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::record::profile::Part;

/// What came of a trial. Rates are per second of the measured time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Outcome {
    /// The record of the trial in the directory of results. A run that is compared with nothing has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// What the clients were to ask for; `None` in a closed loop.
    pub asked_requests_per_s: Option<f64>,
    /// Whole replies.
    pub replies_per_s: f64,
    /// Of these, those of status 2xx: with clients that give up, the goodput.
    #[serde(default)]
    pub replies_2xx_per_s: Option<f64>,
    /// The same of each class of clients, or of files and what is computed, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parties: Vec<Party>,
    /// What the server's application has done, where that is noted.
    #[serde(default)]
    pub work: Option<Work>,
    /// Replies by the server's own count, where it has one: those to clients that have gone are among them.
    pub served_replies_per_s: Option<f64>,
    /// How many requests clients have for a connection, on average; `None` where nobody tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<f64>,
    /// 10^6 bits of bodies.
    pub replies_body_mbps: Option<f64>,
    /// Part of the calls that clients gave up.
    pub calls_timeouts_part: f64,
    /// Part of the calls that failed, timeouts included.
    pub calls_errors_part: f64,
    /// Part of the calls that were answered with a status 4xx or 5xx. These replies count as such.
    #[serde(default)]
    pub replies_4xx_5xx_part: f64,
    /// How long clients waited for replies. wrk tells how long these took once they were asked for.
    pub wait_ms: Times,
    /// By size of the body.
    pub by_size: Vec<OfSize>,
    /// How connections were accepted, where the server tells.
    pub accepting: Option<Accepting>,
    /// Connections that the kernel dropped, by cause (`/proc/net/netstat` of the server's namespace), and
    /// packets dropped before a CPU's backlog (`/proc/net/softnet_stat`, of the whole machine).
    pub drops_per_s: BTreeMap<String, f64>,
    /// Where CPU time went.
    pub cpu: Cpu,
    /// Microseconds of CPU time that the generator used for each call.
    pub generator_cpu_us_per_call: f64,
    /// Times per second that the server's threads were taken off a CPU, or left it to wait. Not a number
    /// where its processes are not known.
    #[serde(deserialize_with = "number_or_null")]
    pub context_switches_per_s: f64,
    /// Memory of the server's processes at the end, what they share divided among them, in 10^6 bytes. Not a
    /// number where they are not known, as their CPU time then.
    #[serde(deserialize_with = "number_or_null")]
    pub memory_mb: f64,
    /// Descriptors that they had open then; `None` where they are not known.
    pub descriptors: Option<u64>,
    /// The page cache that counts for the server (where it is bounded), in 10^6 bytes; else the machine's.
    pub page_cache_mb: f64,
    /// What its processes had the disk read, in 10^6 bytes per second. Not a number where they are not known.
    #[serde(deserialize_with = "number_or_null")]
    pub read_mb_per_s: f64,
    /// How it shared a CPU.
    pub turns: Option<Given>,
    /// How well counters were read, where that was to be in the middle of a run.
    pub looks: Option<Looks>,
    /// Replies in each whole second of the measured time.
    pub replies_each_second: Vec<f64>,
    /// What the slices came to that this is the median of, if there were several.
    pub slices: Vec<Slice>,
    /// The rates that were tried, where the highest was searched for that is served in time. All other
    /// figures are of that one then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
    /// Where its CPU time went, if that was sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<Part>,
    /// How many system calls a reply took it, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls_per_reply: Option<f64>,
    /// Why the figures don't count: what the generator says against them, and looks that missed the window.
    /// Empty if they do. Such a trial is repeated.
    pub invalid: Vec<String>,
    /// Whether all of that is that the generator was short of its CPU.
    #[serde(skip)]
    pub(crate) lacked_cpu_only: bool,
    /// Why the clients of a closed loop could not have asked for more. How many were answered, and how fast,
    /// is the clients' doing then; what each reply cost the server is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients_were_short: Vec<String>,
    /// The papers' rules for a result that counts that this one breaks: the server's doing. Such a trial is
    /// shown, and not averaged in.
    pub failed: Vec<String>,
}

/// JSON has null for what is not a number.
fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Milliseconds from when a call should have been issued, connecting included, to the last byte of its reply,
/// or to when its client gave up: these have waited so long at least. Not numbers where nobody has waited.
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
    /// Pairs of a part of one and the time below which that part is.
    #[serde(default)]
    pub percentiles: Vec<(f64, f64)>,
}

/// Of nobody.
impl Default for Times {
    fn default() -> Self {
        let [mean, p50, p90, p99, p999, max] = [f64::NAN; 6];
        Self { mean, p50, p90, p99, p999, max, percentiles: Vec::new() }
    }
}

/// Calls for bodies of one class of sizes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct OfSize {
    pub size: String,
    pub calls: f64,
    /// Calls that were connected.
    pub reached: f64,
    pub timeouts: f64,
    pub unserved: f64,
    /// Of whole replies; not a number if there is none.
    #[serde(deserialize_with = "number_or_null")]
    pub reply_time_ms_mean: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub reply_time_ms_p99: f64,
}

/// Some of the calls: of a class of clients, of files (`files`), or of what is computed (`computed`).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Party {
    pub name: String,
    pub calls_per_s: f64,
    /// Whole replies of status 2xx to them.
    pub replies_2xx_per_s: f64,
    /// Of their whole replies; not a number if there is none.
    #[serde(deserialize_with = "number_or_null")]
    pub reply_time_ms_p99: f64,
    /// Pairs of a part of one and the time below which that part of these replies is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<(f64, f64)>,
}

/// What an application has done.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Work {
    /// Requests that it has computed.
    pub requests_per_s: f64,
    /// How many of its processes were busy with them.
    pub busy_processes: f64,
    /// How many with requests of clients that got no good reply any more.
    pub in_vain_processes: f64,
}

/// Equation 1 of the 2004 paper: accepts per second are phases per second by accepts per phase.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Accepting {
    /// Accepts per second.
    pub accepts_per_s: f64,
    /// Phases in which something was accepted or tried to be.
    pub accept_phases_per_s: f64,
    /// Accepts in each.
    pub accepts_per_phase: f64,
    /// Turns of the event loop.
    pub phases_per_s: f64,
    /// System calls that asked for events.
    pub event_waits_per_s: f64,
    /// The part of the accepts that each worker made.
    pub accepts_parts: Vec<f64>,
}

/// Where CPU time went, in CPUs (1: a whole one).
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Cpu {
    /// The server's processes, with soft interrupts that came while they ran.
    #[serde(deserialize_with = "number_or_null")]
    pub server_cpus: f64,
    /// The part of that in user mode.
    #[serde(deserialize_with = "number_or_null")]
    pub server_user_part: f64,
    /// Microseconds of the server's for each reply.
    #[serde(deserialize_with = "number_or_null")]
    pub server_us_per_reply: f64,
    /// Soft interrupts on the server's CPUs, whomever they interrupted (sampled at the timer's ticks).
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

/// What became of turns.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Given {
    /// The part of the CPU that all servers had together.
    pub part: f64,
    /// How long a turn was, in microseconds.
    pub turn_us_p50: f64,
    /// Nearly all were shorter.
    pub turn_us_p99: f64,
    /// For how long none had one, in microseconds.
    pub between_us_p50: f64,
    /// Nearly always for less.
    pub between_us_p99: f64,
    /// At most.
    pub between_us_max: f64,
}

/// How well the looks met the edges of the measured window, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Looks {
    /// From the start of the generator's process to that of its run: it reads the sessions first.
    pub began_after_ms: f64,
    /// The most that a look was off.
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

/// One rate that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Probe {
    /// Requests per second that were asked for.
    pub asked_requests_per_s: f64,
    /// What the threshold is about, in milliseconds; not a number if nobody was answered.
    #[serde(deserialize_with = "number_or_null")]
    pub found_ms: f64,
    /// Whether it was served in time.
    pub is_served: bool,
}

impl Outcome {
    /// Of a server that was there no more: without any figures.
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

    /// Whether the server did what it is measured for.
    pub fn is_good(&self) -> bool {
        self.failed.is_empty()
    }
}
