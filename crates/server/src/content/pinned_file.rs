//! A pinned file in the hands of a helper thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use sys::file::FileStat;

use super::load;

/// An open file, which stays open even if its table closes it, and what it was when its table opened it.
#[derive(Debug)]
pub struct PinnedFile {
    file: Arc<OwnedFd>,
    stat: FileStat,
}

impl PinnedFile {
    pub(super) fn new(file: Arc<OwnedFd>, stat: FileStat) -> Self {
        Self { file, stat }
    }

    /// A file as it is now.
    ///
    /// # Errors
    ///
    /// Those of fstat(2).
    pub fn of(file: Arc<OwnedFd>) -> io::Result<Self> {
        let stat = sys::file::stat(&*file)?;
        Ok(Self { file, stat })
    }

    /// Whether no program has written to the file. A file that has only grown counts as changed here.
    pub fn is_unchanged(&self) -> bool {
        sys::file::stat(&*self.file).is_ok_and(|now| load::is_intact(&self.stat, &now))
    }
}

impl AsFd for PinnedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
