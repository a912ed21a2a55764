//! When sessions arrive: at a rate that may change over time, with gaps of some distribution around it; or at
//! times that a log has kept.
//!
//! What a rate asks for is drawn in *operational time*, in which one session arrives per unit on average:
//! gaps of mean 1 are summed, and each sum is mapped to the moment by which the rate has brought that many
//! sessions. So exponential gaps give a Poisson process for any course of the rate, and fixed gaps are
//! exactly as long as the rate of the moment says.
//!
//! Such a schedule depends on its seed alone. Each thread goes through the whole of it and plays its own
//! share, so that the arrivals are the same however many threads there are.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Exp1, Uniform};
use rand_pcg::Pcg64Mcg;

use crate::record::{Nanos, nanos};

/// How gaps between arrivals are distributed around their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponentially: independent clients, a Poisson process. httperf's `--period=e`.
    #[default]
    Exponential,
    /// Uniformly between none and twice the mean. httperf's `--period=u`.
    Uniform,
    /// All alike. httperf's `--rate`.
    Fixed,
}

/// Sessions per second in the course of time: straight lines from one to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    steps: Vec<Step>,
}

/// A part of a [`Rate`], which goes evenly from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Sessions per second when it begins.
    pub from: f64,
    /// Sessions per second when it ends.
    pub to: f64,
    /// How long it takes; `None`: the rest of the run, at `from`.
    pub duration: Option<Duration>,
}

/// A rate can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not a number above 0, or not a finite one.
    #[error("a rate must be a number above 0")]
    Value,
    /// There is no step, one after a step without an end, or one that changes without an end.
    #[error(
        "a rate needs at least one step; all but the last, and every one that changes, need a duration above \
         0"
    )]
    Steps,
}

impl Rate {
    /// A rate that never changes, in sessions per second.
    ///
    /// # Errors
    ///
    /// It is not a number above 0.
    pub fn constant(per_second: f64) -> Result<Self, RateError> {
        Self::steps(vec![Step { from: per_second, to: per_second, duration: None }])
    }

    /// One step after the other; after the last the rate stays what it ended with.
    ///
    /// # Errors
    ///
    /// A value is not a number above 0 (0 is allowed at one end of a step), or a step that is not the last
    /// has no duration.
    pub fn steps(steps: Vec<Step>) -> Result<Self, RateError> {
        let valued = |step: &Step| {
            step.from.is_finite()
                && step.to.is_finite()
                && step.from >= 0.0
                && step.to >= 0.0
                && step.from.max(step.to) > 0.0
                && (step.duration.is_some() || step.from > 0.0)
        };
        if !steps.iter().all(valued)
            || steps.last().is_some_and(|last| last.duration.is_some() && last.to <= 0.0)
        {
            return Err(RateError::Value);
        }
        if steps.iter().any(|step| step.duration.is_none() && step.from.to_bits() != step.to.to_bits()) {
            return Err(RateError::Steps);
        }
        let timed = |step: &Step| step.duration.is_some_and(|duration| !duration.is_zero());
        let Some((last, before)) = steps.split_last() else { return Err(RateError::Steps) };
        if !before.iter().all(timed) || last.duration.is_some_and(|duration| duration.is_zero()) {
            return Err(RateError::Steps);
        }
        Ok(Self { steps })
    }

    /// This rate with all values multiplied by `factor`.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let scaled = |step: &Step| Step { from: step.from * factor, to: step.to * factor, ..*step };
        Self { steps: self.steps.iter().map(scaled).collect() }
    }

    /// Sessions per second at a time.
    pub fn at(&self, time: Duration) -> f64 {
        let mut left = time.as_secs_f64();
        for step in &self.steps {
            let Some(length) = step.duration.map(|duration| duration.as_secs_f64()) else { return step.from };
            if left < length {
                return step.from + (step.to - step.from) * left / length;
            }
            left -= length;
        }
        self.steps.last().map_or(0.0, |last| last.to)
    }

    /// How many sessions are due by a time.
    pub fn due_by(&self, time: Duration) -> f64 {
        let mut left = time.as_secs_f64();
        let mut due = 0.0;
        for step in &self.steps {
            let Some(length) = step.duration.map(|duration| duration.as_secs_f64()) else {
                return due + step.from * left;
            };
            let spent = left.min(length);
            due += (step.from + (step.to - step.from) * spent / length / 2.0) * spent;
            left -= spent;
            if left <= 0.0 {
                return due;
            }
        }
        due + self.steps.last().map_or(0.0, |last| last.to) * left
    }

    /// When so many sessions are due, in seconds.
    fn time_of(&self, due: f64) -> f64 {
        let (mut left, mut begins) = (due, 0.0);
        for step in &self.steps {
            let Some(length) = step.duration.map(|duration| duration.as_secs_f64()) else {
                return begins + left / step.from;
            };
            let all = f64::midpoint(step.from, step.to) * length;
            if left <= all {
                return begins + within(step, length, left);
            }
            left -= all;
            begins += length;
        }
        begins + left / self.steps.last().map_or(1.0, |last| last.to)
    }
}

