//! Counts a server's system calls with perf(1). A trial with counting is not measured.
//!
//! perf writes a line every [`STEP`], with the calls since the line before. [`Counter::sample`] adds up the
//! lines at each edge of the measured window. So calls and replies cover the same time, however late the
//! load begins on a busy machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::programs::child::{Process, on_cpus};
use crate::programs::interrupt;

/// perf(1) that counts. Dropping it ends perf.
#[derive(Debug)]
pub(crate) struct Counter {
    process: Process,
    lines: PathBuf,
    log: PathBuf,
}

/// The calls up to one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Calls {
    count: f64,
    /// Seconds since perf began.
    at_s: f64,
}

const EVENT: &str = "raw_syscalls:sys_enter";

const STEP: Duration = Duration::from_millis(20);

/// How long perf may take to attach itself, and to write a line.
const TIMEOUT: Duration = Duration::from_secs(20);

impl Counter {
    /// Counts the calls of a server's `processes`, and of all they fork from now on. perf itself runs on
    /// `own_cpus`. When this returns, perf is attached.
    ///
    /// # Errors
    ///
    /// perf cannot count. Or processes come and go so fast that perf is never attached to all of them.
    pub(crate) fn start(
        processes: impl Fn() -> Result<Vec<u32>>,
        own_cpus: &[usize],
        directory: &Path,
    ) -> Result<Self> {
        let attach = || {
            let before = processes()?;
            let counter = Self::attach(on_cpus(own_cpus), &before, directory);
            // If a worker is forked after `before` was read and before perf is attached to its parent, its
            // calls are not counted. Later workers are counted with their parent.
            if processes()? == before { counter.map(Some) } else { Ok(None) }
        };
        let attached = interrupt::wait_for(TIMEOUT, attach)?;
        attached.context("the server keeps starting processes, and perf cannot attach to all of them")
    }

    fn attach(mut command: Command, processes: &[u32], directory: &Path) -> Result<Self> {
        let (lines, log) = (directory.join("perf-stat"), directory.join("perf-stat.stderr"));
        let ids: Vec<String> = processes.iter().map(u32::to_string).collect();
        command.args(["perf", "stat", "--field-separator=,", &format!("--event={EVENT}")]);
        command.arg(format!("--pid={}", ids.join(",")));
        command.arg(format!("--interval-print={}", STEP.as_millis()));
        command.arg(format!("--output={}", lines.display()));
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        let this = Self { process: Process::start(&mut command)?, lines, log };
        this.sample()?;
        Ok(this)
    }

    /// The calls so far. Waits for the line that perf is about to write.
    pub(crate) fn sample(&self) -> Result<Calls> {
        let before = self.so_far();
        let is_later = || {
            let now = self.so_far();
            let is_over = now.at_s > before.at_s || self.process.has_ended()?;
            Ok(is_over.then_some(now))
        };
        let now = interrupt::wait_for(TIMEOUT, is_later)?.unwrap_or(before);
        ensure!(now.at_s > before.at_s, "perf cannot count {EVENT}: {}", self.said());
        Ok(now)
    }

    fn so_far(&self) -> Calls {
        sum(&fs::read_to_string(&self.lines).unwrap_or_default())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }
}

impl Calls {
    /// The calls per second. An error if there are none.
    pub(crate) fn per_s_since(&self, earlier: &Self) -> Result<f64> {
        let (count, seconds) = (self.count - earlier.count, self.at_s - earlier.at_s);
        ensure!(
            count > 0.0 && seconds > 0.0,
            "perf counted no {EVENT}: in the {seconds:.1} s that it counted, either no process of the \
             server ran (the machine may be too busy), or perf cannot count here"
        );
        Ok(count / seconds)
    }
}

/// Checks that perf can count here, by counting the calls of this program while it waits for perf. perf's
/// exit code is not enough, because perf also succeeds where it counts nothing.
pub(crate) fn check() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let count = || {
        let counter = Counter::attach(Command::new("env"), &[std::process::id()], directory.path())?;
        let before = counter.sample()?;
        counter.sample()?.per_s_since(&before)
    };
    count().map(drop).context(format!(
        "`system_calls` counts {EVENT} with perf (Debian package linux-perf), which needs root and a kernel \
         with tracepoints; leave out `system_calls`, or run elsewhere"
    ))
}

/// Adds up lines such as `    0.020115,1234,,raw_syscalls:sys_enter,…`. The last line may be incomplete.
/// Where nothing ran, perf writes `<not counted>`.
fn sum(told: &str) -> Calls {
    let whole = told.rfind('\n').map_or("", |end| &told[..end]);
    let lines = whole.lines().filter(|line| line.contains(EVENT)).filter_map(|line| {
        let (seconds, rest) = line.trim_start().split_once(',')?;
        let count = rest.split(',').next()?.parse().unwrap_or(0.0);
        Some(Calls { count, at_s: seconds.parse().ok()? })
    });
    lines.fold(Calls::default(), |sum, line| Calls { count: sum.count + line.count, at_s: line.at_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_added_up() {
        let told = "# started on Fri\n\n     0.020115,97433,,raw_syscalls:sys_enter,20077520,100.00,,\n     \
                    0.040200,<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n     \
                    0.060300,1000,,raw_syscalls:sys_enter,20077520,100.00,,\n     0.0803";
        assert_eq!(sum(told), Calls { count: 98_433.0, at_s: 0.0603 });
        assert_eq!(sum(""), Calls::default());
        let calls = |count, at_s| Calls { count, at_s };
        let per_s = calls(300.0, 2.5).per_s_since(&calls(100.0, 0.5)).unwrap();
        assert!((per_s - 100.0).abs() < 1e-9);
        assert!(calls(100.0, 2.5).per_s_since(&calls(100.0, 0.5)).is_err());
    }

    #[test]
    fn a_process_that_does_nothing_is_distinguished_from_one_that_works() {
        if let Err(error) = check() {
            return harness::skip(format!("{error:#}"));
        }
        let directory = tempfile::tempdir().unwrap();
        let count = |process: u32| {
            let counter = Counter::attach(Command::new("env"), &[process], directory.path())?;
            let before = counter.sample()?;
            let seen = || Ok(Some(counter.sample()?).filter(|now| now.count > before.count));
            let after = interrupt::wait_for(Duration::from_millis(500), seen)?;
            after.map_or_else(|| counter.sample(), Ok)?.per_s_since(&before)
        };
        let idle = Process::start(Command::new("sleep").arg("100")).unwrap();
        let error = count(idle.id()).unwrap_err().to_string();
        assert!(error.contains("no process of the server ran"), "{error}");
        let busy = Process::start(Command::new("yes").stdout(Stdio::null())).unwrap();
        assert!(count(busy.id()).unwrap() > 0.0);
        let error = count(u32::MAX >> 1).unwrap_err().to_string();
        assert!(error.starts_with("perf cannot count raw_syscalls:sys_enter: "), "{error}");
    }
}
