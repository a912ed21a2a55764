//! The lab: runs what an experiment's file describes, compares, and tells.
//!
//! It drives programs, `sluicelab load` among them, and links no server. From the file to the report:
//!
//! - [`experiment`]: what the file says, checked: servers ([`spec`]), what they are asked for ([`workload`]),
//!   how much ([`load`]), by what they are compared ([`quantity`]), what others have found ([`finding`]);
//! - `plan`: what is measured in which order, and what again;
//! - `trial`: one measured run: servers ([`servers`], `subject`) and the [`generator`], in a network
//!   (`network`) and under bounds (`bounds`, `cgroup`, `share`, `turns`) of their own, looked at from outside
//!   (`sight`) and sampled (`profiler`), and what came of it ([`outcome`], [`profile`]);
//! - [`run`]: all of it with certain [`means`], into a directory ([`journal`] what was measured so far,
//!   `janitor` who cleans up);
//! - [`results`]: what a directory says: [`series`] of trials, [`statistics`], [`verdict`]s, and whether
//!   servers were [`steady`];
//! - [`report`]: that as a page and as files for other programs, and [`summary`]: on a terminal;
//! - [`tune`]: experiments after each other, each of what was best in the one before, and what they came to
//!   ([`tuned`]).
//!
//! What starts, watches and ends programs is there for others as well: [`child`], [`launcher`],
//! [`interrupt`], [`spinner`], [`testbed`], [`table`]; and [`others`], who should not be there.

pub mod background;
mod bounds;
mod cgroup;
pub mod child;
pub mod experiment;
pub mod finding;
pub mod generator;
pub mod interrupt;
pub mod janitor;
pub mod journal;
pub mod launcher;
pub mod load;
pub mod means;
mod network;
pub mod others;
pub mod outcome;
mod plan;
pub mod profile;
mod profiler;
pub mod progress;
pub mod quantity;
pub mod report;
pub mod results;
pub mod run;
pub mod search;
pub mod series;
pub mod servers;
mod share;
mod sight;
pub mod spec;
pub mod spinner;
mod stages;
pub mod statistics;
pub mod steady;
mod subject;
pub mod summary;
pub mod table;
pub mod testbed;
#[cfg(test)]
mod tests;
mod trial;
pub mod tune;
pub mod tuned;
pub mod turns;
mod unique;
pub mod units;
pub mod verdict;
mod workload;

pub use experiment::Order;
pub use plan::Found;
pub use workload::Workload;
