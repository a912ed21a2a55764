//! Precompressed siblings that are older than their file, and so of no use: each is told of once, to whoever
//! is to make it anew.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use sys::file::FileStat;

/// How many are told of at most, in the life of a process.
const MOST: usize = 1_000;

/// Those that have been told of.
#[derive(Debug, Default)]
pub(super) struct Outdated {
    hasher: RandomState,
    told: Mutex<HashSet<u64>>,
}

impl Outdated {
    /// Tells of one, unless that was done since its file was last changed. A client that asks again has
    /// nothing more told.
    pub(super) fn tell(&self, sibling: &[u8], original: &FileStat) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MOST || !told.insert(self.hasher.hash_one((sibling, original.mtime))) {
            return;
        }
        let path = String::from_utf8_lossy(sibling);
        tracing::warn!("{path:?} is older than the file that it is made of, and not sent in its place");
        if told.len() == MOST {
            tracing::warn!("no more files of that kind will be told of");
        }
    }
}
