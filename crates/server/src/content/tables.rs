//! The open-file table that a worker uses: one of its own, or one that workers share. Both have the same
//! operations with the same meaning; which it is has been decided by the architecture.

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use sys::file::FileStat;
use sys::socket::Slice;

use super::ends::Ends;
use super::entry::{Entry, Facts};
use super::fetch::Resident;
use super::shared_table::SharedTable;
use super::table::{Full, Pin, Place, Table, TableCounts, TableSize, Variant};

/// One of them.
#[derive(Debug)]
pub(super) enum Tables {
    /// Without locks.
    Own(Table),
    /// The same, of which nothing is found again. It is not [`Own`](Self::Own) so that a request which finds
    /// something need not ask.
    Unkept(Table),
    /// In shared memory.
    Shared(Box<SharedTable>),
}

impl Tables {
    /// The entry of that name. It is of use until the table next changes, or [`let_go`](Self::let_go).
    #[inline]
    pub(super) fn find(&mut self, path: &[u8], variant: Variant) -> Option<Place> {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.find(path, variant),
            Self::Shared(table) => table.find(path, variant),
        }
    }

    /// Whether requests find what others have opened.
    pub(super) fn keeps(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Unkept(_) => false,
            Self::Shared(table) => table.keeps(),
        }
    }

    /// Makes a pinned entry one that has been found. `false`: it is shared, and has been spoilt since.
    pub(super) fn hold(&mut self, place: Place) -> bool {
        match self {
            Self::Own(_) | Self::Unkept(_) => true,
            Self::Shared(table) => table.hold_pinned(place),
        }
    }

    /// An entry that was found.
    #[inline]
    pub(super) fn entry(&self, place: Place) -> &Facts {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.entry(place),
            Self::Shared(table) => table.entry(place),
        }
    }

    /// An entry that was found, and its memory before the body, which is header lines.
    pub(super) fn entry_and_head(&mut self, place: Place) -> (&Facts, &[u8]) {
        match self {
            Self::Own(table) | Self::Unkept(table) => (table.entry(place), table.memory(place)),
            Self::Shared(table) => table.entry_and_head(place),
        }
    }

    /// What the file of a found or pinned entry was when it was opened.
    pub(super) fn stat(&self, place: Place) -> FileStat {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.entry(place).stat,
            Self::Shared(table) => table.stat(place),
        }
    }

    /// What the file of a found or pinned entry began and ended with when it was opened.
    pub(super) fn ends(&self, place: Place) -> Ends {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.entry(place).ends,
            Self::Shared(table) => table.ends(place),
        }
    }

    /// What the table takes beside what it holds.
    pub(super) fn structure_bytes(&self) -> u64 {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.structure_bytes(),
            Self::Shared(table) => table.structure_bytes(),
        }
    }

    /// A part of the memory of a found or pinned entry. `None`: what is shared has been spoilt since.
    #[inline]
    pub(super) fn memory(&self, place: Place, range: Range<u32>) -> Option<Slice<'_>> {
        match self {
            Self::Own(table) | Self::Unkept(table) => {
                Some(Slice::new(&table.memory(place)[range.start as usize..range.end as usize]))
            }
            Self::Shared(table) => table.memory(place, range),
        }
    }

    /// The file of a found or pinned entry, where it has one that has not been spoilt since.
    #[inline]
    pub(super) fn file(&self, place: Place) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.file(place),
            Self::Shared(table) => table.file(place),
        }
    }

    /// The file of a found or pinned entry, for somebody who reads from it even if the table closes it
    /// meanwhile. Only a worker's own table lends it.
    pub(super) fn share_file(&self, place: Place) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.share_file(place),
            Self::Shared(_) => None,
        }
    }

    /// What of the file of a found or pinned entry was in memory lately. Only a worker's own table keeps
    /// that.
    #[inline]
    pub(super) fn resident(&self, place: Place) -> Option<&Resident> {
        match self {
            Self::Own(table) | Self::Unkept(table) => Some(table.resident(place)),
            Self::Shared(_) => None,
        }
    }

    /// Before a look at the file of a found entry that has to be looked at again: where others may have the
    /// same in mind, waits until none of them is at it, but not for long. If that is claimed: ask again for
    /// the entry, as one of them may have looked.
    pub(super) fn claim(&mut self, place: Place) -> Option<sys::lock::Held> {
        match self {
            Self::Own(_) | Self::Unkept(_) => None,
            Self::Shared(table) => table.claim(place),
        }
    }

    /// Lets a found entry be believed until then.
    pub(super) fn trust(&mut self, place: Place, until_ms: u64) {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.trust(place, until_ms),
            Self::Shared(table) => table.trust(place, until_ms),
        }
    }

    /// Puts in an entry under a name, in place of the one that had it. That one stays if there is no room.
    pub(super) fn insert(&mut self, path: &[u8], variant: Variant, entry: Entry) -> Result<Place, Full> {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.insert(path, variant, entry),
            Self::Shared(table) => table.insert(path, variant, entry),
        }
    }

    /// Makes room for a small body or a listing; says whether there is room.
    pub(super) fn make_room(&mut self, body_bytes: u64) -> bool {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.make_room(body_bytes),
            Self::Shared(table) => table.make_room(body_bytes),
        }
    }

    /// Closes half of the open files, as far as no reply uses them; says how many.
    pub(super) fn close_half(&mut self) -> u64 {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.close_half(),
            Self::Shared(table) => table.close_half(),
        }
    }

    /// Removes the names of all entries that are not believed any more.
    pub(super) fn forget_outdated(&mut self, now_ms: u64) {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.forget_outdated(now_ms),
            Self::Shared(table) => table.forget_outdated(now_ms),
        }
    }

    /// Removes an entry's name. The entry goes with the last of its pins.
    pub(super) fn forget(&mut self, place: Place) {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.forget(place),
            Self::Shared(table) => table.forget(place),
        }
    }

    /// Pins a found entry, and takes note that it was asked for.
    #[inline]
    pub(super) fn pin(&mut self, place: Place) -> Pin {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.pin(place),
            Self::Shared(table) => table.pin(place),
        }
    }

    /// Takes a pin back.
    #[inline]
    pub(super) fn unpin(&mut self, pin: Pin) {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.unpin(pin),
            Self::Shared(table) => table.unpin(pin.0),
        }
    }

    /// At the end of a request: what was found is not used any more, but for what is pinned.
    #[inline]
    pub(super) fn let_go(&mut self) {
        match self {
            Self::Own(_) => {}
            Self::Unkept(table) => table.let_go(),
            Self::Shared(table) => table.let_go(),
        }
    }

    /// Of a worker that retires: what is shared with others that do is given up, as far as nobody uses it.
    pub(super) fn retire(&mut self) {
        if let Self::Shared(table) = self {
            table.retire();
        }
    }

    /// What it holds. A shared one says so to all who share it.
    pub(super) fn size(&self) -> TableSize {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.size(),
            Self::Shared(table) => table.size(),
        }
    }

    /// What this worker has seen it do.
    #[inline]
    pub(super) fn counts(&mut self) -> &mut TableCounts {
        match self {
            Self::Own(table) | Self::Unkept(table) => &mut table.counts,
            Self::Shared(table) => &mut table.counts,
        }
    }

    /// What this worker has seen it do, to read.
    pub(super) fn counted(&self) -> TableCounts {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.counts,
            Self::Shared(table) => table.counts,
        }
    }

    /// A number that nobody outside can foresee, another one for each `n`.
    pub(super) fn random(&self, n: u64) -> u64 {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.random(n),
            Self::Shared(table) => table.random(n),
        }
    }
}
