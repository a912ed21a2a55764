//! Logs why files are refused. The client gets only the status, and the operator may not have intended
//! the refusal.
//!
//! Problems with a file can be fixed, and are logged at the level `info`. Problems with a path are the
//! client's, and are logged at `debug`. Missing files are not logged here, as they are in the access log.
//! Clients may repeat their requests, so each reason is logged once a second.

use std::sync::{Mutex, PoisonError};

use http1::Status;
use tracing::Level;

use super::path::Refusal;
use crate::error_log::Limited;

/// What is wrong with a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reason {
    Denied,
    Irregular,
    Unlisted,
    Outside,
    Link,
    Hidden,
    Script,
}

impl Reason {
    const COUNT: usize = Self::Script as usize + 1;

    /// The status for the client.
    pub(super) fn status(self) -> Status {
        match self {
            Self::Denied | Self::Irregular | Self::Unlisted => Status::FORBIDDEN,
            Self::Outside | Self::Link | Self::Hidden | Self::Script => Status::NOT_FOUND,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Denied => "the server may not read it, or may not search a directory on the way",
            Self::Irregular => "it is not a regular file",
            Self::Unlisted => {
                "it is a directory without an index file, and --listing (listing = true) is not set"
            }
            Self::Outside => "a symbolic link on the way leads out of the root",
            Self::Link => "symbolic links on the way are not to be followed, or too many",
            Self::Hidden => {
                "a symbolic link leads to a name that begins with a dot, or to a script of an application"
            }
            Self::Script => "its name differs from that of a script only in the case of letters",
        }
    }
}

/// When each reason was last logged.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    files: [Mutex<Limited>; Reason::COUNT],
    paths: [Mutex<Limited>; Refusal::COUNT],
}

impl Refusals {
    /// Logs why a file is refused.
    pub(super) fn tell_file(&self, path: &[u8], reason: Reason) {
        if tracing::enabled!(Level::INFO)
            && let Some(suppressed) = permit(&self.files[reason as usize])
        {
            let path = String::from_utf8_lossy(path);
            tracing::info!(suppressed, "{path:?} is not served: {}", reason.text());
        }
    }

    /// Logs why a raw path names no file.
    pub(super) fn tell_path(&self, path: &[u8], refusal: Refusal) {
        if tracing::enabled!(Level::DEBUG)
            && let Some(suppressed) = permit(&self.paths[refusal as usize])
        {
            let path = String::from_utf8_lossy(path);
            tracing::debug!(suppressed, "{path:?} is not served: {}", refusal.text());
        }
    }
}

/// Whether a message may be logged now. If so, returns how many messages of its kind were suppressed
/// since the last.
pub(super) fn permit(limited: &Mutex<Limited>) -> Option<u64> {
    limited.lock().unwrap_or_else(PoisonError::into_inner).permit(sys::clock::monotonic_ms())
}
