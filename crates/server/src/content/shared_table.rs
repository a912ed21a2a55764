//! The open-file table that workers share, be they processes or threads. Names, open files, header lines
//! and small bodies are in shared memory, once for all workers (Pariag et al. 2007, section 5.2).
//!
//! There are two tiers of locks, as in Harji et al. 2012 (section 3):
//!
//! - A reader/writer lock guards the names. Any number of look-ups hold it at once; a worker that adds or
//!   removes a name holds it exclusively.
//! - Each entry has a mutex, held by the worker that checks the entry's file again.
//!
//! No worker waits for an entry while it holds the names.
//!
//! ```text
//! buckets --> slot --> slot        names: path and variant, chained by hash
//!               |--> blocks        path | header lines | small body, in one run of the heap
//!               |--> descriptor    kept in the common descriptor table
//!               `--- pins          one count for each worker
//! ```
//!
//! Once an entry has a name, only the time until which it is trusted changes. A worker pins an entry
//! while it holds the names for reading. A worker that removes entries holds the names exclusively, and
//! spares pinned entries. So a pinned entry stays as it is, and its descriptor stays open, whatever the
//! other workers do. Each worker counts its pins in its own part of the memory, so that they can be
//! dropped when the worker has died ([`SharedFiles::forget_worker`]).
//!
//! A worker may die while it changes the names. The next worker then rebuilds the table from the slots
//! alone. The state of a slot says whether the slot holds an entry. Everything else (chains, free slots
//! and blocks, sums) follows from that. A descriptor belongs to a slot as long as the slot contains it.
//! [`sys::descriptors`] finds descriptors that are in no slot and that no living process holds.
//!
//! A worker may be stopped while it holds a lock, for any length of time. So no worker waits for long. A
//! worker that cannot lock the table in time serves the file [apart] from it. For a while after that, it
//! tries the locks without waiting.
//!
//! The table's contents are checked, not trusted. What does not fit is garbage that some process has
//! written by mistake: a slot that does not exist, a chain without an end, bytes outside the heap. The
//! worker that finds garbage rebuilds the table from the slots that are intact. Each slot has a checksum
//! of its contents for that. Each worker knows which entries it has pinned and how often, and publishes
//! its counts again. No checksum covers the bytes in the heap, nor the bits that mark blocks in use.
//! Workers that share files have to trust each other that far.
//!
//! - `slot` is what an entry consists of, `heap` holds its bytes, `names` finds it, and `pins` counts its
//!   users.
//! - `slots` knows which slots are free, and which entry to evict when there is no room. `rebuild`
//!   repairs the table.
//! - `worker` is the table as one worker uses it. `worker/change` holds the changes that need the names
//!   exclusively. `apart` is what a worker serves without the table.

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

/// The memory of a shared table. Copies refer to the same table.
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
    /// Totals and positions, which can be rebuilt from the slots.
    #[derive(Debug)]
    struct Sums {
        entries: AtomicU64,
        descriptors: AtomicU64,
        memory_bytes: AtomicU64,
        body_bytes: AtomicU64,
        /// Blocks of the heap in use.
        blocks: AtomicU64,
        /// The first free slot among those used before; 0: none, else the slot's number plus 1.
        free: AtomicU32,
        /// Slots from here on have never been used. No worker reads them, as reading alone would take
        /// memory for them.
        used: AtomicU32,
        /// Where second chance looks next.
        hand: AtomicU32,
        /// When this number has changed, each worker publishes its pins again.
        rounds: AtomicU32,
    }
}

/// Bytes of path and header lines that an entry has room for on average. If they are longer, the table
/// holds fewer entries.
const HEAD_ROOM: usize = 2 << 10;
/// Descriptor records that a process reserves memory for. The memory is touched only as records are used.
/// A descriptor with a higher number cannot be kept in a table.
const MOST_RECORDS: u64 = 1 << 20;
/// The ledger name of a table that one process and its threads use, in that process's own ledger.
const OF_PROCESS: u32 = 1;
/// How long the supervisor waits for other holders of the lock when it cleans up.
const TIDYING: Duration = Duration::from_millis(20);

/// The table's contents are impossible.
#[derive(Debug, PartialEq, Eq)]
struct Garbage;

