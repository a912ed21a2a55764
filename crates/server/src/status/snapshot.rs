//! Taking a snapshot: everything the status formats show, as plain values of one moment.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::rates::{Lookback, Rates, Sample};
use super::system::{self, Group};
use crate::counters::{Counter, Counters, Kind, METRICS, Metric, POOL_METRICS};
use crate::gateway::Queues;
use crate::listeners::Listener;

/// How long a worker may take to answer a census before its connections by state are shown as of the last
/// one.
const CENSUS_PATIENCE: Duration = Duration::from_millis(100);

/// Where a server's snapshots are taken from.
#[derive(Debug)]
pub struct Sources {
    architecture: String,
    pid: u32,
    started: SystemTime,
    workers: Vec<WorkerSource>,
    retired: Vec<WorkerSource>,
    past: &'static Counters,
    draining: AtomicBool,
    listeners: Mutex<Vec<ListenerSource>>,
    pools: Option<Queues>,
    lookback: Mutex<Lookback>,
}

/// One worker.
pub struct WorkerSource {
    /// What it counts, each of its threads in a block of its own, at least one; its process as well.
    pub counters: Vec<&'static Counters>,
    /// Makes it look at its census.
    pub wake: Box<dyn Fn() + Send + Sync>,
}

/// One listener.
#[derive(Debug)]
pub struct ListenerSource {
    /// As in `listening on http://127.0.0.1:8080/`.
    pub address: String,
    /// Its socket. It stays open until the sources [drain](Sources::drain).
    pub socket: Arc<Listener>,
}

/// Everything the status formats show.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// When it was taken, in milliseconds since the Unix epoch.
    pub time_unix_ms: u64,
    /// The program's version.
    pub version: String,
    /// The architecture's name.
    pub architecture: String,
    /// The supervisor's process.
    pub pid: u32,
    /// When the server began to serve, in milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// The values of [`system::SYSTEM`], in its order.
    pub system: Vec<Option<u64>>,
    /// The listeners that are still open.
    pub listeners: Vec<ListenerSnapshot>,
    /// How fast the kernel's counters and the listeners' drops have grown lately.
    pub rates: Rates,
    /// The workers.
    pub workers: Vec<WorkerSnapshot>,
    /// What workers before them have counted, and those that finish what they began before a reload.
    pub past: Numbers,
    /// The pools of applications.
    pub pools: Vec<PoolSnapshot>,
}

/// The queues at one address, those of several copies together. Unix sockets do not tell theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSnapshot {
    /// As in [`ListenerSource`].
    pub address: String,
    /// Connections that wait to be accepted.
    pub accept_queue_length: Option<u64>,
    /// How many may wait: the smaller of backlog and `net.core.somaxconn`.
    pub accept_queue_limit: Option<u64>,
    /// Packets dropped at the socket, whatever the cause; wraps at 2^32.
    pub drops: Option<u64>,
}

/// One worker's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSnapshot {
    /// Its process; 0 while there is none.
    pub pid: u32,
    /// Whether it answered within 100 ms. If not, it hangs in something, and its connections by state are
    /// old.
    pub responsive: bool,
    /// Its counters.
    pub numbers: Numbers,
}

/// What all workers have counted of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// As routes call it.
    pub name: String,
    /// Its counters: the values of [`POOL_METRICS`].
    pub numbers: Numbers,
}

/// The values of a table of metrics, which is [`METRICS`] unless something else is said, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers(Vec<Vec<u64>>);

impl Sources {
    /// The sources of a server that this process supervises and that `started` then. Workers are numbered
    /// from 0 in the order given; `retired` finish what they began before a reload, `past` is what those have
    /// counted that are gone, `pools` what is in front of applications.
    pub fn new(
        architecture: &str,
        started: SystemTime,
        workers: Vec<WorkerSource>,
        retired: Vec<WorkerSource>,
        past: &'static Counters,
        listeners: Vec<ListenerSource>,
        pools: Option<Queues>,
    ) -> Self {
        let (architecture, pid) = (architecture.to_owned(), std::process::id());
        let draining = AtomicBool::new(false);
        let at_start = by_address(listeners.iter().map(ListenerSource::snapshot));
        let lookback = Mutex::new(Lookback::new(reading(&system::read(&[]), &at_start)));
        let listeners = Mutex::new(listeners);
        Self { architecture, pid, started, workers, retired, past, draining, listeners, pools, lookback }
    }

