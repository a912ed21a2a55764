//! Results for programs: one JSON object, described in `docs/lab-results.md`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::verification::{self, Check};
use super::{AskedOfClass, Facts, Judged};
use crate::measures::{self, Kind, Measures, Moments, OfClass, Second, SizeClass, Times, Verified};
use crate::record::Outcome;

/// The version of the schema: changes when something is removed or comes to mean something else.
const SCHEMA: u32 = 2;

/// Everything, in the form in which it is written.
#[derive(Debug, Serialize)]
pub struct Results<'a> {
    schema: u32,
    /// False: the figures tell of the generator; `invalid` says why.
    valid: bool,
    invalid: Vec<String>,
    remarks: Vec<String>,
    /// Why the run is no measurement, if it isn't.
    failed: Vec<String>,
    run: &'a Facts,
    sessions: Sessions,
    connections: Connections,
    calls: Calls,
    replies: Replies,
    /// None: nothing was to be compared.
    verification: Option<Verified>,
    reply_time_ms: Curve,
    corrected_reply_time_ms: Curve,
    wait_ms: Waits,
    response_time_ms: Distribution,
    transfer_time_ms: Distribution,
    timeout_time_ms: Distribution,
    lateness_ms: Distribution,
    generator: Generator,
    by_size: Vec<OfSize>,
    sizes: Vec<OfExactSize>,
    by_kind: Vec<OfKind>,
    by_class: Vec<OfClientClass>,
    checks: Vec<Checked>,
    thresholds: Vec<Judged>,
    seconds: Vec<OfSecond>,
}

#[derive(Debug, Serialize)]
struct Sessions {
    arrived: u64,
    arrived_per_s: f64,
    completed: u64,
    completed_per_s: f64,
    failed: u64,
    unfinished: u64,
    lifetime_s: Spread,
    failtime_s: Spread,
}

#[derive(Debug, Serialize)]
struct Connections {
    tried: u64,
    tried_per_s: f64,
    connected: u64,
    lost: u64,
    connect_time_ms: Distribution,
    time_ms: Spread,
    replies_per_connection: f64,
}

