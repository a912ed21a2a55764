//! Results as a line of comma-separated values, to be put below those of other runs: what people look at
//! first, under the names that it has in the JSON.

use super::Facts;
use super::validity::nothing_measured;
use crate::measures::{Cohort, Found, Measures};

/// A line of names, and one of values. What is not known is empty.
pub fn render(measures: &Measures, facts: &Facts) -> String {
    let (names, values): (Vec<_>, Vec<_>) = columns(measures, facts).into_iter().unzip();
    format!("{}\n{}\n", names.join(","), values.join(","))
}

fn columns(measures: &Measures, facts: &Facts) -> Vec<(String, String)> {
    let Measures { flow, cohort, .. } = measures;
    let nothing = nothing_measured(measures, facts).is_some();
    let seconds = facts.measured_s();
    let known = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let figure = |value: f64| known((!nothing).then_some(value));
    let mut columns: Vec<(String, String)> = [
        ("began_unix_s", facts.began_unix_s.to_string()),
        ("model", facts.model.clone()),
        ("asked_requests_per_s", known(facts.asked_requests_per_s)),
        ("connections", known(facts.connections.map(f64::from))),
        ("measured_s", figure(seconds)),
        ("valid", super::reasons_against(measures, facts).is_empty().to_string()),
        ("failed", (!super::failures(measures, facts).is_empty()).to_string()),
        ("issued", cohort.issued.to_string()),
        ("errors", cohort.outcomes.errors().to_string()),
        ("timeouts", cohort.outcomes.timeouts().to_string()),
        ("replies", flow.replies().to_string()),
        ("replies_per_s", figure(flow.replies() as f64 / seconds)),
        ("body_mbps", figure(flow.body_bytes as f64 * 8.0 / 1e6 / seconds)),
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
        let found = ["model", "asked_requests_per_s", "connections", "valid", "issued", "timeouts"].map(of);
        assert_eq!(found, ["sessions", "10", "", "true", "100", "10"]);
        assert_eq!(["replies_per_s", "reply_time_ms_p99"].map(of), ["9", "1"]);
        let document = include_str!("../../../../docs/lab-results.md");
        let (_, document) = document.split_once("## `--format csv`").unwrap();
        for name in names {
            let name =
                name.rsplit_once("_ms_").map_or((*name).to_owned(), |(name, _)| format!("{name}_ms_..."));
            assert!(document.contains(&format!("| `{name}` |")), "{name} is not documented");
        }
        facts.warm_up_s = 20.0;
        assert!(render(&measures, &facts).contains(",sessions,10,,,false,"), "nothing was measured");
    }
}
