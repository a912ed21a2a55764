//! Where the CPU time of a server went, by groups of functions: table 1 of the 2007 paper. `profiler` takes
//! the samples.

use serde::{Deserialize, Serialize};

/// Of one server at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// The point's name.
    pub point: String,
    /// The server's.
    pub server: String,
    /// Those with more before those with less.
    pub groups: Vec<Part>,
}

/// One group of functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Such as `networking`.
    pub group: String,
    /// Of the CPU time of all groups.
    pub percent: f64,
}
