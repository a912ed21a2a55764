use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Barrier};
use std::thread;

use http1::coding::{Coding, CodingSet};
use proptest::prelude::*;
use sys::file::FileStat;

use super::apart::is_apart;
use super::heap::blocks_for;
use super::slot::{LEAVING, NAMED, body_bytes};
use super::*;
use crate::config::FileSettings;
use crate::content::ends::Ends;
use crate::content::entry::{Entry, Facts, Marks};
use crate::content::table::{Full, Pin, Place, TableSize, Variant};

const PLAIN: Variant = Variant::PLAIN;
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);
const ENTRIES: u32 = 4;
const OPEN_FILES: u32 = 2;
const BODIES: u64 = 100;

fn files(workers: usize) -> SharedFiles {
    files_with(ENTRIES, workers)
}

fn files_with(max_open: u32, workers: usize) -> SharedFiles {
    let mut settings = FileSettings::new("/".into());
    settings.max_open = max_open;
    settings.memory = BODIES;
    let site = SiteSettings::new(Vec::new(), None, settings);
    SharedFiles::new(&[site], OPEN_FILES, workers, Ledger::new(4_096).unwrap(), 1).unwrap()
}

fn table(files: &SharedFiles, worker: usize) -> SharedTable {
    files.for_worker(worker, worker as u32)
}

fn entry(body: &[u8], file: Option<OwnedFd>) -> Entry {
    let any = File::open("/dev/null").unwrap();
    let body_len = body.len() as u64;
    let facts = Facts {
        stat: FileStat { size: body_len, ..sys::file::stat(&any).unwrap() },
        ends: Ends { first: 3, last: u32::MAX },
        marks: Marks { body: 2, etag: Some(1..2), ..Marks::default() },
        memory_len: 2 + body.len() as u32,
        coding: Some(Coding::Zstd),
        siblings: CodingSet::EMPTY.with(Coding::Gzip).with(Coding::Brotli),
        is_plain: false,
        index: Some(0),
        trusted_until_ms: 7,
        lasting: true,
    };
    Entry { memory: [b"\r\n", body].concat().into(), file: file.map(Into::into), facts }
}

fn small(body: &[u8]) -> Entry {
    entry(body, None)
}

/// The memory of an entry after its head.
fn body_of(table: &SharedTable, place: Place) -> Vec<u8> {
    let end = table.files.slots[place as usize].memory_len.load(Ordering::Relaxed);
    table.memory(place, 2..end).unwrap().to_vec()
}

#[test]
fn what_one_worker_puts_in_another_finds() {
    let files = files(2);
    let (mut one, mut other) = (table(&files, 0), table(&files, 1));
    one.insert(b"/a", Variant::new(0, Some(Coding::Gzip)), small(b"hello")).unwrap();
    let place = other.find(b"/a", Variant::new(0, Some(Coding::Gzip))).unwrap();
    assert_eq!(body_of(&other, place), b"hello");
    let put_in = small(b"hello");
    let (facts, head) = other.entry_and_head(place);
    assert_eq!((format!("{facts:?}"), head), (format!("{:?}", put_in.facts), &b"\r\n"[..]));
    assert_eq!((other.find(b"/a", PLAIN), other.find(b"/b", PLAIN)), (None, None));
}

#[test]
fn where_nothing_is_kept_an_entry_goes_with_its_last_reply() {
    let files = files_with(0, 2);
    let open = || entry(b"", Some(File::open("/dev/null").unwrap().into()));
    let (mut one, mut other) = (table(&files, 0), table(&files, 1));
    let first = one.insert(b"/a", PLAIN, open()).unwrap();
    assert_eq!((one.find(b"/a", PLAIN), other.find(b"/a", PLAIN)), (None, None));
    let pin = one.pin(first);
    one.let_go();
    let second = other.insert(b"/a", PLAIN, open()).unwrap();
    assert_ne!(first, second);
    assert_eq!(one.insert(b"/b", PLAIN, open()), Err(Full), "both are in use");
    other.let_go();
    assert_eq!((one.size().entries, one.size().descriptors), (1, 1), "it is being sent");
    one.unpin(pin.0);
    assert_eq!(one.size(), TableSize::default());
    assert!(files.descriptors().is_empty());
    check(&files);
}

