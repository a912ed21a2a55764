//! `sluicelab load`: makes a run from the options, watches it, and reports what it measured.

mod classes;
mod requests;
mod tls;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Error, Result, bail};
use clap::{ArgGroup, Args, ValueEnum};
use lab::programs::interrupt;
use load::engine::{self, Finished, Keep, RunError};
use load::output::{Output, Unwritten};
use load::report::{
    self, Bars, Facts, Joined, MAY_WAIT, Queues, RunOutcome, ServerLog, Threshold, verification,
};
use load::run::{Class, Load, Run, Target as Server};
use load::schedule::{Arrivals, Rate, Schedule};
use machine::Machine;
use workload::session::SessionLog;

use self::classes::ClassOption;
use self::requests::AskedFor;
use self::tls::TlsOptions;
use super::progress::{End, Watcher};
use super::values::{self, Several, Target};
use super::{BadInput, output, pinned, tell};
use crate::console::{Unprinted, print};

/// The options of the generator.
#[derive(Args)]
#[command(group(ArgGroup::new("to").multiple(true).required(true).args(["url", "target"])))]
#[command(group(ArgGroup::new("how").multiple(false).args(["rate", "session_rate"])))]
#[command(after_help = "Load comes in these kinds:\n  \
    URL -c N                         closed: N connections ask again when they are answered\n  \
    URL -r R                         open: requests arrive at the rate, each on its own connection\n  \
    URL -r R -c N                    paced: requests are due at the rate, over N kept connections;\n\
    \x20                                one that finds none free waits in a queue, and that counts\n  \
    URL --sessions FILE -r R         partially open: sessions arrive whatever the server does\n\
    \x20 URL --sessions FILE              the same at the times in the file (sluicelab sessions replay)\n  \
    URL --class VALUES               classes of clients, each with its own rate and timeouts\n\n\
    Examples:\n  \
    sluicelab load http://127.0.0.1:8080/ -c 64 -d 10s       how much it can serve\n  \
    sluicelab load http://127.0.0.1:8080/ -c 64 -n 10000     how long 10000 requests take\n  \
    sluicelab load http://127.0.0.1:8080/ -r 500 --fail-if 'p99 > 50ms' --fail-if 'non-2xx > 0'\n\
    \x20                                                          are 99% answered in 50 ms at 500/s\n\n\
    How much a server can serve: with -c, each connection asks again as soon as it is answered, and the \
    line ANSWER has the result. If a CPU of this generator was full, the result is \"at least N replies/s\" \
    (exit code 3), and the line says how to find out more. To find the highest rate at which replies are \
    still in time, use `sluicelab compare A B --load 'mat: p99 < 50ms'`.\n\n\
    Words of the table:\n  \
    reply time                 from when a request was sent (or waited for a new connection) to the last\n\
    \x20                            byte of its reply\n\
    \x20   from intended start      the same from when the request was due: includes queueing for a\n\
    \x20                            connection, and delays of the generator\n\
    \x20   with the unanswered      includes requests without a reply, as longer than all others (>)\n\
    \x20   until the first byte     from the first byte sent to the first byte of the reply\n\
    \x20   first to last byte       the rest of the reply\n\
    \x20 connecting                 until a connection was up, without TLS\n\
    \x20 TLS handshake              from then until TLS was established\n\
    \x20 given up after             how long clients waited before they gave up (--timeout)\n\
    \x20 < 10 KiB, 1.0% given up    replies of that size, and how many of them clients gave up\n\
    \x20 queue drops                connections that the kernel dropped before the server saw them\n\
    \x20 waited for it              how long other programs kept the generator from its CPU: times are too\n\
    \x20                            long by that\n\n\
    Ctrl-C ends a run and reports what was measured so far. During the warm-up that is nothing (exit code \
    3).\n\n\
    Exit codes: 0 measured, 1 no call was answered, or with --verify a reply was wrong or none was compared \
    (results are written nevertheless), 2 bad usage or input, 3 the generator was the bottleneck, so that \
    times and rates are not valid, 4 a --fail-if expression is true (for errors and statuses, even if \
    times and rates are not valid). Without --fail-if, calls that fail are only a result.\n\n\
    Result files are opened before the run and emptied when it begins; --hdr and --calls are written during \
    the run.\n\
    If a file cannot be opened, there is no run (exit code 2). If a file cannot be written completely, all \
    other results are still written (exit code 1).")]
