//! Does `sluicelab load` measure what the real httperf measures? Both play the same session files at the same
//! rate against the same servers, in turn, and their reports (of one format) are laid side by side.
//!
//! Rates are far below httperf's own limits. One server is nginx, which sends at a limited rate: so times are
//! long enough for reports of one decimal. The other is the [`scripted`] one with known delays, of which some
//! are longer than the clients' timeout.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::httperf;
use crate::measurement::Lab;
use crate::scripted;
use crate::servers::{self, Environment, spec};
use lab::programs::child::{on_cpus, output};
use lab::statistics::Spread;
use lab::table::{self, Column};

/// How both are run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    lab: Lab,
    /// The CPU that load generators run on
    #[arg(long, default_value_t = 1)]
    client_cpu: usize,
    /// How often each pair is run
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Sessions of each run
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    sessions: u32,
    /// Sessions per second
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
}

/// How far apart two figures may be.
const ALLOWED: f64 = 0.02;

/// A figure that both reports have: its name, some words, which of the numbers behind them it is, and what
/// its last digit means.
const FIGURES: [(&str, &str, usize, f64); 11] = [
    ("connections", "Total: connections ", 0, 1.0),
    ("requests", " requests ", 0, 1.0),
    ("replies", " replies ", 0, 1.0),
    ("test duration, s", "test-duration ", 0, 0.001),
    ("reply rate, samples/s", "Reply rate [replies/s]: ", 1, 0.1),
    ("reply content, bytes", "content ", 0, 1.0),
    ("connection time, ms", "Connection time [ms]: ", 1, 0.1),
    ("reply time, response, ms", "response ", 0, 0.1),
    ("reply time, transfer, ms", "transfer ", 0, 0.1),
    ("timeouts", "client-timo ", 0, 1.0),
    ("sessions completed", "Session rate [sess/s]: ", 4, 1.0),
];

/// One figure as both have it.
#[derive(Debug, Serialize)]
struct Agreement {
    server: &'static str,
    figure: &'static str,
    httperf: Spread,
    sluicelab: Spread,
    /// Medians: ours over httperf's.
    ratio: f64,
    agrees: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { lab, rounds, sessions, rate, .. } = options;
    let results = lab.common.measure(|environment| compare_all(options, environment))?;
    let how = format!(
        "{rounds} rounds of {sessions} sessions at {rate} per second, in turn; medians (quartiles).\n\n"
    );
    let columns: &[Column<'_, Agreement>] = &[
        ("server, figure", &|of| format!("{}: {}", of.server, of.figure)),
        ("httperf", &|of| format!("{:.1}", of.httperf)),
        ("sluicelab load", &|of| format!("{:.1}", of.sluicelab)),
        ("ratio", &|of| format!("{:.3}", of.ratio)),
        ("within 2%", &|of| if of.agrees { "yes" } else { "NO" }.to_owned()),
    ];
    lab.common.report("agreement", &results, &(how + &table::of(columns, &results)))?;
    ensure!(results.iter().all(|of| of.agrees), "some figures do not agree");
    Ok(())
}

fn compare_all(options: &Options, environment: Environment<'_>) -> Result<Vec<Agreement>> {
    let nginx = servers::start(&spec("nginx: limit_rate=60000")?, environment)?;
    let slow = scripted::start().context("cannot start the scripted server")?;
    let bouts = [
        Bout { name: "nginx", server: nginx.address, sessions: nginx_log(), timeout_s: 10 },
        Bout { name: "scripted, slow", server: slow, sessions: slow_log(), timeout_s: 1 },
    ];
    let mut results = Vec::new();
    for bout in bouts {
        let log = environment.scratch.join("sessions");
        fs::write(&log, &bout.sessions)?;
        results.extend(compare(options, &bout, &log)?);
    }
    nginx.stop()?;
    Ok(results)
}

/// Sessions of files of several sizes, with bursts and thinking.
fn nginx_log() -> String {
    let session = |small: &str, large: &str| format!("{small} think=0.1\n  {large}\n  {small}\n{large}\n\n");
    [session("/10k.html", "/100k.html"), session("/1k.html", "/100k.html"), "/100k.html\n\n".to_owned()]
        .concat()
}

