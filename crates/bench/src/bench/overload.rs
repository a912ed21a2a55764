//! Does `sluicelab load` overload? It holds many connections at once, and goes on asking at the rate it was
//! told while the server answers a part; and how late it is, beside a loop that does nothing but look at the
//! clock on the same CPU, which `sluicelab doctor` has.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use results::load::Results;
use serde::Serialize;
use serde_json::Value;

use crate::measurement::Lab;
use crate::servers::{self, Environment, spec};
use lab::measuring::generator;
use lab::programs::child::{on_cpus, output};
use lab::programs::spinner;
use lab::table;

/// How it is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    lab: Lab,
    /// The CPU that load generators run on
    #[arg(long, default_value_t = 1)]
    client_cpu: usize,
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
    /// How late an idle loop was on the generator's CPU, before and after.
    idle: [String; 2],
    /// What the generator says of the overload, see docs/lab-results.md.
    results: Results,
}

/// What is told of the generator's results: its name, what it is, and with how many digits.
fn figures(of: &Results) -> [(&'static str, f64, usize); 7] {
    [
        ("requests asked for, per second", of.run.asked_requests_per_s.unwrap_or(0.0), 0),
        ("sessions due", of.run.outcome.due_sessions.unwrap_or(0) as f64, 0),
        ("sessions arrived", of.sessions.arrived as f64, 0),
        ("sessions arrived, per second", of.sessions.arrived_per_s, 0),
        ("replies, per second", of.replies.per_s, 0),
        ("timeouts", of.calls.timeouts as f64, 0),
        ("lateness, 99.9%, ms", of.lateness_ms.map_or(0.0, |times| times.p999), 3),
    ]
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let common = &options.lab.common;
    let of = common.measure(|environment| {
        let capacity = options.held as usize + 1_000;
        overload(options, Environment { capacity, ..environment })
    })?;
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![row("connections held at once", of.held.to_string())];
    for (name, figure, digits) in figures(&of.results) {
        rows.push(row(name, format!("{figure:.digits$}")));
    }
    rows.extend(of.idle.iter().map(|told| row("an idle CPU, before and after", told.clone())));
    let Results { valid, invalid, .. } = &of.results;
    rows.push(row("valid", if *valid { "yes".to_owned() } else { invalid.join("; ") }));
    common.report("overload", &of, &table::markdown(&["overload", ""], rows))
}

fn overload(options: &Options, environment: Environment<'_>) -> Result<Overload> {
    let (sluicelab, cpu) = (options.lab.executable()?, options.client_cpu);
    eprintln!("holding {} connections", options.held);
    // Each asks again as soon as it is answered, and none has come to its last request when the run ends.
    let server = servers::start(&spec("sluice")?, environment)?;
    let load = |options: &[String]| generator::run(&sluicelab, cpu, options);
    let results = load(&[
        format!("--target={}", server.url("/1k.html")),
        format!("--connections={}", options.held),
        "--requests-per-connection=100000".to_owned(),
        "--duration=6s".to_owned(),
    ])?;
    server.stop()?;
    let held = results.sessions.unfinished.min(results.connections.connected);

    // The server shares its CPU with others, so that it can be asked for more than it can do.
    let idle_before = idle(&sluicelab, cpu)?;
    eprintln!("overloading at {} requests/s", options.rate);
    let server = servers::start(&spec("nginx")?, environment)?;
    let spinners = spinner::start(environment.cpu, 7)?;
    let results = load(&[
        format!("--target={}", server.url("/10k.html")),
        format!("--rate={}", options.rate),
        format!("--duration={}s", options.seconds),
        "--timeout=500ms".to_owned(),
        "--source=127.0.0.2-127.0.0.33".to_owned(),
        // Or a woken thread waits for the others of its core until the next tick.
        "--realtime".to_owned(),
    ])?;
    drop(spinners);
    server.stop()?;
    Ok(Overload { held, idle: [idle_before, idle(&sluicelab, cpu)?], results })
}

/// How late somebody is on that CPU who only looks at the clock, as the lab's doctor has it.
fn idle(sluicelab: &Path, cpu: usize) -> Result<String> {
    let told = output(on_cpus(&[cpu]).arg(sluicelab).args(["doctor", "--json"]), "")?;
    let told: Value = serde_json::from_str(&told)?;
    let mut findings = told["findings"].as_array().into_iter().flatten();
    let lateness =
        findings.find(|finding| finding["name"] == "lateness").context("doctor tells no lateness")?;
    Ok(lateness["found"].as_str().unwrap_or_default().to_owned())
}
