//! The lengths of the parts of a run.

use std::time::Duration;

use serde::Serialize;

/// The lengths of the parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lengths {
    /// The warm-up, before the measured window.
    pub warm_up: Duration,
    /// The measured window.
    pub measured: Duration,
    /// How long a client waits for a connection, and then for each reply.
    pub timeout: Duration,
    /// The number of slices in the measured window, where servers are interleaved.
    pub slices: u32,
}
