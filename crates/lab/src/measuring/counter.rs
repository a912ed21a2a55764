//! How many system calls a server makes, counted by perf(1). A trial in which they are counted is not
//! measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::description::lengths::Lengths;
use crate::programs::child::{Process, on_cpus, output};
use crate::programs::interrupt;

/// Counting, or about to. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Counter {
    process: Process,
    counted: PathBuf,
    lasts: Duration,
}

const EVENT: &str = "--event=raw_syscalls:sys_enter";

/// What is left out at each end of the measured time, when clients come and go.
const MARGIN: Duration = Duration::from_millis(200);

/// How long perf may take to write what it has.
const PATIENCE: Duration = Duration::from_secs(20);

impl Counter {
    /// Counts those of `processes` in the measured time. perf itself runs on `own_cpus`.
    pub(crate) fn start(
        processes: &[u32],
        own_cpus: &[usize],
        lengths: Lengths,
        directory: &Path,
    ) -> Result<Self> {
        let counted = directory.join("perf-stat");
        let lasts = lengths.measured.saturating_sub(2 * MARGIN);
        let ids: Vec<String> = processes.iter().map(u32::to_string).collect();
        let mut command = on_cpus(own_cpus);
        // perf counts for as long as the command runs that it is given.
        command.args(["sh", "-c", "sleep $0; exec \"$@\""]);
        command.arg((lengths.warm_up + MARGIN).as_secs_f64().to_string());
        command.args(["perf", "stat", "--field-separator=,", EVENT, &format!("--pid={}", ids.join(","))]);
        command.arg(format!("--output={}", counted.display()));
        command.args(["--", "sleep", &lasts.as_secs_f64().to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { process: Process::start(&mut command)?, counted, lasts })
    }

    /// How many there were in a second.
    pub(crate) fn finish(mut self) -> Result<f64> {
        interrupt::wait_for(PATIENCE, || self.process.ended())?.context("perf stat has not ended")?;
        let told = fs::read_to_string(&self.counted).unwrap_or_default();
        let count = count(&told).with_context(|| format!("perf counted no system calls: {}", told.trim()))?;
        Ok(count / self.lasts.as_secs_f64())
    }
}

/// Whether they can be counted here.
pub(crate) fn check() -> Result<()> {
    let hint = " (Debian package linux-perf, for `system_calls`)";
    let said = output(Command::new("perf").args(["stat", EVENT, "true"]), hint);
    ensure!(said.is_ok(), "`system_calls` are counted with perf, as root{hint}: {:#}", said.unwrap_err());
    Ok(())
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
}
