//! The subcommands of sluicelab, one file each, and what they share.

mod answering;
pub(crate) mod application;
mod asked;
pub(crate) mod besim;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod fileset;
pub(crate) mod load;
mod means;
pub(crate) mod papers;
mod pinned;
mod progress;
pub(crate) mod run;
pub(crate) mod sessions;
pub(crate) mod tune;
mod values;

use std::io::{self, Write as _};
use std::path::Path;

use ::load::output::Output;

/// A mistake in the command line, or in a file that it names.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Prints a line on standard error, and ignores failures. `eprintln!` would panic if standard error is
/// closed.
pub(crate) fn tell(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Opens the output file of an option. Call this before the work, whose results would otherwise be lost.
fn output(option: &str, path: &Path) -> Result<Output, BadInput> {
    Output::open(path).map_err(|error| BadInput(format!("{option} {}: {error}", path.display())))
}
