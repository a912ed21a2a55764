//! Runs `sluicelab load` with results as JSON. [`run`] runs it to its end. Experiments run it in a
//! namespace, and read the server's counters at both ends of the measured window.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use results::load::{Results, SCHEMA};

use crate::description::lengths::Lengths;
use crate::programs::child::Process;
use crate::programs::interrupt;
use crate::record::outcome::SampleTimes;

/// A running load generator. Dropping it ends it.
#[derive(Debug)]
pub struct Generator {
    process: Process,
    started: Instant,
    results: PathBuf,
    log: PathBuf,
}

/// A finished run, and the counters that were read during it.
#[derive(Debug)]
pub struct Watched<T> {
    /// The counters at the start of the measured window.
    pub first: T,
    /// The counters at its end.
    pub second: T,
    /// How close to the window's edges they were read.
    pub sample_times: SampleTimes,
    /// The generator's results, see docs/lab-results.md.
    pub results: Results,
}

/// An end of the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The end of the warm-up.
    Begin,
    /// The end of the load.
    End,
}

/// How long the generator may take to start. Reading sessions takes milliseconds.
const LONGEST_START: Duration = Duration::from_secs(20);

/// How long the generator may take to end after the last client has given up.
const LONGEST_END: Duration = Duration::from_secs(20);

impl Generator {
    /// Starts `sluicelab load` with `options`; `wrapper` goes before the command.
    pub fn start(sluicelab: &Path, wrapper: &[String], options: &[String], directory: &Path) -> Result<Self> {
        let results = directory.join("load.json");
        let log = directory.join("load.stderr");
        // A file from an earlier run must not be taken for this run's results.
        match fs::remove_file(&results) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let started = Instant::now();
        let mut command = Command::new("env");
        command.args(wrapper).arg(sluicelab).args(["load", &format!("--json={}", results.display())]);
        command.args(options).stdout(Stdio::null()).stderr(File::create(&log)?);
        Ok(Self { process: Process::start(&mut command)?, started, results, log })
    }

    /// Waits for the run, and calls `sample` at the start and at the end of its measured window. Both times
    /// count from the start of the run, which is somewhat later than that of the process. Then it waits for
    /// the end, a little longer than any client waits for a reply. Returns the results, see
    /// docs/lab-results.md.
    pub fn watch<T>(
        mut self,
        lengths: Lengths,
        mut sample: impl FnMut(Edge) -> Result<T>,
    ) -> Result<Watched<T>> {
        let (began, unsure) = self.wait_for_run()?;
        let mut sample_at = |edge: Edge, at: Instant| {
            interrupt::sleep_until(at)?;
            // A slow reading has its own timestamp, so only its start counts.
            let late = at.elapsed();
            Ok::<_, anyhow::Error>((sample(edge)?, late))
        };
        let (first, first_late) = sample_at(Edge::Begin, began + lengths.warm_up)?;
        let (second, second_late) = sample_at(Edge::End, began + lengths.warm_up + lengths.measured)?;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let sample_times = SampleTimes {
            began_after_ms: ms(began - self.started),
            off_ms: ms(unsure + first_late.max(second_late)),
        };
        Ok(Watched { first, second, sample_times, results: self.finish(lengths.timeout + LONGEST_END)? })
    }

    /// Waits for the start of the run. At the returned instant the threads that make load did not exist yet;
    /// after the returned duration they did.
    fn wait_for_run(&mut self) -> Result<(Instant, Duration)> {
        let mut not_yet = Instant::now();
        loop {
            interrupt::check()?;
            let now = Instant::now();
            if makes_load(self.process.id()) {
                return Ok((not_yet, now - not_yet));
            }
            not_yet = now;
            match self.process.ended()? {
                None => {}
                // This program had no CPU during the whole run. The readings are that late.
                Some(_) if self.results.exists() => return Ok((not_yet, now - not_yet)),
                Some(status) => {
                    bail!("sluicelab load ended with {status} before its run began: {}", self.told())
                }
            }
            ensure!(self.started.elapsed() < LONGEST_START, "sluicelab load does not begin its run");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn finish(mut self, timeout: Duration) -> Result<Results> {
        let ended = interrupt::wait_for(timeout, || self.process.ended())?;
        let status = ended.context("sluicelab load has not ended in time")?;
        let results = fs::read(&self.results).map_err(anyhow::Error::from).and_then(|text| read(&text));
        // Exit code 3: not valid. 1: no call was answered, which overload can cause. The results say so as
        // well.
        let is_result = match status.code() {
            Some(0 | 3) => true,
            Some(1) => results.as_ref().is_ok_and(|results| !results.failed.is_empty()),
            _ => false,
        };
        ensure!(is_result, "sluicelab load ended with {status}: {}", self.told());
        results
    }

    fn told(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }
}

/// Runs `sluicelab load` to its end on one CPU, and returns its results, valid or not.
pub fn run(sluicelab: &Path, cpu: usize, options: &[String]) -> Result<Results> {
    interrupt::check()?;
    let mut command = Command::new(sluicelab);
    command.args(["load", "--format=json", &format!("--cpus={cpu}")]).args(options);
    let output = command.output().with_context(|| format!("cannot run {}", sluicelab.display()))?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(0 | 3)), "sluicelab ended with {}: {told}", output.status);
    read(&output.stdout)
}

fn read(text: &[u8]) -> Result<Results> {
    let results: Results =
        serde_json::from_slice(text).context("cannot understand the results of sluicelab load")?;
    ensure!(results.schema == SCHEMA, "sluicelab load has schema {}, not {SCHEMA}", results.schema);
    Ok(results)
}

/// Whether `process` has one of the threads that `sluicelab load` starts when its run begins: `load-0` and
/// so on.
fn makes_load(process: u32) -> bool {
    machine::process::thread_names(process)
        .is_ok_and(|names| names.iter().any(|name| name.starts_with("load-")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A generator that is no more than a script.
    fn generator(directory: &Path, script: &str) -> Generator {
        let path = directory.join("script");
        fs::write(&path, format!("#!/bin/sh\ncd {}\n{script}\n", directory.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Generator::start(&path, &[], &[], directory).unwrap()
    }

    const LENGTHS: Lengths = Lengths {
        warm_up: Duration::from_millis(100),
        measured: Duration::from_millis(200),
        timeout: Duration::ZERO,
        slices: 1,
    };

    #[test]
    fn samples_follow_the_run_and_not_the_process_or_its_end() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path();
        // A process with the name of a generator's thread.
        symlink("/bin/sleep", directory.join("load-0")).unwrap();
        // It reads sessions for a second, makes load, and waits for late replies.
        let script =
            format!("echo '{{\"schema\": {SCHEMA}}}' > load.json; sleep 1; touch begun; exec ./load-0 2");
        let generator = generator(directory, &script);
        let seen = |_| Ok((directory.join("begun").exists(), Instant::now()));
        let watched = generator.watch(LENGTHS, seen).unwrap();
        let ended = Instant::now();
        assert!(watched.first.0, "the first sample was before the run");
        assert!(watched.sample_times.began_after_ms >= 1_000.0, "{:?}", watched.sample_times);
        assert!(watched.second.1 - watched.first.1 >= Duration::from_millis(100));
        assert!(ended - watched.second.1 > Duration::from_secs(1), "the second sample waited for the end");
    }

    #[test]
    fn a_generator_that_does_not_begin_is_quoted() {
        let scratch = tempfile::tempdir().unwrap();
        let generator = generator(scratch.path(), "echo no sessions >&2; exit 2");
        let error = generator.watch(LENGTHS, |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("before its run began: no sessions"), "{error}");
    }
}