/// An entry that by mistake names the blocks of another entry does not free them when it is removed.
#[test]
fn garbage_gives_up_no_blocks_of_others() {
    let files = files(1);
    let mut table = table(&files, 0);
    // The other entry's body lies in the block after that of its path.
    let (path, body) = ([b'b'; 250], [b'x'; 20]);
    let places = [table.insert(b"/a", PLAIN, small(b"a")), table.insert(&path, PLAIN, small(&body))];
    let [one, other] = places.map(|place| &files.slots[place.unwrap() as usize]);
    table.let_go();
    one.block.store(other.block.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    one.trusted_until_ms.store(0, Ordering::Relaxed);
    table.forget_outdated(1);
    table.insert(b"/c", PLAIN, small(b"c")).unwrap();
    let found = table.find(&path, PLAIN).expect("it is whole");
    assert_eq!(body_of(&table, found), body);
    check(&files);
}

/// Each look-up ends only after the other has begun, so neither waits for the other.
#[test]
fn look_ups_run_at_once() {
    let files = files(2);
    let mut first = table(&files, 0);
    first.insert(b"/a", PLAIN, small(b"a")).unwrap();
    first.insert(b"/b", PLAIN, small(b"b")).unwrap();
    first.let_go();
    let both = Barrier::new(2);
    thread::scope(|scope| {
        for (worker, path) in [(0, b"/a"), (1, b"/b")] {
            let (files, both) = (&files, &both);
            scope.spawn(move || {
                for _ in 0..100 {
                    let _names = files.names.read(worker, LONG).unwrap();
                    both.wait();
                    assert!(files.search(files.hash(path, 0), path, 0).unwrap().is_some());
                    both.wait();
                }
            });
        }
    });
}

/// A worker that checks one file again delays neither look-ups nor workers that check another file.
#[test]
fn looking_at_one_file_holds_up_nobody_at_another() {
    let files = files(2);
    let mut one = table(&files, 0);
    let place = one.insert(b"/a", PLAIN, small(b"a")).unwrap();
    let claim = one.claim(place).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = table(&files, 1);
            let place = other.insert(b"/b", PLAIN, small(b"b")).unwrap();
            drop(other.claim(place));
            assert!(other.find(b"/a", PLAIN).is_some());
        });
    });
    let looks = |timeout| files.slots[place as usize].looking.lock(timeout).is_some();
    thread::scope(|scope| {
        let look = |timeout| scope.spawn(move || looks(timeout));
        assert!(!look(Duration::ZERO).join().unwrap(), "one is looking at this file");
        let waiter = look(LONG);
        drop(claim);
        assert!(waiter.join().unwrap());
    });
}

#[test]
fn a_pinned_file_keeps_its_descriptor_whatever_the_others_do() {
    let files = files(2);
    let (mut one, mut other) = (table(&files, 0), table(&files, 1));
    let place =
        one.insert(b"/a", PLAIN, entry(b"", Some(File::open("/proc/self/stat").unwrap().into()))).unwrap();
    let pin = one.pin(place);
    one.let_go();
    let before = one.file(place).map(|file| (file.as_raw_fd(), sys::file::stat(file).unwrap().inode));
    for round in 0..20_u8 {
        let file = File::open("/dev/null").unwrap().into();
        other
            .insert(if round.is_multiple_of(2) { b"/a" } else { b"/b" }, PLAIN, entry(b"", Some(file)))
            .unwrap();
        other.close_half();
        other.let_go();
    }
    let after = one.file(place).map(|file| (file.as_raw_fd(), sys::file::stat(file).unwrap().inode));
    assert_eq!(before, after);
    let number = before.unwrap().0 as u32;
    assert!(files.descriptors().contains(&number));
    one.unpin(pin.0);
    assert!(!files.descriptors().contains(&number), "it goes with its last pin");
    files.ledger.close_all_kept(1);
}

