//! The open-file table that workers share, processes as well as threads: names, open files, header lines and small bodies in
//! shared memory, once for all of them (Pariag et al. 2007, section 5.2).
//!
//! Two tiers of locks, as in Harji et al. 2012 (section 3): a reader/writer lock for the names, which any number of look-ups
//! hold at once and who adds or removes a name holds alone, and a mutex for each entry, held by who looks at its file again.
//! Nobody waits for an entry with the names locked.
//!
//! ```text
//! buckets --> slot --> slot        names: path and coding, chained by hash
//!               |--> blocks        path | header lines | small body, in one run of the heap
//!               |--> descriptor    kept in the common descriptor table
//!               `--- pins          one count for each worker
//! ```
//!
//! An entry does not change once it has a name, but for how long it is believed. A worker pins it while it holds the names for
//! reading; who removes entries has the names alone and spares what is pinned. So what is pinned stays as it is, and its
//! descriptor open, whatever the others do. A worker counts its pins in memory of its own part, so that they can be dropped when
//! it has died ([`SharedFiles::forget_worker`]).
//!
//! A worker may die while it changes the names. What then is there is made of the slots alone: each says by its state whether
//! it holds an entry, and everything else (chains, free slots and blocks, sums) is built anew from that by who comes next.
//! A descriptor belongs to the slot that has it from when it is written there to when it is taken out; what is in neither a slot
//! nor a living process's hands is found by [`sys::descriptors`].

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use http1::coding::{Coding, CodingSet};
use sys::descriptors::Ledger;
use sys::file::{FileKind, FileStat, FileTime};
use sys::lock::{Held, Mutex, Reader, ReadersWriter, Writer, Writing};
use sys::shared::{self, Region, Shared};
use sys::socket::Slice;

use super::entry::{Entry, Facts, Marks};
use super::table::{Bounds, Full, Pin, Place, TableCounts, TableSize};
use crate::config::FileSettings;

/// The memory of a shared table. Copies are the same table.
#[derive(Clone, Debug)]
pub struct SharedFiles {
    names: ReadersWriter,
    sums: &'static Sums,
    buckets: &'static [AtomicU32],
    slots: &'static [Slot],
    /// Pins of the first worker on all slots, then those of the second, and so on.
    pins: &'static [AtomicU32],
    /// A bit for each block of the heap: it is in use.
    blocks: &'static [AtomicU64],
    heap: &'static [AtomicU8],
    workers: usize,
    bounds: Bounds,
    hasher: DefaultHashBuilder,
    ledger: Ledger,
    keeper: u32,
}

sys::shareable! {
    /// What can be built anew from the slots.
    #[derive(Debug)]
    struct Sums {
        entries: AtomicU64,
        descriptors: AtomicU64,
        memory_bytes: AtomicU64,
        body_bytes: AtomicU64,
        /// Blocks of the heap in use.
        blocks: AtomicU64,
        /// The first free slot; 0: none, else its number and 1.
        free: AtomicU32,
        /// Where second chance looks next.
        hand: AtomicU32,
    }
}

sys::shareable! {
    #[derive(Debug)]
    #[repr(C, align(64))]
    struct Slot {
        state: AtomicU32,
        /// The next slot of the chain or of the free ones; as in `free`.
        next: AtomicU32,
        hash: AtomicU64,
        /// The coding that is part of the name; 0: none.
        coding: AtomicU32,
        /// The first block, and what is there: the path and the memory.
        block: AtomicU32,
        path_len: AtomicU32,
        memory_len: AtomicU32,
        /// The number of the file's descriptor and 1; 0: it has none.
        descriptor: AtomicU32,
        /// Asked for since second chance last looked.
        referenced: AtomicU32,
        trusted_until_ms: AtomicU64,
        facts: [AtomicU64; FACTS],
        /// Held by who looks at the file again.
        looking: Mutex,
    }
}

