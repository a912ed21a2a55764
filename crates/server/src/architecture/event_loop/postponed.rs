//! Work that would wait for the disk, and is done elsewhere or later.

use super::listings::Listings;
use crate::helpers::Helpers;

/// Helpers do this work, or the loop does some of it itself, after all quick work.
#[derive(Default)]
pub(super) struct Postponed {
    /// Threads that wait for the disk instead of the loop.
    pub(super) helpers: Option<Helpers>,
    /// The numbers of windows of files that a ring has loaded.
    pub(super) loaded: Vec<u32>,
    /// Listings to be made, if there are no helpers.
    pub(super) listings: Listings,
}
