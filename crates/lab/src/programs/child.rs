//! A child process that does not outlive this program.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::programs::interrupt;
use crate::programs::janitor;

/// A child process. Dropping it sends SIGTERM, and SIGKILL if the process has not ended in two seconds.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts the process without input, in its own process group. So Ctrl-C reaches only this program,
    /// which then ends its children in order.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).env(janitor::MARK, janitor::mark()).process_group(0).spawn();
        let child = child.with_context(|| format!("cannot run {}", command.get_program().display()))?;
        Ok(Self { child })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Whether the process has ended. It can still be waited for.
    pub fn has_ended(&self) -> Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.pid()?), options)?.is_some())
    }

    fn pid(&self) -> Result<Pid> {
        Pid::from_raw(self.child.id() as i32).context("process id 0")
    }

    /// Sends SIGTERM, and waits for the end.
    pub fn stop(mut self, timeout: Duration) -> Result<()> {
        self.terminate()?;
        ensure!(self.leaves_within(timeout)?, "process {} does not react to SIGTERM", self.id());
        Ok(())
    }

    fn terminate(&self) -> Result<()> {
        Ok(kill_process(self.pid()?, Signal::TERM)?)
    }

    fn leaves_within(&mut self, timeout: Duration) -> Result<bool> {
        let start = Instant::now();
        while self.ended()?.is_none() {
            if start.elapsed() > timeout {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(true)
    }
}

impl Drop for Process {
    /// Sends SIGTERM first: if a supervisor were killed at once, its workers would stay.
    fn drop(&mut self) {
        if matches!(self.ended(), Ok(None)) {
            let _ = self.terminate();
            if !matches!(self.leaves_within(Duration::from_secs(2)), Ok(true)) {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }
}

/// Runs a command to its end, and returns its output. If it fails, the error quotes the output. If the
/// program is missing, the error ends with `hint`, which says where to get it.
pub fn output(command: &mut Command, hint: &str) -> Result<String> {
    interrupt::check()?;
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}{hint}", command.get_program().display()))?;
    let [said, told] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(output.status.success(), "{command:?} ended with {}: {told}{said}", output.status);
    Ok(said)
}

/// A command that runs on these CPUs. The caller adds the words of the actual command.
pub fn on_cpus(cpus: &[usize]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &list(cpus)]);
    command
}

/// CPUs in the format of `taskset` and `sluicelab`.
pub fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
