//! Starts, watches and ends programs.
//!
//! A [`child`] ends with this program. The [`launcher`] starts servers. [`interrupt`] stops long work, and
//! the [`janitor`] removes what that has set up. [`spinner`] keeps a CPU busy; [`others`] warns of programs
//! that are already busy; `ports` finds free ports; [`shell`] formats commands. The [`testbed`] describes
//! the machine and the programs of a measurement.

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
