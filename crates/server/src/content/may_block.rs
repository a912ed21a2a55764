//! Whether a caller may block, waiting for a disk, when it looks something up.

use std::io;

/// What a caller may block for when it looks something up, as a disk may be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayBlock {
    /// For everything, as long as it takes.
    Always,
    /// For files, but not for the listing of a directory. That takes so long that it is made apart from
    /// everything else.
    ForFiles,
    /// For names only. If the body of a small file is not in memory, it is left to the sender, which sends it
    /// from the file. Listings are made apart, as for `ForFiles`.
    ForNames,
    /// For nothing: the lookup uses only what the kernel has in memory.
    Never,
}

/// A lookup would have to wait for a disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WouldBlock;

impl MayBlock {
    /// Whether an error means that a system call had to wait for a disk, and must not.
    pub(super) fn forbade(self, error: &io::Error) -> bool {
        self == Self::Never && error.kind() == io::ErrorKind::WouldBlock
    }

    /// Whether an error of reading a body means that the body is left to the sender.
    pub(super) fn leaves_body(self, error: &io::Error) -> bool {
        self == Self::ForNames && error.kind() == io::ErrorKind::WouldBlock
    }
}