/// States of a slot. In all others than these two it holds nothing, or nothing that is of use.
const NAMED: u32 = 1;
/// Without a name, for as long as it is pinned.
const DETACHED: u32 = 2;
/// On its way out: its descriptor, if it still has one, is to be closed.
const LEAVING: u32 = 3;

/// Bytes of a block, the unit of the heap.
const BLOCK: usize = 256;
/// Bytes of path and header lines that an entry has room for on average. Where they are longer, there are fewer entries.
const HEAD_ROOM: usize = 2 << 10;
/// How long the supervisor waits for readers when it tidies up.
const TIDYING: Duration = Duration::from_millis(20);

impl SharedFiles {
    /// A table for so many workers, which keeps so many files open at most. `keeper` is its name in the ledger.
    ///
    /// # Errors
    ///
    /// There is not so much memory.
    pub fn new(
        settings: &FileSettings,
        open_files: u32,
        workers: usize,
        ledger: Ledger,
        keeper: u32,
    ) -> io::Result<Self> {
        let bounds = super::bounds(settings, open_files);
        let entries = bounds.entries as usize;
        let bytes = usize::try_from(bounds.body_bytes).ok().and_then(|bodies| {
            // A body takes whole blocks.
            entries.checked_mul(HEAD_ROOM + BLOCK)?.checked_add(bodies)?.checked_next_multiple_of(64 * BLOCK)
        });
        let bytes =
            bytes.filter(|bytes| bytes / BLOCK < u32::MAX as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let names =
            ReadersWriter::new(Shared::<Writer>::new()?.leak(), Region::<Reader>::new(workers)?.leak());
        let this = Self {
            names,
            sums: Shared::<Sums>::new()?.leak(),
            buckets: Region::new((2 * entries).next_power_of_two())?.leak(),
            slots: Region::new(entries)?.leak(),
            pins: Region::new(workers * entries)?.leak(),
            blocks: Region::new(bytes / BLOCK / 64)?.leak(),
            heap: Region::new(bytes)?.leak(),
            workers,
            bounds,
            hasher: DefaultHashBuilder::default(),
            ledger,
            keeper,
        };
        this.rebuild();
        Ok(this)
    }

    /// Whether it could serve a generation with these settings, when nobody uses it any more.
    pub fn fits(&self, settings: &FileSettings, open_files: u32, workers: usize) -> bool {
        self.workers == workers && self.bounds == super::bounds(settings, open_files)
    }

    /// The same memory as an empty table. Only when nobody uses it any more, and its files have been closed.
    pub fn anew(self, keeper: u32) -> Self {
        for slot in self.slots {
            slot.state.store(0, Ordering::Relaxed);
            slot.descriptor.store(0, Ordering::Relaxed);
        }
        self.pins.iter().for_each(|pins| pins.store(0, Ordering::Relaxed));
        self.rebuild();
        Self { keeper, ..self }
    }

    /// Drops what a worker held that has ended. Only when it has.
    pub fn forget_worker(&self, place: usize) {
        self.names.clear(place);
        let mut was_last = false;
        for (slot, pins) in self.slots.iter().zip(self.pins_of(place)) {
            if pins.swap(0, Ordering::SeqCst) != 0 {
                was_last |= slot.state.load(Ordering::SeqCst) == DETACHED;
            }
        }
        // If somebody writes or reads for long just now, second chance comes by later.
        if was_last && let Some(writing) = self.names.try_write(TIDYING) {
            self.repair_after(&writing);
            for place in 0..self.slots.len() as Place {
                self.free_if_last(place, &writing);
            }
        }
    }

    /// The descriptors of its files.
    pub fn descriptors(&self) -> HashSet<u32> {
        let descriptor = |slot: &Slot| slot.descriptor.load(Ordering::Acquire).checked_sub(1);
        self.slots.iter().filter_map(descriptor).collect()
    }

    /// Its name in the ledger.
    pub fn keeper(&self) -> u32 {
        self.keeper
    }

    /// The entry of that name. Under the lock.
    fn search(&self, hash: u64, path: &[u8], coding: u32) -> Option<Place> {
        let mut next = self.bucket(hash).load(Ordering::Relaxed);
        while let Some(place) = next.checked_sub(1) {
            let slot = &self.slots[place as usize];
            if slot.hash.load(Ordering::Relaxed) == hash
                && slot.coding.load(Ordering::Relaxed) == coding
                && shared::equals(self.path(slot), path)
            {
                return Some(place);
            }
            next = slot.next.load(Ordering::Relaxed);
        }
        None
    }

    /// Takes the names alone, in good order.
    fn write(&self) -> Writing {
        let writing = self.names.write();
        self.repair_after(&writing);
        writing
    }

    #[cold]
    fn repair_after(&self, writing: &Writing) {
        if writing.owner_died() {
            tracing::warn!(
                "a worker died while it changed the shared table of open files, which is put in order"
            );
            self.rebuild();
        }
    }

    /// Makes everything else fit what the slots say. Alone.
    fn rebuild(&self) {
        for word in self.buckets.iter().chain([&self.sums.free]) {
            word.store(0, Ordering::Relaxed);
        }
        self.blocks.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
        for sum in self.sums.all() {
            sum.store(0, Ordering::Relaxed);
        }
        for place in (0..self.slots.len() as Place).rev() {
            let slot = &self.slots[place as usize];
            let state = slot.state.load(Ordering::Relaxed);
            if state == NAMED || state == DETACHED {
                self.mark(slot, true);
                self.count(slot, true);
                if state == NAMED {
                    self.chain(place);
                }
            } else {
                self.close_descriptor(slot);
                self.put_with_free(place);
            }
        }
    }

    /// Removes an entry of that kind that no reply uses. Alone.
    fn evict(&self, writing: &Writing, is_of_kind: impl Fn(&Slot) -> bool) -> Result<(), Full> {
        // The first round may do no more than take away second chances.
        for _ in 0..2 * self.slots.len() {
            let place = self.sums.hand.load(Ordering::Relaxed) % self.slots.len() as u32;
            self.sums.hand.store(place + 1, Ordering::Relaxed);
            let slot = &self.slots[place as usize];
            let state = slot.state.load(Ordering::Relaxed);
            if !(state == NAMED || state == DETACHED) || !is_of_kind(slot) || self.is_pinned(place) {
                continue;
            }
            if slot.referenced.swap(0, Ordering::Relaxed) == 0 || state == DETACHED {
                self.detach(place, writing);
                self.free_if_last(place, writing);
                return Ok(());
            }
        }
        Err(Full)
    }

    /// Takes an entry's name away. Alone.
    fn detach(&self, place: Place, _writing: &Writing) {
        let slot = &self.slots[place as usize];
        if slot.state.load(Ordering::Relaxed) != NAMED {
            return;
        }
        slot.state.store(DETACHED, Ordering::SeqCst);
        let mut link = self.bucket(slot.hash.load(Ordering::Relaxed));
        while let Some(at) = link.load(Ordering::Relaxed).checked_sub(1) {
            let next = &self.slots[at as usize].next;
            if at == place {
                link.store(next.load(Ordering::Relaxed), Ordering::Relaxed);
                return;
            }
            link = next;
        }
    }

    /// Empties the slot of an entry that has neither name nor pins. Alone.
    fn free_if_last(&self, place: Place, _writing: &Writing) {
        let slot = &self.slots[place as usize];
        if slot.state.load(Ordering::SeqCst) != DETACHED || self.is_pinned(place) {
            return;
        }
        self.count(slot, false);
        slot.state.store(LEAVING, Ordering::Release);
        self.close_descriptor(slot);
        self.mark(slot, false);
        slot.state.store(0, Ordering::Release);
        self.put_with_free(place);
    }

    fn close_descriptor(&self, slot: &Slot) {
        // Out of the slot first: a number in a slot is always an open file's.
        if let Some(number) = slot.descriptor.swap(0, Ordering::AcqRel).checked_sub(1) {
            self.ledger.close_kept(number);
        }
    }

    fn put_with_free(&self, place: Place) {
        self.slots[place as usize].next.store(self.sums.free.load(Ordering::Relaxed), Ordering::Relaxed);
        self.sums.free.store(place + 1, Ordering::Relaxed);
    }

    fn chain(&self, place: Place) {
        let slot = &self.slots[place as usize];
        let bucket = self.bucket(slot.hash.load(Ordering::Relaxed));
        slot.next.store(bucket.load(Ordering::Relaxed), Ordering::Relaxed);
        bucket.store(place + 1, Ordering::Release);
    }

    /// Finds so many bytes of free blocks, and names the first.
    fn find_blocks(&self, bytes: usize) -> Option<u32> {
        let wanted = blocks_of(bytes);
        let (mut first, mut run) = (0, 0);
        for (at, bits) in self.blocks.iter().enumerate() {
            let bits = bits.load(Ordering::Relaxed);
            if bits == u64::MAX {
                run = 0;
                continue;
            }
            for bit in 0..64 {
                if bits >> bit & 1 != 0 {
                    run = 0;
                    continue;
                }
                if run == 0 {
                    first = at * 64 + bit;
                }
                run += 1;
                if run == wanted {
                    return Some(first as u32);
                }
            }
        }
        None
    }

    /// Takes note of the blocks of a slot.
    fn mark(&self, slot: &Slot, in_use: bool) {
        let first = slot.block.load(Ordering::Relaxed) as usize;
        for block in first..first + blocks_of(slot.bytes()) {
            let (bits, bit) = (&self.blocks[block / 64], 1 << (block % 64));
            let before = bits.load(Ordering::Relaxed);
            bits.store(if in_use { before | bit } else { before & !bit }, Ordering::Relaxed);
        }
    }

    /// Adds an entry to the sums, or takes it out.
    fn count(&self, slot: &Slot, more: bool) {
        let numbers = [
            1,
            u64::from(slot.is_open()),
            slot.memory_len.load(Ordering::Relaxed).into(),
            slot.body_bytes(),
            blocks_of(slot.bytes()) as u64,
        ];
        for (sum, number) in self.sums.all().into_iter().zip(numbers) {
            let before = sum.load(Ordering::Relaxed);
            sum.store(if more { before + number } else { before - number }, Ordering::Relaxed);
        }
    }

    fn is_pinned(&self, place: Place) -> bool {
        (0..self.workers).any(|worker| self.pins_of(worker)[place as usize].load(Ordering::SeqCst) != 0)
    }

    fn pins_of(&self, worker: usize) -> &'static [AtomicU32] {
        &self.pins[worker * self.slots.len()..][..self.slots.len()]
    }

