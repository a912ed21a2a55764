//! The comparison: every server started once, then measured in short rounds that alternate between them.
//!
//! A virtual machine drifts by more than the differences that matter, so only what was measured next to each
//! other is compared: a round visits all servers for one case before it goes on to the next, each round in
//! another order, and the ratio to the ceiling is taken within the round; the table shows the median of the
//! ratios, not a ratio of medians.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use machine::Machine;
use machine::cpu::seconds;
use machine::process::{cpu_time_ns, waited_children_cpu_ns};
use serde::Serialize;

use crate::measurement::Common;
use crate::servers::{self, Environment};
use crate::site::{CASES, Case};
use crate::wrk::Wrk;
use lab::launcher::{self, Server};
use lab::spinner;
use lab::statistics::Spread;
use lab::table;

/// How it is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// How often each server is measured in each case
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Connections that wrk keeps busy
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// The CPU that wrk runs on
    #[arg(long, default_value_t = 1)]
    client_cpu: usize,
    /// So many threads besides, on the servers' CPU, take all that they get of it
    #[arg(long, value_name = "N", default_value_t = 0)]
    spinners: usize,
    /// Fixed send buffer of the ceiling's connections in bytes, or `unset`; several to compare them
    #[arg(long, value_name = "BYTES|unset", value_delimiter = ',', default_value = "unset",
          value_parser = send_buffer)]
    send_buffer: Vec<Option<usize>>,
    /// Only the cases with these numbers (1: 1 KB, 2: 10 KB, 3: 100 KB, 4: 1 KB with a connection each)
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4",
          value_parser = clap::value_parser!(u8).range(1..=4))]
    cases: Vec<u8>,
}

fn send_buffer(text: &str) -> Result<Option<usize>, String> {
    match text {
        "unset" => Ok(None),
        number => number.parse().map(Some).map_err(|_| "a number of bytes, or unset".to_owned()),
    }
}

/// Everything that was measured in one case.
#[derive(Debug, Serialize)]
pub(crate) struct CaseResult {
    case: Case,
    rows: Vec<Row>,
}

/// One server in one case.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) server: String,
    /// `None` where perf can't count here.
    pub(crate) system_calls_per_request: Option<f64>,
    /// One for each round.
    pub(crate) samples: Vec<Sample>,
    /// For each ceiling its name, and this server's CPU time per request as a multiple of the ceiling's in
    /// the same round.
    pub(crate) against_ceilings: Vec<(String, Spread)>,
}

/// One server, one case, one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) requests: u64,
    pub(crate) requests_per_second: f64,
    /// CPU time of all threads of the server's processes per request, in microseconds.
    pub(crate) cpu_us: f64,
    /// CPU time of wrk per request, in microseconds (in 10 ms steps over the whole run).
    pub(crate) client_cpu_us: f64,
    /// How much of the time the server's CPU was used by the server, in percent: below 100 wrk was the slower
    /// one.
    pub(crate) busy_percent: f64,
    /// How much of the time of all CPUs went to other virtual machines, in percent.
    pub(crate) steal_percent: f64,
}

/// A case with the servers that run for it; the ceilings come first.
struct Field {
    case: Case,
    contenders: Vec<(String, Server)>,
    ceilings: usize,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { common, rounds, seconds, connections, client_cpu, spinners, .. } = options;
    ensure!(common.server_cpu != *client_cpu, "server and client need different CPUs");
    let results = common.measure(|environment| measure_all(options, environment))?;
    let how = format!(
        "{rounds} rounds of {seconds} s for each, {connections} connections, {spinners} spinners; medians \
         (quartiles), steal: maximum.\n\n"
    );
    common.report("cases", &results, &(how + &markdown(&results)))
}

