use std::collections::HashSet;

use super::*;

#[test]
fn the_table_names_every_counter_once() {
    let block = Counters::default();
    let addresses: Vec<*const Counter> =
        METRICS.iter().flat_map(|m| m.read(&block)).map(std::ptr::from_ref).collect();
    let distinct: HashSet<_> = addresses.iter().collect();
    assert_eq!(distinct.len(), addresses.len());
    // The block ends with the census. Everything before the census is counters.
    let counters = std::mem::offset_of!(Counters, census) / size_of::<Counter>();
    assert_eq!(addresses.len(), counters);
}

#[test]
fn the_table_of_pools_names_every_counter_once() {
    let block = PoolCounters::default();
    let addresses: HashSet<*const Counter> =
        POOL_METRICS.iter().flat_map(|m| m.read(&block)).map(std::ptr::from_ref).collect();
    // The block has only counters, followed by padding for its alignment.
    let counters = POOL_METRICS.iter().map(|metric| metric.read(&block).len()).sum::<usize>();
    assert_eq!(addresses.len(), counters);
    assert_eq!((counters * size_of::<Counter>()).next_multiple_of(128), size_of::<PoolCounters>());
    assert!(POOL_METRICS.iter().all(|metric| metric.read(&block).len() == names_of(metric).len()));
}

#[test]
fn times_are_counted_in_the_millisecond_that_they_ended_in() {
    let block = PoolCounters::default();
    for us in [0, 1, 999, 1000, 1001, 5_000_000] {
        block.has_waited(us);
    }
    let counts = block.waits_ms.each_ref().map(Counter::get);
    assert_eq!(counts, [1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(block.wait_us.get(), 5_003_001);
}

fn names_of<B: Block>(metric: &Metric<B>) -> &'static [&'static str] {
    metric.labels.map_or(&[""], |labels| labels.names)
}

#[test]
fn counters_may_lie_in_shared_memory() {
    let block = sys::shared::Shared::<Counters>::new().unwrap();
    block.accept_phase(2);
    assert_eq!(block.accepts.get(), 2);
    assert_eq!(std::ptr::from_ref(&*block).addr() % 128, 0);
}

#[test]
fn names_are_distinct_and_match_their_values() {
    let block = Counters::default();
    let names: HashSet<_> = METRICS.iter().map(|m| m.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        assert_eq!(metric.read(&block).len(), names_of(metric).len(), "{}", metric.name);
    }
}

#[test]
fn refusals_and_timeouts_are_named_after_their_kinds() {
    let snake_case = |kind: &dyn std::fmt::Debug| {
        let camel = format!("{kind:?}");
        let words = camel.split_inclusive(|_| true).map(|c| match c {
            c if c.chars().all(char::is_uppercase) => format!("_{}", c.to_lowercase()),
            c => c.to_owned(),
        });
        words.collect::<String>().trim_start_matches('_').to_owned()
    };
    let refusals: Vec<_> = ErrorKind::ALL.iter().map(|kind| snake_case(kind)).collect();
    assert_eq!(refusals, Refusal::NAMES);
    for kind in [TimerKind::Header, TimerKind::Body, TimerKind::Write, TimerKind::Idle, TimerKind::Linger] {
        assert_eq!(snake_case(&kind), Timeout::NAMES[kind as usize]);
    }
}

#[test]
fn every_code_that_is_sent_is_counted_and_no_other() {
    let sent = http1::Status::SENT.map(|status| status.0.to_string());
    assert_eq!(ReplyCode::NAMES, sent.as_slice());
}

#[test]
fn replies_are_counted_by_class_and_code() {
    let block = Counters::default();
    for status in [200, 200, 206, 404, 299, 599, 42, 700, u16::MAX] {
        block.reply(status);
    }
    assert_eq!(block.replies.each_ref().map(Counter::get), [0, 4, 0, 1, 1]);
    let by_code: Vec<_> =
        ReplyCode::NAMES.iter().zip(&block.replies_by_code).filter(|(_, n)| n.get() > 0).collect();
    assert_eq!(
        by_code.iter().map(|(c, n)| (**c, n.get())).collect::<Vec<_>>(),
        [("200", 2), ("206", 1), ("404", 1)]
    );
}

#[test]
fn values_fall_into_the_bucket_whose_bound_holds_them() {
    for value in (0..5000).chain([u64::MAX]) {
        let expected = HISTOGRAM_BOUNDS.partition_point(|&bound| bound < value);
        assert_eq!(bucket(value), expected, "{value}");
    }
    let block = Counters::default();
    for accepted in [0, 3, 7, 2] {
        block.accept_phase(accepted);
    }
    assert_eq!((block.accepts.get(), block.accept_phases.get()), (12, 4));
    assert_eq!(block.accepts_per_phase_max.get(), 7);
    block.accept_queue_seen(3);
    block.accept_wait_seen(9);
    assert_eq!((block.accept_queue_lengths[3].get(), block.accept_queue_lengths_seen.get()), (1, 3));
    assert_eq!((block.accept_waits_ms[5].get(), block.accept_waits_seen_ms.get()), (1, 9));
}

#[test]
fn histograms_name_the_counter_that_sums_them_up() {
    fn check<B: Block>(table: &[Metric<B>]) {
        for metric in table {
            if let Kind::Histogram { sum } = metric.kind {
                let sum = table.iter().find(|metric| metric.name == sum);
                assert!(
                    sum.is_some_and(|sum| sum.kind == Kind::Counter && sum.labels.is_none()),
                    "{}",
                    metric.name
                );
                assert_eq!(names_of(metric).len(), HISTOGRAM_BOUNDS.len() + 1);
            }
        }
    }
    check(METRICS);
    check(POOL_METRICS);
}

#[test]
fn what_a_worker_that_is_gone_had_counted_is_kept() {
    let (block, past) = (Counters::default(), Counters::default());
    for round in 1..=2 {
        block.accept_phase(5);
        block.connections_opened.add(5);
        block.connections_closed.add(1);
        block.connections[ConnectionState::Idle as usize].set(4);
        block.pid.store(17, Ordering::Relaxed);
        block.retire_to(&past);
        assert_eq!((past.accepts.get(), past.accepts_per_phase_max.get()), (5 * round, 5));
        assert_eq!((past.connections_opened.get(), past.connections_closed.get()), (5 * round, 5 * round));
        assert!(METRICS.iter().flat_map(|m| m.read(&block)).all(|counter| counter.get() == 0));
        assert_eq!(
            (block.pid.load(Ordering::Relaxed), past.connections[ConnectionState::Idle as usize].get()),
            (0, 0)
        );
    }
}

#[test]
fn a_census_is_taken_once_for_each_request() {
    let block = Counters::default();
    block.answer_census(|| panic!("nobody asked"));
    let first = block.census.request();
    assert!(!block.census.is_done(first));
    let second = block.census.request();
    block.answer_census(|| [1, 2, 3, 4, 5]);
    assert!(block.census.is_done(first) && block.census.is_done(second));
    assert_eq!(block.connections[ConnectionState::Lingering as usize].get(), 5);
    block.answer_census(|| panic!("already answered"));
}
