//! A terminal for a test, pty(7). It records what programs show, and sends what the test types.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::server::{Server, Setup};

/// The user's side of the terminal. It is closed when this is dropped.
pub struct Terminal {
    typing: File,
    shown: Arc<Mutex<String>>,
    /// Keeps the reading thread alive. Dropping this ends the thread.
    _open: std::io::PipeWriter,
}

impl Terminal {
    /// A terminal, and its side for programs.
    pub fn open() -> (Self, File) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let user: OwnedFd = openpt(flags).expect("a terminal");
        grantpt(&user).expect("a terminal");
        unlockpt(&user).expect("a terminal");
        let name = ptsname(&user, Vec::new()).expect("it has a name");
        let nobodys = rustix::fs::OFlags::NOCTTY.bits() as i32;
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, nobodys);
        let programs = options.read(true).write(true).open(name.to_str().expect("text")).expect("a terminal");
        let typing = File::from(user);
        let (end, open) = std::io::pipe().expect("a pipe");
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut reading, text) = (typing.try_clone().expect("a descriptor"), Arc::clone(&shown));
        thread::spawn(move || {
            let mut piece = [0; 4096];
            loop {
                let mut both = [PollFd::new(&reading, PollFlags::IN), PollFd::new(&end, PollFlags::IN)];
                poll(&mut both, None).expect("two descriptors");
                if !both[1].revents().is_empty() {
                    return;
                }
                match reading.read(&mut piece) {
                    Ok(n) => {
                        let piece = String::from_utf8_lossy(&piece[..n]);
                        text.lock().expect("no reader panics").push_str(&piece);
                    }
                    // No program has the terminal open any more.
                    Err(_) => return,
                }
            }
        });
        (Self { typing, shown, _open: open }, programs)
    }

    /// Starts a server on the terminal, in a new session. The command begins with the words in `shell`,
    /// if there are any.
    #[track_caller]
    pub fn start(setup: Setup, shell: &[&str]) -> (Self, Server) {
        let (terminal, programs) = Self::open();
        let usual = setup.command();
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(shell).arg(usual.get_program()).args(usual.get_args());
        command.stdin(programs.try_clone().expect("a descriptor")).stdout(programs).stderr(Stdio::piped());
        (terminal, setup.start_as(command))
    }

    /// What has been shown so far.
    pub fn shown(&self) -> String {
        self.shown.lock().expect("no reader panics").clone()
    }

    /// Types these keys.
    pub fn type_in(&mut self, keys: &str) {
        self.typing.write_all(keys.as_bytes()).expect("it takes keys");
    }
}
