//! Slot management of a shared table: which slots hold entries, which are free, and which entry is
//! evicted when there is no room (second chance).

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use sys::descriptors::Kept;
use sys::lock::Writing;

use super::heap::blocks_for;
use super::slot::{DETACHED, LEAVING, NAMED, SPOILT, Slot, body_bytes};
use super::{Garbage, NotDone, SharedFiles, Sums};
use crate::content::table::Place;

impl SharedFiles {
    /// The number of slots that were ever used.
    pub(super) fn used(&self) -> Place {
        self.sums.used.load(Ordering::Relaxed).min(self.slots.len() as Place)
    }

    /// The slot to use next.
    pub(super) fn free_place(&self) -> Result<Option<Place>, Garbage> {
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

    /// Takes the slot that is next to be used.
    pub(super) fn take_place(&self, place: Place) {
        if place == self.used() {
            self.sums.used.store(place + 1, Ordering::Release);
        } else {
            self.sums.free.store(self.slots[place as usize].next.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub(super) fn put_with_free(&self, place: Place) {
        self.slots[place as usize].next.store(self.sums.free.load(Ordering::Relaxed), Ordering::Relaxed);
        self.sums.free.store(place + 1, Ordering::Relaxed);
    }

    /// Evicts an entry of that kind that no reply uses. The caller holds the names exclusively.
    pub(super) fn evict(&self, writing: &Writing, is_of_kind: impl Fn(&Slot) -> bool) -> Result<(), NotDone> {
        let used = self.used();
        // The first round may only take away second chances.
        for _ in 0..2 * u64::from(used) {
            let place = self.sums.hand.load(Ordering::Relaxed) % used;
            self.sums.hand.store(place + 1, Ordering::Relaxed);
            let slot = &self.slots[place as usize];
            let state = slot.state.load(Ordering::Relaxed);
            if state == SPOILT {
                self.free_if_last(place, writing)?;
            }
            if !matches!(state, NAMED | DETACHED) || !is_of_kind(slot) || self.pins.is_pinned(place) {
                continue;
            }
            if slot.referenced.swap(0, Ordering::Relaxed) == 0 || state == DETACHED {
                self.detach(place, writing)?;
                return Ok(self.free_if_last(place, writing)?);
            }
        }
        Err(NotDone::Full)
    }

    /// Empties the slot of an entry that has neither name nor pins. The caller holds the names
    /// exclusively.
    pub(super) fn free_if_last(&self, place: Place, _writing: &Writing) -> Result<(), Garbage> {
        let slot = &self.slots[place as usize];
        let state = slot.state.load(Ordering::SeqCst);
        if !matches!(state, DETACHED | SPOILT) || self.pins.is_pinned(place) {
            return Ok(());
        }
        // Otherwise the slot might free the blocks of another entry, which would then be overwritten.
        if state == DETACHED && !slot.has_its_sum() {
            return Err(Garbage);
        }
        if state == DETACHED {
            self.count(slot, false);
        }
        slot.state.store(LEAVING, Ordering::Release);
        self.close_descriptor(slot);
        if state == DETACHED {
            self.heap.mark(slot, false);
        }
        slot.state.store(0, Ordering::Release);
        self.put_with_free(place);
        Ok(())
    }

    pub(super) fn close_descriptor(&self, slot: &Slot) {
        // Take the descriptor out of the slot first: a descriptor in a slot must always be open.
        if let Some(kept) = Kept::of(slot.descriptor.swap(0, Ordering::AcqRel)) {
            self.ledger.close_kept(kept, self.keeper);
        }
    }

    /// Returns the heap memory that no entry uses to the kernel. The caller holds the names exclusively.
    pub(super) fn give_back_blocks(&self, _writing: &Writing) -> io::Result<()> {
        let slots = self.slots[..self.used() as usize].iter();
        let in_use = slots.filter(|slot| matches!(slot.state.load(Ordering::Relaxed), NAMED | DETACHED));
        self.heap.give_back_all_but(in_use.filter_map(|slot| self.heap.blocks_of(slot)).collect())
    }

    /// Adds an entry to the totals, or subtracts it.
    pub(super) fn count(&self, slot: &Slot, more: bool) {
        let numbers = [
            1,
            u64::from(slot.is_open()),
            slot.memory_len.load(Ordering::Relaxed).into(),
            body_bytes(slot),
            blocks_for(slot.bytes()) as u64,
        ];
        for (sum, number) in self.sums.all().into_iter().zip(numbers) {
            let before = sum.load(Ordering::Relaxed);
            let after = if more { before.saturating_add(number) } else { before.saturating_sub(number) };
            sum.store(after, Ordering::Relaxed);
        }
    }
}

impl Sums {
    pub(super) fn all(&self) -> [&AtomicU64; 5] {
        [&self.entries, &self.descriptors, &self.memory_bytes, &self.body_bytes, &self.blocks]
    }
}
