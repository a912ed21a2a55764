//! Parses and checks an experiment's file.
//!
//! An [`experiment`] has servers and points. Each point has a [`setting`]: what clients request
//! ([`workload`]), how much load ([`load`], and by which [`classes`] of clients), and which generator makes
//! it ([`tool`]). Servers are compared there by a [`quantity`]. A [`finding`] is a result of others that the
//! experiment checks.

pub mod classes;
pub mod expected;
pub mod experiment;
pub mod finding;
mod grid;
mod keys;
mod kinds;
pub mod lengths;
pub mod load;
pub mod quantity;
pub mod setting;
pub mod slow_cpu;
pub mod tool;
pub mod workload;
mod written;
