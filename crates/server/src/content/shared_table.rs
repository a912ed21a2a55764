//! The open-file table that workers share, processes as well as threads: names, open files, header lines and
//! small bodies in shared memory, once for all of them (Pariag et al. 2007, section 5.2).
//!
//! Two tiers of locks, as in Harji et al. 2012 (section 3): a reader/writer lock for the names, which any
//! number of look-ups hold at once and who adds or removes a name holds alone, and a mutex for each entry,
//! held by who looks at its file again. Nobody waits for an entry with the names locked.
//!
//! ```text
//! buckets --> slot --> slot        names: path and coding, chained by hash
//!               |--> blocks        path | header lines | small body, in one run of the heap
//!               |--> descriptor    kept in the common descriptor table
//!               `--- pins          one count for each worker
//! ```
//!
//! An entry does not change once it has a name, but for how long it is believed. A worker pins it while it
//! holds the names for reading; who removes entries has the names alone and spares what is pinned. So what is
//! pinned stays as it is, and its descriptor open, whatever the others do. A worker counts its pins in memory
//! of its own part, so that they can be dropped when it has died ([`SharedFiles::forget_worker`]).
//!
//! A worker may die while it changes the names. What then is there is made of the slots alone: each says by
//! its state whether it holds an entry, and everything else (chains, free slots and blocks, sums) is built
//! anew from that by who comes next. A descriptor belongs to the slot that has it from when it is written
//! there to when it is taken out; what is in neither a slot nor a living process's hands is found by
//! [`sys::descriptors`].
//!
//! A worker may be stopped with a lock in its hands, for as long as somebody likes. So nobody waits for long:
//! who can't have the table in time serves the file [apart] from it, and asks without waiting for a while.
//!
//! Nothing that is read here is believed to be possible. What does not fit (a slot that there is not, a chain
//! without an end, bytes outside the heap) is garbage that somebody has written by mistake: who comes across
//! it builds the table anew from those slots that are whole, which is told by a sum that each bears of what
//! it says. How often a worker has pinned what, it knows itself, and says it again then. The bytes in the
//! heap bear no sum, nor do the bits that say which blocks are in use; workers that share files have to trust
//! each other so far.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::DefaultHashBuilder;
use http1::coding::Coding;
use sys::descriptors::{Kept, Ledger};
use sys::file::{FileKind, FileStat};
use sys::lock::{Held, Mutex, Reader, ReadersWriter, Unread, Writer, Writing};
use sys::shared::{self, Region, Shared};
use sys::socket::Slice;

use self::apart::{Apart, is_apart};
use self::words::{BODY, FACTS, ends_of, facts_of, number_of, stat_of, write_facts};
use super::ends::Ends;
use super::entry::{Entry, Facts};
use super::table::{Bounds, Full, Pin, Place, TableCounts, TableSize};
use crate::common::Common;
use crate::config::FileSettings;

mod apart;
mod words;

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
        /// The first free slot of those that were used before; 0: none, else its number and 1.
        free: AtomicU32,
        /// Slots from here on have never been used. Nobody looks at them, as that alone would take memory for
        /// them.
        used: AtomicU32,
        /// Where second chance looks next.
        hand: AtomicU32,
        /// When this has changed, each worker is to say again what it has pinned.
        rounds: AtomicU32,
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
        /// The file's descriptor ([`Kept`]); 0: it has none.
        descriptor: AtomicU64,
        /// Asked for since second chance last looked.
        referenced: AtomicU32,
        trusted_until_ms: AtomicU64,
        facts: [AtomicU64; FACTS],
        /// Of everything in the slot that does not change while it holds an entry.
        sum: AtomicU64,
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
/// Once an entry that somebody has pinned, and then garbage. It has no bytes, and goes with its last pin.
const SPOILT: u32 = 4;

/// Bytes of a block, the unit of the heap.
const BLOCK: usize = 256;
/// Bytes of path and header lines that an entry has room for on average. Where they are longer, there are
/// fewer entries.
const HEAD_ROOM: usize = 2 << 10;
/// How long the supervisor waits for others when it tidies up.
const TIDYING: Duration = Duration::from_millis(20);
/// How long a worker waits for a lock: longer than one that runs holds any but that of a file on a slow disk.
const PATIENCE: Duration = Duration::from_millis(50);
/// After it has waited in vain, a worker does not wait again for so long, so that it loses little time with a
/// lock that is stuck.
const REST: Duration = Duration::from_secs(1);

/// What is there can't be.
#[derive(Debug, PartialEq, Eq)]
struct Garbage;

/// Why something is not done to the table.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// Every entry is in use.
    Full,
    /// Others held it for too long.
    Busy,
    /// It has been put in order since.
    Garbage,
}

