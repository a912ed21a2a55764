//! Repairs a shared table from the slots that are intact. That is needed after a worker has died while it
//! changed the table, or after a process has written to the table by mistake.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use sys::descriptors::Kept;
use sys::lock::Writing;

use super::SharedFiles;
use super::slot::{DETACHED, LEAVING, NAMED, SPOILT, Slot};

impl SharedFiles {
    /// Repairs the table if its last writer died while it held the names exclusively.
    #[cold]
    pub(super) fn repair_after(&self, writing: &Writing) {
        if writing.owner_died() {
            tracing::warn!(
                "a worker died while it changed the shared table of open files; the table is being repaired"
            );
            self.rebuild(writing);
        }
    }

    /// Repairs the table after a process has overwritten parts of it by mistake.
    #[cold]
    pub(super) fn clear_garbage(&self, writing: &Writing) {
        tracing::error!("the shared table of open files contains garbage; the table is being repaired");
        // The garbage may be in this very number.
        self.sums.used.store(self.slots.len() as u32, Ordering::Relaxed);
        self.rebuild(writing);
        self.call_for_pins();
    }

    /// Makes all workers publish their pins again, each when it next looks for a file.
    pub(super) fn call_for_pins(&self) {
        self.sums.rounds.fetch_add(1, Ordering::Relaxed);
    }

    /// Rebuilds everything else from the slots, and empties slots that cannot be right.
    fn rebuild(&self, _writing: &Writing) {
        for word in self.buckets.iter().chain([&self.sums.free, &self.sums.hand]) {
            word.store(0, Ordering::Relaxed);
        }
        self.heap.bits.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
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
            if matches!(state, NAMED | DETACHED) && self.is_whole(slot) {
                self.heap.mark(slot, true);
                self.count(slot, true);
                if state == NAMED {
                    self.chain(place);
                }
            } else if self.pins.is_pinned(place) {
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

    /// Whether a slot still holds an entry as it was put there, in blocks that no other slot has been
    /// found to use.
    fn is_whole(&self, slot: &Slot) -> bool {
        let blocks = self.heap.blocks_of(slot);
        slot.has_its_sum() && blocks.is_some_and(|mut blocks| !blocks.any(|block| self.heap.is_in_use(block)))
    }
}
