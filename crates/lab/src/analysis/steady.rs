//! Checks whether a server was in a steady state when it was measured. If a server warms up for longer than
//! its trials last, the figures would not be those of normal use.
//!
//! There are two checks. The first compares the end of the measured time with its beginning, over all
//! rounds. The second applies if the experiment has `settling`: it compares the end of a long run with the
//! time that trials are measured in. In a single run the machine itself may have changed, and one run gives
//! no interval. So a suspect server runs again, and only a change that recurs each time counts as the
//! server's.

use serde::{Deserialize, Serialize};

use crate::analysis::series::{Found, Series, Taken};
use crate::description::lengths::Lengths;
use crate::description::quantity::Quantity;
use crate::record::outcome::Outcome;
use crate::statistics::{Ratio, median, two_states};

/// The smallest change between the beginning and the end of trials that counts, as a fraction.
const DRIFT: f64 = 0.05;

/// The smallest change between the trials' time and the end of a long run that counts, as a fraction.
const SETTLING: f64 = 0.10;

/// The number of long runs that have to show the change.
const WATCHES: usize = 3;

/// The results of a server's long runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settling {
    /// Replies in each second of each run, since the load began.
    pub runs: Vec<Vec<f64>>,
}

/// A reason against the server's trials, if the server is not steady: in all rounds, the second half of the
/// measured time differs from the first.
pub fn drift(series: &Series) -> Option<String> {
    let halves = |outcome: &Outcome| {
        let rates: Vec<f64> = match outcome.slices.len() {
            0..=1 => outcome.replies_each_second.clone(),
            _ => outcome.slices.iter().map(|slice| slice.replies_per_s).collect(),
        };
        let half = rates.len() / 2;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
        (half > 0).then(|| mean(&rates[rates.len() - half..]) / mean(&rates[..half]))
    };
    let ratio = Ratio::of(series.outcomes().filter_map(halves))?;
    ratio.is_off(DRIFT).then(|| {
        format!(
            "{} is not stationary: the second half of each trial has {ratio:.3} times the replies of \
             the first",
            series.server.name
        )
    })
}

/// A message if the figure jumps between two states, so that one median does not describe it. It uses
/// slices if they have the figure, or else rounds.
pub fn jump(series: &Series, found: &Found, quantity: Quantity) -> Option<String> {
    let has_slices = series.outcomes().any(|outcome| !outcome.slices.is_empty());
    let slices = quantity.of_slice().filter(|_| has_slices);
    let values: Vec<f64> = match slices {
        Some(of) => series.outcomes().flat_map(|outcome| outcome.slices.iter().map(of)).collect(),
        None => series.outcomes().map(quantity.of).collect(),
    };
    let [lower, upper] = two_states(&values)?.map(|state| (quantity.told(state.mean), state.count));
    let what = if slices.is_some() { "slices" } else { "rounds" };
    Some(format!(
        "{} of {} jumps between two states at {}: {} in {} {what}, and {} in {}; a median hides that",
        quantity.name, series.server.name, found.point.name, lower.0, lower.1, upper.0, upper.1
    ))
}

/// Whether a server jumps alone: the ratios of its slices to those of the point's first server, in the same
/// rounds, jump too. If all servers jump together, for example because the machine slows down, the ratios
/// do not jump.
pub fn jumps_alone(series: &Series, found: &Found, quantity: Quantity) -> bool {
    let Some(first) = found.series.first().filter(|first| first.server.name != series.server.name) else {
        return false;
    };
    let Some(of) = quantity.of_slice() else { return true };
    let slices = |taken: &Taken| taken.outcome.slices.iter().map(of).collect::<Vec<f64>>();
    let both = series.rounds.iter().zip(&first.rounds);
    let ratios: Vec<f64> = both
        .filter_map(|(own, beside)| own.as_ref().zip(beside.as_ref()))
        .flat_map(|(own, beside)| slices(own).into_iter().zip(slices(beside)))
        .map(|(own, beside)| own / beside)
        .collect();
    ratios.is_empty() || two_states(&ratios).is_some()
}

impl Settling {
    /// Whether another run is needed to decide.
    pub fn is_open(&self, lengths: Lengths) -> bool {
        self.runs.is_empty() || self.runs.len() < WATCHES && self.change(lengths).is_some()
    }

    /// A reason against trials of such lengths, if the server is not steady.
    pub fn against(&self, server: &str, lengths: Lengths) -> Option<String> {
        let change = self.change(lengths)?;
        Some(format!(
            "{server} is not stationary: after {} s its rate is {change:.2} times the rate in the measured \
            time of trials ({} runs); set a longer warm_up",
            self.runs.first()?.len(),
            self.runs.len(),
        ))
    }

