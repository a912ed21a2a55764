//! What an experiment's file says, checked.
//!
//! An [`experiment`] has servers, what they are asked for ([`workload`]), how much ([`load`]), by whom
//! ([`tool`]), by what they are compared ([`quantity`]), and what others have found ([`finding`]).

pub mod expected;
pub mod experiment;
pub mod finding;
mod grid;
mod keys;
mod kinds;
pub mod lengths;
pub mod load;
pub mod quantity;
pub mod tool;
pub mod workload;