/// How far into a step so many sessions are due: the root of `slope/2 t^2 + from t = due` that lies in it.
fn within(step: &Step, length: f64, due: f64) -> f64 {
    let slope = (step.to - step.from) / length;
    // This form of the root divides by nothing small, whether the line is steep or level.
    let root = (step.from * step.from + 2.0 * slope * due).max(0.0).sqrt();
    let divisor = step.from + root;
    if divisor > 0.0 { (2.0 * due / divisor).min(length) } else { 0.0 }
}

/// The arrivals of a run, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Around a rate. Endless.
    Drawn(Drawn),
    /// When a log says.
    Logged(Logged),
}

/// Arrivals around a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    rate: Rate,
    arrivals: Arrivals,
    random: Pcg64Mcg,
    /// Operational time of the next arrival.
    due: f64,
}

/// Arrivals at times that are known, and don't go back.
#[derive(Clone, Debug, PartialEq)]
pub struct Logged {
    times: Arc<[Nanos]>,
    /// The place of the next one.
    next: usize,
}

impl Schedule {
    /// The arrivals at that rate that belong to a seed.
    pub fn drawn(rate: Rate, arrivals: Arrivals, seed: u64) -> Self {
        let mut drawn = Drawn { rate, arrivals, random: Pcg64Mcg::seed_from_u64(seed), due: 0.0 };
        // The first of evenly spaced arrivals comes at once; others wait for their first gap.
        if arrivals != Arrivals::Fixed {
            drawn.due = drawn.gap();
        }
        Self::Drawn(drawn)
    }

    /// Arrivals at these times after the beginning of the run, which must not go back.
    pub fn logged(times: impl IntoIterator<Item = Duration>) -> Self {
        Self::Logged(Logged { times: times.into_iter().map(nanos).collect(), next: 0 })
    }

    /// How many sessions are due before a time; of those that are drawn, on average.
    pub fn due_by(&self, time: Duration) -> f64 {
        match self {
            Self::Drawn(drawn) => drawn.rate.due_by(time),
            Self::Logged(logged) => logged.before(nanos(time)) as f64,
        }
    }

    /// The most sessions that are due within such a time, which begins before the end; of those that are
    /// drawn, on average.
    pub fn most_within(&self, time: Duration, end: Duration) -> f64 {
        match self {
            // Looked at a thousand times, of a day at most: endless runs come to no other rate than their
            // last.
            Self::Drawn(Drawn { rate, .. }) => (0..1000)
                .map(|part| end.min(Duration::from_hours(24)) * part / 1000)
                .map(|begin| rate.due_by(begin + time) - rate.due_by(begin))
                .fold(0.0, f64::max),
            Self::Logged(logged) => {
                let (time, end) = (nanos(time), nanos(end));
                let begins = logged.times.iter().take_while(|at| **at < end).enumerate();
                let within = begins.map(|(place, at)| logged.before(at.saturating_add(time)) - place);
                within.max().unwrap_or(0) as f64
            }
        }
    }
}

impl Drawn {
    fn gap(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Exponential => Exp1.sample(&mut self.random),
            Arrivals::Uniform => Uniform::new(0.0, 2.0).map_or(1.0, |gap| gap.sample(&mut self.random)),
            Arrivals::Fixed => 1.0,
        }
    }
}

impl Logged {
    /// How many are due before a time.
    fn before(&self, time: Nanos) -> usize {
        self.times.partition_point(|at| *at < time)
    }
}

