//! The lab: runs what an experiment's file describes, compares, and reports.
//!
//! It drives programs, `sluicelab load` among them, and links no server. Its rooms, each of which uses only
//! those before it:
//!
//! - [`programs`]: starts, watches and ends programs;
//! - [`servers`]: how each kind of server is named, configured and started;
//! - [`record`]: what is kept of measurements: outcomes, profiles, the journal;
//! - [`description`]: what an experiment's file says, checked;
//! - [`judging`]: what trials say: series, verdicts, and whether servers were in a steady state;
//! - [`measuring`]: what is measured in which order, and one trial of it;
//! - [`report`]: what a directory of results says: on a page, in files for other programs, on a terminal;
//! - [`run`]: an experiment from its file to its directory of results;
//! - [`tuning`]: experiments after each other, each of what was best in the one before;
//! - [`papers`]: what papers have found, and what experiments say of it.
//!
//! All rooms use [`statistics`], [`progress`] and [`table`].

pub mod description;
pub mod judging;
pub mod measuring;
mod near;
pub mod papers;
pub mod programs;
pub mod progress;
pub mod record;
pub mod report;
pub mod run;
pub mod servers;
pub mod statistics;
pub mod table;
#[cfg(test)]
mod tests;
pub mod tuning;
mod unique;
