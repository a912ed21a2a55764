//! What experiments are run with: programs, CPUs, directories.

use std::path::PathBuf;

use crate::programs::child::list;

/// What an experiment is run with.
#[derive(Clone, Debug)]
pub struct Means {
    /// Our server, where no other build is named.
    pub sluice: PathBuf,
    /// Our load generator.
    pub sluicelab: PathBuf,
    /// Where file sets and sessions are kept for the next experiment.
    pub data: PathBuf,
    /// The CPUs that servers run on, and that receive their packets.
    pub server_cpus: Vec<usize>,
    /// The CPUs that clients run on.
    pub client_cpus: Vec<usize>,
    /// Whether the loopback interface is to be used even where namespaces may be made.
    pub loopback: bool,
    /// The command, as others can repeat it.
    pub command: String,
}

impl Means {
    /// Which CPUs servers and clients have, in a line: a server with a worker for each CPU has as many
    /// workers.
    pub fn where_it_runs(&self) -> String {
        format!("servers run on CPU {}, clients on CPU {}", list(&self.server_cpus), list(&self.client_cpus))
    }
}
