//! Numbers of sites and routes. All other code refers to them by number.

/// The number of a site; 0 is the default site.
pub type SiteNumber = u16;

/// The number of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere(pub(super) usize);
