//! Compares `auto` with fixed limits in a simulated server, where load and costs change in steps.
//!
//! The behaviour of `auto` in each scenario is stored in `traces/`. A change of the control law shows as
//! a change of these files. To accept it, run the tests with `KEEP_TRACES=1` and review the difference.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::simulation::{Costs, Load, Moment, Outcome, Step, World};
use super::*;

/// Small files, epoll.
const EPOLL: Costs = Costs {
    get_events: 1_500,
    event: 0,
    accept: 3_000,
    work: 17_000,
    crowd: 1500,
    handshake: 3_000,
    drop: 500,
    stolen: 0,
};
/// `select` with thousands of connections.
const SELECT: Costs = Costs { get_events: 400_000, ..EPOLL };
/// Caches too small for the connections that wait inside.
const CROWD: Costs = Costs { crowd: 256, ..EPOLL };
/// Replies that take a millisecond.
const HEAVY: Costs = Costs { work: 1_000_000, ..EPOLL };

/// Cold caches: each event costs as much as a tenth of a request.
const COLD: Costs = Costs { get_events: 4_000, event: 4_000, accept: 6_000, work: 40_000, ..EPOLL };

/// A CPU that another program has for 400 of each 500 us.
const STOLEN: Costs = Costs { stolen: 400_000, ..EPOLL };

struct Scenario {
    name: &'static str,
    backlog: usize,
    steps: Vec<Step>,
}

/// One request per connection.
fn single(rate: u64) -> Load {
    Load { rate, requests: 1, think_ns: 0, burst: 0 }
}

/// Eight requests per connection, 2 ms apart.
fn sessions(rate: u64) -> Load {
    Load { rate, requests: 8, think_ns: 2_000_000, burst: 0 }
}

fn step(name: &'static str, load: Load, costs: Costs) -> Step {
    Step { name, ms: 1000, load, costs }
}

/// With a capacity of about 41,000 single requests a second, or 6,200 sessions.
fn scenarios() -> [Scenario; 6] {
    let steps = vec![
        step("half", single(20_000), EPOLL),
        step("nearly all", single(40_000), EPOLL),
        step("double", single(84_000), EPOLL),
        step("half again", single(20_000), EPOLL),
    ];
    let costs = vec![
        step("epoll", single(60_000), EPOLL),
        step("select", single(60_000), SELECT),
        step("crowd", single(60_000), CROWD),
        step("heavy", single(2_000), HEAVY),
        step("epoll again", single(60_000), EPOLL),
    ];
    let several = vec![
        step("half", sessions(3_000), EPOLL),
        step("nearly all", sessions(6_000), EPOLL),
        step("double", sessions(12_000), EPOLL),
        step("half again", sessions(3_000), EPOLL),
    ];
    let bursts = vec![
        step("small", Load { burst: 100, ..single(10_000) }, EPOLL),
        step("large", Load { burst: 1000, ..single(10_000) }, EPOLL),
        step("heavy", Load { burst: 100, ..single(200) }, HEAVY),
        step("small again", Load { burst: 100, ..single(10_000) }, EPOLL),
    ];
    let stolen = vec![
        step("half", single(4_000), STOLEN),
        step("nearly all", single(8_000), STOLEN),
        step("double", single(16_800), STOLEN),
        step("half again", single(4_000), STOLEN),
    ];
    let cold = vec![
        step("half", sessions(1_200), COLD),
        step("nearly all", sessions(2_300), COLD),
        step("double", sessions(5_000), COLD),
    ];
    [
        Scenario { name: "steps", backlog: 1024, steps },
        Scenario { name: "costs", backlog: 1024, steps: costs },
        Scenario { name: "sessions", backlog: 1024, steps: several },
        Scenario { name: "bursts", backlog: 128, steps: bursts },
        Scenario { name: "stolen", backlog: 128, steps: stolen },
        Scenario { name: "cold", backlog: 128, steps: cold },
    ]
}

