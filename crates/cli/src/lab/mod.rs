//! The subcommands of sluicelab, a file for each, and what they share.

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

/// What was typed, or a file that was named, is not acceptable.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Says a line on standard error, whether anybody can hear it or not: `eprintln!` panics where nobody can.
pub(crate) fn tell(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// The file of an option, before work that would be lost without it.
fn output(option: &str, path: &Path) -> Result<Output, BadInput> {
    Output::open(path).map_err(|error| BadInput(format!("{option} {}: {error}", path.display())))
}
