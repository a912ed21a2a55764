//! What a connection remembers of the server that it leads to.

/// A server of a pool, even after another has got its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerId {
    /// The number of its place.
    pub(super) at: usize,
    /// How many addresses had this place before.
    pub(super) before: u32,
}
