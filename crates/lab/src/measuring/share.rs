//! An even share of a CPU for each of several servers that run on it at the same time.
//!
//! Each has a control group of its own, all of the same weight. A group that has nothing to do would leave
//! its turns to the others: so each has a filler as well, which computes nothing whenever the server does not
//! want the CPU. What a server gets done is its own doing then, and not that of who runs beside it.
//!
//! A share that nobody has keeps a CPU awake: a host gives a virtual CPU that sleeps to others, and is slow
//! to wake it.

use anyhow::Result;

use crate::measuring::cgroup::{Controller, Group};
use crate::programs::child::Process;

/// A share. Dropping it ends what has it.
#[derive(Debug)]
pub(crate) struct Share {
    // It goes before the group does.
    _filler: Process,
    pub(crate) group: Group,
}

/// Of the policy that anybody else comes before, sched(7), and nice: its time counts as such in `/proc/stat`,
/// where nobody else's does.
const FILLER: [&str; 9] = ["nice", "-n", "19", "chrt", "--idle", "0", "sh", "-c", "while :; do :; done"];

impl Share {
    /// One of `cpu`: as much as each other there has.
    pub(crate) fn of(cpu: usize) -> Result<Self> {
        let group = Group::new(&[Controller::Cpu])?;
        let filler = group.start(Controller::Cpu, cpu, &FILLER)?;
        Ok(Self { _filler: filler, group })
    }

    /// Takes a process out of it: one that tells of the others. Behind a hundred that serve on a small part
    /// of a CPU it would take seconds to.
    pub(crate) fn excuse(&self, pid: u32) -> Result<()> {
        self.group.dismiss(Controller::Cpu, pid)
    }
}
