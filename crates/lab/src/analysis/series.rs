//! A server's trials at one point, round by round, and how they compare with another server's. These are
//! the cells of tables.

use serde::Serialize;

use crate::description::experiment::PointSpec;
use crate::record::outcome::Outcome;
use crate::servers::spec::Spec;
use crate::statistics::{Ratio, median};

/// One server's trials at one point, in order of the rounds.
#[derive(Debug, Serialize)]
pub struct Series {
    /// The server.
    pub server: Spec,
    /// `None`: not measured yet.
    pub rounds: Vec<Option<Taken>>,
    /// The trials of the point's first server that ran concurrently with these, if there were any.
    pub beside: Option<Vec<Option<Outcome>>>,
}

/// The measurements of a point.
#[derive(Debug, Serialize)]
pub struct Found {
    /// The point.
    pub point: PointSpec,
    /// The series of each server that has measurements, and of the first server. Empty if no server has
    /// any.
    pub series: Vec<Series>,
    /// The number of trials that are not measured yet.
    pub missing: usize,
}

/// A trial, with all its tries.
#[derive(Clone, Debug, Serialize)]
pub struct Taken {
    /// The last try: the valid one, if there is one.
    pub outcome: Outcome,
    /// The tries that did not count.
    pub before: Vec<Outcome>,
}

impl Taken {
    /// `None` without tries.
    pub fn of(mut tries: Vec<Outcome>) -> Option<Self> {
        let outcome = tries.pop()?;
        Some(Self { outcome, before: tries })
    }

    /// All tries.
    pub fn tries(&self) -> impl Iterator<Item = &Outcome> {
        self.before.iter().chain([&self.outcome])
    }
}

/// The mark after a figure, if the figure rests on an invalid trial.
pub(crate) fn mark(is_valid: bool) -> &'static str {
    if is_valid { "" } else { "!" }
}

impl Series {
    /// Whether nothing has been measured yet.
    pub fn is_empty(&self) -> bool {
        self.rounds.iter().all(Option::is_none)
    }

    /// Whether all rounds are measured.
    pub fn is_whole(&self) -> bool {
        self.missing() == 0
    }

    /// The number of rounds that are not measured yet.
    pub fn missing(&self) -> usize {
        self.rounds.iter().filter(|round| round.is_none()).count()
    }

    /// The measured trials, in order of the rounds.
    pub fn taken(&self) -> impl Iterator<Item = &Taken> {
        self.rounds.iter().flatten()
    }

    /// All tries, in order of the rounds.
    pub fn tries(&self) -> impl Iterator<Item = &Outcome> {
        self.taken().flat_map(Taken::tries)
    }