const FIXED: [AcceptLimit; 4] = [limit(1), limit(10), limit(50), AcceptLimit::Unlimited];

const fn limit(limit: u32) -> AcceptLimit {
    match std::num::NonZeroU32::new(limit) {
        Some(limit) => AcceptLimit::Limit(limit),
        None => AcceptLimit::Unlimited,
    }
}

impl Scenario {
    fn run(&self, limit: AcceptLimit) -> (Vec<Outcome>, Vec<Moment>) {
        World::new(AcceptPolicy::new(limit), self.backlog, true).run(&self.steps)
    }

    /// The steps in which a limit does worse than the best fixed one, and how.
    fn regrets(&self, limit: AcceptLimit) -> Vec<String> {
        let fixed = FIXED.map(|limit| self.run(limit).0);
        let mut regrets = Vec::new();
        for (at, (outcome, step)) in self.run(limit).0.iter().zip(&self.steps).enumerate() {
            let mut regret = |what: String| regrets.push(format!("{}, {}: {what}", self.name, step.name));
            // A limit that served more than the offered load had kept clients waiting since the step
            // before.
            let best = fixed.iter().map(|outcomes| outcomes[at].rate()).fold(0.0, f64::max);
            let best = best.min(step.load.offered());
            if outcome.rate() < 0.97 * best {
                regret(format!("{:.0}/s of {best:.0}", outcome.rate()));
            }
            // Limits that keep up are compared by drops and delay. But a limit that drops clients easily
            // keeps the delay short.
            let good =
                || fixed.iter().map(|outcomes| &outcomes[at]).filter(|good| good.rate() >= 0.97 * best);
            let as_kind = good().filter(|good| good.dropped <= outcome.dropped + outcome.dropped / 10);
            let shortest = as_kind.map(Outcome::mean_delay_ms).fold(f64::MAX, f64::min);
            if outcome.mean_delay_ms() > 1.25 * shortest + 1.0 {
                regret(format!("{:.3} ms instead of {shortest:.3}", outcome.mean_delay_ms()));
            }
            let fewest = good().map(|good| good.dropped).min().unwrap_or(0);
            if step.load.burst > 0 && outcome.dropped > fewest + fewest / 10 {
                regret(format!("{} dropped instead of {fewest}", outcome.dropped));
            }
        }
        regrets
    }
}

#[test]
fn auto_does_as_well_as_the_best_fixed_limit_of_each_step() {
    let regrets: Vec<_> =
        scenarios().iter().flat_map(|scenario| scenario.regrets(AcceptLimit::Auto)).collect();
    assert!(regrets.is_empty(), "{regrets:#?}");
}

/// No fixed limit passes the test above, so `auto` cannot just be settling on one.
#[test]
fn each_fixed_limit_does_worse_than_another_somewhere() {
    for limit in FIXED {
        let regrets: Vec<_> = scenarios().iter().flat_map(|scenario| scenario.regrets(limit)).collect();
        println!("{limit:?}: {regrets:#?}");
        assert!(!regrets.is_empty(), "{limit:?}");
    }
}

#[test]
fn the_limit_moves_with_load_and_costs_and_settles() {
    let [steps, costs, ..] = scenarios();
    for scenario in [&steps, &costs] {
        let (outcomes, _) = scenario.run(AcceptLimit::Auto);
        for (outcome, step) in outcomes.iter().zip(&scenario.steps) {
            // A tenth of a second passes before overload is detected, and what was let in meanwhile is
            // served first.
            let (turns, ms) = outcome.settled_after();
            println!("{}, {}: {turns} turns, {ms} ms", scenario.name, step.name);
            assert!(turns <= 4000 && ms <= 400, "{}, {}: {turns} turns, {ms} ms", scenario.name, step.name);
        }
    }
    let limits = |scenario: &Scenario| -> Vec<u32> {
        scenario.run(AcceptLimit::Auto).0.iter().map(Outcome::limit).collect()
    };
    let [half, nearly_all, double, half_again] = limits(&steps)[..] else { panic!("four steps") };
    assert!(half > 100 && nearly_all > 100 && half_again > 100, "{half} {nearly_all} {half_again}");
    assert!((2..=32).contains(&double), "{double}");
    let [epoll, select, crowd, heavy, epoll_again] = limits(&costs)[..] else { panic!("five steps") };
    assert!((2..=32).contains(&epoll) && (2..=32).contains(&epoll_again), "{epoll} {epoll_again}");
    assert!(select > 8 * epoll, "{select}");
    assert!(crowd < 32 && heavy <= 4, "{crowd} {heavy}");
}

