//! The names of a shared table: path and variant, chained by hash from slot to slot.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use sys::lock::Writing;
use sys::shared;

use super::slot::{DETACHED, NAMED};
use super::{Garbage, SharedFiles};
use crate::content::table::Place;

impl SharedFiles {
    /// The entry of that name. The caller holds the names.
    pub(super) fn search(&self, hash: u64, path: &[u8], variant: u32) -> Result<Option<Place>, Garbage> {
        let mut next = self.bucket(hash).load(Ordering::Relaxed);
        for _ in 0..=self.slots.len() {
            let Some(place) = next.checked_sub(1) else { return Ok(None) };
            let slot = self.slots.get(place as usize).ok_or(Garbage)?;
            if slot.hash.load(Ordering::Relaxed) == hash
                && slot.variant.load(Ordering::Relaxed) == variant
                && self.heap.path(slot).is_some_and(|bytes| shared::equals(bytes, path))
            {
                let is_named = slot.state.load(Ordering::Relaxed) == NAMED;
                return if is_named { Ok(Some(place)) } else { Err(Garbage) };
            }
            next = slot.next.load(Ordering::Relaxed);
        }
        Err(Garbage)
    }

    /// Gives an entry its name. The caller holds the names exclusively.
    pub(super) fn chain(&self, place: Place) {
        let slot = &self.slots[place as usize];
        let bucket = self.bucket(slot.hash.load(Ordering::Relaxed));
        slot.next.store(bucket.load(Ordering::Relaxed), Ordering::Relaxed);
        bucket.store(place + 1, Ordering::Release);
    }

    /// Removes an entry's name. The caller holds the names exclusively.
    pub(super) fn detach(&self, place: Place, _writing: &Writing) -> Result<(), Garbage> {
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

    #[inline]
    pub(super) fn hash(&self, path: &[u8], variant: u32) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(path);
        hasher.write_u32(variant);
        hasher.finish()
    }

    fn bucket(&self, hash: u64) -> &'static AtomicU32 {
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }
}
