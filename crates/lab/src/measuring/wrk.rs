//! Runs wrk(1): any number of connections, each of which requests the same file again as soon as it has its
//! reply. [`Told`] has what wrk reports, through a script of ours. Figures that wrk does not report are
//! missing here.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use machine::process;
use serde::Deserialize;

use crate::description::lengths::Lengths;
use crate::measuring::generator::Edge;
use crate::programs::child::{Process, on_cpus, output};
use crate::programs::interrupt;
use crate::record::outcome::Times;

/// How wrk is run.
#[derive(Clone, Copy, Debug)]
pub struct Wrk<'a> {
    /// Its CPUs, with a thread on each.
    pub cpus: &'a [usize],
    /// Words before its command.
    pub wrapper: &'a [String],
    /// The requested URL.
    pub url: &'a str,
    /// The number of connections.
    pub connections: u32,
    /// Whether each request has the header `Connection: close`, so that each has a new connection.
    pub closes: bool,
    /// After this many seconds, wrk counts a request as timed out.
    pub timeout_s: u64,
    /// The directory for its script and its output.
    pub directory: &'a Path,
}

/// What wrk reported about a run.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Told {
    /// Whole replies.
    pub requests: u64,
    pub duration_us: u64,
    pub errors: Errors,
    /// The times from sending a request to the last byte of its reply. For requests that a long one held
    /// up, wrk adds the times that they would have waited.
    pub times: Times,
}

/// The number of errors of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Errors {
    pub connect: u64,
    pub read: u64,
    pub write: u64,
    pub timeout: u64,
    /// Replies of status 4xx or 5xx; these also count as requests.
    pub status: u64,
}

/// A finished run, and the counters that were read around it.
#[derive(Debug)]
pub struct Watched<T> {
    /// The counters before wrk started.
    pub first: T,
    /// The counters after it ended.
    pub second: T,
    /// The time between the two.
    pub elapsed: Duration,
    /// The CPU time that wrk used.
    pub cpu: Duration,
    /// What wrk reported.
    pub told: Told,
}

/// A script that makes wrk print its counts on a separate line.
const SCRIPT: &str = r#"
done = function(summary, latency)
  local errors = summary.errors
  local function ms(percent) return latency:percentile(percent) / 1000 end
  print(string.format(
    'told {"requests":%d,"duration_us":%d,' ..
    '"errors":{"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d},' ..
    '"times":{"mean":%f,"p50":%f,"p90":%f,"p99":%f,"p999":%f,"max":%f}}',
    summary.requests, summary.duration,
    errors.connect, errors.read, errors.write, errors.timeout, errors.status,
    latency.mean / 1000, ms(50), ms(90), ms(99), ms(99.9), latency.max / 1000))
end
"#;

/// The start of that line.
const TOLD: &str = "told ";

/// Where to get wrk.
const HINT: &str = " (Debian package wrk)";

/// How much longer than planned it may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The path of wrk.
pub(crate) fn find() -> Result<PathBuf> {
    crate::servers::found(Path::new("wrk")).with_context(|| format!("wrk is not installed{HINT}"))
}

