//! How long a run takes.

use std::time::Duration;

use serde::Serialize;

/// Lengths of the parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lengths {
    /// Before the measured window.
    pub warm_up: Duration,
    /// The measured window.
    pub measured: Duration,
    /// How long a client waits for a connection, and then for each reply.
    pub timeout: Duration,
    /// Into how many slices the measured window is cut where servers are interleaved.
    pub slices: u32,
}
