//! The profile of a server: its CPU time by groups of functions, as in table 1 of the 2007 paper.
//! `profiler` takes the samples.

use serde::{Deserialize, Serialize};

/// The profile of one server at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// The name of the point.
    pub point: String,
    /// The name of the server.
    pub server: String,
    /// The groups, the largest first.
    pub groups: Vec<Part>,
}

/// One group of functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The group's name, such as `networking`.
    pub group: String,
    /// Its percentage of the CPU time of all groups.
    pub percent: f64,
}
