//! A snapshot as JSON, and back again for `sluice status`. The schema is in docs/status.md; names may be
//! added to it, and a reader ignores those it does not know, so that clients and servers of different
//! versions understand each other.

use serde_json::{Map, Value, json};

use super::rates::Rates;
use super::snapshot::{ListenerSnapshot, Numbers, PoolSnapshot, Snapshot, WorkerSnapshot};
use super::system::{Group, SYSTEM};
use crate::counters::{METRICS, Metric, POOL_METRICS, Values};

/// The version of the schema: changes when something is removed or comes to mean something else.
const SCHEMA: u64 = 1;

/// The answer was not a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not JSON at all.
    #[error("the status is not JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// JSON of something else.
    #[error("the status has no {0}")]
    Missing(&'static str),
    /// From another generation of the program.
    #[error("the status has schema {0}, this program reads {SCHEMA}")]
    Schema(u64),
}

/// Renders a snapshot as one JSON object, indented.
pub fn render(snapshot: &Snapshot) -> String {
    let workers = snapshot.workers.iter().enumerate().map(|(number, worker)| {
        let mut object = numbers_to_json(METRICS, &worker.numbers);
        object.insert("worker".into(), number.into());
        object.insert("pid".into(), worker.pid.into());
        object.insert("responsive".into(), worker.responsive.into());
        Value::Object(object)
    });
    let pools = snapshot.pools.iter().map(|pool| {
        let mut object = numbers_to_json(POOL_METRICS, &pool.numbers);
        object.insert("name".into(), pool.name.clone().into());
        Value::Object(object)
    });
    let rates = &snapshot.rates;
    let listeners = snapshot.listeners.iter().enumerate().map(|(place, listener)| {
        json!({
            "address": listener.address,
            "accept_queue_length": listener.accept_queue_length,
            "accept_queue_limit": listener.accept_queue_limit,
            "drops": listener.drops,
            "drops_per_second": rates.listeners.get(place).copied().flatten(),
        })
    });
    let mut object = json!({
        "schema": SCHEMA,
        "time_unix_ms": snapshot.time_unix_ms,
        "version": snapshot.version,
        "architecture": snapshot.architecture,
        "pid": snapshot.pid,
        "started_unix_ms": snapshot.started_unix_ms,
        "listeners": listeners.collect::<Vec<_>>(),
        "total": numbers_to_json(METRICS, &snapshot.total()),
        "past": numbers_to_json(METRICS, &snapshot.past),
        "workers": workers.collect::<Vec<_>>(),
        "pools": pools.collect::<Vec<_>>(),
    });
    for group in Group::ALL {
        let values = SYSTEM.iter().zip(&snapshot.system).filter(|(metric, _)| metric.group == group);
        let values: Map<_, _> =
            values.map(|(metric, &value)| (metric.name.to_owned(), value.into())).collect();
        object[group.name()] = values.into();
    }
    let growing = SYSTEM.iter().zip(&rates.system).filter_map(|(metric, rate)| Some((metric, (*rate)?)));
    let mut kernel_rates: Map<_, _> =
        growing.map(|(metric, rate)| (metric.name.to_owned(), rate.into())).collect();
    kernel_rates.insert("over_ms".into(), rates.over_ms.into());
    object["kernel_per_second"] = kernel_rates.into();
    format!("{object:#}\n")
}