impl Iterator for Schedule {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        match self {
            Self::Drawn(drawn) => {
                let time = drawn.rate.time_of(drawn.due);
                drawn.due += drawn.gap();
                Some((time * 1e9) as Nanos)
            }
            Self::Logged(logged) => {
                let time = logged.times.get(logged.next).copied();
                logged.next += 1;
                time
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(schedule: impl Iterator<Item = Nanos>, count: usize) -> Vec<f64> {
        schedule.take(count).map(|at| at as f64 / 1e9).collect()
    }

    #[test]
    fn fixed_arrivals_are_evenly_spaced_from_the_start() {
        let schedule = Schedule::drawn(Rate::constant(4.0).unwrap(), Arrivals::Fixed, 1);
        assert_eq!(seconds(schedule, 5), [0.0, 0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn a_seed_says_everything() {
        let schedule = |seed| Schedule::drawn(Rate::constant(100.0).unwrap(), Arrivals::Exponential, seed);
        let first: Vec<_> = schedule(1).take(1000).collect();
        assert!(schedule(1).take(1000).eq(first.iter().copied()));
        assert!(!schedule(2).take(1000).eq(first.iter().copied()));
    }

    #[test]
    fn gaps_have_the_mean_and_the_spread_of_their_kind() {
        for (arrivals, deviation) in
            [(Arrivals::Exponential, 1.0), (Arrivals::Uniform, 1.0 / 3.0_f64.sqrt()), (Arrivals::Fixed, 0.0)]
        {
            let times = seconds(Schedule::drawn(Rate::constant(1.0).unwrap(), arrivals, 7), 100_001);
            let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean - 1.0).abs() < 0.015, "{arrivals:?}: {mean}");
            assert!((variance.sqrt() - deviation).abs() < 0.015, "{arrivals:?}: {}", variance.sqrt());
        }
    }

    #[test]
    fn a_ramp_brings_as_many_as_lie_below_it() {
        let ramp = Step { from: 0.0, to: 100.0, duration: Some(Duration::from_secs(10)) };
        let hold = Step { from: 100.0, to: 100.0, duration: None };
        let rate = Rate::steps(vec![ramp, hold]).unwrap();
        let times = seconds(Schedule::drawn(rate.clone(), Arrivals::Fixed, 0), 1_000);
        let before = |time: f64| times.iter().filter(|at| **at < time).count() as f64;
        for time in [2.5, 5.0, 10.0, 12.0] {
            let due = rate.due_by(Duration::from_secs_f64(time));
            assert!((before(time) - due).abs() <= 1.0, "{time}: {} and {due}", before(time));
        }
        assert!((rate.due_by(Duration::from_secs(10)) - 500.0).abs() < 1e-6);
        assert!((rate.at(Duration::from_secs(5)) - 50.0).abs() < 1e-9);
        assert!((rate.times(2.0).at(Duration::from_mins(1)) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn logged_arrivals_come_when_they_did_and_no_more() {
        let seconds_of = [0.0, 0.5, 0.5, 2.0, 30.0];
        let schedule = Schedule::logged(seconds_of.map(Duration::from_secs_f64));
        assert_eq!(seconds(schedule.clone(), 9), seconds_of);
        let mut of_the_second_thread = schedule.clone();
        let at: Vec<_> =
            [of_the_second_thread.nth(1), of_the_second_thread.nth(1), of_the_second_thread.nth(1)].into();
        assert_eq!(at, [Some(500_000_000), Some(2_000_000_000), None]);
        let due = |time| schedule.due_by(Duration::from_secs_f64(time)) as usize;
        assert_eq!((due(0.0), due(0.5), due(0.6), due(99.0)), (0, 1, 3, 5));
        let second = Duration::from_secs(1);
        assert_eq!(schedule.most_within(second, Duration::MAX) as usize, 3);
        assert_eq!(
            schedule.most_within(30 * second, Duration::MAX) as usize,
            4,
            "30 s later is not within 30 s"
        );
        assert_eq!(schedule.most_within(second / 1000, second / 2) as usize, 1, "two come at the end");
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::constant(value), Err(RateError::Value), "{value}");
        }
        let endless = Step { from: 1.0, to: 1.0, duration: None };
        assert_eq!(Rate::steps(vec![]), Err(RateError::Steps));
        assert_eq!(Rate::steps(vec![endless, endless]), Err(RateError::Steps));
        let to_nothing = Step { from: 1.0, to: 0.0, duration: Some(Duration::from_secs(1)) };
        assert_eq!(Rate::steps(vec![to_nothing]), Err(RateError::Value), "it would stay at 0");
        assert!(Rate::steps(vec![to_nothing, endless]).is_ok());
    }

    proptest! {
        #[test]
        fn times_never_go_back_and_invert_what_is_due(
            values in proptest::collection::vec((0.1..1000.0, 0.0..1000.0, 1_u64..20), 1..5),
            due in 0.0..50_000.0,
        ) {
            let step = |&(from, to, secs): &(f64, f64, u64)| {
                Step { from, to, duration: Some(Duration::from_secs(secs)) }
            };
            let mut steps: Vec<_> = values.iter().map(step).collect();
            steps.push(Step { from: 10.0, to: 10.0, duration: None });
            let rate = Rate::steps(steps).unwrap();
            let back = rate.due_by(Duration::from_secs_f64(rate.time_of(due)));
            prop_assert!((back - due).abs() < 1e-3 * due.max(1.0), "{due} {back}");
            let times: Vec<_> = Schedule::drawn(rate, Arrivals::Exponential, 3).take(500).collect();
            prop_assert!(times.is_sorted());
        }
    }
}
