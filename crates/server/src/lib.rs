//! The server.

pub mod access_log;
pub mod config;
pub mod content;
pub mod counters;
pub mod error_log;
pub mod status;