/// Reads what [`render`] wrote, of this or another version of the program.
///
/// # Errors
///
/// It is not a snapshot, or of a schema that this version does not know.
pub fn read(text: &[u8]) -> Result<Snapshot, ReadError> {
    let value: Value = serde_json::from_slice(text)?;
    let number = |name| value[name].as_u64().ok_or(ReadError::Missing(name));
    let text = |name| value[name].as_str().map(str::to_owned).ok_or(ReadError::Missing(name));
    let array = |name| value[name].as_array().ok_or(ReadError::Missing(name));
    match number("schema")? {
        SCHEMA => {}
        other => return Err(ReadError::Schema(other)),
    }
    let listener = |listener: &Value| ListenerSnapshot {
        address: listener["address"].as_str().unwrap_or_default().to_owned(),
        accept_queue_length: listener["accept_queue_length"].as_u64(),
        accept_queue_limit: listener["accept_queue_limit"].as_u64(),
        drops: listener["drops"].as_u64(),
    };
    let worker = |worker: &Value| WorkerSnapshot {
        pid: worker["pid"].as_u64().and_then(|pid| pid.try_into().ok()).unwrap_or(0),
        responsive: worker["responsive"].as_bool().unwrap_or(true),
        numbers: numbers_from_json(METRICS, worker),
    };
    let pool = |pool: &Value| PoolSnapshot {
        name: pool["name"].as_str().unwrap_or_default().to_owned(),
        numbers: numbers_from_json(POOL_METRICS, pool),
    };
    Ok(Snapshot {
        time_unix_ms: number("time_unix_ms")?,
        version: text("version")?,
        architecture: text("architecture")?,
        pid: u32::try_from(number("pid")?).map_err(|_| ReadError::Missing("pid"))?,
        started_unix_ms: number("started_unix_ms")?,
        system: SYSTEM.iter().map(|metric| value[metric.group.name()][metric.name].as_u64()).collect(),
        listeners: array("listeners")?.iter().map(listener).collect(),
        rates: Rates {
            over_ms: value["kernel_per_second"]["over_ms"].as_u64().unwrap_or(0),
            system: SYSTEM.iter().map(|metric| value["kernel_per_second"][metric.name].as_f64()).collect(),
            listeners: array("listeners")?.iter().map(|l| l["drops_per_second"].as_f64()).collect(),
        },
        workers: array("workers")?.iter().map(worker).collect(),
        past: numbers_from_json(METRICS, &value["past"]),
        pools: value["pools"].as_array().into_iter().flatten().map(pool).collect(),
    })
}

fn numbers_to_json<B>(table: &[Metric<B>], numbers: &Numbers) -> Map<String, Value> {
    let metric = |(place, metric): (usize, &Metric<B>)| {
        let values = numbers.of(place);
        let value = match metric.values {
            Values::One(_) => values[0].into(),
            Values::By { names, .. } => {
                names.iter().zip(values).map(|(&name, &value)| (name, Value::from(value))).collect()
            }
        };
        (metric.name.to_owned(), value)
    };
    table.iter().enumerate().map(metric).collect()
}

/// What is missing counts as zero.
fn numbers_from_json<B: Default>(table: &[Metric<B>], object: &Value) -> Numbers {
    let mut numbers = Numbers::read(table, &B::default());
    for (place, metric) in table.iter().enumerate() {
        let value = &object[metric.name];
        match metric.values {
            Values::One(_) => numbers.of_mut(place)[0] = value.as_u64().unwrap_or(0),
            Values::By { names, .. } => {
                for (name, number) in names.iter().zip(numbers.of_mut(place)) {
                    *number = value[name].as_u64().unwrap_or(0);
                }
            }
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::sample;

    #[test]
    fn what_is_written_can_be_read() {
        let snapshot = sample();
        assert_eq!(read(render(&snapshot).as_bytes()).unwrap(), snapshot);
    }

    #[test]
    fn the_documented_names_are_there() {
        let value: Value = serde_json::from_str(&render(&sample())).unwrap();
        assert_eq!(value["schema"], 1);
        assert_eq!(value["total"]["accepts"], 12);
        assert_eq!(value["workers"][1]["replies"]["2xx"], 2);
        assert_eq!(value["workers"][1]["responsive"], false);
        assert_eq!(value["kernel"]["listen_overflows"], 9);
        assert_eq!(value["kernel_per_second"]["listen_overflows"], 3.0);
        assert_eq!(value["kernel_per_second"]["over_ms"], 2000);
        assert_eq!(value["listeners"][0]["accept_queue_limit"], 511);
        assert_eq!(value["listeners"][0]["drops"], 4);
        assert_eq!(value["listeners"][0]["drops_per_second"], 2.5);
        assert_eq!(value["listeners"][1]["accept_queue_limit"], Value::Null);
        let pool = &value["pools"][0];
        assert_eq!(
            (&pool["name"], &pool["queued"], &pool["wait_us"]),
            (&"php".into(), &3.into(), &5500.into())
        );
        assert_eq!((&pool["waits_ms"]["0"], &pool["waits_ms"]["8"]), (&1.into(), &1.into()));
    }

    #[test]
    fn other_things_are_refused_by_name() {
        let error = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(error("<html>").starts_with("the status is not JSON"));
        assert_eq!(error("{}"), "the status has no schema");
        assert_eq!(error("[]"), "the status has no schema");
        assert_eq!(error(r#"{"schema":2}"#), "the status has schema 2, this program reads 1");
        assert_eq!(error(r#"{"schema":1}"#), "the status has no time_unix_ms");
    }
}
