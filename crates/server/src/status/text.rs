//! A snapshot as text: a few lines about the server, its listeners and the kernel, then the pools of
//! applications, and a column for each worker.
//!
//! Rows of zeros are omitted, except those that operators look for. With an earlier snapshot, rates per
//! second are shown as well.

use std::fmt::Write as _;

use results::status::{Counts, Pool, Snapshot};

use super::system::{Group, SYSTEM};
use crate::counters::{Kind, METRICS, POOL_METRICS};
use crate::dates::date;

/// Renders a snapshot. `earlier` is an earlier snapshot of the same server.
pub fn render(snapshot: &Snapshot, earlier: Option<&Snapshot>) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = write_all(&mut text, snapshot, earlier);
    text
}

/// The width of a column of numbers.
const COLUMN: usize = 14;
/// The width of the names before the columns.
const NAMES: usize = 36;

fn write_all(text: &mut String, snapshot: &Snapshot, earlier: Option<&Snapshot>) -> std::fmt::Result {
    let up = duration(snapshot.time_unix_ms.saturating_sub(snapshot.started_unix_ms) / 1000);
    let Snapshot { version, architecture, pid, .. } = snapshot;
    writeln!(text, "sluice {version}, {architecture}, pid {pid}, up {up}")?;
    for group in Group::ALL {
        writeln!(text)?;
        match group {
            Group::Process => row(text, group.name(), &[])?,
            Group::Kernel => row(text, group.name(), &["total".into(), "per second".into()])?,
        }
        for metric in SYSTEM.iter().filter(|metric| metric.group() == group) {
            let Some(value) = metric.value(snapshot) else { continue };
            let value = if metric.name.ends_with("_bytes") { bytes(value) } else { value.to_string() };
            let rate = metric.rate(snapshot).map(|rate| format!("{rate:.1}"));
            row(text, metric.name, &[value].into_iter().chain(rate).collect::<Vec<_>>())?;
        }
    }
    writeln!(text)?;
    row(text, "listeners", &["queue", "limit", "drops", "per second"].map(str::to_owned))?;
    for listener in &snapshot.listeners {
        let cell = |value: Option<u64>| value.map_or("-".into(), |value| value.to_string());
        let cells = [
            cell(listener.accept_queue_length),
            cell(listener.accept_queue_limit),
            cell(listener.drops),
            listener.drops_per_second.map_or("-".into(), |rate| format!("{rate:.1}")),
        ];
        row(text, &listener.address, &cells)?;
    }
    if !snapshot.certificates.is_empty() {
        writeln!(text)?;
        row(text, "certificates", &["days left", "until"].map(str::to_owned))?;
    }
    for certificate in &snapshot.certificates {
        let cells = [certificate.days_left.to_string(), date(certificate.valid_until_unix_s)];
        row(text, &certificate.name, &cells)?;
    }
    writeln!(
        text,
        "\nThese rates are over the last {:.1} s.",
        snapshot.kernel_per_second.over_ms as f64 / 1000.0
    )?;
    writeln!(text)?;
    write_pools(text, &snapshot.pools)?;
    write_workers(text, snapshot, earlier)?;
    for (number, _) in snapshot.workers.iter().enumerate().filter(|(_, worker)| !worker.responsive) {
        writeln!(text, "\nworker {number} did not answer within 100 ms; its connections by state are old")?;
    }
    Ok(())
}

