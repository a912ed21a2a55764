//! The results of `sluicelab load`: one object, [`Results`]. `docs/lab-results.md` says what each member
//! means, and when it was measured.

use core::net::SocketAddr;

use machine::Description;
use serde::{Deserialize, Serialize};

use crate::{By, QueueDrops, StatusClass};

/// The version of the schema: changes when something is removed or comes to mean something else.
pub const SCHEMA: u32 = 3;

/// Everything. Readers check the schema first.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Results {
    /// [`SCHEMA`] if this crate knows it; 0 if it was missing.
    pub schema: u32,
    /// False: the figures tell of the generator; `invalid` says why.
    pub valid: bool,
    /// Why the figures do not count, in sentences.
    pub invalid: Vec<String>,
    /// Those of `invalid` which say that the generator was short of its CPU. In a closed loop they leave what
    /// the server used for each reply as it is: the rates alone are the generator's.
    pub short_of_cpu: Vec<String>,
    /// What of the figures is the generator's, although the others stand.
    pub remarks: Vec<String>,
    /// Why the run is no measurement, if it is none.
    pub failed: Vec<String>,
    /// What was asked, and how the run went.
    pub run: Facts,
    /// Sessions.
    pub sessions: Sessions,
    /// Connections.
    pub connections: Connections,
    /// Calls.
    pub calls: Calls,
    /// Whole replies.
    pub replies: Replies,
    /// How many replies were compared with their files; none if that was not asked for.
    pub verification: Option<Verified>,
    /// Of whole replies, from the issue of the call. None where there is nothing, as other distributions.
    pub reply_time_ms: Option<Curve>,
    /// Of whole replies, from when the call should have been issued.
    pub corrected_reply_time_ms: Option<Curve>,
    /// The same, with calls that were not answered.
    pub wait_ms: Option<Waits>,
    /// From the first byte sent to the first byte received.
    pub response_time_ms: Option<Distribution>,
    /// From the first byte received to the last.
    pub transfer_time_ms: Option<Distribution>,
    /// How long clients waited that gave up.
    pub timeout_time_ms: Option<Distribution>,
    /// How late sessions arrived.
    pub lateness_ms: Option<Distribution>,
    /// TLS; none if no target speaks it.
    pub tls: Option<Tls>,
    /// What the generator itself used.
    pub generator: Generator,
    /// By class of sizes.
    pub by_size: Vec<OfSize>,
    /// By exact size, if there are few.
    pub sizes: Vec<OfExactSize>,
    /// By kind of request.
    pub by_kind: Vec<OfKind>,
    /// By class of clients.
    pub by_class: Vec<OfClientClass>,
    /// The papers' rules for a result that counts.
    pub checks: Vec<Checked>,
    /// What the run was held against.
    pub thresholds: Vec<Judged>,
    /// Each second since the run began.
    pub seconds: Vec<Second>,
}

/// What was asked, and what the run itself used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
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
    pub model: String,
    /// What arrives, or follows one another in a closed loop: `sessions` of a file, `connections` for several
    /// requests each, or single `requests`.
    pub unit: String,
    /// The run was to end after so many requests; none: after its time, or so many sessions.
    pub requests: Option<u64>,
    /// Arrivals asked for: `exponential`, `uniform`, `fixed` or `logged`; none in a closed loop.
    pub arrivals: Option<String>,
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
    /// Sessions of the log.
    pub log_sessions: u64,
    /// Requests of the log.
    pub log_requests: u64,
    /// Seconds that were left out at the start.
    pub warm_up_s: f64,
    /// Seconds that a client waits for a connection.
    pub connect_timeout_s: f64,
    /// Seconds that a client waits for a whole reply.
    pub reply_timeout_s: f64,
    /// Whether replies were compared with files.
    pub verified: bool,
    /// What was asked of TLS; none if no target speaks it.
    pub tls: Option<AskedOfTls>,
    /// Where the threads ran.
    pub cpus: Vec<usize>,
    /// Whether they ran before all others of their cores.
    pub realtime: bool,
    /// The part of the time for which they may have waited for their cores behind others in a valid run.
    pub may_wait: f64,
    /// Where it ran.
    pub machine: Description,
    /// How it went.
    pub outcome: Outcome,
}

