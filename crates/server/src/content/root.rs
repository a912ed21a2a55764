//! The document root, which follows its name to another directory.
//!
//! Files are opened below a descriptor. A descriptor stays with the directory that it was opened on,
//! whatever happens to the directory's name. But the operator configures a name: site generators delete
//! the directory and create it again, deployments switch a symbolic link from one release to the next. So
//! a lookup also checks the name, if the last check is older than the time that files are trusted. After
//! that the descriptor stands for the directory that the name now leads to.
//!
//! The result of a lookup is not trusted for longer than the root that it was found below
//! ([`Root::follow`] returns that time). So when a worker moves on to another root, everything it had
//! found below the old one has already expired.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

use sys::file::{Directory, FileStat, OpenFailure, Symlinks};

use super::may_block::MayBlock;

/// The directory that is served, for all threads of a process.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    directory: Directory,
    validity_ms: u64,
    /// Until when the directory is trusted to be what the path names, on the monotonic clock.
    trusted_until_ms: AtomicU64,
    /// How often it has become another directory.
    changes: AtomicU32,
    /// Held by the thread that checks the name.
    looking: Mutex<Last>,
}

/// The result of the last check of the name.
#[derive(Debug)]
struct Last {
    device: u64,
    inode: u64,
    has_failed: bool,
}

impl Root {
    /// Opens the directory. The server's user must be able to reach files in it. An empty path means a
    /// root without files.
    pub(super) fn open(path: PathBuf, validity_ms: u64) -> io::Result<Self> {
        let is_none = path.as_os_str().is_empty();
        let directory = if is_none { Directory::none()? } else { Directory::open(&path)? };
        if let Err(error) = sys::file::find_beneath(&directory, b".", Symlinks::Any)
            && OpenFailure::of(&error) == OpenFailure::Denied
        {
            return Err(error);
        }
        let FileStat { device, inode, .. } = sys::file::stat(&directory)?;
        Ok(Self {
            path,
            directory,
            validity_ms,
            trusted_until_ms: AtomicU64::new(if is_none { u64::MAX } else { 0 }),
            changes: AtomicU32::new(0),
            looking: Mutex::new(Last { device, inode, has_failed: false }),
        })
    }

    /// Moves on to the directory that the path names now, if the last check is too old. Returns until
    /// when results found below it from now on may be trusted, in monotonic milliseconds.
    ///
    /// If nothing can be opened by that name, the old directory is kept.
    ///
    /// # Errors
    ///
    /// The caller must not block for the check, or there are no descriptors left.
    pub(super) fn follow(&self, may_block: MayBlock, now_ms: u64) -> io::Result<u64> {
        let until_ms = self.trusted_until_ms.load(Ordering::Acquire);
        if now_ms < until_ms { Ok(until_ms) } else { self.look(may_block, now_ms) }
    }

    /// How often the root has become another directory.
    pub(super) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// The directory, to open files below it.
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    #[cold]
    fn look(&self, may_block: MayBlock, now_ms: u64) -> io::Result<u64> {
        let mut last = match self.looking.try_lock() {
            Ok(last) => last,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is checking, and may have to wait for the disk. Until then, requests use the
            // old directory, and trust it for this request only.
            Err(TryLockError::WouldBlock) => return Ok(now_ms),
        };
        match self.look_again(&mut last, may_block) {
            Ok(()) if last.has_failed => {
                last.has_failed = false;
                tracing::info!("the document root {} can be opened again", self.path.display());
            }
            Ok(()) => {}
            Err(error) if may_block.forbade(&error) => return Err(error),
            Err(error) if OpenFailure::of(&error) == OpenFailure::Exhausted => return Err(error),
            Err(error) => {
                if !std::mem::replace(&mut last.has_failed, true) {
                    let path = self.path.display();
                    tracing::error!("can't open the document root {path}, which stays what it was: {error}");
                }
            }
        }
        let until_ms = now_ms.saturating_add(self.validity_ms);
        self.trusted_until_ms.store(until_ms, Ordering::Release);
        Ok(until_ms)
    }

    fn look_again(&self, last: &mut Last, may_block: MayBlock) -> io::Result<()> {
        let open = if may_block == MayBlock::Never { Directory::reopen_cached } else { Directory::reopen };
        let named = open(&self.directory, &self.path)?;
        // An open directory keeps its inode number, even after it was removed.
        let FileStat { device, inode, .. } = sys::file::stat(&named)?;
        if (device, inode) != (last.device, last.inode) {
            sys::file::replace(&self.directory, named)?;
            (last.device, last.inode) = (device, inode);
            self.changes.fetch_add(1, Ordering::AcqRel);
            tracing::info!("the document root {} is another directory now", self.path.display());
        }
        Ok(())
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}
