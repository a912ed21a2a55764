//! What a descriptor is registered for with an event mechanism. The descriptor's owner stores it.

/// What a descriptor is registered for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// Not at all.
    #[default]
    None,
    /// For everything, edge-triggered.
    Edge,
    /// For everything except input, which a ring receives by itself. Edge-triggered.
    BesidesInput,
    /// For everything, by a ring that sends. Edge-triggered.
    WithRing,
    /// For these conditions, level-triggered.
    Level {
        /// Input.
        readable: bool,
        /// Room for output.
        writable: bool,
    },
}
