//! What an experiment measures: alternatives at points, in rounds. In which order, what is measured again,
//! and what came of it.
//!
//! Machines drift, and what ran before leaves traces: so each round has every alternative at every point, in
//! an order drawn anew. Those of one point, which are compared with each other, come one after the other.
//! What the journal has is not measured again.

use anyhow::Result;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;

use crate::experiment::Progress;
use crate::journal::Journal;
use crate::series::{Series, Taken};
use crate::subject::Variant;
use crate::trial::Outcome;

/// Where alternatives are compared with each other.
#[derive(Clone, Debug)]
pub(crate) struct Point<T> {
    pub(crate) name: String,
    /// What a trial has to know.
    pub(crate) of: T,
    pub(crate) servers: Vec<Variant>,
}

/// What is to be measured.
#[derive(Debug)]
pub(crate) struct Plan<T> {
    pub(crate) points: Vec<Point<T>>,
    pub(crate) rounds: u32,
    /// What the order is drawn from.
    pub(crate) seed: u32,
    pub(crate) stage: Stage,
}

/// What rounds are for. Those of one stage are not measured under the same arrivals, nor in the same order,
/// as those of another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    /// They say which rates are asked for.
    Calibrating = 2000,
    /// They are compared.
    Measuring = 0,
    /// They say whether what others have chosen is as good as it seemed.
    Judging = 1000,
}

/// How many rounds there may be of one stage, so that none has the seed of another stage's.
pub(crate) const MOST_ROUNDS: i64 = 1_000;

/// How many rounds calibrate: what is measured takes nothing but its rates from them.
pub(crate) const CALIBRATING_ROUNDS: u32 = 3;

/// How often a trial is tried until the generator calls it valid.
const TRIES: usize = 3;

/// What came of a point.
#[derive(Debug)]
pub(crate) struct Found<'a, T> {
    pub(crate) point: &'a Point<T>,
    /// Of each alternative that has anything, and of the first, with which they are compared. None if nothing
    /// has.
    pub(crate) series: Vec<Series>,
    /// How many trials are not measured yet.
    pub(crate) missing: usize,
}

impl<T> Point<T> {
    /// Compares the first of `servers` with the others, and with itself: figures that tell one thing from the
    /// same thing tell nothing of others.
    pub(crate) fn comparing(name: String, of: T, servers: &[Variant]) -> Self {
        let again = servers.first().map(Variant::again);
        Self { name, of, servers: servers.iter().cloned().chain(again).collect() }
    }

    fn key(&self, server: &Variant, round: u32) -> String {
        format!("{}: {} ({server}), round {}", self.name, server.name, round + 1)
    }
}

impl<T> Plan<T> {
    /// How many trials there are, if all are valid.
    fn trials(&self) -> usize {
        self.points.iter().map(|point| point.servers.len()).sum::<usize>() * self.rounds as usize
    }

    /// The seed of a round, for arrivals: the same for all that are compared.
    fn round_seed(&self, round: u32) -> u64 {
        self.stage as u64 + u64::from(round) + 1
    }

    /// All trials of a round, one after the other. The same plan always has the same order.
    fn order(&self, round: u32) -> Vec<(&Point<T>, &Variant)> {
        let mut random = Pcg64Mcg::seed_from_u64(u64::from(self.seed) << 32 | self.round_seed(round));
        let mut points: Vec<&Point<T>> = self.points.iter().collect();
        points.shuffle(&mut random);
        let mut order = Vec::new();
        for point in points {
            let mut servers: Vec<&Variant> = point.servers.iter().collect();
            servers.shuffle(&mut random);
            order.extend(servers.into_iter().map(|server| (point, server)));
        }
        order
    }

    /// Has `trial` measure what the journal does not have: for a point's `of` and a server, with a seed for
    /// arrivals. One that is not valid is tried again at once, and stays in the journal.
    pub(crate) fn measure(
        &self,
        journal: &mut Journal,
        mut trial: impl FnMut(&T, &Variant, u64) -> Result<Outcome>,
    ) -> Result<()> {
        let mut progress = Progress::of(self.trials());
        for round in 0..self.rounds {
            for (point, server) in self.order(round) {
                let key = point.key(server, round);
                let mut tries = tries(journal, &key)?;
                if is_settled(&tries) {
                    progress.skip();
                    continue;
                }
                while !is_settled(&tries) {
                    let outcome = trial(&point.of, server, self.round_seed(round))?;
                    let key = try_key(&key, tries.len());
                    journal.put(&key, &outcome)?;
                    if !outcome.is_valid() {
                        eprintln!("not valid: {key}: {}", outcome.invalid.join("; "));
                    }
                    tries.push(outcome);
                }
                let replies = tries.last().map_or(0.0, |outcome| outcome.replies_per_s);
                progress.step(&format!("{key}: {replies:.0} replies/s"));
            }
        }
        Ok(())
    }

