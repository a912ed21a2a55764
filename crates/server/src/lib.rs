//! The server.

pub mod access_log;
pub mod counters;
pub mod error_log;
