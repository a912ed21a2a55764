//! What is kept of measurements: the [`outcome`] of each trial, [`profile`]s of CPU time, all of it in a
//! [`journal`]; and what a search for settings came to ([`tuned`]).

pub mod journal;
mod old;
pub mod outcome;
pub mod profile;
pub mod tuned;

/// The directory of the trials' records, in one of results.
pub const TRIALS: &str = "trials";

/// The version of `journal.jsonl`, which it has as `schema`: changes when something is removed, renamed or
/// comes to mean something else. `docs/schemas/` describes it. A journal without it is of version 1.
pub const SCHEMA: u64 = 3;