#[test]
fn pins_of_a_worker_that_is_gone_are_dropped() {
    let files = files(2);
    let (mut one, mut other) = (table(&files, 0), table(&files, 1));
    for path in [b"/1", b"/2", b"/3", b"/4"] {
        let place = one.insert(path, PLAIN, small(b"x")).unwrap();
        let _never_taken_back = one.pin(place);
    }
    assert_eq!(other.insert(b"/5", PLAIN, small(b"x")), Err(Full));
    // The worker dies while it reads names, and after another worker has removed the name of an entry
    // that it has pinned.
    other.find(b"/1", PLAIN).map(|place| other.forget(place)).unwrap();
    assert_eq!(other.size().entries, 4);
    std::mem::forget(files.names.read(0, LONG).unwrap());
    std::mem::forget(one);
    files.forget_worker(0);
    assert_eq!(other.size().entries, 3);
    for path in [b"/5", b"/6", b"/7", b"/8"] {
        assert!(other.insert(path, PLAIN, small(b"x")).is_ok());
        other.let_go();
    }
}

/// A writer dies after each step that it takes. The next worker repairs the table, and only the entry
/// that was being changed is lost.
#[test]
fn what_a_dead_writer_leaves_is_put_in_order() {
    let steps: [fn(&SharedFiles, Place); 6] = [
        |_, _| {},
        |files, place| files.slots[place as usize].state.store(LEAVING, Ordering::Relaxed),
        |files, place| {
            files.slots[place as usize].state.store(LEAVING, Ordering::Relaxed);
            files.close_descriptor(&files.slots[place as usize]);
        },
        |files, place| {
            files.slots[place as usize].state.store(LEAVING, Ordering::Relaxed);
            files.heap.mark(&files.slots[place as usize], false);
        },
        |files, _| files.sums.free.store(0, Ordering::Relaxed),
        |files, _| {
            files.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
            files.sums.entries.store(99, Ordering::Relaxed);
        },
    ];
    for (number, step) in steps.into_iter().enumerate() {
        let files = files(1);
        let mut table = table(&files, 0);
        table.insert(b"/a", PLAIN, small(b"stays")).unwrap();
        let file = File::open("/proc/self/stat").unwrap();
        let place = table.insert(b"/b", PLAIN, entry(b"", Some(file.into()))).unwrap();
        table.let_go();
        let dying = files.clone();
        thread::spawn(move || {
            let writing = dying.names.write(LONG).unwrap();
            step(&dying, place);
            std::mem::forget(writing);
        })
        .join()
        .unwrap();
        let stays = table.find(b"/a", PLAIN).unwrap();
        assert_eq!(body_of(&table, stays), b"stays", "step {number}");
        let left = table.find(b"/b", PLAIN).is_some();
        assert_eq!(left, matches!(number, 0 | 4 | 5), "step {number}");
        table.let_go();
        assert_eq!(table.size().entries, 1 + u64::from(left));
        assert_eq!(table.size().descriptors, u64::from(left));
        check(&files);
        files.ledger.close_all_kept(1);
    }
}

/// Another worker holds the names and a file's entry, and makes no progress.
#[test]
fn who_can_not_have_the_table_serves_apart() {
    let files = files(2);
    let (mut one, mut other) = (table(&files, 0), table(&files, 1));
    let place = one.insert(b"/a", PLAIN, small(b"shared")).unwrap();
    let pin = one.pin(place);
    one.let_go();
    let stopped = files.clone();
    let (stop, go_on) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let held = stopped.slots[place as usize].looking.lock(LONG).unwrap();
            stop.wait();
            go_on.wait();
            drop(held);
            let writing = stopped.names.write(LONG).unwrap();
            stop.wait();
            go_on.wait();
            drop(writing);
        });
        stop.wait();
        let found = other.find(b"/a", PLAIN).unwrap();
        assert!(other.claim(found).is_none());
        other.let_go();
        go_on.wait();
        stop.wait();
        for table in [&mut one, &mut other] {
            assert_eq!(table.find(b"/a", PLAIN), None);
            assert!(!table.make_room(1) && table.close_half() == 0);
            let file = File::open("/proc/self/stat").unwrap();
            let number = file.as_raw_fd();
            let apart = table.insert(b"/a", PLAIN, entry(b"apart", Some(file.into()))).unwrap();
            table.forget(apart);
            assert_eq!(table.memory(apart, 2..7).unwrap().to_vec(), b"apart");
            assert_eq!(table.entry_and_head(apart).1, b"\r\n");
            assert_eq!(table.stat(apart).size, 5);
            let pin = table.pin(apart);
            table.let_go();
            assert_eq!(table.file(pin.0).unwrap().as_raw_fd(), number);
            table.unpin(pin.0);
            assert_eq!(table.find(b"/a", PLAIN), None);
        }
        assert_eq!(body_of(&one, pin.0), b"shared");
        one.unpin(pin.0);
        go_on.wait();
    });
    let place = other.find(b"/a", PLAIN).unwrap();
    assert_eq!(body_of(&other, place), b"shared");
    check(&files);
}