#[test]
fn overload_makes_clients_wait_no_longer_than_the_queue_is() {
    let [steps, ..] = scenarios();
    let delay = |limit| steps.run(limit).0[2].mean_delay_ms();
    let (auto, unlimited) = (delay(AcceptLimit::Auto), delay(AcceptLimit::Unlimited));
    assert!(auto < 0.75 * unlimited, "{auto} ms, {unlimited} ms");
}

#[test]
fn a_queue_that_does_not_tell_its_length_is_judged_by_when_it_was_empty() {
    let [steps, ..] = scenarios();
    let policy = AcceptPolicy::new(AcceptLimit::Auto);
    let (blind, _) = World::new(policy, steps.backlog, false).run(&steps.steps);
    let (seeing, _) = steps.run(AcceptLimit::Auto);
    for ((blind, seeing), step) in blind.iter().zip(&seeing).zip(&steps.steps) {
        assert!(blind.rate() > 0.97 * seeing.rate(), "{}", step.name);
        assert!(blind.mean_delay_ms() < 1.25 * seeing.mean_delay_ms() + 1.0, "{}", step.name);
    }
}

#[test]
fn traces_are_as_they_were() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/accept/traces");
    for scenario in scenarios() {
        let mut trace = format!("{}\n", Moment::HEADINGS);
        for moment in scenario.run(AcceptLimit::Auto).1 {
            writeln!(trace, "{moment}").unwrap();
        }
        let file = directory.join(format!("{}.csv", scenario.name));
        if std::env::var_os("KEEP_TRACES").is_some() {
            fs::create_dir_all(&directory).unwrap();
            fs::write(&file, &trace).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap_or_default();
        let other = trace.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
        assert!(trace == kept, "{}: now and kept: {other:?}; keep it with KEEP_TRACES=1", file.display());
    }
}

/// A turn may take longer than the interval in which the delay must return.
#[test]
fn overload_is_seen_in_turns_of_any_length() {
    for ms in [1, 20, 99, 101, 150, 1_000] {
        let mut policy = AcceptPolicy::new(AcceptLimit::Auto);
        let mut now_ns = 1;
        for _ in 0..1_000_u64.div_ceil(ms).max(4) {
            now_ns += ms * 1_000_000;
            policy.queue_seen(Queue { length: 128, limit: 128 });
            let turn = Turn { busy_ns: ms * 1_000_000, accepted: 1, worked: 8, left: 0, emptied: false };
            policy.turned(now_ns, &turn);
        }
        assert!(policy.state().overloaded, "turns of {ms} ms");
    }
}

#[test]
fn fixed_limits_are_what_they_say_and_bound_no_work() {
    for (setting, connections) in [(limit(1), 1), (limit(7), 7), (AcceptLimit::Unlimited, u32::MAX)] {
        let mut policy = AcceptPolicy::new(setting);
        policy.queue_seen(Queue { length: 100, limit: 100 });
        policy.turned(1, &Turn { busy_ns: u64::MAX, left: 1000, ..Turn::default() });
        assert_eq!(policy.budget(), Budget { connections, work_ns: None });
        assert_eq!(policy.state().limit, connections);
        assert!(!policy.is_adaptive());
    }
}

