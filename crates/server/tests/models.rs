//! What the pipeline's stages lock, under loom, which goes through the orders in which threads can come: with
//! its locks in place of the real ones, whatever is given to a queue is taken once, nobody sleeps for ever,
//! and no event is lost on who comes to wait.

#![expect(dead_code, reason = "models use a part of what the server does")]

use std::collections::VecDeque;

use http1::Tick;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

mod sync {
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use server::counters::Counter;
}

#[path = "../src/architecture/pipeline/queue.rs"]
mod queue;
#[path = "../src/architecture/pipeline/waiting.rs"]
mod waiting;

use queue::Queue;
use server::{slab, timers};
use waiting::{Arrival, Told, Waiting};

/// Goes through the orders of a model, those that need more than so many preemptions left out.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Takes until there are so many.
fn take(queue: &Queue<u32>, thread: usize, count: usize) -> Vec<u32> {
    let mut taken = Vec::new();
    while taken.len() < count {
        queue.take(thread, 1, None, &mut taken);
    }
    taken
}

#[test]
fn what_is_given_is_taken_in_its_order_and_a_full_queue_is_waited_for() {
    check(3, || {
        let queue = Arc::new(Queue::new(1, 1));
        let other = Arc::clone(&queue);
        let giver = thread::spawn(move || {
            other.give(&mut VecDeque::from([1, 2, 3]), 0);
        });
        assert_eq!(take(&queue, 0, 3), [1, 2, 3]);
        giver.join().unwrap();
        assert_eq!(queue.len(), 0);
    });
}

#[test]
fn two_who_take_share_what_two_bring() {
    check(2, || {
        let queue = Arc::new(Queue::new(2, 4));
        let givers = [1, 2].map(|number| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.give(&mut VecDeque::from([number]), 0))
        });
        let other = Arc::clone(&queue);
        let second = thread::spawn(move || take(&other, 1, 1)[0]);
        let mut taken = [take(&queue, 0, 1)[0], second.join().unwrap()];
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
        for giver in givers {
            assert!(!giver.join().unwrap(), "there was room");
        }
    });
}

/// One brings several at once, and wakes one: that one wakes the next.
#[test]
fn a_batch_wakes_all_that_it_is_enough_for() {
    check(2, || {
        let queue = Arc::new(Queue::new(2, 4));
        let threads = [0, 1].map(|number| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || take(&queue, number, 1)[0])
        });
        queue.give_back(&mut vec![1, 2], 0);
        let mut taken = threads.map(|thread| thread.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

/// Read and Write stand in a circle: the one waits for room in the other's queue, the other never for room.
#[test]
fn a_circle_of_two_stages_does_not_stand_still() {
    check(2, || {
        let (reads, writes) = (Arc::new(Queue::new(1, 1)), Arc::new(Queue::new(1, 1)));
        let (own, next) = (Arc::clone(&reads), Arc::clone(&writes));
        let reader = thread::spawn(move || {
            // Each comes twice: new, and when it has been written to.
            for _ in 0..4 {
                let read = take(&own, 0, 1)[0];
                if read < 10 {
                    next.give(&mut VecDeque::from([read]), 0);
                }
            }
        });
        let (back, own) = (Arc::clone(&reads), Arc::clone(&writes));
        let other = thread::spawn(move || {
            for _ in 0..2 {
                let written = take(&own, 0, 1)[0];
                back.give_back(&mut vec![written + 10], 0);
            }
        });
        reads.give(&mut VecDeque::from([1, 2]), 0);
        reader.join().unwrap();
        other.join().unwrap();
        assert_eq!((reads.len(), writes.len()), (0, 0));
    });
}

#[test]
fn what_is_for_one_alone_and_a_poke_reach_that_one() {
    check(3, || {
        let queue = Arc::new(Queue::new(2, 1));
        let takers = [0, 1].map(|number| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let (mut taken, mut is_poked) = (Vec::new(), false);
                while taken.is_empty() || !is_poked {
                    is_poked |= queue.take(number, 1, None, &mut taken).is_poked;
                }
                taken
            })
        });
        queue.give_to(1, 11, 0);
        queue.poke(0);
        queue.give_to(0, 10, 0);
        queue.poke(1);
        assert_eq!(takers.map(|taker| taker.join().unwrap()), [[10], [11]]);
    });
}

/// Whoever has taken the last closes the queue: if somebody had to and sleeps, all sleep for ever.
#[test]
fn nothing_is_left_to_who_goes_out_of_use() {
    check(3, || {
        let (queue, left) = (Arc::new(Queue::new(2, 4)), Arc::new(AtomicUsize::new(2)));
        let takers = [0, 1].map(|number| {
            let (queue, left) = (Arc::clone(&queue), Arc::clone(&left));
            thread::spawn(move || {
                let mut taken = Vec::new();
                while !queue.take(number, 1, None, &mut taken).is_closed {
                    let count = taken.drain(..).count();
                    if count > 0 && left.fetch_sub(count, Ordering::SeqCst) == count {
                        queue.close();
                    }
                }
            })
        });
        queue.give_back(&mut vec![1], 0);
        queue.use_takers(1);
        queue.give_back(&mut vec![2], 0);
        for taker in takers {
            taker.join().unwrap();
        }
        assert_eq!(left.load(Ordering::SeqCst), 0);
    });
}

