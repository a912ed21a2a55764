//! A snapshot in the text formats that Prometheus scrapes. Both have the same names. Values are in base
//! units, as Prometheus expects: nanoseconds in JSON are seconds here.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use results::status::{Listener, Snapshot};

use super::exposition::Exposition;
use super::system::SYSTEM;
use crate::counters::{Block, HISTOGRAM_BOUNDS, Kind, METRICS, Metric, POOL_METRICS};

/// Which workers the rows are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All workers together, including former ones. The number of rows does not depend on the number of
    /// workers, and the rows continue when a reload replaces the workers.
    Totals,
    /// Each worker, by its number.
    Workers,
}

/// Renders a snapshot.
pub fn render(snapshot: Snapshot, exposition: Exposition, rows: Rows) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Shown { snapshot, rows }));
    let mut text = String::new();
    // Writing to a String cannot fail, and the collector's own calls fail only if their writer does.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    match exposition {
        Exposition::OpenMetrics => text,
        Exposition::Plain => plain(&text),
    }
}

/// Converts the newer format into the older one. In the older format, a metric's name includes the suffix
/// of its samples, and there is no type for values that never change.
fn plain(open_metrics: &str) -> String {
    let mut plain = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines().filter(|line| *line != "# EOF") {
        if let Some(described) = line.strip_prefix("# HELP ") {
            // The help line comes before the type line.
            help = described.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                _ => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                let _ = writeln!(plain, "# HELP {name}{suffix} {help}");
            }
            let _ = writeln!(plain, "# TYPE {name}{suffix} {kind}");
        } else {
            plain.push_str(line);
            plain.push('\n');
        }
    }
    plain
}

type Labels = Vec<(Cow<'static, str>, Cow<'static, str>)>;

/// The snapshot to render, and its rows.
#[derive(Debug)]
struct Shown {
    snapshot: Snapshot,
    rows: Rows,
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = &self.snapshot;
        let identity =
            labels([("version", snapshot.version.clone()), ("architecture", snapshot.architecture.clone())]);
        encoder.encode_descriptor("sluice", "The server", None, MetricType::Info)?.encode_info(&identity)?;
        let (name, help) =
            ("process_start_time_seconds", "When the server began to serve, since the Unix epoch");
        let started = snapshot.started_unix_ms as f64 / 1000.0;
        describe(&mut encoder, name, help, Kind::Gauge)?.encode_gauge(&started)?;
        for metric in SYSTEM {
            let Some(value) = metric.value(snapshot) else { continue };
            let name = format!("{}_{}", metric.group().prometheus_prefix(), metric.name);
            encode_number(&mut describe(&mut encoder, &name, metric.help, metric.kind)?, metric.kind, value)?;
        }
        self.encode_listeners(&mut encoder)?;
        self.encode_certificates(&mut encoder)?;
        self.encode_workers(&mut encoder)?;
        let pools = snapshot.pools.iter();
        let pools: Vec<_> = pools.map(|pool| (labels([("pool", pool.name.clone())]), &pool.counts)).collect();
        encode_table(&mut encoder, "sluice_pool", POOL_METRICS, &pools)
    }
}

