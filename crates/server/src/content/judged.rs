//! What comes of judging the file that a request leads to by another path than its own.

use super::numbers::Elsewhere;

/// What is done with the index file of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    Sent,
    /// A route refuses it to clients.
    Barred(Elsewhere),
    /// An application answers in its place.
    Called(Elsewhere),
}

/// Why what a symbolic link leads to is not served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bar {
    /// Under its own name it is no file that is served: that begins with a dot, or is a script's.
    Hidden,
    /// A route refuses it to clients.
    Barred(Elsewhere),
}
