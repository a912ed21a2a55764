//! Processes that are killed: what they held of locks, and what they owned of a common descriptor table.

mod forking;

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forking::{TIMEOUT, await_end};
use sys::descriptors::{Claim, Kept, Ledger, grow_table};
use sys::lock::{Mutex, Reader, ReadersWriter, Unread, Writer};
use sys::process::{self, Ended, fork, fork_sharing_descriptors};
use sys::shared::{Region, Shared};

fn main() -> std::process::ExitCode {
    forking::run([
        ("descriptors_are_common", descriptors_are_common as fn()),
        ("a_panic_closes_nothing", a_panic_closes_nothing),
        ("a_child_has_an_id_and_threads_of_its_own", a_child_has_an_id_and_threads_of_its_own),
        ("who_waits_for_a_killed_owner_is_woken", who_waits_for_a_killed_owner_is_woken),
        ("owners_are_killed_at_any_moment", owners_are_killed_at_any_moment),
        ("readers_and_writers_are_killed_at_any_moment", readers_and_writers_are_killed_at_any_moment),
        ("what_a_killed_process_owned_is_closed", what_a_killed_process_owned_is_closed),
        (
            "what_a_killed_process_had_not_recorded_is_closed",
            what_a_killed_process_had_not_recorded_is_closed,
        ),
        ("what_the_ledger_looked_with_is_nobodys", what_the_ledger_looked_with_is_nobodys),
        ("what_is_claimed_in_time_is_left_alone", what_is_claimed_in_time_is_left_alone),
        ("files_made_in_memory_are_served_with", files_made_in_memory_are_served_with),
        ("what_is_kept_outlives_who_opened_it", what_is_kept_outlives_who_opened_it),
        ("copies_are_closed", copies_are_closed),
        ("what_a_copy_has_of_its_own_is_left_alone", what_a_copy_has_of_its_own_is_left_alone),
    ])
}

fn kill(child: u32) {
    process::kill(child).unwrap();
    assert_eq!(await_end(child), Ended::Signal(9));
}

fn await_word(word: &AtomicU32, value: u32) {
    let began = Instant::now();
    while word.load(Ordering::Acquire) != value {
        assert!(began.elapsed() < TIMEOUT, "{} instead of {value}", word.load(Ordering::Acquire));
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn sleep_for_ever() -> u8 {
    loop {
        std::thread::sleep(Duration::from_mins(1));
    }
}

fn word() -> &'static AtomicU32 {
    Shared::<AtomicU32>::new().unwrap().leak()
}

fn is_open(number: RawFd) -> bool {
    std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok()
}

/// Numbers without a pattern (splitmix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn descriptors_are_common() {
    grow_table(512).unwrap();
    let opened = word();
    let child = fork_sharing_descriptors(|| {
        let file = File::open("/dev/null").unwrap();
        opened.store(file.as_raw_fd() as u32, Ordering::Release);
        std::mem::forget(file);
        0
    });
    assert_eq!(await_end(child.unwrap()), Ended::Code(0));
    let number = opened.load(Ordering::Acquire) as RawFd;
    assert!(is_open(number));
    let child = fork_sharing_descriptors(|| {
        // One of the numbers from 3 on is the child's to close.
        let ledger = Ledger::new(1_024).unwrap();
        ledger.own(borrowed(number), 1);
        ledger.close_owned(1) as u8
    });
    assert_eq!(await_end(child.unwrap()), Ended::Code(1));
    assert!(!is_open(number));
}

/// For calls that only look at the number.
fn borrowed(number: RawFd) -> impl AsFd {
    // SAFETY: it is not closed by being dropped.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(number) }
}

fn a_panic_closes_nothing() {
    let opened = word();
    let child = fork_sharing_descriptors(|| {
        let file = File::open("/dev/null").unwrap();
        opened.store(file.as_raw_fd() as u32, Ordering::Release);
        panic!("this is meant to be seen");
    });
    assert_eq!(await_end(child.unwrap()), Ended::Code(101));
    assert!(is_open(opened.load(Ordering::Acquire) as RawFd));
}