impl Wrk<'_> {
    /// Runs wrk for this many seconds. Any error of a request is an error here.
    pub fn run(&self, seconds: u64) -> Result<Told> {
        self.write_script()?;
        let told = Told::read(&output(&mut self.command(seconds), HINT)?)?;
        ensure!(told.errors == Errors::default(), "wrk met errors: {:?}", told.errors);
        Ok(told)
    }

    /// Runs wrk for the warm-up, and then again for the measurement, with a `sample` before that and another
    /// after.
    pub(crate) fn watch<T>(
        &self,
        lengths: Lengths,
        mut sample: impl FnMut(Edge) -> Result<T>,
    ) -> Result<Watched<T>> {
        self.write_script()?;
        if !lengths.warm_up.is_zero() {
            let mut warming = self.start(lengths.warm_up.as_secs() + 1)?;
            interrupt::sleep_until(Instant::now() + lengths.warm_up)?;
            ensure!(warming.ended()?.is_none(), "wrk ended while warming up: {}", self.said());
        }
        let first = sample(Edge::Begin)?;
        let began = Instant::now();
        let seconds = lengths.measured.as_secs();
        let mut process = self.start(seconds)?;
        let has_ended = || Ok(process.has_ended()?.then_some(()));
        interrupt::wait_for(lengths.measured + TIMEOUT, has_ended)?.context("wrk has not ended in time")?;
        let elapsed = began.elapsed();
        let second = sample(Edge::End)?;
        // The process exists until it is waited for.
        let cpu = Duration::from_nanos(process::cpu_time_ns(process.id())?);
        let status = process.ended()?.context("wrk has ended and has not")?;
        ensure!(status.success(), "wrk ended with {status}: {}", self.said());
        let told = Told::read(&self.said())?;
        Ok(Watched { first, second, elapsed, cpu, told })
    }

    fn start(&self, seconds: u64) -> Result<Process> {
        let (said, told) = (File::create(self.output())?, File::create(self.directory.join("wrk.stderr"))?);
        Process::start(self.command(seconds).stdout(Stdio::from(said)).stderr(told))
    }

    fn command(&self, seconds: u64) -> Command {
        let mut command = on_cpus(self.cpus);
        command.args(self.wrapper).arg("wrk").arg(format!("--threads={}", self.cpus.len()));
        command.arg(format!("--connections={}", self.connections)).arg(format!("--duration={seconds}s"));
        command.arg(format!("--timeout={}s", self.timeout_s));
        command.arg("--script").arg(self.script());
        if self.closes {
            command.args(["--header", "Connection: close"]);
        }
        command.arg(self.url);
        command
    }

    fn script(&self) -> PathBuf {
        self.directory.join("wrk.lua")
    }

    fn output(&self) -> PathBuf {
        self.directory.join("wrk.stdout")
    }

    fn write_script(&self) -> Result<()> {
        fs::write(self.script(), SCRIPT).with_context(|| format!("cannot write {}", self.script().display()))
    }

    fn said(&self) -> String {
        let [said, told] = [self.output(), self.directory.join("wrk.stderr")]
            .map(|path| fs::read_to_string(path).unwrap_or_default());
        format!("{told}{said}").trim().to_owned()
    }
}

impl Told {
    /// Parses the script's line.
    fn read(said: &str) -> Result<Self> {
        let line = said.lines().find_map(|line| line.strip_prefix(TOLD));
        let line = line.with_context(|| format!("wrk reported no results; it printed: {}", said.trim()))?;
        let told: Self =
            serde_json::from_str(line).with_context(|| format!("cannot parse the results of wrk: {line}"))?;
        if told.requests == 0 {
            bail!("wrk got no reply: {line}");
        }
        Ok(told)
    }

    /// How long the run lasted.
    pub(crate) fn seconds(&self) -> f64 {
        self.duration_us as f64 / 1e6
    }
}

impl Errors {
    /// The number of requests without a whole reply.
    pub(crate) fn without_reply(self) -> u64 {
        self.connect + self.read + self.write + self.timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_tells_is_read() {
        let line = r#"told {"requests":1146,"duration_us":1002075,
            "errors":{"connect":1,"read":2,"write":3,"timeout":4,"status":5},
            "times":{"mean":2.2122,"p50":1.084,"p90":1.2,"p99":1.5,"p999":16.884,"max":17.745}}"#;
        let said = format!("Running 1s test\n{}\n", line.replace('\n', ""));
        let told = Told::read(&said).unwrap();
        assert_eq!((told.requests, told.errors.without_reply(), told.errors.status), (1_146, 10, 5));
        assert!((told.seconds() - 1.002_075).abs() < 1e-9);
        assert_eq!((told.times.p50, told.times.max), (1.084, 17.745));
        let nothing = Told::read("unable to connect to 127.0.0.1:1 Connection refused").unwrap_err();
        assert!(
            nothing.to_string().ends_with("it printed: unable to connect to 127.0.0.1:1 Connection refused")
        );
        assert!(Told::read(&said.replace("1146", "0")).unwrap_err().to_string().starts_with("wrk got no"));
    }
}