/// Delays before the head and in the body, one in ten sessions beyond the timeout.
fn slow_log() -> String {
    let session = |number: u32| {
        let delay = 40 + 20 * number;
        let last = if number == 3 { "/delay/1500/500".to_owned() } else { format!("/slow/{delay}/4000") };
        format!("/delay/{delay}/1000 think=0.05\n  /ok/300\n  /ok/5000\n{last}\n\n")
    };
    (0..10).map(session).collect::<Vec<_>>().concat()
}

/// A server, what is played against it, and how many seconds clients wait.
struct Bout {
    name: &'static str,
    server: SocketAddr,
    sessions: String,
    timeout_s: u32,
}

fn compare(options: &Options, bout: &Bout, log: &Path) -> Result<Vec<Agreement>> {
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        eprintln!("{}: round {round} of {}", bout.name, options.rounds);
        rounds.push(reports(options, bout, log)?);
    }
    let spread = |who: usize, place: usize| {
        let figures = rounds.iter().map(|reports: &[Vec<f64>; 2]| reports[who][place]);
        Spread::of(figures).context("no rounds")
    };
    let mut results = Vec::new();
    for (place, (figure, .., digit)) in FIGURES.iter().enumerate() {
        let (httperf, sluicelab) = (spread(0, place)?, spread(1, place)?);
        let (a, b) = (httperf.median, sluicelab.median);
        // Where the last digit is more than 2%, it decides.
        let agrees = (a - b).abs() <= (a.abs() * ALLOWED).max(*digit);
        let ratio = if a.abs() < f64::EPSILON && b.abs() < f64::EPSILON { 1.0 } else { b / a };
        results.push(Agreement { server: bout.name, figure, httperf, sluicelab, ratio, agrees });
    }
    Ok(results)
}

/// The figures of httperf and of ours, of the same sessions.
fn reports(options: &Options, bout: &Bout, log: &Path) -> Result<[Vec<f64>; 2]> {
    let Options { lab, client_cpu, sessions, rate, .. } = options;
    let Bout { server, timeout_s, .. } = bout;
    let log = log.display();
    let theirs = [
        format!("--wsesslog={sessions},0,{log}"),
        format!("--rate={rate}"),
        format!("--timeout={timeout_s}"),
    ];
    let ours = [
        format!("--target=http://{server}"),
        format!("--sessions={log}"),
        format!("--session-rate={rate}"),
        format!("--session-count={sessions}"),
        format!("--timeout={timeout_s}s"),
        format!("--cpus={client_cpu}"),
    ];
    let mut load = on_cpus(&[*client_cpu]);
    load.arg(lab.executable()?).args(["load", "--arrivals=fixed", "--format=httperf"]).args(ours);
    Ok([figures(&httperf::run(*client_cpu, *server, &theirs)?)?, figures(&output(&mut load, "")?)?])
}

/// The numbers of a report, in the order of [`FIGURES`].
fn figures(report: &str) -> Result<Vec<f64>> {
    let figure = |(name, words, place, _): &(&str, &str, usize, f64)| {
        httperf::number(report, words, *place).with_context(|| format!("no {name} in: {report}"))
    };
    FIGURES.iter().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "Total: connections 30 requests 90 replies 88 test-duration 6.330 s\n\n\
        Connection time [ms]: min 0.1 avg 25.6 max 51.9 median 0.4 stddev 25.4\n\
        Reply rate [replies/s]: min 235.6 avg 236.1 max 236.6 stddev 0.5 (2 samples)\n\
        Reply time [ms]: response 0.1 transfer 0.2\n\
        Reply size [B]: header 234.0 content 80614.0 footer 0.0 (total 80848.0)\n\
        Errors: total 2 client-timo 2 socket-timo 0 connrefused 0 connreset 0\n\
        Session rate [sess/s]: min 94.00 avg 94.78 max 94.00 stddev 0.00 (28/30)\n";

    #[test]
    fn figures_are_found_behind_their_words() {
        let expected = [30.0, 90.0, 88.0, 6.33, 236.1, 80614.0, 25.6, 0.1, 0.2, 2.0, 28.0];
        assert_eq!(figures(REPORT).unwrap(), expected);
        assert!(figures("nothing").is_err());
    }
}
