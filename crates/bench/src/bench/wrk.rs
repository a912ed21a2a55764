//! The load generator: wrk, one thread, pinned, and what it says.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use lab::child::output;

/// How wrk is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrk {
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
    pub(crate) cpu: usize,
}

/// What wrk counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) requests: u64,
    pub(crate) requests_per_second: f64,
}

impl Wrk {
    /// Runs wrk on `url` behind the words of `wrapper` (none: as it is). Connect errors and replies other
    /// than 200 are errors.
    pub(crate) fn run(&self, wrapper: &[String], url: &str, close: bool) -> Result<Counted> {
        let mut words = wrapper.to_vec();
        words.extend(["taskset", "-c", &self.cpu.to_string(), "wrk", "-t1"].map(str::to_owned));
        words.push(format!("-c{}", self.connections));
        words.push(format!("-d{}s", self.duration.as_secs().max(1)));
        if close {
            words.extend(["-H", "Connection: close"].map(str::to_owned));
        }
        words.push(url.to_owned());
        let mut command = Command::new(&words[0]);
        let said = output(command.args(&words[1..]), " (Debian packages util-linux, wrk, linux-perf)")?;
        parse(&said).with_context(|| format!("wrk on {url} said: {said}"))
    }
}

fn parse(said: &str) -> Result<Counted> {
    for line in said.lines().map(str::trim) {
        if let Some(errors) = line.strip_prefix("Socket errors: ") {
            // A read error is a reply cut short, a timeout one that took over 2 s; neither belongs into a
            // measurement.
            bail!("socket errors: {errors} (connect errors mean that ports or the accept queue ran out)");
        }
        if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses: ") {
            bail!("{count} replies were not 2xx");
        }
    }
    let requests = said
        .lines()
        .find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok())
        .context("no count of requests")?;
    let requests_per_second = said
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok())
        .context("no rate of requests")?;
    ensure!(requests > 0, "no request was answered");
    Ok(Counted { requests, requests_per_second })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\n\
        \x20 Thread Stats   Avg\n    Latency   1.0ms\n  85143 requests in 1.10s, 99.00MB read\n\
        Requests/sec:  77402.73\nTransfer/sec: 90.00MB\n";

    #[test]
    fn counts_are_read() {
        assert_eq!(parse(GOOD).unwrap(), Counted { requests: 85143, requests_per_second: 77402.73 });
    }

    #[test]
    fn errors_and_wrong_statuses_fail() {
        for trouble in
            ["  Socket errors: connect 3, read 0, write 0, timeout 0\n", "  Non-2xx or 3xx responses: 7\n"]
        {
            assert!(parse(&format!("{GOOD}{trouble}")).is_err(), "{trouble}");
        }
        assert!(parse("unable to connect").is_err());
    }
}
