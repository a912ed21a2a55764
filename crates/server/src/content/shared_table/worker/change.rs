//! Inserts entries into a shared table and removes them, by one worker that holds the names exclusively.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sys::lock::Writing;

use super::super::apart::is_apart;
use super::super::slot::{DETACHED, NAMED, Slot, body_bytes, write_facts};
use super::super::{Garbage, NotDone};
use super::SharedTable;
use crate::content::entry::Entry;
use crate::content::table::{Bounds, Full, Place, Variant};

impl SharedTable {
    pub(in crate::content) fn insert(
        &mut self,
        path: &[u8],
        variant: Variant,
        mut entry: Entry,
    ) -> Result<Place, Full> {
        entry.file = entry.file.map(of_ones_own).transpose()?;
        let mut entry = Some(entry);
        let inserted = if self.retired {
            Err(NotDone::Busy)
        } else {
            self.alone(|this, writing| this.insert_alone(writing, path, variant.number(), &mut entry))
        };
        match (inserted, entry) {
            (Ok(place), _) => Ok(place),
            (Err(NotDone::Busy | NotDone::Garbage), Some(entry)) => {
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

    pub(in crate::content) fn make_room(&mut self, body_bytes: u64) -> bool {
        // A file served apart takes no room.
        self.retired || self.alone(|this, writing| this.make_room_for_body(writing, body_bytes)).is_ok()
    }

    pub(in crate::content) fn close_half(&mut self) -> u64 {
        let closed = self.alone(|this, writing| {
            let half = this.files.sums.descriptors.load(Ordering::Relaxed).div_ceil(2);
            Ok((0..half).take_while(|_| this.evict(writing, Slot::is_open).is_ok()).count() as u64)
        });
        closed.unwrap_or(0)
    }

    pub(in crate::content) fn forget(&mut self, place: Place) {
        if is_apart(place) {
            // No request will find it.
            return;
        }
        let forgotten = self.alone(|this, writing| {
            this.files.detach(place, writing)?;
            this.let_go_of(place);
            Ok(this.files.free_if_last(place, writing)?)
        });
        if forgotten.is_err() {
            // Requests will find it, but not trust it.
            self.trust(place, 0);
        }
    }

    pub(in crate::content) fn forget_outdated(&mut self, now_ms: u64) {
        // If the lock cannot be had now, requests for these entries or second chance remove them later.
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

    /// Call this when the worker is about to end, as are all workers that share the table. Nothing is
    /// kept for further clients, and the memory that no reply uses is returned to the kernel.
    pub(in crate::content) fn retire(&mut self) {
        self.retired = true;
        let given_back = self.alone(|this, writing| {
            let files = &this.files;
            for place in 0..files.used() {
                files.detach(place, writing)?;
                files.free_if_last(place, writing)?;
            }
            Ok(files.give_back_blocks(writing))
        });
        // If the lock cannot be had now, the memory is returned when the last worker has ended.
        if let Ok(Err(error)) = given_back {
            tracing::warn!("cannot free memory of open files: {error}");
        }
    }

    /// Inserts the entry, and takes it out of `entry` if that can succeed.
    fn insert_alone(
        &mut self,
        writing: &Writing,
        path: &[u8],
        variant: u32,
        entry: &mut Option<Entry>,
    ) -> Result<Place, NotDone> {
        let Some(offered) = &*entry else { return Err(NotDone::Full) };
        let hash = self.files.hash(path, variant);
        let body_bytes = offered.facts.body_held();
        self.give_up(writing, hash, path, variant)?;
        self.make_room_for_file(writing, offered.file.is_some())?;
        let place = self.make_slot(writing, hash, path, variant, &offered.memory, body_bytes)?;
        let slot = &self.files.slots[place as usize];
        let Some(Entry { file, facts, .. }) = entry.take() else { return Err(NotDone::Full) };
        if let Some(file) = file {
            let file = Arc::into_inner(file);
            let Some(kept) = file.and_then(|file| self.files.ledger.keep(file, self.files.keeper)) else {
                self.files.heap.mark(slot, false);
                self.files.put_with_free(place);
                return Err(NotDone::Full);
            };
            slot.descriptor.store(kept.word(), Ordering::Release);
        }
        slot.trusted_until_ms.store(facts.trusted_until_ms, Ordering::Relaxed);
        write_facts(slot, &facts);
        slot.sum.store(slot.sum_up(), Ordering::Relaxed);
        let keeps = self.keeps();
        slot.state.store(if keeps { NAMED } else { DETACHED }, Ordering::Release);
        self.files.count(slot, true);
        if keeps {
            self.files.chain(place);
        }
        self.hold(place)?;
        Ok(place)
    }

    /// Removes the outdated entry of that name, unless a worker uses it. A used entry keeps its name
    /// until another entry gets that name.
    fn give_up(&mut self, writing: &Writing, hash: u64, path: &[u8], variant: u32) -> Result<(), Garbage> {
        let Some(old) = self.files.search(hash, path, variant)? else { return Ok(()) };
        self.let_go_of(old);
        if !self.files.pins.is_pinned(old) {
            self.files.detach(old, writing)?;
            self.files.free_if_last(old, writing)?;
        }
        Ok(())
    }

    /// A slot for an entry, with its bytes written, and not in use yet. An entry that had the name loses
    /// it.
    fn make_slot(
        &mut self,
        writing: &Writing,
        hash: u64,
        path: &[u8],
        variant: u32,
        memory: &[u8],
        body_bytes: u64,
    ) -> Result<Place, NotDone> {
        if body_bytes > 0 {
            self.make_room_for_body(writing, body_bytes)?;
        }
        let bytes = path.len() + memory.len();
        let (place, block) = loop {
            let free = self.files.free_place()?;
            if let (Some(place), Some(block)) = (free, self.files.heap.find(bytes)) {
                break (place, block);
            }
            self.evict(writing, |_| true)?;
        };
        if let Some(pinned) = self.files.search(hash, path, variant)? {
            self.files.detach(pinned, writing)?;
        }
        self.files.take_place(place);
        let slot = &self.files.slots[place as usize];
        slot.hash.store(hash, Ordering::Relaxed);
        slot.variant.store(variant, Ordering::Relaxed);
        slot.block.store(block, Ordering::Relaxed);
        slot.path_len.store(path.len() as u32, Ordering::Relaxed);
        slot.memory_len.store(memory.len() as u32, Ordering::Relaxed);
        slot.descriptor.store(0, Ordering::Relaxed);
        // The first request does not count: an entry requested once is evicted before one requested
        // again.
        slot.referenced.store(0, Ordering::Relaxed);
        self.files.heap.copy_in(block, path, memory);
        self.files.heap.mark(slot, true);
        Ok(place)
    }

    fn make_room_for_file(&mut self, writing: &Writing, is_open: bool) -> Result<(), NotDone> {
        let (files, bound) = (self.files.clone(), u64::from(self.files.bounds.open_files));
        let held = &files.sums.descriptors;
        while is_open && held.load(Ordering::Relaxed) >= bound {
            self.evict_or_doubt(writing, Slot::is_open, held.load(Ordering::Relaxed) > bound)?;
        }
        Ok(())
    }

    fn make_room_for_body(&mut self, writing: &Writing, body: u64) -> Result<(), NotDone> {
        let (files, bound) = (self.files.clone(), self.files.bounds.body_bytes);
        let held = &files.sums.body_bytes;
        if body > bound {
            return Err(NotDone::Full);
        }
        while held.load(Ordering::Relaxed).saturating_add(body) > bound {
            let too_much = held.load(Ordering::Relaxed) > bound;
            self.evict_or_doubt(writing, |slot| body_bytes(slot) > 0, too_much)?;
        }
        Ok(())
    }

    /// Evicts an entry. `too_much`: the totals exceed what was ever let in, so if no entry can be
    /// evicted, they are garbage.
    fn evict_or_doubt(
        &mut self,
        writing: &Writing,
        is_of_kind: impl Fn(&Slot) -> bool,
        too_much: bool,
    ) -> Result<(), NotDone> {
        match self.evict(writing, is_of_kind) {
            Err(NotDone::Full) if too_much => Err(NotDone::Garbage),
            done => done,
        }
    }

    fn evict(&mut self, writing: &Writing, is_of_kind: impl Fn(&Slot) -> bool) -> Result<(), NotDone> {
        self.files.evict(writing, is_of_kind)?;
        self.counts.evictions += 1;
        Ok(())
    }
}

/// A descriptor that no other code shares, as the ledger requires. The page of a listing may already be
/// in use.
fn of_ones_own(file: Arc<OwnedFd>) -> Result<Arc<OwnedFd>, Full> {
    if Arc::strong_count(&file) == 1 {
        return Ok(file);
    }
    file.try_clone().map(Arc::new).map_err(|_| Full)
}
