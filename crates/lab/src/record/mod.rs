//! Stores measurements: the [`outcome`] of each trial and the [`profile`]s of CPU time, all in a
//! [`journal`], and the results of searches for settings ([`tuned`]).

pub mod journal;
mod old;
pub mod outcome;
pub mod profile;
pub mod tuned;

/// The directory of the trials' records, within a directory of results.
pub const TRIALS: &str = "trials";

/// The version of `journal.jsonl`, in its member `schema`. It changes when something is removed, renamed or
/// gets another meaning. `docs/schemas/` describes it. A journal without a version has version 1.
pub const SCHEMA: u64 = 3;
