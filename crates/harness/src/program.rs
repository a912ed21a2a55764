//! A server that runs from a copy of the program, which a test can replace.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::built;
use crate::server::{Server, Setup};

/// Starts the server, and returns the program's file.
pub fn from_a_file(setup: Setup) -> (Server, PathBuf) {
    let program = setup.directory().join("sluice");
    replace(&program, sluice());
    let usual = setup.command();
    let mut command = Command::new(&program);
    command.args(usual.get_args()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (setup.start_as(command), program)
}

/// Replaces the program's file in one step, as package managers do.
pub fn replace(program: &Path, by: impl AsRef<[u8]>) {
    let new = program.with_extension("new");
    // A shell writes the file. If this process wrote it, a process that another test forks meanwhile
    // would also have it open for writing, and then it could not be executed.
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
