//! The server: everything between settings and sockets.
//!
//! [`run`] opens sockets and logs, drops privileges, and passes a [`service`] and the listeners to an
//! [`architecture`]. The architecture runs [`conversation`]s, each of which has a socket and an
//! `http1::Connection`. They answer from [`content`].

#![allow(
    clippy::disallowed_methods,
    reason = "clippy.toml bans them for architecture/user_threads/program.rs alone"
)]

pub mod accept;
pub mod access_log;
pub mod account;
pub mod affinity;
pub mod allotment;
pub mod architecture;
pub mod buffers;
pub mod channel;
mod check;
pub mod common;
pub mod config;
pub mod content;
pub mod control;
pub mod conversation;
pub mod counters;
pub mod crew;
pub mod dates;
pub mod error_log;
mod faults;
pub mod gateway;
pub mod handed_send;
pub mod handshakes;
pub mod helpers;
pub mod ip_text;
pub mod line;
pub mod listeners;
pub mod memory;
pub mod names;
pub mod outbox;
pub mod placement;
pub mod plain;
pub mod proxies;
pub mod queues;
pub mod registration;
pub mod secured;
#[cfg(test)]
mod seeded;
pub mod sends;
pub mod service;
pub mod shortfalls;
pub mod slab;
pub mod status;
pub mod supervisor;
pub mod timers;
pub mod tls;

pub use check::{Findings, check};
pub use supervisor::{RunError, run};
