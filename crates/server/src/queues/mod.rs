//! Queues that all workers of one generation share: one for each pool of applications, one for the
//! connections of each that are upgraded, and one for TLS handshakes. Also the counters of each pool, and the
//! addresses of the names in pools.
//!
//! When what had to wait goes, its worker is woken through an eventfd, the worker's `wakeup`. All
//! workers inherit all wake-ups. The queues themselves outlive a generation, so that a reload does not
//! double what is in flight. So do the counters. Workers of one generation cannot wake those of another.
//! Those check their queues regularly.

mod queue;
mod waits;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use sys::shared::Shared;
use sys::wake::Wake;

use self::queue::Rules;
pub use self::queue::{Entry, Queue, Ticket};
pub use self::waits::Waits;
use crate::config::{PoolRule, Protocol, ServerAddress, Settings};
use crate::counters::PoolCounters;
use crate::names::Addresses;

/// The queues, and the eventfd that wakes each worker.
#[derive(Clone, Debug)]
pub struct Queues {
    of_pools: Arc<[OfPool]>,
    of_handshakes: Option<Queue>,
    /// The addresses of each name.
    of_names: Arc<HashMap<String, &'static Addresses>>,
    wakeups: Arc<[Wake]>,
    /// The number of the first of these workers. No number is used twice.
    first: u32,
}

/// The queues and counters of all pools that have existed, by name, the queue of handshakes, and the
/// addresses of all names that pools have had. They lie in memory that is never given back. If a pool is
/// configured again, or its generation was not confirmed, it continues with its own.
#[derive(Debug, Default)]
pub struct Lines {
    pools: HashMap<String, (Queue, Option<Queue>, &'static PoolCounters)>,
    handshakes: Option<Queue>,
    names: HashMap<String, &'static Addresses>,
}

/// The data of one pool.
#[derive(Debug)]
struct OfPool {
    name: String,
    queue: Queue,
    /// Of connections that are upgraded, if it may upgrade any.
    of_upgrades: Option<Queue>,
    counters: &'static PoolCounters,
}

/// One worker's handle to the queues.
#[derive(Clone, Debug)]
pub struct QueueHandle {
    queues: Queues,
    /// The worker's number.
    worker: u32,
}

impl Queues {
    /// The queues of the settings' pools, and of handshakes if clients speak TLS, for `workers` workers,
    /// numbered from `first` on. Pools with an earlier generation's name continue with its queues.
    ///
    /// # Errors
    ///
    /// There are no descriptors or there is no memory.
    pub fn new(settings: &Settings, workers: usize, first: u32, lines: &mut Lines) -> io::Result<Self> {
        let mut of_pool = |pool: &PoolRule| {
            let rules = Rules::of(pool, settings.most_waiting_workers());
            let of_upgrades = Rules::of_upgrades(pool, settings.most_waiting_workers());
            let upgrades = pool.protocol == Protocol::Http && pool.upgrades > 0;
            let known = lines.pools.get(&pool.name).copied();
            let (queue, was_upgraded, counters) = match known {
                Some(known) => known,
                None => (Queue::new(rules)?, None, Shared::<PoolCounters>::new()?.leak()),
            };
            let of_upgrades = match was_upgraded {
                Some(queue) => Some(queue.with(of_upgrades)),
                None => upgrades.then(|| Queue::new(of_upgrades)).transpose()?,
            };
            lines.pools.insert(pool.name.clone(), (queue, of_upgrades, counters));
            let of_upgrades = of_upgrades.filter(|_| upgrades);
            Ok(OfPool { name: pool.name.clone(), queue: queue.with(rules), of_upgrades, counters })
        };
        let of_pools = settings.all_pools().map(|pool| of_pool(&pool)).collect::<io::Result<Arc<[_]>>>()?;
        let of_handshakes = match (settings.tls.listen.is_empty(), lines.handshakes) {
            (true, _) => None,
            (false, Some(queue)) => Some(queue.with(Rules::of_handshakes(settings, workers))),
            (false, None) => Some(Queue::new(Rules::of_handshakes(settings, workers))?),
        };
        lines.handshakes = of_handshakes.or(lines.handshakes);
        let of_names = of_names(settings, &mut lines.names)?;
        // Without queues, there is nothing to wake a worker for.
        let wakeups = if of_pools.is_empty() && of_handshakes.is_none() { 0 } else { workers };
        let wakeups = (0..wakeups).map(|_| Wake::new()).collect::<io::Result<_>>()?;
        Ok(Self { of_pools, of_handshakes, of_names: Arc::new(of_names), wakeups, first })
    }

    /// The handle of the worker with this number, counted from 0.
    pub fn queue_handle(&self, number: usize) -> QueueHandle {
        QueueHandle { queues: self.clone(), worker: self.first.wrapping_add(number as u32) }
    }

