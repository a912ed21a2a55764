//! Plans what an experiment measures: servers at points, in rounds. It sets the order and repeats invalid
//! trials, and it collects the results.
//!
//! Machines drift, and each trial can affect the next. So each round measures every server at every point,
//! in a new random order. The servers of a point, which are compared with each other, run at the same time
//! or one right after the other. Results in the journal are not measured again.

use anyhow::{Context, Result};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;

use crate::analysis::series::{Found, Series, Taken};
use crate::description::experiment::PointSpec;
use crate::description::setting::Order;
use crate::progress::Progress;
use crate::record::TRIALS;
use crate::record::journal::Journal;
use crate::record::outcome::Outcome;
use crate::servers::spec::Spec;
use crate::unique::unique;

/// What to measure.
#[derive(Debug)]
pub(crate) struct Plan {
    /// With the first server a second time, where there is an A/A control.
    pub(crate) points: Vec<PointSpec>,
    pub(crate) rounds: u32,
    /// The seed of the random order.
    pub(crate) seed: u32,
    pub(crate) stage: Stage,
}

/// The purpose of rounds. Rounds of different stages have different arrivals and orders.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    /// These rounds determine the requested rates.
    Calibrating = 2_000,
    /// These rounds compare servers.
    Measuring = 0,
    /// Confirmatory rounds: these show whether a server that earlier rounds chose is as good as it seemed.
    Confirming = 1_000,
}

impl Stage {
    /// Its name in the names of trials' directories, which do not change.
    fn name(self) -> &'static str {
        match self {
            Self::Calibrating => "calibrating",
            Self::Measuring => "measuring",
            Self::Confirming => "judging",
        }
    }
}

/// The number of calibration rounds. Few are enough, because they only determine rates.
pub(crate) const CALIBRATING_ROUNDS: u32 = 3;

/// The most servers that run concurrently. Each has a generator, all on the same CPU.
const MOST_CONCURRENT: usize = 3;

/// A block: servers that are measured together, all at one point.
#[derive(Debug)]
struct Block<'a> {
    point: &'a PointSpec,
    servers: Vec<&'a Spec>,
}

/// How many times a trial is tried until the generator calls it valid.
const TRIES: usize = 3;

impl PointSpec {
    /// Adds the A/A control, the first server a second time. If figures show a difference between a server
    /// and itself, they show nothing about other servers.
    pub(crate) fn with_control(mut self) -> Self {
        self.servers.extend(self.servers.first().map(Spec::control));
        self
    }

    /// Divides the servers into blocks. Of concurrent servers, the first is in each block. The blocks do not
    /// depend on the other points of the experiment, because those may be measured before or after.
    fn blocks(&self, seed: u64) -> Vec<Block<'_>> {
        let order = self.setting.order;
        let random = &mut Pcg64Mcg::seed_from_u64(seed ^ number(&self.name));
        let mut servers: Vec<&Spec> = self.servers.iter().collect();
        let is_concurrent = order == Order::Concurrent && servers.len() > 1;
        let first = is_concurrent.then(|| servers.remove(0));
        servers.shuffle(random);
        let size = match order {
            Order::Interleaved => servers.len().max(1),
            Order::Concurrent if is_concurrent => MOST_CONCURRENT - 1,
            Order::Concurrent | Order::Sequential => 1,
        };
        let blocks = servers.chunks(size).map(|others| {
            let mut servers: Vec<&Spec> = first.into_iter().chain(others.iter().copied()).collect();
            servers.shuffle(random);
            Block { point: self, servers }
        });
        blocks.collect()
    }
}

