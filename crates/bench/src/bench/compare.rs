//! The comparison: every server started once, then measured in short rounds that alternate between them.
//!
//! A virtual machine drifts by more than the differences that matter, so only what was measured next to each
//! other is compared: a round visits all servers for one case before it goes on to the next, each round in
//! another order, and the ratio to the ceiling is taken within the round; the table shows the median of the
//! ratios, not a ratio of medians.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use machine::Machine;
use machine::process::{cpu_time_ns, waited_children_cpu_ns};
use serde::Serialize;

use crate::lineup;
use crate::measurement::Common;
use crate::servers::{self, Environment};
use crate::site::{CASES, Case};
use crate::wrk::Wrk;
use lab::programs::launcher::{self, Server};
use lab::programs::spinner;
use lab::servers::spec::Spec;
use lab::statistics::Spread;
use lab::table;

/// How it is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Who is held against the ceilings, as `sluicelab compare` takes servers [default: ours, nginx and
    /// lighttpd, with each setting that may be their best in that case]
    #[arg(value_name = "SERVER")]
    servers: Vec<Spec>,
    #[command(flatten)]
    common: Common,
    /// How often each server is measured in each case
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    #[command(flatten)]
    wrk: Wrk,
    /// So many threads besides, on the servers' CPU, take all that they get of it
    #[arg(long, value_name = "N", default_value_t = 0)]
    spinners: usize,
    /// A ceiling more with these options, such as --workers=80 or --send-buffer=65536; can be given several
    /// times
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    ceiling: Vec<String>,
    /// Only the cases with these numbers (1: 1 KB, 2: 10 KB, 3: 100 KB, 4: 1 KB with a connection each)
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4",
          value_parser = clap::value_parser!(u8).range(1..=4))]
    cases: Vec<u8>,
}

/// A case, the servers that run for it, and what was measured of each; the ceilings come first.
#[derive(Debug, Serialize)]
struct Field {
    case: &'static Case,
    rows: Vec<Row>,
    #[serde(skip)]
    servers: Vec<Server>,
    #[serde(skip)]
    ceilings: usize,
}

/// One server in one case.
#[derive(Debug, Default, Serialize)]
struct Row {
    server: String,
    /// `None` where perf can't count here.
    system_calls_per_request: Option<f64>,
    /// One for each round.
    samples: Vec<Sample>,
    /// For each ceiling its name, and this server's CPU time per request as a multiple of the ceiling's in
    /// the same round.
    against_ceilings: Vec<(String, Spread)>,
}

/// One server, one case, one round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Sample {
    requests: u64,
    requests_per_second: f64,
    /// CPU time of all threads of the server's processes per request, in microseconds.
    cpu_us: f64,
    /// CPU time of wrk per request, in microseconds (in 10 ms steps over the whole run).
    client_cpu_us: f64,
    /// How much of the time the server's CPU was used by the server, in percent: below 100 wrk was the slower
    /// one.
    busy_percent: f64,
    /// How much of the time of all CPUs went to other virtual machines, in percent.
    steal_percent: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { common, rounds, wrk, spinners, .. } = options;
    let Wrk { connections, seconds, client_cpu } = wrk;
    ensure!(common.server_cpu != *client_cpu, "server and client need different CPUs");
    let results = common.measure(|environment| measure_all(options, environment))?;
    let how = format!(
        "{rounds} rounds of {seconds} s for each, {connections} connections, {spinners} spinners; medians \
         (quartiles), steal: maximum.\n\n"
    );
    let tables: String = results.iter().map(markdown).collect();
    common.report("cases", &results, &(how + &tables))
}

/// Starts all servers, counts system calls, and measures the rounds.
fn measure_all(options: &Options, environment: Environment<'_>) -> Result<Vec<Field>> {
    let cases = options.cases.iter().map(|number| &CASES[usize::from(*number) - 1]);
    let mut fields: Vec<Field> =
        cases.map(|case| start_all(options, case, environment)).collect::<Result<_>>()?;
    count_system_calls(options.wrk, environment, &mut fields)?;
    let _spinners = spinner::start(environment.cpu, options.spinners)?;
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        for place in order(fields.len(), round) {
            let Field { case, rows, servers, .. } = &mut fields[place];
            for who in order(rows.len(), round) {
                let (row, server) = (&mut rows[who], &servers[who]);
                let sample = measure(options.wrk, server, case);
                row.samples.push(sample.with_context(|| format!("{}, {}", row.server, case.name))?);
            }
        }
    }
    for Field { rows, servers, ceilings, .. } in &mut fields {
        servers.clear();
        compare_with_ceilings(rows, *ceilings);
    }
    Ok(fields)
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

fn start_all(options: &Options, case: &'static Case, environment: Environment<'_>) -> Result<Field> {
    let mut specs = lineup::ceilings(case, &options.ceiling)?;
    let ceilings = specs.len();
    specs.extend(if options.servers.is_empty() { lineup::usual(case)? } else { options.servers.clone() });
    eprintln!("starting {} servers for {}", specs.len(), case.name);
    let (mut rows, mut servers) = (Vec::new(), Vec::new());
    for spec in specs {
        servers.push(servers::start(&spec, environment)?);
        rows.push(Row { server: spec.name, ..Row::default() });
    }
    Ok(Field { case, rows, servers, ceilings })
}

