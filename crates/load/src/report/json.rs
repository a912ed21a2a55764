//! Results for programs: one JSON object, described in `docs/lab-results.md`.

use results::By;
use results::load::{
    AskedOfClass, Calls, Checked, Connections, Curve, Distribution, Facts, Generator, Handshakes, Negotiated,
    OfClientClass, OfExactSize, OfKind, OfSize, Outcomes, Replies, Results, SCHEMA, Second, Sessions, Spread,
    Tls, TlsError, Verified, Waits,
};

use super::facts::cpu_us_per;
use super::verification::{self, Check};
use super::{Threshold, judge};
use crate::measures::{self, Kind, Measures, Moments, OfClass, SizeClass, Times};
use crate::record::{Agreed, Outcome};

/// Parts that a curve has: close enough for a line, and closer where the last of them are looked at.
const FRACTIONS: [f64; 26] = [
    0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9,
    0.95, 0.975, 0.99, 0.995, 0.999, 0.9995, 0.9999,
];

fn curve(times: &Times) -> Option<Curve> {
    let point = |fraction| (fraction, times.percentile_ms(fraction * 100.0));
    Some(Curve { times: distribution(times)?, percentiles: FRACTIONS.map(point).into() })
}

fn waits(waits: &measures::Waits) -> Option<Waits> {
    let of = |percent| waits.percentile(percent).map_or(0.0, |found| found.ms);
    let times = Distribution {
        count: waits.count(),
        mean: waits.mean()?.ms,
        deviation: waits.deviation_ms(),
        ..percentiles(of)
    };
    let point = |fraction| (fraction, of(fraction * 100.0));
    let times = Curve { times, percentiles: FRACTIONS.map(point).into() };
    Some(Waits { times, bounds: waits.bounds(), known_part: waits.known_part()? })
}

/// None where there is nothing, here and below: a time of 0 would be a fast server's.
fn distribution(times: &Times) -> Option<Distribution> {
    let (count, mean, deviation) = (times.count(), times.mean_ms(), times.deviation_ms());
    (count > 0).then(|| Distribution {
        count,
        mean,
        deviation,
        ..percentiles(|percent| times.percentile_ms(percent))
    })
}

fn percentiles(of: impl Fn(f64) -> f64) -> Distribution {
    let (min, max) = (of(0.0), of(100.0));
    let [p50, p90, p99, p999] = [50.0, 90.0, 99.0, 99.9].map(of);
    Distribution { min, p50, p90, p99, p999, max, ..Distribution::default() }
}

fn spread(moments: &Moments) -> Option<Spread> {
    (moments.count() > 0).then(|| Spread {
        count: moments.count(),
        mean: moments.mean(),
        deviation: moments.deviation(),
        min: moments.least(),
        max: moments.most(),
    })
}

/// Those of a run, held against `thresholds`.
pub fn results(measures: &Measures, run: &Facts, thresholds: &[Threshold]) -> Results {
    let invalid = super::reasons_against(measures, run);
    let seconds = run.measured_s();
    let ended = (run.outcome.duration_s * 1e9) as u64;
    let rate = |count: u64| count as f64 / seconds;
    let Measures { flow, cohort, connections, sessions, .. } = measures;
    Results {
        schema: SCHEMA,
        valid: invalid.is_empty(),
        short_of_cpu: super::short_of_cpu(measures, run),
        invalid,
        remarks: super::remarks_on(measures, run),
        failed: super::failures(measures, run),
        run: run.clone(),
        sessions: Sessions {
            arrived: sessions.arrived,
            arrived_per_s: rate(sessions.arrived),
            completed: sessions.completed,
            completed_per_s: rate(sessions.completed),
            failed: sessions.failed,
            unfinished: sessions.unfinished,
            lifetime_s: spread(&sessions.lifetime_s),
            failtime_s: spread(&sessions.failtime_s),
        },
        connections: Connections {
            tried: connections.tried,
            tried_per_s: rate(connections.tried),
            connected: connections.connected,
            lost: connections.lost,
            connect_time_ms: distribution(&connections.connect_times),
            time_ms: spread(&connections.time_ms),
            replies_per_connection: (connections.replies > 0).then(|| connections.replies_of_each()),
        },
        calls: Calls {
            issued: cohort.issued,
            sent: flow.requests,
            sent_per_s: rate(flow.requests),
            resent: flow.resent,
            request_bytes: flow.request_bytes,
            errors: cohort.outcomes.errors(),
            timeouts: cohort.outcomes.timeouts(),
            outcomes: outcomes(&cohort.outcomes),
        },
        replies: Replies {
            count: flow.replies(),
            per_s: rate(flow.replies()),
            samples_per_s: spread(&flow.reply_rates.per_second(ended)),
            head_bytes: flow.head_bytes,
            body_bytes: flow.body_bytes,
            body_mbps: flow.body_bytes as f64 * 8.0 / 1e6 / seconds,
            statuses: By::from(flow.statuses),
        },
        verification: run
            .verified
            .then_some(Verified { compared: measures.verified.compared, wrong: measures.verified.wrong }),
        reply_time_ms: curve(&cohort.reply_times),
        corrected_reply_time_ms: curve(&cohort.corrected_times),
        wait_ms: waits(&cohort.waits),
        response_time_ms: distribution(&cohort.response_times),
        transfer_time_ms: distribution(&cohort.transfer_times),
        timeout_time_ms: distribution(&cohort.timeout_times),
        lateness_ms: distribution(&measures.lateness),
        tls: run.tls.is_some().then(|| tls(&measures.handshakes)),
        generator: generator(measures, run),
        by_size: SizeClass::ALL.map(|class| of_size(measures, class)).into(),
        sizes: sizes(measures),
        by_kind: cohort.by_kind.each().map(of_kind).collect(),
        by_class: run.classes.iter().zip(cohort.by_class.each()).map(of_client_class).collect(),
        checks: checks(measures, run),
        thresholds: judge(thresholds, measures, run),
        seconds: flow.seconds.each().iter().map(second).collect(),
    }
}

