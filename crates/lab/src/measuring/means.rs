//! The means of an experiment: programs, CPUs, directories.

use std::path::PathBuf;

use crate::programs::child::list;

/// What the lab uses to run an experiment.
#[derive(Clone, Debug)]
pub struct Means {
    /// Our server, where no other build is named.
    pub sluice: PathBuf,
    /// Our load generator.
    pub sluicelab: PathBuf,
    /// The directory that keeps file sets and sessions for later experiments.
    pub data: PathBuf,
    /// The CPUs that servers run on, and that receive their packets.
    pub server_cpus: Vec<usize>,
    /// The CPUs that clients run on.
    pub client_cpus: Vec<usize>,
    /// Whether to use the loopback interface even where namespaces are possible.
    pub loopback: bool,
    /// The command line, so that others can repeat it.
    pub command: String,
}

impl Means {
    /// The CPUs of servers and clients, in one line. A server with a worker for each CPU has as many
    /// workers.
    pub fn where_it_runs(&self) -> String {
        format!("servers run on CPU {}, clients on CPU {}", list(&self.server_cpus), list(&self.client_cpus))
    }
}
