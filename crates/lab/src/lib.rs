//! Library of the measuring lab: runs the experiment that a file describes, compares servers, and writes
//! the report.
//!
//! It starts programs, `sluicelab load` among them, and links no server. Each of its modules uses only
//! those listed before it:
//!
//! - [`programs`]: starts, watches and ends programs;
//! - [`servers`]: names, configures and starts each kind of server;
//! - [`record`]: the stored results: outcomes, profiles, the journal;
//! - [`description`]: parses and checks an experiment's file;
//! - [`analysis`]: evaluates trials: series, verdicts, and whether servers were in a steady state;
//! - [`measuring`]: plans what is measured in which order, and runs each trial;
//! - [`report`]: presents a directory of results: as a page, in files for other programs, and on a
//!   terminal;
//! - [`run`]: takes an experiment from its file to its directory of results;
//! - [`tuning`]: searches for good settings with a series of experiments, each with the best of the one
//!   before;
//! - [`papers`]: what papers have found, and what our experiments show about it.
//!
//! All modules use [`statistics`], [`progress`] and [`table`].

pub mod analysis;
pub mod description;
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