fn a_child_has_an_id_and_threads_of_its_own() {
    for fork in [fork_with as fn(_) -> _, fork_sharing_with] {
        let child = fork(Box::new(|| {
            // Threads, and what the C library knows of the first one.
            let sum: u32 = (0..4).map(|n| std::thread::spawn(move || n).join().unwrap()).sum();
            let mutex: &'static Mutex = Shared::<Mutex>::new().unwrap().leak();
            let held = mutex.lock(TIMEOUT).unwrap();
            let is_excluded = std::thread::spawn(|| mutex.lock(Duration::ZERO).is_none()).join().unwrap();
            drop(held);
            let same = sys::process::thread_id() == std::process::id();
            // SAFETY: sends the calling thread no signal, but fails if the library believes it to be another
            // one.
            let known = unsafe { libc::pthread_kill(libc::pthread_self(), 0) } == 0;
            u8::from(sum != 6 || !is_excluded || !same || !known)
        }));
        assert_eq!(await_end(child), Ended::Code(0));
    }
}

type Child = Box<dyn FnOnce() -> u8>;

fn fork_with(child: Child) -> u32 {
    fork(child).unwrap()
}

fn fork_sharing_with(child: Child) -> u32 {
    fork_sharing_descriptors(child).unwrap()
}

fn who_waits_for_a_killed_owner_is_woken() {
    for fork in [fork_with as fn(_) -> _, fork_sharing_with] {
        let mutex: &'static Mutex = Shared::<Mutex>::new().unwrap().leak();
        let (held, told) = (word(), word());
        let owner = fork(Box::new(move || {
            let _held = mutex.lock(TIMEOUT).unwrap();
            held.store(1, Ordering::Release);
            sleep_for_ever()
        }));
        await_word(held, 1);
        let waiter = fork(Box::new(move || {
            told.store(1, Ordering::Release);
            let held = mutex.lock(TIMEOUT).unwrap();
            told.store(if held.owner_died() { 3 } else { 2 }, Ordering::Release);
            0
        }));
        await_word(told, 1);
        std::thread::sleep(Duration::from_millis(20));
        kill(owner);
        await_word(told, 3);
        assert_eq!(await_end(waiter), Ended::Code(0));
        let again = mutex.lock(Duration::ZERO).unwrap();
        assert!(!again.owner_died());
    }
}