/// As the pages of listings may be.
#[test]
fn a_file_that_is_in_use_gets_a_descriptor_of_its_own() {
    let files = files(1);
    let mut table = table(&files, 0);
    let page = Arc::new(OwnedFd::from(File::open("/dev/null").unwrap()));
    let mut numbers = vec![page.as_raw_fd()];
    let mut insert = |table: &mut SharedTable, path: &[u8]| {
        let entry = Entry { file: Some(Arc::clone(&page)), ..entry(b"", None) };
        let place = table.insert(path, PLAIN, entry).unwrap();
        numbers.push(table.file(place).unwrap().as_raw_fd());
    };
    insert(&mut table, b"/a/");
    table.retire();
    // Served apart from now on.
    insert(&mut table, b"/b/");
    insert(&mut table, b"/b/");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4);
}

#[test]
fn who_retires_leaves_what_is_pinned() {
    let files = files(2);
    let (mut one, mut other) = (table(&files, 0), table(&files, 1));
    for name in [b"/a", b"/b", b"/c"] {
        one.insert(name, PLAIN, small(name)).unwrap();
        one.let_go();
    }
    let place = other.find(b"/b", PLAIN).unwrap();
    let pin = other.pin(place);
    other.let_go();
    one.retire();
    check(&files);
    assert_eq!(one.size().entries, 1);
    assert_eq!(body_of(&other, pin.0), b"/b");
    assert!(one.make_room(BODIES + 1));
    let apart = one.insert(b"/d", PLAIN, small(b"/d")).unwrap();
    assert!(is_apart(apart) && other.find(b"/d", PLAIN).is_none());
    one.let_go();
    other.retire();
    other.unpin(pin.0);
    assert_eq!(other.size(), TableSize::default());
    drop((one, other));
    files.empty().unwrap();
    let mut next = table(&files.renamed(2), 0);
    let place = next.insert(b"/a", PLAIN, small(b"anew")).unwrap();
    assert_eq!(body_of(&next, place), b"anew");
}

/// Words of the table, for another process to overwrite by mistake.
fn words(files: &SharedFiles) -> Vec<(&'static AtomicU32, Option<&'static AtomicU64>)> {
    static NONE: AtomicU32 = AtomicU32::new(0);
    let small = |word: &'static AtomicU32| (word, None);
    let large = |word: &'static AtomicU64| (&NONE, Some(word));
    let mut words: Vec<_> = files.buckets.iter().chain(files.pins.counts).map(small).collect();
    let sums = files.sums;
    words.extend([&sums.free, &sums.used, &sums.hand, &sums.rounds].map(small));
    words.extend(sums.all().map(large));
    words.extend(files.heap.bits.iter().map(large));
    for slot in files.slots {
        let Slot {
            state, next, hash, variant, block, path_len, memory_len, descriptor, referenced, sum, ..
        } = slot;
        words.extend([state, next, variant, block, path_len, memory_len, referenced].map(small));
        words.extend([hash, descriptor, sum, &slot.trusted_until_ms].map(large));
        words.extend(slot.facts.iter().map(large));
    }
    words
}