impl Shown {
    fn encode_workers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Snapshot { workers, total, .. } = &self.snapshot;
        let responsive = workers.iter().filter(|worker| worker.responsive).count();
        for (name, help, number) in [
            ("sluice_workers", "Workers", workers.len()),
            ("sluice_workers_responsive", "Workers that answered within 100 ms", responsive),
        ] {
            describe(encoder, name, help, Kind::Gauge)?.encode_gauge(&(number as u64))?;
        }
        if self.rows == Rows::Totals {
            return encode_table(encoder, "sluice", METRICS, &[(Labels::new(), total)]);
        }
        let (name, help) = ("sluice_worker_responsive", "Whether the worker answered within 100 ms");
        let mut responsive = describe(encoder, name, help, Kind::Gauge)?;
        let mut rows = Vec::with_capacity(workers.len());
        for (number, worker) in workers.iter().enumerate() {
            let labels = labels([("worker", number.to_string())]);
            responsive.encode_family(&labels)?.encode_gauge(&u32::from(worker.responsive))?;
            rows.push((labels, &worker.counts));
        }
        encode_table(encoder, "sluice", METRICS, &rows)
    }

    fn encode_certificates(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.snapshot.certificates.is_empty() {
            return Ok(());
        }
        let name = "sluice_certificate_valid_until_seconds";
        let help = "Until when the certificate is valid, since the Unix epoch";
        let mut encoder = describe(encoder, name, help, Kind::Gauge)?;
        for certificate in &self.snapshot.certificates {
            let labels = labels([("certificate", certificate.name.clone())]);
            encoder.encode_family(&labels)?.encode_gauge(&certificate.valid_until_unix_s)?;
        }
        Ok(())
    }

    fn encode_listeners(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Find = fn(&Listener) -> Option<u64>;
        let of_queues: [(&str, &str, Kind, Find); 3] = [
            ("accept_queue_length", "Connections that wait to be accepted", Kind::Gauge, |l| {
                l.accept_queue_length
            }),
            ("accept_queue_limit", "Most connections that may wait to be accepted", Kind::Gauge, |l| {
                l.accept_queue_limit
            }),
            ("listener_drops", "Packets dropped at the socket, whatever the cause", Kind::Counter, |l| {
                l.drops
            }),
        ];
        for (name, help, kind, find) in of_queues {
            let name = format!("sluice_{name}");
            let mut encoder = describe(encoder, &name, help, kind)?;
            for listener in &self.snapshot.listeners {
                if let Some(value) = find(listener) {
                    let labels = labels([("listener", listener.address.clone())]);
                    encode_number(&mut encoder.encode_family(&labels)?, kind, value)?;
                }
            }
        }
        Ok(())
    }
}

/// The values of a table of metrics, for each of `all` with its labels. Writes nothing if `all` is empty.
fn encode_table<B: Block>(
    encoder: &mut DescriptorEncoder<'_>,
    prefix: &str,
    table: &[Metric<B>],
    all: &[(Labels, &B::Told)],
) -> fmt::Result {
    for metric in table.iter().filter(|_| !all.is_empty()) {
        let name = format!("{prefix}_{}", Unit::of(metric.name).name);
        let mut encoder = describe(encoder, &name, &in_seconds(metric.help), metric.kind)?;
        for (of_whom, counts) in all {
            let sum = |name: &str| {
                let sum = table.iter().find(|metric| metric.name == name);
                let sum = sum.map_or(0, |sum| sum.told(counts).iter().sum::<u64>());
                sum as f64 / Unit::of(name).per_base_unit
            };
            encode_metric(&mut encoder, metric, metric.told(counts), of_whom, sum)?;
        }
    }
    Ok(())
}

/// The values of one metric with these labels. `sum` returns the value of the counter with the given
/// name.
fn encode_metric<B: Block>(
    encoder: &mut MetricEncoder<'_>,
    metric: &Metric<B>,
    values: &[u64],
    of_whom: &Labels,
    sum: impl Fn(&str) -> f64,
) -> fmt::Result {
    let Unit { per_base_unit, .. } = Unit::of(metric.name);
    if let Kind::Histogram { sum: name } = metric.kind {
        let bounds =
            HISTOGRAM_BOUNDS.iter().map(|&bound| bound as f64 / per_base_unit).chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(values.iter().copied()).collect();
        let count = values.iter().sum();
        return labelled(encoder, of_whom, |encoder| {
            encoder.encode_histogram::<NoLabelSet>(sum(name), count, &buckets, None)
        });
    }
    for (which, &value) in values.iter().enumerate() {
        let mut labels = of_whom.clone();
        if let Some(by) = metric.labels {
            labels.push((by.label.into(), by.names[which].into()));
        }
        let in_base_units = value as f64 / per_base_unit;
        labelled(encoder, &labels, |encoder| match metric.kind {
            Kind::Counter if per_base_unit > 1.0 => {
                encoder.encode_counter::<NoLabelSet, f64, f64>(&in_base_units, None)
            }
            _ if per_base_unit > 1.0 => encoder.encode_gauge(&in_base_units),
            kind => encode_number(encoder, kind, value),
        })?;
    }
    Ok(())
}

