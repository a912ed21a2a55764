//! How a copy of the server is divided into processes and threads, by their role.
//!
//! Code that divides descriptors, counters, files or CPUs uses this layout, and does not depend on the
//! architecture.

use super::settings::{Architecture, CopiesBy, PipelineSettings, Settings, Stages};

/// The processes of a copy, which are all alike, and the threads of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Processes in a copy. Each has its own CPUs, and its own subset of the copy's listeners.
    pub processes: usize,
    /// The threads in each process that do work, by role.
    pub threads: Vec<Threads>,
    /// All processes of the server share one descriptor table. Those of a copy share one table of open
    /// files.
    pub shares_descriptors: bool,
    /// The threads of a process share its connections and its table of open files.
    pub shares_connections: bool,
}

/// The threads of a process that have the same role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Their role.
    pub role: Role,
    /// Their number.
    pub count: usize,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves connections. Such a thread has its own counters and buffers, and its own table of open
    /// files unless that table is shared.
    Serve,
    /// Waits for the disk instead of the serving threads.
    AwaitDisk,
}

impl Layout {
    /// How many threads of each process have the role.
    pub fn threads(&self, role: Role) -> usize {
        self.threads.iter().filter(|threads| threads.role == role).map(|threads| threads.count).sum()
    }

    /// How many threads of each process own connections, and open files unless that table is shared.
    pub fn owners(&self) -> usize {
        if self.shares_connections { 1 } else { self.threads(Role::Serve) }
    }
}

/// The threads of a pipeline, by stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageThreads {
    /// One thread for each address.
    pub accept: usize,
    /// Those that wait for input, and for room to write.
    pub read_poll: usize,
    /// For all workers together. With four stages, one thread does Read Poll and Read.
    pub read: usize,
    /// Threads that wait for room to write.
    pub write_poll: usize,
    /// For all workers together.
    pub write: usize,
}

impl StageThreads {
    /// The threads of all stages together.
    pub fn all(self) -> usize {
        let Self { accept, read_poll, read, write_poll, write } = self;
        accept + read_poll + read + write_poll + write
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
            Architecture::Amped | Architecture::UserThreads | Architecture::Uring => {
                (self.workers, vec![serve(1), await_disk])
            }
            Architecture::Threads => (1, vec![serve(self.workers)]),
            Architecture::Pipeline => (1, vec![serve(self.stage_threads().all())]),
        };
        let shares_descriptors = self.architecture == Architecture::SharedSymped;
        let shares_connections = self.architecture == Architecture::Pipeline;
        Layout { processes, threads, shares_descriptors, shares_connections }
    }

    /// The threads of each pipeline.
    pub fn stage_threads(&self) -> StageThreads {
        let PipelineSettings { stages, readers, writers, .. } = self.pipeline;
        let [readers, writers] = [readers, writers].map(|each| each.get() as usize * self.workers);
        let by_address = self.copies_by == CopiesBy::Address;
        let accept = if by_address { self.listen.len() / self.copies } else { self.listen.len() };
        let read = if stages == Stages::Five { readers } else { 1 };
        StageThreads { accept: accept.max(1), read_poll: 1, read, write_poll: 1, write: writers }
    }

    /// How many parts the addresses of a copy are divided into, if they are divided.
    pub fn partitions(&self) -> usize {
        if self.architecture == Architecture::Pipeline { self.workers } else { self.layout().processes }
    }
}
