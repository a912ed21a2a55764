//! The open files that processes share, while these processes are killed at any moment: in a look-up, while
//! they look at a file and hold its entry, and while they change the names. Who lives goes on at once, and is
//! never told another file's bytes.
//!
//! Each process does nothing but answer requests from [`Content`], so that most kills hit it inside. This
//! process does what the supervisor does at the end of a worker.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use http1::{Connection, Ended, Limits, Segment, Sheet, Stamp, Step, Tick};
use libtest_mimic::{Arguments, Trial};
use server::common::Common;
use server::config::{Settings, SiteSettings};
use server::content::{Content, MayBlock, Resolvers, SharedFiles};
use sys::descriptors::{Claim, Ledger};
use sys::process;
use sys::shared::Shared;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // In the main thread then: a process with several can't be forked.
    arguments.test_threads = Some(1);
    let trial = Trial::test("workers_are_killed_at_any_moment", || {
        workers_are_killed_at_any_moment();
        Ok(())
    });
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

/// One is spared.
const WORKERS: usize = 3;
const KILLS: usize = 400;
/// Some are asked for all the time, and all together are more than the table has room for.
const HOT: usize = 6;
const FILES: usize = 60;
const ROOM: u32 = 16;
/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(20);

sys::shareable! {
    /// What is said between the processes.
    #[derive(Debug)]
    struct Words {
        stop: AtomicU32,
        /// The round that is called, and the last that each worker has heard between two requests.
        called: AtomicU32,
        heard: [AtomicU32; WORKERS],
        answers: [AtomicU32; WORKERS],
        /// How often somebody found that who had the names before died with them, or with a file's entry.
        names_repaired: AtomicU32,
        looks_inherited: AtomicU32,
    }
}

fn content_of(file: usize) -> Vec<u8> {
    // Every third is too large to be sent from memory.
    let len = if file.is_multiple_of(3) { 20_000 } else { 1_500 } + 7 * file;
    (0..len).map(|at| (at * (file + 3) + at / 251) as u8).collect()
}

fn workers_are_killed_at_any_moment() {
    let site = tempfile::tempdir().unwrap();
    for file in 0..FILES {
        fs::write(site.path().join(file.to_string()), content_of(file)).unwrap();
    }
    // A file that has just changed is not kept.
    thread::sleep(Duration::from_millis(100));
    let mut settings = Settings::new(site.path().to_owned());
    // Every request looks at its file again.
    (settings.files.max_open, settings.files.validity) = (ROOM, Duration::ZERO);
    let sites = settings.all_sites();
    let words: &'static Words = Shared::<Words>::new().unwrap().leak();
    count_deaths(words);

    let before = open_descriptors();
    let ledger = Ledger::new(1024).unwrap();
    let files = SharedFiles::new(&sites, ROOM, WORKERS, ledger, 1).unwrap();
    let common = |place, owner| Common { ledger, owner, place };
    let start = |common: &Common| {
        words.heard[common.place].store(0, Ordering::SeqCst);
        process::fork_sharing_descriptors(|| serve(&sites, (common, &files), words)).unwrap()
    };
    let mut owner = 0;
    let mut next = |place| {
        owner += 1;
        let common = common(place, owner);
        (start(&common), common)
    };
    let mut workers: Vec<(u32, Common)> = (0..WORKERS).map(&mut next).collect();
    let mut state = 5;
    for round in 0..KILLS {
        thread::sleep(Duration::from_micros(random(&mut state) % 3_000));
        let place = 1 + round % (WORKERS - 1);
        let (pid, dead) = &workers[place];
        process::kill(*pid).unwrap();
        await_end(*pid);
        assert_eq!(process::any_ended().unwrap(), None, "nobody else may end");
        files.forget_worker(dead.place);
        ledger.close_owned(dead.owner);
        workers[place] = next(place);
        // What it had not recorded is found by looking twice.
        let living: HashSet<u32> = workers.iter().map(|(_, common)| common.owner).collect();
        let is_valid = |number: u32, claim: Claim| match claim {
            Claim::None => false,
            Claim::First => true,
            Claim::Owned(owner) => living.contains(&owner),
            Claim::Kept(_) => files.descriptors().contains(&number),
        };
        let suspects = ledger.suspects(is_valid).unwrap();
        let called = words.called.fetch_add(1, Ordering::SeqCst) + 1;
        let answers = words.answers[0].load(Ordering::SeqCst);
        eventually("everybody goes on", || {
            words.heard.iter().all(|heard| heard.load(Ordering::SeqCst) == called)
                && words.answers[0].load(Ordering::SeqCst) > answers
        });
        ledger.close_suspects(suspects, is_valid);
    }
    words.stop.store(1, Ordering::SeqCst);
    for (worker, _) in &workers {
        assert_eq!(await_end(*worker), process::Ended::Code(0));
    }

    let kept = files.descriptors().len();
    assert_eq!(open_descriptors(), before + kept, "{kept} of files");
    let mut content = Content::sharing(resolvers(&sites), files.for_worker(0, 0), &sites, 8);
    for file in 0..FILES {
        assert!(ask(&mut content, file) == content_of(file), "{file}");
    }
    let (names, looks) = (&words.names_repaired, &words.looks_inherited);
    println!("{KILLS} kills: {names:?} with the names, {looks:?} with a file's entry; {:?}", words.answers);
    assert!(names.load(Ordering::SeqCst) > 0 && looks.load(Ordering::SeqCst) > 0);
}

