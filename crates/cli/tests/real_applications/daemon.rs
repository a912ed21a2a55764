//! A program that runs in the background, with all that it starts.

use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::eventually;

/// A program that answers at a Unix socket; ends with this.
pub(super) struct Daemon(Child);

impl Daemon {
    /// Starts it, and waits until it answers.
    pub(super) fn start(command: &mut Command, socket: &Path) -> Self {
        let program = command.get_program().to_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; scripts/install-test-tools", program.display()));
        let daemon = Self(child);
        eventually("it listens", || UnixStream::connect(socket).is_ok());
        daemon
    }

    /// fcgiwrap with so many children, at a socket in that directory.
    pub(super) fn fcgiwrap(socket: &Path, children: u32) -> Self {
        let mut command = Command::new("fcgiwrap");
        command.arg(format!("-c{children}")).args(["-f", "-s"]).arg(format!("unix:{}", socket.display()));
        Self::start(&mut command, socket)
    }

    /// One process of a program that has its socket of `spawn-fcgi`.
    pub(super) fn spawned(socket: &Path, program: &[&Path]) -> Self {
        let mut command = Command::new("spawn-fcgi");
        command.args(["-n", "-s"]).arg(socket).arg("--").args(program);
        Self::start(&mut command, socket)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
