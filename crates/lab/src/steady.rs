//! Whether a server was in a steady state when it was measured. One that warms up for longer than the trials
//! take would be measured at something that nobody will see in use.
//!
//! Two things are looked at. In all rounds together: whether the end of the measured time differs from its
//! beginning. And, if the experiment has it settle: whether it differs, after a long run, from what it was in
//! the time that trials are measured in.

use serde::{Deserialize, Serialize};

use crate::experiment::Lengths;
use crate::outcome::Outcome;
use crate::series::Series;
use crate::statistics::{Ratio, Spread};

/// What a change between the beginning and the end of trials has to exceed, as a part of one.
const DRIFT: f64 = 0.05;

/// What a change between trials and a long run has to exceed: that is one run, which knows no interval.
const SETTLING: f64 = 0.10;

/// Replies in each second of a long run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settling {
    /// Since the load began.
    pub replies: Vec<f64>,
}

/// What trials say against a server being steady: in all rounds, the second half of the measured time differs
/// from the first.
pub fn drift(series: &Series) -> Option<String> {
    let halves = |outcome: &Outcome| {
        let rates: Vec<f64> = match outcome.slices.len() {
            0..=1 => outcome.seconds.clone(),
            _ => outcome.slices.iter().map(|slice| slice.replies_per_s).collect(),
        };
        let half = rates.len() / 2;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
        (half > 0).then(|| mean(&rates[rates.len() - half..]) / mean(&rates[..half]))
    };
    let ratio = Ratio::of(series.taken().filter_map(|taken| halves(&taken.outcome)))?;
    let changes = ratio.is_below_one(DRIFT) || ratio.is_above_one(DRIFT);
    changes.then(|| {
        format!(
            "{} is not stationary: the second half of each trial has {ratio:.3} times the replies of \
             the first",
            series.server.name
        )
    })
}

impl Settling {
    /// What it says against trials of such lengths.
    pub fn against(&self, server: &str, lengths: Lengths) -> Option<String> {
        let second = |time: std::time::Duration| time.as_secs_f64().ceil() as usize;
        let begin = second(lengths.warm_up);
        let in_trials = begin..(begin + second(lengths.measured)).min(self.replies.len());
        let median = |seconds: &[f64]| Spread::of(seconds.iter().copied()).map(|spread| spread.median);
        let early = median(self.replies.get(in_trials)?)?;
        let late = median(&self.replies[self.replies.len() - self.replies.len().min(5)..])?;
        let change = late / early;
        let changes = (change - 1.0).abs() > SETTLING;
        changes.then(|| {
            format!(
                "{server} is not stationary: after {} s it answers {change:.2} times as much as in the time \
                 that trials are measured in; give it a longer warm_up",
                self.replies.len()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outcome::tests::outcome;
    use crate::series::Taken;
    use crate::series::tests::in_rounds;

    fn of(seconds: &[f64]) -> Series {
        let round = |noise: f64| {
            let mut outcome = outcome(1.0);
            outcome.seconds = seconds.iter().map(|replies| replies * noise).collect();
            Taken::of(vec![outcome])
        };
        in_rounds("one", [1.0, 1.1, 0.9, 1.0, 1.2, 0.8].map(round).into())
    }

    #[test]
    fn a_server_that_gets_faster_in_each_trial_is_not_steady() {
        assert_eq!(drift(&of(&[100.0, 101.0, 99.0, 100.0])), None);
        let said = drift(&of(&[60.0, 80.0, 100.0, 120.0])).unwrap();
        assert!(said.contains("has 1.571"), "{said}");
        assert_eq!(drift(&of(&[])), None);
    }

    #[test]
    fn a_server_that_is_slow_for_as_long_as_trials_take_is_not_steady() {
        let lengths = Lengths {
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs(4),
            timeout: Duration::from_secs(1),
            slices: 4,
        };
        let settling = |slow: usize| {
            let replies = (0..25).map(|second| if second < slow { 50.0 } else { 100.0 }).collect();
            Settling { replies }.against("one", lengths)
        };
        assert_eq!(settling(0), None);
        // The warm-up is there for it.
        assert_eq!(settling(1), None);
        assert!(settling(19).unwrap().contains("answers 2.00 times"));
        assert_eq!(Settling { replies: Vec::new() }.against("one", lengths), None);
    }
}
