//! The document root, followed by its name.
//!
//! Files are opened beneath a descriptor, which stands for the directory that it was opened on, whatever
//! becomes of that directory's name. But the name is what was configured: site generators remove the
//! directory and make it anew, deployments switch a symbolic link from one release to the next. So whoever
//! looks at a file looks at the name as well, where that was not done for as long as files are believed, and
//! the descriptor stands for what the name leads to from there on.
//!
//! What a look finds is not believed for longer than the root that it was found beneath ([`Root::follow`]
//! says how long). So when a worker moves on to another root, all that it had found beneath the one before is
//! out of date already.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

use sys::file::{Directory, FileStat, OpenFailure, Symlinks};

use super::patience::Patience;

/// The directory that is served, for all threads of a process.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    directory: Directory,
    validity_ms: u64,
    /// Until when it is believed to be what the path names, on the monotonic clock.
    trusted_until_ms: AtomicU64,
    /// How often it has become another.
    changes: AtomicU32,
    /// Held by who looks at the name.
    looking: Mutex<Last>,
}

/// What the last look at the name has come to.
#[derive(Debug)]
struct Last {
    device: u64,
    inode: u64,
    has_failed: bool,
}

impl Root {
    /// Opens the directory, in which the user must be able to get to files. Where there is none there are no
    /// files.
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

    /// Moves on to the directory that the path names by now, if it was not looked at for a while. Says until
    /// when, in monotonic milliseconds, what is found beneath it from here on may be believed.
    ///
    /// If nothing can be opened by that name, the directory stays what it was.
    ///
    /// # Errors
    ///
    /// There is no patience for the look that it takes, or there are no descriptors.
    pub(super) fn follow(&self, patience: Patience, now_ms: u64) -> io::Result<u64> {
        let until_ms = self.trusted_until_ms.load(Ordering::Acquire);
        if now_ms < until_ms { Ok(until_ms) } else { self.look(patience, now_ms) }
    }

    /// How often the directory has become another.
    pub(super) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// To open files beneath it.
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    #[cold]
    fn look(&self, patience: Patience, now_ms: u64) -> io::Result<u64> {
        let mut last = match self.looking.try_lock() {
            Ok(last) => last,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Somebody is at it, and may have to wait for the disk. Until then the old one does, for this
            // once.
            Err(TryLockError::WouldBlock) => return Ok(now_ms),
        };
        match self.look_again(&mut last, patience) {
            Ok(()) if last.has_failed => {
                last.has_failed = false;
                tracing::info!("the document root {} can be opened again", self.path.display());
            }
            Ok(()) => {}
            Err(error) if patience.is_over(&error) => return Err(error),
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

    fn look_again(&self, last: &mut Last, patience: Patience) -> io::Result<()> {
        let open = if patience == Patience::None { Directory::reopen_cached } else { Directory::reopen };
        let named = open(&self.directory, &self.path)?;
        // The one that is open keeps its number, also when it has been removed.
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
