//! Searches for settings with a series of experiments, each with the best candidates of the one before
//! ([`tune`]).

pub mod tune;