/// A number that a text determines: the FNV-1a hash, which is the same on every machine.
pub(crate) fn number(text: &str) -> u64 {
    let step = |number: u64, byte: u8| (number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Block<'_> {
    /// The journal's key of a trial. The first server may be in several blocks of a round, so its key
    /// includes the other servers of its block.
    fn key(&self, server: &Spec, round: u32) -> String {
        let mut beside = String::new();
        let is_one_of_several = self.servers.len() > 1 && self.servers.len() < self.point.servers.len();
        if is_one_of_several && Some(server) == self.point.servers.first() {
            let mut others: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
            others.retain(|name| *name != server.name);
            beside = format!(" beside {}", others.join(" and "));
        }
        format!("{}: {} ({server}){beside}, round {}", self.point.name, server.name, round + 1)
    }

    fn keys(&self, round: u32) -> Vec<String> {
        self.servers.iter().map(|server| self.key(server, round)).collect()
    }
}

impl Plan {
    /// The seed of a round's arrivals, the same for all compared servers.
    fn round_seed(&self, round: u32) -> u64 {
        u64::from(self.seed) << 32 | (self.stage as u64 + u64::from(round) + 1)
    }

    /// All blocks of a round. The same plan always gives the same order.
    fn order(&self, round: u32) -> Vec<Block<'_>> {
        let seed = self.round_seed(round);
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut points: Vec<&PointSpec> = self.points.iter().collect();
        points.shuffle(&mut random);
        points.into_iter().flat_map(|point| point.blocks(seed)).collect()
    }

    /// The number of trials. The first server counts once in a round, even if it is in several blocks.
    pub(crate) fn trials(&self) -> usize {
        self.points.iter().map(|point| point.servers.len() * self.rounds as usize).sum()
    }

    /// Runs `trial` for everything that the journal lacks. `trial` gets a point, the servers of a block, a
    /// seed for arrivals, and a name for its files. If one trial of a block is invalid, the whole block is
    /// repeated at once, and all tries stay in the journal. Trials are the steps of `progress`, which must
    /// already expect them.
    pub(crate) fn measure(
        &self,
        journal: &mut Journal,
        progress: &Progress,
        mut trial: impl FnMut(&PointSpec, &[&Spec], u64, &str) -> Result<Vec<Outcome>>,
    ) -> Result<()> {
        for round in 0..self.rounds {
            let mut counted: Vec<(&str, &Spec)> = Vec::new();
            for (number, block) in self.order(round).into_iter().enumerate() {
                let (Block { point, servers }, keys) = (&block, block.keys(round));
                // The last trial of a block is also the last in the journal.
                let mut tries = tries(journal, keys.last().map_or("", String::as_str))?;
                let already = counted.len();
                counted =
                    unique(counted.into_iter().chain(servers.iter().map(|server| (&*point.name, *server))));
                let steps = (counted.len() - already) as u64;
                if is_settled(&tries) {
                    progress.skip(steps);
                    continue;
                }
                let mut told = String::new();
                while !is_settled(&tries) {
                    let (stage, round_number) = (self.stage.name(), round + 1);
                    let name = format!("{stage}-{round_number}-{number}-{}", tries.len() + 1);
                    progress.begin(&format!("{}, round {} of {}", point.name, round + 1, self.rounds));
                    let mut outcomes = trial(point, servers, self.round_seed(round), &name)?;
                    settle_together(servers, &mut outcomes);
                    for (number, outcome) in outcomes.iter_mut().enumerate() {
                        outcome.directory = Some(format!("{TRIALS}/{name}/{number}"));
                    }
                    for (key, outcome) in keys.iter().zip(&outcomes) {
                        let key = try_key(key, tries.len());
                        journal.put(&key, outcome)?;
                        if !outcome.is_valid() {
                            progress.remark(&format!("not valid: {key}: {}", outcome.invalid.join("; ")));
                        }
                    }
                    told = replies(servers, &outcomes);
                    tries.extend(outcomes.pop());
                }
                progress.step(steps, &format!("{}, round {}: {told} replies/s", point.name, round + 1));
            }
        }
        Ok(())
    }

    /// The journal's results of this plan.
    pub(crate) fn found(&self, journal: &Journal) -> Result<Vec<Found>> {
        let orders: Vec<Vec<Block<'_>>> = (0..self.rounds).map(|round| self.order(round)).collect();
        let mut all = Vec::new();
        for point in &self.points {
            let mut missing = 0;
            let of = |server: &Spec| {
                let (mut rounds, mut beside) = (Vec::new(), Vec::new());
                for (round, order) in (0..).zip(&orders) {
                    let is_its = |block: &&Block<'_>| {
                        std::ptr::eq(block.point, point) && block.servers.contains(&server)
                    };
                    let block = order.iter().find(is_its).context("a server that is in no block")?;
                    let tries_of = |server| tries(journal, &block.key(server, round));
                    let own = tries_of(server)?;
                    // A trial that was interrupted between two tries still has to be measured.
                    missing += usize::from(!is_settled(&own));
                    rounds.push(Taken::of(own));
                    beside.push(Taken::of(tries_of(&point.servers[0])?).map(|taken| taken.outcome));
                }
                let beside = (point.setting.order == Order::Concurrent).then_some(beside);
                Ok(Series { server: server.clone(), rounds, beside })
            };
            let mut series: Vec<Series> = point.servers.iter().map(of).collect::<Result<_>>()?;
            let has_any = !series.iter().all(Series::is_empty);
            series.retain(|one| has_any && (!one.is_empty() || one.server == point.servers[0]));
            all.push(Found { point: point.clone(), series, missing });
        }
        Ok(all)
    }

    /// The median replies per second at each point, for a plan that calibrates; handshakes of clients that
    /// only make these. `None` if a round is missing.
    pub(crate) fn rates(&self, journal: &Journal) -> Result<Vec<Option<f64>>> {
        let rate = |found: &Found| {
            let series = found.series.first().filter(|series| series.is_whole())?;
            let handshakes = |of: &Outcome| of.parties.first().and_then(|of| of.handshakes_per_s);
            series.median(|of| handshakes(of).unwrap_or(of.replies_per_s)).map(f64::round)
        };
        Ok(self.found(journal)?.iter().map(rate).collect())
    }
}

