//! Gives each of several servers an equal share of a CPU on which they run at the same time.
//!
//! Each server has its own control group, all with the same weight. A group with nothing to do would leave
//! its CPU time to the others. So each group also has a filler process, which runs whenever the server does
//! not want the CPU. What a server gets done then does not depend on the other servers.
//!
//! A filler also keeps an idle CPU awake. A host gives a sleeping virtual CPU to other machines, and wakes
//! it slowly.

use anyhow::Result;

use crate::measuring::cgroup::{Controller, Group};
use crate::programs::child::Process;

/// A share. Dropping it ends its processes.
#[derive(Debug)]
pub(crate) struct Share {
    // Dropped before the group.
    _filler: Process,
    pub(crate) group: Group,
}

/// The filler's command. The policy (sched(7)) puts it after every other process. Because of nice,
/// `/proc/stat` shows its time separately, where no other process appears.
const FILLER: [&str; 9] = ["nice", "-n", "19", "chrt", "--idle", "0", "sh", "-c", "while :; do :; done"];

impl Share {
    /// A share of `cpu`, as large as each other share there.
    pub(crate) fn of(cpu: usize) -> Result<Self> {
        let group = Group::new(&[Controller::Cpu])?;
        let filler = group.start(Controller::Cpu, cpu, &FILLER)?;
        Ok(Self { _filler: filler, group })
    }

    /// Moves a process that reports the status of others out of the share. Otherwise it would take seconds,
    /// behind a hundred processes that serve on a small part of a CPU.
    pub(crate) fn excuse(&self, pid: u32) -> Result<()> {
        self.group.dismiss(Controller::Cpu, pid)
    }
}
