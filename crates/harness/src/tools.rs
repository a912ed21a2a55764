//! Real programs that tests run against the server. `scripts/install-test-tools` installs them, and without
//! them a test fails.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// How to get what is missing.
pub const HOW_TO_GET: &str = "run scripts/install-test-tools";

/// A program that is started in a directory, without the proxies and the configuration of the user.
pub fn command(directory: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).stdin(Stdio::null());
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command.env("HOME", directory).env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
    command
}

/// Runs a program to its end.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; {HOW_TO_GET}"))
}

/// Runs a program that must succeed, and returns its standard output.
#[track_caller]
pub fn stdout(command: &mut Command) -> Vec<u8> {
    let output = output(command);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{told}", output.status);
    output.stdout
}

/// Runs a program in a directory. It must succeed. Returns its standard output.
#[track_caller]
pub fn succeed(directory: &Path, program: &str, arguments: &[&str]) -> Vec<u8> {
    stdout(command(directory, program).args(arguments))
}
