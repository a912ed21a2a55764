//! How long a caller may wait for a disk when it looks something up.

use std::io;

/// How long a lookup may take, as it may have to wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// For as long as it takes.
    Unlimited,
    /// For files, but not for the listing of a directory. That takes so long that it is made apart from
    /// everything else.
    Files,
    /// For names only. If the body of a small file is not in memory, it is left to the sender, which sends it
    /// from the file. Listings are made apart, as for `Files`.
    Names,
    /// Not at all: the lookup uses only what the kernel has in memory.
    None,
}

/// A lookup would have to wait for a disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WouldBlock;

impl Patience {
    /// Whether an error means that a system call with this patience would have had to wait.
    pub(super) fn is_over(self, error: &io::Error) -> bool {
        self == Self::None && error.kind() == io::ErrorKind::WouldBlock
    }

    /// Whether an error of reading a body with this patience means that the body is left to the sender.
    pub(super) fn leaves_body(self, error: &io::Error) -> bool {
        self == Self::Names && error.kind() == io::ErrorKind::WouldBlock
    }
}
