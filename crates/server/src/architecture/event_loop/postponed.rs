//! What would wait for the disk, and is done elsewhere or later.

use super::listings::Listings;
use crate::helpers::Helpers;

/// Either helpers do it, or the loop does some of it itself, behind all that is quick.
#[derive(Default)]
pub(super) struct Postponed {
    /// Threads that wait for the disk, where the loop itself does not.
    pub(super) helpers: Option<Helpers>,
    /// Listings to be made, where there are no helpers.
    pub(super) listings: Listings,
}