impl From<Garbage> for Obstacle {
    fn from(Garbage: Garbage) -> Self {
        Self::Garbage
    }
}

impl SharedFiles {
    /// A table for so many workers, which keeps so many files open at most. `keeper` is its name in the
    /// ledger.
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
        let bounds = Bounds::new(settings, open_files);
        let entries = bounds.entries as usize;
        let bytes = usize::try_from(bounds.body_bytes).ok().and_then(|bodies| {
            // A body takes whole blocks.
            entries.checked_mul(HEAD_ROOM + BLOCK)?.checked_add(bodies)?.checked_next_multiple_of(64 * BLOCK)
        });
        let bytes =
            bytes.filter(|bytes| bytes / BLOCK < u32::MAX as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let names =
            ReadersWriter::new(Shared::<Writer>::new()?.leak(), Region::<Reader>::new(workers)?.leak());
        Ok(Self {
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
        })
    }

    /// Whether it could serve a generation with these settings, when nobody uses it any more.
    pub fn fits(&self, settings: &FileSettings, open_files: u32, workers: usize) -> bool {
        self.workers == workers && self.bounds == Bounds::new(settings, open_files)
    }

    /// Becomes an empty table that takes no memory. Only when nobody uses it any more, and its files have
    /// been closed.
    ///
    /// # Errors
    ///
    /// The kernel does not take the memory back. It is not to be used again then.
    pub fn empty(&self) -> io::Result<()> {
        shared::empty(self.heap)?;
        shared::empty(self.slots)?;
        shared::empty(self.pins)?;
        shared::empty(self.buckets)?;
        shared::empty(self.blocks)?;
        shared::empty(std::slice::from_ref(self.sums))?;
        self.names.renew();
        Ok(())
    }

    /// The same memory under another name, when it is [empty](Self::empty).
    pub fn renamed(self, keeper: u32) -> Self {
        Self { keeper, ..self }
    }

    /// Drops what a worker held that has ended. Only when it has.
    pub fn forget_worker(&self, place: usize) {
        self.names.clear(place);
        let mut was_last = false;
        for (slot, pins) in self.slots.iter().zip(self.pins_of(place)) {
            if pins.swap(0, Ordering::SeqCst) != 0 {
                was_last |= matches!(slot.state.load(Ordering::SeqCst), DETACHED | SPOILT);
            }
        }
        // If somebody writes or reads for long just now, second chance comes by later.
        if was_last && let Some(writing) = self.names.write(TIDYING) {
            self.repair_after(&writing);
            if (0..self.used()).any(|place| self.free_if_last(place, &writing).is_err()) {
                self.clear_garbage(&writing);
            }
        }
    }

    /// The descriptors of its files.
    pub fn descriptors(&self) -> HashSet<u32> {
        let descriptor = |slot: &Slot| Kept::of(slot.descriptor.load(Ordering::Acquire)).map(Kept::number);
        self.slots[..self.used() as usize].iter().filter_map(descriptor).collect()
    }

    /// Its name in the ledger.
    pub fn keeper(&self) -> u32 {
        self.keeper
    }

    /// The entry of that name. Under the lock.
    fn search(&self, hash: u64, path: &[u8], coding: u32) -> Result<Option<Place>, Garbage> {
        let mut next = self.bucket(hash).load(Ordering::Relaxed);
        for _ in 0..=self.slots.len() {
            let Some(place) = next.checked_sub(1) else { return Ok(None) };
            let slot = self.slots.get(place as usize).ok_or(Garbage)?;
            if slot.hash.load(Ordering::Relaxed) == hash
                && slot.coding.load(Ordering::Relaxed) == coding
                && self.path(slot).is_some_and(|bytes| shared::equals(bytes, path))
            {
                let is_named = slot.state.load(Ordering::Relaxed) == NAMED;
                return if is_named { Ok(Some(place)) } else { Err(Garbage) };
            }
            next = slot.next.load(Ordering::Relaxed);
        }
        Err(Garbage)
    }

    #[cold]
    fn repair_after(&self, writing: &Writing) {
        if writing.owner_died() {
            tracing::warn!(
                "a worker died while it changed the shared table of open files, which is put in order"
            );
            self.rebuild(writing);
        }
    }

    /// Puts in order what somebody has written to who should not have.
    #[cold]
    fn clear_garbage(&self, writing: &Writing) {
        tracing::error!("there is garbage in the shared table of open files, which is put in order");
        // Be it in this very number.
        self.sums.used.store(self.slots.len() as u32, Ordering::Relaxed);
        self.rebuild(writing);
        self.call_for_pins();
    }

