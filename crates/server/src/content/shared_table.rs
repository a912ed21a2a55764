//! The open-file table that workers share, processes as well as threads: names, open files, header lines and
//! small bodies in shared memory, once for all of them (Pariag et al. 2007, section 5.2).
//!
//! Two tiers of locks, as in Harji et al. 2012 (section 3): a reader/writer lock for the names, which any
//! number of look-ups hold at once and who adds or removes a name holds alone, and a mutex for each entry,
//! held by who looks at its file again. Nobody waits for an entry with the names locked.
//!
//! ```text
//! buckets --> slot --> slot        names: path and variant, chained by hash
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
//!
//! - `slot` is what an entry is made of, `heap` where its bytes lie, `names` how it is found, and `pins` who
//!   uses it.
//! - `slots` says which slots are free and which entry goes when there is no room; `rebuild` puts in order.
//! - `worker` is the table as one worker uses it, and `worker/change` what it does with the names held alone;
//!   `apart` is what it serves without the table.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use sys::descriptors::{Kept, Ledger};
use sys::lock::{Reader, ReadersWriter, Writer};
use sys::process;
use sys::shared::{self, Region, Shared};

pub(in crate::content) use self::apart::is_apart;
use self::heap::{BLOCK, Heap};
use self::pins::Pins;
use self::slot::{DETACHED, SPOILT, Slot};
pub use self::worker::SharedTable;
use super::table::Bounds;
use crate::config::SiteSettings;

mod apart;
mod heap;
mod names;
mod pins;
mod rebuild;
mod slot;
mod slots;
mod worker;

/// The memory of a shared table. Copies are the same table.
#[derive(Clone, Debug)]
pub struct SharedFiles {
    names: ReadersWriter,
    sums: &'static Sums,
    buckets: &'static [AtomicU32],
    slots: &'static [Slot],
    pins: Pins,
    heap: Heap,
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

/// Bytes of path and header lines that an entry has room for on average. Where they are longer, there are
/// fewer entries.
const HEAD_ROOM: usize = 2 << 10;
/// Records of descriptors that a process has memory set aside for, which is touched as they are used. Files
/// with higher numbers are kept by nobody.
const MOST_RECORDS: u64 = 1 << 20;
/// The name of a process's own table, and of its threads, in a ledger of its own.
const OF_PROCESS: u32 = 1;
/// How long the supervisor waits for others when it tidies up.
const TIDYING: Duration = Duration::from_millis(20);

/// What is there can't be.
#[derive(Debug, PartialEq, Eq)]
struct Garbage;

/// Why something is not done to the table.
#[derive(Debug, PartialEq, Eq)]
enum NotDone {
    /// Every entry is in use.
    Full,
    /// Others held it for too long.
    Busy,
    /// It has been put in order since.
    Garbage,
}

impl From<Garbage> for NotDone {
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
        sites: &[SiteSettings],
        open_files: u32,
        workers: usize,
        ledger: Ledger,
        keeper: u32,
    ) -> io::Result<Self> {
        Self::with(sites, open_files, (workers, workers), ledger, keeper)
    }

    /// A table for so many threads of this process alone, which keeps so many files open at most.
    ///
    /// # Errors
    ///
    /// There is not so much memory.
    pub fn of_process(sites: &[SiteSettings], open_files: u32, threads: usize) -> io::Result<Self> {
        let ledger = Ledger::new(process::descriptor_limit().min(MOST_RECORDS) as usize)?;
        Self::with(sites, open_files, (1, threads), ledger, OF_PROCESS)
    }

    /// For workers that pin in so many processes, and so many that read.
    fn with(
        sites: &[SiteSettings],
        open_files: u32,
        (pinning, reading): (usize, usize),
        ledger: Ledger,
        keeper: u32,
    ) -> io::Result<Self> {
        let bounds = Bounds::new(sites, open_files);
        let entries = bounds.entries as usize;
        let bytes = usize::try_from(bounds.body_bytes).ok().and_then(|bodies| {
            // A body takes whole blocks.
            entries.checked_mul(HEAD_ROOM + BLOCK)?.checked_add(bodies)?.checked_next_multiple_of(64 * BLOCK)
        });
        let bytes =
            bytes.filter(|bytes| bytes / BLOCK < u32::MAX as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        let names =
            ReadersWriter::new(Shared::<Writer>::new()?.leak(), Region::<Reader>::new(reading)?.leak());
        Ok(Self {
            names,
            sums: Shared::<Sums>::new()?.leak(),
            buckets: Region::new((2 * entries).next_power_of_two())?.leak(),
            slots: Region::new(entries)?.leak(),
            pins: Pins::new(pinning, entries)?,
            heap: Heap::new(bytes)?,
            bounds,
            hasher: DefaultHashBuilder::default(),
            ledger,
            keeper,
        })
    }

    /// The table as the worker at a place uses it, counted from 0, which is `owner` in the ledger.
    pub fn for_worker(&self, place: usize, owner: u32) -> SharedTable {
        SharedTable::new(self.clone(), place, owner)
    }

    /// A table [of this process](Self::of_process) as the thread at a place uses it, counted from 0.
    pub fn for_thread(&self, place: usize) -> SharedTable {
        SharedTable::of_thread(self.clone(), place)
    }

    /// Whether it could serve a generation with these sites, when nobody uses it any more.
    pub fn fits(&self, sites: &[SiteSettings], open_files: u32, workers: usize) -> bool {
        self.pins.workers == workers && self.bounds == Bounds::new(sites, open_files)
    }

    /// Becomes an empty table that takes no memory. Only when nobody uses it any more, and its files have
    /// been closed.
    ///
    /// # Errors
    ///
    /// The kernel does not take the memory back. It is not to be used again then.
    pub fn empty(&self) -> io::Result<()> {
        self.heap.empty()?;
        shared::empty(self.slots)?;
        self.pins.empty()?;
        shared::empty(self.buckets)?;
        shared::empty(std::slice::from_ref(self.sums))?;
        self.names.renew();
        Ok(())
    }

    /// The table under another name in the ledger, when it is [empty](Self::empty).
    pub fn renamed(self, keeper: u32) -> Self {
        Self { keeper, ..self }
    }

    /// Drops what a worker held that has ended. Only when it has.
    pub fn forget_worker(&self, place: usize) {
        self.names.clear(place);
        let mut was_last = false;
        for (slot, pins) in self.slots.iter().zip(self.pins.of(place)) {
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
}

#[cfg(test)]
mod tests;