/// Why a change to the table was not made.
#[derive(Debug, PartialEq, Eq)]
enum NotDone {
    /// Every entry is in use.
    Full,
    /// Others held the lock for too long.
    Busy,
    /// There was garbage; the table has been repaired since.
    Garbage,
}

impl From<Garbage> for NotDone {
    fn from(Garbage: Garbage) -> Self {
        Self::Garbage
    }
}

impl SharedFiles {
    /// A table for `workers` workers, which keeps at most `open_files` files open. `keeper` is its name
    /// in the ledger.
    ///
    /// # Errors
    ///
    /// There is not enough memory.
    pub fn new(
        sites: &[SiteSettings],
        open_files: u32,
        workers: usize,
        ledger: Ledger,
        keeper: u32,
    ) -> io::Result<Self> {
        Self::with(sites, open_files, (workers, workers), ledger, keeper)
    }

    /// A table for `threads` threads of this process alone, which keeps at most `open_files` files open.
    ///
    /// # Errors
    ///
    /// There is not enough memory.
    pub fn of_process(sites: &[SiteSettings], open_files: u32, threads: usize) -> io::Result<Self> {
        let ledger = Ledger::new(process::descriptor_limit().min(MOST_RECORDS) as usize)?;
        Self::with(sites, open_files, (1, threads), ledger, OF_PROCESS)
    }

    /// For `pinning` processes with pins, and `reading` workers that read.
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

    /// The table as the worker with index `place` uses it. Indices start at 0. `owner` is the worker in
    /// the ledger.
    pub fn for_worker(&self, place: usize, owner: u32) -> SharedTable {
        SharedTable::new(self.clone(), place, owner)
    }

    /// A table [of this process](Self::of_process) as the thread with index `place` uses it. Indices
    /// start at 0.
    pub fn for_thread(&self, place: usize) -> SharedTable {
        SharedTable::of_thread(self.clone(), place)
    }

    /// Whether the table could serve a generation with these sites, once no worker uses it any more.
    pub fn fits(&self, sites: &[SiteSettings], open_files: u32, workers: usize) -> bool {
        self.pins.workers == workers && self.bounds == Bounds::new(sites, open_files)
    }

    /// Becomes an empty table that takes no memory. Call it only when no worker uses the table any more,
    /// and its files have been closed.
    ///
    /// # Errors
    ///
    /// The kernel does not take the memory back. The table must not be used again then.
    pub fn empty(&self) -> io::Result<()> {
        self.heap.empty()?;
        shared::empty(self.slots)?;
        self.pins.empty()?;
        shared::empty(self.buckets)?;
        shared::empty(std::slice::from_ref(self.sums))?;
        self.names.renew();
        Ok(())
    }

    /// The table under another name in the ledger. It must be [empty](Self::empty).
    pub fn renamed(self, keeper: u32) -> Self {
        Self { keeper, ..self }
    }

    /// Drops what a worker that has ended held. Call it only after the worker has ended.
    pub fn forget_worker(&self, place: usize) {
        self.names.clear(place);
        let mut was_last = false;
        for (slot, pins) in self.slots.iter().zip(self.pins.of(place)) {
            if pins.swap(0, Ordering::SeqCst) != 0 {
                was_last |= matches!(slot.state.load(Ordering::SeqCst), DETACHED | SPOILT);
            }
        }
        // If another worker holds the names for long just now, second chance frees these slots later.
        if was_last && let Some(writing) = self.names.write(TIDYING) {
            self.repair_after(&writing);
            if (0..self.used()).any(|place| self.free_if_last(place, &writing).is_err()) {
                self.clear_garbage(&writing);
            }
        }
    }

    /// The descriptors of the table's files.
    pub fn descriptors(&self) -> HashSet<u32> {
        let descriptor = |slot: &Slot| Kept::of(slot.descriptor.load(Ordering::Acquire)).map(Kept::number);
        self.slots[..self.used() as usize].iter().filter_map(descriptor).collect()
    }

    /// The table's name in the ledger.
    pub fn keeper(&self) -> u32 {
        self.keeper
    }
}

#[cfg(test)]
mod tests;