    /// Has all workers say again what they have pinned, each when it next looks for a file.
    fn call_for_pins(&self) {
        self.sums.rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes everything else fit what the slots say, and empties those that can't be right.
    fn rebuild(&self, _writing: &Writing) {
        for word in self.buckets.iter().chain([&self.sums.free, &self.sums.hand]) {
            word.store(0, Ordering::Relaxed);
        }
        self.blocks.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
        for sum in self.sums.all() {
            sum.store(0, Ordering::Relaxed);
        }
        let mut descriptors = HashSet::new();
        for place in (0..self.used()).rev() {
            let slot = &self.slots[place as usize];
            let is_alone = Kept::of(slot.descriptor.load(Ordering::Acquire)).is_none_or(|kept| {
                self.ledger.kept(kept, self.keeper).is_some() && descriptors.insert(kept.number())
            });
            if !is_alone {
                slot.descriptor.store(0, Ordering::Release);
            }
            let state = slot.state.load(Ordering::Relaxed);
            if (state == NAMED || state == DETACHED) && self.is_whole(slot) {
                self.mark(slot, true);
                self.count(slot, true);
                if state == NAMED {
                    self.chain(place);
                }
            } else if self.is_pinned(place) {
                slot.path_len.store(0, Ordering::Relaxed);
                slot.memory_len.store(0, Ordering::Relaxed);
                slot.state.store(SPOILT, Ordering::Release);
            } else {
                slot.state.store(LEAVING, Ordering::Release);
                self.close_descriptor(slot);
                slot.state.store(0, Ordering::Release);
                self.put_with_free(place);
            }
        }
    }

    /// Whether a slot holds what was once put there, in blocks that nobody has taken note of yet.
    fn is_whole(&self, slot: &Slot) -> bool {
        let blocks = self.blocks_of(slot);
        slot.has_its_sum() && blocks.is_some_and(|mut blocks| !blocks.any(|block| self.is_in_use(block)))
    }

    fn is_in_use(&self, block: usize) -> bool {
        self.blocks[block / 64].load(Ordering::Relaxed) >> (block % 64) & 1 != 0
    }

    /// Removes an entry of that kind that no reply uses. Alone.
    fn evict(&self, writing: &Writing, is_of_kind: impl Fn(&Slot) -> bool) -> Result<(), Obstacle> {
        let used = self.used();
        // The first round may do no more than take away second chances.
        for _ in 0..2 * u64::from(used) {
            let place = self.sums.hand.load(Ordering::Relaxed) % used;
            self.sums.hand.store(place + 1, Ordering::Relaxed);
            let slot = &self.slots[place as usize];
            let state = slot.state.load(Ordering::Relaxed);
            if state == SPOILT {
                self.free_if_last(place, writing)?;
            }
            if !(state == NAMED || state == DETACHED) || !is_of_kind(slot) || self.is_pinned(place) {
                continue;
            }
            if slot.referenced.swap(0, Ordering::Relaxed) == 0 || state == DETACHED {
                self.detach(place, writing)?;
                return Ok(self.free_if_last(place, writing)?);
            }
        }
        Err(Obstacle::Full)
    }

    /// Takes an entry's name away. Alone.
    fn detach(&self, place: Place, _writing: &Writing) -> Result<(), Garbage> {
        let slot = &self.slots[place as usize];
        if slot.state.load(Ordering::Relaxed) != NAMED {
            return Ok(());
        }
        slot.state.store(DETACHED, Ordering::SeqCst);
        let mut link = self.bucket(slot.hash.load(Ordering::Relaxed));
        for _ in 0..=self.slots.len() {
            let at = link.load(Ordering::Relaxed).checked_sub(1).ok_or(Garbage)?;
            let next = &self.slots.get(at as usize).ok_or(Garbage)?.next;
            if at == place {
                link.store(next.load(Ordering::Relaxed), Ordering::Relaxed);
                return Ok(());
            }
            link = next;
        }
        Err(Garbage)
    }

    /// Empties the slot of an entry that has neither name nor pins. Alone.
    fn free_if_last(&self, place: Place, _writing: &Writing) -> Result<(), Garbage> {
        let slot = &self.slots[place as usize];
        let state = slot.state.load(Ordering::SeqCst);
        if !matches!(state, DETACHED | SPOILT) || self.is_pinned(place) {
            return Ok(());
        }
        // Else it might give up the blocks of another entry, which would be overwritten under its name.
        if state == DETACHED && !slot.has_its_sum() {
            return Err(Garbage);
        }
        if state == DETACHED {
            self.count(slot, false);
        }
        slot.state.store(LEAVING, Ordering::Release);
        self.close_descriptor(slot);
        if state == DETACHED {
            self.mark(slot, false);
        }
        slot.state.store(0, Ordering::Release);
        self.put_with_free(place);
        Ok(())
    }

    fn close_descriptor(&self, slot: &Slot) {
        // Out of the slot first: what is in a slot is always an open file's.
        if let Some(kept) = Kept::of(slot.descriptor.swap(0, Ordering::AcqRel)) {
            self.ledger.close_kept(kept, self.keeper);
        }
    }

    /// Slots that were ever used.
    fn used(&self) -> Place {
        self.sums.used.load(Ordering::Relaxed).min(self.slots.len() as Place)
    }

    /// A slot to be used next.
    fn free_place(&self) -> Result<Option<Place>, Garbage> {
        let used = self.used();
        let place = match self.sums.free.load(Ordering::Relaxed).checked_sub(1) {
            Some(place) if place < used => place,
            Some(_) => return Err(Garbage),
            None if used as usize == self.slots.len() => return Ok(None),
            None => used,
        };
        let is_free = self.slots[place as usize].state.load(Ordering::Relaxed) == 0;
        if is_free { Ok(Some(place)) } else { Err(Garbage) }
    }

    /// Takes it.
    fn take_place(&self, place: Place) {
        if place == self.used() {
            self.sums.used.store(place + 1, Ordering::Release);
        } else {
            self.sums.free.store(self.slots[place as usize].next.load(Ordering::Relaxed), Ordering::Relaxed);
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
        let wanted = blocks_for(bytes);
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
        for block in self.blocks_of(slot).into_iter().flatten() {
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
            blocks_for(slot.bytes()) as u64,
        ];
        for (sum, number) in self.sums.all().into_iter().zip(numbers) {
            let before = sum.load(Ordering::Relaxed);
            let after = if more { before.saturating_add(number) } else { before.saturating_sub(number) };
            sum.store(after, Ordering::Relaxed);
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

    /// The blocks of a slot, if there are these.
    fn blocks_of(&self, slot: &Slot) -> Option<Range<usize>> {
        let first = slot.block.load(Ordering::Relaxed) as usize;
        let end = first + blocks_for(slot.bytes());
        (end <= self.heap.len() / BLOCK).then_some(first..end)
    }

    #[inline]
    fn path(&self, slot: &Slot) -> Option<&'static [AtomicU8]> {
        let from = slot.block.load(Ordering::Relaxed) as usize * BLOCK;
        self.heap.get(from..)?.get(..slot.path_len.load(Ordering::Relaxed) as usize)
    }

    #[inline]
    fn memory(&self, slot: &Slot) -> Option<&'static [AtomicU8]> {
        let from = slot.block.load(Ordering::Relaxed) as usize * BLOCK
            + slot.path_len.load(Ordering::Relaxed) as usize;
        self.heap.get(from..)?.get(..slot.memory_len.load(Ordering::Relaxed) as usize)
    }

    /// Gives the memory of the heap back that no entry uses. Alone.
    fn give_back_blocks(&self, _writing: &Writing) -> io::Result<()> {
        let slots = self.slots[..self.used() as usize].iter();
        let in_use = slots.filter(|slot| matches!(slot.state.load(Ordering::Relaxed), NAMED | DETACHED));
        let mut in_use: Vec<Range<usize>> = in_use.filter_map(|slot| self.blocks_of(slot)).collect();
        in_use.sort_by_key(|blocks| blocks.start);
        let end = self.heap.len() / BLOCK;
        in_use.push(end..end);
        let mut from = 0;
        for blocks in in_use {
            if from < blocks.start {
                shared::empty_pages(&self.heap[from * BLOCK..blocks.start * BLOCK])?;
            }
            from = from.max(blocks.end);
        }
        Ok(())
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
        self.path_len.load(Ordering::Relaxed) as usize + self.memory_len.load(Ordering::Relaxed) as usize
    }

    fn has_its_sum(&self) -> bool {
        self.sum.load(Ordering::Relaxed) == self.sum_up()
    }

    /// Another one if any of it is another, or almost certainly so.
    #[inline]
    fn sum_up(&self) -> u64 {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let Self { hash, coding, block, path_len, memory_len, descriptor, facts, .. } = self;
        let small = [[coding, block], [path_len, memory_len]]
            .map(|pair| pair.map(|word| u64::from(word.load(Ordering::Relaxed))))
            .map(|[high, low]| high << 32 | low);
        let large = [hash, descriptor].into_iter().chain(facts).map(|word| word.load(Ordering::Relaxed));
        small
            .into_iter()
            .chain(large)
            .fold(SPREAD, |sum, word| (sum ^ word).wrapping_mul(SPREAD).rotate_left(29))
    }

    fn body_bytes(&self) -> u64 {
        let FileStat { kind, size, .. } = stat_of(self);
        if kind == FileKind::Directory {
            // A listing, which takes memory wherever it is.
            return size;
        }
        let body = self.facts[BODY].load(Ordering::Relaxed) as u32;
        self.memory_len.load(Ordering::Relaxed).saturating_sub(body).into()
    }
}

/// A shared table as one worker uses it.
#[derive(Debug)]
pub(super) struct SharedTable {
    files: SharedFiles,
    worker: usize,
    /// How often this worker has pinned what, and where it says so.
    pinned: Vec<u32>,
    pins: &'static [AtomicU32],
    /// The round in which it has last said all of it.
    round: u32,
    /// What is served without the table.
    apart: Apart,
    /// When this worker last waited for it in vain.
    vain: Option<Instant>,
    /// Nothing more is put in.
    retired: bool,
    /// What the request at hand has found, each with a pin.
    found: Vec<(Place, Facts)>,
    /// A copy of header lines to be read.
    head: Vec<u8>,
    pub(super) counts: TableCounts,
}

impl SharedTable {
    // Nothing of this is taken into the callers, where it would make the way of a worker's own table longer.

    /// For one of the workers.
    pub(super) fn new(common: &Common, files: SharedFiles) -> Self {
        let worker = common.place;
        Self {
            worker,
            pinned: vec![0; files.slots.len()],
            pins: files.pins_of(worker),
            round: files.sums.rounds.load(Ordering::Relaxed),
            files,
            apart: Apart::new(common.ledger, common.owner),
            vain: None,
            retired: false,
            found: Vec::with_capacity(8),
            head: Vec::new(),
            counts: TableCounts::default(),
        }
    }

    #[inline(never)]
    pub(super) fn find(&mut self, path: &[u8], coding: Option<Coding>) -> Option<Place> {
        let coding = number_of(coding);
        let hash = self.files.hash(path, coding);
        if self.files.sums.rounds.load(Ordering::Relaxed) != self.round {
            self.say_pins();
        }
        // A second time if it had to be put in order.
        for _ in 0..2 {
            let patience = self.patience();
            match self.files.names.read(self.worker, patience) {
                Ok(reading) => {
                    if let Ok(found) = self.search(hash, path, coding) {
                        return found;
                    }
                    drop(reading);
                    let _ = self.alone(|_, _| Err::<(), _>(Obstacle::Garbage));
                }
                Err(Unread::Repair(writing)) => self.files.repair_after(&writing),
                Err(Unread::Busy) => break,
            }
        }
        self.vain.get_or_insert_with(Instant::now);
        None
    }

    /// Searches, and holds what it finds. With the names held.
    #[inline]
    fn search(&mut self, hash: u64, path: &[u8], coding: u32) -> Result<Option<Place>, Garbage> {
        let Some(place) = self.files.search(hash, path, coding)? else { return Ok(None) };
        self.hold(place)?;
        Ok(Some(place))
    }

    #[inline(never)]
    pub(super) fn entry(&self, place: Place) -> &Facts {
        &self.found.iter().rev().find(|(found, _)| *found == place).expect(FOUND).1
    }

    pub(super) fn entry_and_head(&mut self, place: Place) -> (&Facts, &[u8]) {
        let facts = &self.found.iter().find(|(found, _)| *found == place).expect(FOUND).1;
        let body = facts.marks.body as usize;
        self.head.clear();
        if is_apart(place) {
            self.head.extend_from_slice(&self.apart.entry(place).memory[..body]);
        } else if let Some(head) =
            self.files.memory(&self.files.slots[place as usize]).and_then(|memory| memory.get(..body))
        {
            shared::copy_out(head, &mut self.head);
        }
        // Should it be gone, which is garbage's doing.
        self.head.resize(body, 0);
        (facts, &self.head)
    }

    pub(super) fn stat(&self, place: Place) -> FileStat {
        if is_apart(place) {
            return self.apart.entry(place).stat;
        }
        stat_of(&self.files.slots[place as usize])
    }

    pub(super) fn ends(&self, place: Place) -> Ends {
        if is_apart(place) {
            return self.apart.entry(place).ends;
        }
        ends_of(&self.files.slots[place as usize])
    }

    /// `None`: the entry is not what it was, which is garbage's doing.
    #[inline(never)]
    pub(super) fn memory(&self, place: Place, range: Range<u32>) -> Option<Slice<'_>> {
        let range = range.start as usize..range.end as usize;
        if is_apart(place) {
            return self.apart.entry(place).memory.get(range).map(Slice::new);
        }
        self.files.memory(&self.files.slots[place as usize])?.get(range).map(Slice::shared)
    }

    #[inline(never)]
    pub(super) fn file(&self, place: Place) -> Option<BorrowedFd<'_>> {
        if is_apart(place) {
            return self.apart.entry(place).file.as_ref().map(AsFd::as_fd);
        }
        // An entry that is pinned is neither detached from its descriptor nor freed by others, so that it
        // stays open.
        let kept = Kept::of(self.files.slots[place as usize].descriptor.load(Ordering::Relaxed))?;
        self.files.ledger.kept(kept, self.files.keeper)
    }