    /// The server drains: lets go of the listeners, so that they can be closed, and is not healthy any more.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.listeners().drain(..).for_each(|listener| listener.socket.close());
    }

    /// Whether the server drains.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<ListenerSource>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a snapshot. It takes a little longer than the slowest worker's turn, at most 100 ms.
    pub fn snapshot(&self) -> Snapshot {
        let responsive = self.take_census();
        let (numbers, past) = self.past.read_with(|| self.numbers());
        let worker = |((source, responsive), numbers): ((&WorkerSource, bool), Numbers)| WorkerSnapshot {
            pid: source.pid(),
            responsive,
            numbers,
        };
        let pool = |(name, counters): (&str, _)| PoolSnapshot {
            name: name.to_owned(),
            numbers: Numbers::read(POOL_METRICS, counters),
        };
        let system = system::read(&self.processes());
        let listeners = by_address(self.listeners().iter().map(ListenerSource::snapshot));
        let mut lookback = self.lookback.lock().unwrap_or_else(PoisonError::into_inner);
        let rates = lookback.look(&reading(&system, &listeners));
        drop(lookback);
        Snapshot {
            time_unix_ms: unix_ms(SystemTime::now()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            architecture: self.architecture.clone(),
            pid: self.pid,
            started_unix_ms: unix_ms(self.started),
            system,
            listeners,
            rates,
            workers: self.workers.iter().zip(responsive).zip(numbers).map(worker).collect(),
            past,
            pools: self.pools.iter().flat_map(Queues::look).map(pool).collect(),
        }
    }

    /// What each worker has counted, and all the others together.
    fn numbers(&self) -> (Vec<Numbers>, Numbers) {
        let past = self.retired.iter().map(WorkerSource::numbers).chain([Numbers::read(METRICS, self.past)]);
        (self.workers.iter().map(WorkerSource::numbers).collect(), Numbers::sum(past))
    }

    /// The supervisor, the workers and who asks.
    fn processes(&self) -> Vec<u32> {
        let workers = self.workers.iter().map(WorkerSource::pid);
        let mut processes: Vec<u32> = workers.chain([self.pid, std::process::id()]).collect();
        processes.sort_unstable();
        processes.dedup();
        processes.retain(|&pid| pid != 0);
        processes
    }

    /// Has every worker count its connections, and tells which have done so in time: first those that serve,
    /// then those that are retired.
    fn take_census(&self) -> Vec<bool> {
        let all = || self.workers.iter().chain(&self.retired);
        let ask = |block: &&'static Counters| (*block, block.census.request());
        let asked: Vec<Vec<_>> = all().map(|worker| worker.counters.iter().map(ask).collect()).collect();
        let is_done =
            |asked: &Vec<(&Counters, u32)>| asked.iter().all(|(block, asked)| block.census.is_done(*asked));
        all().for_each(|worker| (worker.wake)());
        let began = Instant::now();
        loop {
            let done: Vec<bool> = asked.iter().map(is_done).collect();
            let all_have = all().zip(&done).all(|(worker, &done)| done || worker.pid() == 0);
            if all_have || began.elapsed() >= CENSUS_PATIENCE {
                return done;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl WorkerSource {
    fn numbers(&self) -> Numbers {
        Numbers::sum(self.counters.iter().map(|block| Numbers::read(METRICS, *block)))
    }

    fn pid(&self) -> u32 {
        self.counters[0].pid.load(Ordering::Relaxed)
    }
}

impl ListenerSource {
    fn snapshot(&self) -> ListenerSnapshot {
        let queue = sys::tcp_info::accept_queue(&*self.socket).ok();
        ListenerSnapshot {
            address: self.address.clone(),
            accept_queue_length: queue.map(|queue| queue.length.into()),
            accept_queue_limit: queue.map(|queue| queue.limit.into()),
            drops: queue.and_then(|_| sys::tcp_info::dropped(&*self.socket).ok()).map(u64::from),
        }
    }
}

impl Snapshot {
    /// The workers' values and those of the past taken together.
    pub fn total(&self) -> Numbers {
        Numbers::sum(self.workers.iter().map(|worker| worker.numbers.clone()).chain([self.past.clone()]))
    }
}

impl Numbers {
    /// All values zero.
    pub fn zero() -> Self {
        Self::read(METRICS, &Counters::default())
    }

    /// The values of a block now, which this table describes.
    pub fn read<B>(table: &[Metric<B>], block: &B) -> Self {
        Self(table.iter().map(|metric| metric.read(block).iter().map(Counter::get).collect()).collect())
    }

    /// The values of the metric at this place of the table.
    pub fn of(&self, place: usize) -> &[u64] {
        &self.0[place]
    }

    /// The values of the metric of this name; none, if there is no such metric.
    pub fn named(&self, name: &str) -> &[u64] {
        METRICS.iter().position(|metric| metric.name == name).map_or(&[], |place| self.of(place))
    }

    /// The values of the metric at this place of the table, to be changed.
    pub(super) fn of_mut(&mut self, place: usize) -> &mut [u64] {
        &mut self.0[place]
    }

    /// The values of several taken together.
    pub(crate) fn sum(several: impl Iterator<Item = Self>) -> Self {
        let mut sum = Self::zero();
        for one in several {
            for ((metric, sums), values) in METRICS.iter().zip(&mut sum.0).zip(&one.0) {
                for (sum, &value) in sums.iter_mut().zip(values) {
                    *sum = match metric.kind {
                        Kind::Counter | Kind::Gauge | Kind::Histogram { .. } => sum.wrapping_add(value),
                        Kind::Peak | Kind::Level => value.max(*sum),
                    };
                }
            }
        }
        sum
    }
}

impl fmt::Debug for WorkerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSource").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// What of a snapshot grows while queues are full.
fn reading(system: &[Option<u64>], listeners: &[ListenerSnapshot]) -> Sample {
    let metrics = system::SYSTEM.iter().zip(system);
    let counters = metrics.map(|(metric, value)| match (metric.group, metric.kind) {
        (Group::Kernel, Kind::Counter) => *value,
        _ => None,
    });
    Sample {
        at: Instant::now(),
        system: counters.collect(),
        listeners: listeners.iter().map(|listener| listener.drops).collect(),
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Copies may listen at the same address.
fn by_address(listeners: impl Iterator<Item = ListenerSnapshot>) -> Vec<ListenerSnapshot> {
    let mut all: Vec<ListenerSnapshot> = Vec::new();
    for listener in listeners {
        let Some(known) = all.iter_mut().find(|known| known.address == listener.address) else {
            all.push(listener);
            continue;
        };
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        known.accept_queue_length = sum(known.accept_queue_length, listener.accept_queue_length);
        known.accept_queue_limit = sum(known.accept_queue_limit, listener.accept_queue_limit);
        known.drops = sum(known.drops, listener.drops);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ListenAddress, Settings};
    use crate::counters::ConnectionState;
    use std::net::TcpStream;
    use std::sync::mpsc;

    fn place(name: &str) -> usize {
        METRICS.iter().position(|metric| metric.name == name).unwrap()
    }

    #[test]
    fn workers_are_counted_together_and_a_worker_that_hangs_is_told() {
        let (wake, woken) = mpsc::channel::<()>();
        let block = || -> &'static Counters { Box::leak(Box::default()) };
        let (lively, hanging, past) = (block(), block(), block());
        for (block, pid) in [(lively, 17), (hanging, 18)] {
            block.pid.store(pid, Ordering::Relaxed);
        }
        past.accept_phase(2);
        lively.accept_phase(3);
        hanging.accept_phase(5);
        let worker = std::thread::spawn(move || {
            while woken.recv().is_ok() {
                lively.answer_census(|| [0, 0, 7, 0, 0]);
            }
        });
        let workers = vec![
            WorkerSource { counters: vec![lively], wake: Box::new(move || wake.send(()).unwrap()) },
            WorkerSource { counters: vec![hanging], wake: Box::new(|| {}) },
        ];
        let sources = Sources::new("sped", SystemTime::now(), workers, Vec::new(), past, Vec::new(), None);
        let snapshot = sources.snapshot();
        assert!(snapshot.workers[0].responsive && !snapshot.workers[1].responsive);
        let total = snapshot.total();
        assert_eq!(total.of(place("accepts")), [10]);
        assert_eq!(total.of(place("accepts_per_phase_max")), [5]);
        assert_eq!(total.of(place("connections"))[ConnectionState::Writing as usize], 7);
        drop(sources);
        worker.join().unwrap();
    }

    #[test]
    fn what_is_moved_is_counted_once() {
        let block = || -> &'static Counters { Box::leak(Box::default()) };
        let (retired, past) = (block(), block());
        let source = WorkerSource { counters: vec![retired], wake: Box::new(|| {}) };
        let sources =
            Sources::new("sped", SystemTime::now(), Vec::new(), vec![source], past, Vec::new(), None);
        let moving = std::thread::spawn(move || {
            for _ in 0..300 {
                retired.requests.add(1000);
                std::thread::sleep(Duration::from_micros(100));
                retired.retire_to(past);
            }
        });
        let (requests, mut before) = (place("requests"), 0);
        while !moving.is_finished() {
            let (_, all) = sources.past.read_with(|| sources.numbers());
            let count = all.of(requests)[0];
            assert!((before..=300_000).contains(&count), "{before}, then {count}");
            before = count;
        }
        moving.join().unwrap();
    }

    #[test]
    fn accept_queues_are_told_until_the_listener_is_closed() {
        let here = ListenAddress::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = Arc::new(Listener::open(&here, &Settings::new("/".into())).unwrap());
        let ListenAddress::Tcp(address) = listener.address else { panic!("not of TCP") };
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        let source = ListenerSource { address: "here".into(), socket: listener };
        let (now, past) = (SystemTime::now(), Box::leak(Box::default()));
        let sources = Sources::new("sped", now, Vec::new(), Vec::new(), past, vec![source], None);
        let queue = sources.snapshot().listeners[0].clone();
        assert_eq!(queue.accept_queue_length, Some(3));
        assert!(queue.accept_queue_limit.unwrap() > 0);
        sources.drain();
        assert!(sources.is_draining());
        drop(clients);
        assert_eq!(sources.snapshot().listeners, []);
        assert!(TcpStream::connect(address).is_err());
    }
}