impl Facts {
    /// Seconds that were measured.
    pub fn measured_s(&self) -> f64 {
        (self.outcome.duration_s - self.warm_up_s).max(f64::MIN_POSITIVE)
    }
}

/// What was asked of the clients of a class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct AskedOfClass {
    /// Its name.
    pub name: String,
    /// Whether its clients make full TLS handshakes and ask for nothing.
    pub handshakes_only: bool,
    /// Requests per second asked for, on average over the measured time; handshakes of a class that only
    /// makes these. 0 in a closed loop.
    pub asked_requests_per_s: f64,
    /// Connections that are kept, or clients of a closed loop; none: each session opens its own.
    pub connections: Option<u32>,
    /// Seconds that a client waits for a connection.
    pub connect_timeout_s: f64,
    /// Seconds that a client waits for a whole reply.
    pub reply_timeout_s: f64,
    /// How often it asks again after a timeout; none: until it is answered.
    pub retries: Option<u32>,
    /// Addresses that it connects from; none leaves that to the kernel.
    pub sources: Vec<String>,
}

/// What was asked of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct AskedOfTls {
    /// The root certificates: `system`, `file`, or `none` if certificates were not verified.
    pub roots: String,
    /// Whether sessions were resumed.
    pub resumption: bool,
    /// The only version offered, `1.2` or `1.3`; none: both.
    pub version: Option<String>,
    /// The only key-exchange group offered; none: those that rustls prefers.
    pub group: Option<String>,
    /// The only cipher suite offered; none: those that rustls prefers.
    pub cipher: Option<String>,
}

/// How a run went.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
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

/// What became of the calls that timed out, by the server's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Joined {
    /// Calls since the warm-up, to the very end of the run.
    pub issued: u64,
    /// Calls that the server read, at most.
    pub read: u64,
    /// Calls that it never read, at least.
    pub never_read: u64,
    /// Calls that it never read, at most: if each request that was sent more often than called for has all
    /// its lines in the log.
    pub never_read_at_most: u64,
    /// Calls that it read, and that timed out, at most.
    pub too_slow: u64,
    /// Lines of the log that could not be understood.
    pub odd_lines: u64,
}

/// What the kernel dropped at the server's queues.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Dropped {
    /// The process whose network namespace it is; none: the generator's own.
    pub server_pid: Option<u32>,
    /// Over how long.
    pub seconds: f64,
    /// By cause.
    pub counts: QueueDrops<u64>,
    /// By cause, what was dropped each second on average.
    pub per_s: QueueDrops<f64>,
    /// What the sockets dropped that the targets reach, whatever the cause.
    pub listeners: Vec<AtListener>,
}

/// What an address dropped.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct AtListener {
    /// Where it listens.
    pub address: SocketAddr,
    /// Packets that all its sockets dropped together.
    pub drops: u64,
    /// Packets that they dropped each second on average.
    pub per_s: f64,
}

/// Sessions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "named for what they are; docs/lab-results.md says more")]
pub struct Sessions {
    pub arrived: u64,
    pub arrived_per_s: f64,
    pub completed: u64,
    pub completed_per_s: f64,
    pub failed: u64,
    pub unfinished: u64,
    pub lifetime_s: Option<Spread>,
    pub failtime_s: Option<Spread>,
}

/// Connections.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "named for what they are; docs/lab-results.md says more")]
pub struct Connections {
    pub tried: u64,
    pub tried_per_s: f64,
    pub connected: u64,
    pub lost: u64,
    pub connect_time_ms: Option<Distribution>,
    pub time_ms: Option<Spread>,
    pub replies_per_connection: Option<f64>,
}

/// TLS on the connections.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Tls {
    /// How many handshakes there were.
    pub handshakes: Handshakes,
    /// From when TCP was connected to when TLS was established, of all handshakes.
    pub handshake_time_ms: Option<Curve>,
    /// The same, of full handshakes.
    pub full_handshake_time_ms: Option<Distribution>,
    /// The same, of resumed handshakes.
    pub resumed_handshake_time_ms: Option<Distribution>,
    /// What handshakes agreed on, the most frequent first.
    pub negotiated: Vec<Negotiated>,
    /// Why TLS failed, the most frequent reason first.
    pub errors: Vec<TlsError>,
}

