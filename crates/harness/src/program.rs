//! A server that runs from a file of its own, which can be replaced.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::built;
use crate::server::{Server, Setup};

/// Starts it, and gives its file.
pub fn from_a_file(setup: Setup) -> (Server, PathBuf) {
    let program = setup.directory().join("sluice");
    replace(&program, sluice());
    let usual = setup.command();
    let mut command = Command::new(&program);
    command.args(usual.get_args()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (setup.start_as(command), program)
}

/// The file is replaced by another in one step, as package managers do.
pub fn replace(program: &Path, by: impl AsRef<[u8]>) {
    let new = program.with_extension("new");
    // What another test forks meanwhile would have the file open as well if it were written here, and it
    // could not be run.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(&new).stdin(Stdio::piped());
    let mut shell = shell.spawn().expect("a shell");
    shell.stdin.take().expect("a pipe").write_all(by.as_ref()).expect("it is written");
    assert!(shell.wait().expect("a shell").success());
    fs::rename(&new, program).expect("it can be replaced");
}

/// The bytes of the real program.
pub fn sluice() -> Vec<u8> {
    fs::read(built::sluice()).expect("a program")
}