    /// `None`: somebody takes long, or nobody but this request can have the entry.
    pub(super) fn claim(&mut self, place: Place) -> Option<Held> {
        if is_apart(place) {
            return None;
        }
        let patience = self.patience();
        let held = self.files.slots[place as usize].looking.lock(patience);
        match &held {
            // It changed nothing in the entry: who looks at the file now does it from the beginning.
            Some(held) if held.owner_died() => tracing::debug!("a worker died while it looked at a file"),
            Some(_) => {}
            None => {
                self.vain.get_or_insert_with(Instant::now);
            }
        }
        held
    }

    pub(super) fn trust(&mut self, place: Place, until_ms: u64) {
        if !is_apart(place) {
            self.files.slots[place as usize].trusted_until_ms.store(until_ms, Ordering::Release);
        }
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
        mut entry: Entry,
    ) -> Result<Place, Full> {
        entry.file = entry.file.map(of_ones_own).transpose()?;
        let mut entry = Some(entry);
        let inserted = if self.retired {
            Err(Obstacle::Busy)
        } else {
            self.alone(|this, writing| this.insert_alone(writing, path, number_of(coding), &mut entry))
        };
        match (inserted, entry) {
            (Ok(place), _) => Ok(place),
            (Err(Obstacle::Busy | Obstacle::Garbage), Some(entry)) => {
                let facts = entry.facts.clone();
                let Bounds { entries, open_files, .. } = self.files.bounds;
                let most = if entry.file.is_some() { open_files } else { entries };
                let place = self.apart.insert(entry, most)?;
                self.found.push((place, facts));
                Ok(place)
            }
            (Err(_), _) => Err(Full),
        }
    }