/// Encodes a value with these labels. A total has no labels and no braces.
fn labelled(
    encoder: &mut MetricEncoder<'_>,
    labels: &Labels,
    encode: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if labels.is_empty() { encode(encoder) } else { encode(&mut encoder.encode_family(labels)?) }
}

/// The name of a metric in base units, and how many of the metric's units make one base unit.
struct Unit {
    name: String,
    per_base_unit: f64,
}

impl Unit {
    fn of(name: &str) -> Self {
        let units = [("_ns", 1e9), ("_us", 1e6), ("_ms", 1e3)];
        let named = units.iter().find_map(|(suffix, each)| Some((name.strip_suffix(suffix)?, *each)));
        match named {
            Some((stem, per_base_unit)) => Self { name: format!("{stem}_seconds"), per_base_unit },
            None => Self { name: name.to_owned(), per_base_unit: 1.0 },
        }
    }
}

fn in_seconds(help: &str) -> String {
    let help = help.replace("Nanoseconds", "Seconds").replace("Microseconds", "Seconds");
    help.replace("microseconds", "seconds").replace("milliseconds", "seconds")
}

fn encode_number(encoder: &mut MetricEncoder<'_>, kind: Kind, value: u64) -> fmt::Result {
    match kind {
        Kind::Counter => encoder.encode_counter::<NoLabelSet, u64, f64>(&value, None),
        Kind::Gauge | Kind::Level | Kind::Peak | Kind::Histogram { .. } => encoder.encode_gauge(&value),
    }
}

/// Writes the description of a metric.
fn describe<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
    kind: Kind,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    let kind = match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge | Kind::Level | Kind::Peak => MetricType::Gauge,
        Kind::Histogram { .. } => MetricType::Histogram,
    };
    encoder.encode_descriptor(name, help, None, kind)
}