/// Two numbers that are changed together, by two processes, one of which is killed and started again all the
/// time.
fn owners_are_killed_at_any_moment() {
    let mutexes: &'static [Mutex] = Region::new(2).unwrap().leak();
    let numbers: &'static [AtomicU64] = Region::new(2).unwrap().leak();
    let stop = word();
    let work = move || {
        let held = (mutexes[0].lock(TIMEOUT).unwrap(), mutexes[1].lock(TIMEOUT).unwrap());
        if held.1.owner_died() {
            numbers[1].store(numbers[0].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        assert_eq!(numbers[0].load(Ordering::Relaxed), numbers[1].load(Ordering::Relaxed));
        for number in numbers {
            number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        // Not in the order of a stack.
        drop(held.0);
        (held.1.owner_died(), drop(held.1)).0
    };
    let survivor = fork(|| {
        while stop.load(Ordering::Acquire) == 0 {
            work();
        }
        0
    });
    let (mut died_in_the_middle, mut state) = (0, 7);
    for _ in 0..300 {
        let victim = fork_sharing_descriptors(|| {
            loop {
                work();
            }
        });
        std::thread::sleep(Duration::from_micros(random(&mut state) % 1_500));
        kill(victim.unwrap());
        died_in_the_middle += u32::from(work());
    }
    stop.store(1, Ordering::Release);
    assert_eq!(await_end(survivor.unwrap()), Ended::Code(0));
    // Most deaths are noticed by the survivor; some must be noticed here.
    assert!(died_in_the_middle > 0);
}

fn readers_and_writers_are_killed_at_any_moment() {
    let lock =
        ReadersWriter::new(Shared::<Writer>::new().unwrap().leak(), Region::<Reader>::new(3).unwrap().leak());
    let numbers: &'static [AtomicU64] = Region::new(2).unwrap().leak();
    let (stop, repairs) = (word(), word());
    let repair = move || {
        numbers[1].store(numbers[0].load(Ordering::Relaxed), Ordering::Relaxed);
        repairs.fetch_add(1, Ordering::Relaxed);
    };
    let work = move |place, write| {
        if write {
            let writing = lock.write(TIMEOUT).unwrap();
            if writing.owner_died() {
                repair();
            }
            for number in numbers {
                number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        }
        let _reading = loop {
            match lock.read(place, TIMEOUT) {
                Ok(reading) => break reading,
                Err(Unread::Repair(_writing)) => repair(),
                Err(Unread::Busy) => panic!("nobody is stopped"),
            }
        };
        assert_eq!(numbers[0].load(Ordering::Relaxed), numbers[1].load(Ordering::Relaxed));
    };
    let survivor = fork(|| {
        let mut rounds = 0_u32;
        while stop.load(Ordering::Acquire) == 0 {
            rounds = rounds.wrapping_add(1);
            work(0, rounds.is_multiple_of(4));
        }
        0
    });
    let mut state = 11;
    for round in 0..300 {
        let victim = fork_sharing_descriptors(|| {
            loop {
                work(1, round % 2 == 0);
            }
        });
        std::thread::sleep(Duration::from_micros(random(&mut state) % 1_500));
        kill(victim.unwrap());
        lock.clear(1);
        work(2, round % 3 == 0);
    }
    stop.store(1, Ordering::Release);
    assert_eq!(await_end(survivor.unwrap()), Ended::Code(0));
    assert!(repairs.load(Ordering::Relaxed) > 0);
}

/// A client and its socket, accepted by a child that is about to be killed.
fn accepted_by_a_child(ledger: Ledger, recorded: bool) -> (TcpStream, RawFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let accepted = word();
    let child = fork_sharing_descriptors(|| {
        let (socket, _) = listener.accept().unwrap();
        if recorded {
            ledger.own(&socket, 5);
        }
        accepted.store(socket.as_raw_fd() as u32, Ordering::Release);
        std::mem::forget(socket);
        sleep_for_ever()
    });
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    ledger.own(&client, 99);
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let began = Instant::now();
    while accepted.load(Ordering::Acquire) == 0 {
        assert!(began.elapsed() < TIMEOUT);
    }
    kill(child.unwrap());
    (client, accepted.load(Ordering::Acquire) as RawFd)
}

fn is_closed(mut client: &TcpStream) -> bool {
    matches!(std::io::Read::read(&mut client, &mut [0]), Ok(0))
}

fn what_a_killed_process_owned_is_closed() {
    let ledger = Ledger::new(1_024).unwrap();
    let (client, number) = accepted_by_a_child(ledger, true);
    assert!(is_open(number) && !is_closed(&client), "it takes nothing with it");
    assert_eq!(ledger.close_owned(4), 0);
    assert_eq!(ledger.close_owned(5), 1);
    assert!(!is_open(number) && is_closed(&client));
    assert_eq!(ledger.close_owned(5), 0);
}

fn what_a_killed_process_had_not_recorded_is_closed() {
    let ledger = Ledger::new(1_024).unwrap();
    let (client, number) = accepted_by_a_child(ledger, false);
    let is_valid = |_, claim| claim != Claim::None;
    let suspects = ledger.suspects(is_valid).unwrap();
    assert!(!is_closed(&client));
    assert_eq!(ledger.close_suspects(suspects, is_valid), 1);
    assert!(!is_open(number) && is_closed(&client));
}

/// A process may be killed before it records the first descriptor that is opened after the ledger was made.
fn what_the_ledger_looked_with_is_nobodys() {
    let lowest = File::open("/dev/null").unwrap().as_raw_fd();
    let ledger = Ledger::new(1_024).unwrap();
    let opened = File::open("/proc/self/stat").unwrap();
    assert_eq!(opened.as_raw_fd(), lowest, "the number that the ledger had while it looked");
    let is_valid = |_, claim| claim != Claim::None;
    let suspects = ledger.suspects(is_valid).unwrap();
    std::mem::forget(opened);
    assert_eq!(ledger.close_suspects(suspects, is_valid), 1);
    assert!(!is_open(lowest));
}

fn what_is_claimed_in_time_is_left_alone() {
    let ledger = Ledger::new(1_024).unwrap();
    let is_valid = |_, claim| claim != Claim::None;
    let open = || OwnedFd::from(File::open("/proc/self/stat").unwrap());
    // Recorded late; recorded and about to be closed; closed, and the number in use again; not of the kind.
    let (late, leaving, reused) = (open(), open(), open());
    let (number, log) = (reused.as_raw_fd(), File::options().write(true).open("/dev/null").unwrap());
    let suspects = ledger.suspects(is_valid).unwrap();
    ledger.own(&late, 1);
    ledger.own(&leaving, 1);
    ledger.leave(&leaving);
    drop(reused);
    let again = open();
    assert_eq!(again.as_raw_fd(), number);
    assert_eq!(ledger.close_suspects(suspects, is_valid), 0);
    assert!(is_open(late.as_raw_fd()) && is_open(leaving.as_raw_fd()) && is_open(log.as_raw_fd()));
    // Nothing was forgotten: the next look finds those two.
    let suspects = ledger.suspects(is_valid).unwrap();
    let numbers = [leaving.as_raw_fd(), again.as_raw_fd()];
    std::mem::forget((leaving, again));
    assert_eq!(ledger.close_suspects(suspects, is_valid), 2);
    assert!(numbers.iter().all(|&number| !is_open(number)));
}

fn files_made_in_memory_are_served_with() {
    let ledger = Ledger::new(1_024).unwrap();
    let is_valid = |_, claim| claim != Claim::None;
    let page = sys::file::sealed_in_memory(|_| Ok(())).unwrap();
    let log = tempfile::tempfile_in("/dev/shm").unwrap();
    let suspects = ledger.suspects(is_valid).unwrap();
    let number = page.as_raw_fd();
    std::mem::forget(page);
    assert_eq!(ledger.close_suspects(suspects, is_valid), 1);
    assert!(!is_open(number) && is_open(log.as_raw_fd()), "what is written to is somebody's");
}

fn what_is_kept_outlives_who_opened_it() {
    let ledger = Ledger::new(1_024).unwrap();
    let kept: &'static AtomicU64 = Shared::<AtomicU64>::new().unwrap().leak();
    let child = fork_sharing_descriptors(|| {
        let file = File::open("/proc/self/stat").unwrap();
        kept.store(ledger.keep(file.into(), 9).unwrap().word(), Ordering::Release);
        sleep_for_ever()
    });
    let began = Instant::now();
    while kept.load(Ordering::Acquire) == 0 {
        assert!(began.elapsed() < TIMEOUT);
    }
    kill(child.unwrap());
    let kept = Kept::of(kept.load(Ordering::Acquire)).unwrap();
    assert_eq!(ledger.close_owned(9), 0);
    assert!(ledger.kept(kept, 9).is_some_and(|fd| sys::file::stat(fd).is_ok()));
    assert!(ledger.kept(kept, 8).is_none() && !ledger.close_kept(kept, 8));
    assert!(ledger.close_kept(kept, 9) && !ledger.close_kept(kept, 9));
    assert!(ledger.kept(kept, 9).is_none() && !is_open(kept.number() as RawFd));
    // Another file of the same keeper under the same number.
    let again = ledger.keep(File::open("/proc/self/stat").unwrap().into(), 9).unwrap();
    assert_eq!(again.number(), kept.number());
    assert!(ledger.kept(kept, 9).is_none() && !ledger.close_kept(kept, 9));
    assert!(ledger.kept(again, 9).is_some());
    assert_eq!((ledger.close_all_kept(8), ledger.close_all_kept(9)), (0, 1));
    assert!(!is_open(again.number() as RawFd));
}

/// While a copy is looked through, what it is a copy of changes, and the records with it: numbers of the
/// copy's own come to be others'.
fn what_a_copy_has_of_its_own_is_left_alone() {
    let ledger = Ledger::new(1_024).unwrap();
    let (own, log) =
        (sys::wake::Wake::new().unwrap(), File::options().write(true).open("/dev/null").unwrap());
    ledger.own(&log, 1);
    let (number, of_log) = (own.as_fd().as_raw_fd(), log.as_raw_fd());
    let copying = word();
    let child = fork(|| {
        await_word(copying, 1);
        ledger.close_copies().unwrap();
        u8::from(!is_open(number) || is_open(of_log))
    });
    drop(own);
    let file = File::open("/proc/self/stat").unwrap();
    assert_eq!(file.as_raw_fd(), number);
    ledger.own(&file, 1);
    copying.store(1, Ordering::Release);
    assert_eq!(await_end(child.unwrap()), Ended::Code(0));
}

fn copies_are_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ledger = Ledger::new(1_024).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    ledger.own(&socket, 1);
    let later = TcpListener::bind("127.0.0.1:0").unwrap();
    let copying = word();
    let child = fork(|| {
        ledger.close_copies().unwrap();
        copying.store(1, Ordering::Release);
        while copying.load(Ordering::Acquire) != 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let open = [listener.as_raw_fd(), later.as_raw_fd(), socket.as_raw_fd()].map(is_open);
        u8::from(open != [true, true, false])
    });
    await_word(copying, 1);
    drop(socket);
    assert!(is_closed(&client), "no copy keeps it open");
    copying.store(2, Ordering::Release);
    assert_eq!(await_end(child.unwrap()), Ended::Code(0));
}
