//! Test data that tests of several modules share.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use machine::cpu::CpuTicks;
use results::By;
use results::load::{
    self, Calls, Checked, Curve, Distribution, Facts, OfClientClass, OfKind, Replies, Results, Second, Waits,
};
use results::status::{self, Snapshot};
use serde_json::json;

use crate::analysis::series::{Series, Taken};
use crate::description::setting::Rules;
use crate::measuring::figures;
use crate::measuring::generator::Watched;
use crate::measuring::sight::{Held, Sight};
use crate::record::journal::Journal;
use crate::record::outcome::{Outcome, SampleTimes};

/// A valid outcome in which only the rate of replies is known.
pub(crate) fn outcome(replies_per_s: f64) -> Outcome {
    outcome_but(replies_per_s, &[])
}

/// An outcome against which the generator may have reasons.
pub(crate) fn outcome_but(replies_per_s: f64, reasons: &[&str]) -> Outcome {
    outcome_sampled_off(replies_per_s, reasons, 1.0)
}

/// Counters at a moment, after so many accepted connections.
pub(crate) fn sight(at: Instant, accepts: u64) -> Sight {
    let mut status = Snapshot { schema: status::SCHEMA, time_unix_ms: accepts * 10, ..Snapshot::default() };
    status.total.accepts = accepts;
    status.total.accept_phases = accepts / 2;
    status.total.replies = By::from([0, accepts * 2, 0, 7, 0]);
    let ticks = CpuTicks::default();
    Sight {
        at,
        status: Some(status),
        work: Some((accepts as f64, accepts as f64 * 0.05)),
        drops: BTreeMap::from([("listen_drops".to_owned(), accepts * 3)]),
        is_seen: true,
        server_ns: accepts,
        user_ticks: accepts,
        system_ticks: 3 * accepts,
        switches: accepts,
        calls: None,
        server_cpu: ticks,
        client_cpu: ticks,
        read: 0,
        killed: 0,
        held: Some(Held { memory: 5_000_000, descriptors: 10, page_cache: 0 }),
    }
}

/// Results as a generator reports them.
pub(crate) fn results(replies_per_s: f64, reasons: &[&str]) -> Results {
    let all_take = |ms| Distribution {
        mean: ms,
        p50: ms,
        p90: ms,
        p99: ms,
        p999: ms,
        max: ms,
        ..Distribution::default()
    };
    let check = |rule: &str, holds, found, remark: &str| Checked {
        rule: rule.to_owned(),
        holds,
        found,
        allowed: 0.05,
        remark: remark.to_owned(),
    };
    Results {
        schema: load::SCHEMA,
        run: Facts {
            asked_requests_per_s: Some(10.0),
            warm_up_s: 1.0,
            outcome: load::Outcome { duration_s: 3.5, ..load::Outcome::default() },
            ..Facts::default()
        },
        seconds: [0, 7, 8, 4].map(|replies| Second { replies, ..Second::default() }).into(),
        calls: Calls { issued: 100, timeouts: 10, errors: 20, ..Calls::default() },
        replies: Replies {
            per_s: replies_per_s,
            count: 80,
            body_mbps: 1.0,
            statuses: By::from([0, 75, 0, 4, 1]),
            ..Replies::default()
        },
        wait_ms: Some(Waits {
            times: Curve { times: all_take(1.0), ..Curve::default() },
            ..Waits::default()
        }),
        generator: load::Generator { cpu_us_per_call: 1.0, ..load::Generator::default() },
        invalid: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
        by_kind: vec![OfKind {
            dynamic: true,
            calls: 100,
            statuses: By::from([0, 75, 0, 0, 0]),
            ..OfKind::default()
        }],
        by_class: vec![OfClientClass {
            class: "meek".to_owned(),
            calls: 50,
            statuses: By::from([0, 40, 0, 0, 0]),
            reply_time_ms: Some(Curve {
                times: Distribution { p99: 7.0, ..Distribution::default() },
                percentiles: vec![(0.5, 3.0), (0.99, 7.0)],
            }),
            ..OfClientClass::default()
        }],
        checks: vec![check("unfairness", false, 0.3, "9 bytes"), check("timeouts", true, 0.01, "")],
        ..Results::default()
    }
}

/// An outcome of two seconds, whose counters were read that far from the window's edges.
pub(crate) fn outcome_sampled_off(replies_per_s: f64, reasons: &[&str], off_ms: f64) -> Outcome {
    let begun = Instant::now();
    let results = results(replies_per_s, reasons);
    let later = begun + Duration::from_secs(2);
    let sample_times = SampleTimes { began_after_ms: 1.0, off_ms };
    let watched = Watched { first: sight(begun, 100), second: sight(later, 300), sample_times, results };
    figures::of(&watched, None, Rules::H12).unwrap()
}

/// The same rounds, with reasons against the last one.
pub(crate) fn in_doubt(mut series: Series) -> Series {
    let reasons = |mut outcome: Outcome| {
        outcome.invalid = vec!["late".to_owned()];
        outcome
    };
    let last = series.rounds.pop().flatten().map(|taken| reasons(taken.outcome));
    series.rounds.push(Taken::of(last.into_iter().collect()));
    series
}

/// The series of a server that was measured alone.
pub(crate) fn in_rounds(name: &str, rounds: Vec<Option<Taken>>) -> Series {
    Series { server: format!("{name} = nginx").parse().unwrap(), rounds, beside: None }
}

/// The series of a server that answers so many replies in each round.
pub(crate) fn series(name: &str, replies: &[f64]) -> Series {
    in_rounds(name, replies.iter().map(|replies| Taken::of(vec![outcome(*replies)])).collect())
}

/// A new journal in a temporary file.
pub(crate) fn journal() -> Journal {
    let directory = tempfile::tempdir().unwrap();
    Journal::open(&directory.path().join("journal"), &json!({})).unwrap()
}