    /// The outcome of each trial that counts.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.taken().map(|taken| &taken.outcome)
    }

    /// Whether the generator calls all outcomes valid.
    pub fn is_valid(&self) -> bool {
        self.outcomes().all(Outcome::is_valid)
    }

    /// Whether the clients were short of CPU in some round, those of this server or those of the first
    /// server beside it.
    pub fn were_clients_short(&self) -> bool {
        self.outcomes().chain(self.outcomes_beside()).any(|outcome| !outcome.clients_were_short.is_empty())
    }

    /// The outcomes of the point's first server beside it.
    fn outcomes_beside(&self) -> impl Iterator<Item = &Outcome> {
        self.beside.iter().flatten().flatten()
    }

    /// Whether all rounds are measured, valid and good.
    pub fn counts(&self) -> bool {
        self.is_whole() && self.is_valid() && self.failures().is_empty()
    }

    /// The reasons of the rounds that failed.
    pub fn failures(&self) -> Vec<&str> {
        self.outcomes()
            .chain(self.outcomes_beside())
            .flat_map(|outcome| &outcome.failed)
            .map(String::as_str)
            .collect()
    }

    /// The median over the good rounds.
    pub fn median(&self, value: impl Fn(&Outcome) -> f64) -> Option<f64> {
        let values = self.outcomes().filter(|outcome| outcome.is_good()).map(value);
        // Unknown values (NaN) do not count.
        median(values.filter(|value| !value.is_nan()))
    }

    /// The ratio of this server's values to those of `other` at the same point, in pairs of the same round.
    pub fn ratio(&self, other: &Self, value: impl Fn(&Outcome) -> f64) -> Option<Ratio> {
        Ratio::of(self.quotients(other, value))
    }

    /// The quotient of each round, this server's value over that of `other`.
    pub fn quotients(&self, other: &Self, value: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        let rounds = 0..self.rounds.len().min(other.rounds.len());
        rounds.filter_map(|round| self.quotient(other, round, &value)).collect()
    }

    /// This server's value over that of `other` in one round. If they ran at different times, each value is
    /// first divided by that of the point's first server beside it.
    fn quotient(&self, other: &Self, round: usize, value: impl Fn(&Outcome) -> f64) -> Option<f64> {
        Some(self.beside_first(round, &value)? / other.beside_first(round, &value)?)
    }

    /// This server's value in one round, divided by that of the first server beside it, if there was one.
    pub(crate) fn beside_first(&self, round: usize, value: impl Fn(&Outcome) -> f64) -> Option<f64> {
        let own = self.alone(round, &value)?;
        let Some(beside) = &self.beside else { return Some(own) };
        let beside = beside.get(round)?.as_ref()?;
        beside.is_good().then(|| own / value(beside))
    }

    /// This server's value in one round, without regard to the first server.
    pub(crate) fn alone(&self, round: usize, value: impl Fn(&Outcome) -> f64) -> Option<f64> {
        let outcome = &self.rounds.get(round)?.as_ref()?.outcome;
        outcome.is_good().then(|| value(outcome))
    }

    /// A table cell with the median.
    pub fn median_cell(&self, value: impl Fn(&Outcome) -> f64, digits: usize) -> String {
        let mark = mark(self.is_valid());
        self.median(value).map_or_else(String::new, |median| format!("{median:.digits$}{mark}"))
    }

    /// A table cell with the ratio to `other`, and its interval.
    pub fn ratio_cell(&self, other: &Self, value: impl Fn(&Outcome) -> f64) -> String {
        if std::ptr::eq(self, other) {
            return "1".to_owned();
        }
        let mark = mark(self.is_valid() && other.is_valid());
        self.ratio(other, value).map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}{mark}"))
    }

    /// A table cell with the number of invalid tries and, if there are any, how many of those count because
    /// no valid try exists.
    pub fn invalid(&self) -> String {
        let of_all = self.tries().filter(|outcome| !outcome.is_valid()).count();
        let of_these = self.outcomes().filter(|outcome| !outcome.is_valid()).count();
        if of_these == 0 { of_all.to_string() } else { format!("{of_all} ({of_these})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{outcome, outcome_but, series};

    #[test]
    fn a_ratio_is_of_pairs_of_the_same_round() {
        let one = series("one", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let mut other = series("other", &[2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(one.ratio_cell(&other, |of| of.replies_per_s), "0.500 (0.500 to 0.500)");
        assert_eq!(one.ratio_cell(&one, |of| of.replies_per_s), "1");
        other.rounds[0] = None;
        assert_eq!(one.ratio_cell(&other, |of| of.replies_per_s), "0.500");
        assert_eq!((other.missing(), other.median_cell(|of| of.replies_per_s, 1)), (1, "8.0".to_owned()));
    }

    #[test]
    fn what_was_measured_at_other_times_is_compared_by_what_was_measured_beside() {
        let beside = |name: &str, own: f64, first: f64| Series {
            beside: Some(vec![Some(outcome(first)); 6]),
            ..series(name, &[own; 6])
        };
        let (first, one) = (beside("first", 10.0, 10.0), beside("one", 9.0, 10.0));
        // The machine was half as fast.
        let other = beside("other", 6.0, 5.0);
        assert_eq!(one.ratio_cell(&first, |of| of.replies_per_s), "0.900 (0.900 to 0.900)");
        assert_eq!(other.ratio_cell(&one, |of| of.replies_per_s), "1.333 (1.333 to 1.333)");
    }

    #[test]
    fn what_rests_on_an_invalid_trial_is_marked() {
        let (one, mut other) = (series("one", &[1.0; 6]), series("other", &[2.0; 6]));
        other.rounds[3] = Taken::of(vec![outcome_but(2.0, &["late"]), outcome_but(2.0, &["late"])]);
        assert_eq!(other.median_cell(|of| of.replies_per_s, 0), "2!");
        assert_eq!(one.ratio_cell(&other, |of| of.replies_per_s), "0.500 (0.500 to 0.500)!");
        assert_eq!((one.invalid(), other.invalid()), ("0".to_owned(), "2 (1)".to_owned()));
    }
}