    /// Takes the entry if it can be put in.
    fn insert_alone(
        &mut self,
        writing: &Writing,
        path: &[u8],
        coding: u32,
        entry: &mut Option<Entry>,
    ) -> Result<Place, Obstacle> {
        let Some(offered) = &*entry else { return Err(Obstacle::Full) };
        let hash = self.files.hash(path, coding);
        let body_bytes = offered.facts.body_held();
        self.give_up(writing, hash, path, coding)?;
        self.make_room_for_file(writing, offered.file.is_some())?;
        let place = self.make_slot(writing, hash, path, coding, &offered.memory, body_bytes)?;
        let slot = &self.files.slots[place as usize];
        let Some(Entry { file, facts, .. }) = entry.take() else { return Err(Obstacle::Full) };
        if let Some(file) = file {
            let file = Arc::into_inner(file);
            let Some(kept) = file.and_then(|file| self.files.ledger.keep(file, self.files.keeper)) else {
                self.files.mark(slot, false);
                self.files.put_with_free(place);
                return Err(Obstacle::Full);
            };
            slot.descriptor.store(kept.word(), Ordering::Release);
        }
        slot.trusted_until_ms.store(facts.trusted_until_ms, Ordering::Relaxed);
        write_facts(slot, &facts);
        slot.sum.store(slot.sum_up(), Ordering::Relaxed);
        slot.state.store(NAMED, Ordering::Release);
        self.files.count(slot, true);
        self.files.chain(place);
        self.hold(place)?;
        Ok(place)
    }