/// Redundant parts of the table agree.
fn check(files: &SharedFiles) {
    let used: Vec<&Slot> = files
        .slots
        .iter()
        .filter(|slot| matches!(slot.state.load(Ordering::Relaxed), NAMED | DETACHED))
        .collect();
    let sums = files.sums.all().map(|sum| sum.load(Ordering::Relaxed));
    assert_eq!(sums[0], used.len() as u64);
    assert_eq!(
        sums[1],
        used.iter().filter(|slot| slot.descriptor.load(Ordering::Relaxed) != 0).count() as u64
    );
    assert_eq!(sums[3], used.iter().map(|slot| body_bytes(slot)).sum::<u64>());
    let blocks: u32 = files.heap.bits.iter().map(|bits| bits.load(Ordering::Relaxed).count_ones()).sum();
    assert_eq!(blocks as usize, used.iter().map(|slot| blocks_for(slot.bytes())).sum::<usize>());
    let (mut free, mut next) = (0, files.sums.free.load(Ordering::Relaxed));
    while let Some(place) = next.checked_sub(1) {
        free += 1;
        next = files.slots[place as usize].next.load(Ordering::Relaxed);
    }
    assert_eq!(free + used.len(), files.used() as usize);
}

#[derive(Clone, Debug)]
enum Op {
    Insert { name: u8, body: u8, with_file: bool },
    Pin(u8),
    Unpin(usize),
    Forget(u8),
    MakeRoom(u8),
    CloseHalf,
    EndRequest,
}

fn op() -> impl Strategy<Value = (usize, Op)> {
    let name = || 0..8_u8;
    let op = prop_oneof![
        6 => (name(), 0..60_u8, any::<bool>())
            .prop_map(|(name, body, with_file)| Op::Insert { name, body, with_file }),
        6 => name().prop_map(Op::Pin),
        5 => any::<usize>().prop_map(Op::Unpin),
        2 => name().prop_map(Op::Forget),
        2 => (0..120_u8).prop_map(Op::MakeRoom),
        1 => Just(Op::CloseHalf),
        6 => Just(Op::EndRequest),
    ];
    (0..2_usize, op)
}

