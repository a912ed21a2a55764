//! The figures that our programs exchange as JSON: the results of the load generator ([`load`], described in
//! `docs/lab-results.md`) and the status of the server ([`status`], described in `docs/status.md`).
//!
//! The program that writes a figure and the programs that read it use the same type. A figure that is renamed
//! on one side only does not compile. The crate holds data and nothing else: what is computed from figures,
//! or told of them, is in the crates that do so.
//!
//! Writers and readers may be of different versions. Most members that a writer left out have their default,
//! and members that the reader does not know are ignored. What readers must not mistake has another `schema`.

mod by;
pub mod load;
mod queue_drops;
pub mod status;

pub use by::{By, Label, StatusClass};
pub use queue_drops::QueueDrops;