/// Starts all servers, counts system calls, and measures the rounds.
fn measure_all(options: &Options, environment: &Environment<'_>) -> Result<Vec<CaseResult>> {
    let wrk = Wrk {
        connections: options.connections,
        duration: Duration::from_secs(options.seconds),
        cpu: options.client_cpu,
    };
    let cases = options.cases.iter().map(|number| &CASES[usize::from(*number) - 1]);
    let fields: Vec<Field> =
        cases.map(|case| start_all(options, case, environment)).collect::<Result<_>>()?;
    let mut results = count_system_calls(&wrk, environment, &fields)?;
    let _spinners = spinner::start(environment.cpu, options.spinners)?;
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        for place in order(fields.len(), round) {
            let Field { case, contenders, .. } = &fields[place];
            for who in order(contenders.len(), round) {
                let (name, server) = &contenders[who];
                let sample = measure(&wrk, server, case).with_context(|| format!("{name}, {}", case.name))?;
                results[place].rows[who].samples.push(sample);
            }
        }
    }
    for (field, result) in fields.iter().zip(&mut results) {
        compare_with_ceilings(&mut result.rows, field.ceilings);
    }
    Ok(results)
}

/// A different order in each round: it starts elsewhere, and every other one runs backwards.
fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.rotate_left(round * (count / 2 + 1) % count.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn start_all(options: &Options, case: &Case, environment: &Environment<'_>) -> Result<Field> {
    let lineup = &options.common.lineup;
    let mut named = Vec::new();
    for send_buffer in &options.send_buffer {
        for (mut name, kind) in lineup.ceilings(case, *send_buffer)? {
            if options.send_buffer.len() > 1 {
                name += &send_buffer
                    .map_or_else(|| ", SO_SNDBUF unset".to_owned(), |n| format!(", SO_SNDBUF {n}"));
            }
            named.push((name, kind));
        }
    }
    let ceilings = named.len();
    named.extend(lineup.servers(case)?);
    eprintln!("starting {} servers for {}", named.len(), case.name);
    let contenders = named.into_iter().map(|(name, kind)| Ok((name, servers::start(&kind, environment)?)));
    Ok(Field { case: case.clone(), contenders: contenders.collect::<Result<_>>()?, ceilings })
}

/// A run of its own, since counting costs time; it warms the servers as well.
///
/// Spinners leave the server a quarter of its CPU: wrk, which is no faster than the servers, could not
/// saturate it otherwise, and a server that is waited for less than it waits asks for events more often than
/// one under load.
fn count_system_calls(wrk: &Wrk, environment: &Environment<'_>, fields: &[Field]) -> Result<Vec<CaseResult>> {
    let perf_works = Command::new("perf")
        .args(["stat", "-e", "raw_syscalls:sys_enter", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !perf_works {
        eprintln!(
            "perf cannot count raw_syscalls:sys_enter (Debian package linux-perf; root): no system calls in \
             the table"
        );
    }
    let wrk = Wrk { duration: Duration::from_secs(1), ..*wrk };
    let _spinners = spinner::start(environment.cpu, 3)?;
    let mut results = Vec::new();
    for Field { case, contenders, .. } in fields {
        eprintln!("counting system calls: {}", case.name);
        let mut rows = Vec::new();
        for (name, server) in contenders {
            let counted = if perf_works {
                system_calls_per_request(&wrk, server, case, environment.scratch).map(Some)
            } else {
                wrk.run(&[], &server.url(case.target), case.close).map(|_| None)
            };
            let system_calls_per_request = counted.with_context(|| format!("{name}, {}", case.name))?;
            let server = name.clone();
            rows.push(Row {
                server,
                system_calls_per_request,
                samples: Vec::new(),
                against_ceilings: Vec::new(),
            });
        }
        results.push(CaseResult { case: case.clone(), rows });
    }
    Ok(results)
}

fn system_calls_per_request(wrk: &Wrk, server: &Server, case: &Case, scratch: &Path) -> Result<f64> {
    let report = scratch.join("perf-stat");
    let pids: Vec<String> = server.processes()?.iter().map(u32::to_string).collect();
    let [file, pids] = [format!("--output={}", report.display()), format!("--pid={}", pids.join(","))];
    // perf counts what these processes do for as long as the command after `--` runs.
    let wrapper =
        ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", &file, &pids, "--"].map(str::to_owned);
    let counted = wrk.run(&wrapper, &server.url(case.target), case.close)?;
    let text = std::fs::read_to_string(&report)?;
    let calls =
        text.lines().find(|line| line.contains("raw_syscalls")).and_then(|line| line.split(',').next());
    let calls: f64 = calls.and_then(|word| word.parse().ok()).with_context(|| format!("perf said {text}"))?;
    Ok(calls / counted.requests as f64)
}

fn measure(wrk: &Wrk, server: &Server, case: &Case) -> Result<Sample> {
    let pids = server.processes()?;
    let machine = Machine::this();
    let cpus = std::thread::available_parallelism()?.get() as f64;
    let (before, client, start) =
        (machine.cpu_ticks(), waited_children_cpu_ns(std::process::id())?, Instant::now());
    let cpu = launcher::sum(&pids, cpu_time_ns)?;
    let counted = wrk.run(&[], &server.url(case.target), case.close)?;
    let cpu_ns = (launcher::sum(&pids, cpu_time_ns)? - cpu) as f64;
    let elapsed_ns = start.elapsed().as_nanos() as f64;
    let client_ns = (waited_children_cpu_ns(std::process::id())? - client) as f64;
    let steal_ns = seconds(machine.cpu_ticks().since(before).steal) * 1e9;
    let requests = counted.requests as f64;
    Ok(Sample {
        requests: counted.requests,
        requests_per_second: counted.requests_per_second,
        cpu_us: cpu_ns / requests / 1e3,
        client_cpu_us: client_ns / requests / 1e3,
        busy_percent: 100.0 * cpu_ns / elapsed_ns,
        steal_percent: 100.0 * steal_ns / (elapsed_ns * cpus),
    })
}

/// Fills in the ratios to the first `ceilings` rows.
fn compare_with_ceilings(rows: &mut [Row], ceilings: usize) {
    let ceilings: Vec<(String, Vec<Sample>)> =
        rows[..ceilings].iter().map(|row| (row.server.clone(), row.samples.clone())).collect();
    for row in rows {
        row.against_ceilings = ceilings
            .iter()
            .filter_map(|(name, samples)| {
                let ratios =
                    row.samples.iter().zip(samples).map(|(own, ceiling)| own.cpu_us / ceiling.cpu_us);
                Some((name.clone(), Spread::of(ratios)?))
            })
            .collect();
    }
}

/// The tables, in Markdown.
fn markdown(results: &[CaseResult]) -> String {
    let tables: Vec<String> = results
        .iter()
        .map(|result| format!("### {}\n\n{}\n", result.case.name, case_table(&result.rows)))
        .collect();
    tables.concat()
}

fn case_table(rows: &[Row]) -> String {
    let ceilings = rows.first().map_or_else(Vec::new, |row| {
        row.against_ceilings.iter().map(|(name, _)| format!("times {name}")).collect::<Vec<_>>()
    });
    let mut headings = vec!["server", "CPU per request, us"];
    headings.extend(ceilings.iter().map(String::as_str));
    headings.extend([
        "requests/s",
        "system calls per request",
        "server busy, %",
        "wrk CPU per request, us",
        "steal, %",
    ]);
    table::markdown(&headings, rows.iter().map(cells))
}

fn cells(row: &Row) -> Vec<String> {
    let number = |value: fn(&Sample) -> f64, digits: usize, of: fn(&Spread) -> f64| {
        Spread::of(row.samples.iter().map(value))
            .map_or_else(|| "-".to_owned(), |spread| format!("{:.digits$}", of(&spread)))
    };
    let median = |spread: &Spread| spread.median;
    let cpu = Spread::of(row.samples.iter().map(|sample| sample.cpu_us));
    let mut cells = vec![row.server.clone(), cpu.map_or_else(|| "-".to_owned(), |spread| spread.to_string())];
    cells.extend(row.against_ceilings.iter().map(|(_, spread)| spread.to_string()));
    cells.push(number(|sample| sample.requests_per_second, 0, median));
    cells.push(row.system_calls_per_request.map_or_else(|| "-".to_owned(), |calls| format!("{calls:.2}")));
    cells.push(number(|sample| sample.busy_percent, 0, median));
    cells.push(number(|sample| sample.client_cpu_us, 2, median));
    cells.push(number(|sample| sample.steal_percent, 1, |spread| spread.maximum));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_visits_everybody_once_in_another_order() {
        let rounds: Vec<Vec<usize>> = (0..4).map(|round| order(5, round)).collect();
        for round in &rounds {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert!(rounds.iter().enumerate().all(|(at, round)| !rounds[..at].contains(round)), "{rounds:?}");
        assert!(order(0, 3).is_empty());
    }
}
