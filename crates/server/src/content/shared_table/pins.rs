//! Pins of a shared table: which worker uses which entry. There is a count for each process and slot.
//!
//! Each process writes only its own counts, so that they can be dropped when the process has died. A
//! process with a single thread also keeps a private copy of its counts. It publishes that copy again if
//! another process has overwritten the shared counts by mistake.
//!
//! Threads of one process share its counts, and add to them: one thread may release a pin that another
//! took. No other process writes to the memory of a table that one process uses alone.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use sys::shared::{self, Region};

use crate::content::table::Place;

/// The counts of all workers. Copies refer to the same counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pins {
    /// The first worker's counts for all slots, then the second worker's, and so on.
    pub(super) counts: &'static [AtomicU32],
    pub(super) workers: usize,
    slots: usize,
}

/// The pins of one worker.
#[derive(Debug)]
pub(super) enum WorkerPins {
    /// The pins of a worker with its own counts.
    Own {
        /// The worker's private copy.
        counts: Vec<u32>,
        /// The counts that other workers read.
        said: &'static [AtomicU32],
    },
    /// The counts that the threads of a process share.
    InCommon(&'static [AtomicU32]),
}

impl Pins {
    /// Room for the counts of `workers` workers on `slots` slots.
    pub(super) fn new(workers: usize, slots: usize) -> io::Result<Self> {
        Ok(Self { counts: Region::new(workers * slots)?.leak(), workers, slots })
    }

    /// Becomes empty, and takes no memory.
    pub(super) fn empty(&self) -> io::Result<()> {
        shared::empty(self.counts)
    }

    /// Whether any worker uses the entry in a slot.
    pub(super) fn is_pinned(&self, place: Place) -> bool {
        (0..self.workers).any(|worker| self.of(worker)[place as usize].load(Ordering::SeqCst) != 0)
    }

    /// The published counts of a worker.
    pub(super) fn of(&self, worker: usize) -> &'static [AtomicU32] {
        &self.counts[worker * self.slots..][..self.slots]
    }
}

impl WorkerPins {
    /// The pins of a worker that has pinned nothing yet.
    pub(super) fn new(pins: Pins, worker: usize) -> Self {
        let said = pins.of(worker);
        Self::Own { counts: vec![0; said.len()], said }
    }

    /// The pins that a thread shares with the other threads of its process. No other process uses the
    /// table.
    pub(super) fn of_process(pins: Pins) -> Self {
        Self::InCommon(pins.of(0))
    }

    #[inline]
    pub(super) fn add(&mut self, place: Place) {
        match self {
            Self::Own { counts, said } => {
                let count = &mut counts[place as usize];
                *count += 1;
                said[place as usize].store(*count, Ordering::Relaxed);
            }
            Self::InCommon(counts) => {
                counts[place as usize].fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    #[inline]
    pub(super) fn drop(&mut self, place: Place) {
        match self {
            Self::Own { counts, said } => {
                let count = &mut counts[place as usize];
                *count -= 1;
                said[place as usize].store(*count, Ordering::SeqCst);
            }
            Self::InCommon(counts) => {
                counts[place as usize].fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Publishes the counts of the first `slots` slots again.
    pub(super) fn say_again(&self, slots: u32) {
        // Threads keep no private copy of the counts that they share.
        let Self::Own { counts, said } = self else { return };
        for (said, &count) in said.iter().zip(counts).take(slots as usize) {
            if said.load(Ordering::Relaxed) != count {
                said.store(count, Ordering::SeqCst);
            }
        }
    }
}
