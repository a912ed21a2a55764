//! Warnings about precompressed siblings that are older than their file, and so not used. The operator has
//! to compress the file again, and gets one warning for each.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use sys::file::FileStat;

/// The most warnings in the life of a process.
const MOST: usize = 1_000;

/// The siblings that were warned about.
#[derive(Debug, Default)]
pub(super) struct Outdated {
    hasher: RandomState,
    told: Mutex<HashSet<u64>>,
}

impl Outdated {
    /// Warns about a sibling, unless that was done since its file was last changed. So further requests
    /// log nothing more.
    pub(super) fn tell(&self, sibling: &[u8], original: &FileStat) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MOST || !told.insert(self.hasher.hash_one((sibling, original.mtime))) {
            return;
        }
        let path = String::from_utf8_lossy(sibling);
        tracing::warn!("{path:?} is older than the file that it is made from, and is not sent instead of it");
        if told.len() == MOST {
            tracing::warn!("further files of this kind are not logged");
        }
    }
}