#[test]
fn samples_are_apart() {
    for (setting, every_ms) in [(limit(1), 10), (AcceptLimit::Auto, 4)] {
        let mut policy = AcceptPolicy::new(setting);
        let due = (0..100_u64).filter(|&ms| {
            let due = policy.sampling_is_due(ms * 1_000_000);
            policy.turned(ms * 1_000_000, &Turn { worked: 1, emptied: true, ..Turn::default() });
            due
        });
        assert_eq!(due.count(), 100 / every_ms);
    }
}

/// A server that gets the CPU only for short moments has little time for samples.
#[test]
fn in_a_server_where_clients_wait_samples_take_a_small_part_of_serving() {
    let mut policy = AcceptPolicy::new(AcceptLimit::Auto);
    let samples = (0..1000_u64).filter(|&turn| {
        let now_ns = turn * 10_000_000;
        let due = policy.sampling_is_due(now_ns);
        policy.turned(now_ns, &Turn { busy_ns: 100_000, worked: 1, ..Turn::default() });
        due
    });
    // Each turn serves for 20 us, as long as nothing else is known.
    assert_eq!(samples.count(), 1000 / 50);
}

/// What a driver might report, whether it makes sense or not.
#[derive(Clone, Debug)]
enum Saying {
    Queue(u32, u32),
    Wait(u32),
    Cost(Cost),
    Turn(u64, Turn),
}

fn saying() -> impl Strategy<Value = Saying> {
    let number = || prop_oneof![0..100u32, any::<u32>()];
    let ns = || prop_oneof![0..1_000_000u64, 0..1_000_000_000u64, any::<u64>()];
    let turn = (ns(), number(), number(), number(), any::<bool>()).prop_map(
        |(busy_ns, accepted, worked, left, emptied)| Turn { busy_ns, accepted, worked, left, emptied },
    );
    let cost = (ns(), number(), ns(), number(), number()).prop_map(
        |(overhead_ns, events, useful_ns, accepted, worked)| Cost {
            overhead_ns,
            events,
            useful_ns,
            accepted,
            worked,
        },
    );
    prop_oneof![
        (number(), number()).prop_map(|(length, limit)| Saying::Queue(length, limit)),
        number().prop_map(Saying::Wait),
        cost.prop_map(Saying::Cost),
        (ns(), turn).prop_map(|(ns, turn)| Saying::Turn(ns, turn)),
    ]
}

proptest! {
    #[test]
    fn whatever_is_said_there_is_a_budget(sayings in proptest::collection::vec(saying(), 0..200)) {
        let mut policy = AcceptPolicy::new(AcceptLimit::Auto);
        let mut now_ns = 1u64;
        for saying in sayings {
            match saying {
                Saying::Queue(length, limit) => policy.queue_seen(Queue { length, limit }),
                Saying::Wait(ms) => policy.wait_seen(ms),
                Saying::Cost(cost) => policy.cost_seen(cost),
                Saying::Turn(ns, turn) => {
                    // All of them together do not stop the clock, which ends after 584 years.
                    now_ns = now_ns.saturating_add(ns >> 8);
                    policy.turned(now_ns, &turn);
                }
            }
            let budget = policy.budget();
            prop_assert!(budget.connections >= 1);
            prop_assert!(budget.work_ns.is_some_and(|ns| ns > 0));
            let state = policy.state();
            prop_assert_eq!(state.limit, budget.connections);
        }
        // Nothing that was reported has broken it for good: after a calm second, it is calm.
        for _ in 0..5000 {
            now_ns = now_ns.saturating_add(1_000_000);
            policy.queue_seen(Queue { length: 0, limit: 128 });
            let cost = Cost { overhead_ns: 1_000, events: 2, useful_ns: 40_000, accepted: 2, worked: 2 };
            policy.cost_seen(cost);
            let turn = Turn { busy_ns: 41_000, accepted: 2, worked: 2, left: 0, emptied: true };
            policy.turned(now_ns, &turn);
        }
        let state = policy.state();
        prop_assert!(!state.overloaded && state.delay_ns == 0);
        prop_assert!((100..=300).contains(&state.limit), "{state:?}");
    }
}
