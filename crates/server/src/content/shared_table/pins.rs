//! Who uses which entry of a shared table: a count for each process and slot.
//!
//! Each process writes to counts of its own, so that they can be dropped when it has died. One with a single
//! thread also knows itself what it has pinned, so that it can say so again where somebody has written to the
//! counts by mistake. Threads of one process have theirs in common, and add to them: a pin that one of them
//! takes, another may give back. Nobody else writes to the memory of a process alone.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use sys::shared::{self, Region};

use crate::content::table::Place;

/// The counts of all workers. Copies are the same counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pins {
    /// Those of the first worker on all slots, then those of the second, and so on.
    pub(super) counts: &'static [AtomicU32],
    pub(super) workers: usize,
    slots: usize,
}

/// What one worker has pinned.
#[derive(Debug)]
pub(super) enum WorkerPins {
    /// By itself.
    Own {
        /// What it knows of it.
        counts: Vec<u32>,
        /// Where the others read them.
        said: &'static [AtomicU32],
    },
    /// As one of the threads of a process.
    InCommon(&'static [AtomicU32]),
}

impl Pins {
    /// Room for the counts of so many workers on so many slots.
    pub(super) fn new(workers: usize, slots: usize) -> io::Result<Self> {
        Ok(Self { counts: Region::new(workers * slots)?.leak(), workers, slots })
    }

    /// Becomes empty, and takes no memory.
    pub(super) fn empty(&self) -> io::Result<()> {
        shared::empty(self.counts)
    }

    /// Whether anybody uses the entry in a slot.
    pub(super) fn is_pinned(&self, place: Place) -> bool {
        (0..self.workers).any(|worker| self.of(worker)[place as usize].load(Ordering::SeqCst) != 0)
    }

    /// What a worker has said.
    pub(super) fn of(&self, worker: usize) -> &'static [AtomicU32] {
        &self.counts[worker * self.slots..][..self.slots]
    }
}

impl WorkerPins {
    /// Those of a worker that has pinned nothing yet.
    pub(super) fn new(pins: Pins, worker: usize) -> Self {
        let said = pins.of(worker);
        Self::Own { counts: vec![0; said.len()], said }
    }

    /// Those that a thread has in common with the others of its process, which is the only one.
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

    /// Says again what is pinned of so many slots.
    pub(super) fn say_again(&self, slots: u32) {
        // What threads have in common is what they say.
        let Self::Own { counts, said } = self else { return };
        for (said, &count) in said.iter().zip(counts).take(slots as usize) {
            if said.load(Ordering::Relaxed) != count {
                said.store(count, Ordering::SeqCst);
            }
        }
    }
}
