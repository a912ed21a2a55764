//! What is measured in which order, and one trial of it.
//!
//! - `stages` and `plan`: what is measured when, and what again; `search`: for the highest rate;
//! - `trial`: one measured run with certain [`means`]: servers (`subject`), and the [`generator`] or [`wrk`];
//! - in a network (`network`) and under bounds (`bounds`, `cgroup`, `share`, [`turns`]) of their own;
//! - looked at from outside (`sight`), sampled (`profiler`), its system calls counted (`counter`), and
//!   turned into an outcome (`figures`).

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
