//! Starting a run, watching it, stopping it, and putting together what its threads measured.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use sys::{clock, process};

use crate::NoFile;
use crate::kit::Kit;
use crate::measures::{CallWriter, IntervalWriter, Kinds, Live, Measures, Recorder, Scope, Shown, Snapshot};
use crate::output::{Output, Unwritten};
use crate::preflight::{self, Means, Shortage};
use crate::record::{Nanos, nanos};
use crate::request;
use crate::run::{Run, Target};
use crate::tls::Unusable;
use crate::verify::Files;
use crate::worker::{Report, Signals, Worker};

/// A run can't be started, or a thread of it failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is nothing to play.
    #[error("there are no sessions to play")]
    Empty,
    /// Descriptors or ports don't suffice.
    #[error(transparent)]
    Shortage(#[from] Shortage),
    /// There is nothing to compare a reply with.
    #[error(transparent)]
    NoFile(#[from] NoFile),
    /// TLS can't be used as it is asked for.
    #[error(transparent)]
    Tls(#[from] Unusable),
    /// A CPU is not there, or not for this process.
    #[error("--cpus {cpu}: this process may not run there; allowed: {}", list(allowed))]
    NoCpu {
        /// Its number.
        cpu: usize,
        /// Those that it may run on.
        allowed: Vec<usize>,
    },
    /// The priority is not to be had.
    #[error("real-time priority is not allowed: {0}; it needs CAP_SYS_NICE, or ulimit -r above 0")]
    NoRealTime(io::Error),
    /// A step that needs the kernel's consent failed.
    #[error("cannot {step}")]
    System {
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// What is to be kept beside the measures.
#[derive(Debug, Default)]
pub struct Keep {
    /// How much of the run's beginning is left out of the measures.
    pub warm_up: Duration,
    /// A histogram for each second, in this file. Both are emptied when nothing can be refused any more.
    pub intervals: Option<Output>,
    /// Every call, in this file.
    pub calls: Option<Output>,
}

/// A run that goes on.
#[derive(Debug)]
pub struct Running {
    signals: Arc<Signals>,
    threads: Vec<JoinHandle<io::Result<Report>>>,
    began: u64,
    intervals: Option<IntervalWriter>,
    calls: Option<CallWriter>,
    live: Vec<Arc<Live>>,
    short: Option<Shortage>,
}

/// A run that is over.
#[derive(Debug)]
pub struct Finished {
    /// What was measured.
    pub measures: Measures,
    /// When the measured time ended: with the run's duration, or with the last thread if that was earlier.
    pub ended: Nanos,
    /// When the last thread ended.
    pub left: Nanos,
    /// Each thread's CPU time in the measured time, in user mode and in the kernel.
    pub cpu: Vec<(Duration, Duration)>,
    /// Files that could not be written to their end.
    pub unwritten: Vec<Unwritten>,
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Since it began.
    pub elapsed: Duration,
    /// Sessions that have arrived.
    pub arrived: u64,
    /// Sessions that go on.
    pub open: u64,
    /// Replies, bytes and errors so far.
    pub shown: Shown,
    /// Reply times so far.
    pub reply_times: Snapshot,
    /// Calls of the measured time that are not over.
    pub under_way: u64,
    /// Calls that wait for a reply, or in a queue for a connection.
    pub waiting: u64,
    /// For how long the first of them has waited.
    pub longest_wait: Duration,
}

/// The CPUs of a run that nobody chose any for: the last one that this process may use, as servers tend to be
/// on the first.
pub fn usual_cpus() -> Vec<usize> {
    let allowed = process::allowed_cpus().unwrap_or_default();
    vec![allowed.last().copied().unwrap_or(0)]
}

/// Checks that the machine suffices, and begins.
///
/// # Errors
///
/// It does not; there is nothing to play; a file is missing that replies should be compared with; TLS can't
/// be used as it is asked for.
pub fn start(run: Run, keep: Keep) -> Result<Running, RunError> {
    if run.log.is_empty() {
        return Err(RunError::Empty);
    }
    may_run_on(&run.cpus)?;
    let means = Means::of_this_machine();
    let short = preflight::check(&run, means)?;
    let most_connections = preflight::most_connections(&run, means).div_ceil(run.cpus.len() as u64);
    let speaks_tls = run.targets.iter().any(|to| matches!(to, Target::Tls(..)));
    let tls = speaks_tls.then(|| run.tls.prepare()).transpose()?.map(Arc::new);
    let run = Arc::new(run);
    let requests = Arc::new(request::prepare(&run.log, &run.host, &run.headers));
    let window = nanos(keep.warm_up)..run.duration.map_or(Nanos::MAX, nanos);
    let scope = Scope { window: window.clone(), requests: run.log.requests().len() };
    let signals = Arc::new(Signals::new(run.cpus.len(), run.requests));
    let kinds = Arc::new(Kinds::of(&run.log));
    let files = |_| run.verify.as_ref().map(|root| Files::new(root, &run.log)).transpose();
    let files = run.cpus.iter().map(files).collect::<Result<Vec<_>, _>>()?;
    if run.realtime {
        may_run_in_real_time()?;
    }
    let no_thread = |source| RunError::System { step: "start a thread", source };
    let calls = keep.calls.map(CallWriter::start).transpose().map_err(no_thread)?;
    let start = |file| IntervalWriter::start(file, SystemTime::now(), run.cpus.len());
    let mut intervals = keep.intervals.map(start).transpose().map_err(no_thread)?;
    let mut prepared = Vec::new();
    let mut live = Vec::new();
    for files in files {
        let recorder = Recorder::new(scope.clone(), calls.as_ref().map(CallWriter::log))
            .with_kinds(&kinds)
            .with_classes(run.classes.iter().filter(|class| !class.name.is_empty()).count())
            .by_intended_start(run.classes.iter().any(|class| class.kept_connections().is_some()))
            .with_sizes(files.as_ref().map_or(&[], Files::sizes))
            .with_intervals(intervals.as_mut().map(IntervalWriter::log));
        live.push(recorder.live());
        prepared.push((files, recorder));
    }
    let began = clock::monotonic_ns();
    let mut threads = Vec::new();
    for (number, (files, recorder)) in prepared.into_iter().enumerate() {
        let (run, requests, signals) = (Arc::clone(&run), Arc::clone(&requests), Arc::clone(&signals));
        let (tls, window) = (tls.clone(), window.clone());
        let thread = thread::Builder::new().name(format!("load-{number}")).spawn(move || {
            let measuring = signals.measuring();
            process::pin_to_cpus(&[run.cpus[number]])?;
            process::set_timer_slack_ns(1)?;
            if run.realtime {
                process::run_in_real_time()?;
            }
            let kit = Kit::new(&run, &requests, files, tls.as_deref(), recorder, began)?
                .at_most(signals.left.as_ref(), most_connections);
            Worker::new(kit, &signals, measuring, (number, run.cpus.len()), window).run()
        });
        threads.push(thread.map_err(no_thread)?);
    }
    Ok(Running { signals, threads, began, intervals, calls, live, short })
}

fn may_run_on(cpus: &[usize]) -> Result<(), RunError> {
    let step = "tell which CPUs are allowed";
    let allowed = process::allowed_cpus().map_err(|source| RunError::System { step, source })?;
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(&cpu) => Err(RunError::NoCpu { cpu, allowed }),
        None => Ok(()),
    }
}

/// For people: `0, 1`.
fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Tries it on a thread of its own, which the run is not worse for.
fn may_run_in_real_time() -> Result<(), RunError> {
    let tried = thread::spawn(process::run_in_real_time).join();
    tried.expect("asking for a priority does not panic").map_err(RunError::NoRealTime)
}

impl Running {
    /// What it will be short of, and begins with nevertheless.
    pub fn short_of(&self) -> Option<&Shortage> {
        self.short.as_ref()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let read = |value: &std::sync::atomic::AtomicU64| value.load(Ordering::Relaxed);
        let elapsed = clock::monotonic_ns() - self.began;
        let waiting = || self.signals.waiting.iter();
        let since = waiting().map(|of| read(&of.since)).min().unwrap_or(Nanos::MAX);
        Progress {
            elapsed: Duration::from_nanos(elapsed),
            waiting: waiting().map(|of| read(&of.calls)).sum(),
            longest_wait: Duration::from_nanos(elapsed.saturating_sub(since)),
            arrived: read(&self.signals.arrived),
            open: read(&self.signals.open),
            shown: Shown {
                replies: read(&self.signals.replies),
                bad_statuses: read(&self.signals.bad_statuses),
                body_bytes: read(&self.signals.body_bytes),
                errors: read(&self.signals.errors),
            },
            under_way: read(&self.signals.under_way),
            reply_times: Snapshot::of(self.live.iter().map(Arc::as_ref)),
        }
    }

    /// Whether all threads are done.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Ends it now; what was measured stays.
    pub fn stop(&self) {
        self.signals.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for its end and puts everything together.
    ///
    /// # Errors
    ///
    /// A thread's event mechanism failed.
    ///
    /// # Panics
    ///
    /// When a thread did.
    pub fn finish(self) -> Result<Finished, RunError> {
        let mut recorders = Vec::new();
        let mut cpu = Vec::new();
        let (mut ended, mut left, mut most_open) = (0, 0, 0);
        for thread in self.threads {
            let report = thread.join().expect("a thread of the generator panicked");
            let report =
                report.map_err(|source| RunError::System { step: "continue to generate load", source })?;
            recorders.push(report.recorder);
            cpu.push(report.cpu);
            ended = ended.max(report.ended);
            left = left.max(report.left);
            most_open += report.most_open;
        }
        let mut measures = Measures::merge(recorders);
        // Not at the same moment, perhaps: an upper bound, as httperf's is.
        measures.most_open = most_open;
        let calls = self.calls.map_or(Ok(()), CallWriter::finish);
        let intervals = self.intervals.map_or(Ok(()), IntervalWriter::finish);
        let unwritten = [calls, intervals].into_iter().filter_map(Result::err).collect();
        Ok(Finished { measures, ended, left, cpu, unwritten })
    }
}
