//! Limits that somebody sets to a run, such as `p99 > 50ms`: a run of which that is so has failed them.

use std::str::FromStr;

use results::load::{Facts, Judged};

use super::validity::nothing_measured;
use crate::measures::{Found, Measures};
use crate::record::Outcome;

/// What a run fails if it is so.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    expression: String,
    quantity: Quantity,
    comparison: Comparison,
    limit: f64,
    unit: Unit,
}

/// It can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{reason}; allowed: mean, max or a percentile such as p50, p95 or p99.9 and a time (p99 > 50ms, \
     max >= 1.5s), errors or timeouts and a part (errors > 1%, timeouts > 0.005), 2xx, 3xx, 4xx, 5xx or \
     non-2xx and a number or a part (5xx > 0, non-2xx > 1%), replies/s and a number (replies/s < 1000), with \
     >, >=, < or <="
)]
pub struct Misunderstood {
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    /// Of the waits, in milliseconds.
    Mean,
    /// Of the waits, in milliseconds.
    Percentile(f64),
    /// Calls that failed in whatever way, as a part of all.
    Errors,
    /// Calls that timed out, as a part of all.
    Timeouts,
    /// Replies with a status of this class.
    Status(usize),
    /// Replies with any other status than 2xx.
    NoSuccess,
    RepliesPerS,
}

/// In which a limit is, and what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Ms,
    /// Of one, in percent if the limit is.
    Part {
        percent: bool,
    },
    /// Of whole calls.
    Count,
    PerS,
}