/// Servers that were measured together count together or not at all. If only the unlucky ones were
/// repeated, the comparison would measure luck.
fn settle_together(servers: &[&Spec], outcomes: &mut [Outcome]) {
    let Some(bad) = outcomes.iter().position(|outcome| !outcome.is_valid()) else { return };
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_valid()) {
        outcome.invalid.push(format!("measured concurrently with {}, which is not valid", servers[bad].name));
    }
}

fn replies(servers: &[&Spec], outcomes: &[Outcome]) -> String {
    let each = servers.iter().zip(outcomes);
    let each = each.map(|(server, outcome)| format!("{} {:.0}", server.name, outcome.replies_per_s));
    each.collect::<Vec<_>>().join(", ")
}

/// All tries of a trial in the journal.
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
mod tests {
    use anyhow::bail;

    use super::*;
    use crate::description::experiment::Experiment;
    use crate::tests::{journal, outcome, outcome_but};

    /// Two points with a server for each of the `names`, and the A/A control.
    fn plan(names: &[&str], rounds: u32) -> Plan {
        let servers: Vec<String> = names.iter().map(|name| format!("'{name} = nginx'")).collect();
        let text = format!(
            "title = 't'\nservers = [{}]\n[[points]]\nworkload = 'single'\nload = ['1x', '2x']",
            servers.join(", ")
        );
        let mut points = Experiment::parse(&text).unwrap().points;
        for point in &mut points {
            point.name = point.setting.load.to_string();
            point.setting.order = Order::Sequential;
        }
        let points = points.into_iter().map(PointSpec::with_control).collect();
        Plan { points, rounds, seed: 1, stage: Stage::Measuring }
    }

    fn concurrent(mut plan: Plan) -> Plan {
        for point in &mut plan.points {
            point.setting.order = Order::Concurrent;
        }
        plan
    }

    fn names(plan: &Plan, round: u32) -> Vec<String> {
        let name = |block: &Block<'_>| format!("{} {}", block.point.name, block.servers[0].name);
        plan.order(round).iter().map(name).collect()
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
            // Compared trials are near each other in time: the points come one after the other.
            assert!(
                order.chunks(5).all(|point| point.iter().all(|name| name[..2] == point[0][..2])),
                "{order:?}"
            );
            first[usize::from(order[0].starts_with('2'))] += 1;
        }
        assert!(first.iter().all(|count| *count > 30), "a point is nearly always first: {first:?}");
        let other = Plan { seed: 2, ..super::tests::plan(&["a", "b", "c", "d"], 6) };
        assert_ne!(names(&plan, 0), names(&other, 0));
        let confirmation = Plan { stage: Stage::Confirming, ..super::tests::plan(&["a", "b", "c", "d"], 6) };
        assert_ne!(names(&plan, 0), names(&confirmation, 0));
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
        let trial = |done: &mut Vec<String>, point: &PointSpec, servers: &[&Spec], seed: u64| {
            done.push(format!("{} {} {seed}", point.name, servers[0].name));
            Ok(vec![outcome(1.0)])
        };
        plan.measure(&mut journal(), &Progress::new(), |point, servers, seed, _| {
            trial(&mut whole, point, servers, seed)
        })
        .unwrap();
        assert_eq!(whole.len(), 12);