/// Handshakes of TLS. Each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Handshakes {
    /// Full handshakes.
    pub full: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Of the full handshakes, those for which the server asked for another `ClientHello`.
    pub hello_retries: u64,
    /// Handshakes that failed, or that the client gave up.
    pub failed: u64,
    /// Handshakes that the end of the run cut off.
    pub unfinished: u64,
}

/// What handshakes agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Negotiated {
    /// The version: `1.2` or `1.3`.
    pub version: String,
    /// The cipher suite, by its name at IANA.
    pub cipher: String,
    /// The key-exchange group; none if no keys were exchanged.
    pub group: Option<String>,
    /// How many handshakes agreed on this.
    pub handshakes: u64,
}

/// A reason why TLS failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct TlsError {
    /// The reason, in words.
    pub message: String,
    /// On how many connections.
    pub connections: u64,
}

/// Calls.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "named for what they are; docs/lab-results.md says more")]
pub struct Calls {
    pub issued: u64,
    pub sent: u64,
    pub sent_per_s: f64,
    pub resent: u64,
    pub request_bytes: u64,
    pub errors: u64,
    pub timeouts: u64,
    pub outcomes: Outcomes,
}

/// What came of calls: each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "named for what they are; docs/lab-results.md says more")]
pub struct Outcomes {
    pub reply: u64,
    pub connect_timeout: u64,
    pub tls_timeout: u64,
    pub reply_timeout: u64,
    pub refused: u64,
    pub unreachable: u64,
    pub tls_error: u64,
    pub reset: u64,
    pub closed: u64,
    pub cut_short: u64,
    pub wrong_length: u64,
    pub wrong_bytes: u64,
    pub malformed: u64,
    pub no_port: u64,
    pub no_descriptor: u64,
    pub abandoned: u64,
    pub unfinished: u64,
}

/// Whole replies.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "named for what they are; docs/lab-results.md says more")]
pub struct Replies {
    pub count: u64,
    pub per_s: f64,
    pub samples_per_s: Option<Spread>,
    pub head_bytes: u64,
    pub body_bytes: u64,
    pub body_mbps: f64,
    pub statuses: By<StatusClass>,
}

/// How many replies were compared with their files, and how many were wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Verified {
    /// Whole replies that were compared.
    pub compared: u64,
    /// Of these, replies that were not what their files are: errors, not replies, in all other figures.
    pub wrong: u64,
}

/// What the generator itself used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "named for what they are; docs/lab-results.md says more")]
pub struct Generator {
    pub cpu_us_per_call: f64,
    pub seconds: u64,
    pub saturated_seconds: u64,
    pub ran_throughout_seconds: u64,
    pub waited_s: f64,
    pub waited_part: f64,
    pub most_wanted: f64,
    pub longest_burst: u64,
    pub most_open_connections: u64,
}

/// Calls for bodies of a class of sizes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct OfSize {
    /// The name of the class.
    pub size: String,
    /// Calls that ended, one way or the other.
    pub calls: u64,
    /// Whole replies.
    pub replies: u64,
    /// Calls that the client gave up.
    pub timeouts: u64,
    /// Calls that were connected, and could be served.
    pub reached: u64,
    /// Of these, calls that were not served.
    pub unserved: u64,
    /// Bytes of bodies of whole replies.
    pub bytes: u64,
    /// How long whole replies took.
    pub reply_time_ms: Option<Curve>,
}

/// Calls for bodies of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in `OfSize`")]
pub struct OfExactSize {
    pub bytes: u64,
    pub calls: u64,
    pub replies: u64,
    pub timeouts: u64,
    pub reached: u64,
    pub unserved: u64,
}

/// Calls of one kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct OfKind {
    /// Their method.
    pub method: String,
    /// Whether the reply is computed.
    pub dynamic: bool,
    /// Calls that ended, one way or the other.
    pub calls: u64,
    /// Calls that the client gave up.
    pub timeouts: u64,
    /// Whole replies.
    pub statuses: By<StatusClass>,
    /// How long they took.
    pub reply_time_ms: Option<Curve>,
}

