//! Children that have ended, or that were told to end and are of no more interest, until they are reaped.
//!
//! Reaping a child removes its entries from `/proc`. If another process reads these at the same time, or
//! if the child's threads are still ending, the kernel has been observed to loop for 13 seconds. The
//! caller is blocked meanwhile. So children are reaped later. Until then a process that has ended takes
//! up little more than its id.

use std::io;
use std::time::{Duration, Instant};

use sys::process;

/// How long after its end a child is reaped.
const REST: Duration = Duration::from_secs(2);

/// Children to be reaped.
#[derive(Default)]
pub(super) struct Remains {
    /// Each child with the time when it is due, in ascending order.
    children: Vec<(u32, Instant)>,
}

impl Remains {
    /// Schedules a child to be reaped. If it has not ended by then, it is scheduled again.
    pub(super) fn add(&mut self, pid: u32) {
        self.children.push((pid, Instant::now() + REST));
    }

    /// When to call [`clear_away`](Self::clear_away) next, if ever.
    pub(super) fn due(&self) -> Option<Instant> {
        self.children.first().map(|&(_, due)| due)
    }

    /// Reaps the children that are due. Also reaps orphans, which the first process of a container gets.
    /// It does not reap `children`, which are handled elsewhere. wait(2).
    pub(super) fn clear_away(&mut self, children: &[u32]) -> io::Result<()> {
        let now = Instant::now();
        let due = self.children.partition_point(|&(_, due)| due <= now);
        for (pid, _) in self.children.drain(..due).collect::<Vec<_>>() {
            if !process::reap(pid)? {
                self.add(pid);
            }
        }
        // The kernel reports the first only. The others appear when our own before them are gone.
        while let Some(first) = process::any_ended()?
            && !children.contains(&first)
            && self.pids().all(|pid| pid != first)
        {
            process::reap(first)?;
        }
        Ok(())
    }

    /// The process ids of all of them.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.children.iter().map(|&(pid, _)| pid)
    }
}
