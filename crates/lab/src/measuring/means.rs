//! What experiments are run with: programs, CPUs, directories.

use std::path::PathBuf;

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
