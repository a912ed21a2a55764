//! Who uses which entry of a shared table: a count for each worker and slot.
//!
//! Each worker writes to counts of its own, so that they can be dropped when it has died. And it knows itself
//! what it has pinned, so that it can say so again where somebody has written to the counts by mistake.

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
pub(super) struct WorkerPins {
    counts: Vec<u32>,
    /// Where the others read them.
    said: &'static [AtomicU32],
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
        Self { counts: vec![0; said.len()], said }
    }

    #[inline]
    pub(super) fn add(&mut self, place: Place) {
        let count = &mut self.counts[place as usize];
        *count += 1;
        self.said[place as usize].store(*count, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn drop(&mut self, place: Place) {
        let count = &mut self.counts[place as usize];
        *count -= 1;
        self.said[place as usize].store(*count, Ordering::SeqCst);
    }

    /// Says again what is pinned of so many slots.
    pub(super) fn say_again(&self, slots: u32) {
        for (said, &count) in self.said.iter().zip(&self.counts).take(slots as usize) {
            if said.load(Ordering::Relaxed) != count {
                said.store(count, Ordering::SeqCst);
            }
        }
    }
}
