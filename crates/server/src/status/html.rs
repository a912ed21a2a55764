//! A snapshot as a page for browsers: problems first, then the listeners, the pools of applications, and
//! the workers' counters. A counter that is zero everywhere has no row, so the page shows only what the
//! running architecture uses.

use askama::Template;
use results::status::{Counts, Snapshot};

use super::text::{bytes, duration, time};
use crate::counters::{Kind, METRICS, Metric, POOL_METRICS, PoolCounters};
use crate::dates::date;
use crate::tls::FEW_DAYS;

/// The data that the template renders.
#[derive(Debug, Template)]
#[template(path = "status.html")]
struct Page<'a> {
    snapshot: &'a Snapshot,
    up: String,
    wrong: Vec<String>,
    listeners: Vec<[String; 5]>,
    certificates: Vec<[String; 3]>,
    /// The name of each pool, and its rows with one cell each.
    pools: Vec<(&'a str, Vec<Row>)>,
    workers: Vec<Row>,
}

/// A value of the server, of a pool, or of each worker.
#[derive(Debug)]
struct Row {
    name: String,
    help: &'static str,
    cells: Vec<String>,
}

/// Renders a snapshot as a page.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let up = duration(snapshot.time_unix_ms.saturating_sub(snapshot.started_unix_ms) / 1000);
    let page = Page {
        snapshot,
        up,
        wrong: wrong(snapshot),
        listeners: listeners(snapshot),
        certificates: certificates(snapshot),
        pools: pools(snapshot),
        workers: workers(snapshot),
    };
    page.render().unwrap_or_else(|error| format!("the page cannot be written: {error}"))
}

/// The problems that an operator must know now, as sentences.
fn wrong(snapshot: &Snapshot) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, worker) in snapshot.workers.iter().enumerate() {
        if worker.pid == 0 {
            wrong.push(format!("Worker {number} has no process. The supervisor starts it again."));
        } else if !worker.responsive {
            wrong.push(format!(
                "Worker {number} (process {}) did not answer within 100 ms. It may be waiting for a disk.",
                worker.pid
            ));
        }
    }
    for listener in &snapshot.listeners {
        let address = &listener.address;
        if let Some(rate) = listener.drops_per_second.filter(|rate| *rate > 0.0) {
            wrong.push(format!("The kernel drops {rate:.1} packets/s at {address}."));
        }
        if let (Some(length), Some(limit)) = (listener.accept_queue_length, listener.accept_queue_limit)
            && limit > 0
            && length >= limit
        {
            wrong.push(format!("The accept queue of {address} is full: {length} connections wait."));
        }
    }
    for certificate in snapshot.certificates.iter().filter(|certificate| certificate.days_left < FEW_DAYS) {
        let (name, days) = (&certificate.name, certificate.days_left);
        wrong.push(if days < 0 {
            format!("The certificate {name} has expired: clients refuse it.")
        } else {
            format!("The certificate {name} expires in {days} days.")
        });
    }
    let restarts = snapshot.total.restarts;
    if restarts > 0 {
        let (times, what) = if restarts == 1 { ("once", "A worker") } else { ("several times", "Workers") };
        wrong.push(format!("{what} died and was started again {times} ({restarts}). See the error log."));
    }
    wrong
}

fn listeners(snapshot: &Snapshot) -> Vec<[String; 5]> {
    let cell = |value: Option<u64>| value.map_or("–".to_owned(), |value| value.to_string());
    let of = |listener: &results::status::Listener| {
        [
            listener.address.clone(),
            cell(listener.accept_queue_length),
            cell(listener.accept_queue_limit),
            cell(listener.drops),
            listener.drops_per_second.map_or("–".to_owned(), |rate| format!("{rate:.1}")),
        ]
    };
    snapshot.listeners.iter().map(of).collect()
}

fn certificates(snapshot: &Snapshot) -> Vec<[String; 3]> {
    let of = |certificate: &results::status::Certificate| {
        [certificate.name.clone(), date(certificate.valid_until_unix_s), certificate.days_left.to_string()]
    };
    snapshot.certificates.iter().map(of).collect()
}

fn pools(snapshot: &Snapshot) -> Vec<(&str, Vec<Row>)> {
    let rows = |counts| {
        let told = POOL_METRICS.iter().filter(|metric| !matches!(metric.kind, Kind::Histogram { .. }));
        let row = |metric: &Metric<PoolCounters>| {
            let value: u64 = metric.told(counts).iter().sum();
            let cell = if metric.name.ends_with("_us") { time(1000 * value) } else { value.to_string() };
            (value > 0).then(|| Row { name: in_words(metric.name), help: metric.help, cells: vec![cell] })
        };
        told.filter_map(row).collect()
    };
    snapshot.pools.iter().map(|pool| (pool.name.as_str(), rows(&pool.counts))).collect()
}

/// The total, followed by each worker if there are several.
fn workers(snapshot: &Snapshot) -> Vec<Row> {
    let mut columns: Vec<&Counts> = vec![&snapshot.total];
    if snapshot.workers.len() > 1 {
        columns.extend(snapshot.workers.iter().map(|worker| &worker.counts));
    }
    let mut rows = Vec::new();
    for metric in METRICS.iter().filter(|metric| !matches!(metric.kind, Kind::Histogram { .. })) {
        let amount = |value: u64| match metric.name {
            name if name.ends_with("_ns") => time(value),
            name if name.ends_with("_us") => time(1000 * value),
            name if name.ends_with("_bytes") || name.starts_with("bytes_") => bytes(value),
            _ => value.to_string(),
        };
        let values =
            |of: &dyn Fn(&Counts) -> u64| columns.iter().map(|counts| of(counts)).collect::<Vec<_>>();
        let mut push = |name: String, help, values: Vec<u64>| {
            if values.iter().any(|value| *value > 0) {
                rows.push(Row { name, help, cells: values.into_iter().map(amount).collect() });
            }
        };
        push(in_words(metric.name), metric.help, values(&|counts| metric.told(counts).iter().sum()));
        for (which, name) in metric.labels.iter().flat_map(|labels| labels.names.iter().enumerate()) {
            push(format!("· {name}"), "", values(&|counts| metric.told(counts)[which]));
        }
    }
    rows
}

/// The name as operators read it: `bytes_sent` becomes two words.
fn in_words(name: &str) -> String {
    let name = name.trim_end_matches("_ns").trim_end_matches("_us").trim_end_matches("_bytes");
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::sample;

    #[test]
    fn what_is_wrong_comes_first() {
        let page = render(&sample());
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not in {page}"));
        let hangs = at("Worker 1 (process 4713) did not answer within 100 ms");
        let drops = at("The kernel drops 2.5 packets/s at http://127.0.0.1:80/");
        assert!(hangs < drops && drops < at("<h2>Listeners</h2>"));
        at("<h2>Pool php</h2>");
        at("· 2xx");
        // Values that are not used have no row.
        for absent in ["stage queue", "helper jobs", "· 5xx"] {
            assert!(!page.contains(absent), "{absent} in {page}");
        }
    }

    #[test]
    fn a_calm_server_says_so() {
        let mut calm = sample();
        calm.workers.truncate(1);
        calm.certificates[0].days_left = 60;
        for listener in &mut calm.listeners {
            listener.drops_per_second = Some(0.0);
        }
        let page = render(&calm);
        assert!(page.contains("Nothing is wrong."), "{page}");
        for bad in ["http-equiv=\"refresh\"", "<script", " src="] {
            assert!(!page.contains(bad), "{bad}");
        }
    }
}
