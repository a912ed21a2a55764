//! What every architecture needs, however it runs connections: listeners in use, what is seen of their accept
//! queues, an end in good order, and names for what events are about.

pub(super) mod doors;
pub(super) mod ending;
pub(super) mod failing;
pub(super) mod samples;
pub(super) mod token;

/// The stack of a thread that serves: many times what serving takes. Only what is touched takes memory.
pub(super) const STACK: usize = 512 << 10;
