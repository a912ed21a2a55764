//! Sites and their routes by number, which is how everything else names them.

/// A site by its number; 0 is the default one.
pub type SiteNumber = u16;

/// A route by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere(pub(super) usize);
