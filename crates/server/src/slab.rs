//! A table of connections named by small numbers.
//!
//! It grows by one chunk at a time, never by doubling, so that the reserved memory follows the number of
//! connections closely. A chunk is kept for the next burst.

use std::array;

/// Values in numbered slots.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Box<[Slot<T>; CHUNK as usize]>>,
    free: Option<u32>,
    len: u32,
}

#[derive(Debug)]
enum Slot<T> {
    Used(T),
    /// The next free slot.
    Free(Option<u32>),
}

const CHUNK: u32 = 128;

impl<T> Slab<T> {
    /// The bytes that a slot takes, used or not.
    pub const SLOT_BYTES: usize = size_of::<Slot<T>>();

    /// An empty slab.
    pub fn new() -> Self {
        Self { chunks: Vec::new(), free: None, len: 0 }
    }

    /// Puts a value into a free slot and returns its index.
    pub fn insert(&mut self, value: T) -> u32 {
        let index = self.free.unwrap_or_else(|| self.grow());
        let slot = self.slot_mut(index);
        if let Slot::Free(next) = std::mem::replace(slot, Slot::Used(value)) {
            self.free = next;
        }
        self.len += 1;
        index
    }

    /// Takes a value out.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let free = self.free;
        let slot = self.chunks.get_mut((index / CHUNK) as usize)?.get_mut((index % CHUNK) as usize)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free(free)) else { return None };
        self.free = Some(index);
        self.len -= 1;
        Some(value)
    }

    /// The value in a slot.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.chunks.get_mut((index / CHUNK) as usize)?.get_mut((index % CHUNK) as usize)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    /// Values in use.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no value is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of slots: every index in use is below this.
    pub fn slots(&self) -> u32 {
        self.chunks.len() as u32 * CHUNK
    }

    /// All values with their indices.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.chunks.iter_mut().flat_map(|chunk| &mut **chunk).zip(0..).filter_map(
            |(slot, index)| match slot {
                Slot::Used(value) => Some((index, value)),
                Slot::Free(_) => None,
            },
        )
    }

    fn slot_mut(&mut self, index: u32) -> &mut Slot<T> {
        &mut self.chunks[(index / CHUNK) as usize][(index % CHUNK) as usize]
    }

    /// Adds a chunk and returns the index of its first slot.
    fn grow(&mut self) -> u32 {
        let first = self.slots();
        let next = |i| (i + 1 < CHUNK).then_some(first + i + 1);
        self.chunks.push(Box::new(array::from_fn(|i| Slot::Free(next(i as u32)))));
        first
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_like_a_map(steps in prop::collection::vec((any::<bool>(), any::<u16>()), 0..600)) {
            let (mut slab, mut model) = (Slab::new(), HashMap::new());
            for (insert, n) in steps {
                if insert {
                    let index = slab.insert(n);
                    prop_assert!(model.insert(index, n).is_none(), "slot given twice");
                    prop_assert!(index < slab.slots());
                } else {
                    let index = u32::from(n) % 300;
                    prop_assert_eq!(slab.remove(index), model.remove(&index));
                }
                prop_assert_eq!(slab.len() as usize, model.len());
            }
            let mut rest: Vec<_> = slab.iter_mut().map(|(i, &mut v)| (i, v)).collect();
            let mut expected: Vec<_> = model.into_iter().collect();
            expected.sort_unstable();
            rest.sort_unstable();
            prop_assert_eq!(rest, expected);
        }
    }

    #[test]
    fn grows_chunk_by_chunk_and_reuses_slots() {
        let mut slab = Slab::new();
        for n in 0..=CHUNK {
            slab.insert(n);
        }
        assert_eq!(slab.slots(), 2 * CHUNK);
        slab.remove(5);
        assert_eq!(slab.insert(99), 5);
        assert_eq!(slab.get_mut(5), Some(&mut 99));
    }
}