    /// Gives back the slots of a worker that has died.
    pub fn clear(&self, number: usize) {
        let worker = self.first.wrapping_add(number as u32);
        let of_pools = self.of_pools.iter().flat_map(|of| [Some(&of.queue), of.of_upgrades.as_ref()]);
        for queue in of_pools.flatten().chain(&self.of_handshakes) {
            for other in queue.clear(worker, now_us()) {
                self.wake(other);
            }
        }
    }

    /// The counters of each pool, by name. The lengths of the queues are taken now.
    pub fn look(&self) -> impl Iterator<Item = (&str, &'static PoolCounters)> {
        self.of_pools.iter().map(|OfPool { name, queue, of_upgrades, counters }| {
            let (queued, in_flight) = queue.lengths(now_us());
            counters.queued.set(queued as u64);
            counters.in_flight.set(in_flight as u64);
            let upgraded = of_upgrades.map_or(0, |queue| queue.lengths(now_us()).1);
            counters.upgraded.set(upgraded as u64);
            (&**name, *counters)
        })
    }

    /// The names, and their addresses.
    pub fn names(&self) -> impl Iterator<Item = (&str, &'static Addresses)> {
        self.of_names.iter().map(|(host, addresses)| (&**host, *addresses))
    }

    fn wake(&self, worker: u32) {
        if let Some(wakeup) = self.wakeups.get(worker.wrapping_sub(self.first) as usize) {
            // An eventfd can always be written to.
            let _ = wakeup.wake();
        }
    }
}

/// The addresses of the names in the settings, which go on from those in `known`.
fn of_names(
    settings: &Settings,
    known: &mut HashMap<String, &'static Addresses>,
) -> io::Result<HashMap<String, &'static Addresses>> {
    let mut names = HashMap::new();
    for pool in settings.all_pools() {
        for name in pool.servers.iter().filter_map(ServerAddress::name) {
            let addresses = match known.get(&name.host) {
                Some(addresses) => *addresses,
                None => Shared::<Addresses>::new()?.leak(),
            };
            known.insert(name.host.clone(), addresses);
            names.insert(name.host.clone(), addresses);
        }
    }
    Ok(names)
}

impl QueueHandle {
    /// The addresses of a name in the settings.
    pub fn addresses(&self, host: &str) -> Option<&'static Addresses> {
        self.queues.of_names.get(host).copied()
    }

    /// The worker's number.
    pub fn worker(&self) -> u32 {
        self.worker
    }

    /// The queue of the pool of that number.
    pub fn queue(&self, pool: usize) -> Queue {
        self.queues.of_pools[pool].queue
    }

    /// The queue of the pool's connections that are upgraded, if it may upgrade any.
    pub fn of_upgrades(&self, pool: usize) -> Option<Queue> {
        self.queues.of_pools[pool].of_upgrades
    }

    /// The queue of handshakes, if clients speak TLS.
    pub fn of_handshakes(&self) -> Option<Queue> {
        self.queues.of_handshakes
    }

    /// The counters of the pool of that number.
    pub fn counters(&self, pool: usize) -> &'static PoolCounters {
        self.queues.of_pools[pool].counters
    }

    /// Wakes the worker whose request goes. Returns whether it is this worker, which is awake.
    pub fn wake(&self, worker: Option<u32>) -> bool {
        if worker == Some(self.worker) {
            return true;
        }
        if let Some(worker) = worker {
            self.queues.wake(worker);
        }
        false
    }

    /// The names of what this worker has in the queues and what need not wait any more. Each name is
    /// returned once.
    pub fn called(&self) -> impl Iterator<Item = u64> {
        let queues = self.queues.of_pools.iter().map(|of| &of.queue).chain(&self.queues.of_handshakes);
        queues.flat_map(|queue| queue.called(self.worker))
    }

    /// Checks whether requests in pools' queues may go without a wake-up, and returns whether any of this
    /// worker's may.
    pub fn look(&self) -> bool {
        let looks = self.queues.of_pools.iter().map(|of| self.wake(of.queue.look(now_us())));
        looks.fold(false, |any, is_own| any | is_own)
    }

    /// Wakes this worker, from another thread.
    pub fn wake_this(&self) {
        self.queues.wake(self.worker);
    }

    /// The descriptor that becomes readable when something of this worker that had to wait goes. `None`:
    /// there are no queues.
    pub fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        Some(self.own_wakeup()?.as_fd())
    }

    /// Resets the wake-up.
    pub fn clear_wakeup(&self) {
        if let Some(wakeup) = self.own_wakeup() {
            let _ = wakeup.clear();
        }
    }

    fn own_wakeup(&self) -> Option<&Wake> {
        self.queues.wakeups.get(self.worker.wrapping_sub(self.queues.first) as usize)
    }
}

/// The clock for queues. All processes read the same time.
pub fn now_us() -> u64 {
    sys::clock::monotonic_ns() / 1000
}
