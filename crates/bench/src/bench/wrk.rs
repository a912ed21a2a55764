//! The load generator: wrk, one thread, pinned, and what it says.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use lab::programs::child::output;

/// How wrk is run.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Wrk {
    /// Connections that are kept busy
    #[arg(long, default_value_t = 64)]
    pub(crate) connections: usize,
    /// Length of one run in seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// The CPU that clients run on
    #[arg(long, default_value_t = 1)]
    pub(crate) client_cpu: usize,
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
        words.extend(["taskset", "-c", &self.client_cpu.to_string(), "wrk", "-t1"].map(str::to_owned));
        words.push(format!("-c{}", self.connections));
        words.push(format!("-d{}s", self.seconds));
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
    // A read error is a reply cut short, a timeout one that took over 2 s, and a connect error means that
    // ports or the accept queue ran out; none belongs into a measurement.
    for trouble in ["Socket errors: ", "Non-2xx or 3xx responses: "] {
        ensure!(!said.contains(trouble), "there were errors");
    }
    let counted = || {
        let requests = said.split_once(" requests in ")?.0.split_whitespace().last()?.parse().ok()?;
        let per_second = said.split_once("Requests/sec:")?.1.split_whitespace().next()?.parse().ok()?;
        Some(Counted { requests, requests_per_second: per_second })
    };
    let counted = counted().context("no count and rate of requests")?;
    ensure!(counted.requests > 0, "no request was answered");
    Ok(counted)
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