    /// What the journal has of this plan.
    pub(crate) fn found(&self, journal: &Journal) -> Result<Vec<Found<'_, T>>> {
        let mut all = Vec::new();
        for point in &self.points {
            let of = |server: &Variant| {
                let rounds =
                    (0..self.rounds).map(|round| Ok(Taken::of(tries(journal, &point.key(server, round))?)));
                Ok(Series::new(server.clone(), rounds.collect::<Result<_>>()?))
            };
            let mut series: Vec<Series> = point.servers.iter().map(of).collect::<Result<_>>()?;
            let missing = series.iter().map(Series::missing).sum();
            if series.iter().all(Series::is_empty) {
                series.clear();
            } else {
                let mut others = series.split_off(1);
                others.retain(|one| !one.is_empty());
                series.append(&mut others);
            }
            all.push(Found { point, series, missing });
        }
        Ok(all)
    }

    /// Replies per second at each point, of a plan that calibrates: the median. `None` where a round is
    /// missing.
    pub(crate) fn rates(&self, journal: &Journal) -> Result<Vec<Option<f64>>> {
        let rate = |found: &Found<'_, T>| {
            let series = found.series.first().filter(|series| series.is_whole())?;
            series.median(|of| of.replies_per_s).map(f64::round)
        };
        Ok(self.found(journal)?.iter().map(rate).collect())
    }
}

/// All tries of a trial that the journal has.
fn tries(journal: &Journal, key: &str) -> Result<Vec<Outcome>> {
    (0..TRIES).map_while(|number| journal.get(&try_key(key, number)).transpose()).collect()
}

fn try_key(key: &str, number: usize) -> String {
    if number == 0 { key.to_owned() } else { format!("{key}, try {}", number + 1) }
}

fn is_settled(tries: &[Outcome]) -> bool {
    tries.len() == TRIES || tries.last().is_some_and(Outcome::is_valid)
}

#[cfg(test)]
pub(crate) mod tests {
    use anyhow::bail;

    use super::*;
    use crate::journal::tests::journal;
    use crate::trial::tests::{outcome, outcome_but};

    /// Two points with as many servers as there are `names`, and the first of them again.
    pub(crate) fn plan(names: &[&str], rounds: u32) -> Plan<f64> {
        let servers: Vec<Variant> = names.iter().map(|name| format!("{name}:").parse().unwrap()).collect();
        let point = |multiple: f64| Point::comparing(format!("{multiple}x"), multiple, &servers);
        Plan { points: vec![point(1.0), point(2.0)], rounds, seed: 1, stage: Stage::Measuring }
    }

    fn names(plan: &Plan<f64>, round: u32) -> Vec<String> {
        plan.order(round).iter().map(|(point, server)| format!("{} {}", point.name, server.name)).collect()
    }

    #[test]
    fn each_round_has_everything_in_an_order_of_its_own() {
        let plan = plan(&["a", "b", "c", "d"], 6);
        let mut sorted = names(&plan, 0);
        sorted.sort();
        let all =
            ["1x a", "1x a again", "1x b", "1x c", "1x d", "2x a", "2x a again", "2x b", "2x c", "2x d"];
        assert_eq!(sorted, all);
        let mut first = [0; 2];
        for round in 0..100 {
            let order = names(&plan, round);
            assert_eq!(order, names(&plan, round));
            assert_ne!(order, names(&plan, round + 1));
            // What is compared is near in time: the points come one after the other.
            assert!(
                order.chunks(5).all(|point| point.iter().all(|name| name[..2] == point[0][..2])),
                "{order:?}"
            );
            first[usize::from(order[0].starts_with('2'))] += 1;
        }
        assert!(first.iter().all(|count| *count > 30), "a point is nearly always first: {first:?}");
        let other = Plan { seed: 2, ..super::tests::plan(&["a", "b", "c", "d"], 6) };
        assert_ne!(names(&plan, 0), names(&other, 0));
        let judging = Plan { stage: Stage::Judging, ..super::tests::plan(&["a", "b", "c", "d"], 6) };
        assert_ne!(names(&plan, 0), names(&judging, 0));
    }

    #[test]
    fn no_server_always_comes_before_another() {
        let plan = plan(&["a", "b"], 6);
        let mut before = 0;
        for round in 0..100 {
            let order = names(&plan, round);
            let place = |name: &str| order.iter().position(|other| other == name);
            before += u32::from(place("1x a") < place("1x a again"));
        }
        assert!((30..70).contains(&before), "{before}");
    }

