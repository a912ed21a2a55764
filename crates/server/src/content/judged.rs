//! Results of checking a file that a request reaches by a path other than the file's own.

use super::numbers::Elsewhere;

/// What to do with the index file of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    Sent,
    /// A route refuses it to clients.
    Barred(Elsewhere),
    /// An application answers instead.
    Called(Elsewhere),
}

/// Why the target of a symbolic link is not served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bar {
    /// The target is not served under its own name: a name in its path begins with a dot, or it is a
    /// script.
    Hidden,
    /// A route refuses it to clients.
    Barred(Elsewhere),
}