/// A run of its own, since counting costs time; it warms the servers as well.
///
/// Spinners leave the server a quarter of its CPU: wrk, which is no faster than the servers, could not
/// saturate it otherwise, and a server that is waited for less than it waits asks for events more often than
/// one under load.
fn count_system_calls(wrk: Wrk, environment: Environment<'_>, fields: &mut [Field]) -> Result<()> {
    let perf_works = Command::new("perf")
        .args(["stat", "-e", "raw_syscalls:sys_enter", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !perf_works {
        eprintln!(
            "perf cannot count system calls here (Debian package linux-perf; root): that column is empty"
        );
    }
    let wrk = Wrk { seconds: 1, ..wrk };
    let _spinners = spinner::start(environment.cpu, 3)?;
    for Field { case, rows, servers, .. } in fields {
        eprintln!("counting system calls: {}", case.name);
        for (row, server) in rows.iter_mut().zip(&*servers) {
            let counted = if perf_works {
                system_calls_per_request(wrk, server, case, environment.scratch).map(Some)
            } else {
                wrk.run(&[], &server.url(case.target), case.close).map(|_| None)
            };
            row.system_calls_per_request =
                counted.with_context(|| format!("{}, {}", row.server, case.name))?;
        }
    }
    Ok(())
}

fn system_calls_per_request(wrk: Wrk, server: &Server, case: &Case, scratch: &Path) -> Result<f64> {
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

fn measure(wrk: Wrk, server: &Server, case: &Case) -> Result<Sample> {
    let pids = server.processes()?;
    let machine = Machine::this();
    let (ticks, client, start) =
        (machine.cpu_ticks(), waited_children_cpu_ns(std::process::id())?, Instant::now());
    let cpu = launcher::sum(&pids, cpu_time_ns)?;
    let counted = wrk.run(&[], &server.url(case.target), case.close)?;
    let cpu_ns = (launcher::sum(&pids, cpu_time_ns)? - cpu) as f64;
    let elapsed_ns = start.elapsed().as_nanos() as f64;
    let client_ns = (waited_children_cpu_ns(std::process::id())? - client) as f64;
    let ticks = machine.cpu_ticks().since(ticks);
    let requests = counted.requests as f64;
    Ok(Sample {
        requests: counted.requests,
        requests_per_second: counted.requests_per_second,
        cpu_us: cpu_ns / requests / 1e3,
        client_cpu_us: client_ns / requests / 1e3,
        busy_percent: 100.0 * cpu_ns / elapsed_ns,
        steal_percent: 100.0 * ticks.steal as f64 / ticks.all().max(1) as f64,
    })
}

/// Fills in the ratios to the first `ceilings` rows.
fn compare_with_ceilings(rows: &mut [Row], ceilings: usize) {
    let ceilings: Vec<(String, Vec<Sample>)> =
        rows[..ceilings].iter().map(|row| (row.server.clone(), row.samples.clone())).collect();
    for row in rows {
        let against = |(name, samples): &(String, Vec<Sample>)| {
            let pairs = row.samples.iter().zip(samples);
            Some((name.clone(), Spread::of(pairs.map(|(own, ceiling)| own.cpu_us / ceiling.cpu_us))?))
        };
        row.against_ceilings = ceilings.iter().filter_map(against).collect();
    }
}

/// The table of a case, in Markdown.
fn markdown(Field { case, rows, .. }: &Field) -> String {
    let ceilings = rows.iter().take(1).flat_map(|row| &row.against_ceilings);
    let ceilings: Vec<String> = ceilings.map(|(name, _)| format!("times {name}")).collect();
    let mut headings = vec!["server", "CPU per request, us"];
    headings.extend(ceilings.iter().map(String::as_str));
    headings.extend([
        "requests/s",
        "system calls per request",
        "server busy, %",
        "wrk CPU per request, us",
        "steal, %",
    ]);
    format!("### {}\n\n{}\n", case.name, table::markdown(&headings, rows.iter().map(cells)))
}

fn cells(row: &Row) -> Vec<String> {
    let told = |value: fn(&Sample) -> f64, tell: &dyn Fn(Spread) -> String| {
        Spread::of(row.samples.iter().map(value)).map_or_else(|| "-".to_owned(), tell)
    };
    let median = |digits: usize| move |spread: Spread| format!("{:.digits$}", spread.median);
    let mut cells = vec![row.server.clone(), told(|of| of.cpu_us, &|spread| spread.to_string())];
    cells.extend(row.against_ceilings.iter().map(|(_, spread)| spread.to_string()));
    cells.push(told(|of| of.requests_per_second, &median(0)));
    cells.push(row.system_calls_per_request.map_or_else(|| "-".to_owned(), |calls| format!("{calls:.2}")));
    cells.push(told(|of| of.busy_percent, &median(0)));
    cells.push(told(|of| of.client_cpu_us, &median(2)));
    cells.push(told(|of| of.steal_percent, &|spread| format!("{:.1}", spread.maximum)));
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
