//! State shared by workers with one descriptor table: the record of which worker owns which descriptor.
//!
//! When such a worker dies, its descriptors stay open. So it records what it owns, and the supervisor
//! closes that. A worker records everything that it opens for longer than a turn at once ([`Common::own`]).
//! It clears the record before it closes the descriptor ([`Common::leave`]), because a number on record
//! must never belong to another worker already.

use std::os::fd::AsFd;

use sys::descriptors::Ledger;

/// More descriptors than this are useless. The table of so many takes 8 MiB of kernel memory.
pub const MOST_DESCRIPTORS: u64 = 1 << 20;

/// One worker's part in it.
#[derive(Clone, Debug)]
pub struct Common {
    /// Which worker owns which descriptor.
    pub ledger: Ledger,
    /// The number of this process in the ledger. No number is used twice.
    pub owner: u32,
    /// The number of this worker among those that share a table of open files, from 0.
    pub place: usize,
}

impl Common {
    /// Records a descriptor that was just opened.
    #[inline]
    pub fn own(&self, fd: impl AsFd) {
        self.ledger.own(fd, self.owner);
    }

    /// Records that a descriptor is about to be closed.
    #[inline]
    pub fn leave(&self, fd: impl AsFd) {
        self.ledger.leave(fd);
    }
}
