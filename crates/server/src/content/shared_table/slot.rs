//! A slot of the shared table, which holds an entry: its name, where its bytes are in the heap, its
//! descriptor, and the facts about the file. All of these are words. The worker that inserts an entry
//! writes them, and the workers that find it read them. Another worker may have left garbage in any word.
//! Values made from it are wrong then, but memory-safe.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use http1::coding::{Coding, CodingSet};
use sys::file::{FileKind, FileStat, FileTime};
use sys::lock::Mutex;

use crate::content::ends::Ends;
use crate::content::entry::{Facts, Marks};

/// Words that the facts of an entry take, except the length of its memory and the time until it is
/// trusted.
const FACTS: usize = 14;
/// The word whose lower half says where the body begins.
const BODY: usize = 9;

sys::shareable! {
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(super) struct Slot {
        pub(super) state: AtomicU32,
        /// The next slot of the chain or of the free list; same encoding as `free`.
        pub(super) next: AtomicU32,
        pub(super) hash: AtomicU64,
        /// The number of the variant, which is part of the name.
        pub(super) variant: AtomicU32,
        /// The first block; the path and the memory are there.
        pub(super) block: AtomicU32,
        pub(super) path_len: AtomicU32,
        pub(super) memory_len: AtomicU32,
        /// The file's descriptor ([`Kept`](sys::descriptors::Kept)); 0: none.
        pub(super) descriptor: AtomicU64,
        /// Requested since second chance last looked.
        pub(super) referenced: AtomicU32,
        pub(super) trusted_until_ms: AtomicU64,
        pub(super) facts: [AtomicU64; FACTS],
        /// Checksum of everything in the slot that does not change while it holds an entry.
        pub(super) sum: AtomicU64,
        /// Held by the worker that checks the file again.
        pub(super) looking: Mutex,
    }
}

/// States of a slot. In any other state than these two, the slot holds nothing of use.
pub(super) const NAMED: u32 = 1;
/// Without a name; the entry lives as long as it is pinned.
pub(super) const DETACHED: u32 = 2;
/// Being removed: if the slot still has a descriptor, it must be closed.
pub(super) const LEAVING: u32 = 3;
/// Was a pinned entry, and became garbage. The slot has no bytes, and is freed with its last pin.
pub(super) const SPOILT: u32 = 4;

impl Slot {
    /// Whether the slot has a descriptor.
    pub(super) fn is_open(&self) -> bool {
        self.descriptor.load(Ordering::Relaxed) != 0
    }

    /// Bytes of path and memory.
    pub(super) fn bytes(&self) -> usize {
        self.path_len.load(Ordering::Relaxed) as usize + self.memory_len.load(Ordering::Relaxed) as usize
    }

    /// Whether the checksum matches the contents. Otherwise another process has overwritten the slot by
    /// mistake.
    pub(super) fn has_its_sum(&self) -> bool {
        self.sum.load(Ordering::Relaxed) == self.sum_up()
    }

    /// The checksum of the contents. Different contents almost certainly have another checksum.
    #[inline]
    pub(super) fn sum_up(&self) -> u64 {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let Self { hash, variant, block, path_len, memory_len, descriptor, facts, .. } = self;
        let small = [[variant, block], [path_len, memory_len]]
            .map(|pair| pair.map(|word| u64::from(word.load(Ordering::Relaxed))))
            .map(|[high, low]| high << 32 | low);
        let large = [hash, descriptor].into_iter().chain(facts).map(|word| word.load(Ordering::Relaxed));
        small
            .into_iter()
            .chain(large)
            .fold(SPREAD, |sum, word| (sum ^ word).wrapping_mul(SPREAD).rotate_left(29))
    }
}