pub(crate) struct Options {
    /// The target: <http://127.0.0.1:8080/index.html>, <https://example.org/> for TLS, or
    /// <unix:/path/of/socket:/index.html>; several are used in turn. With --sessions or --urls the path is
    /// not used. A name is tried at all its addresses
    #[arg(value_name = "URL", value_parser = values::target)]
    url: Vec<Target>,

    /// A target, as an option; may be repeated
    #[arg(long, value_name = "URL", value_parser = values::target)]
    target: Vec<Target>,

    #[command(flatten)]
    requests: AskedFor,

    /// Rate of requests per second: 250, or steps such as 0-500:30s,500:1min,100
    #[arg(short, long, value_name = "R", value_parser = values::rate, help_heading = "How load comes")]
    rate: Option<Rate>,

    /// Rate of sessions per second, written like --rate
    #[arg(long, value_name = "R", value_parser = values::rate, help_heading = "How load comes")]
    session_rate: Option<Rate>,

    /// Number of connections of a closed loop, 1 to 1000000. With --rate: so many connections are kept open,
    /// and requests that are due queue for one, no longer than --connect-timeout
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000),
          help_heading = "How load comes")]
    connections: Option<u32>,

    /// A class of clients with its own rate in requests per second, timeouts, retries after timeouts, and
    /// addresses: 'slow: rate=20 timeout=2s retries=2 source=127.0.0.3'; may be repeated. Values that are
    /// left out are those of the other options. With connections=N the class keeps N connections, and
    /// requests that are due queue for one; without a rate they are a closed loop. With handshakes-only,
    /// clients make full TLS handshakes and send no request: rate= is then of handshakes
    #[arg(long, value_name = "NAME: VALUES", value_parser = classes::class,
          conflicts_with_all = ["rate", "session_rate", "connections", "session_count"],
          help_heading = "How load comes")]
    class: Vec<ClassOption>,

    /// How arrivals are spread around their rate; logged: at the times in the session file [default:
    /// exponential with a rate, logged without]
    #[arg(long, value_enum, help_heading = "How load comes")]
    arrivals: Option<ArrivalsName>,

    /// Seed of the random arrivals
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "How load comes")]
    seed: u64,

    /// End after so many requests, of all connections together, or after --duration if that is earlier
    #[arg(short = 'n', long = "requests", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["sessions", "session_count", "session_rate", "class"],
          help_heading = "How load comes")]
    request_count: Option<u64>,

    /// End after so many sessions [default: after --duration; at a file's times, after all its sessions]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          help_heading = "How load comes")]
    session_count: Option<u64>,

    /// How long to measure
    /// [default: 10s; with --requests, --session-count, or at the session file's times, until the last one].
    /// The load continues until the last request of that time is answered or given up
    #[arg(short, long, value_name = "TIME", value_parser = units::parse_time,
          help_heading = "How load comes")]
    duration: Option<Duration>,

    /// Leave this first part of the run out of the results
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, default_value = "0s",
          help_heading = "How load comes")]
    warm_up: Duration,

    /// How long a client waits for a connection, and then for each whole reply
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, default_value = "10s",
          help_heading = "Clients")]
    timeout: Duration,

    /// How long a client waits for a connection, and for TLS over it [default: as --timeout]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, help_heading = "Clients")]
    connect_timeout: Option<Duration>,

    /// After a timeout, give up the session (fail), or ask again on another connection, whatever the method
    /// (retry)
    #[arg(long, value_enum, default_value = "fail", help_heading = "Clients")]
    on_timeout: OnTimeout,

    /// The pause after a burst, if the session file gives none
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, default_value = "0s",
          help_heading = "Clients")]
    think: Duration,

    /// Connect from these local addresses in turn, such as 127.0.0.2-127.0.0.9; may be repeated. More than
    /// about 14000 connections at a time need several: once half of an address's ports are taken, the kernel
    /// is slow to find another
    #[arg(long, value_name = "ADDRESSES", value_parser = values::sources, help_heading = "Clients")]
    source: Vec<Several<IpAddr>>,

    /// CPUs to run on, one thread for each, such as 1 or 2-3 [default: the last allowed CPU]
    #[arg(long, value_name = "LIST", value_parser = values::cpus, help_heading = "Clients")]
    cpus: Option<Several<usize>>,

    /// Run with real-time priority, to be punctual on kernels that are slow to switch. Not on the server's
    /// CPUs. Requires root, or ulimit -r
    #[arg(long, help_heading = "Clients")]
    realtime: bool,

    /// How much of the time, in percent, threads may wait for their CPUs in a valid run. More than 5 is for
    /// several generators that share a CPU on purpose, and are compared only with each other. 100 is for a
    /// CPU shared with servers: then only the time that threads run counts
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = MAY_WAIT * 100.0,
        value_parser = values::percent,
        help_heading = "Clients"
    )]
    may_wait: f64,

    #[command(flatten)]
    tls: TlsOptions,

    /// Compare every byte of every 200 reply to a GET with the file of its name in this directory; wrong
    /// replies are errors
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    verify: Option<PathBuf>,

    /// How to print results: as a table, as JSON, as CSV (a line of names, a line of values), or like httperf
    #[arg(long, value_enum, default_value = "table", help_heading = "Results")]
    format: Format,

    /// Also write results as JSON to this file (docs/lab-results.md)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    json: Option<PathBuf>,

    /// Write histograms of each second to this file, as an HDR interval log
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    hdr: Option<PathBuf>,

    /// Write every call to this file, as CSV
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    calls: Option<PathBuf>,

    /// The server's access log (combined, or JSON lines), to distinguish requests that it never read from
    /// requests that it answered too late
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    server_log: Option<PathBuf>,

    /// A process of the server. Queue drops are counted in its network namespace [default: this namespace, if
    /// the targets are at addresses of this machine]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..),
          help_heading = "Results")]
    server_pid: Option<u32>,

    /// Check the run against the papers' rules on timeouts and fairness
    #[arg(long, help_heading = "Results")]
    rules: bool,

    /// End with exit code 4 if this is true: 'p99 > 50ms', 'errors > 1%', 'non-2xx > 0', 'replies/s < 1000';
    /// may be repeated. mean, max and any percentile (p50, p95, p99.9) are of the time from when a
    /// request was due to its reply. A call without a reply counts as longer than all others. errors and
    /// timeouts are parts of the calls. 2xx, 3xx, 4xx, 5xx and non-2xx are numbers of replies, or parts of
    /// the calls (5xx > 1%). A reply of 4xx or 5xx is not an error
    #[arg(long, value_name = "EXPRESSION", help_heading = "Results")]
    fail_if: Vec<Threshold>,
}

