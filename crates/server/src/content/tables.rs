//! The open-file table that a worker uses: either its own, or one that workers share. Both have the same
//! operations with the same meaning. The architecture decides which one is used.

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

/// A table of either kind.
#[derive(Debug)]
pub(super) enum Tables {
    /// The worker's own table, without locks.
    Own(Table),
    /// Like [`Own`](Self::Own), but later requests find nothing in it. It is a separate variant so that a
    /// request that finds something need not check.
    Unkept(Table),
    /// A table in shared memory.
    Shared(Box<SharedTable>),
}

impl Tables {
    /// The entry of that name. The result is valid until the table next changes, or
    /// [`let_go`](Self::let_go).
    #[inline]
    pub(super) fn find(&mut self, path: &[u8], variant: Variant) -> Option<Place> {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.find(path, variant),
            Self::Shared(table) => table.find(path, variant),
        }
    }

    /// Whether requests find files that other requests have opened.
    pub(super) fn keeps(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Unkept(_) => false,
            Self::Shared(table) => table.keeps(),
        }
    }

    /// Marks a pinned entry as found. `false`: it is shared, and has been corrupted since.
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

    /// An entry that was found, and its memory before the body: the header lines.
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

    /// How the file of a found or pinned entry began and ended when it was opened.
    pub(super) fn ends(&self, place: Place) -> Ends {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.entry(place).ends,
            Self::Shared(table) => table.ends(place),
        }
    }

    /// The table's memory in addition to what it holds.
    pub(super) fn structure_bytes(&self) -> u64 {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.structure_bytes(),
            Self::Shared(table) => table.structure_bytes(),
        }
    }

    /// A part of the memory of a found or pinned entry. `None`: the entry is shared, and has been
    /// corrupted since.
    #[inline]
    pub(super) fn memory(&self, place: Place, range: Range<u32>) -> Option<Slice<'_>> {
        match self {
            Self::Own(table) | Self::Unkept(table) => {
                Some(Slice::new(&table.memory(place)[range.start as usize..range.end as usize]))
            }
            Self::Shared(table) => table.memory(place, range),
        }
    }

    /// The file of a found or pinned entry, if it has one and has not been corrupted since.
    #[inline]
    pub(super) fn file(&self, place: Place) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.file(place),
            Self::Shared(table) => table.file(place),
        }
    }

    /// The memory of a found or pinned entry, for a reader that needs it even if the table drops it
    /// meanwhile. Only a worker's own table shares it.
    pub(super) fn share_memory(&self, place: Place) -> Option<Arc<[u8]>> {
        match self {
            Self::Own(table) | Self::Unkept(table) => Some(table.share_memory(place)),
            Self::Shared(_) => None,
        }
    }

    /// The file of a found or pinned entry, for a reader that needs it even if the table closes it
    /// meanwhile. Only a worker's own table shares it.
    pub(super) fn share_file(&self, place: Place) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.share_file(place),
            Self::Shared(_) => None,
        }
    }

    /// Which parts of the file of a found or pinned entry were recently in memory. Only a worker's own
    /// table records that.
    #[inline]
    pub(super) fn resident(&self, place: Place) -> Option<&Resident> {
        match self {
            Self::Own(table) | Self::Unkept(table) => Some(table.resident(place)),
            Self::Shared(_) => None,
        }
    }

    /// Call this before checking the file of a found entry again. In a shared table, other workers may be
    /// about to check the same file; this waits until none of them does, but not for long. If it returns
    /// a claim, find the entry again, as another worker may have checked it meanwhile.
    pub(super) fn claim(&mut self, place: Place) -> Option<sys::lock::Held> {
        match self {
            Self::Own(_) | Self::Unkept(_) => None,
            Self::Shared(table) => table.claim(place),
        }
    }

    /// Lets a found entry be trusted until then.
    pub(super) fn trust(&mut self, place: Place, until_ms: u64) {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.trust(place, until_ms),
            Self::Shared(table) => table.trust(place, until_ms),
        }
    }

    /// Inserts an entry under a name, and replaces the one that had the name. That one stays if there is
    /// no room.
    pub(super) fn insert(&mut self, path: &[u8], variant: Variant, entry: Entry) -> Result<Place, Full> {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.insert(path, variant, entry),
            Self::Shared(table) => table.insert(path, variant, entry),
        }
    }

    /// Makes room for a small body or a listing. Returns whether there is room.
    pub(super) fn make_room(&mut self, body_bytes: u64) -> bool {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.make_room(body_bytes),
            Self::Shared(table) => table.make_room(body_bytes),
        }
    }

    /// Closes half of the open files, except those that a reply uses. Returns how many were closed.
    pub(super) fn close_half(&mut self) -> u64 {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.close_half(),
            Self::Shared(table) => table.close_half(),
        }
    }

    /// Removes the names of all entries that are no longer trusted.
    pub(super) fn forget_outdated(&mut self, now_ms: u64) {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.forget_outdated(now_ms),
            Self::Shared(table) => table.forget_outdated(now_ms),
        }
    }

    /// Removes an entry's name. The entry is removed with its last pin.
    pub(super) fn forget(&mut self, place: Place) {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.forget(place),
            Self::Shared(table) => table.forget(place),
        }
    }

    /// Pins a found entry, and records that it was requested.
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

    /// Call this at the end of a request. Found entries are not used any more, except pinned ones.
    #[inline]
    pub(super) fn let_go(&mut self) {
        match self {
            Self::Own(_) => {}
            Self::Unkept(table) => table.let_go(),
            Self::Shared(table) => table.let_go(),
        }
    }

    /// Call this when the worker retires, together with those that it shares the table with. A shared
    /// table then releases what no reply uses.
    pub(super) fn retire(&mut self) {
        if let Self::Shared(table) = self {
            table.retire();
        }
    }

    /// What the table holds. A shared table reports this to every worker that shares it.
    pub(super) fn size(&self) -> TableSize {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.size(),
            Self::Shared(table) => table.size(),
        }
    }

    /// What the table did for this worker.
    #[inline]
    pub(super) fn counts(&mut self) -> &mut TableCounts {
        match self {
            Self::Own(table) | Self::Unkept(table) => &mut table.counts,
            Self::Shared(table) => &mut table.counts,
        }
    }

    /// What the table did for this worker, to read.
    pub(super) fn counted(&self) -> TableCounts {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.counts,
            Self::Shared(table) => table.counts,
        }
    }

    /// A number that outsiders cannot predict, different for each `n`.
    pub(super) fn random(&self, n: u64) -> u64 {
        match self {
            Self::Own(table) | Self::Unkept(table) => table.random(n),
            Self::Shared(table) => table.random(n),
        }
    }
}