fn outcomes(outcomes: &measures::Outcomes) -> Outcomes {
    let of = |outcome| outcomes.of(outcome);
    Outcomes {
        reply: of(Outcome::Reply),
        connect_timeout: of(Outcome::ConnectTimeout),
        tls_timeout: of(Outcome::TlsTimeout),
        reply_timeout: of(Outcome::ReplyTimeout),
        refused: of(Outcome::Refused),
        unreachable: of(Outcome::Unreachable),
        tls_error: of(Outcome::TlsError),
        reset: of(Outcome::Reset),
        closed: of(Outcome::Closed),
        cut_short: of(Outcome::CutShort),
        wrong_length: of(Outcome::WrongLength),
        wrong_bytes: of(Outcome::WrongBytes),
        malformed: of(Outcome::Malformed),
        no_port: of(Outcome::NoPort),
        no_descriptor: of(Outcome::NoDescriptor),
        abandoned: of(Outcome::Abandoned),
        unfinished: of(Outcome::Unfinished),
    }
}

fn tls(handshakes: &measures::Handshakes) -> Tls {
    let negotiated = |(agreed, handshakes): (Agreed, u64)| Negotiated {
        version: agreed.version.to_owned(),
        cipher: agreed.cipher.to_owned(),
        group: agreed.group.map(str::to_owned),
        handshakes,
    };
    let error = |(reason, connections): (&str, u64)| TlsError { message: reason.to_owned(), connections };
    Tls {
        handshakes: Handshakes {
            full: handshakes.full,
            resumed: handshakes.resumed,
            hello_retries: handshakes.hello_retries,
            failed: handshakes.failed,
            unfinished: handshakes.unfinished,
        },
        handshake_time_ms: curve(&handshakes.times()),
        full_handshake_time_ms: distribution(&handshakes.full_times),
        resumed_handshake_time_ms: distribution(&handshakes.resumed_times),
        negotiated: handshakes.agreed().into_iter().map(negotiated).collect(),
        errors: handshakes.reasons().into_iter().map(error).collect(),
    }
}

fn second(second: &measures::Second) -> Second {
    Second {
        arrived: second.arrived,
        replies: second.replies,
        timeouts: second.timeouts,
        errors: second.errors,
        bytes: second.bytes,
        mean_reply_time_ms: (second.replies > 0)
            .then(|| second.reply_time as f64 / 1e6 / second.replies as f64),
    }
}

fn of_size(measures: &Measures, class: SizeClass) -> OfSize {
    let by_size = &measures.cohort.by_size;
    let of = by_size.of(class);
    OfSize {
        size: class.name().to_owned(),
        calls: of.calls,
        replies: of.replies,
        timeouts: of.timeouts,
        reached: of.reached,
        unserved: of.unserved,
        bytes: of.bytes,
        reply_time_ms: curve(by_size.times(class)),
    }
}

/// Sizes beyond this many say nothing that their classes don't.
const MOST_SIZES: usize = 256;

fn sizes(measures: &Measures) -> Vec<OfExactSize> {
    let sizes = measures.cohort.by_size.each_size();
    if sizes.len() > MOST_SIZES {
        return Vec::new();
    }
    let of = |(bytes, of): (u64, OfClass)| OfExactSize {
        bytes,
        calls: of.calls,
        replies: of.replies,
        timeouts: of.timeouts,
        reached: of.reached,
        unserved: of.unserved,
    };
    sizes.into_iter().map(of).collect()
}

