//! Measures an experiment: what is measured in which order, and each trial.
//!
//! - `stages` and `plan` set what is measured when, and what is repeated; `search` finds the highest rate.
//! - `trial` is one measured run with certain [`means`]: servers (`subject`), and the [`generator`] or
//!   [`wrk`].
//! - A trial has its own network (`network`) and limits (`bounds`, `cgroup`, `share`, [`turns`]).
//! - Counters are read from outside (`sight`). Runs can also be sampled (`profiler`), or their system calls
//!   counted (`counter`). `figures` makes an outcome from all that.

pub(crate) mod bounds;
mod cgroup;
pub(crate) mod counter;
pub(crate) mod figures;
pub mod generator;
pub mod means;
pub(crate) mod network;
pub(crate) mod plan;
pub(crate) mod profiler;
mod search;
mod share;
pub(crate) mod sight;
pub(crate) mod stages;
pub(crate) mod subject;
pub(crate) mod trial;
pub mod turns;
pub mod wrk;
