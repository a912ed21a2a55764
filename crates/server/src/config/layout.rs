//! How a copy of the server is divided into processes and threads, by what they are there for.
//!
//! Who shares out descriptors, counters, files or CPUs asks this, and not which architecture it is.

use super::settings::{Architecture, Settings};

/// The processes of a copy, all of the same make, and the threads of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Processes of a copy. Each has its place: CPUs, and listeners of those of the copy.
    pub processes: usize,
    /// The threads of each process that have work to do, by role.
    pub threads: Vec<Threads>,
    /// All processes of the server have one descriptor table, and those of a copy one table of open files.
    pub shares_descriptors: bool,
}

/// Threads of a process with the same role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// What they are there for.
    pub role: Role,
    /// How many of them there are.
    pub count: usize,
}

/// What a thread is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves connections, with counters, buffers and (where the copy has none in common) a table of open
    /// files of its own.
    Serve,
    /// Waits for the disk in the place of those that serve.
    AwaitDisk,
}

impl Layout {
    /// How many threads of each process have the role.
    pub fn threads(&self, role: Role) -> usize {
        self.threads.iter().filter(|threads| threads.role == role).map(|threads| threads.count).sum()
    }
}

impl Settings {
    /// How each copy is divided into processes and threads.
    pub fn layout(&self) -> Layout {
        let serve = |count| Threads { role: Role::Serve, count };
        let await_disk = Threads { role: Role::AwaitDisk, count: self.amped.helpers.get() as usize };
        let (processes, threads) = match self.architecture {
            Architecture::Sped
            | Architecture::Symped
            | Architecture::SharedSymped
            | Architecture::NCopy
            | Architecture::Processes => (self.workers, vec![serve(1)]),
            Architecture::Amped => (self.workers, vec![serve(1), await_disk]),
            Architecture::Threads => (1, vec![serve(self.workers)]),
        };
        let shares_descriptors = self.architecture == Architecture::SharedSymped;
        Layout { processes, threads, shares_descriptors }
    }
}
