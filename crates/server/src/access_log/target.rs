//! The target of access log lines, and its open file.
//!
//! The supervisor opens the file for all workers while it is still root, because the workers' user often
//! may not. If a new file cannot be opened, each worker continues with the file that it has.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use sys::output::{self, Heir};

use super::terminal;
use crate::config::LogTarget;

/// The access log could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open access log {path}: {source}")]
pub struct OpenError {
    /// The path as configured.
    path: String,
    /// The reason.
    source: io::Error,
}

/// An open target.
#[derive(Debug)]
pub struct LogFile {
    pub(super) target: LogTarget,
    pub(super) file: File,
}

impl LogFile {
    /// Opens the target. Root opens it for an `heir`, see
    /// [`Output::append_for`](output::Output::append_for).
    ///
    /// # Errors
    ///
    /// The target cannot be opened for appending.
    pub fn open(target: &LogTarget, heir: Option<Heir>) -> Result<Self, OpenError> {
        let file = match target {
            LogTarget::File(path) => output::open_to_wait(path, heir),
            LogTarget::Stdout | LogTarget::Terminal => {
                io::stdout().as_fd().try_clone_to_owned().map(File::from)
            }
        };
        Ok(Self { file: file.map_err(|source| OpenError::new(target, source))?, target: target.clone() })
    }

    /// Whether [`open`](Self::open) would succeed in this process. This creates nothing.
    ///
    /// # Errors
    ///
    /// Why it would fail.
    pub fn check(target: &LogTarget) -> Result<(), OpenError> {
        let LogTarget::File(path) = target else { return Ok(()) };
        output::check_append(path).map_err(|source| OpenError::new(target, source))
    }

    /// Takes over an open file with this path.
    pub fn adopt(path: PathBuf, file: OwnedFd) -> Self {
        Self { target: LogTarget::File(path), file: file.into() }
    }

    /// Duplicates the open file with a new descriptor.
    ///
    /// # Errors
    ///
    /// No descriptor is available.
    pub fn try_clone(&self) -> Result<Self, OpenError> {
        let file = self.file.try_clone().map_err(|source| OpenError::new(&self.target, source))?;
        Ok(Self { file, target: self.target.clone() })
    }

    /// The target that is open.
    pub fn target(&self) -> &LogTarget {
        &self.target
    }

    /// The path, if the target is a file.
    pub fn path(&self) -> Option<&Path> {
        if let LogTarget::File(path) = &self.target { Some(path) } else { None }
    }

    /// Reopens the file by name, for example after it was renamed. Returns whether it is now another
    /// file. The descriptor number stays the same, because other code may know it and be responsible for
    /// it. If the name still leads to the open file, this does nothing, and so needs no permission for
    /// that file.
    ///
    /// # Errors
    ///
    /// The file cannot be opened. Lines continue to go to the file that is open.
    pub fn reopen(&self) -> io::Result<bool> {
        match self.path() {
            Some(path) if !output::leads_to(path, &self.file) => {
                sys::file::replace(&self.file, output::open_to_wait(path, None)?)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Closes the file in this process, even if other code here still holds it.
    pub fn close(&self) {
        if let Err(error) = sys::socket::vacate(&self.file) {
            tracing::error!("cannot close the access log {}: {error}", self.target);
        }
    }
}

impl AsFd for LogFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl LogTarget {
    /// Whether the target exists. A terminal may be absent.
    pub fn is_there(&self) -> bool {
        *self != Self::Terminal || terminal::is_there()
    }
}

impl OpenError {
    pub(super) fn new(target: &LogTarget, source: io::Error) -> Self {
        Self { path: target.to_string(), source }
    }
}

impl std::fmt::Display for LogTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdout | Self::Terminal => f.write_str("standard output"),
        }
    }
}
