//! What was asked of a run, on which machine, and what the run itself took.

use machine::Description;
use serde::Serialize;

use super::{Dropped, Joined, Threshold};

/// What was asked, and what the run itself used.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// Version of the program.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it began, in seconds since the Unix epoch.
    pub began_unix_s: u64,
    /// Where to.
    pub targets: Vec<String>,
    /// How load was made: `sessions`, `open`, `paced` or `closed`.
    pub model: &'static str,
    /// Arrivals asked for: `exponential`, `uniform`, `fixed` or `logged`; none in a closed loop.
    pub arrivals: Option<&'static str>,
    /// Sessions per second asked for, on average over the measured time; none in a closed loop.
    pub asked_sessions_per_s: Option<f64>,
    /// Requests per second asked for, on average over the measured time; none in a closed loop.
    pub asked_requests_per_s: Option<f64>,
    /// Sessions at a time, in a closed loop; connections that are kept, of a paced load.
    pub connections: Option<u32>,
    /// Classes of clients, if there are any.
    pub classes: Vec<AskedOfClass>,
    /// What arrivals were drawn from, if they were.
    pub seed: Option<u64>,
    /// Sessions and requests of the log.
    pub log_sessions: u64,
    /// See above.
    pub log_requests: u64,
    /// Seconds that were left out at the start.
    pub warm_up_s: f64,
    /// Seconds that a client waits for a connection.
    pub connect_timeout_s: f64,
    /// Seconds that a client waits for a whole reply.
    pub reply_timeout_s: f64,
    /// Whether replies were compared with files.
    pub verified: bool,
    /// Where the threads ran.
    pub cpus: Vec<usize>,
    /// Whether they ran before all others of their cores.
    pub realtime: bool,
    /// The part of the time for which they may have waited for their cores behind others in a valid run.
    pub may_wait: f64,
    /// What it was to be held against.
    #[serde(skip)]
    pub thresholds: Vec<Threshold>,
    /// Where it ran.
    pub machine: Description,
    /// How it went.
    pub outcome: Outcome,
}

/// What was asked of the clients of a class.
#[derive(Clone, Debug, Serialize)]
pub struct AskedOfClass {
    /// Its name.
    pub name: String,
    /// Requests per second asked for, on average over the measured time.
    pub asked_requests_per_s: f64,
    /// Seconds that a client waits for a connection.
    pub connect_timeout_s: f64,
    /// Seconds that a client waits for a whole reply.
    pub reply_timeout_s: f64,
    /// How often it asks again after a timeout; none: until it is answered.
    pub retries: Option<u32>,
    /// Addresses that it connects from; none leaves that to the kernel.
    pub sources: Vec<String>,
}

/// How a run went.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Seconds to the end of the measured time, warm-up included.
    pub duration_s: f64,
    /// Seconds that it went on after that, until all that was issued in the measured time was over.
    pub drain_s: f64,
    /// Somebody stopped it before its time.
    pub interrupted: bool,
    /// Sessions that were due to arrive after the warm-up; none in a closed loop.
    pub due_sessions: Option<u64>,
    /// CPU seconds of each thread in user mode and in the kernel, in the measured time.
    pub cpu_s: Vec<(f64, f64)>,
    /// Seconds that the hypervisor took from the threads' CPUs in the measured time.
    pub stolen_s: f64,
    /// What the server's log says about the calls, if it was given.
    pub server_log: Option<Joined>,
    /// What the kernel dropped at the server's queues after the warm-up; none where that can't be known.
    pub queue_drops: Option<Dropped>,
}

impl Facts {
    /// Seconds that were measured.
    pub fn measured_s(&self) -> f64 {
        (self.outcome.duration_s - self.warm_up_s).max(f64::MIN_POSITIVE)
    }

    /// CPU microseconds that the generator used for each of so many.
    pub fn cpu_us_per(&self, count: u64) -> f64 {
        if count == 0 { 0.0 } else { self.cpu_s() * 1e6 / count as f64 }
    }

    /// The part of the measured time for which the generator's CPUs were busy with it, 0 to 1.
    pub fn busy(&self) -> f64 {
        self.cpu_s() / self.measured_s() / self.cpus.len().max(1) as f64
    }

    fn cpu_s(&self) -> f64 {
        self.outcome.cpu_s.iter().map(|(user, system)| user + system).sum()
    }
}
