//! What an experiment's file says, checked.
//!
//! An [`experiment`] has servers and points. Each point has a [`setting`]: what servers are asked for
//! ([`workload`]), how much ([`load`]), by whom ([`tool`]). Servers are compared there by a [`quantity`]. A
//! [`finding`] is what others have found.

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
pub mod tool;
pub mod workload;
mod written;
