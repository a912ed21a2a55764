//! Child processes, made by a process that has a single thread, as `process::fork` wants it.

mod forking;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forking::await_end;
use sys::process::{self, Ended};
use sys::shared::Shared;
use sys::signal::{Signal, SignalSet, wake_on};
use sys::wake::Wake;

fn main() -> std::process::ExitCode {
    forking::run([
        ("children_end_with_their_code", children_end_with_their_code as fn()),
        ("a_panic_stays_in_the_child", a_panic_stays_in_the_child),
        ("a_child_can_be_killed", a_child_can_be_killed),
        ("the_end_of_a_parent_is_noticed", the_end_of_a_parent_is_noticed),
    ])
}

fn children_end_with_their_code() {
    let word: Shared<AtomicU32> = Shared::new().unwrap();
    for code in [0, 7, 255] {
        let child = process::fork(|| {
            word.store(std::process::id(), Ordering::Release);
            code
        });
        let child = child.unwrap();
        assert_eq!(await_end(child), Ended::Code(code.into()));
        assert_eq!(word.load(Ordering::Acquire), child);
    }
    assert_eq!(process::any_ended().unwrap(), None);
}

fn a_panic_stays_in_the_child() {
    let child = process::fork(|| panic!("this is meant to be seen")).unwrap();
    assert_eq!(await_end(child), Ended::Code(101));
}

fn a_child_can_be_killed() {
    let child = process::fork(|| {
        std::thread::sleep(Duration::from_mins(1));
        0
    });
    let child = child.unwrap();
    assert_eq!(process::ended(child).unwrap(), None);
    assert!(!process::reap(child).unwrap());
    process::kill(child).unwrap();
    assert_eq!(await_end(child).to_string(), "signal 9");
}

/// A child that forks and ends; its own child tells whether it was woken.
fn the_end_of_a_parent_is_noticed() {
    let told: Shared<AtomicU32> = Shared::new().unwrap();
    let child = process::fork(|| {
        let parent = std::process::id();
        let ready: Shared<AtomicU32> = Shared::new().unwrap();
        SignalSet::new(&[Signal::Terminate]).block().unwrap();
        let grandchild = process::fork(|| {
            let wake: &'static Wake = Box::leak(Box::new(Wake::new().unwrap()));
            wake_on(&[Signal::Terminate], wake).unwrap();
            process::signal_at_end_of_parent(Signal::Terminate).unwrap();
            ready.store(u32::from(process::parent() == parent), Ordering::Release);
            let began = Instant::now();
            while !wake.clear().unwrap() && began.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(1));
            }
            told.store(if process::parent() == parent { 2 } else { 1 }, Ordering::Release);
            0
        });
        grandchild.unwrap();
        while ready.load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        0
    });
    assert_eq!(await_end(child.unwrap()), Ended::Code(0));
    let began = Instant::now();
    while told.load(Ordering::Acquire) == 0 && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(told.load(Ordering::Acquire), 1);
}
