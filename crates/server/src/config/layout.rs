//! How a copy of the server is divided into processes and threads, by what they are there for.
//!
//! Who shares out descriptors, counters, files or CPUs asks this, and not which architecture it is.

use super::settings::{Architecture, CopiesBy, PipelineSettings, Settings, Stages};

/// The processes of a copy, all of the same make, and the threads of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Processes of a copy. Each has its place: CPUs, and listeners of those of the copy.
    pub processes: usize,
    /// The threads of each process that have work to do, by role.
    pub threads: Vec<Threads>,
    /// All processes of the server have one descriptor table, and those of a copy one table of open files.
    pub shares_descriptors: bool,
    /// The threads of a process have its connections and its table of open files in common.
    pub shares_connections: bool,
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
    /// Serves connections, with counters, buffers and (where there is none in common) a table of open files
    /// of its own.
    Serve,
    /// Waits for the disk in the place of those that serve.
    AwaitDisk,
}

impl Layout {
    /// How many threads of each process have the role.
    pub fn threads(&self, role: Role) -> usize {
        self.threads.iter().filter(|threads| threads.role == role).map(|threads| threads.count).sum()
    }

    /// How many of each process have connections of their own, and open files (where there is no table in
    /// common).
    pub fn owners(&self) -> usize {
        if self.shares_connections { 1 } else { self.threads(Role::Serve) }
    }
}

/// The threads of a pipeline, by stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageThreads {
    /// One for each address.
    pub accept: usize,
    /// Those that wait for input, and for room to write.
    pub read_poll: usize,
    /// For all workers together. One is a part of Read Poll, where there are four stages.
    pub read: usize,
    /// Those that wait for room to write.
    pub write_poll: usize,
    /// For all workers together.
    pub write: usize,
}

impl StageThreads {
    /// Of all stages.
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
            Architecture::Amped => (self.workers, vec![serve(1), await_disk]),
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

    /// Among how many the addresses of a copy are dealt out, where they are.
    pub fn partitions(&self) -> usize {
        if self.architecture == Architecture::Pipeline { self.workers } else { self.layout().processes }
    }
}
