//! Takes a snapshot: everything that the status formats show, as plain values at one moment.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use results::status::{
    Certificate, Counts, Kernel, Listener as ListenerSnapshot, Pool, SCHEMA, Snapshot, Worker,
};

use super::rates::{Lookback, Sample};
use super::system;
use crate::counters::{Counters, Kind, METRICS, POOL_METRICS, told};
use crate::listeners::Listener;
use crate::queues::Queues;
use crate::tls::{Certificates, days_left};

/// How long a worker may take to answer a census. After that, the snapshot shows its connections by state
/// from the previous census.
const CENSUS_TIMEOUT: Duration = Duration::from_millis(100);

/// What a server's snapshots are read from.
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
    certificates: Option<Certificates>,
    lookback: Mutex<Lookback>,
}

/// One worker.
pub struct WorkerSource {
    /// Its counters: one block for each of its threads, at least one, and its process.
    pub counters: Vec<&'static Counters>,
    /// Wakes it to answer a census.
    pub wake: Box<dyn Fn() + Send + Sync>,
}

/// One listener.
#[derive(Debug)]
pub struct ListenerSource {
    /// The address, as in `listening on http://127.0.0.1:8080/`.
    pub address: String,
    /// Its socket. It stays open until the sources [drain](Sources::drain).
    pub socket: Arc<Listener>,
}

impl Sources {
    /// The sources of a server that this process supervises and that started at `started`. Workers are
    /// numbered from 0 in the given order. `retired` workers finish what they began before a reload.
    /// `past` holds the counts of workers that have exited. `pools` holds the queues of applications.
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
        let lookback = Mutex::new(Lookback::new(reading(&system::read(&[]).1, &at_start)));
        let listeners = Mutex::new(listeners);
        Self {
            architecture,
            pid,
            started,
            workers,
            retired,
            past,
            draining,
            listeners,
            pools,
            certificates: None,
            lookback,
        }
    }

    /// Of a server that has these certificates.
    #[must_use]
    pub fn with_certificates(self, certificates: Certificates) -> Self {
        Self { certificates: Some(certificates), ..self }
    }

    /// Starts draining: releases the listeners so that they can be closed, and reports the server as
    /// unhealthy.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.listeners().drain(..).for_each(|listener| listener.socket.close());
    }

    /// Whether the server is draining.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<ListenerSource>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a snapshot. This takes slightly longer than the slowest worker's turn, and at most 100 ms.
    pub fn snapshot(&self) -> Snapshot {
        let responsive = self.take_census();
        let (counts, past) = self.past.read_with(|| self.counts());
        let total = sum(counts.iter().chain([&past]));
        let workers = self.workers.iter().zip(responsive).zip(counts).enumerate();
        let workers = workers.map(|(worker, ((source, responsive), counts))| Worker {
            worker,
            pid: source.pid(),
            responsive,
            counts,
        });
        let pool = |(name, counters): (&str, _)| Pool {
            name: name.to_owned(),
            counts: told(POOL_METRICS, counters),
        };
        let (process, kernel) = system::read(&self.processes());
        let mut listeners = by_address(self.listeners().iter().map(ListenerSource::snapshot));
        let mut lookback = self.lookback.lock().unwrap_or_else(PoisonError::into_inner);
        let rates = lookback.look(&reading(&kernel, &listeners));
        drop(lookback);
        for (listener, rate) in listeners.iter_mut().zip(rates.listeners) {
            listener.drops_per_second = rate;
        }
        Snapshot {
            schema: SCHEMA,
            time_unix_ms: unix_ms(SystemTime::now()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            architecture: self.architecture.clone(),
            pid: self.pid,
            started_unix_ms: unix_ms(self.started),
            process,
            kernel,
            kernel_per_second: rates.kernel,
            listeners,
            total,
            past,
            workers: workers.collect(),
            pools: self.pools.iter().flat_map(Queues::look).map(pool).collect(),
            certificates: self.certificates(),
        }
    }

    fn certificates(&self) -> Vec<Certificate> {
        let now = sys::clock::realtime_secs() as i64;
        let ends = self.certificates.as_ref().map(Certificates::ends);
        let told = |(name, until): &(String, i64)| Certificate {
            name: name.clone(),
            valid_until_unix_s: *until,
            days_left: days_left(*until, now),
        };
        ends.iter().flat_map(|ends| ends.iter()).map(told).collect()
    }

    /// The counts of each worker, and those of retired and former workers together.
    fn counts(&self) -> (Vec<Counts>, Counts) {
        let past: Vec<Counts> =
            self.retired.iter().map(WorkerSource::counts).chain([told(METRICS, self.past)]).collect();
        (self.workers.iter().map(WorkerSource::counts).collect(), sum(&past))
    }

    /// The supervisor, the workers, and the process that answers.
    fn processes(&self) -> Vec<u32> {
        let workers = self.workers.iter().map(WorkerSource::pid);
        let mut processes: Vec<u32> = workers.chain([self.pid, std::process::id()]).collect();
        processes.sort_unstable();
        processes.dedup();
        processes.retain(|&pid| pid != 0);
        processes
    }

    /// Asks every worker to count its connections, and returns which of them answered in time: first the
    /// serving workers, then the retired ones.
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
            if all_have || began.elapsed() >= CENSUS_TIMEOUT {
                return done;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl WorkerSource {
    fn counts(&self) -> Counts {
        let threads: Vec<Counts> = self.counters.iter().map(|block| told(METRICS, *block)).collect();
        sum(&threads)
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
            drops_per_second: None,
        }
    }
}

/// The sum of several counts.
pub(crate) fn sum<'a>(several: impl IntoIterator<Item = &'a Counts>) -> Counts {
    let mut sum = Counts::default();
    for one in several {
        for metric in METRICS {
            for (sum, &value) in metric.told_mut(&mut sum).iter_mut().zip(metric.told(one)) {
                *sum = match metric.kind {
                    Kind::Counter | Kind::Gauge | Kind::Histogram { .. } => sum.wrapping_add(value),
                    Kind::Peak | Kind::Level => value.max(*sum),
                };
            }
        }
    }
    sum
}

impl fmt::Debug for WorkerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSource").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// The parts of a snapshot that grow while queues are full.
fn reading(kernel: &Kernel, listeners: &[ListenerSnapshot]) -> Sample {
    Sample {
        at: Instant::now(),
        drops: kernel.drops,
        listeners: listeners.iter().map(|listener| listener.drops).collect(),
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Merges listeners with the same address: several copies may listen on it.
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
        let total = snapshot.total;
        assert_eq!((total.accepts, total.accepts_per_phase_max), (10, 5));
        assert_eq!(total.connections[ConnectionState::Writing], 7);
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
        let mut before = 0;
        while !moving.is_finished() {
            let (_, all) = sources.past.read_with(|| sources.counts());
            let count = all.requests;
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
