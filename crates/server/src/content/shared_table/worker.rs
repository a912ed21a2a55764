//! A shared table as one worker uses it: finding, reading and pinning entries.

mod change;

use std::hash::BuildHasher;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sys::descriptors::Kept;
use sys::file::FileStat;
use sys::lock::{Held, Unread, Writing};
use sys::shared;
use sys::socket::Slice;

use super::apart::{Apart, is_apart};
use super::heap::BLOCK;
use super::pins::WorkerPins;
use super::slot::{DETACHED, SPOILT, Slot, ends_of, facts_of, stat_of};
use super::{Garbage, NotDone, SharedFiles};
use crate::content::ends::Ends;
use crate::content::entry::Facts;
use crate::content::table::{Pin, Place, TableCounts, TableSize, Variant};

/// A shared table as one worker uses it.
#[derive(Debug)]
pub struct SharedTable {
    pub(super) files: SharedFiles,
    worker: usize,
    pins: WorkerPins,
    /// The round in which this worker last published all its pins.
    round: u32,
    /// Files served without the table.
    apart: Apart,
    /// When this worker last waited for the table in vain.
    vain: Option<Instant>,
    /// Nothing more is inserted.
    retired: bool,
    /// What the current request has found, each with a pin.
    found: Vec<(Place, Facts)>,
    /// A copy of header lines, to be read.
    head: Vec<u8>,
    pub(in crate::content) counts: TableCounts,
}

/// How long a worker waits for a lock. A running worker never holds a lock that long, except that of a
/// file on a slow disk.
const TIMEOUT: Duration = Duration::from_millis(50);
/// How long a worker does not wait again after it has waited in vain. So a stuck lock costs it little
/// time.
const REST: Duration = Duration::from_secs(1);

impl SharedTable {
    // None of this is inlined into the callers: that would make the code path of a worker's own table
    // longer.

    /// The table for the worker with that index, which is `owner` in the ledger.
    pub(super) fn new(files: SharedFiles, worker: usize, owner: u32) -> Self {
        let pins = WorkerPins::new(files.pins, worker);
        Self::with(files, worker, owner, pins)
    }

    /// The table for the thread with that index, in the only process that uses the table.
    pub(super) fn of_thread(files: SharedFiles, thread: usize) -> Self {
        let pins = WorkerPins::of_process(files.pins);
        let owner = files.keeper;
        Self::with(files, thread, owner, pins)
    }

    fn with(files: SharedFiles, worker: usize, owner: u32, pins: WorkerPins) -> Self {
        Self {
            worker,
            pins,
            round: files.sums.rounds.load(Ordering::Relaxed),
            apart: Apart::new(files.ledger, owner),
            files,
            vain: None,
            retired: false,
            found: Vec::with_capacity(8),
            head: Vec::new(),
            counts: TableCounts::default(),
        }
    }

    #[inline(never)]
    pub(in crate::content) fn find(&mut self, path: &[u8], variant: Variant) -> Option<Place> {
        let variant = variant.number();
        let hash = self.files.hash(path, variant);
        if self.files.sums.rounds.load(Ordering::Relaxed) != self.round {
            self.say_pins();
        }
        if !self.keeps() {
            return None;
        }
        // Tries a second time if the table had to be repaired.
        for _ in 0..2 {
            let timeout = self.timeout();
            match self.files.names.read(self.worker, timeout) {
                Ok(reading) => {
                    if let Ok(found) = self.search(hash, path, variant) {
                        return found;
                    }
                    drop(reading);
                    let _ = self.alone(|_, _| Err::<(), _>(NotDone::Garbage));
                }
                Err(Unread::Repair(writing)) => self.files.repair_after(&writing),
                Err(Unread::Busy) => break,
            }
        }
        self.vain.get_or_insert_with(Instant::now);
        None
    }

    /// Whether requests find files that other requests have opened.
    pub(in crate::content) fn keeps(&self) -> bool {
        self.files.bounds.keeps
    }

    /// Searches, and holds the entry that it finds. The caller holds the names.
    #[inline]
    fn search(&mut self, hash: u64, path: &[u8], variant: u32) -> Result<Option<Place>, Garbage> {
        let Some(place) = self.files.search(hash, path, variant)? else { return Ok(None) };
        self.hold(place)?;
        Ok(Some(place))
    }

