//! Where access-log lines go, and the open file that they go to.
//!
//! The supervisor opens it for all workers while it is still root, as the users that they run as often may
//! not. Each goes on with the file that it has where a new one can't be opened.

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
    /// Why.
    source: io::Error,
}

/// A target that is open.
#[derive(Debug)]
pub struct LogFile {
    pub(super) target: LogTarget,
    pub(super) file: File,
}

impl LogFile {
    /// Opens the target. Root does so for an `heir`, see [`Output::append_for`](output::Output::append_for).
    ///
    /// # Errors
    ///
    /// It can't be opened for appending.
    pub fn open(target: &LogTarget, heir: Option<Heir>) -> Result<Self, OpenError> {
        let file = match target {
            LogTarget::File(path) => output::open_to_wait(path, heir),
            LogTarget::Stdout | LogTarget::Terminal => {
                io::stdout().as_fd().try_clone_to_owned().map(File::from)
            }
        };
        Ok(Self { file: file.map_err(|source| OpenError::new(target, source))?, target: target.clone() })
    }

    /// Whether [`open`](Self::open) would succeed in this process. Nothing is made.
    ///
    /// # Errors
    ///
    /// Why it would not.
    pub fn check(target: &LogTarget) -> Result<(), OpenError> {
        let LogTarget::File(path) = target else { return Ok(()) };
        output::check_append(path).map_err(|source| OpenError::new(target, source))
    }

    /// Takes over an open file of that path.
    pub fn adopt(path: PathBuf, file: OwnedFd) -> Self {
        Self { target: LogTarget::File(path), file: file.into() }
    }

    /// Once more, with a descriptor of its own.
    ///
    /// # Errors
    ///
    /// There is no descriptor to be had.
    pub fn try_clone(&self) -> Result<Self, OpenError> {
        let file = self.file.try_clone().map_err(|source| OpenError::new(&self.target, source))?;
        Ok(Self { file, target: self.target.clone() })
    }

    /// What is open here.
    pub fn target(&self) -> &LogTarget {
        &self.target
    }

    /// The path, if it is a file.
    pub fn path(&self) -> Option<&Path> {
        if let LogTarget::File(path) = &self.target { Some(path) } else { None }
    }

    /// Opens the file anew by its name, as after it was renamed; says whether it is another one. The
    /// descriptor stays the same, as who knows it may be responsible for it. Where the name still leads to
    /// what is open there is nothing to do, which takes no right to that file.
    ///
    /// # Errors
    ///
    /// It can't be opened; lines go on to the file that is open.
    pub fn reopen(&self) -> io::Result<bool> {
        match self.path() {
            Some(path) if !output::leads_to(path, &self.file) => {
                sys::file::replace(&self.file, output::open_to_wait(path, None)?)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Closes it in this process, whoever still holds it here.
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
    /// Whether there is anything to write to, or somebody.
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