/// The first does not come, as if it waited for a disk.
#[test]
fn who_comes_into_use_takes_what_is_there() {
    check(3, || {
        let queue = Arc::new(Queue::new(2, 4));
        queue.use_takers(1);
        let other = Arc::clone(&queue);
        let second = thread::spawn(move || take(&other, 1, 1)[0]);
        queue.give_back(&mut vec![1], 0);
        assert_eq!(queue.state().0, 1);
        queue.use_takers(2);
        assert_eq!(second.join().unwrap(), 1);
    });
}

#[test]
fn who_was_refused_room_is_told_of_it() {
    check(3, || {
        let queue = Arc::new(Queue::new(1, 1));
        let mut batch = VecDeque::from([1, 2]);
        queue.offer(&mut batch, 0);
        assert_eq!(batch, [2]);
        let other = Arc::clone(&queue);
        let thread = thread::spawn(move || {
            let mut taken = Vec::new();
            let has_room = other.take(0, 1, None, &mut taken).has_room;
            (taken, has_room)
        });
        let (taken, has_room) = thread.join().unwrap();
        assert_eq!((taken, has_room), (vec![1], true));
        queue.offer(&mut batch, 0);
        assert!(batch.is_empty());
    });
}

#[test]
fn the_end_wakes_all_who_sleep() {
    check(3, || {
        let queue = Arc::new(Queue::new(1, 1));
        let (first, second) = (Arc::clone(&queue), Arc::clone(&queue));
        let taker = thread::spawn(move || while !first.take(0, 1, None, &mut Vec::new()).is_closed {});
        let giver = thread::spawn(move || second.give(&mut VecDeque::from([1, 2, 3]), 0));
        queue.close();
        taker.join().unwrap();
        giver.join().unwrap();
    });
}

const INPUT: Told = Told { client: (true, false, false), link: (false, false, false) };

/// A stage finds no input and comes to wait, while some comes and is told of: one of the two goes on with it.
#[test]
fn nobody_waits_for_what_has_been_told() {
    check(3, || {
        let waiting = Arc::new(Waiting::new(Tick(0)));
        let number = waiting.lock().enter();
        // Under a lock, as the kernel has what lies in a socket.
        let has_input = Arc::new(Mutex::new(false));
        let (there, input) = (Arc::clone(&waiting), Arc::clone(&has_input));
        let poll = thread::spawn(move || {
            *input.lock().unwrap() = true;
            there.lock().tell(number, INPUT)
        });
        let mut who = Some("one");
        let mut has_read = false;
        while let Some(one) = who.take() {
            if std::mem::take(&mut *has_input.lock().unwrap()) {
                has_read = true;
                break;
            }
            if let Arrival::GoesOn(one, told) = waiting.lock().wait(number, one, None) {
                assert_eq!(told, INPUT);
                who = Some(one);
            }
        }
        let goes_on = poll.join().unwrap();
        assert_ne!(has_read, goes_on.is_some(), "one of the two");
    });
}

/// A deadline and an event at once: who waits is handed on once.
#[test]
fn who_expires_and_is_told_goes_on_once() {
    check(3, || {
        let waiting = Arc::new(Waiting::new(Tick(0)));
        let number = waiting.lock().enter();
        let deadline = Tick(5);
        let arrival = waiting.lock().wait(number, "one", Some(deadline));
        assert!(matches!(arrival, Arrival::Waits { is_sooner: true }), "nobody would look");
        let there = Arc::clone(&waiting);
        let poll = thread::spawn(move || there.lock().tell(number, INPUT).is_some());
        let has_expired = waiting.lock().expired(Tick(6), |_| Some(deadline)).is_some();
        assert_ne!(poll.join().unwrap(), has_expired, "one of the two");
        assert_eq!(waiting.lock().counts(), (0, 1));
    });
}

#[test]
fn an_event_reaches_only_who_it_was_told_for() {
    check(1, || {
        let waiting = Waiting::new(Tick(0));
        let before = waiting.lock().enter();
        waiting.lock().leave(before);
        let number = waiting.lock().enter();
        assert_eq!(number.index, before.index);
        assert_eq!(waiting.lock().tell(before, INPUT), None);
        let arrival = waiting.lock().wait(number, "another", None);
        assert!(matches!(arrival, Arrival::Waits { is_sooner: false }), "of the one before");
        assert_eq!(waiting.lock().tell(before, INPUT), None);
        assert_eq!(waiting.lock().tell(number, INPUT), Some("another"));
    });
}