    pub(super) fn make_room(&mut self, body_bytes: u64) -> bool {
        // What is served apart takes none.
        self.retired || self.alone(|this, writing| this.make_room_for_body(writing, body_bytes)).is_ok()
    }

    pub(super) fn close_half(&mut self) -> u64 {
        let closed = self.alone(|this, writing| {
            let half = this.files.sums.descriptors.load(Ordering::Relaxed).div_ceil(2);
            Ok((0..half).take_while(|_| this.evict(writing, Slot::is_open).is_ok()).count() as u64)
        });
        closed.unwrap_or(0)
    }

    pub(super) fn forget(&mut self, place: Place) {
        if is_apart(place) {
            // Nobody will find it.
            return;
        }
        let forgotten = self.alone(|this, writing| {
            this.files.detach(place, writing)?;
            this.let_go_of(place);
            Ok(this.files.free_if_last(place, writing)?)
        });
        if forgotten.is_err() {
            // It will be found, but not believed.
            self.trust(place, 0);
        }
    }

    /// The worker is about to end, as all are who share the table: nothing is kept at hand for those that are
    /// to come, and the memory of what no reply uses is given back.
    pub(super) fn retire(&mut self) {
        self.retired = true;
        let given_back = self.alone(|this, writing| {
            let files = &this.files;
            for place in 0..files.used() {
                files.detach(place, writing)?;
                files.free_if_last(place, writing)?;
            }
            Ok(files.give_back_blocks(writing))
        });
        // If it is not done now, it is when the last has ended.
        if let Ok(Err(error)) = given_back {
            tracing::warn!("cannot give memory of open files back: {error}");
        }
    }

