//! The heap of a shared table. It holds the bytes of entries: for each a path and the memory after it, in
//! one run of blocks.
//!
//! One bit for each block says whether the block is in use. The bits follow from the slots alone, and can
//! be rebuilt from them.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use sys::shared::{self, Region};

use super::slot::Slot;

/// Bytes of a block, the unit of the heap.
pub(super) const BLOCK: usize = 256;

/// The bytes, and which of them are in use. Copies refer to the same heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heap {
    /// A bit for each block, set if the block is in use.
    pub(super) bits: &'static [AtomicU64],
    bytes: &'static [AtomicU8],
}

impl Heap {
    /// A heap of that many bytes. The blocks must fill whole words of bits.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self { bits: Region::new(bytes / BLOCK / 64)?.leak(), bytes: Region::new(bytes)?.leak() })
    }

    /// Becomes empty, and takes no memory.
    pub(super) fn empty(&self) -> io::Result<()> {
        shared::empty(self.bytes)?;
        shared::empty(self.bits)
    }

    /// Finds enough free blocks for that many bytes, and returns the first.
    pub(super) fn find(&self, bytes: usize) -> Option<u32> {
        let wanted = blocks_for(bytes);
        let (mut first, mut run) = (0, 0);
        for (at, bits) in self.bits.iter().enumerate() {
            let bits = bits.load(Ordering::Relaxed);
            if bits == u64::MAX {
                run = 0;
                continue;
            }
            for bit in 0..64 {
                if bits >> bit & 1 != 0 {
                    run = 0;
                    continue;
                }
                if run == 0 {
                    first = at * 64 + bit;
                }
                run += 1;
                if run == wanted {
                    return Some(first as u32);
                }
            }
        }
        None
    }

    pub(super) fn is_in_use(&self, block: usize) -> bool {
        self.bits[block / 64].load(Ordering::Relaxed) >> (block % 64) & 1 != 0
    }

    /// Marks the blocks of a slot as in use or free.
    pub(super) fn mark(&self, slot: &Slot, in_use: bool) {
        for block in self.blocks_of(slot).into_iter().flatten() {
            let (bits, bit) = (&self.bits[block / 64], 1 << (block % 64));
            let before = bits.load(Ordering::Relaxed);
            bits.store(if in_use { before | bit } else { before & !bit }, Ordering::Relaxed);
        }
    }

    /// Copies a path and the memory after it to the blocks from `block` on.
    pub(super) fn copy_in(&self, block: u32, path: &[u8], memory: &[u8]) {
        let to = &self.bytes[block as usize * BLOCK..][..path.len() + memory.len()];
        let (to_path, to_memory) = to.split_at(path.len());
        shared::copy_in(to_path, path);
        shared::copy_in(to_memory, memory);
    }

    /// The blocks of a slot, if they exist.
    pub(super) fn blocks_of(&self, slot: &Slot) -> Option<Range<usize>> {
        let first = slot.block.load(Ordering::Relaxed) as usize;
        let end = first + blocks_for(slot.bytes());
        (end <= self.bytes.len() / BLOCK).then_some(first..end)
    }

    #[inline]
    pub(super) fn path(&self, slot: &Slot) -> Option<&'static [AtomicU8]> {
        let from = slot.block.load(Ordering::Relaxed) as usize * BLOCK;
        self.bytes.get(from..)?.get(..slot.path_len.load(Ordering::Relaxed) as usize)
    }

    #[inline]
    pub(super) fn memory(&self, slot: &Slot) -> Option<&'static [AtomicU8]> {
        let from = slot.block.load(Ordering::Relaxed) as usize * BLOCK
            + slot.path_len.load(Ordering::Relaxed) as usize;
        self.bytes.get(from..)?.get(..slot.memory_len.load(Ordering::Relaxed) as usize)
    }

    /// Returns the memory of all blocks except these to the kernel.
    pub(super) fn give_back_all_but(&self, mut in_use: Vec<Range<usize>>) -> io::Result<()> {
        in_use.sort_by_key(|blocks| blocks.start);
        let end = self.bytes.len() / BLOCK;
        in_use.push(end..end);
        let mut from = 0;
        for blocks in in_use {
            if from < blocks.start {
                shared::empty_pages(&self.bytes[from * BLOCK..blocks.start * BLOCK])?;
            }
            from = from.max(blocks.end);
        }
        Ok(())
    }
}

/// The number of blocks for that many bytes.
pub(super) fn blocks_for(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK).max(1)
}