/// How long each address of a name is tried before the run.
const LONGEST_TRY: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, ValueEnum)]
enum ArrivalsName {
    Exponential,
    Uniform,
    Fixed,
    Logged,
}

impl ArrivalsName {
    /// The distribution, unless the session file has the times.
    fn drawn(self) -> Option<Arrivals> {
        match self {
            Self::Exponential => Some(Arrivals::Exponential),
            Self::Uniform => Some(Arrivals::Uniform),
            Self::Fixed => Some(Arrivals::Fixed),
            Self::Logged => None,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum OnTimeout {
    Fail,
    Retry,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
    Httperf,
}

impl Options {
    /// The targets. A name with several addresses is used at one where something listens.
    fn targets(&self) -> Vec<Target> {
        let sources: Vec<IpAddr> = self.source.iter().flat_map(|several| &several.0).copied().collect();
        let fits = |address: &SocketAddr| sources.iter().all(|from| from.is_ipv4() == address.is_ipv4());
        let timeout = self.connect_timeout.unwrap_or(self.timeout).min(LONGEST_TRY);
        let all = self.url.iter().chain(&self.target).cloned();
        all.map(|target| self.tls.named(target.where_it_answers(timeout, fits))).collect()
    }

    fn has_rate(&self) -> bool {
        self.rate.is_some() || self.session_rate.is_some()
    }

    /// Whether connections ask again when they are answered, and nothing comes at a rate.
    fn is_closed(&self) -> bool {
        match &self.class[..] {
            [] => self.connections.is_some() && !self.has_rate(),
            classes => classes.iter().all(ClassOption::is_closed),
        }
    }

    /// Whether a closed loop has its connections for a session each. Those of classes go from one session to
    /// the next.
    fn repeats_sessions(&self) -> bool {
        self.is_closed() && self.class.is_empty()
    }

    /// The name of this kind of load.
    fn model(&self) -> &'static str {
        match () {
            () if self.is_closed() => "closed",
            () if self.is_paced() => "paced",
            () if self.requests.sessions.is_some() => "sessions",
            () => "open",
        }
    }

    /// Whether requests are due at a rate, over connections that are kept.
    fn is_paced(&self) -> bool {
        self.connections.is_some() && self.has_rate()
    }
}

/// Checks that `sluicelab load` takes an option.
///
/// # Errors
/// If it does not, the reason in one line.
pub(super) fn check_option(option: &str) -> Result<(), String> {
    let command = Options::augment_args(clap::Command::new("load"));
    let typed = command.try_get_matches_from(["load", "--target=http://127.0.0.1", option]);
    typed.map(drop).map_err(|error| {
        let said = error.to_string();
        said.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

/// Runs the load, reports the results, and returns the exit code: whether it is a measurement, and valid.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let targets = options.targets();
    let log = options.requests.sessions(&targets, options.repeats_sessions())?;
    let (run, mut facts) = plan(options, &targets, log)?;
    interrupt::catch()?;

    let mut server_log = match &options.server_log {
        Some(path) => Some(
            ServerLog::begin(path)
                .map_err(|error| BadInput(format!("--server-log {}: {error}", path.display())))?,
        ),
        None => None,
    };
    let addresses: Vec<_> = run.targets.iter().filter_map(Server::address).collect();
    let mut queues = Queues::watch(&addresses, options.server_pid)
        .map_err(|error| BadInput(format!("--server-pid {}: {error}", options.server_pid.unwrap_or(0))))?;
    tell_of_unpinned(options, &run.cpus);
    let json = options.json.as_ref().map(|path| output("--json", path)).transpose()?;
    let intervals = options.hdr.as_ref().map(|path| output("--hdr", path)).transpose()?;
    let calls = options.calls.as_ref().map(|path| output("--calls", path)).transpose()?;
    let keep = Keep { warm_up: options.warm_up, intervals, calls };
    let cpus = run.cpus.clone();
    let (duration, schedules) = (run.duration, schedules_of(&run.classes));
    let log = run.log.clone();
    let began = SystemTime::now();
    let running = engine::start(run, keep).map_err(unusable)?;
    if let Some(short) = running.short_of() {
        tell(&format!("sluicelab: NOTE: {short}"));
    }
    json.iter().try_for_each(Output::begin)?;
    // Failures from here on are reported at the end, after all other results have been written.
    let mut failures: Vec<Error> = Vec::new();
    let logged = facts.arrivals.as_deref() == Some("logged");
    let last = duration.or(log.last_time().filter(|_| logged));
    let end = End::of(options.request_count, options.session_count, last);
    let mut watcher = Watcher::new(end, schedules.clone(), &facts.unit);
    let machine = Machine::this();
    let steal = || machine.cpu_ticks_of(&cpus).unwrap_or_default().steal;
    let (mut steal_before, mut steal_after) = (None, None);
    let mut dropped = None;
    while !running.is_over() {
        thread::sleep(Duration::from_millis(50));
        let progress = running.progress();
        let is_over = duration.is_some_and(|duration| progress.elapsed >= duration);
        if steal_before.is_none() && progress.elapsed >= options.warm_up {
            steal_before = Some(steal());
            let warmed_up = !options.warm_up.is_zero();
            if warmed_up && let Some(Err(error)) = server_log.as_mut().map(ServerLog::skip_to_end) {
                failures.push(Error::from(error).context("cannot read the server's log"));
                server_log = None;
            }
            if warmed_up && let Some(Err(error)) = queues.as_mut().map(Queues::skip) {
                no_queue_drops(&error);
                queues = None;
            }
        }
        if steal_after.is_none() && is_over {
            steal_after = Some(steal());
            dropped = queues.as_ref().map(Queues::dropped);
        }
        watcher.show(progress);
        if interrupt::is_asked() {
            running.stop();
        }
    }
    let stolen = steal_before.map_or(0, |before| steal_after.unwrap_or_else(steal).saturating_sub(before));
    let stolen = machine::cpu::seconds(stolen);
    let dropped = dropped.or_else(|| queues.as_ref().map(Queues::dropped));
    watcher.end();
    let mut finished = running.finish()?;
    failures.extend(finished.unwritten.drain(..).map(Error::from));

    facts.began_unix_s = began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    facts.outcome = outcome(&finished, options, schedules, interrupt::is_asked(), stolen);
    if logged {
        // The log asks for as many as there were.
        let per_session = log.calls() as f64 / log.len() as f64;
        facts.asked_sessions_per_s = facts.outcome.due_sessions.map(|due| due as f64 / facts.measured_s());
        facts.asked_requests_per_s = facts.asked_sessions_per_s.map(|rate| rate * per_session);
    }
    let joined =
        server_log.map(|server| server.settle().and_then(|()| server.join(&log, &finished.measures)));
    match joined.transpose() {
        Ok(joined) => facts.outcome.server_log = joined,
        Err(error) => failures.push(Error::from(error).context("cannot read the server's log")),
    }
    facts.outcome.queue_drops = dropped.and_then(|dropped| dropped.inspect_err(no_queue_drops).ok());
    failures.extend(print_results(options, &finished, &facts).err().map(Error::from));
    failures.extend(write_json(json, options, &finished, &facts).err().map(Error::from));
    for failure in &failures {
        tell(&format!("sluicelab: {failure:#}"));
    }
    let failed = !failures.is_empty() || !report::failures(&finished.measures, &facts).is_empty();
    let valid = report::reasons_against(&finished.measures, &facts).is_empty();
    let judged = report::judge(&options.fail_if, &finished.measures, &facts);
    let broken = || options.fail_if.iter().zip(&judged).filter(|(_, judged)| !judged.holds);
    // Replies are what they are, even if the generator was short of CPU time.
    let broken_by_server = broken().any(|(threshold, judged)| {
        judged.found.is_some() && threshold.is_of_the_server_alone(&finished.measures)
    });
    Ok(match () {
        () if failed => ExitCode::FAILURE,
        () if !valid && !broken_by_server => ExitCode::from(3),
        () if broken().next().is_some() => ExitCode::from(4),
        () => ExitCode::SUCCESS,
    })
}

/// Prints a note if the server's process may run on CPUs of the clients.
fn tell_of_unpinned(options: &Options, clients: &[usize]) {
    let remark = options.server_pid.and_then(|pid| pinned::remark("the server", pid, clients, &[]));
    if let Some(remark) = remark {
        tell(&format!("sluicelab: NOTE: {remark}"));
    }
}

/// If the server has exited, its counters are gone. The other results remain.
fn no_queue_drops(error: &io::Error) {
    tell(&format!("sluicelab: cannot read the server's queue drops, so results are without them: {error}"));
}

/// The run, and the facts that are known before it begins.
fn plan(options: &Options, targets: &[Target], log: SessionLog) -> Result<(Run, Facts)> {
    let calls_per_session = log.calls() as f64 / log.len() as f64;
    let classes = classes::of(options, &log)?;
    let tls = options.tls.settings(targets)?;
    let logged = matches!(&classes[0].load, Load::Arriving { schedule: Schedule::Logged(_), .. });
    let unbounded = options.session_count.is_none() && options.request_count.is_none() && !logged;
    let duration = options.duration.or(unbounded.then_some(Duration::from_secs(10)));
    check_times(options, duration)?;
    let cpus = match &options.cpus {
        Some(Several(cpus)) => cpus.clone(),
        None => engine::usual_cpus(),
    };
    let fits = |source: &IpAddr| {
        let mut targets = targets.iter().map(|target| target.server.address());
        targets.all(|address| address.is_some_and(|address| address.is_ipv4() == source.is_ipv4()))
    };
    if !classes.iter().flat_map(|class| &class.sources).all(fits) {
        bail!(BadInput(
            "--source: its addresses and the targets' must all be IPv4, or all IPv6; Unix sockets have no \
             address"
                .to_owned()
        ));
    }
    classes::check(options, targets, cpus.len())?;
    let average = |schedule: &Schedule| {
        let end = duration.unwrap_or(options.warm_up + Duration::from_secs(1));
        let due = schedule.due_by(end) - schedule.due_by(options.warm_up);
        due / end.saturating_sub(options.warm_up).as_secs_f64()
    };
    // Of a log, it is known only after the run, from its length.
    let asked = classes::asked(&classes, calls_per_session, |of| (!logged).then(|| average(of)));
    let closed = options.is_closed();
    let facts = Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args().collect(),
        began_unix_s: 0,
        targets: targets.iter().map(|target| target.server.to_string()).collect(),
        model: options.model().to_owned(),
        unit: match () {
            () if options.requests.sessions.is_some() => "sessions",
            () if log.calls() == log.len() => "requests",
            () => "connections",
        }
        .to_owned(),
        requests: options.request_count,
        arrivals: (!closed).then(|| {
            match options.arrivals {
                _ if logged => "logged",
                Some(ArrivalsName::Uniform) => "uniform",
                Some(ArrivalsName::Fixed) => "fixed",
                _ => "exponential",
            }
            .to_owned()
        }),
        asked_sessions_per_s: asked.sessions_per_s,
        asked_requests_per_s: asked.requests_per_s.filter(|_| !closed),
        connections: options.connections,
        classes: asked.classes,
        seed: (!closed && !logged).then_some(options.seed),
        log_sessions: log.len() as u64,
        log_requests: log.calls() as u64,
        warm_up_s: options.warm_up.as_secs_f64(),
        connect_timeout_s: options.connect_timeout.unwrap_or(options.timeout).as_secs_f64(),
        reply_timeout_s: options.timeout.as_secs_f64(),
        verified: options.verify.is_some(),
        tls: tls::asked(&tls, targets),
        cpus: cpus.clone(),
        realtime: options.realtime,
        may_wait: options.may_wait / 100.0,
        machine: Machine::this().describe(),
        outcome: RunOutcome::default(),
    };
    let run = Run {
        log,
        targets: targets.iter().map(|target| target.server.clone()).collect(),
        host: options.requests.host.clone().unwrap_or_else(|| targets[0].host.clone()),
        headers: options.requests.headers()?,
        classes,
        duration,
        requests: options.request_count,
        verify: options.verify.clone(),
        tls,
        cpus,
        realtime: options.realtime,
    };
    Ok((run, facts))
}

/// Checks that the times leave something to measure, and that no timeout is zero.
fn check_times(options: &Options, duration: Option<Duration>) -> Result<(), BadInput> {
    if duration.is_some_and(|duration| duration.is_zero()) {
        return Err(BadInput("--duration 0s: allowed: from 1ms".to_owned()));
    }
    if duration.is_some_and(|duration| duration <= options.warm_up) {
        return Err(BadInput(format!("--warm-up {:?}: must be shorter than --duration", options.warm_up)));
    }
    for (name, time) in [("--timeout", Some(options.timeout)), ("--connect-timeout", options.connect_timeout)]
    {
        if time.is_some_and(|time| time.is_zero()) {
            return Err(BadInput(format!("{name} 0s: allowed: from 1ms")));
        }
    }
    Ok(())
}

/// The schedules of classes that have one, each with its number of sessions if that is limited.
fn schedules_of(classes: &[Class]) -> Vec<(Schedule, Option<u64>)> {
    let schedule = |class: &Class| match &class.load {
        Load::Arriving { schedule, count, .. } => Some((schedule.clone(), *count)),
        Load::Closed { .. } => None,
    };
    classes.iter().filter_map(schedule).collect()
}

fn outcome(
    finished: &Finished,
    options: &Options,
    schedules: Vec<(Schedule, Option<u64>)>,
    interrupted: bool,
    stolen_s: f64,
) -> RunOutcome {
    let warm_up = options.warm_up.as_nanos() as u64;
    let has_schedules = !schedules.is_empty();
    let due = schedules.into_iter().map(|(schedule, count)| {
        let first = schedule.take(count.map_or(usize::MAX, |count| count as usize));
        first.take_while(|at| *at < finished.ended).filter(|at| *at >= warm_up).count() as u64
    });
    RunOutcome {
        duration_s: Duration::from_nanos(finished.ended).as_secs_f64(),
        drain_s: Duration::from_nanos(finished.left - finished.ended).as_secs_f64(),
        interrupted,
        due_sessions: has_schedules.then(|| due.sum()),
        cpu_s: finished.cpu.iter().map(|(user, system)| (user.as_secs_f64(), system.as_secs_f64())).collect(),
        stolen_s,
        server_log: None,
        queue_drops: None,
    }
}

fn write_json(
    to: Option<Output>,
    options: &Options,
    finished: &Finished,
    facts: &Facts,
) -> Result<(), Unwritten> {
    let json = || report::json(&finished.measures, facts, &options.fail_if);
    to.map_or(Ok(()), |mut file| file.write(json().as_bytes()))
}

fn print_results(options: &Options, finished: &Finished, facts: &Facts) -> Result<(), Unprinted> {
    let measures = &finished.measures;
    let mut text = match options.format {
        Format::Table => report::table(measures, facts, bars()),
        Format::Csv => report::csv(measures, facts),
        Format::Json => report::json(measures, facts, &options.fail_if),
        Format::Httperf => report::httperf(measures, facts),
    };
    // These lines are for people. In the formats for scripts, they go to standard error.
    let mut say = |line: String| {
        if options.format == Format::Table { text.extend([&line, "\n"]) } else { tell(&line) }
    };
    let joined = facts.outcome.server_log;
    if let Some(Joined { issued, read, never_read, never_read_at_most, too_slow, odd_lines }) = joined {
        let never_read = if never_read == never_read_at_most {
            never_read.to_string()
        } else {
            format!("{never_read} to {never_read_at_most}")
        };
        say(format!(
            "server's log  read {read} of {issued} calls; never read {never_read}, read and too slow \
             {too_slow}, odd lines {odd_lines}"
        ));
    }
    if options.rules {
        for check in verification::check(measures, joined) {
            let verdict = if check.holds() { "kept" } else { "BROKEN" };
            let (found, allowed) = (check.found * 100.0, check.allowed * 100.0);
            let (rule, remark) = (check.rule, &check.remark);
            let found = units::print_beside(found, allowed, 2);
            say(format!(
                "rule          {verdict}: {rule}: found {found}%; broken if > {allowed:.0}% ({remark})"
            ));
        }
    }
    for (threshold, judged) in options.fail_if.iter().zip(report::judge(&options.fail_if, measures, facts)) {
        say(format!("threshold     {}", threshold.told(&judged)));
    }
    if options.format != Format::Table {
        for remark in report::remarks_on(measures, facts) {
            tell(&format!("NOTE: {remark}"));
        }
        for reason in report::reasons_against(measures, facts) {
            tell(&format!("INVALID: {reason}"));
        }
        for reason in report::failures(measures, facts) {
            tell(&format!("FAILED: {reason}"));
        }
    }
    let is_judged = options.fail_if.iter().any(Threshold::is_on_statuses);
    let warning = report::without_success(measures, facts)
        .or_else(|| report::some_without_success(measures).filter(|_| !options.fail_if.is_empty()));
    if let Some(warning) = warning.filter(|_| !is_judged) {
        let line = format!("WARNING: {warning}");
        if options.format == Format::Table { text.extend([&line, "\n"]) } else { tell(&line) }
    }
    print(&text)?;
    Ok(())
}

/// The characters that the terminal can show, by the locale (locale(7)).
fn bars() -> Bars {
    let mut said = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
    let locale = said.find(|locale| !locale.is_empty()).unwrap_or_default().to_ascii_lowercase();
    if locale.contains("utf-8") || locale.contains("utf8") { Bars::Blocks } else { Bars::Ascii }
}

/// Errors that a different command line would avoid become [`BadInput`].
fn unusable(error: RunError) -> anyhow::Error {
    match error {
        RunError::Shortage(_)
        | RunError::NoFile(_)
        | RunError::Tls(_)
        | RunError::NoRealTime(_)
        | RunError::NoCpu { .. }
        | RunError::Empty => BadInput(error.to_string()).into(),
        RunError::System { .. } => error.into(),
    }
}