/// Calls of one class of clients.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct OfClientClass {
    /// Its name.
    pub class: String,
    /// Calls that ended, one way or the other; handshakes of a class that only makes these.
    pub calls: u64,
    /// Whole replies.
    pub replies: u64,
    /// The same by the class of their status.
    pub statuses: By<StatusClass>,
    /// Calls that the client gave up.
    pub timeouts: u64,
    /// Calls that failed, those included.
    pub errors: u64,
    /// Of a class that only makes handshakes, those that were completed; none for other classes.
    pub handshakes: Option<u64>,
    /// How long whole replies took.
    pub reply_time_ms: Option<Curve>,
    /// Of a class that only makes handshakes: from when connecting began to when TLS was established.
    pub handshake_time_ms: Option<Curve>,
    /// Replies or handshakes from when they should have been asked for, with those that did not come.
    pub wait_ms: Option<Waits>,
}

/// One of the papers' rules, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Checked {
    /// Its name.
    pub rule: String,
    /// Whether the result keeps it.
    pub holds: bool,
    /// What was found, as a part of one.
    pub found: f64,
    /// What is allowed, as a part of one.
    pub allowed: f64,
    /// Where it was found.
    pub remark: String,
}

/// A threshold, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Judged {
    /// As it was written.
    pub expression: String,
    /// The quantity: milliseconds, a part of one, a number, or a number per second. None: nothing was
    /// measured.
    pub found: Option<f64>,
    /// What was found is a lower bound, as some calls were not answered.
    pub bound: bool,
    /// The most that a lower bound can be; none if that is not known, and where it is none.
    pub at_most: Option<f64>,
    /// Whether the run keeps to it: it was measured, and what the run fails if it is so is not so.
    pub holds: bool,
}

/// What happened in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Second {
    /// Sessions that arrived.
    pub arrived: u64,
    /// Whole replies that came to their end.
    pub replies: u64,
    /// Calls that the client gave up.
    pub timeouts: u64,
    /// Calls that failed otherwise.
    pub errors: u64,
    /// Bytes of the replies' bodies.
    pub bytes: u64,
    /// The mean time of the replies from issue to the last byte; none if there is none.
    pub mean_reply_time_ms: Option<f64>,
}

/// A histogram in a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Distribution {
    pub count: u64,
    pub mean: f64,
    pub deviation: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// A histogram in a few numbers, and in as many more as it takes to draw it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Curve {
    /// The few.
    #[serde(flatten)]
    pub times: Distribution,
    /// Parts of all times, each with the milliseconds that it did not exceed.
    pub percentiles: Vec<(f64, f64)>,
}

/// Times of which some are lower bounds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Waits {
    /// All of them.
    #[serde(flatten)]
    pub times: Curve,
    /// How many of them are of calls without a reply, which count as longer than all others.
    pub bounds: u64,
    /// The part of all that are of whole replies: beyond it, percentiles are lower bounds.
    pub known_part: f64,
}

/// Numbers without their histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Spread {
    pub count: u64,
    pub mean: f64,
    pub deviation: f64,
    pub min: f64,
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_an_older_program_are_read() {
        let told = r#"{"schema":2,"calls":{"issued":7,"outcomes":{"reply":5}},"new":1,
            "wait_ms":{"count":7,"p99":1.5,"percentiles":[[0.5,1.0]],"bounds":2,"known_part":0.5}}"#;
        let results: Results = serde_json::from_str(told).unwrap();
        assert_eq!((results.schema, results.calls.issued, results.calls.outcomes.reply), (2, 7, 5));
        let waits = results.wait_ms.unwrap();
        assert_eq!((waits.bounds, waits.times.times.p99), (2, 1.5));
        assert_eq!(waits.times.percentiles, [(0.5, 1.0)]);
        assert_eq!(serde_json::from_str::<Results>("{}").unwrap(), Results::default());
    }

    #[test]
    fn what_is_written_is_read() {
        let mut results = Results { schema: SCHEMA, valid: true, ..Results::default() };
        results.run.outcome.queue_drops = Some(Dropped::default());
        results.by_size.push(OfSize { size: "< 1 KiB".to_owned(), calls: 3, ..OfSize::default() });
        let json = serde_json::to_string(&results).unwrap();
        assert_eq!(serde_json::from_str::<Results>(&json).unwrap(), results);
    }
}
