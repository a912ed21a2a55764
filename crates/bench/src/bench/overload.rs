//! Does `sluicelab load` overload? It holds many connections at once, and goes on asking at the rate it was
//! told while the server answers a part; and how late it is, beside a loop that does nothing but look at the
//! clock on the same CPU.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::lineup::NGINX;
use crate::measurement::Lab;
use crate::servers::{self, Environment};
use lab::generator;
use lab::{spinner, table};

/// How it is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    lab: Lab,
    /// Connections to be held at once
    #[arg(long, default_value_t = 15_000)]
    held: u32,
    /// Requests per second, each on a connection of its own
    #[arg(long, default_value_t = 6_000)]
    rate: u32,
    /// Length of the overload in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// What came of it.
#[derive(Debug, Serialize)]
struct Overload {
    /// Connections that were open at the same time.
    held: u64,
    asked_per_s: f64,
    arrived_per_s: f64,
    /// Arrivals over those that were due.
    arrivals: f64,
    replies_per_s: f64,
    timeouts: u64,
    /// 99.9% of the sessions were no later than this, in milliseconds.
    lateness_ms: f64,
    /// 99.9% of the gaps that an idle loop saw on that CPU, before and after, in milliseconds.
    idle_ms: f64,
    valid: bool,
    invalid: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let common = &options.lab.common;
    let results = common.measure(|environment| {
        let capacity = options.held as usize + 1_000;
        overload(options, &Environment { capacity, wrapper: Vec::new(), ..*environment })
    })?;
    common.report("overload", &results, &markdown(&results))
}

fn overload(options: &Options, environment: &Environment<'_>) -> Result<Overload> {
    let (sluicelab, cpu) = (options.lab.executable()?, options.lab.client_cpu);
    let ours = options.lab.common.lineup.ours()?;
    eprintln!("holding {} connections", options.held);
    // Each asks again as soon as it is answered, and none has come to its last request when the run ends.
    let server = servers::start(&ours, environment)?;
    let load = |options: &[String]| generator::run(&sluicelab, cpu, options);
    let held = load(&[
        format!("--target={}", server.url("/1k.html")),
        format!("--connections={}", options.held),
        "--requests-per-connection=100000".to_owned(),
        "--duration=6s".to_owned(),
    ]);
    server.stop()?;
    let held = held?;
    let count = |path: &str| held.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let held = count("/sessions/unfinished").min(count("/connections/connected"));

    // The server shares its CPU with others, so that it can be asked for more than it can do.
    let idle_before = idle_gap(cpu)?;
    eprintln!("overloading at {} requests/s", options.rate);
    let server = servers::start(&NGINX, environment)?;
    let spinners = spinner::start(environment.cpu, 7)?;
    let results = load(&[
        format!("--target={}", server.url("/10k.html")),
        format!("--rate={}", options.rate),
        format!("--duration={}s", options.seconds),
        "--timeout=500ms".to_owned(),
        "--source=127.0.0.2-127.0.0.33".to_owned(),
        // Or a woken thread waits for the others of its core until the next tick.
        "--realtime".to_owned(),
    ]);
    drop(spinners);
    server.stop()?;
    let results = results?;
    let idle_after = idle_gap(cpu)?;
    let number =
        |path: &str| results.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path}"));
    let due = number("/run/outcome/due_sessions")?;
    let invalid = results["invalid"].as_array().into_iter().flatten();
    Ok(Overload {
        held,
        asked_per_s: number("/run/asked_requests_per_s")?,
        arrived_per_s: number("/sessions/arrived_per_s")?,
        arrivals: number("/sessions/arrived")? / due,
        replies_per_s: number("/replies/per_s")?,
        timeouts: number("/calls/timeouts")? as u64,
        lateness_ms: number("/lateness_ms/p999")?,
        idle_ms: idle_before.max(idle_after),
        valid: results["valid"] == true,
        invalid: invalid.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

/// The gap between two looks at the clock that 99.9% of the *time* does not exceed: how late somebody is who
/// comes at a random moment, on a CPU where nobody else wants anything.
fn idle_gap(cpu: usize) -> Result<f64> {
    let spin = std::thread::spawn(move || -> std::io::Result<Vec<Duration>> {
        sys::process::pin_to_cpus(&[cpu])?;
        let began = Instant::now();
        let (mut gaps, mut before) = (Vec::new(), began);
        while before.duration_since(began) < Duration::from_secs(2) {
            let now = Instant::now();
            let gap = now.duration_since(before);
            if gap > Duration::from_micros(5) {
                gaps.push(gap);
            }
            before = now;
        }
        Ok(gaps)
    });
    let mut gaps = spin.join().map_err(|_| anyhow::anyhow!("the idle loop panicked"))??;
    gaps.sort_unstable();
    // From the longest down, until they make up a thousandth of the time.
    let mut left = Duration::from_millis(2);
    for gap in gaps.iter().rev() {
        left = left.saturating_sub(*gap);
        if left.is_zero() {
            return Ok(gap.as_secs_f64() * 1e3);
        }
    }
    Ok(0.005)
}

fn markdown(of: &Overload) -> String {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let rows = vec![
        row("connections held at once", of.held.to_string()),
        row("requests asked for, per second", format!("{:.0}", of.asked_per_s)),
        row("sessions arrived, per second", format!("{:.0}", of.arrived_per_s)),
        row("arrived / due", format!("{:.4}", of.arrivals)),
        row("replies, per second", format!("{:.0}", of.replies_per_s)),
        row("timeouts", of.timeouts.to_string()),
        row("lateness, 99.9%, ms", format!("{:.3}", of.lateness_ms)),
        row("an idle loop's gap, 99.9% of the time, ms", format!("{:.3}", of.idle_ms)),
        row("valid", if of.valid { "yes".to_owned() } else { of.invalid.join("; ") }),
    ];
    table::markdown(&["overload", ""], rows)
}
