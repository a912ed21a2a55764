//! The concurrency architectures. Each owns its whole control flow: it calls the connections, and decides what happens
//! when one would block.
//!
//! An architecture is a function `run(Service, Listeners, Gate, &Shutdown, ...)` that returns when the server has drained or
//! stopped. Architectures never import one another; the event-driven ones share [`event_loop`].

pub mod event_loop;
mod events;
pub mod sped;
