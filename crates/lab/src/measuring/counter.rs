//! How many system calls a server makes, counted by perf(1). A trial in which they are counted is not
//! measured.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::description::lengths::Lengths;
use crate::programs::child::{Process, on_cpus};
use crate::programs::interrupt;

/// Counting, or about to. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Counter {
    process: Process,
    counted: PathBuf,
    log: PathBuf,
    lasts: Duration,
}

const EVENT: &str = "raw_syscalls:sys_enter";

/// What is left out at each end of the measured time, when clients come and go.
const MARGIN: Duration = Duration::from_millis(200);

/// How long perf may take to attach itself, and to write what it has.
const PATIENCE: Duration = Duration::from_secs(20);

/// What perf says when it has attached itself to the processes, before it waits for its delay.
const ATTACHED: &str = "Events disabled";

impl Counter {
    /// Counts those of `processes` in the measured time, which is to begin now with its warm-up. perf itself
    /// runs on `own_cpus`.
    pub(crate) fn start(
        processes: &[u32],
        own_cpus: &[usize],
        lengths: Lengths,
        directory: &Path,
    ) -> Result<Self> {
        let lasts = lengths.measured.saturating_sub(2 * MARGIN);
        Self::attach(on_cpus(own_cpus), processes, lengths.warm_up + MARGIN, lasts, directory)
    }

    /// Returns when perf is attached: on a busy machine its start takes longer than what it is to count, and
    /// the load would be over.
    fn attach(
        mut command: Command,
        processes: &[u32],
        delay: Duration,
        lasts: Duration,
        directory: &Path,
    ) -> Result<Self> {
        let (counted, log) = (directory.join("perf-stat"), directory.join("perf-stat.stderr"));
        let ids: Vec<String> = processes.iter().map(u32::to_string).collect();
        command.args(["perf", "stat", "--field-separator=,", &format!("--event={EVENT}")]);
        command.arg(format!("--pid={}", ids.join(","))).arg(format!("--delay={}", delay.as_millis()));
        command.arg(format!("--output={}", counted.display()));
        // perf counts for as long as the command runs that it is given, which it starts before the delay.
        command.args(["--", "sleep", &(delay + lasts).as_secs_f64().to_string()]);
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        let process = Process::start(&mut command)?;
        let this = Self { process, counted, log, lasts };
        let is_attached = || Ok((this.said().contains(ATTACHED) || this.process.has_ended()?).then_some(()));
        interrupt::wait_for(PATIENCE, is_attached)?;
        ensure!(this.said().contains(ATTACHED), "perf cannot count {EVENT}: {}", this.said());
        Ok(this)
    }

    /// How many there were in a second.
    pub(crate) fn finish(mut self) -> Result<f64> {
        interrupt::wait_for(PATIENCE + self.lasts, || self.process.ended())?
            .context("perf stat has not ended")?;
        let told = fs::read_to_string(&self.counted).unwrap_or_default();
        let count = count(&told).with_context(|| {
            format!(
                "perf counted no {EVENT}: in the {:?} that it counted, either no process of the server ran, \
                 as on a machine that is too busy, or perf cannot count; it said: {} {}",
                self.lasts,
                told.trim(),
                self.said()
            )
        })?;
        Ok(count / self.lasts.as_secs_f64())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }
}

/// Whether they can be counted here. Counted are those of this program, which looks again and again whether
/// perf has ended: perf also succeeds where it counts nothing.
pub(crate) fn check() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (delay, lasts) = (Duration::from_millis(1), Duration::from_millis(200));
    Counter::attach(Command::new("env"), &[std::process::id()], delay, lasts, directory.path())
        .and_then(Counter::finish)
        .map(drop)
        .context(format!(
            "`system_calls` counts {EVENT} with perf (Debian package linux-perf), which takes root and a \
             kernel that traces; leave out `system_calls`, or run elsewhere"
        ))
}

/// `"1234,,raw_syscalls:sys_enter,…"`.
fn count(told: &str) -> Option<f64> {
    let line = told.lines().find(|line| line.contains("raw_syscalls"))?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_stands_first() {
        let told = "# started on Fri\n\n97433,,raw_syscalls:sys_enter,1592077520,100.00,,\n";
        assert_eq!(count(told), Some(97_433.0));
        assert_eq!(count("<not counted>,,raw_syscalls:sys_enter,0,0.00,,"), None);
        assert_eq!(count(""), None);
    }

    #[test]
    fn a_process_that_does_nothing_is_told_from_one_that_works() {
        if let Err(error) = check() {
            return harness::skip(format!("{error:#}"));
        }
        let directory = tempfile::tempdir().unwrap();
        let count = |process: u32| {
            let (delay, lasts) = (Duration::from_millis(1), Duration::from_millis(200));
            Counter::attach(Command::new("env"), &[process], delay, lasts, directory.path())?.finish()
        };
        let idle = Process::start(Command::new("sleep").arg("100")).unwrap();
        let error = count(idle.id()).unwrap_err().to_string();
        assert!(error.contains("no process of the server ran") && error.contains("<not counted>"), "{error}");
        let busy = Process::start(Command::new("yes").stdout(Stdio::null())).unwrap();
        assert!(count(busy.id()).unwrap() > 0.0);
        let error = count(u32::MAX >> 1).unwrap_err().to_string();
        assert!(error.starts_with("perf cannot count raw_syscalls:sys_enter: "), "{error}");
    }
}
