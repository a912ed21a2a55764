//! The control laws in simulated stages, where the load changes in steps, and with arbitrary input.
//!
//! `docs/measurements/pipeline/` has the trace of each simulation. A change of a law shows as a change of
//! these files. To accept it, run the tests with `KEEP_TRACES=1` and look at the difference.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::admission::{self, Admission};
use super::batch::Batch;
use super::simulation::{Cost, Demand, Hour, Load, Number, OneCpuServer, Writers, batches};
use super::threads::{Sample, Threads, Times};

/// Compares a trace with the stored one.
fn compare(name: &str, trace: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/measurements/pipeline").join(name);
    if std::env::var_os("KEEP_TRACES").is_some() {
        fs::write(&path, trace).expect("a trace");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == trace, "{}: the law does something else; KEEP_TRACES=1 keeps that", path.display());
}

const MOST: usize = 50;

/// What a hundred clients request: replies from memory of 0.1 ms each, or from a disk that takes 1 to 4 ms.
const LOADS: [Load; 4] = [
    Load { name: "memory", ms: 10_000, disk: (0, 0), cpu: (1, 3), think: (0, 0) },
    Load { name: "disk", ms: 20_000, disk: (20, 80), cpu: (2, 4), think: (0, 0) },
    Load { name: "memory again", ms: 40_000, disk: (0, 0), cpu: (1, 3), think: (0, 0) },
    Load { name: "few from disk", ms: 40_000, disk: (20, 80), cpu: (2, 4), think: (400, 1200) },
];

/// The load changes from memory to disk and back. Each time the writers find their number and stay there.
/// They serve as many clients as the best fixed number would.
#[test]
fn writers_find_their_number() {
    let mut writers = Writers::new(Number::Law(Threads::new(MOST, 1)));
    let mut trace = String::from("ms,load,threads,queue,idle,replies\n");
    let mut ms = 0;
    for load in &LOADS {
        let moments = writers.run(load);
        for moment in &moments {
            ms += 500;
            let (threads, queue, idle) = (moment.threads, moment.queue, moment.idle);
            writeln!(trace, "{ms},{},{threads},{queue},{idle},{}", load.name, moment.replies).expect("text");
        }
        let half = &moments[moments.len() / 2..];
        let replies: u64 = half.iter().map(|moment| moment.replies).sum();
        let fixed = [1, 2, 5, 10, 25, 50].map(|number| {
            let moments = Writers::new(Number::Fixed(number)).run(load);
            moments[moments.len() / 2..].iter().map(|moment| moment.replies).sum::<u64>()
        });
        let best = fixed.into_iter().max().expect("some");
        assert!(
            replies * 100 >= best * 95,
            "{}: {replies} replies, {best} with the best of {fixed:?}",
            load.name
        );
        let numbers = half.iter().map(|moment| moment.threads);
        let (least, most) = (numbers.clone().min().expect("some"), numbers.max().expect("some"));
        assert!(most - least <= 1, "{}: from {least} to {most}", load.name);
        match load.name {
            "memory" | "memory again" => assert!(most <= 2, "{most}"),
            "disk" => assert!((18..MOST).contains(&least), "{least}"),
            _ => assert!((7..25).contains(&least), "{least}"),
        }
    }
    compare("threads.csv", &trace);
}

/// If the kernel reports nothing, queues and idleness alone determine the number of threads.
#[test]
fn without_the_kernels_account_queues_decide() {
    let mut law = Threads::new(8, 1);
    for _ in 0..200 {
        law.sampled(Sample { queue: 100, idle: 0, times: None });
    }
    assert_eq!(law.in_use(), 8);
    for _ in 0..2000 {
        law.sampled(Sample { queue: 0, idle: law.in_use() - 1, times: None });
    }
    assert_eq!(law.in_use(), 1);
}

/// If threads cannot be started, the existing ones have to be enough.
#[test]
fn it_is_content_with_those_that_there_are() {
    let mut law = Threads::new(8, 1);
    for _ in 0..200 {
        law.sampled(Sample { queue: 100, idle: 0, times: None });
        if law.in_use() > 3 {
            law.limit(3);
        }
    }
    assert_eq!(law.in_use(), 3);
}

