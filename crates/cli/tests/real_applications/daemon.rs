//! A program that runs in the background, with all that it starts.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use harness::eventually;

/// A program that answers at a socket; ends with this.
pub(super) struct Daemon(Child);

impl Daemon {
    /// Starts it, and waits until it answers at a Unix socket.
    pub(super) fn start(command: &mut Command, socket: &Path) -> Self {
        Self::started(command, || UnixStream::connect(socket).is_ok())
    }

    fn started(command: &mut Command, is_there: impl Fn() -> bool) -> Self {
        let program = command.get_program().to_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; scripts/install-test-tools", program.display()));
        let daemon = Self(child);
        eventually("it listens", is_there);
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

    /// So many of them, which have theirs over TCP.
    pub(super) fn spawned_over_tcp(address: SocketAddr, program: &[&Path], processes: usize) -> Self {
        // What runs in a shell's background has no standard input, where their socket is.
        let many = format!("exec 3<&0; for i in $(seq {processes}); do \"$@\" <&3 & done; wait");
        let mut command = Command::new("spawn-fcgi");
        command.args(["-n", "-a", &address.ip().to_string(), "-p", &address.port().to_string(), "--"]);
        command.args(["/bin/sh", "-c", &many, "sh"]).args(program);
        Self::started(&mut command, || TcpStream::connect(address).is_ok())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
