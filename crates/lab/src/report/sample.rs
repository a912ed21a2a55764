//! The values of one quantity in the trials of one server at one point. Invalid and failed trials are kept
//! apart: they are shown, but never included in an average.

use crate::analysis::series::Series;
use crate::record::outcome::Outcome;
use crate::statistics::{Interval, Ratio};

/// A figure of a trial.
pub(crate) type Value = fn(&Outcome) -> f64;

/// Values of all trials.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) counted: Vec<f64>,
    pub(crate) uncounted: Vec<f64>,
}

/// Whether an outcome is included in averages.
pub(crate) fn counts(outcome: &Outcome) -> bool {
    outcome.is_valid() && outcome.is_good()
}

impl Sample {
    pub(crate) fn of(series: &Series, value: impl Fn(&Outcome) -> f64) -> Self {
        let (counted, uncounted): (Vec<&Outcome>, Vec<&Outcome>) =
            series.tries().partition(|outcome| counts(outcome));
        // Unknown values (NaN) are left out.
        let values = |outcomes: Vec<&Outcome>| {
            outcomes.into_iter().map(&value).filter(|value| !value.is_nan()).collect()
        };
        Self { counted: values(counted), uncounted: values(uncounted) }
    }

    /// The median and its interval.
    pub(crate) fn middle(&self) -> Option<(f64, Option<Interval>)> {
        // It uses the same order statistics as ratios.
        Ratio::of(self.counted.iter().copied()).map(|middle| (middle.median, middle.interval))
    }

    pub(crate) fn median(&self) -> Option<f64> {
        self.middle().map(|(median, _)| median)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = f64> {
        self.counted.iter().chain(&self.uncounted).copied()
    }

    /// The median with its interval: `median (lower to upper)`.
    pub(crate) fn told(&self) -> String {
        match self.middle() {
            Some((median, Some(Interval { lower, upper }))) => {
                format!("{} ({} to {})", digits(median), digits(lower), digits(upper))
            }
            middle => cell(middle.map(|(median, _)| median)),
        }
    }

    /// All values; those that don't count are in brackets.
    pub(crate) fn listed(&self) -> String {
        let counted = self.counted.iter().map(|value| digits(*value));
        let uncounted = self.uncounted.iter().map(|value| format!("[{}]", digits(*value)));
        counted.chain(uncounted).collect::<Vec<_>>().join(" ")
    }
}

/// A table cell for a value, or for none.
pub(crate) fn cell(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), digits)
}

/// A value with enough digits to compare it with others.
pub(crate) fn digits(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        ..0.1 => 4,
        ..1.0 => 3,
        ..10.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::series::Taken;
    use crate::tests::in_rounds;
    use crate::tests::{outcome, outcome_but};

    #[test]
    fn what_does_not_count_is_shown_and_not_averaged_in() {
        let mut failed = outcome(9.0);
        failed.failed.push("unfairness".to_owned());
        let rounds = vec![
            Taken::of(vec![outcome_but(100.0, &["late"]), outcome(1.0)]),
            Taken::of(vec![outcome(3.0)]),
            Taken::of(vec![failed]),
            None,
        ];
        let sample = Sample::of(&in_rounds("one", rounds), |of| of.replies_per_s);
        assert_eq!((sample.median(), sample.told().as_str()), (Some(2.0), "2.00"));
        assert_eq!(sample.listed(), "1.00 3.00 [100.0] [9.00]");
        let nothing = Sample::of(&in_rounds("one", vec![None; 6]), |of| of.replies_per_s);
        assert_eq!((nothing.told().as_str(), nothing.listed().as_str()), ("–", ""));
        let six = Sample { counted: vec![1.0, 2.0, 3.0, 4.0, 5.0, 1234.5], uncounted: vec![] };
        assert_eq!(six.told(), "3.50 (1.00 to 1234)");
    }
}
