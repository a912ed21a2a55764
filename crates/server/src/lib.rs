//! The server.

pub mod counters;