        let (mut parts, mut journal) = (Vec::new(), journal());
        let first = plan.measure(&mut journal, &Progress::new(), |point, servers, seed, _| {
            if parts.len() == 5 {
                bail!("interrupted")
            }
            trial(&mut parts, point, servers, seed)
        });
        assert!(first.is_err());
        plan.measure(&mut journal, &Progress::new(), |point, servers, seed, _| {
            trial(&mut parts, point, servers, seed)
        })
        .unwrap();
        assert_eq!(parts, whole);
        plan.measure(&mut journal, &Progress::new(), |_, _, _, _| bail!("everything was there")).unwrap();
        // Servers are compared with the first one, whether it was measured or not.
        let mut cut = crate::tests::journal();
        let mut left = 1;
        let _ = plan.measure(&mut cut, &Progress::new(), |_, servers, _, _| match servers[0].name.as_str() {
            "a" if left == 0 => bail!("interrupted"),
            _ => {
                left = 0;
                Ok(vec![outcome(1.0)])
            }
        });
        for found in plan.found(&cut).unwrap().iter().filter(|found| !found.series.is_empty()) {
            assert_eq!(found.series[0].server, found.point.servers[0]);
        }
        // First one point of two, then both: the existing results stay.
        let (mut one, mut journal) = (super::tests::plan(&["a", "b"], 2), crate::tests::journal());
        one.points.truncate(1);
        one.measure(&mut journal, &Progress::new(), |_, _, _, _| Ok(vec![outcome(1.0)])).unwrap();
        let found = plan.found(&journal).unwrap();
        assert_eq!((found[1].series.len(), found[1].missing, found[0].missing), (0, 6, 0));
        let mut rest = 0;
        plan.measure(&mut journal, &Progress::new(), |_, _, _, _| {
            rest += 1;
            Ok(vec![outcome(1.0)])
        })
        .unwrap();
        assert_eq!(rest, 6);
    }

    #[test]
    fn progress_and_results_count_the_same_wherever_it_is_interrupted() {
        for plan in [plan(&["a", "b", "c"], 2), concurrent(plan(&["a", "b", "c"], 2))] {
            for most in 0..24 {
                let (mut journal, progress, mut tried) = (journal(), Progress::new(), 0);
                progress.expect(plan.trials());
                let whole = plan.measure(&mut journal, &progress, |_, servers, _, _| {
                    if tried == most {
                        bail!("interrupted")
                    }
                    tried += 1;
                    let is_valid = tried % 3 > 0;
                    let one = || if is_valid { outcome(1.0) } else { outcome_but(1.0, &["late"]) };
                    Ok(servers.iter().map(|_| one()).collect())
                });
                let missing: usize = plan.found(&journal).unwrap().iter().map(|found| found.missing).sum();
                let (done, all) = progress.counts();
                assert_eq!((done as usize, all as usize), (plan.trials() - missing, 16), "{most}");
                assert_eq!(whole.is_ok(), missing == 0);
            }
        }
    }

    #[test]
    fn what_is_not_valid_is_tried_twice_more_and_kept() {
        let mut plan = plan(&["never", "second"], 1);
        plan.points.truncate(1);
        let mut journal = journal();
        let mut tries: Vec<String> = Vec::new();
        plan.measure(&mut journal, &Progress::new(), |_, servers, _, _| {
            let server = servers[0];
            let before = tries.iter().filter(|name| **name == server.name).count();
            tries.push(server.name.clone());
            let is_valid = server.name == "never again" || server.name == "second" && before == 1;
            Ok(vec![if is_valid { outcome(5.0) } else { outcome_but(100.0, &["late"]) }])
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
        let key = |name: &str| {
            let server: Spec = format!("{name} = nginx").parse().unwrap();
            Block { point: &plan.points[0], servers: vec![&server] }.key(&server, 0)
        };
        assert!(journal.get::<Outcome>(&format!("{}, try 3", key("never"))).unwrap().is_some());
        assert!(journal.get::<Outcome>(&format!("{}, try 3", key("second"))).unwrap().is_none());
        plan.measure(&mut journal, &Progress::new(), |_, _, _, _| {
            bail!("a trial that is settled is measured again")
        })
        .unwrap();
    }

    #[test]
    fn concurrent_servers_count_together_or_not_at_all() {
        let mut plan = concurrent(plan(&["a", "b"], 1));
        plan.points.truncate(1);
        let mut journal = journal();
        let mut blocks = 0;
        plan.measure(&mut journal, &Progress::new(), |_, servers, _, _| {
            blocks += 1;
            let mut names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            let outcome = |name: &&str| match (*name, blocks) {
                ("b", 1) => outcome_but(1.0, &["late"]),
                _ => outcome(f64::from(blocks)),
            };
            let outcomes = names.iter().map(outcome).collect();
            names.sort_unstable();
            assert_eq!(names, ["a", "a again", "b"]);
            Ok(outcomes)
        })
        .unwrap();
        assert_eq!(blocks, 2);
        for series in &plan.found(&journal).unwrap()[0].series {
            assert_eq!((series.invalid().as_str(), series.median(|of| of.replies_per_s)), ("1", Some(2.0)));
            let why = &series.taken().next().unwrap().before[0].invalid[0];
            let told = if series.server.name == "b" {
                "late"
            } else {
                "measured concurrently with b, which is not valid"
            };
            assert_eq!(why, told);
        }
        // If the run was killed in the middle of writing, the whole block is measured again.
        let mut cut = crate::tests::journal();
        cut.put(&plan.order(0)[0].keys(0)[0], &outcome(7.0)).unwrap();
        plan.measure(&mut cut, &Progress::new(), |_, servers, _, _| Ok(vec![outcome(1.0); servers.len()]))
            .unwrap();
        let found = plan.found(&cut).unwrap();
        assert!(found[0].series.iter().all(|series| series.median(|of| of.replies_per_s) == Some(1.0)));
    }

    #[test]
    fn the_first_is_in_each_block() {
        let plan = concurrent(plan(&["a", "b", "c", "d"], 6));
        let mut partners = Vec::new();
        for round in 0..6 {
            let order = plan.order(round);
            // Four other servers at each of two points.
            assert_eq!(order.len(), 4);
            for block in &order {
                let first = &plan.points[0].servers[0];
                assert!(block.servers.len() == MOST_CONCURRENT && block.servers.contains(&first));
            }
            let mut others: Vec<&str> = order[0].servers.iter().map(|server| server.name.as_str()).collect();
            others.retain(|name| *name != "a");
            partners.push(others);
        }
        let mut alone = super::tests::plan(&["a", "b", "c", "d"], 6);
        alone = concurrent(Plan { points: alone.points.split_off(1), ..alone });
        let of_2x = |plan: &Plan| {
            let order = plan.order(3);
            let blocks = order.iter().filter(|block| block.point.name == "2x");
            blocks.flat_map(|block| block.keys(3)).collect::<Vec<_>>()
        };
        assert_eq!(of_2x(&plan), of_2x(&alone), "who is beside whom depends on other points");
        partners.sort();
        partners.dedup();
        assert!(partners.len() > 1, "the same are always together: {partners:?}");
        // The machine's effect on a block is no difference between servers.
        let mut journal = journal();
        let mut luck = 1.0;
        plan.measure(&mut journal, &Progress::new(), |_, servers, _, _| {
            luck += 1.0;
            let good = |server: &&Spec| if server.name == "c" { 2.0 } else { 1.0 };
            Ok(servers.iter().map(|server| outcome(luck * good(server))).collect())
        })
        .unwrap();
        for found in plan.found(&journal).unwrap() {
            for series in &found.series[1..] {
                let expected = if series.server.name == "c" { 2.0 } else { 1.0 };
                let ratio = series.ratio(&found.series[0], |of| of.replies_per_s).unwrap();
                let interval = ratio.interval.unwrap();
                assert!(
                    (interval.lower - expected).abs() + (interval.upper - expected).abs() < 1e-9,
                    "{ratio}"
                );
            }
        }
    }

    #[test]
    fn a_rate_needs_all_its_rounds() {
        let plan = plan(&["a"], 3);
        let mut journal = journal();
        // All of the first two rounds, and one trial of the third.
        let mut done = 0;
        let mut trial = |until| {
            let measured = plan.measure(&mut journal, &Progress::new(), |_, _, seed, _| {
                if done == until {
                    bail!("interrupted")
                }
                done += 1;
                Ok(vec![outcome([7.0, 9.4, 8.4][seed as u32 as usize - 1])])
            });
            (measured.is_ok(), plan.rates(&journal).unwrap())
        };
        assert_eq!(trial(8), (false, vec![None, None]));
        assert_eq!(trial(12), (true, vec![Some(8.0), Some(8.0)]));
    }
}