    /// How much the server's replies changed, if they did so in all runs, and in the same direction.
    fn change(&self, lengths: Lengths) -> Option<f64> {
        let changes: Vec<f64> = self.runs.iter().filter_map(|run| change(run, lengths)).collect();
        let all = |changed: fn(f64) -> bool| changes.iter().all(|change| changed(*change));
        let have_changed = all(|change| change > 1.0 + SETTLING) || all(|change| change < 1.0 - SETTLING);
        median(changes).filter(|_| have_changed)
    }
}

/// The rate at the end of a run, divided by the rate in the time that trials are measured in.
fn change(run: &[f64], lengths: Lengths) -> Option<f64> {
    let second = |time: std::time::Duration| time.as_secs_f64().ceil() as usize;
    let begin = second(lengths.warm_up);
    let in_trials = begin..(begin + second(lengths.measured)).min(run.len());
    let early = median(run.get(in_trials)?.iter().copied())?;
    let late = median(run[run.len() - run.len().min(5)..].iter().copied())?;
    Some(late / early)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::analysis::series::Taken;
    use crate::description::experiment::Experiment;
    use crate::description::quantity::COST;
    use crate::record::outcome::Slice;
    use crate::tests::in_rounds;
    use crate::tests::outcome;

    fn of(seconds: &[f64]) -> Series {
        let round = |noise: f64| {
            let mut outcome = outcome(1.0);
            outcome.replies_each_second = seconds.iter().map(|replies| replies * noise).collect();
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

    /// Six rounds of four slices each. The second and the last slice have this cost.
    fn jumping(name: &str, to: f64) -> Series {
        let slice = |cpu_server_us_per_reply: f64| Slice { cpu_server_us_per_reply, replies_per_s: 1.0 };
        let mut outcome = outcome(1.0);
        outcome.slices = [27.0, to, 27.5, to].map(slice).into();
        in_rounds(name, vec![Taken::of(vec![outcome]); 6])
    }

    fn found(series: Vec<Series>) -> Found {
        let text = "title = 't'\nservers = ['nginx']\n[[points]]\nworkload = 'single'\nload = '2x'";
        let point = Experiment::parse(text).unwrap().points.remove(0);
        Found { point, series, missing: 0 }
    }

    #[test]
    fn figures_that_jump_between_two_states_are_told() {
        let told = |to: f64| jump(&jumping("one", to), &found(Vec::new()), COST);
        assert_eq!(
            told(37.0).unwrap(),
            "CPU us/reply of one jumps between two states at single, 2x: 27.25 in 12 slices, and 37.00 in \
             12; a median hides that"
        );
        assert_eq!(told(28.0), None);
    }

    #[test]
    fn servers_that_jump_together_do_not_hide_what_one_is_to_the_other() {
        let alone = |first: f64, one: f64| {
            let found = found(vec![jumping("first", first), jumping("one", one)]);
            [0, 1].map(|at| jumps_alone(&found.series[at], &found, COST))
        };
        assert_eq!(alone(37.0, 37.0), [false, false]);
        assert_eq!(alone(28.0, 37.0), [false, true]);
        assert_eq!(alone(37.0, 28.0), [false, true], "the first jumps, and so does their ratio");
    }

    #[test]
    fn a_server_that_is_slow_for_as_long_as_trials_take_is_not_steady() {
        let lengths = Lengths {
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs(4),
            timeout: Duration::from_secs(1),
            slices: 4,
        };
        let run = |slow: usize| (0..25).map(|second| if second < slow { 50.0 } else { 100.0 }).collect();
        let settling = |runs: &[usize]| {
            let settling = Settling { runs: runs.iter().map(|slow| run(*slow)).collect() };
            (settling.is_open(lengths), settling.against("one", lengths))
        };
        assert_eq!(settling(&[0]), (false, None));
        // The warm-up covers that change.
        assert_eq!(settling(&[1]), (false, None));
        let (is_open, said) = settling(&[19]);
        assert!(is_open && said.unwrap().contains("its rate is 2.00 times"));
        let (is_open, said) = settling(&[19, 18, 17]);
        assert!(!is_open && said.unwrap().contains("(3 runs)"));
        // A change that does not recur is the machine's.
        assert_eq!(settling(&[19, 0]), (false, None));
        assert_eq!(settling(&[]), (true, None));
        let backwards = Settling { runs: vec![run(19), run(19).into_iter().rev().collect()] };
        assert_eq!((backwards.is_open(lengths), backwards.against("one", lengths)), (false, None));
    }
}