    #[inline(never)]
    pub(in crate::content) fn entry(&self, place: Place) -> &Facts {
        &self.found.iter().rev().find(|(found, _)| *found == place).expect(FOUND).1
    }

    pub(in crate::content) fn entry_and_head(&mut self, place: Place) -> (&Facts, &[u8]) {
        let facts = &self.found.iter().find(|(found, _)| *found == place).expect(FOUND).1;
        let body = facts.marks.body as usize;
        self.head.clear();
        if is_apart(place) {
            self.head.extend_from_slice(&self.apart.entry(place).memory[..body]);
        } else if let Some(head) =
            self.files.heap.memory(&self.files.slots[place as usize]).and_then(|memory| memory.get(..body))
        {
            shared::copy_out(head, &mut self.head);
        }
        // The head is missing only if there is garbage.
        self.head.resize(body, 0);
        (facts, &self.head)
    }

    pub(in crate::content) fn stat(&self, place: Place) -> FileStat {
        if is_apart(place) {
            return self.apart.entry(place).stat;
        }
        stat_of(&self.files.slots[place as usize])
    }

    pub(in crate::content) fn ends(&self, place: Place) -> Ends {
        if is_apart(place) {
            return self.apart.entry(place).ends;
        }
        ends_of(&self.files.slots[place as usize])
    }