fn labels<const N: usize>(pairs: [(&'static str, String); N]) -> Labels {
    pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use results::status::Worker;

    use super::*;
    use crate::counters::{ConnectionState, Counters, told};
    use crate::status::sum;
    use crate::status::tests::sample;

    #[test]
    fn names_follow_the_conventions() {
        let text = render(sample(), Exposition::OpenMetrics, Rows::Workers);
        for line in [
            "# TYPE sluice_accepts counter",
            "sluice_accepts_total{worker=\"0\"} 12",
            "sluice_info{version=\"1.2.3\",architecture=\"sped\"} 1",
            "sluice_replies_total{worker=\"1\",class=\"2xx\"} 2",
            "sluice_connections{worker=\"0\",state=\"idle\"} 4",
            "sluice_accepts_per_phase_bucket{le=\"4.0\",worker=\"0\"} 1",
            "sluice_accepts_per_phase_bucket{le=\"8.0\",worker=\"0\"} 3",
            "sluice_accepts_per_phase_bucket{le=\"+Inf\",worker=\"0\"} 3",
            "sluice_accepts_per_phase_sum{worker=\"0\"} 12.0",
            "sluice_accepts_per_phase_count{worker=\"0\"} 3",
            "sluice_accept_queue_lengths_bucket{le=\"4.0\",worker=\"0\"} 1",
            "sluice_accept_queue_lengths_sum{worker=\"0\"} 3.0",
            "sluice_accept_waits_seconds_sum{worker=\"0\"} 0.04",
            "sluice_phase_time_seconds_total{worker=\"0\",phase=\"work\"} 2.0",
            "sluice_accept_queue_length{listener=\"http://127.0.0.1:80/\"} 3",
            "sluice_listener_drops_total{listener=\"http://127.0.0.1:80/\"} 4",
            "sluice_kernel_listen_overflows_total 9",
            "sluice_worker_responsive{worker=\"1\"} 0",
            "sluice_pool_queued{pool=\"php\"} 3",
            "sluice_pool_expired_total{pool=\"php\"} 2",
            "sluice_pool_waits_seconds_bucket{le=\"0.008\",pool=\"php\"} 2",
            "sluice_pool_waits_seconds_sum{pool=\"php\"} 0.0055",
            "sluice_pool_wait_seconds_total{pool=\"php\"} 0.0055",
            "sluice_certificate_valid_until_seconds{certificate=\"/etc/chain.pem\"} 1800500000",
            "process_open_fds 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// Totals are sums where a sum has a meaning. Otherwise they are maxima. The number of workers does
    /// not matter.
    #[test]
    fn totals_have_as_many_lines_however_many_workers_there_are() {
        let mut snapshot = sample();
        let (first, second, past) = (Counters::default(), Counters::default(), Counters::default());
        for (block, value) in [(&first, 3), (&second, 4), (&past, 5)] {
            block.accepts.add(value);
            block.phase_time_ns[0].add(value * 1_000_000_000);
            (0..value).for_each(|_| block.accept_wait_seen(value));
        }
        for (block, value) in [(&first, 3), (&second, 4)] {
            block.connections[ConnectionState::Idle as usize].set(value);
            block.accept_limit.set(value);
            block.accepts_per_phase_max.set(value);
            block.disk_delay_us.set(value * 1_000_000);
        }
        let worker = |block: &Counters| Worker { pid: 1, counts: told(METRICS, block), ..Worker::default() };
        snapshot.workers = vec![worker(&first), worker(&second)];
        snapshot.past = told(METRICS, &past);
        snapshot.total = sum([&snapshot.workers[0].counts, &snapshot.workers[1].counts, &snapshot.past]);
        let lines =
            |snapshot: &Snapshot, rows| render(snapshot.clone(), Exposition::Plain, rows).lines().count();
        let two = render(snapshot.clone(), Exposition::Plain, Rows::Totals);
        for line in [
            "sluice_workers 2",
            "sluice_workers_responsive 2",
            "sluice_accepts_total 12",
            "sluice_phase_time_seconds_total{phase=\"get_events\"} 12.0",
            "sluice_accept_waits_seconds_bucket{le=\"0.004\"} 7",
            "sluice_accept_waits_seconds_bucket{le=\"+Inf\"} 12",
            "sluice_accept_waits_seconds_count 12",
            "sluice_accept_waits_seconds_sum 0.05",
            "sluice_connections{state=\"idle\"} 7",
            "sluice_accept_limit 4",
            "sluice_accepts_per_phase_max 4",
            "sluice_disk_delay_seconds 4.0",
        ] {
            assert!(two.lines().any(|l| l == line), "{line}\n{two}");
        }
        assert!(!two.contains("worker="), "{two}");
        let few = (lines(&snapshot, Rows::Totals), lines(&snapshot, Rows::Workers));
        snapshot.workers.extend((0..62).map(|_| worker(&first)));
        let many = (lines(&snapshot, Rows::Totals), lines(&snapshot, Rows::Workers));
        assert_eq!(few.0, many.0);
        assert!(many.1 > 20 * few.0 && few.1 < 2 * few.0, "{few:?} {many:?}");
    }

    #[test]
    fn the_older_format_describes_samples_by_their_names() {
        let text = render(sample(), Exposition::Plain, Rows::Workers);
        for line in [
            "# HELP sluice_accepts_total Connections accepted",
            "# TYPE sluice_accepts_total counter",
            "sluice_accepts_total{worker=\"0\"} 12",
            "# TYPE sluice_info gauge",
            "sluice_info{version=\"1.2.3\",architecture=\"sped\"} 1",
            "# HELP sluice_phase_time_seconds_total Seconds spent in the phases of the event loop",
            "# TYPE sluice_accept_waits_seconds histogram",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
    }

    /// Checks for names that `promtool check metrics` warns about.
    #[test]
    fn names_have_no_abbreviated_units() {
        let text = render(sample(), Exposition::Plain, Rows::Workers);
        let mut described = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let abbreviated =
            |name: &str| name.split('_').any(|word| ["ns", "us", "ms", "s", "kb"].contains(&word));
        assert_eq!(described.find(|typed| abbreviated(typed.split(' ').next().unwrap_or_default())), None);
        let helped = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
        let other = ["anosecond", "icrosecond", "illisecond"];
        let mut helped = helped.filter(|help| !help.starts_with("sluice_worker"));
        assert_eq!(helped.find(|help| other.iter().any(|unit| help.contains(unit))), None);
    }
}
