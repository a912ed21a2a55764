//! How long whoever looks something up may wait for a disk.

use std::io;

/// How long a lookup may take, which may have to wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// For as long as it takes.
    Unlimited,
    /// For files. Making the listing of a directory takes so long that it is left to be done apart from all
    /// else.
    Files,
    /// For names. The body of a small file that is not in memory is left to whoever sends it, from the file,
    /// and the making of a listing as above.
    Names,
    /// Not at all: only what the kernel has in memory is looked at.
    None,
}

/// A lookup would have to wait for a disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WouldBlock;

impl Patience {
    /// Whether an error of a system call made with it says that the call would have had to wait.
    pub(super) fn is_over(self, error: &io::Error) -> bool {
        self == Self::None && error.kind() == io::ErrorKind::WouldBlock
    }

    /// Whether an error of reading a body with it says that the body is to be left to whoever sends it.
    pub(super) fn leaves_body(self, error: &io::Error) -> bool {
        self == Self::Names && error.kind() == io::ErrorKind::WouldBlock
    }
}
