//! Who moves the bytes of a [`Conversation`](crate::conversation::Conversation): what comes in, what it wants
//! sent, and the ends that it wants.
//!
//! There is one channel, [`plain`]: for a socket whose bytes are what the client reads, and for calls that
//! tell at once what came of them.

pub mod plain;

pub use plain::{Client, Plain};
