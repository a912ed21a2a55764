//! Windows of files that a ring loads instead of helpers. Who waits for them, how many there may be and when
//! they are given up is as for helpers. The kernel has the threads that wait.

use super::{Bounds, Fetch, Helpers, Job, MOST_HELPERS, Name, Queue, Running, Task};
use crate::slab::Slab;

/// Most loads at one time, besides those that are stuck.
const AT_ONCE: usize = 32;
/// Most threads of the kernel. Some may be stuck at disks that hang.
pub const MOST_LOADERS: u32 = (AT_ONCE * MOST_HELPERS) as u32;

/// What a ring loads, or is to load.
#[derive(Debug)]
pub(super) struct Loads {
    pub(super) queue: Queue,
    pub(super) bounds: Bounds,
    loading: Slab<Name>,
}

impl Loads {
    pub(super) fn new(of_helpers: Bounds) -> Self {
        let bounds = Bounds { helpers: AT_ONCE, ..of_helpers };
        Self { queue: Queue::default(), bounds, loading: Slab::new() }
    }
}

impl Helpers {
    /// From now on a ring loads windows: [`next_load`](Self::next_load) tells which.
    pub fn leave_loads_to_ring(&mut self) {
        self.loads = Some(Loads::new(self.shared.bounds));
    }

    /// The next window to load, with a number for [`has_loaded`](Self::has_loaded). `None`: there is none, or
    /// there are enough in flight.
    pub fn next_load(&mut self, now_ms: u64) -> Option<(u32, Fetch)> {
        let Loads { queue, bounds, loading } = self.loads.as_mut()?;
        let most = (bounds.helpers + queue.stuck(*bounds, now_ms)).min(MOST_LOADERS as usize);
        if queue.running.len() >= most {
            return None;
        }
        let Task { name, disk, job, .. } = queue.take(*bounds, now_ms)?;
        let Job::Fetch(fetch) = job else { return None };
        queue.running.push(Running { name: name.clone(), disk, since_ms: now_ms });
        Some((loading.insert(name), fetch))
    }

    /// A window is in memory, or cannot be read. Returns the name of the job.
    pub fn has_loaded(&mut self, number: u32) -> Option<Name> {
        let Loads { queue, loading, .. } = self.loads.as_mut()?;
        let name = loading.remove(number)?;
        queue.running.retain(|running| running.name != name);
        Some(name)
    }
}