pub(super) fn write_facts(slot: &Slot, facts: &Facts) {
    let Facts { stat, ends, marks, coding, siblings, index, lasting, .. } = facts;
    let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let range = |range: &Option<Range<u32>>| range.as_ref().map_or(0, |range| pair(range.start, range.end));
    let kind = match stat.kind {
        FileKind::Regular => 0,
        FileKind::Directory => 1,
        FileKind::Other => 2,
    };
    let siblings: u32 = Coding::ALL
        .into_iter()
        .filter(|&coding| siblings.contains(coding))
        .map(|coding| 1 << number_of(Some(coding)))
        .sum();
    let small = kind | u32::from(*lasting) << 8 | number_of(*coding) << 16 | siblings << 24;
    let words = [
        stat.size,
        stat.device,
        stat.inode,
        stat.mtime.secs.cast_unsigned(),
        stat.ctime.secs.cast_unsigned(),
        pair(stat.mtime.nanos, stat.ctime.nanos),
        stat.links,
        pair(stat.mode, small),
        pair(marks.media_type, marks.coding),
        pair(marks.validators, marks.body),
        range(&marks.etag),
        range(&marks.last_modified),
        index.map_or(0, |index| index as u64 + 1),
        pair(ends.first, ends.last),
    ];
    for (to, word) in slot.facts.iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}

pub(super) fn facts_of(slot: &Slot) -> Facts {
    let word = |at: usize| slot.facts[at].load(Ordering::Relaxed);
    let pair = |at| ((word(at) >> 32) as u32, word(at) as u32);
    // No range begins at 0, as Content-Length is there.
    let range = |at| (word(at) != 0).then(|| pair(at).0..pair(at).1);
    let small = pair(7).1;
    let siblings = Coding::ALL.into_iter().filter(|&coding| small >> 24 >> number_of(Some(coding)) & 1 != 0);
    let marks = Marks {
        media_type: pair(8).0,
        coding: pair(8).1,
        validators: pair(BODY).0,
        body: pair(BODY).1,
        etag: range(10),
        last_modified: range(11),
    };
    let siblings = siblings.fold(CodingSet::EMPTY, CodingSet::with);
    Facts {
        stat: stat_of(slot),
        ends: ends_of(slot),
        is_plain: siblings.is_empty() && !marks.is_bare(),
        marks,
        memory_len: slot.memory_len.load(Ordering::Relaxed),
        coding: coding_of(u64::from(small >> 16 & 0xff)),
        siblings,
        index: (word(12) as usize).checked_sub(1),
        trusted_until_ms: slot.trusted_until_ms.load(Ordering::Acquire),
        lasting: small >> 8 & 1 != 0,
    }
}

pub(super) fn ends_of(slot: &Slot) -> Ends {
    let word = slot.facts[13].load(Ordering::Relaxed);
    Ends { first: (word >> 32) as u32, last: word as u32 }
}

pub(super) fn stat_of(slot: &Slot) -> FileStat {
    let word = |at: usize| slot.facts[at].load(Ordering::Relaxed);
    let pair = |at| ((word(at) >> 32) as u32, word(at) as u32);
    let ((mtime_nanos, ctime_nanos), (mode, small)) = (pair(5), pair(7));
    FileStat {
        kind: match small & 0xff {
            0 => FileKind::Regular,
            1 => FileKind::Directory,
            _ => FileKind::Other,
        },
        size: word(0),
        device: word(1),
        inode: word(2),
        mtime: FileTime { secs: word(3).cast_signed(), nanos: mtime_nanos },
        ctime: FileTime { secs: word(4).cast_signed(), nanos: ctime_nanos },
        mode,
        links: word(6),
    }
}

/// Bytes of body that take memory for as long as the entry lives.
pub(super) fn body_bytes(slot: &Slot) -> u64 {
    let FileStat { kind, size, .. } = stat_of(slot);
    if kind == FileKind::Directory {
        // A listing is always in memory.
        return size;
    }
    let body = slot.facts[BODY].load(Ordering::Relaxed) as u32;
    slot.memory_len.load(Ordering::Relaxed).saturating_sub(body).into()
}

fn number_of(coding: Option<Coding>) -> u32 {
    coding.map_or(0, |coding| coding as u32 + 1)
}

fn coding_of(number: u64) -> Option<Coding> {
    Coding::ALL.into_iter().find(|&coding| u64::from(number_of(Some(coding))) == number)
}
