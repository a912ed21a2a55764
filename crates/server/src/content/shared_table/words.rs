//! What is known of a file, as words of shared memory: written by who puts an entry in, read by whoever finds
//! it. Any word may be garbage that another worker has left; what is made of it is wrong then, but sound.

use std::ops::Range;
use std::sync::atomic::Ordering;

use http1::coding::{Coding, CodingSet};
use sys::file::{FileKind, FileStat, FileTime};

use super::Slot;
use crate::content::ends::Ends;
use crate::content::entry::{Facts, Marks};

/// Words that the facts of an entry take, but for the length of its memory and how long it is believed.
pub(super) const FACTS: usize = 14;
/// The one whose lower half says where the body begins.
pub(super) const BODY: usize = 9;

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
    // No range begins at 0, where Content-Length is.
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
    Facts {
        stat: stat_of(slot),
        ends: ends_of(slot),
        marks,
        memory_len: slot.memory_len.load(Ordering::Relaxed),
        coding: coding_of(u64::from(small >> 16 & 0xff)),
        siblings: siblings.fold(CodingSet::EMPTY, CodingSet::with),
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

pub(super) fn number_of(coding: Option<Coding>) -> u32 {
    coding.map_or(0, |coding| coding as u32 + 1)
}

fn coding_of(number: u64) -> Option<Coding> {
    Coding::ALL.into_iter().find(|&coding| u64::from(number_of(Some(coding))) == number)
}
