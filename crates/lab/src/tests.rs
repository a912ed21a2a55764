//! What tests of several modules make up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use machine::cpu::CpuTicks;
use serde_json::{Value, json};

use crate::judging::series::{Series, Taken};
use crate::measuring::figures;
use crate::measuring::generator::Watched;
use crate::measuring::sight::{Held, Sight};
use crate::record::journal::Journal;
use crate::record::outcome::{Looks, Outcome};

/// A valid outcome of which nothing is known but the rate of replies.
pub(crate) fn outcome(replies_per_s: f64) -> Outcome {
    outcome_but(replies_per_s, &[])
}

/// One that the generator may have reasons against.
pub(crate) fn outcome_but(replies_per_s: f64, reasons: &[&str]) -> Outcome {
    outcome_of_looks(replies_per_s, reasons, 1.0)
}

/// Counters at a moment at which so many connections were accepted.
pub(crate) fn sight(at: Instant, accepts: u64) -> Sight {
    let status = json!({
        "time_unix_ms": accepts * 10,
        "total": {
            "accepts": accepts, "accept_phases": accepts / 2, "phases": 0, "event_waits": 0,
            "replies": { "2xx": accepts * 2, "4xx": 7 },
        },
        "workers": []
    });
    let ticks = CpuTicks::default();
    Sight {
        at,
        status: Some(status),
        work: Some((accepts as f64, accepts as f64 * 0.05)),
        drops: BTreeMap::from([("ListenDrops".to_owned(), accepts * 3)]),
        server_ns: accepts,
        user_ticks: accepts,
        system_ticks: 3 * accepts,
        switches: accepts,
        server_cpu: ticks,
        client_cpu: ticks,
        read: 0,
        killed: 0,
        held: Some(Held { memory: 5_000_000, descriptors: 10, page_cache: 0 }),
    }
}

/// What a generator says.
pub(crate) fn results(replies_per_s: f64, reasons: &[&str]) -> Value {
    json!({
        "run": { "asked_requests_per_s": 10, "warm_up_s": 1.0, "outcome": { "duration_s": 3.5 } },
        "seconds": [{ "replies": 0 }, { "replies": 7 }, { "replies": 8 }, { "replies": 4 }],
        "calls": { "issued": 100, "timeouts": 10, "errors": 20 },
        "replies": {
            "per_s": replies_per_s, "count": 80, "body_mbps": 1,
            "statuses": { "2xx": 75, "4xx": 4, "5xx": 1 },
        },
        "wait_ms": { "mean": 1, "p50": 1, "p90": 1, "p99": 1, "p999": 1, "max": 1 },
        "generator": { "cpu_us_per_call": 1 },
        "invalid": reasons,
        "by_kind": [{ "dynamic": true, "calls": 100, "statuses": { "2xx": 75 } }],
        "by_class": [
            { "class": "meek", "calls": 50, "statuses": { "2xx": 40 }, "reply_time_ms": { "p99": 7 } },
        ],
        "checks": [
            { "rule": "unfairness", "holds": false, "found": 0.3, "allowed": 0.05, "remark": "9 bytes" },
            { "rule": "timeouts", "holds": true, "found": 0.01, "allowed": 0.05, "remark": "" },
        ],
    })
}

/// One of two seconds, where the looks were off.
pub(crate) fn outcome_of_looks(replies_per_s: f64, reasons: &[&str], off_ms: f64) -> Outcome {
    let begun = Instant::now();
    let results = results(replies_per_s, reasons);
    let later = begun + Duration::from_secs(2);
    let looks = Looks { began_after_ms: 1.0, off_ms };
    let watched = Watched { first: sight(begun, 100), second: sight(later, 300), looks, results };
    figures::of(&watched, None).unwrap()
}

/// These rounds, with reasons against the last one.
pub(crate) fn in_doubt(mut series: Series) -> Series {
    let reasons = |mut outcome: Outcome| {
        outcome.invalid = vec!["late".to_owned()];
        outcome
    };
    let last = series.rounds.pop().flatten().map(|taken| reasons(taken.outcome));
    series.rounds.push(Taken::of(last.into_iter().collect()));
    series
}

/// A server that was measured alone.
pub(crate) fn in_rounds(name: &str, rounds: Vec<Option<Taken>>) -> Series {
    Series { server: format!("{name} = nginx").parse().unwrap(), rounds, beside: None }
}

/// What a server answers in each round.
pub(crate) fn series(name: &str, replies: &[f64]) -> Series {
    in_rounds(name, replies.iter().map(|replies| Taken::of(vec![outcome(*replies)])).collect())
}

/// A new journal in a file that nobody needs any more.
pub(crate) fn journal() -> Journal {
    let directory = tempfile::tempdir().unwrap();
    Journal::open(&directory.path().join("journal"), &json!({})).unwrap()
}