/// A worker: answers until told to stop.
fn serve(sites: &[SiteSettings], (common, files): (&Common, &SharedFiles), words: &Words) -> u8 {
    let table = files.for_worker(common.place, common.owner);
    let mut content = Content::sharing(resolvers(sites), table, sites, 8);
    content.roots().for_each(|root| common.own(root));
    let mut state = common.owner.into();
    while words.stop.load(Ordering::SeqCst) == 0 {
        words.heard[common.place].store(words.called.load(Ordering::SeqCst), Ordering::SeqCst);
        let among = if random(&mut state).is_multiple_of(2) { HOT } else { FILES };
        let file = random(&mut state) as usize % among;
        if ask(&mut content, file) != content_of(file) {
            return 3;
        }
        words.answers[common.place].fetch_add(1, Ordering::SeqCst);
    }
    content.roots().for_each(|root| common.leave(root));
    0
}

fn resolvers(sites: &[SiteSettings]) -> Arc<Resolvers> {
    Arc::new(Resolvers::new(sites).unwrap())
}

/// The body of a file, as a client gets it.
fn ask(content: &mut Content, file: usize) -> Vec<u8> {
    let limits = Limits::default();
    let mut connection = Connection::new(Tick(0), &limits);
    let request = format!("GET /{file} HTTP/1.1\r\nHost: x\r\n\r\n");
    let (_, step) = connection.receive(&limits, Tick(0), request.as_bytes(), false).unwrap();
    let Step::Request(head) = step else { panic!("{request:?} is no request") };
    let unix_secs = sys::clock::realtime_secs();
    let now_ms = sys::clock::monotonic_ms();
    let asking = (None, MayBlock::Always);
    let plan = content.answer(&head, asking, now_ms, Sheet::default(), &Stamp::new("", unix_secs));
    connection.respond(&limits, Tick(0), plan.expect("a caller that may block is answered"));
    let mut bytes = Vec::new();
    for segment in connection.output() {
        match segment {
            Segment::Own(own) => bytes.extend_from_slice(own),
            Segment::Memory(pin, range) => bytes.extend(content.memory(pin, range).unwrap().to_vec()),
            Segment::File(pin, offset, len) => {
                let mut part = vec![0; len as usize];
                let read = sys::file::read_at(content.file(pin).unwrap(), &mut part, offset).unwrap();
                bytes.extend_from_slice(&part[..read]);
            }
        }
    }
    connection.abort();
    if let Some(Ended { pin: Some(pin), .. }) = connection.release() {
        content.unpin(pin);
    }
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a blank line");
    bytes.split_off(head + 4)
}

/// Counts what the workers log of deaths, whoever of them it is.
fn count_deaths(words: &'static Words) {
    struct Count(&'static Words);
    impl io::Write for Count {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let line = String::from_utf8_lossy(line);
            let is = |what: &str| u32::from(line.contains(what));
            self.0.names_repaired.fetch_add(is("died while it changed"), Ordering::SeqCst);
            self.0.looks_inherited.fetch_add(is("died while it looked"), Ordering::SeqCst);
            Ok(line.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
    subscriber.with_writer(move || Count(words)).init();
}

fn await_end(worker: u32) -> process::Ended {
    let mut ended = None;
    eventually("the worker has ended", || {
        ended = process::ended(worker).unwrap();
        ended.is_some()
    });
    process::reap(worker).unwrap();
    ended.unwrap()
}

#[track_caller]
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < TIMEOUT, "still not so after {TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_micros(100));
    }
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// xorshift64.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