fn of_kind((kind, of): (&Kind, &measures::OfKind)) -> OfKind {
    OfKind {
        method: kind.method.name().to_owned(),
        dynamic: kind.dynamic,
        calls: of.calls,
        timeouts: of.timeouts,
        statuses: By::from(of.statuses),
        reply_time_ms: curve(&of.times),
    }
}

fn of_client_class((class, of): (&AskedOfClass, &measures::OfClientClass)) -> OfClientClass {
    OfClientClass {
        class: class.name.clone(),
        calls: of.outcomes.all(),
        replies: of.outcomes.of(Outcome::Reply),
        statuses: By::from(of.statuses),
        timeouts: of.outcomes.timeouts(),
        errors: of.outcomes.errors(),
        handshakes: class.handshakes_only.then(|| of.outcomes.of(Outcome::Handshake)),
        reply_time_ms: curve(&of.reply_times),
        handshake_time_ms: curve(&of.handshake_times),
        wait_ms: waits(&of.waits),
    }
}

fn generator(measures: &Measures, run: &Facts) -> Generator {
    let pressure = &measures.pressure;
    Generator {
        cpu_us_per_call: cpu_us_per(run, measures.cohort.issued),
        seconds: pressure.seconds,
        saturated_seconds: pressure.saturated,
        ran_throughout_seconds: pressure.ran_throughout,
        waited_s: pressure.waited as f64 / 1e9,
        waited_part: pressure.waited_part(),
        most_wanted: pressure.most,
        longest_burst: measures.longest_burst,
        most_open_connections: measures.most_open,
    }
}

fn checks(measures: &Measures, run: &Facts) -> Vec<Checked> {
    let checks = verification::check(measures, run.outcome.server_log);
    let checked = |check: Check| Checked {
        rule: check.rule.to_owned(),
        holds: check.holds(),
        found: check.found,
        allowed: check.allowed,
        remark: check.remark,
    };
    checks.into_iter().map(checked).collect()
}

/// The results as text, indented.
pub fn json(measures: &Measures, run: &Facts, thresholds: &[Threshold]) -> String {
    // Strings, numbers and lists of them: nothing that JSON can't say.
    serde_json::to_string_pretty(&results(measures, run, thresholds)).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::tests::{sample, tls as tls_sample};

    /// The paths of all members: those of a list once, without its numbers.
    fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    paths(value, &path, found);
                }
            }
            Value::Array(items) if items.first().is_some_and(Value::is_object) => {
                items.iter().take(1).for_each(|item| paths(item, path, found));
            }
            _ => found.push(path.to_owned()),
        }
    }

    #[test]
    fn every_member_is_documented() {
        let (mut measures, mut facts) = sample();
        (measures.handshakes, facts.tls) = tls_sample();
        facts.verified = true;
        facts.classes = vec![AskedOfClass {
            name: "slow".into(),
            handshakes_only: true,
            asked_requests_per_s: 5.0,
            connections: None,
            connect_timeout_s: 2.0,
            reply_timeout_s: 2.0,
            retries: Some(2),
            sources: vec!["127.0.0.3".into()],
        }];
        let thresholds = ["p99 > 50ms".parse().unwrap()];
        let value: Value = serde_json::from_str(&json(&measures, &facts, &thresholds)).unwrap();
        let mut found = Vec::new();
        paths(&value, "", &mut found);
        let document = include_str!("../../../../docs/lab-results.md");
        for path in found {
            let distribution =
                ["count", "mean", "deviation", "min", "p50", "p90", "p99", "p999", "max", "percentiles"];
            let last = path.rsplit('.').next().unwrap();
            let (name, _) = path.rsplit_once('.').unwrap_or((&path, ""));
            let documented =
                |name: &str| document.lines().any(|line| line.starts_with(&format!("| `{name}` |")));
            assert!(
                documented(&path) || distribution.contains(&last) && documented(name),
                "{path} is not documented"
            );
        }
    }

    #[test]
    fn curves_go_through_what_is_told_besides() {
        let mut times = Times::new();
        (1..=10_000).for_each(|ms| times.record(ms * 1_000_000));
        let Curve { times: told, percentiles } = curve(&times).unwrap();
        assert!(percentiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{percentiles:?}");
        for (fraction, ms) in [(0.5, told.p50), (0.9, told.p90), (0.99, told.p99), (0.999, told.p999)] {
            assert!(percentiles.contains(&(fraction, ms)), "{fraction}: {percentiles:?}");
        }
        for (fraction, ms) in percentiles {
            assert!((ms / (fraction * 1e4) - 1.0).abs() < 0.001, "{fraction}: {ms}");
        }
        assert_eq!(curve(&Times::new()), None);
    }
}
