//! Results as a line of comma-separated values, to be put below those of other runs: what people look at
//! first. A column is called as the figure is in JSON, with `_` between the names of members, and without
//! `run`.

use super::Facts;
use super::facts::cpu_us_per;
use super::validity::nothing_measured;
use crate::measures::{Cohort, Found, Handshakes, Measures};

/// A line of names, and one of values. What is not known is empty.
pub fn render(measures: &Measures, facts: &Facts) -> String {
    let (names, values): (Vec<_>, Vec<_>) = columns(measures, facts).into_iter().unzip();
    let values: Vec<String> = values.into_iter().map(quoted).collect();
    format!("{}\n{}\n", names.join(","), values.join(","))
}

/// As RFC 4180 has it: reasons are sentences, with commas.
fn quoted(value: String) -> String {
    let is_plain = !value.contains([',', '"', '\n', '\r']);
    if is_plain { value } else { format!("\"{}\"", value.replace('"', "\"\"")) }
}

fn columns(measures: &Measures, facts: &Facts) -> Vec<(String, String)> {
    let Measures { flow, cohort, .. } = measures;
    let nothing = nothing_measured(measures, facts).is_some();
    let seconds = facts.measured_s();
    let known = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let figure = |value: f64| known((!nothing).then_some(value));
    let reasons = super::reasons_against(measures, facts);
    let mut columns: Vec<(String, String)> = [
        ("began_unix_s", facts.began_unix_s.to_string()),
        ("model", facts.model.clone()),
        ("asked_requests_per_s", known(facts.asked_requests_per_s)),
        ("connections", known(facts.connections.map(f64::from))),
        ("measured_s", figure(seconds)),
        ("valid", reasons.is_empty().to_string()),
        ("invalid", reasons.join("; ")),
        ("failed", super::failures(measures, facts).join("; ")),
        ("calls_issued", cohort.issued.to_string()),
        ("calls_errors", cohort.outcomes.errors().to_string()),
        ("calls_timeouts", cohort.outcomes.timeouts().to_string()),
        ("replies_count", flow.replies().to_string()),
        ("replies_per_s", figure(flow.replies() as f64 / seconds)),
        ("replies_body_mbps", figure(flow.body_bytes as f64 * 8.0 / 1e6 / seconds)),
        ("generator_cpu_us_per_call", figure(cpu_us_per(facts, cohort.issued))),
        ("generator_waited_part", figure(measures.pressure.waited_part())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let Cohort { reply_times: times, waits, .. } = cohort;
    let of_replies = |ms: f64| (times.count() > 0).then_some(ms);
    columns.extend(of_times("reply_time_ms", of_replies(times.mean_ms()), |percent| {
        of_replies(times.percentile_ms(percent))
    }));
    let ms = |found: Option<Found>| found.map(|found| found.ms);
    columns.extend(of_times("wait_ms", ms(waits.mean()), |percent| ms(waits.percentile(percent))));
    let Handshakes { full, resumed, failed, .. } = measures.handshakes;
    for (name, count) in [("full", full), ("resumed", resumed), ("failed", failed)] {
        let count = facts.tls.as_ref().map_or_else(String::new, |_| count.to_string());
        columns.push((format!("tls_handshakes_{name}"), count));
    }
    let times = &measures.handshakes.times();
    let of_handshakes = |ms: f64| (times.count() > 0).then_some(ms);
    columns.extend(of_times("tls_handshake_time_ms", of_handshakes(times.mean_ms()), |percent| {
        of_handshakes(times.percentile_ms(percent))
    }));
    columns
}

fn of_times(name: &str, mean: Option<f64>, percentile: impl Fn(f64) -> Option<f64>) -> [(String, String); 6] {
    [
        ("mean", mean),
        ("p50", percentile(50.0)),
        ("p90", percentile(90.0)),
        ("p99", percentile(99.0)),
        ("p999", percentile(99.9)),
        ("max", percentile(100.0)),
    ]
    .map(|(which, ms)| (format!("{name}_{which}"), ms.map_or_else(String::new, |ms| ms.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn values_stand_below_their_names() {
        let (measures, mut facts) = sample();
        let text = render(&measures, &facts);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let [names, values] = &lines[..] else { panic!("two lines: {text}") };
        assert_eq!(names.len(), values.len());
        let of = |name: &str| values[names.iter().position(|found| *found == name).unwrap()];
        let found = ["model", "asked_requests_per_s", "connections", "valid", "invalid"].map(of);
        assert_eq!(found, ["sessions", "10", "", "true", ""]);
        assert_eq!(["calls_issued", "calls_timeouts"].map(of), ["100", "10"]);
        assert_eq!(["replies_per_s", "reply_time_ms_p99"].map(of), ["9", "1"]);
        let document = include_str!("../../../../docs/lab-results.md");
        let (_, document) = document.split_once("## `--format csv`").unwrap();
        for name in names {
            let name =
                name.rsplit_once("_ms_").map_or((*name).to_owned(), |(name, _)| format!("{name}_ms_..."));
            assert!(document.contains(&format!("| `{name}` |")), "{name} is not documented");
        }
        assert_eq!(["tls_handshakes_full", "tls_handshake_time_ms_mean"].map(of), ["", ""], "no TLS");
        facts.warm_up_s = 20.0;
        let text = render(&measures, &facts);
        assert!(text.contains(",sessions,10,,,false,"), "nothing was measured: {text}");
        assert_eq!(quoted("one, two".to_owned()), "\"one, two\"");
    }
}