#[derive(Debug, Serialize)]
struct Calls {
    issued: u64,
    sent: u64,
    sent_per_s: f64,
    resent: u64,
    request_bytes: u64,
    errors: u64,
    timeouts: u64,
    outcomes: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct Replies {
    count: u64,
    per_s: f64,
    samples_per_s: Spread,
    head_bytes: u64,
    body_bytes: u64,
    body_mbps: f64,
    statuses: Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct OfSize {
    size: &'static str,
    #[serde(flatten)]
    of: OfClass,
    reply_time_ms: Curve,
}

#[derive(Debug, Serialize)]
struct Generator {
    cpu_us_per_call: f64,
    seconds: u64,
    saturated_seconds: u64,
    ran_throughout_seconds: u64,
    waited_s: f64,
    waited_part: f64,
    most_wanted: f64,
    longest_burst: u64,
    most_open_connections: u64,
}

#[derive(Debug, Serialize)]
struct OfExactSize {
    bytes: u64,
    calls: u64,
    replies: u64,
    timeouts: u64,
    reached: u64,
    unserved: u64,
}

#[derive(Debug, Serialize)]
struct OfKind {
    method: String,
    dynamic: bool,
    calls: u64,
    timeouts: u64,
    statuses: Map<String, Value>,
    reply_time_ms: Distribution,
}

#[derive(Debug, Serialize)]
struct OfClientClass {
    class: String,
    calls: u64,
    replies: u64,
    statuses: Map<String, Value>,
    timeouts: u64,
    errors: u64,
    reply_time_ms: Distribution,
    wait_ms: Waits,
}

#[derive(Debug, Serialize)]
struct Checked {
    rule: &'static str,
    holds: bool,
    found: f64,
    allowed: f64,
    remark: String,
}

#[derive(Debug, Serialize)]
struct OfSecond {
    #[serde(flatten)]
    second: Second,
    mean_reply_time_ms: f64,
}

impl From<&Second> for OfSecond {
    fn from(second: &Second) -> Self {
        let mean_reply_time_ms = second.reply_time as f64 / 1e6 / second.replies.max(1) as f64;
        Self { second: *second, mean_reply_time_ms }
    }
}

/// A histogram in a few numbers.
#[derive(Debug, Serialize)]
struct Distribution {
    count: u64,
    mean: f64,
    deviation: f64,
    min: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// A histogram in a few numbers, and in as many more as it takes to draw it.
#[derive(Debug, Serialize)]
struct Curve {
    #[serde(flatten)]
    times: Distribution,
    /// Parts of all times, each with the milliseconds that it did not exceed. Empty where there are none.
    percentiles: Vec<(f64, f64)>,
}

/// Parts that a curve has: close enough for a line, and closer where the last of them are looked at.
const FRACTIONS: [f64; 26] = [
    0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9,
    0.95, 0.975, 0.99, 0.995, 0.999, 0.9995, 0.9999,
];

impl From<&Times> for Curve {
    fn from(times: &Times) -> Self {
        let point = |fraction| (fraction, times.percentile_ms(fraction * 100.0));
        let percentiles = if times.count() == 0 { Vec::new() } else { FRACTIONS.map(point).into() };
        Self { times: times.into(), percentiles }
    }
}

/// Times of which some are lower bounds.
#[derive(Debug, Serialize)]
struct Waits {
    #[serde(flatten)]
    times: Curve,
    bounds: u64,
    least_bound: Option<f64>,
}

impl From<&measures::Waits> for Waits {
    fn from(waits: &measures::Waits) -> Self {
        Self { times: (&waits.times).into(), bounds: waits.bounds, least_bound: waits.least_bound_ms() }
    }
}

#[derive(Debug, Serialize)]
struct Spread {
    count: u64,
    mean: f64,
    deviation: f64,
    min: f64,
    max: f64,
}

impl From<&Times> for Distribution {
    fn from(times: &Times) -> Self {
        let of = |percent| times.percentile_ms(percent);
        Self {
            count: times.count(),
            mean: times.mean_ms(),
            deviation: times.deviation_ms(),
            min: of(0.0),
            p50: of(50.0),
            p90: of(90.0),
            p99: of(99.0),
            p999: of(99.9),
            max: of(100.0),
        }
    }
}

impl From<&Moments> for Spread {
    fn from(moments: &Moments) -> Self {
        Self {
            count: moments.count(),
            mean: moments.mean(),
            deviation: moments.deviation(),
            min: moments.least(),
            max: moments.most(),
        }
    }
}

impl<'a> Results<'a> {
    /// Those of a run.
    pub fn new(measures: &Measures, run: &'a Facts) -> Self {
        let invalid = super::reasons_against(measures, run);
        let seconds = run.measured_s();
        let ended = (run.outcome.duration_s * 1e9) as u64;
        let rate = |count: u64| count as f64 / seconds;
        let Measures { flow, cohort, connections, sessions, .. } = measures;
        let outcomes =
            Outcome::ALL.map(|outcome| (outcome.name().to_owned(), cohort.outcomes.of(outcome).into()));
        Self {
            schema: SCHEMA,
            valid: invalid.is_empty(),
            invalid,
            remarks: super::remarks_on(measures, run),
            failed: super::failures(measures, run),
            run,
            sessions: Sessions {
                arrived: sessions.arrived,
                arrived_per_s: rate(sessions.arrived),
                completed: sessions.completed,
                completed_per_s: rate(sessions.completed),
                failed: sessions.failed,
                unfinished: sessions.unfinished,
                lifetime_s: (&sessions.lifetime_s).into(),
                failtime_s: (&sessions.failtime_s).into(),
            },
            connections: Connections {
                tried: connections.tried,
                tried_per_s: rate(connections.tried),
                connected: connections.connected,
                lost: connections.lost,
                connect_time_ms: (&connections.connect_times).into(),
                time_ms: (&connections.time_ms).into(),
                replies_per_connection: connections.replies_of_each(),
            },
            calls: Calls {
                issued: cohort.issued,
                sent: flow.requests,
                sent_per_s: rate(flow.requests),
                resent: flow.resent,
                request_bytes: flow.request_bytes,
                errors: cohort.outcomes.errors(),
                timeouts: cohort.outcomes.timeouts(),
                outcomes: outcomes.into_iter().collect(),
            },
            replies: Replies {
                count: flow.replies(),
                per_s: rate(flow.replies()),
                samples_per_s: (&flow.reply_rates.per_second(ended)).into(),
                head_bytes: flow.head_bytes,
                body_bytes: flow.body_bytes,
                body_mbps: flow.body_bytes as f64 * 8.0 / 1e6 / seconds,
                statuses: by_class(&flow.statuses),
            },
            verification: run.verified.then_some(measures.verified),
            reply_time_ms: (&cohort.reply_times).into(),
            corrected_reply_time_ms: (&cohort.corrected_times).into(),
            wait_ms: (&cohort.waits).into(),
            response_time_ms: (&cohort.response_times).into(),
            transfer_time_ms: (&cohort.transfer_times).into(),
            timeout_time_ms: (&cohort.timeout_times).into(),
            lateness_ms: (&measures.lateness).into(),
            generator: generator(measures, run),
            by_size: SizeClass::ALL.map(|class| of_size(measures, class)).into(),
            sizes: sizes(measures),
            by_kind: cohort.by_kind.each().map(of_kind).collect(),
            by_class: run.classes.iter().zip(cohort.by_class.each()).map(of_client_class).collect(),
            checks: checks(measures, run),
            thresholds: super::thresholds(measures, run),
            seconds: flow.seconds.each().iter().map(Into::into).collect(),
        }
    }
}

fn of_size(measures: &Measures, class: SizeClass) -> OfSize {
    let by_size = &measures.cohort.by_size;
    OfSize { size: class.name(), of: by_size.of(class), reply_time_ms: by_size.times(class).into() }
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
        statuses: by_class(&of.statuses),
        reply_time_ms: (&of.times).into(),
    }
}

fn of_client_class((class, of): (&AskedOfClass, &measures::OfClientClass)) -> OfClientClass {
    OfClientClass {
        class: class.name.clone(),
        calls: Outcome::ALL.into_iter().map(|outcome| of.outcomes.of(outcome)).sum(),
        replies: of.outcomes.of(Outcome::Reply),
        statuses: by_class(&of.statuses),
        timeouts: of.outcomes.timeouts(),
        errors: of.outcomes.errors(),
        reply_time_ms: (&of.reply_times).into(),
        wait_ms: (&of.waits).into(),
    }
}

fn generator(measures: &Measures, run: &Facts) -> Generator {
    let pressure = &measures.pressure;
    Generator {
        cpu_us_per_call: run.cpu_us_per(measures.cohort.issued),
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
        rule: check.rule,
        holds: check.holds(),
        found: check.found,
        allowed: check.allowed,
        remark: check.remark,
    };
    checks.into_iter().map(checked).collect()
}

fn by_class(statuses: &[u64; 5]) -> Map<String, Value> {
    let statuses = statuses.iter().enumerate();
    statuses.map(|(class, &count)| (format!("{}xx", class + 1), count.into())).collect()
}

/// The results as text, indented.
pub fn json(measures: &Measures, run: &Facts) -> String {
    // Strings, numbers and lists of them: nothing that JSON can't say.
    serde_json::to_string_pretty(&Results::new(measures, run)).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

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
        let (measures, mut facts) = sample();
        facts.verified = true;
        facts.classes = vec![AskedOfClass {
            name: "slow".into(),
            asked_requests_per_s: 5.0,
            connect_timeout_s: 2.0,
            reply_timeout_s: 2.0,
            retries: Some(2),
            sources: vec!["127.0.0.3".into()],
        }];
        facts.thresholds = vec!["p99 > 50ms".parse().unwrap()];
        let value: Value = serde_json::from_str(&json(&measures, &facts)).unwrap();
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
        let Curve { times: told, percentiles } = (&times).into();
        assert!(percentiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{percentiles:?}");
        for (fraction, ms) in [(0.5, told.p50), (0.9, told.p90), (0.99, told.p99), (0.999, told.p999)] {
            assert!(percentiles.contains(&(fraction, ms)), "{fraction}: {percentiles:?}");
        }
        for (fraction, ms) in percentiles {
            assert!((ms / (fraction * 1e4) - 1.0).abs() < 0.001, "{fraction}: {ms}");
        }
        assert_eq!(Curve::from(&Times::new()).percentiles, []);
    }
}
