//! What a descriptor is registered for with an event mechanism. It is kept with whatever has the descriptor.

/// What a descriptor is registered for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// Not at all.
    #[default]
    None,
    /// For everything, by edges.
    Edge,
    /// For these conditions, by levels.
    Level {
        /// Input.
        readable: bool,
        /// Room for output.
        writable: bool,
    },
}