/// Pools are written one below the other, because their names may be long. Times are means here.
fn write_pools(text: &mut String, pools: &[Pool]) -> std::fmt::Result {
    for Pool { name, counts } in pools {
        row(text, "pool", std::slice::from_ref(name))?;
        for metric in POOL_METRICS {
            let value: u64 = metric.told(counts).iter().sum();
            let cell = match metric.kind {
                Kind::Histogram { sum } => {
                    let sum = POOL_METRICS.iter().find(|metric| metric.name == sum);
                    let sum_us = sum.map_or(0, |sum| sum.told(counts)[0]);
                    format!("{:.1} mean", sum_us as f64 / value.max(1) as f64 / 1000.0)
                }
                _ if metric.name.ends_with("_us") => time(1000 * value),
                _ => value.to_string(),
            };
            row(text, metric.name, &[cell])?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn write_workers(text: &mut String, snapshot: &Snapshot, earlier: Option<&Snapshot>) -> std::fmt::Result {
    let total = &snapshot.total;
    let rates = earlier.map(|earlier| {
        let seconds = snapshot.time_unix_ms.saturating_sub(earlier.time_unix_ms).max(1) as f64 / 1000.0;
        (&earlier.total, seconds)
    });
    // A single worker is the same as the total.
    let workers: Vec<&Counts> = match snapshot.workers.as_slice() {
        [_] => Vec::new(),
        workers => workers.iter().map(|worker| &worker.counts).collect(),
    };
    let mut heads = vec!["total".to_owned()];
    heads.extend(rates.iter().map(|_| "per second".to_owned()));
    heads.extend((0..workers.len()).map(|number| format!("worker {number}")));
    row(text, "workers", &heads)?;
    if !workers.is_empty() {
        let mut cells = vec![String::new(); heads.len() - workers.len()];
        cells.extend(snapshot.workers.iter().map(|worker| worker.pid.to_string()));
        row(text, "pid", &cells)?;
    }

    let up = snapshot.time_unix_ms.saturating_sub(snapshot.started_unix_ms) as f64 / 1000.0;
    let columns = || {
        let lately = rates.iter().map(|(earlier, seconds)| (total, Some(*earlier), *seconds));
        [(total, None, up)].into_iter().chain(lately).chain(workers.iter().map(|&worker| (worker, None, up)))
    };
    for (name, of) in EQUATION_1 {
        let cells: Vec<_> = columns().map(|(now, earlier, seconds)| of(now, earlier, seconds)).collect();
        row(text, name, &cells)?;
    }
    for metric in METRICS {
        let cells = |value: &dyn Fn(&Counts) -> u64| {
            let is_time = metric.name.ends_with("_ns");
            let amount = |value: u64| if is_time { time(value) } else { value.to_string() };
            let mut cells = vec![amount(value(total))];
            cells.extend(rates.iter().map(|(earlier, seconds)| match metric.kind {
                Kind::Counter | Kind::Histogram { .. } => {
                    let rate = value(total).saturating_sub(value(earlier)) as f64 / seconds;
                    if is_time { format!("{:.1} %", rate / 1e7) } else { format!("{rate:.0}") }
                }
                Kind::Gauge | Kind::Level | Kind::Peak => String::new(),
            }));
            cells.extend(workers.iter().map(|counts| amount(value(counts))));
            cells
        };
        row(text, metric.name, &cells(&|counts| metric.told(counts).iter().sum()))?;
        if let Some(labels) = metric.labels {
            let names = labels.names.iter().enumerate();
            for (which, name) in names.filter(|(which, _)| metric.told(total)[*which] > 0) {
                let is_histogram = matches!(metric.kind, Kind::Histogram { .. });
                let name = if is_histogram { format!("  <= {name}") } else { format!("  {name}") };
                row(text, &name, &cells(&|counts| metric.told(counts)[which]))?;
            }
        }
    }
    Ok(())
}

/// A row of [`EQUATION_1`]: its name, and how to compute it from current values and optional earlier
/// ones, with the seconds between them.
type Factor = (&'static str, fn(&Counts, Option<&Counts>, f64) -> String);

/// The accept rate's two factors (Brecht et al. 2004, equation 1): accepts per second are accepts per accept
/// phase times accept phases per second.
const EQUATION_1: [Factor; 2] = [
    ("mean_accepts_per_phase", |now, earlier, _| match grown(|counts| counts.accept_phases, now, earlier) {
        0 => "-".to_owned(),
        phases => format!("{:.2}", grown(|counts| counts.accepts, now, earlier) as f64 / phases as f64),
    }),
    ("accept_phases_per_s", |now, earlier, seconds| {
        format!("{:.1}", grown(|counts| counts.accept_phases, now, earlier) as f64 / seconds.max(0.001))
    }),
];

/// How much a single counter has grown.
fn grown(value: fn(&Counts) -> u64, now: &Counts, earlier: Option<&Counts>) -> u64 {
    value(now).saturating_sub(earlier.map_or(0, value))
}

fn row(text: &mut String, name: &str, cells: &[String]) -> std::fmt::Result {
    write!(text, "{name:<NAMES$}")?;
    for cell in cells {
        write!(text, " {cell:>COLUMN$}")?;
    }
    text.truncate(text.trim_end_matches(' ').len());
    writeln!(text)
}

/// `3 d 4 h`, `4 h 5 min`, `5 min 6 s`, `6 s`
pub(super) fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

pub(super) fn time(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

pub(super) fn bytes(n: u64) -> String {
    match n {
        0..0x400 => format!("{n} B"),
        0x400..0x10_0000 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / f64::from(1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use results::status::LoopPhase;

    use super::*;
    use crate::status::tests::sample;

    fn has_row(text: &str, words: &[&str]) -> bool {
        text.lines().any(|line| line.split_ascii_whitespace().eq(words.iter().copied()))
    }

    #[test]
    fn people_find_what_they_look_for() {
        let text = render(&sample(), None);
        assert!(text.starts_with("sluice 1.2.3, sped, pid 4711, up 1 min 40 s\n"), "{text}");
        for row in [
            ["workers", "total", "worker", "0", "worker", "1"].as_slice(),
            &["pid", "4712", "4713"],
            &["accepts", "12", "12", "0"],
            &["mean_accepts_per_phase", "4.00", "4.00", "-"],
            &["accept_phases_per_s", "0.0", "0.0", "0.0"],
            &["phase_time_ns", "2.500", "s", "2.500", "s", "0.000", "s"],
            &["<=", "4", "1", "1", "0"],
            &["2xx", "2", "0", "2"],
            &["idle", "4", "4", "0"],
            &["kernel", "total", "per", "second"],
            &["listeners", "queue", "limit", "drops", "per", "second"],
            &["http://127.0.0.1:80/", "3", "511", "4", "2.5"],
            &["unix:/run/sluice", "-", "-", "-", "-"],
            &["listen_overflows", "9", "3.0"],
            &["tcp_syncookies", "0"],
            &["pool", "php"],
            &["queued", "3"],
            &["waits_ms", "2.8", "mean"],
            &["wait_us", "0.005", "s"],
        ] {
            assert!(has_row(&text, row), "{row:?}\n{text}");
        }
        assert!(!text.contains("5xx"), "{text}");
        assert!(text.ends_with("worker 1 did not answer within 100 ms; its connections by state are old\n"));
        assert!(text.lines().all(|line| !line.ends_with(' ')));
    }

    #[test]
    fn rates_come_from_two_snapshots() {
        let (earlier, mut later) = (sample(), sample());
        later.time_unix_ms += 2000;
        later.workers.truncate(1);
        let counts = &mut later.workers[0].counts;
        counts.accepts += 3000;
        counts.accept_phases += 600;
        counts.phase_time_ns.values_mut()[LoopPhase::Work as usize] += 1_500_000_000;
        later.total = later.workers[0].counts.clone();
        let text = render(&later, Some(&earlier));
        assert!(has_row(&text, &["workers", "total", "per", "second"]), "{text}");
        assert!(has_row(&text, &["accepts", "3012", "1500"]), "{text}");
        assert!(has_row(&text, &["connections", "4"]), "{text}");
        assert!(has_row(&text, &["mean_accepts_per_phase", "5.00", "5.00"]), "{text}");
        assert!(has_row(&text, &["accept_phases_per_s", "5.9", "300.0"]), "{text}");
        assert!(has_row(&text, &["work", "3.500", "s", "75.0", "%"]), "{text}");
    }

    #[test]
    fn durations_and_sizes_are_readable() {
        let texts = [0, 59, 60, 3600, 86_400, 1_000_000].map(duration);
        assert_eq!(texts, ["0 s", "59 s", "1 min 0 s", "1 h 0 min", "1 d 0 h", "11 d 13 h"]);
        assert_eq!(
            [0, 1023, 1024, 1 << 20, 3 << 30].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "3072.0 MiB"]
        );
    }
}
