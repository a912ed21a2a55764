//! Starts, watches and ends programs.
//!
//! A [`child`] ends with this program. A server is started by the [`launcher`]. [`interrupt`] stops long
//! work; the [`janitor`] removes what it has set up. [`spinner`] keeps a CPU busy; [`others`] warns of
//! programs that are busy already; `ports` finds free ports; [`shell`] writes commands down. The
//! [`testbed`] is the machine and the programs of a measurement.

pub mod background;
pub mod child;
pub mod interrupt;
pub mod janitor;
pub mod launcher;
pub(crate) mod others;
pub(crate) mod ports;
pub mod shell;
pub mod spinner;
pub mod testbed;