    fn bucket(&self, hash: u64) -> &'static AtomicU32 {
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    fn path(&self, slot: &Slot) -> &'static [AtomicU8] {
        &self.heap[slot.block.load(Ordering::Relaxed) as usize * BLOCK..]
            [..slot.path_len.load(Ordering::Relaxed) as usize]
    }

    fn memory(&self, slot: &Slot) -> &'static [AtomicU8] {
        let from = slot.block.load(Ordering::Relaxed) as usize * BLOCK
            + slot.path_len.load(Ordering::Relaxed) as usize;
        &self.heap[from..][..slot.memory_len.load(Ordering::Relaxed) as usize]
    }

    #[inline]
    fn hash(&self, path: &[u8], coding: u32) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(path);
        hasher.write_u32(coding);
        hasher.finish()
    }
}

impl Sums {
    fn all(&self) -> [&AtomicU64; 5] {
        [&self.entries, &self.descriptors, &self.memory_bytes, &self.body_bytes, &self.blocks]
    }
}

impl Slot {
    /// Whether it has a descriptor.
    fn is_open(&self) -> bool {
        self.descriptor.load(Ordering::Relaxed) != 0
    }

    /// Of path and memory.
    fn bytes(&self) -> usize {
        (self.path_len.load(Ordering::Relaxed) + self.memory_len.load(Ordering::Relaxed)) as usize
    }

