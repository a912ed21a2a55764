//! Workloads: the file sets that servers serve, and the sessions that clients play against them.
//!
//! Everything is made from a seed and comes out the same on every machine. Nothing here opens a socket: the load
//! generator plays what this crate writes, and so does httperf.

pub mod session;
pub mod wsesslog;
