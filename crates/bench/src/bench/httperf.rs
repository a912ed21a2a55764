//! The real httperf, and the report that it and `sluicelab load --format=httperf` print.

use std::net::SocketAddr;

use anyhow::Result;

use lab::programs::child::{on_cpus, output};

/// Runs it on one CPU, and gives its report.
pub(crate) fn run(cpu: usize, server: SocketAddr, options: &[String]) -> Result<String> {
    let target = [format!("--server={}", server.ip()), format!("--port={}", server.port())];
    let mut command = on_cpus(&[cpu]);
    command.args(["httperf", "--hog"]).args(target).args(options);
    output(&mut command, " (Debian packages util-linux, httperf)")
}

/// Of the numbers behind some words of a report the one at `place`.
pub(crate) fn number(report: &str, words: &str, place: usize) -> Option<f64> {
    let (_, behind) = report.split_once(words)?;
    let words = behind.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.filter_map(|word| word.parse().ok()).nth(place)
}