    /// Does something with the names held alone. What it finds to be garbage is put in order before anybody
    /// else sees it.
    fn alone<T>(
        &mut self,
        act: impl FnOnce(&mut Self, &Writing) -> Result<T, Obstacle>,
    ) -> Result<T, Obstacle> {
        let patience = self.patience();
        let Some(writing) = self.files.names.write(patience) else {
            self.vain.get_or_insert_with(Instant::now);
            return Err(Obstacle::Busy);
        };
        self.files.repair_after(&writing);
        let done = act(self, &writing);
        match done {
            Err(Obstacle::Garbage) => {
                self.say_pins();
                self.files.clear_garbage(&writing);
            }
            // Be it that somebody has not pinned what is said to be pinned.
            Err(Obstacle::Full) => self.files.call_for_pins(),
            Ok(_) | Err(Obstacle::Busy) => {}
        }
        done
    }

    /// Says anew what this worker has pinned.
    #[cold]
    fn say_pins(&mut self) {
        self.round = self.files.sums.rounds.load(Ordering::Relaxed);
        for (said, &pinned) in self.pins.iter().zip(&self.pinned).take(self.files.used() as usize) {
            if said.load(Ordering::Relaxed) != pinned {
                said.store(pinned, Ordering::SeqCst);
            }
        }
    }

    /// How long to wait for a lock.
    #[inline]
    fn patience(&mut self) -> Duration {
        match self.vain {
            None => PATIENCE,
            Some(since) if since.elapsed() < REST => Duration::ZERO,
            Some(_) => {
                self.vain = None;
                PATIENCE
            }
        }
    }

    pub(super) fn forget_outdated(&mut self, now_ms: u64) {
        // If it is not done now, it is when they are asked for, or by second chance.
        let _ = self.alone(|this, writing| {
            let files = &this.files;
            for place in 0..files.used() {
                if files.slots[place as usize].trusted_until_ms.load(Ordering::Acquire) <= now_ms {
                    files.detach(place, writing)?;
                    files.free_if_last(place, writing)?;
                }
            }
            Ok(())
        });
    }

