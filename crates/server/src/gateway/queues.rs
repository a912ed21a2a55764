//! The queues of all pools, as the workers of one generation share them, and what is counted of each.
//!
//! A worker whose request goes that had to wait is woken by its bell, an eventfd that all of them inherit.
//! The lines themselves outlive a generation, so that a reload does not double what is in flight, and so do
//! the counters. Workers of one generation can't wake those of another, which look by themselves.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use sys::shared::Shared;
use sys::wake::Wake;

use super::queue::{Queue, Rules};
use crate::config::{PoolRule, Settings};
use crate::counters::PoolCounters;

/// The queues, and who is woken how.
#[derive(Clone, Debug)]
pub struct Queues {
    of_pools: Arc<[OfPool]>,
    bells: Arc<[Wake]>,
    /// The number of the first of these workers. None is used twice.
    first: u32,
}

/// The lines and counters of all pools that there have been, by name. They lie in memory that is never given
/// back, so a pool that comes again, or whose generation was not confirmed, goes on with its own.
#[derive(Debug, Default)]
pub struct Lines(HashMap<String, (Queue, &'static PoolCounters)>);

/// What concerns one pool.
#[derive(Debug)]
struct OfPool {
    name: String,
    queue: Queue,
    counters: &'static PoolCounters,
}

/// One worker's part in them.
#[derive(Clone, Debug)]
pub struct Desk {
    queues: Queues,
    /// Its number.
    pub(super) worker: u32,
}

impl Queues {
    /// Those of the settings' pools for so many workers, numbered from `first` on, that go on with the lines
    /// of the generations before.
    ///
    /// # Errors
    ///
    /// There are no descriptors or no memory to be had.
    pub fn new(settings: &Settings, workers: usize, first: u32, lines: &mut Lines) -> io::Result<Self> {
        let mut of_pool = |pool: &PoolRule| {
            let rules = Rules::of(pool, settings.most_waiting_workers());
            let (queue, counters) = if let Some((queue, counters)) = lines.0.get(&pool.name) {
                (queue.with(rules), *counters)
            } else {
                let counters = Shared::<PoolCounters>::new()?;
                let new = (Queue::new(rules)?, counters.leak());
                *lines.0.entry(pool.name.clone()).or_insert(new)
            };
            Ok(OfPool { name: pool.name.clone(), queue, counters })
        };
        let of_pools = settings.all_pools().map(|pool| of_pool(&pool)).collect::<io::Result<Arc<[_]>>>()?;
        // Nobody is woken where nothing is waited for.
        let bells = if of_pools.is_empty() { 0 } else { workers };
        let bells = (0..bells).map(|_| Wake::new()).collect::<io::Result<_>>()?;
        Ok(Self { of_pools, bells, first })
    }

    /// The part of the worker of that number, counted from 0.
    pub fn desk(&self, number: usize) -> Desk {
        Desk { queues: self.clone(), worker: self.first.wrapping_add(number as u32) }
    }

    /// Gives back what a worker holds that has died.
    pub fn clear(&self, number: usize) {
        let worker = self.first.wrapping_add(number as u32);
        for pool in &*self.of_pools {
            for other in pool.queue.clear(worker, now_us()) {
                self.wake(other);
            }
        }
    }

    /// What is counted of each pool, by name; how long the queues are is counted now.
    pub fn look(&self) -> impl Iterator<Item = (&str, &'static PoolCounters)> {
        self.of_pools.iter().map(|OfPool { name, queue, counters }| {
            let (queued, in_flight) = queue.lengths(now_us());
            counters.queued.set(queued as u64);
            counters.in_flight.set(in_flight as u64);
            (&**name, *counters)
        })
    }

    fn wake(&self, worker: u32) {
        if let Some(bell) = self.bells.get(worker.wrapping_sub(self.first) as usize) {
            // An eventfd can always be written to.
            let _ = bell.wake();
        }
    }
}

impl Desk {
    /// The queue of the pool of that number.
    pub(super) fn queue(&self, pool: usize) -> Queue {
        self.queues.of_pools[pool].queue
    }

    /// What is counted of the pool of that number.
    pub(super) fn counters(&self, pool: usize) -> &'static PoolCounters {
        self.queues.of_pools[pool].counters
    }

    /// Wakes another worker one of whose requests goes; says whether it is this one, which is awake.
    pub(super) fn wake(&self, worker: Option<u32>) -> bool {
        if worker == Some(self.worker) {
            return true;
        }
        if let Some(worker) = worker {
            self.queues.wake(worker);
        }
        false
    }

    /// The names of this worker's requests that need not wait any more, each told once.
    pub(super) fn called(&self) -> impl Iterator<Item = u64> {
        self.queues.of_pools.iter().flat_map(|of| of.queue.called(self.worker))
    }

    /// Looks whether requests may go whom nobody has told, and says whether this worker's may.
    pub(super) fn look(&self) -> bool {
        let looks = self.queues.of_pools.iter().map(|of| self.wake(of.queue.look(now_us())));
        looks.fold(false, |any, is_own| any | is_own)
    }

    /// What becomes readable when a request of this worker's goes that had to wait. `None`: there are no
    /// applications.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.own_bell()?.as_fd())
    }

    /// Takes note of the bell.
    pub(super) fn clear_bell(&self) {
        if let Some(bell) = self.own_bell() {
            let _ = bell.clear();
        }
    }

    fn own_bell(&self) -> Option<&Wake> {
        self.queues.bells.get(self.worker.wrapping_sub(self.queues.first) as usize)
    }
}

/// The time by which queues go. It is the same for all processes.
pub(super) fn now_us() -> u64 {
    sys::clock::monotonic_ns() / 1000
}
