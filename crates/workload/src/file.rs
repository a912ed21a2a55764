//! One file of a set: its path, its length, and what is in it.

/// A file to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// From the root, with slashes, without one in front.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// What is in it.
    pub holds: Holds,
}

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Lines of letters that follow from the seed and the path.
    Lines,
    /// The same with a place for an advertisement (`dynamic::PLACE`) as the first line of each 4 KiB.
    Places,
    /// This, whatever the seed: a program.
    Text(&'static str),
}

impl FileSpec {
    /// A file of lines.
    pub(crate) fn lines(path: impl Into<String>, bytes: u64) -> Self {
        Self { path: path.into(), bytes, holds: Holds::Lines }
    }
}