    fn body_bytes(&self) -> u64 {
        let facts = facts_of(self);
        facts.body_in_memory()
    }
}

/// A shared table as one worker uses it.
#[derive(Debug)]
pub(super) struct SharedTable {
    files: SharedFiles,
    worker: usize,
    /// Where this worker's pins are counted.
    pins: &'static [AtomicU32],
    /// What the request at hand has found, each with a pin.
    found: Vec<(Place, Facts)>,
    /// A copy of header lines to be read.
    head: Vec<u8>,
    pub(super) counts: TableCounts,
}

impl SharedTable {
    // Nothing of this is taken into the callers, where it would make the way of a worker's own table longer.

    /// For the worker at that place.
    pub(super) fn new(files: SharedFiles, worker: usize) -> Self {
        let pins = files.pins_of(worker);
        let (found, head) = (Vec::with_capacity(8), Vec::new());
        Self { files, worker, pins, found, head, counts: TableCounts::default() }
    }

    #[inline(never)]
    pub(super) fn find(&mut self, path: &[u8], coding: Option<Coding>) -> Option<Place> {
        let coding = number_of(coding);
        let hash = self.files.hash(path, coding);
        loop {
            match self.files.names.read(self.worker) {
                Ok(_reading) => {
                    let place = self.files.search(hash, path, coding)?;
                    self.hold(place);
                    return Some(place);
                }
                Err(writing) => self.files.repair_after(&writing),
            }
        }
    }