/// A throttled disk stands still for two samples, and then serves all queued requests. The accept limit
/// lets in as many connections as there are threads.
#[test]
fn a_disk_that_serves_in_bursts_is_waited_for_by_all() {
    let mut law = Threads::new(MOST, 1);
    for at in 0..400 {
        let in_use = law.in_use();
        let stands_still = at % 4 < 2;
        let (queue, idle) = if stands_still { (in_use.div_ceil(2), 0) } else { (0, in_use / 2) };
        let (running, delayed) = if stands_still { (0.0, 0.0) } else { (0.2, 0.2) };
        let times = Some(Times { running, delayed, idle: idle as f64 });
        law.sampled(Sample { queue, idle, times });
    }
    assert_eq!(law.in_use(), MOST);
}

/// A stage that has to grow soon after it shrank waits longer before it shrinks again. So a load that comes
/// and goes rarely changes the number.
#[test]
fn a_load_that_comes_and_goes_is_not_followed_for_ever() {
    let mut law = Threads::new(8, 1);
    let mut changes = [0, 0];
    for (half, count) in changes.iter_mut().enumerate() {
        for at in 0..20_000 {
            let before = law.in_use();
            let is_busy = at % 100 < 20;
            let idle = if is_busy { 0 } else { before - 1 };
            law.sampled(Sample { queue: if is_busy { 50 } else { 0 }, idle, times: None });
            *count += u32::from(law.in_use() != before);
        }
        assert!(half == 0 || *count <= 2, "{count} changes in the second half");
    }
    assert!(changes[0] > changes[1], "{changes:?}");
}

/// If a size is near enough at some times and not at others, the law changes it less and less often.
#[test]
fn sizes_that_hardly_differ_are_not_changed_for_ever() {
    let cost = Cost { name: "unclear", ms: 1_200_000, each: 10_000, batch: 20_000, noise: 150 };
    let sizes = batches(&mut Batch::new(64), &mut 64, &cost);
    let changes = |sizes: &[u32]| sizes.windows(2).filter(|two| two[0] != two[1]).count();
    let (first, second) = sizes.split_at(sizes.len() / 2);
    println!("{} changes, then {}", changes(first), changes(second));
    assert!(changes(first) >= 3 && changes(second) <= 12, "{} and {}", changes(first), changes(second));
}

/// The law finds the smallest size that is near the largest size's throughput, whatever a batch costs, and
/// stays there.
#[test]
fn batches_find_their_size() {
    let costs = [
        Cost { name: "dear", ms: 240_000, each: 10_000, batch: 4_000, noise: 10 },
        Cost { name: "free", ms: 240_000, each: 10_000, batch: 0, noise: 10 },
        Cost { name: "very dear", ms: 240_000, each: 10_000, batch: 60_000, noise: 10 },
    ];
    let (mut law, mut size) = (Batch::new(64), 64);
    let mut trace = String::from("s,cost,size\n");
    let mut s = 0;
    for (cost, right) in costs.iter().zip([8..=16, 1..=1, 64..=64]) {
        let sizes = batches(&mut law, &mut size, cost);
        for size in &sizes {
            s += 1;
            writeln!(trace, "{s},{},{size}", cost.name).expect("text");
        }
        let half = &sizes[sizes.len() / 2..];
        assert!(right.contains(half.last().expect("some")), "{}: {half:?}", cost.name);
        assert!(half.windows(2).all(|two| two[0] == two[1]), "{}: {half:?}", cost.name);
    }
    compare("batch.csv", &trace);
}

const TARGET_US: u64 = 100_000;

/// A server that serves a thousand requests a second, and after a while half of that.
const DEMANDS: [Demand; 4] = [
    Demand { name: "half", ms: 5_000, rate: 500, service_us: (500, 1500) },
    Demand { name: "double", ms: 30_000, rate: 2000, service_us: (500, 1500) },
    Demand { name: "slower", ms: 30_000, rate: 2000, service_us: (1000, 3000) },
    Demand { name: "half again", ms: 40_000, rate: 500, service_us: (500, 1500) },
];