/// Those that have a name. Percentiles are read by [`percentile`].
const QUANTITIES: [(&str, Quantity); 10] = [
    ("mean", Quantity::Mean),
    ("max", Quantity::Percentile(100.0)),
    ("errors", Quantity::Errors),
    ("timeouts", Quantity::Timeouts),
    ("2xx", Quantity::Status(2)),
    ("3xx", Quantity::Status(3)),
    ("4xx", Quantity::Status(4)),
    ("5xx", Quantity::Status(5)),
    ("non-2xx", Quantity::NoSuccess),
    ("replies/s", Quantity::RepliesPerS),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Those of two characters go before those that they begin with.
const COMPARISONS: [(&str, Comparison); 4] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

impl FromStr for Threshold {
    type Err = Misunderstood;

    fn from_str(text: &str) -> Result<Self, Misunderstood> {
        let no = |reason: String| Misunderstood { reason };
        let at = text.find(['<', '>']).ok_or_else(|| no(format!("{text:?} compares nothing")))?;
        let (name, rest) = text.split_at(at);
        let (sign, comparison) = COMPARISONS
            .into_iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(|| no(format!("{text:?} compares nothing")))?;
        let (name, value) = (name.trim(), rest[sign.len()..].trim());
        let named = QUANTITIES.into_iter().find(|(known, _)| *known == name).map(|(_, quantity)| quantity);
        let quantity = named.or_else(|| percentile(name).map(Quantity::Percentile));
        let quantity = quantity.ok_or_else(|| no(format!("{name:?} is not known")))?;
        let nothing = || {
            let is_time = matches!(quantity, Quantity::Mean | Quantity::Percentile(_));
            let lacks_unit = is_time && value.parse::<f64>().is_ok_and(|value| value >= 0.0);
            let hint =
                if lacks_unit { format!(" without a unit (such as {value}ms)") } else { String::new() };
            no(format!("{value:?} is nothing for {name}{hint}"))
        };
        let limit = quantity.limit(value).ok_or_else(nothing)?;
        let (limit, unit) = limit;
        Ok(Self { expression: text.trim().to_owned(), quantity, comparison, limit, unit })
    }
}

/// A percentile such as `p95` or `p99.9`, or `p999` for the latter.
fn percentile(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?;
    if !digits.bytes().all(|digit| digit.is_ascii_digit() || digit == b'.') {
        return None;
    }
    let with_point = match digits.split_at_checked(2) {
        Some(("99", decimals)) if !decimals.is_empty() && !digits.contains('.') => format!("99.{decimals}"),
        _ => digits.to_owned(),
    };
    let percent: f64 = with_point.parse().ok()?;
    (percent > 0.0 && percent <= 100.0).then_some(percent)
}

impl Quantity {
    /// A limit, and in which unit it is.
    fn limit(self, text: &str) -> Option<(f64, Unit)> {
        if let Self::Mean | Self::Percentile(_) = self {
            return units::parse_time(text).ok().map(|time| (time.as_micros() as f64 / 1e3, Unit::Ms));
        }
        let (number, is_percent) = text.strip_suffix('%').map_or((text, false), |number| (number, true));
        let number: f64 = number.trim().parse().ok()?;
        let (factor, most, unit) = match (self, is_percent) {
            (Self::Errors | Self::Timeouts | Self::Status(_) | Self::NoSuccess, true) => {
                (0.01, 1.0, Unit::Part { percent: true })
            }
            (Self::Errors | Self::Timeouts, false) => (1.0, 1.0, Unit::Part { percent: false }),
            (Self::Status(_) | Self::NoSuccess, false) => (1.0, f64::MAX, Unit::Count),
            (Self::RepliesPerS, false) => (1.0, f64::MAX, Unit::PerS),
            _ => return None,
        };
        Some((number * factor, unit)).filter(|(limit, _)| (0.0..=most).contains(limit))
    }

    /// What a run came to: the least and the most that it can be.
    fn of(self, unit: Unit, measures: &Measures, facts: &Facts) -> Option<(f64, f64)> {
        let Measures { cohort, flow, .. } = measures;
        let all = if unit == Unit::Count { 1 } else { cohort.issued };
        let exactly = |found: f64| (found, found);
        let part = |count: u64| (cohort.issued > 0).then(|| exactly(count as f64 / all as f64));
        let time = |found: Found| (found.ms, found.at_most_ms.unwrap_or(f64::INFINITY));
        match self {
            _ if nothing_measured(measures, facts).is_some() => None,
            Self::Mean => cohort.waits.mean().map(time),
            Self::Percentile(percent) => cohort.waits.percentile(percent).map(time),
            Self::Errors => part(cohort.outcomes.errors()),
            Self::Timeouts => part(cohort.outcomes.timeouts()),
            Self::Status(class) => part(cohort.statuses[class - 1]),
            Self::NoSuccess => part(cohort.statuses.iter().sum::<u64>() - cohort.statuses[1]),
            Self::RepliesPerS => Some(exactly(flow.replies() as f64 / facts.measured_s())),
        }
    }
}

impl Threshold {
    /// Whether it is a limit on statuses.
    pub fn is_on_statuses(&self) -> bool {
        matches!(self.quantity, Quantity::Status(_) | Quantity::NoSuccess)
    }

    /// Whether a limit tells of the server however short the generator was of its CPU: a limit to what came
    /// of calls, none of which failed in the generator, and not one to times or rates.
    pub fn is_of_the_server_alone(&self, measures: &Measures) -> bool {
        let outcomes = &measures.cohort.outcomes;
        match self.quantity {
            Quantity::Mean | Quantity::Percentile(_) | Quantity::RepliesPerS => false,
            Quantity::Errors | Quantity::Timeouts => {
                outcomes.of(Outcome::NoPort) + outcomes.of(Outcome::NoDescriptor) == 0
            }
            Quantity::Status(_) | Quantity::NoSuccess => true,
        }
    }

    fn judge(&self, measures: &Measures, facts: &Facts) -> Judged {
        let found = self.quantity.of(self.unit, measures, facts);
        let holds = found.is_some_and(|(_, found)| {
            // A call without a reply took as long as it can have taken: what is not known is no success.
            let is_so = match self.comparison {
                Comparison::Above => found > self.limit,
                Comparison::AtLeast => found >= self.limit,
                Comparison::Below => found < self.limit,
                Comparison::AtMost => found <= self.limit,
            };
            !is_so
        });
        let expression = self.expression.clone();
        let bound = found.filter(|(least, most)| least < most);
        let at_most = bound.map(|(_, most)| most).filter(|most| most.is_finite());
        Judged { expression, found: found.map(|(least, _)| least), bound: bound.is_some(), at_most, holds }
    }

    /// What a run came to, for people.
    pub fn told(&self, judged: &Judged) -> String {
        let verdict = if judged.holds { "kept" } else { "BROKEN" };
        let beside = |found: f64| units::print_beside(found, self.limit, 3);
        let found = match (judged.found, self.unit) {
            (None, _) => "nothing".to_owned(),
            (Some(found), Unit::Ms) => match judged.at_most {
                Some(most) => format!("{} to {} ms", beside(found), beside(most)),
                None if judged.bound => format!(">{} ms", beside(found)),
                None => format!("{} ms", beside(found)),
            },
            (Some(found), Unit::Part { percent: true }) => {
                format!("{}%", rounded(found * 100.0, self.limit * 100.0))
            }
            (Some(found), Unit::Part { percent: false }) => rounded(found, self.limit),
            (Some(found), Unit::Count) => format!("{found}"),
            (Some(found), Unit::PerS) => beside(found),
        };
        format!("{verdict}: found {found}; broken if {}", self.expression)
    }
}

/// With the digits that say something: at least three, so that one of many calls does not look like none, and
/// so many that it is seen on which side of the limit it is.
fn rounded(number: f64, limit: f64) -> String {
    let digits = (0..12).find(|digits| number * 10_f64.powi(*digits) >= 100.0 || number == 0.0).unwrap_or(12);
    let text = units::print_beside(number, limit, digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Holds a run against what was set to it: a judgement for each threshold.
pub fn judge(thresholds: &[Threshold], measures: &Measures, facts: &Facts) -> Vec<Judged> {
    thresholds.iter().map(|threshold| threshold.judge(measures, facts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::call;
    use crate::measures::{Recorder, Scope};
    use crate::record::Call;
    use crate::report::tests::sample;

    /// Of a hundred calls ninety took 2 ms from their intended start, and ten were given up as soon.
    #[test]
    fn a_run_is_held_against_limits() {
        let (mut measures, mut facts) = sample();
        let judged = |expression: &str, measures: &Measures, facts: &Facts| {
            expression.parse::<Threshold>().unwrap().judge(measures, facts)
        };
        let judge = |expression: &str| {
            let Judged { found, bound, holds, .. } = judged(expression, &measures, &facts);
            (found.map(|found| (found * 1000.0).round() / 1000.0), bound, holds)
        };
        assert_eq!(judge("errors > 10%"), (Some(0.1), false, true));
        assert_eq!(judge("errors>=0.1"), (Some(0.1), false, false));
        assert_eq!(judge("timeouts > 9.9 %"), (Some(0.1), false, false));
        assert_eq!(judge("replies/s < 9"), (Some(9.0), false, true));
        assert_eq!(judge("replies/s <= 9"), (Some(9.0), false, false));
        let gave_up = judge("p99 > 50ms");
        assert_eq!((gave_up.1, gave_up.2), (true, false), "who gave up might have waited for longer");
        assert!(!judge("mean > 1s").2);
        // The same without those that were given up.
        let mut recorder = Recorder::new(Scope { window: 0..u64::MAX, requests: 1 }, None);
        for number in 0..90 {
            recorder.call(&call(Outcome::Reply, number * 100_000_000, number * 100_000_000 + 1_000_000));
        }
        measures.cohort.waits = Measures::merge(vec![recorder]).cohort.waits;
        let judge = |expression: &str| {
            let judged = judged(expression, &measures, &facts);
            (judged.bound, judged.holds)
        };
        assert_eq!(judge("p99 > 2.1 ms"), (false, true));
        assert_eq!(judge("max > 1.9ms"), (false, false));
        assert_eq!(judge("mean >= 0.0019s"), (false, false));
        assert_eq!(judge("p50 < 2500us"), (false, false));
        assert_eq!(judge("p50 > 1min"), (false, true));
        assert_eq!(judge("p50 > 0"), (false, false));
        facts.warm_up_s = 20.0;
        assert_eq!(judged("p50 < 2500us", &measures, &facts).found, None);
        assert!(!judged("p50 < 2500us", &measures, &facts).holds, "nothing shows that it is kept");
    }

    /// Of a hundred calls ninety were answered.
    #[test]
    fn statuses_are_counted_and_told_in_the_limits_unit() {
        let (mut measures, facts) = sample();
        measures.cohort.statuses = [0, 60, 6, 4, 20];
        let told = |expression: &str| {
            let threshold: Threshold = expression.parse().unwrap();
            threshold.told(&threshold.judge(&measures, &facts))
        };
        for (expression, verdict) in [
            ("5xx > 0", "BROKEN: found 20; broken if 5xx > 0"),
            ("5xx > 20", "kept: found 20; broken if 5xx > 20"),
            ("5xx > 19.5%", "BROKEN: found 20%; broken if 5xx > 19.5%"),
            ("4xx>=4", "BROKEN: found 4; broken if 4xx>=4"),
            ("3xx > 6%", "kept: found 6%; broken if 3xx > 6%"),
            ("2xx < 60", "kept: found 60; broken if 2xx < 60"),
            ("2xx < 61%", "BROKEN: found 60%; broken if 2xx < 61%"),
            ("non-2xx > 0", "BROKEN: found 30; broken if non-2xx > 0"),
            ("non-2xx > 30%", "kept: found 30%; broken if non-2xx > 30%"),
            ("errors > 1%", "BROKEN: found 10%; broken if errors > 1%"),
            ("errors > 0.01", "BROKEN: found 0.1; broken if errors > 0.01"),
            ("replies/s > 8", "BROKEN: found 9.000; broken if replies/s > 8"),
        ] {
            assert_eq!(told(expression), verdict);
        }
        let known = told("p50 > 1s");
        assert!(known.starts_with("kept: found 2.") && known.ends_with(" ms; broken if p50 > 1s"), "{known}");
        let bound = told("p99 > 1s");
        assert!(
            bound.starts_with("BROKEN: found >2.") && bound.ends_with(" ms; broken if p99 > 1s"),
            "{bound}"
        );
    }

    /// Of a thousand calls ten are cut short at once.
    #[test]
    fn one_fast_failure_breaks_no_limit_that_the_others_keep() {
        let (mut measures, facts) = sample();
        let mut recorder = Recorder::new(Scope { window: 0..u64::MAX, requests: 1 }, None);
        for number in 0..1000 {
            let begun = call(if number % 100 == 0 { Outcome::CutShort } else { Outcome::Reply }, 0, 290_000);
            recorder.call(&Call { intended: 0, gives_up: 1_000_000_000, ..begun });
        }
        measures.cohort.waits = Measures::merge(vec![recorder]).cohort.waits;
        let told = |expression: &str| {
            let threshold: Threshold = expression.parse().unwrap();
            threshold.told(&threshold.judge(&measures, &facts))
        };
        for (expression, verdict) in [
            ("p50 > 50ms", "kept: found 0.290 ms; broken if p50 > 50ms"),
            ("p99 > 50ms", "kept: found 0.290 ms; broken if p99 > 50ms"),
            ("p99 > 0.2ms", "BROKEN: found 0.290 ms; broken if p99 > 0.2ms"),
            ("p99.5 > 50ms", "BROKEN: found >0.290 ms; broken if p99.5 > 50ms"),
            ("max > 50ms", "BROKEN: found >0.290 ms; broken if max > 50ms"),
            ("mean > 50ms", "kept: found 0.290 to 10.287 ms; broken if mean > 50ms"),
            ("mean > 5ms", "BROKEN: found 0.290 to 10.287 ms; broken if mean > 5ms"),
            ("mean < 1ms", "kept: found 0.290 to 10.287 ms; broken if mean < 1ms"),
        ] {
            assert_eq!(told(expression), verdict);
        }
    }

    #[test]
    fn every_percentile_has_a_name() {
        let percents =
            ["p50", "p95", "p5", "p99.9", "p999", "p9999", "p99.99", "p100", "p995"].map(percentile);
        let expected = [50.0, 95.0, 5.0, 99.9, 99.9, 99.99, 99.99, 100.0, 99.5].map(Some);
        assert_eq!(percents, expected);
        for wrong in
            ["p", "p0", "p00", "p-5", "p100.5", "pNaN", "p+5", "pinf", "q50", "p5e1", "50", "pé5", "p101"]
        {
            assert_eq!(percentile(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn one_of_many_does_not_look_like_none() {
        let told = [0.0, 100.0, 99.996, 33.333_333, 0.5, 0.000_123_456, 1e-20];
        let told = told.map(|number| rounded(number, 7.0));
        assert_eq!(told, ["0", "100", "100", "33.3", "0.5", "0.000123", "0"]);
        assert_eq!((rounded(5.000_4, 5.0), rounded(5.0, 5.0)), ("5.0004".to_owned(), "5".to_owned()));
    }

    #[test]
    fn what_is_allowed_is_told() {
        for (text, told) in [
            ("p99", "\"p99\" compares nothing; allowed: mean, max"),
            ("p0 > 1ms", "\"p0\" is not known; allowed"),
            ("p1e1 > 1ms", "\"p1e1\" is not known; allowed"),
            ("p100.1 > 1ms", "\"p100.1\" is not known; allowed"),
            ("p98 > 1", "\"1\" is nothing for p98 without a unit (such as 1ms); allowed"),
            ("p99 > 50", "\"50\" is nothing for p99 without a unit (such as 50ms); allowed"),
            ("p99 > -5ms", "\"-5ms\" is nothing for p99"),
            ("p99 > NaNms", "\"NaNms\" is nothing for p99"),
            ("errors > 3", "\"3\" is nothing for errors"),
            ("errors > 101%", "\"101%\" is nothing for errors"),
            ("5xx > 101%", "\"101%\" is nothing for 5xx"),
            ("2xx < 5ms", "\"5ms\" is nothing for 2xx"),
            ("6xx > 0", "\"6xx\" is not known; allowed"),
            ("replies/s < 5%", "\"5%\" is nothing for replies/s"),
            ("replies/s <", "\"\" is nothing for replies/s"),
            (">", "\"\" is not known"),
        ] {
            let error = text.parse::<Threshold>().unwrap_err().to_string();
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }
}