    #[inline(never)]
    pub(super) fn entry(&self, place: Place) -> &Facts {
        &self.found.iter().rev().find(|(found, _)| *found == place).expect(FOUND).1
    }

    pub(super) fn entry_and_head(&mut self, place: Place) -> (&Facts, &[u8]) {
        let facts = &self.found.iter().find(|(found, _)| *found == place).expect(FOUND).1;
        self.head.clear();
        let memory = self.files.memory(&self.files.slots[place as usize]);
        shared::copy_out(&memory[..facts.marks.body as usize], &mut self.head);
        (facts, &self.head)
    }

    pub(super) fn stat(&self, place: Place) -> FileStat {
        facts_of(&self.files.slots[place as usize]).stat
    }

    #[inline(never)]
    pub(super) fn memory(&self, place: Place, range: Range<u32>) -> Slice<'_> {
        let memory = self.files.memory(&self.files.slots[place as usize]);
        Slice::shared(&memory[range.start as usize..range.end as usize])
    }

    #[inline(never)]
    pub(super) fn file(&self, place: Place) -> Option<BorrowedFd<'_>> {
        let number = self.files.slots[place as usize].descriptor.load(Ordering::Relaxed).checked_sub(1)?;
        self.files.ledger.kept(number)
    }

    pub(super) fn claim(&mut self, place: Place) -> Held {
        let held = self.files.slots[place as usize].looking.lock();
        if held.owner_died() {
            // It changed nothing in the entry: who looks at the file now does it from the beginning.
            tracing::debug!("a worker died while it looked at a file");
        }
        held
    }

    pub(super) fn trust(&mut self, place: Place, until_ms: u64) {
        self.files.slots[place as usize].trusted_until_ms.store(until_ms, Ordering::Release);
        for (found, facts) in &mut self.found {
            if *found == place {
                facts.trusted_until_ms = until_ms;
            }
        }
    }

    pub(super) fn insert(
        &mut self,
        path: &[u8],
        coding: Option<Coding>,
        entry: Entry,
    ) -> Result<Place, Full> {
        let Entry { memory, file, facts } = entry;
        let coding = number_of(coding);
        let hash = self.files.hash(path, coding);
        // Nobody else has a file that is new.
        let keep = |file| {
            Arc::into_inner(file).and_then(|file| self.files.ledger.keep(file, self.files.keeper)).ok_or(Full)
        };
        let descriptor = file.map(keep).transpose()?;
        let files = self.files.clone();
        let writing = files.write();
        self.give_up(&writing, hash, path, coding);
        let inserted = self
            .make_room_for_file(&writing, descriptor.is_some())
            .and_then(|()| self.make_slot(&writing, hash, path, coding, &memory, facts.body_in_memory()))
            .inspect(|&place| {
                let slot = &files.slots[place as usize];
                slot.trusted_until_ms.store(facts.trusted_until_ms, Ordering::Relaxed);
                slot.descriptor.store(descriptor.map_or(0, |number| number + 1), Ordering::Release);
                write_facts(slot, &facts);
                slot.state.store(NAMED, Ordering::Release);
                files.count(slot, true);
                files.chain(place);
                self.hold(place);
            });
        drop(writing);
        if let (Err(Full), Some(number)) = (&inserted, descriptor) {
            files.ledger.close_kept(number);
        }
        inserted
    }

    pub(super) fn make_room(&mut self, body_bytes: u64) -> bool {
        let writing = self.files.write();
        self.make_room_for_body(&writing, body_bytes)
    }

    pub(super) fn close_half(&mut self) -> u64 {
        let writing = self.files.write();
        let half = self.files.sums.descriptors.load(Ordering::Relaxed).div_ceil(2);
        (0..half).take_while(|_| self.evict(&writing, Slot::is_open).is_ok()).count() as u64
    }

    pub(super) fn forget(&mut self, place: Place) {
        let writing = self.files.write();
        self.files.detach(place, &writing);
        self.let_go_of(place);
        self.files.free_if_last(place, &writing);
    }

    pub(super) fn forget_outdated(&mut self, now_ms: u64) {
        let writing = self.files.write();
        for (place, slot) in (0..).zip(self.files.slots) {
            if slot.trusted_until_ms.load(Ordering::Acquire) <= now_ms {
                self.files.detach(place, &writing);
                self.files.free_if_last(place, &writing);
            }
        }
    }

    #[inline(never)]
    pub(super) fn pin(&mut self, place: Place) -> Pin {
        let slot = &self.files.slots[place as usize];
        // Written only when it changes: the line is every worker's.
        if slot.referenced.load(Ordering::Relaxed) == 0 {
            slot.referenced.store(1, Ordering::Relaxed);
        }
        self.add_pin(place);
        Pin(place)
    }

    #[inline(never)]
    pub(super) fn unpin(&mut self, place: Place) {
        let pins = &self.pins[place as usize];
        pins.store(pins.load(Ordering::Relaxed) - 1, Ordering::SeqCst);
        if self.files.slots[place as usize].state.load(Ordering::SeqCst) == DETACHED {
            self.unpin_detached(place);
        }
    }

    #[inline(never)]
    pub(super) fn let_go(&mut self) {
        while let Some((place, _)) = self.found.pop() {
            self.unpin(place);
        }
    }

    pub(super) fn size(&self) -> TableSize {
        let [entries, descriptors, memory_bytes, body_bytes, _] =
            self.files.sums.all().map(|sum| sum.load(Ordering::Relaxed));
        TableSize { entries, descriptors, memory_bytes, body_bytes }
    }

    /// Blocks that are not full, paths, slots, pins and buckets of what there is.
    pub(super) fn structure_bytes(&self) -> u64 {
        let TableSize { entries, memory_bytes, .. } = self.size();
        let blocks = self.files.sums.blocks.load(Ordering::Relaxed) * BLOCK as u64;
        let each = size_of::<Slot>() + (self.files.workers + 1) * size_of::<AtomicU32>();
        blocks.saturating_sub(memory_bytes) + entries * each as u64
    }

    pub(super) fn random(&self, n: u64) -> u64 {
        self.files.hasher.hash_one(n)
    }

    /// Removes what has a name, which was found to be out of date, unless somebody uses it: then it stays until there is
    /// something else under that name.
    fn give_up(&mut self, writing: &Writing, hash: u64, path: &[u8], coding: u32) {
        let Some(old) = self.files.search(hash, path, coding) else { return };
        self.let_go_of(old);
        if !self.files.is_pinned(old) {
            self.files.detach(old, writing);
            self.files.free_if_last(old, writing);
        }
    }

    fn make_room_for_file(&mut self, writing: &Writing, is_open: bool) -> Result<(), Full> {
        let bound = u64::from(self.files.bounds.open_files);
        while is_open && self.files.sums.descriptors.load(Ordering::Relaxed) >= bound {
            self.evict(writing, Slot::is_open)?;
        }
        Ok(())
    }

    /// A slot for an entry, with its bytes in place, and not in use yet. What had the name loses it.
    fn make_slot(
        &mut self,
        writing: &Writing,
        hash: u64,
        path: &[u8],
        coding: u32,
        memory: &[u8],
        body_bytes: u64,
    ) -> Result<Place, Full> {
        if body_bytes > 0 && !self.make_room_for_body(writing, body_bytes) {
            return Err(Full);
        }
        let bytes = path.len() + memory.len();
        let (place, block) = loop {
            let free = self.files.sums.free.load(Ordering::Relaxed).checked_sub(1);
            if let (Some(place), Some(block)) = (free, self.files.find_blocks(bytes)) {
                break (place, block);
            }
            self.evict(writing, |_| true)?;
        };
        if let Some(pinned) = self.files.search(hash, path, coding) {
            self.files.detach(pinned, writing);
        }
        let slot = &self.files.slots[place as usize];
        self.files.sums.free.store(slot.next.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.hash.store(hash, Ordering::Relaxed);
        slot.coding.store(coding, Ordering::Relaxed);
        slot.block.store(block, Ordering::Relaxed);
        slot.path_len.store(path.len() as u32, Ordering::Relaxed);
        slot.memory_len.store(memory.len() as u32, Ordering::Relaxed);
        // A first look counts as none: what is asked for once goes before what is asked for again.
        slot.referenced.store(0, Ordering::Relaxed);
        shared::copy_in(self.files.path(slot), path);
        shared::copy_in(self.files.memory(slot), memory);
        self.files.mark(slot, true);
        Ok(place)
    }

    fn make_room_for_body(&mut self, writing: &Writing, body_bytes: u64) -> bool {
        let bound = self.files.bounds.body_bytes;
        if body_bytes > bound {
            return false;
        }
        while self.files.sums.body_bytes.load(Ordering::Relaxed) + body_bytes > bound {
            if self.evict(writing, |slot| slot.body_bytes() > 0).is_err() {
                return false;
            }
        }
        true
    }

    fn evict(&mut self, writing: &Writing, is_of_kind: impl Fn(&Slot) -> bool) -> Result<(), Full> {
        self.files.evict(writing, is_of_kind)?;
        self.counts.evictions += 1;
        Ok(())
    }

    /// Keeps a found entry until the end of the request. With the names held.
    fn hold(&mut self, place: Place) {
        if let Some((_, facts)) = self.found.iter_mut().find(|(found, _)| *found == place) {
            facts.trusted_until_ms =
                self.files.slots[place as usize].trusted_until_ms.load(Ordering::Acquire);
            return;
        }
        self.add_pin(place);
        self.found.push((place, facts_of(&self.files.slots[place as usize])));
    }

    /// Gives up an entry that was found, with the names held alone. What is left of it is the caller's affair.
    fn let_go_of(&mut self, place: Place) {
        if let Some(at) = self.found.iter().position(|(found, _)| *found == place) {
            self.found.remove(at);
            let pins = &self.pins[place as usize];
            pins.store(pins.load(Ordering::Relaxed) - 1, Ordering::SeqCst);
        }
    }

    #[inline]
    fn add_pin(&self, place: Place) {
        let pins = &self.pins[place as usize];
        pins.store(pins.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[cold]
    fn unpin_detached(&self, place: Place) {
        let writing = self.files.write();
        self.files.free_if_last(place, &writing);
    }
}

impl Drop for SharedTable {
    /// An entry that was found for a request that was not finished.
    fn drop(&mut self) {
        self.let_go();
    }
}

/// An entry is read between finding and letting go.
const FOUND: &str = "an entry is found before it is read";

fn blocks_of(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK).max(1)
}

fn number_of(coding: Option<Coding>) -> u32 {
    coding.map_or(0, |coding| coding as u32 + 1)
}

fn coding_of(number: u64) -> Option<Coding> {
    Coding::ALL.into_iter().find(|&coding| u64::from(number_of(Some(coding))) == number)
}

/// Words that the facts of an entry take, but for the length of its memory and how long it is believed.
const FACTS: usize = 13;

fn write_facts(slot: &Slot, facts: &Facts) {
    let Facts { stat, marks, coding, siblings, index, lasting, .. } = facts;
    let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let range = |range: &Option<Range<u32>>| range.as_ref().map_or(0, |range| pair(range.start, range.end));
    let kind = match stat.kind {
        FileKind::Regular => 0,
        FileKind::Directory => 1,
        FileKind::Other => 2,
    };
    let siblings: u32 = Coding::ALL
        .into_iter()
        .filter(|&coding| siblings.contains(coding))
        .map(|coding| 1 << number_of(Some(coding)))
        .sum();
    let small = kind | u32::from(*lasting) << 8 | number_of(*coding) << 16 | siblings << 24;
    let words = [
        stat.size,
        stat.device,
        stat.inode,
        stat.mtime.secs.cast_unsigned(),
        stat.ctime.secs.cast_unsigned(),
        pair(stat.mtime.nanos, stat.ctime.nanos),
        stat.links,
        pair(stat.mode, small),
        pair(marks.media_type, marks.coding),
        pair(marks.validators, marks.body),
        range(&marks.etag),
        range(&marks.last_modified),
        index.map_or(0, |index| index as u64 + 1),
    ];
    for (to, word) in slot.facts.iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}

fn facts_of(slot: &Slot) -> Facts {
    let word = |at: usize| slot.facts[at].load(Ordering::Relaxed);
    let pair = |at| ((word(at) >> 32) as u32, word(at) as u32);
    // No range begins at 0, where Content-Length is.
    let range = |at| (word(at) != 0).then(|| pair(at).0..pair(at).1);
    let ((mtime_nanos, ctime_nanos), (mode, small)) = (pair(5), pair(7));
    let siblings = Coding::ALL.into_iter().filter(|&coding| small >> 24 >> number_of(Some(coding)) & 1 != 0);
    Facts {
        stat: FileStat {
            kind: match small & 0xff {
                0 => FileKind::Regular,
                1 => FileKind::Directory,
                _ => FileKind::Other,
            },
            size: word(0),
            device: word(1),
            inode: word(2),
            mtime: FileTime { secs: word(3).cast_signed(), nanos: mtime_nanos },
            ctime: FileTime { secs: word(4).cast_signed(), nanos: ctime_nanos },
            mode,
            links: word(6),
        },
        marks: Marks {
            media_type: pair(8).0,
            coding: pair(8).1,
            validators: pair(9).0,
            body: pair(9).1,
            etag: range(10),
            last_modified: range(11),
        },
        memory_len: slot.memory_len.load(Ordering::Relaxed),
        coding: coding_of(u64::from(small >> 16 & 0xff)),
        siblings: siblings.fold(CodingSet::EMPTY, CodingSet::with),
        index: (word(12) as usize).checked_sub(1),
        trusted_until_ms: slot.trusted_until_ms.load(Ordering::Acquire),
        lasting: small >> 8 & 1 != 0,
    }
}

#[cfg(test)]
mod tests;