    /// `None`: the entry is not what it was, because of garbage.
    #[inline(never)]
    pub(in crate::content) fn memory(&self, place: Place, range: Range<u32>) -> Option<Slice<'_>> {
        let range = range.start as usize..range.end as usize;
        if is_apart(place) {
            return self.apart.entry(place).memory.get(range).map(Slice::new);
        }
        self.files.heap.memory(&self.files.slots[place as usize])?.get(range).map(Slice::shared)
    }

    #[inline(never)]
    pub(in crate::content) fn file(&self, place: Place) -> Option<BorrowedFd<'_>> {
        if is_apart(place) {
            return self.apart.entry(place).file.as_ref().map(AsFd::as_fd);
        }
        // Other workers neither detach a pinned entry from its descriptor nor free it. So the descriptor
        // stays open.
        let kept = Kept::of(self.files.slots[place as usize].descriptor.load(Ordering::Relaxed))?;
        self.files.ledger.kept(kept, self.files.keeper)
    }

    /// `None`: another worker holds the entry for too long, or only this request can use the entry.
    pub(in crate::content) fn claim(&mut self, place: Place) -> Option<Held> {
        if is_apart(place) {
            return None;
        }
        let timeout = self.timeout();
        let held = self.files.slots[place as usize].looking.lock(timeout);
        match &held {
            // The dead worker changed nothing in the entry. The worker that now checks the file starts
            // from the beginning.
            Some(held) if held.owner_died() => tracing::debug!("a worker died while it looked at a file"),
            Some(_) => {}
            None => {
                self.vain.get_or_insert_with(Instant::now);
            }
        }
        held
    }

    pub(in crate::content) fn trust(&mut self, place: Place, until_ms: u64) {
        if !is_apart(place) {
            self.files.slots[place as usize].trusted_until_ms.store(until_ms, Ordering::Release);
        }
        for (found, facts) in &mut self.found {
            if *found == place {
                facts.trusted_until_ms = until_ms;
            }
        }
    }

    #[inline(never)]
    pub(in crate::content) fn pin(&mut self, place: Place) -> Pin {
        if is_apart(place) {
            self.apart.pin(place);
            return Pin(place);
        }
        let slot = &self.files.slots[place as usize];
        // Written only when it changes, as all workers share the cache line.
        if slot.referenced.load(Ordering::Relaxed) == 0 {
            slot.referenced.store(1, Ordering::Relaxed);
        }
        self.pins.add(place);
        Pin(place)
    }

    #[inline(never)]
    pub(in crate::content) fn unpin(&mut self, place: Place) {
        if is_apart(place) {
            return self.apart.unpin(place);
        }
        self.pins.drop(place);
        if matches!(self.files.slots[place as usize].state.load(Ordering::SeqCst), DETACHED | SPOILT) {
            self.unpin_detached(place);
        }
    }

    #[cold]
    fn unpin_detached(&mut self, place: Place) {
        // If the lock cannot be had now, second chance frees the slot later.
        let _ = self.alone(|this, writing| Ok(this.files.free_if_last(place, writing)?));
    }

    /// Marks an entry that this worker has pinned as found.
    pub(in crate::content) fn hold_pinned(&mut self, place: Place) -> bool {
        if !is_apart(place) {
            return self.hold(place).is_ok();
        }
        if !self.found.iter().any(|(found, _)| *found == place) {
            self.apart.pin(place);
            self.found.push((place, self.apart.entry(place).facts.clone()));
        }
        true
    }

    /// Keeps a found entry until the end of the request. The caller holds the names, or has pinned the
    /// entry.
    #[inline]
    fn hold(&mut self, place: Place) -> Result<(), Garbage> {
        let slot = &self.files.slots[place as usize];
        if let Some((_, facts)) = self.found.iter_mut().find(|(found, _)| *found == place) {
            facts.trusted_until_ms = slot.trusted_until_ms.load(Ordering::Acquire);
            return Ok(());
        }
        if !slot.has_its_sum() {
            return Err(Garbage);
        }
        self.pins.add(place);
        self.found.push((place, facts_of(slot)));
        Ok(())
    }

    #[inline(never)]
    pub(in crate::content) fn let_go(&mut self) {
        while let Some((place, _)) = self.found.pop() {
            self.unpin(place);
        }
    }

    /// Releases a found entry, with the names held exclusively. The caller handles what is left of it.
    fn let_go_of(&mut self, place: Place) {
        if let Some(at) = self.found.iter().position(|(found, _)| *found == place) {
            self.found.remove(at);
            self.pins.drop(place);
        }
    }

    pub(in crate::content) fn size(&self) -> TableSize {
        let [entries, descriptors, memory_bytes, body_bytes, _] =
            self.files.sums.all().map(|sum| sum.load(Ordering::Relaxed));
        TableSize { entries, descriptors, memory_bytes, body_bytes }
    }

    /// The unused rest of blocks, and the paths, slots, pins and buckets of the entries that exist.
    pub(in crate::content) fn structure_bytes(&self) -> u64 {
        let TableSize { entries, memory_bytes, .. } = self.size();
        let blocks = self.files.sums.blocks.load(Ordering::Relaxed).saturating_mul(BLOCK as u64);
        let each = size_of::<Slot>() + (self.files.pins.workers + 1) * size_of::<AtomicU32>();
        blocks.saturating_sub(memory_bytes).saturating_add(entries.saturating_mul(each as u64))
    }

    pub(in crate::content) fn random(&self, n: u64) -> u64 {
        self.files.hasher.hash_one(n)
    }

    /// Runs `act` with the names held exclusively. If `act` finds garbage, the table is repaired before
    /// another worker sees it.
    fn alone<T>(
        &mut self,
        act: impl FnOnce(&mut Self, &Writing) -> Result<T, NotDone>,
    ) -> Result<T, NotDone> {
        let timeout = self.timeout();
        let Some(writing) = self.files.names.write(timeout) else {
            self.vain.get_or_insert_with(Instant::now);
            return Err(NotDone::Busy);
        };
        self.files.repair_after(&writing);
        let done = act(self, &writing);
        match done {
            Err(NotDone::Garbage) => {
                self.say_pins();
                self.files.clear_garbage(&writing);
            }
            // Perhaps some published pins are wrong, and no worker has them.
            Err(NotDone::Full) => self.files.call_for_pins(),
            Ok(_) | Err(NotDone::Busy) => {}
        }
        done
    }

    /// Publishes this worker's pins again.
    #[cold]
    fn say_pins(&mut self) {
        self.round = self.files.sums.rounds.load(Ordering::Relaxed);
        self.pins.say_again(self.files.used());
    }

    /// How long to wait for a lock.
    #[inline]
    fn timeout(&mut self) -> Duration {
        match self.vain {
            None => TIMEOUT,
            Some(since) if since.elapsed() < REST => Duration::ZERO,
            Some(_) => {
                self.vain = None;
                TIMEOUT
            }
        }
    }
}

impl Drop for SharedTable {
    /// Releases entries that were found for an unfinished request.
    fn drop(&mut self) {
        self.let_go();
    }
}

/// An entry is read only between `find` and `let_go`.
const FOUND: &str = "an entry is found before it is read";
