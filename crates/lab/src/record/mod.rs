//! What is kept of measurements: the [`outcome`] of each trial, [`profile`]s of CPU time, all of it in a
//! [`journal`]; and what a search for settings came to ([`tuned`]).

pub mod journal;
pub mod outcome;
pub mod profile;
pub mod tuned;
