//! Channels. A channel moves the bytes of a [`Conversation`](crate::conversation::Conversation): it receives
//! input, sends what the conversation wants sent, and ends the connection as the conversation wants.
//!
//! There is one channel, [`plain`]. It makes system calls on a socket, whose results are known at once, and
//! does not change the bytes.

pub mod plain;

pub use plain::{Client, Plain};
