//! Children that have ended, or have been told to and are of no more interest, until the kernel has cleared
//! them away.
//!
//! Reaping a child takes its entries out of `/proc`. Where somebody looks at these at the same time, or the
//! child's threads are still about it, the kernel has been seen to go round for 13 seconds, and the caller
//! can do nothing meanwhile. So it is done when all that has calmed down: until then a process that has ended
//! takes up little but its id.

use std::io;
use std::time::{Duration, Instant};

use sys::process;

/// How long after its end a child is reaped.
const REST: Duration = Duration::from_secs(2);

/// Children to be reaped.
#[derive(Default)]
pub(super) struct Remains {
    /// Each with the time when it is due, which ascends.
    children: Vec<(u32, Instant)>,
}

impl Remains {
    /// Has a child reaped later, if it has ended by then; otherwise later still.
    pub(super) fn add(&mut self, pid: u32) {
        self.children.push((pid, Instant::now() + REST));
    }

    /// When [`clear_away`](Self::clear_away) is to be called next, if ever.
    pub(super) fn due(&self) -> Option<Instant> {
        self.children.first().map(|&(_, due)| due)
    }

    /// Reaps those that are due; and orphans, which a container's first process gets: not one of `children`,
    /// who are taken notice of elsewhere. wait(2).
    pub(super) fn clear_away(&mut self, children: &[u32]) -> io::Result<()> {
        let now = Instant::now();
        let due = self.children.partition_point(|&(_, due)| due <= now);
        for (pid, _) in self.children.drain(..due).collect::<Vec<_>>() {
            if !process::reap(pid)? {
                self.add(pid);
            }
        }
        // The kernel tells the first alone: others are found when those of ours before them are gone.
        while let Some(first) = process::any_ended()?
            && !children.contains(&first)
            && self.pids().all(|pid| pid != first)
        {
            process::reap(first)?;
        }
        Ok(())
    }

    /// All of them.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.children.iter().map(|&(pid, _)| pid)
    }
}