    #[test]
    fn what_was_interrupted_goes_on_in_the_same_order() {
        let plan = plan(&["a", "b"], 2);
        let mut whole = Vec::new();
        let trial = |done: &mut Vec<String>, multiple: &f64, server: &Variant, seed: u64| {
            done.push(format!("{multiple} {} {seed}", server.name));
            Ok(outcome(1.0))
        };
        plan.measure(&mut journal(), |point, server, seed| trial(&mut whole, point, server, seed)).unwrap();
        assert_eq!(whole.len(), 12);

        let (mut parts, mut journal) = (Vec::new(), journal());
        let first = plan.measure(&mut journal, |point, server, seed| {
            if parts.len() == 5 {
                bail!("interrupted")
            }
            trial(&mut parts, point, server, seed)
        });
        assert!(first.is_err());
        plan.measure(&mut journal, |point, server, seed| trial(&mut parts, point, server, seed)).unwrap();
        assert_eq!(parts, whole);
        plan.measure(&mut journal, |_, _, _| bail!("everything was there")).unwrap();
        // What is compared with the first has it, measured or not.
        let mut cut = super::tests::journal();
        let mut left = 1;
        let _ = plan.measure(&mut cut, |_, server, _| match server.name.as_str() {
            "a" if left == 0 => bail!("interrupted"),
            _ => {
                left = 0;
                Ok(outcome(1.0))
            }
        });
        for found in plan.found(&cut).unwrap().iter().filter(|found| !found.series.is_empty()) {
            assert_eq!(found.series[0].server, found.point.servers[0]);
        }
        // One point of two, and then both: what is there stays.
        let (mut one, mut journal) = (super::tests::plan(&["a", "b"], 2), super::tests::journal());
        one.points.truncate(1);
        one.measure(&mut journal, |_, _, _| Ok(outcome(1.0))).unwrap();
        let found = plan.found(&journal).unwrap();
        assert_eq!((found[1].series.len(), found[1].missing, found[0].missing), (0, 6, 0));
        let mut rest = 0;
        plan.measure(&mut journal, |_, _, _| {
            rest += 1;
            Ok(outcome(1.0))
        })
        .unwrap();
        assert_eq!(rest, 6);
    }

    #[test]
    fn what_is_not_valid_is_tried_twice_more_and_kept() {
        let mut plan = plan(&["never", "second"], 1);
        plan.points.truncate(1);
        let mut journal = journal();
        let mut tries: Vec<String> = Vec::new();
        plan.measure(&mut journal, |_, server, _| {
            let before = tries.iter().filter(|name| **name == server.name).count();
            tries.push(server.name.clone());
            let is_valid = server.name == "never again" || server.name == "second" && before == 1;
            Ok(if is_valid { outcome(5.0) } else { outcome_but(100.0, &["late"]) })
        })
        .unwrap();
        tries.sort();
        assert_eq!(tries, ["never", "never", "never", "never again", "second", "second"]);
        let found = plan.found(&journal).unwrap();
        let by_name = |name: &str| found[0].series.iter().find(|series| series.server.name == name).unwrap();
        assert_eq!(by_name("never").invalid(), "3 (1)");
        assert_eq!(by_name("never again").invalid(), "0");
        let second = by_name("second");
        assert_eq!((second.invalid().as_str(), second.median(|of| of.replies_per_s)), ("1", Some(5.0)));
        let key = |name: &str| plan.points[0].key(&format!("{name}:").parse().unwrap(), 0);
        assert!(journal.get::<Outcome>(&format!("{}, try 3", key("never"))).unwrap().is_some());
        assert!(journal.get::<Outcome>(&format!("{}, try 3", key("second"))).unwrap().is_none());
        plan.measure(&mut journal, |_, _, _| bail!("a trial that is settled is measured again")).unwrap();
    }

    #[test]
    fn a_rate_needs_all_its_rounds() {
        let plan = plan(&["a"], 3);
        let mut journal = journal();
        // All of the first two rounds, and one trial of the third.
        let mut done = 0;
        let mut trial = |until| {
            let measured = plan.measure(&mut journal, |_, _, seed| {
                if done == until {
                    bail!("interrupted")
                }
                done += 1;
                Ok(outcome([7.0, 9.4, 8.4][seed as usize - 1]))
            });
            (measured.is_ok(), plan.rates(&journal).unwrap())
        };
        assert_eq!(trial(8), (false, vec![None, None]));
        assert_eq!(trial(12), (true, vec![Some(8.0), Some(8.0)]));
    }
}