    #[inline(never)]
    pub(super) fn pin(&mut self, place: Place) -> Pin {
        if is_apart(place) {
            self.apart.pin(place);
            return Pin(place);
        }
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
        if is_apart(place) {
            return self.apart.unpin(place);
        }
        self.drop_pin(place);
        if matches!(self.files.slots[place as usize].state.load(Ordering::SeqCst), DETACHED | SPOILT) {
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
        let blocks = self.files.sums.blocks.load(Ordering::Relaxed).saturating_mul(BLOCK as u64);
        let each = size_of::<Slot>() + (self.files.workers + 1) * size_of::<AtomicU32>();
        blocks.saturating_sub(memory_bytes).saturating_add(entries.saturating_mul(each as u64))
    }

    pub(super) fn random(&self, n: u64) -> u64 {
        self.files.hasher.hash_one(n)
    }

    /// Removes what has a name, which was found to be out of date, unless somebody uses it: then it stays
    /// until there is something else under that name.
    fn give_up(&mut self, writing: &Writing, hash: u64, path: &[u8], coding: u32) -> Result<(), Garbage> {
        let Some(old) = self.files.search(hash, path, coding)? else { return Ok(()) };
        self.let_go_of(old);
        if !self.files.is_pinned(old) {
            self.files.detach(old, writing)?;
            self.files.free_if_last(old, writing)?;
        }
        Ok(())
    }

    fn make_room_for_file(&mut self, writing: &Writing, is_open: bool) -> Result<(), Obstacle> {
        let (files, bound) = (self.files.clone(), u64::from(self.files.bounds.open_files));
        let held = &files.sums.descriptors;
        while is_open && held.load(Ordering::Relaxed) >= bound {
            self.evict_or_doubt(writing, Slot::is_open, held.load(Ordering::Relaxed) > bound)?;
        }
        Ok(())
    }

    /// Evicts an entry. `too_much`: more is said to be held than was ever let in, so that there may be none.
    fn evict_or_doubt(
        &mut self,
        writing: &Writing,
        is_of_kind: impl Fn(&Slot) -> bool,
        too_much: bool,
    ) -> Result<(), Obstacle> {
        match self.evict(writing, is_of_kind) {
            Err(Obstacle::Full) if too_much => Err(Obstacle::Garbage),
            done => done,
        }
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
    ) -> Result<Place, Obstacle> {
        if body_bytes > 0 {
            self.make_room_for_body(writing, body_bytes)?;
        }
        let bytes = path.len() + memory.len();
        let (place, block) = loop {
            let free = self.files.free_place()?;
            if let (Some(place), Some(block)) = (free, self.files.find_blocks(bytes)) {
                break (place, block);
            }
            self.evict(writing, |_| true)?;
        };
        if let Some(pinned) = self.files.search(hash, path, coding)? {
            self.files.detach(pinned, writing)?;
        }
        self.files.take_place(place);
        let slot = &self.files.slots[place as usize];
        slot.hash.store(hash, Ordering::Relaxed);
        slot.coding.store(coding, Ordering::Relaxed);
        slot.block.store(block, Ordering::Relaxed);
        slot.path_len.store(path.len() as u32, Ordering::Relaxed);
        slot.memory_len.store(memory.len() as u32, Ordering::Relaxed);
        slot.descriptor.store(0, Ordering::Relaxed);
        // A first look counts as none: what is asked for once goes before what is asked for again.
        slot.referenced.store(0, Ordering::Relaxed);
        let (to_path, to_memory) = self.files.heap[block as usize * BLOCK..][..bytes].split_at(path.len());
        shared::copy_in(to_path, path);
        shared::copy_in(to_memory, memory);
        self.files.mark(slot, true);
        Ok(place)
    }

    fn make_room_for_body(&mut self, writing: &Writing, body_bytes: u64) -> Result<(), Obstacle> {
        let (files, bound) = (self.files.clone(), self.files.bounds.body_bytes);
        let held = &files.sums.body_bytes;
        if body_bytes > bound {
            return Err(Obstacle::Full);
        }
        while held.load(Ordering::Relaxed).saturating_add(body_bytes) > bound {
            let too_much = held.load(Ordering::Relaxed) > bound;
            self.evict_or_doubt(writing, |slot| slot.body_bytes() > 0, too_much)?;
        }
        Ok(())
    }

    fn evict(&mut self, writing: &Writing, is_of_kind: impl Fn(&Slot) -> bool) -> Result<(), Obstacle> {
        self.files.evict(writing, is_of_kind)?;
        self.counts.evictions += 1;
        Ok(())
    }

    /// Makes an entry that this worker has pinned one that has been found.
    pub(super) fn hold_pinned(&mut self, place: Place) -> bool {
        if !is_apart(place) {
            return self.hold(place).is_ok();
        }
        if !self.found.iter().any(|(found, _)| *found == place) {
            self.apart.pin(place);
            self.found.push((place, self.apart.entry(place).facts.clone()));
        }
        true
    }

    /// Keeps a found entry until the end of the request. With the names held, or the entry pinned.
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
        self.add_pin(place);
        self.found.push((place, facts_of(slot)));
        Ok(())
    }

    /// Gives up an entry that was found, with the names held alone. What is left of it is the caller's
    /// affair.
    fn let_go_of(&mut self, place: Place) {
        if let Some(at) = self.found.iter().position(|(found, _)| *found == place) {
            self.found.remove(at);
            self.drop_pin(place);
        }
    }

    #[inline]
    fn add_pin(&mut self, place: Place) {
        let pinned = &mut self.pinned[place as usize];
        *pinned += 1;
        self.pins[place as usize].store(*pinned, Ordering::Relaxed);
    }

    #[inline]
    fn drop_pin(&mut self, place: Place) {
        let pinned = &mut self.pinned[place as usize];
        *pinned -= 1;
        self.pins[place as usize].store(*pinned, Ordering::SeqCst);
    }

    #[cold]
    fn unpin_detached(&mut self, place: Place) {
        // If it can't be done now, second chance comes by later.
        let _ = self.alone(|this, writing| Ok(this.files.free_if_last(place, writing)?));
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

fn blocks_for(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK).max(1)
}

/// A descriptor that nobody else has, as the ledger counts on: the page of a listing may be in use already.
fn of_ones_own(file: Arc<OwnedFd>) -> Result<Arc<OwnedFd>, Full> {
    if Arc::strong_count(&file) == 1 {
        return Ok(file);
    }
    file.try_clone().map(Arc::new).map_err(|_| Full)
}

#[cfg(test)]
mod tests;
