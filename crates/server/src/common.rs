//! What workers have in common that share one descriptor table: the record of who owns what in it.
//!
//! A worker that dies takes nothing with it, so it records what it owns, and the supervisor closes that.
//! Whatever is opened for longer than a turn is recorded at once ([`Common::own`]), and recorded again before
//! it is closed ([`Common::leave`]): a number that is said to be owned must never be somebody else's already.

use std::os::fd::AsFd;

use sys::descriptors::Ledger;

/// More descriptors than that are of no use, and the table of so many takes 8 MiB of the kernel's memory.
pub const MOST_DESCRIPTORS: u64 = 1 << 20;

/// One worker's part in it.
#[derive(Clone, Debug)]
pub struct Common {
    /// Who owns what.
    pub ledger: Ledger,
    /// This process in the ledger; no number is used twice.
    pub owner: u32,
    /// Which of those it is that share a table of open files, counted from 0.
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
