//! What every architecture needs, however it runs connections: listeners in use, samples of their accept
//! queues, an orderly end, and names for the sources of events.

pub(super) mod ending;
pub(super) mod failing;
pub(super) mod listener_handles;
pub(super) mod samples;
pub(super) mod token;

/// The stack of a serving thread: many times what serving needs. Only touched pages take memory.
pub(super) const STACK: usize = 512 << 10;