proptest! {
    /// Whatever is written to the words of the table:
    ///
    /// - Nothing panics or loops forever.
    /// - What is found under a name has that name.
    /// - Once no more garbage is written, the table is consistent again.
    #[test]
    fn garbage_is_survived(
        ops in prop::collection::vec(op(), 0..40),
        garbage in prop::collection::vec(
            (any::<usize>(), prop_oneof![0..9_u64, any::<u64>(), Just(u64::MAX)]),
            1..12,
        ),
        after in prop::collection::vec(op(), 0..40),
    ) {
        let files = files(2);
        let mut tables = [table(&files, 0), table(&files, 1)];
        let mut pins: Vec<(usize, Pin)> = Vec::new();
        let words = words(&files);
        let mut act = |tables: &mut [SharedTable; 2], (worker, op)| {
            let table: &mut SharedTable = &mut tables[worker];
            match op {
                Op::Insert { name, body, with_file } => {
                    let file = with_file.then(|| File::open("/dev/null").unwrap().into());
                    let body = if with_file { Vec::new() } else { vec![name; body.into()] };
                    let _ = table.insert(&[name], PLAIN, entry(&body, file));
                }
                Op::Pin(name) => if let Some(place) = table.find(&[name], PLAIN) {
                    let facts = table.entry(place).clone();
                    if !is_apart(place) {
                        let path = files.heap.path(&files.slots[place as usize]);
                        assert!(path.is_some_and(|path| shared::equals(path, &[name])));
                    }
                    let head = table.entry_and_head(place).1.len();
                    assert_eq!(head, facts.marks.body as usize);
                    pins.push((worker, table.pin(place)));
                },
                Op::Unpin(which) => if !pins.is_empty() {
                    let (worker, pin) = pins.swap_remove(which % pins.len());
                    tables[worker].unpin(pin.0);
                },
                Op::Forget(name) => if let Some(place) = table.find(&[name], PLAIN) { table.forget(place) },
                Op::MakeRoom(len) => { table.make_room(len.into()); }
                Op::CloseHalf => { table.close_half(); }
                Op::EndRequest => table.let_go(),
            }
            for (worker, pin) in &pins {
                let table = &tables[*worker];
                let _ = (table.memory(pin.0, 0..2), table.file(pin.0), table.stat(pin.0));
            }
            let _ = (tables[0].size(), tables[0].structure_bytes(), files.descriptors());
        };
        for op in ops {
            act(&mut tables, op);
        }
        for (at, value) in garbage {
            match words[at % words.len()] {
                (word, None) => word.store(value as u32, Ordering::Relaxed),
                (_, Some(word)) => word.store(value, Ordering::Relaxed),
            }
        }
        for op in after {
            act(&mut tables, op);
        }
        // All workers that might have pinned something have ended.
        tables.into_iter().for_each(std::mem::forget);
        (0..2).for_each(|worker| files.forget_worker(worker));
        let writing = files.names.write(LONG).unwrap();
        files.clear_garbage(&writing);
        drop(writing);
        check(&files);
        let mut table = table(&files, 0);
        for name in 0..8 {
            let place = table.insert(&[name], PLAIN, small(&[name])).unwrap();
            prop_assert!(!is_apart(place));
            prop_assert_eq!(body_of(&table, place), [name]);
            table.let_go();
        }
        check(&files);
        files.ledger.close_all_kept(1);
    }

    /// Compared with a map that never evicts, with two workers: a look-up finds what was inserted last,
    /// pinned entries stay as they were, and the bounds hold.
    #[test]
    fn agrees_with_a_map(ops in prop::collection::vec(op(), 0..120)) {
        let files = files(2);
        let mut tables = [table(&files, 0), table(&files, 1)];
        let mut model: HashMap<u8, Vec<u8>> = HashMap::new();
        let mut pins: Vec<(usize, Pin, Vec<u8>, Option<i32>)> = Vec::new();
        for (n, (worker, op)) in ops.into_iter().enumerate() {
            let table = &mut tables[worker];
            match op {
                Op::Insert { name, body, with_file } => {
                    let with_file = with_file || !table.make_room(body.into());
                    let len = if with_file { 0 } else { usize::from(body) };
                    let body: Vec<u8> = (0..len).map(|i| (n * 31 + i) as u8).collect();
                    let file = with_file.then(|| File::open("/dev/null").unwrap().into());
                    if table.insert(&[name], PLAIN, entry(&body, file)).is_ok() {
                        model.insert(name, body);
                    }
                }
                Op::Pin(name) => {
                    if let Some(place) = table.find(&[name], PLAIN) {
                        let pin = table.pin(place);
                        let number = table.file(place).map(|file| file.as_raw_fd());
                        pins.push((worker, pin, model[&name].clone(), number));
                    }
                }
                Op::Unpin(which) => {
                    if !pins.is_empty() {
                        let (worker, pin, ..) = pins.swap_remove(which % pins.len());
                        tables[worker].unpin(pin.0);
                    }
                }
                Op::Forget(name) => {
                    if let Some(place) = table.find(&[name], PLAIN) {
                        table.forget(place);
                    }
                    model.remove(&name);
                }
                Op::MakeRoom(len) => {
                    if table.make_room(len.into()) {
                        prop_assert!(table.size().body_bytes + u64::from(len) <= BODIES);
                    }
                }
                Op::CloseHalf => { table.close_half(); }
                Op::EndRequest => table.let_go(),
            }
            for name in 0..8 {
                let seen = tables[1 - worker].files.search(files.hash(&[name], 0), &[name], 0).unwrap();
                match seen {
                    Some(place) => prop_assert_eq!(&body_of(&tables[0], place), &model[&name]),
                    None => { model.remove(&name); }
                }
            }
            for (worker, pin, body, number) in &pins {
                prop_assert_eq!(&body_of(&tables[*worker], pin.0), body);
                prop_assert_eq!(tables[*worker].file(pin.0).map(|file| file.as_raw_fd()), *number);
            }
            prop_assert!(files.sums.body_bytes.load(Ordering::Relaxed) <= BODIES);
            prop_assert!(files.sums.descriptors.load(Ordering::Relaxed) <= OPEN_FILES.into());
            check(&files);
        }
        for (worker, pin, ..) in pins {
            tables[worker].unpin(pin.0);
        }
        for table in &mut tables {
            table.let_go();
        }
        prop_assert!((0..ENTRIES).all(|place| !files.pins.is_pinned(place)));
        files.ledger.close_all_kept(1);
    }
}