/// With twice the load and more, nine of ten replies are in time. The server serves hardly any fewer.
#[test]
fn admission_keeps_replies_in_time() {
    let (mut limited, mut open) = (OneCpuServer::new(TARGET_US, true), OneCpuServer::new(TARGET_US, false));
    let mut trace = String::from("ms,demand,rate,outside,inside,percentile_us,replies\n");
    let mut ms = 0;
    for demand in &DEMANDS {
        let (hours, others) = (limited.run(demand), open.run(demand));
        for hour in &hours {
            ms += 500;
            let rate = hour.rate.map_or_else(|| "inf".to_owned(), |rate| format!("{rate:.0}"));
            let percentile = Hour::percentile_us(hour.times_us.iter().copied());
            let (outside, inside, replies) = (hour.outside, hour.inside, hour.times_us.len());
            let name = demand.name;
            writeln!(trace, "{ms},{name},{rate},{outside},{inside},{percentile},{replies}").expect("text");
        }
        let times = |hours: &[Hour]| -> Vec<u64> {
            hours[hours.len() / 2..].iter().flat_map(|hour| hour.times_us.iter().copied()).collect()
        };
        let (with, without) = (times(&hours), times(&others));
        let percentile = Hour::percentile_us(with.iter().copied());
        assert!(percentile <= TARGET_US * 5 / 4, "{}: {percentile} us", demand.name);
        // Without admission control, the server also serves clients that came in long before.
        let came = (demand.rate * demand.ms / 2000) as usize;
        let most = without.len().min(came);
        assert!(with.len() * 100 >= most * 85, "{}: {} of {most}", demand.name, with.len());
        if demand.name == "double" {
            assert!(percentile >= TARGET_US / 2, "{percentile} us: there was room for more");
            assert!(Hour::percentile_us(without) > 10 * TARGET_US, "the load is no load");
        }
    }
    assert_eq!(limited.run(&DEMANDS[0]).last().expect("some").rate, None, "nobody is kept waiting any more");
    compare("admission.csv", &trace);
}

fn any_times() -> impl Strategy<Value = Option<Times>> {
    let times = (0.0..200.0_f64, 0.0..200.0_f64, 0.0..100.0_f64);
    prop::option::of(times.prop_map(|(running, delayed, idle)| Times { running, delayed, idle }))
}

proptest! {
    #[test]
    fn threads_stay_within_their_bounds(
        most in 1_usize..100,
        cpus in 1_usize..4,
        samples in prop::collection::vec((0_usize..200, 0_usize..100, any_times(), 1_usize..80), 1..100),
    ) {
        let mut law = Threads::new(most, cpus);
        let mut since_change = u32::MAX;
        for (queue, idle, times, repeated) in samples {
            for _ in 0..repeated {
                let before = law.in_use();
                let in_use = law.sampled(Sample { queue, idle: idle.min(before), times });
                prop_assert!((1..=most).contains(&in_use));
                since_change = since_change.saturating_add(1);
                if in_use != before {
                    prop_assert!(since_change >= 4, "it has had time to see what came of it");
                    prop_assert!(in_use < before || (queue * 4 > before && idle.min(before) == 0));
                    since_change = 0;
                }
            }
        }
    }

    #[test]
    fn batches_stay_within_their_bounds(
        most in 1_u32..1024,
        samples in prop::collection::vec((0_u64..10_000, 0_u64..100_000_000), 1..2000),
    ) {
        let mut law = Batch::new(most);
        for (connections, cpu_ns) in samples {
            let before = law.size();
            let size = law.sampled(connections, cpu_ns);
            prop_assert!((1..=most).contains(&size) && (1..=most).contains(&law.size()));
            prop_assert!(law.size() <= before.saturating_mul(2) && law.size() >= before / 2);
        }
    }

    #[test]
    fn admission_never_keeps_all_out_and_rises_only_if_it_keeps_some_out(
        target_ns in 10_000_000_u64..10_000_000_000,
        samples in prop::collection::vec(
            (0_u64..1_000_000_000, 0_u64..100_000, 0_u64..1000, 0_u64..1000, any::<bool>()),
            1..500,
        ),
    ) {
        let mut law = Admission::new(target_ns);
        let mut has_held = false;
        for (ns, accepted, timely, late, holds) in samples {
            let before = law.rate();
            has_held |= holds;
            let rate = law.sampled(admission::Sample { ns, accepted, timely, late, has_held: holds });
            prop_assert!(rate.is_none_or(|rate| (10.0..=1e7).contains(&rate)));
            if let (Some(before), Some(rate)) = (before, rate) {
                prop_assert!(rate <= before || has_held);
                prop_assert!(rate >= before * 0.874 || rate <= 10.0);
            }
            if rate != before {
                // The law has decided on what it had seen until now.
                has_held = false;
            }
        }
    }
}
