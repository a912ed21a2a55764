use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const RULES: Rules = Rules {
    in_flight: 2,
    waiting: 3,
    timeout_us: 10_000_000,
    target_us: Some(100_000),
    is_fair: true,
    goes_on: true,
};

const A: Account = Account::from_number(1);
const B: Account = Account::from_number(2);

fn queue(rules: Rules) -> Queue {
    Queue::new(rules).unwrap()
}

fn enter(queue: &Queue, worker: u32, account: Account, now_us: u64) -> Entry {
    queue.enter(worker, account, now_us).0
}

fn waits(entry: Entry) -> Ticket {
    match entry {
        Entry::Waits(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn goes(entry: Entry) -> Ticket {
    match entry {
        Entry::Goes(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn as_many_are_in_flight_as_may_and_as_many_wait() {
    let queue = queue(RULES);
    let first = goes(enter(&queue, 0, A, 0));
    let second = goes(enter(&queue, 1, A, 0));
    let waiting: Vec<_> = (10..13).map(|worker| waits(enter(&queue, worker, A, 0))).collect();
    assert_eq!(enter(&queue, 20, A, 0), Entry::Full);
    assert!(!queue.goes(&waiting[0]));
    assert_eq!(queue.leave(first, 1000), Some(10));
    assert!(queue.goes(&waiting[0]) && !queue.goes(&waiting[1]));
    let mut waiting = waiting.into_iter();
    assert_eq!(queue.leave(waiting.next().unwrap(), 2000), Some(11));
    assert_eq!(queue.leave(second, 2000), Some(12));
    for ticket in waiting {
        assert_eq!(queue.leave(ticket, 3000), None);
    }
    goes(enter(&queue, 0, A, 4000));
}

#[test]
fn a_standing_delay_is_due_to_who_has_most() {
    let queue = queue(Rules { in_flight: 1, waiting: 4, ..RULES });
    let mut flying = goes(enter(&queue, 0, A, 0));
    let mut waiting: Vec<_> = (0..3).map(|_| waits(enter(&queue, 0, A, 0))).collect();
    for now_us in [400_000, 800_000, 1_400_000] {
        assert!(!queue.is_crowded_by(A), "before {now_us}");
        queue.leave(flying, now_us);
        let next = waiting.iter().position(|ticket| queue.goes(ticket));
        flying = waiting.remove(next.expect("the next goes"));
        waiting.push(waits(enter(&queue, 0, A, now_us)));
    }
    assert!(queue.is_crowded_by(A) && !queue.is_crowded_by(B));
    queue.leave(flying, 1_500_000);
    for ticket in waiting {
        queue.leave(ticket, 1_500_000);
    }
    assert!(!queue.is_crowded_by(A), "nobody waits");
}

#[test]
fn who_has_waited_for_too_long_does_not_go() {
    let queue = queue(Rules { in_flight: 1, ..RULES });
    let first = goes(enter(&queue, 0, A, 0));
    let late = waits(enter(&queue, 1, A, 1000));
    let in_time = waits(enter(&queue, 2, A, 2_000_000));
    assert_eq!(queue.leave(first, 10_500_000), Some(2));
    assert!(!queue.goes(&late) && queue.goes(&in_time));
    assert_eq!(queue.leave(late, 10_500_000), None);
    assert_eq!(queue.leave(in_time, 10_600_000), None);
}

/// A hundred requests of one client, and then one of another.
#[test]
fn a_client_with_many_requests_leaves_others_their_share() {
    let queue = queue(Rules { in_flight: 1, waiting: 1000, target_us: None, ..RULES });
    let mut now = 0;
    let mut flying = goes(enter(&queue, 0, A, now));
    let mut tickets: BTreeMap<u32, Ticket> =
        (1..100).map(|worker| (worker, waits(enter(&queue, worker, A, now)))).collect();
    let mut order = Vec::new();
    for turn in 0..20 {
        if turn >= 5 {
            let worker = 1000 + turn;
            tickets.insert(worker, waits(enter(&queue, worker, B, now)));
        }
        now += 50_000;
        let next = queue.leave(flying, now).unwrap();
        order.push(next >= 1000);
        flying = tickets.remove(&next).unwrap();
    }
    let of_other = order[5..].iter().filter(|is_other| **is_other).count();
    assert!((7..=9).contains(&of_other), "half of what comes then: {order:?}");
}

/// Requests of A take a millisecond each. So did one of B, but it was in flight for a second.
#[test]
fn waiting_in_flight_is_not_charged() {
    let queue = queue(Rules { in_flight: 1, waiting: 1000, ..RULES });
    let mut now = 0;
    let mut flying = goes(enter(&queue, 0, A, now));
    let mut tickets: BTreeMap<u32, Ticket> =
        (1..100).map(|worker| (worker, waits(enter(&queue, worker, A, now)))).collect();
    tickets.insert(1000, waits(enter(&queue, 1000, B, now)));
    let mut order = Vec::new();
    for turn in 0..10 {
        let is_of_b = order.last() == Some(&1000);
        now += if is_of_b { 1_000_000 } else { 1000 };
        if turn == 8 {
            tickets.insert(1000, waits(enter(&queue, 1000, B, now)));
        }
        let next = queue.leave_after(flying, 1000, now).unwrap();
        order.push(next);
        flying = tickets.remove(&next).unwrap();
    }
    assert!(order[..3].contains(&1000) && order[8..].contains(&1000), "{order:?}");
}

/// When there is no room to wait, the client that has had the most makes some.
#[test]
fn a_client_with_many_requests_leaves_others_room() {
    let queue = queue(Rules { in_flight: 1, waiting: 3, ..RULES });
    let mut now = 0;
    for _ in 0..3 {
        let ticket = goes(enter(&queue, 0, A, now));
        now += 50_000;
        queue.leave(ticket, now);
    }
    let flying = goes(enter(&queue, 0, A, now));
    let of_a: Vec<_> =
        (1..4).map(|worker| waits(enter(&queue, worker, A, now + u64::from(worker)))).collect();
    assert_eq!(enter(&queue, 4, A, now), Entry::Full, "none has had more than it");
    let (entry, woken) = queue.enter(5, B, now);
    assert_eq!(woken, Some(1), "the oldest is told");
    let of_b = waits(entry);
    assert_eq!(of_a.iter().map(|ticket| queue.waits(ticket)).collect::<Vec<_>>(), [false, true, true]);
    assert!(!queue.goes(&of_a[0]));
    assert_eq!(queue.leave(flying, now + 50_000), Some(5), "B has had nothing yet");
    assert!(queue.goes(&of_b));
    let mut of_a = of_a.into_iter();
    assert_eq!(queue.leave(of_a.next().unwrap(), now + 50_000), None);
    waits(enter(&queue, 6, A, now + 50_000));
    assert_eq!(queue.shared.waiting.load(ORDER), 3);
    // The slots of a dead worker are given back, too.
    waits(queue.enter(7, Account::from_number(3), now + 50_000).0);
    queue.clear(2, now + 50_000);
    assert_eq!(queue.taken().filter(|slot| slot.state.load(ORDER) & 3 == DISPLACED).count(), 0);
}

/// A client that was away has nothing saved up. It gets its share from now on, not what it did not
/// take.
#[test]
fn nothing_is_saved_up() {
    let queue = queue(Rules { in_flight: 1, waiting: 1000, target_us: None, ..RULES });
    let mut now = 0;
    for _ in 0..100 {
        let ticket = goes(enter(&queue, 0, A, now));
        now += 50_000;
        assert_eq!(queue.leave(ticket, now), None);
    }
    let mut flying = goes(enter(&queue, 0, A, now));
    let mut tickets = BTreeMap::new();
    for worker in 1..50 {
        tickets.insert(worker, waits(enter(&queue, worker, A, now)));
        tickets.insert(1000 + worker, waits(enter(&queue, 1000 + worker, B, now)));
    }
    let mut of_b = 0;
    for _ in 0..20 {
        now += 50_000;
        let next = queue.leave(flying, now).unwrap();
        of_b += u32::from(next > 1000);
        flying = tickets.remove(&next).unwrap();
    }
    assert!((9..=11).contains(&of_b), "{of_b} of 20");
}

/// A request that may go is reported once, by the name that its worker gave it. If another request
/// has the slot by then, it has no name.
#[test]
fn those_who_may_go_are_called_by_their_names() {
    let queue = queue(Rules { in_flight: 1, ..RULES });
    let called = |worker| queue.called(worker).collect::<Vec<_>>();
    let first = goes(enter(&queue, 7, A, 0));
    let [second, third] = [7, 8].map(|worker| waits(enter(&queue, worker, A, 0)));
    queue.name(&second, 77);
    queue.name(&third, 88);
    assert!(called(7).is_empty() && called(8).is_empty());
    assert_eq!(queue.leave(first, 1), Some(7));
    assert_eq!((called(7), called(8)), (vec![77], vec![]));
    assert!(called(7).is_empty());
    assert_eq!(queue.leave(second, 2), Some(8));
    assert_eq!(queue.leave(third, 3), None);
    goes(enter(&queue, 8, A, 4));
    assert!(called(8).is_empty());
}

/// While a queue does not get shorter, the newest requests are answered in time. When the queue is
/// gone, the oldest go first again.
#[test]
fn the_newest_go_first_while_a_delay_stands() {
    let queue = queue(Rules { in_flight: 1, waiting: 1000, is_fair: false, ..RULES });
    let mut now = 0;
    let mut flying = goes(enter(&queue, 0, A, now));
    let mut tickets = BTreeMap::new();
    for worker in 1..=40 {
        tickets.insert(worker, waits(enter(&queue, worker, A, now)));
    }
    let mut order = Vec::new();
    for turn in 0..30 {
        now += 50_000;
        let worker = 100 + turn;
        tickets.insert(worker, waits(enter(&queue, worker, A, now)));
        let next = queue.leave(flying, now).unwrap();
        order.push(next);
        flying = tickets.remove(&next).unwrap();
    }
    assert_eq!(order[..10], (1..11).collect::<Vec<_>>(), "not before the delay has stood for long");
    assert_eq!(order[25..], (125..130).collect::<Vec<_>>());
    while let Some(next) = queue.leave(flying, now) {
        now += 1000;
        flying = tickets.remove(&next).unwrap();
    }
    let ticket = goes(enter(&queue, 0, A, now));
    waits(enter(&queue, 1, A, now));
    waits(enter(&queue, 2, A, now + 1));
    assert_eq!(queue.leave(ticket, now + 2), Some(1));
}

#[test]
fn what_a_dead_worker_held_goes_to_others() {
    let queue = queue(RULES);
    goes(enter(&queue, 7, A, 0));
    goes(enter(&queue, 7, A, 0));
    waits(enter(&queue, 7, A, 0));
    let other = waits(enter(&queue, 8, A, 0));
    // The application may go on working for as long again as it has: the time of a request is not
    // known yet.
    assert!(queue.clear(7, 1000).is_empty());
    assert_eq!(queue.look(1999), None);
    assert_eq!(queue.look(2000), Some(8));
    assert!(queue.goes(&other));
    goes(enter(&queue, 9, A, 2000));
    waits(enter(&queue, 9, A, 2000));
}

/// If the holder of the lock has been stopped, no one waits for it for long. Slots left meanwhile are
/// not forgotten.
#[test]
fn a_place_is_left_even_while_somebody_holds_the_lock() {
    let queue = queue(Rules { in_flight: 1, ..RULES });
    let first = goes(enter(&queue, 0, A, 0));
    let second = waits(enter(&queue, 1, A, 0));
    let (taken, told) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let held = queue.shared.lock.lock(Duration::from_secs(20)).expect("it is free");
        taken.send(()).expect("the test waits");
        let _ = released.recv();
        drop(held);
    });
    told.recv().expect("it is held");
    assert_eq!(queue.leave(first, 1000), None);
    assert_eq!(enter(&queue, 2, A, 1000), Entry::Full);
    drop(release);
    holder.join().expect("it ends");
    let third = waits_or_goes(enter(&queue, 2, A, 2000));
    let in_flight = [&second, &third].into_iter().filter(|ticket| queue.goes(ticket)).count();
    assert_eq!(in_flight, 1);
}

fn waits_or_goes(entry: Entry) -> Ticket {
    match entry {
        Entry::Goes(ticket) | Entry::Waits(ticket) => ticket,
        Entry::Full => panic!("there is room"),
    }
}

/// Clients that disconnect send the application no more requests than it has children for.
#[test]
fn a_request_that_is_given_up_keeps_its_place_for_a_while() {
    let queue = queue(Rules { in_flight: 1, ..RULES });
    let mut now = 0;
    for _ in 0..100 {
        let ticket = goes(enter(&queue, 0, A, now));
        now += 50_000;
        assert_eq!(queue.leave(ticket, now), None);
    }
    let left = goes(enter(&queue, 0, A, now));
    let next = waits(enter(&queue, 1, A, now));
    assert_eq!(queue.abandon(left, now + 1000), None);
    assert_eq!(queue.look(now + 90_000), None);
    assert!(!queue.goes(&next));
    assert_eq!(queue.look(now + 110_000), Some(1));
    assert!(queue.goes(&next));
}

#[derive(Clone, Debug)]
enum Step {
    Enter {
        worker: u32,
        account: u32,
    },
    /// Leaves the slot of the request with this index among those held.
    Leave(usize),
    Clear(u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u32..4, 0_u32..3).prop_map(|(worker, account)| Step::Enter { worker, account }),
        4 => (0_usize..10).prop_map(Step::Leave),
        1 => (0_u32..4).prop_map(Step::Clear),
        2 => (0_u64..3_000_000).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Whatever happens, no more requests are in flight than may be. No request that may go waits
    /// while there is room.
    #[test]
    fn nobody_is_forgotten(steps in prop::collection::vec(step(), 1..200), fair: bool, delay: bool) {
        let target_us = delay.then_some(100_000);
        let queue = queue(Rules { is_fair: fair, target_us, ..RULES });
        let (mut now, mut held) = (0, Vec::<(u32, u64, Ticket)>::new());
        for step in steps {
            match step {
                Step::Enter { worker, account } => {
                    match enter(&queue, worker, Account::from_number(account), now) {
                        Entry::Goes(ticket) | Entry::Waits(ticket) => held.push((worker, now, ticket)),
                        Entry::Full => {}
                    }
                }
                Step::Leave(at) if at < held.len() => {
                    queue.leave(held.remove(at).2, now);
                }
                Step::Leave(_) => {}
                Step::Clear(worker) => {
                    queue.clear(worker, now);
                    held.retain(|(other, ..)| *other != worker);
                }
                Step::Wait(us) => now += us,
            }
            let in_flight = held.iter().filter(|(.., ticket)| queue.goes(ticket)).count();
            // Requests of dead workers keep their slots for a while.
            let counted = queue.shared.in_flight.load(ORDER);
            prop_assert!(in_flight as u32 <= counted && counted <= 2);
            let waiting = held.iter().filter(|(.., ticket)| queue.waits(ticket));
            prop_assert_eq!(waiting.clone().count() as u32, queue.shared.waiting.load(ORDER));
            // Late requests are removed by their own workers.
            let in_time = waiting.filter(|(_, since, _)| now - since < RULES.timeout_us).count();
            prop_assert!(counted == 2 || in_time == 0, "{in_time} wait, {counted} are in flight");
        }
    }
}
