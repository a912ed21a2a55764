//! The subcommands of sluicelab, a file for each.

pub(crate) mod doctor;
