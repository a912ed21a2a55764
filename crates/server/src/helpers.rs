//! Helper threads, which wait for the disk instead of an event loop, and for clients if they send.
//!
//! ```text
//! conversation -- Job --> submit --> queue --> helper --> Finished --> eventfd --> loop --> conversation
//! ```
//!
//! A job holds everything that it needs (an open file, a path). So it is not affected if the connection
//! that requested it is closed meanwhile. Only the loop knows which connections wait for a job, by slot and
//! ticket. Connections that want the same thing wait for the same job. The queue is bounded by the
//! connections, each of which waits for one job at most. It may also be bounded by time: the loop accepts
//! no client while a new job would take longer than the configured delay
//! ([`is_behind`](Helpers::is_behind)).
//!
//! A helper is started when there is a job for it, no idle helper, and room for one more. It ends when it
//! has been idle for [`IDLE`]. While a process has one thread, the kernel needs no atomic operations to find
//! a descriptor.
//!
//! A disk that hangs blocks the threads that access it, and nothing can interrupt them. So a helper whose
//! job takes long is *stuck*, and another helper is started in addition, up to a bound. If half as many
//! helpers are stuck at one [disk](Disk) as there should be helpers, no other job of that disk is begun. If
//! they have been stuck for as long as a client waits, no job for it is accepted, because the client would
//! wait in vain. There is no timer for this. The loop checks waiting clients from time to time, and then
//! calls [`look_after`](Helpers::look_after).
//!
//! Where the loop has a ring, that may load windows of files instead (`by_ring`).

mod by_ring;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use sys::wake::Wake;

use self::by_ring::Loads;
pub use self::by_ring::MOST_LOADERS;
use crate::config::AmpedSettings;
use crate::content::{Fetch, Lookup, LookupResult, Resolvers, SiteNumber, Variant};
use crate::counters::{Counters, HelperJob};
use crate::error_log::Limited;
use crate::handed_send::{HandedSend, Sent};

/// Something that may have to wait for a disk.
#[derive(Debug)]
pub enum Job {
    /// Looking up what a name leads to.
    Lookup(Box<Lookup<'static>>),
    /// Bringing a window of a file into memory.
    Fetch(Fetch),
    /// Sending a range of a file.
    Send(HandedSend),
}

/// The result of a job.
#[derive(Debug)]
pub enum Done {
    /// The result of a lookup.
    LookedUp(Box<Lookup<'static>>, LookupResult),
    /// The window is in memory, or cannot be read.
    Fetched,
    /// A range was sent, or a part of it.
    Sent(Sent),
}

/// A job that has been done.
#[derive(Debug)]
pub struct Finished {
    /// The key of the job.
    pub name: Name,
    /// Its result.
    pub done: Done,
}

/// A connection that waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The connection's slot.
    pub index: u32,
    /// Which of the connection's waits.
    pub ticket: u64,
}

/// Helper threads and their queue, as the loop sees them.
#[derive(Debug)]
pub struct Helpers {
    shared: Arc<Shared>,
    resolvers: Arc<Resolvers>,
    /// What a ring does instead.
    loads: Option<Loads>,
    /// How many have been started so far.
    started: u32,
    /// Jobs that are not finished.
    awaited: HashMap<Name, Awaited>,
    pace: Pace,
    /// The longest delay at which clients are still accepted.
    most_ms: Option<u64>,
    counters: &'static Counters,
    complaints: Limited,
}

/// A job that is not finished.
#[derive(Debug)]
struct Awaited {
    waiters: Vec<Waiter>,
    since_ms: u64,
}

/// How fast jobs are finished.
#[derive(Debug, Default)]
struct Pace {
    /// How many jobs were finished recently. `busy_ms` is the time for that, without times that had no
    /// jobs.
    finished: f64,
    busy_ms: f64,
    /// The time up to which that has been counted.
    counted_ms: u64,
    /// How long a job took recently, including its wait: an average.
    took_ms: f64,
}

/// The key of a job, equal for all connections that want the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(Wanted);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    Path(Box<[u8]>, Variant),
    Window(u64, u64, u64),
    /// What one waiter wants only for itself.
    Ticket(u64),
    /// A part of one waiter's reply.
    Send(u64),
}

/// The disk that a job waits for, as far as this is known before the disk answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Disk {
    /// A directory in the root, which may be another file system.
    Directory(SiteNumber, Box<[u8]>),
    Device(u64),
    /// None: a send waits mostly for its client, for a second at most.
    None,
}

/// How many helpers there should be, and how long their jobs may take.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Helpers that are not stuck.
    helpers: usize,
    /// After this a helper is stuck.
    long_ms: u64,
    /// After this, no connection waits for its job any more.
    timeout_ms: u64,
}

#[derive(Debug)]
struct Shared {
    bounds: Bounds,
    queue: Mutex<Queue>,
    /// The queue has a job, or has been closed.
    more: Condvar,
    /// A helper has ended.
    ended: Condvar,
    finished: Mutex<Vec<Finished>>,
    /// Signals that a job has been finished.
    wake: Wake,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Task>,
    /// Jobs that helpers are working on.
    running: Vec<Running>,
    closed: bool,
    /// Helpers that have not ended.
    helpers: usize,
    /// Helpers that wait for a job.
    idle: usize,
}

/// A job, and the time since which it waits.
#[derive(Debug)]
struct Task {
    name: Name,
    disk: Disk,
    job: Job,
    since_ms: u64,
}

/// A job that a helper is working on, and since when.
#[derive(Debug)]
struct Running {
    name: Name,
    disk: Disk,
    since_ms: u64,
}

/// How many times a wait is checked before it is given up. A helper is stuck after the first such part of
/// that time.
pub const LOOKS: u32 = 8;
/// "Recently" means this far back. A shared disk may be granted in parts of a tenth of a second.
const OF_LATE_MS: f64 = 1000.0;
/// Averages cover about this many jobs.
const SOME_JOBS: f64 = 16.0;
/// The most helpers, as a multiple of the configured number. This includes stuck helpers.
const MOST_HELPERS: usize = 4;

/// How long a helper without a job waits for one before it ends.
const IDLE: Duration = Duration::from_secs(10);
/// Helpers look up names and read. They have no deep calls.
const STACK: usize = 256 << 10;
/// How long the end of service waits for jobs that no connection needs any more.
const LAST_JOBS: Duration = Duration::from_secs(1);

impl Helpers {
    /// As many threads as the settings request, each of which starts when it is needed. They look up names
    /// with `resolvers`.
    ///
    /// # Errors
    ///
    /// There is no eventfd left.
    pub fn new(
        settings: &AmpedSettings,
        resolvers: Arc<Resolvers>,
        counters: &'static Counters,
    ) -> io::Result<Self> {
        let timeout_ms = settings.disk_timeout.as_millis() as u64;
        let bounds = Bounds {
            helpers: settings.helpers.get() as usize,
            long_ms: timeout_ms / u64::from(LOOKS),
            timeout_ms,
        };
        let shared = Arc::new(Shared {
            bounds,
            queue: Mutex::default(),
            more: Condvar::new(),
            ended: Condvar::new(),
            finished: Mutex::default(),
            wake: Wake::new()?,
        });
        let most_ms = settings.disk_delay.map(|most| most.as_millis() as u64);
        let awaited = HashMap::new();
        let pace = Pace::default();
        let (loads, started, complaints) = (None, 0, Limited::default());
        Ok(Self { shared, resolvers, loads, started, awaited, pace, most_ms, counters, complaints })
    }

    /// Queues a job for a waiter, or lets it wait for the same job of another waiter. Returns whether that
    /// is worth waiting for.
    #[must_use]
    pub fn submit(&mut self, waiter: Waiter, job: Job, now_ms: u64) -> bool {
        let (name, disk) = (Name::of(&job, waiter), Disk::of(&job));
        let is_hopeless = match &self.loads {
            Some(Loads { queue, bounds, .. }) if matches!(job, Job::Fetch(_)) => {
                queue.is_hopeless(&name, &disk, *bounds, now_ms)
            }
            _ => lock(&self.shared.queue).is_hopeless(&name, &disk, self.shared.bounds, now_ms),
        };
        if is_hopeless {
            return false;
        }
        if let Some(awaited) = self.awaited.get_mut(&name) {
            awaited.waiters.push(waiter);
            return true;
        }
        if self.awaited.is_empty() {
            self.pace.counted_ms = now_ms;
        }
        self.awaited.insert(name.clone(), Awaited { waiters: vec![waiter], since_ms: now_ms });
        self.enqueue(Task { name, disk, job, since_ms: now_ms });
        true
    }

    /// Repeats a finished lookup for the same waiters.
    pub fn look_up_again(&mut self, name: Name, lookup: Box<Lookup<'static>>, now_ms: u64) {
        let disk = Disk::of_lookup(&lookup);
        self.enqueue(Task { name, disk, job: Job::Lookup(lookup), since_ms: now_ms });
    }

    /// Starts helpers in addition to those that are stuck, and gives up jobs that were not begun in time.
    /// Returns the connections that still wait for such a job; they must stop waiting. Call this when a
    /// connection has waited long.
    #[must_use]
    pub fn look_after(&mut self, now_ms: u64) -> Vec<Waiter> {
        let bounds = self.shared.bounds;
        let mut queue = lock(&self.shared.queue);
        let mut late = queue.take_late(bounds, now_ms);
        if let Some(loads) = &mut self.loads {
            late.append(&mut loads.queue.take_late(bounds, now_ms));
        }
        let stuck = queue.stuck(bounds, now_ms);
        let wanted = bounds.most_helpers(stuck);
        let missing = wanted.saturating_sub(queue.helpers).min(queue.jobs.len());
        drop(queue);
        if stuck > 0 && self.counters.helpers_stuck.get() == 0 {
            tracing::warn!("{stuck} helpers have waited for the disk for {} ms", bounds.long_ms);
        }
        self.counters.helpers_stuck.set(stuck as u64);
        for _ in 0..missing {
            if !self.start_another(now_ms) {
                break;
            }
        }
        late.iter().flat_map(|name| self.release(name, now_ms)).collect()
    }

    /// The jobs finished since the last call.
    pub fn take_finished(&mut self, now_ms: u64) -> Vec<Finished> {
        // Cleared before the list is taken. So a job that is finished in between wakes the loop again.
        let _ = self.shared.wake.clear();
        let finished = std::mem::take(&mut *lock(&self.shared.finished));
        if self.counters.helpers_stuck.get() > 0 {
            let stuck = lock(&self.shared.queue).stuck(self.shared.bounds, now_ms);
            self.counters.helpers_stuck.set(stuck as u64);
        }
        finished
    }

    /// The connections that wait for a finished job.
    pub fn release(&mut self, name: &Name, now_ms: u64) -> Vec<Waiter> {
        let Some(Awaited { waiters, since_ms }) = self.awaited.remove(name) else { return Vec::new() };
        if !matches!(name.0, Wanted::Send(_)) {
            self.pace.finished(since_ms, now_ms);
        }
        self.counters.helper_queue.set(self.awaited.len() as u64);
        waiters
    }

    /// Whether the disk is too far behind for more clients: a new job would take longer than the configured
    /// delay. Call this only when jobs have been finished. A disk that finishes no job shows nothing about
    /// other disks, and must not keep clients from those.
    pub fn is_behind(&self) -> bool {
        let delay_ms = self.pace.delay_ms(self.awaited.len());
        self.counters.disk_delay_us.set((delay_ms * 1e3) as u64);
        self.most_ms.is_some_and(|most_ms| delay_ms > most_ms as f64)
    }

    /// Starts a helper. If that is impossible, another one may have time, or the next
    /// [`look_after`](Self::look_after) tries again.
    fn start_another(&mut self, now_ms: u64) -> bool {
        let (shared, resolvers) = (Arc::clone(&self.shared), Arc::clone(&self.resolvers));
        let thread = thread::Builder::new().name(format!("helper {}", self.started)).stack_size(STACK);
        // Counted before the thread can check whether there are too many.
        lock(&self.shared.queue).helpers += 1;
        self.started += 1;
        let started = thread.spawn(move || help(&shared, &resolvers));
        if let Err(error) = &started {
            lock(&self.shared.queue).helpers -= 1;
            self.complaints.warn(now_ms, &format!("cannot start a thread that waits for the disk: {error}"));
        }
        started.is_ok()
    }

    fn enqueue(&mut self, task: Task) {
        let kind = match task.job {
            Job::Lookup(_) => HelperJob::Lookup,
            Job::Fetch(_) => HelperJob::Fetch,
            Job::Send(_) => HelperJob::Send,
        };
        self.counters.helper_jobs(kind, self.awaited.len() as u64);
        match &mut self.loads {
            Some(loads) if kind == HelperJob::Fetch => loads.queue.jobs.push_back(task),
            _ => {
                let mut queue = lock(&self.shared.queue);
                let now_ms = task.since_ms;
                queue.jobs.push_back(task);
                let starts = queue.idle < queue.jobs.len() && queue.lacks_helpers(self.shared.bounds, now_ms);
                drop(queue);
                self.shared.more.notify_one();
                if starts {
                    self.start_another(now_ms);
                }
            }
        }
    }
}

impl AsFd for Helpers {
    /// Readable when a job has been finished.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

impl Drop for Helpers {
    /// Drops jobs that have not been begun, and waits for the others, but not for ever: a disk that hangs
    /// must not delay an end.
    fn drop(&mut self) {
        let bounds = self.shared.bounds;
        let is_awaited = |queue: &mut Queue| queue.helpers > queue.stuck(bounds, sys::clock::monotonic_ms());
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        queue.jobs.clear();
        self.shared.more.notify_all();
        let waited = self.shared.ended.wait_timeout_while(queue, LAST_JOBS, is_awaited);
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if queue.helpers > 0 {
            tracing::warn!("{} helper threads still wait for the disk", queue.helpers);
        }
    }
}

impl Name {
    fn of(job: &Job, waiter: Waiter) -> Self {
        Self(match job {
            Job::Lookup(lookup) => match lookup.shared_name() {
                Some((path, variant)) => Wanted::Path(path, variant),
                None => Wanted::Ticket(waiter.ticket),
            },
            Job::Fetch(fetch) => {
                let (device, inode, window) = fetch.shared_name();
                Wanted::Window(device, inode, window)
            }
            Job::Send(_) => Wanted::Send(waiter.ticket),
        })
    }
}

impl Disk {
    fn of(job: &Job) -> Self {
        match job {
            Job::Lookup(lookup) => Self::of_lookup(lookup),
            Job::Fetch(fetch) => Self::Device(fetch.shared_name().0),
            Job::Send(_) => Self::None,
        }
    }

    fn of_lookup(lookup: &Lookup<'_>) -> Self {
        let (site, directory) = lookup.top_directory();
        Self::Directory(site, directory.into())
    }
}

impl Pace {
    fn finished(&mut self, since_ms: u64, now_ms: u64) {
        self.busy_ms += now_ms.saturating_sub(self.counted_ms) as f64;
        self.counted_ms = now_ms;
        self.finished += 1.0;
        if self.busy_ms > OF_LATE_MS {
            self.busy_ms /= 2.0;
            self.finished /= 2.0;
        }
        self.took_ms += (now_ms.saturating_sub(since_ms) as f64 - self.took_ms) / SOME_JOBS;
    }

    /// How long a new job will take behind `unfinished` others. This follows Little's law, but is at most
    /// the time that jobs have taken recently, because no other job waits for those that are stuck.
    fn delay_ms(&self, unfinished: usize) -> f64 {
        let by_number = unfinished as f64 * self.busy_ms / self.finished.max(1.0);
        by_number.min(self.took_ms)
    }
}

impl Bounds {
    /// How many helpers there may be, of which so many are stuck.
    fn most_helpers(self, stuck: usize) -> usize {
        (self.helpers + stuck).min(self.helpers * MOST_HELPERS)
    }

    /// How many helpers may be stuck at one disk before no other is allowed there.
    fn most_at_one_disk(self) -> usize {
        (self.helpers / 2).max(1)
    }
}

impl Running {
    fn has_taken(&self, ms: u64, now_ms: u64) -> bool {
        self.disk != Disk::None && now_ms.saturating_sub(self.since_ms) >= ms
    }
}

impl Queue {
    /// How many helpers are stuck.
    fn stuck(&self, bounds: Bounds, now_ms: u64) -> usize {
        self.running.iter().filter(|running| running.has_taken(bounds.long_ms, now_ms)).count()
    }

    /// Whether the most jobs that one disk may have been running this long already.
    fn is_full(&self, disk: &Disk, bounds: Bounds, ms: u64, now_ms: u64) -> bool {
        let there = |running: &&Running| running.disk == *disk && running.has_taken(ms, now_ms);
        self.running.iter().filter(there).count() >= bounds.most_at_one_disk()
    }

    /// Whether waiting for a job would be in vain. Then this job, or others of its disk, have been running
    /// too long already.
    fn is_hopeless(&self, name: &Name, disk: &Disk, bounds: Bounds, now_ms: u64) -> bool {
        let same = |running: &Running| running.name == *name && running.has_taken(bounds.timeout_ms, now_ms);
        self.is_full(disk, bounds, bounds.timeout_ms, now_ms) || self.running.iter().any(same)
    }

    /// Whether there may be more helpers.
    fn lacks_helpers(&self, bounds: Bounds, now_ms: u64) -> bool {
        self.helpers < bounds.helpers || self.helpers < bounds.most_helpers(self.stuck(bounds, now_ms))
    }

    /// Takes out jobs that were not begun in time.
    fn take_late(&mut self, bounds: Bounds, now_ms: u64) -> Vec<Name> {
        let is_late = |task: &Task| {
            task.disk != Disk::None && now_ms.saturating_sub(task.since_ms) >= bounds.timeout_ms
        };
        let (late, in_time): (VecDeque<_>, _) = self.jobs.drain(..).partition(is_late);
        self.jobs = in_time;
        late.into_iter().map(|task| task.name).collect()
    }

    /// The first job of a disk that does not have its full number of stuck helpers.
    fn take(&mut self, bounds: Bounds, now_ms: u64) -> Option<Task> {
        let full: Vec<Disk> = self
            .running
            .iter()
            .filter(|running| running.has_taken(bounds.long_ms, now_ms))
            .filter(|running| self.is_full(&running.disk, bounds, bounds.long_ms, now_ms))
            .map(|running| running.disk.clone())
            .collect();
        let at = self.jobs.iter().position(|task| !full.contains(&task.disk))?;
        self.jobs.remove(at)
    }
}

impl Shared {
    /// The next job. `None`: there will be no more, or there has been none for a while, or there are enough
    /// helpers without this one. Then this helper has ended.
    fn next(&self) -> Option<Task> {
        let mut queue = lock(&self.queue);
        let mut has_idled = false;
        loop {
            let now_ms = sys::clock::monotonic_ms();
            let too_many = queue.helpers > self.bounds.helpers + queue.stuck(self.bounds, now_ms);
            if queue.closed || too_many || has_idled && queue.jobs.is_empty() {
                queue.helpers -= 1;
                self.ended.notify_all();
                if !queue.jobs.is_empty() {
                    // Another helper must take what this one was woken for.
                    self.more.notify_one();
                }
                return None;
            }
            if let Some(task) = queue.take(self.bounds, now_ms) {
                let (name, disk) = (task.name.clone(), task.disk.clone());
                queue.running.push(Running { name, disk, since_ms: now_ms });
                return Some(task);
            }
            queue.idle += 1;
            let waited = self.more.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            (queue, has_idled) = (waited.0, waited.1.timed_out());
            queue.idle -= 1;
        }
    }

    fn finish(&self, finished: Finished) {
        let mut queue = lock(&self.queue);
        if let Some(at) = queue.running.iter().position(|running| running.name == finished.name) {
            let running = queue.running.swap_remove(at);
            if running.has_taken(self.bounds.long_ms, sys::clock::monotonic_ms()) {
                // Its disk may have been full.
                self.more.notify_all();
            }
        }
        drop(queue);
        let mut list = lock(&self.finished);
        list.push(finished);
        // One wake-up is enough for all that the loop has not taken yet.
        if list.len() == 1 {
            // Writing cannot fail: the eventfd lives as long as this.
            let _ = self.wake.wake();
        }
    }
}

/// The main loop of a helper.
fn help(shared: &Shared, resolvers: &Resolvers) {
    while let Some(Task { name, job, .. }) = shared.next() {
        let done = match job {
            Job::Lookup(lookup) => {
                let result = resolvers.look_up(&lookup);
                Done::LookedUp(lookup, result)
            }
            Job::Fetch(fetch) => {
                fetch.run();
                Done::Fetched
            }
            Job::Send(send) => Done::Sent(send.run()),
        };
        shared.finish(Finished { name, done });
    }
}

/// A thread that panicked with the lock held left the list as it was before or after a push.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One job every `each_ms` for a second. Each of them took `took_ms`.
    fn pace(each_ms: u64, took_ms: u64) -> Pace {
        let mut pace = Pace { counted_ms: 5_000, ..Pace::default() };
        for n in 1..=1_000 / each_ms {
            let now_ms = 5_000 + n * each_ms;
            pace.finished(now_ms - took_ms, now_ms);
        }
        pace
    }

    #[test]
    fn helpers_that_are_stuck_leave_room_for_others() {
        let bounds = Bounds { helpers: 4, long_ms: 100, timeout_ms: 800 };
        let running = |n| Running { name: Name(Wanted::Ticket(n)), disk: Disk::Device(1), since_ms: 0 };
        let mut queue = Queue { helpers: 3, running: (0..4).map(running).collect(), ..Queue::default() };
        assert!(queue.lacks_helpers(bounds, 50));
        queue.helpers = 4;
        assert!(!queue.lacks_helpers(bounds, 50) && queue.lacks_helpers(bounds, 100));
        queue.helpers = 8;
        assert!(!queue.lacks_helpers(bounds, 100));
    }

    #[test]
    fn the_delay_is_that_of_all_before_at_the_pace_of_late() {
        let expect = |found: f64, expected: f64| {
            assert!((found - expected).abs() < expected / 8.0, "{found}, not {expected}");
        };
        expect(pace(2, 400).delay_ms(100), 200.0);
        expect(pace(10, 400).delay_ms(30), 300.0);
        // Jobs of a hanging disk do not delay jobs of another disk.
        expect(pace(10, 20).delay_ms(1_000), 20.0);
        // Bursts, as from a throttled disk.
        let mut bursts = Pace { counted_ms: 5_000, ..Pace::default() };
        for n in 0..4_000 {
            let now_ms = 5_000 + (n / 100 + 1) * 100;
            bursts.finished(now_ms - 500, now_ms);
        }
        expect(bursts.delay_ms(200), 200.0);
        assert!(Pace::default().delay_ms(1_000) == 0.0, "nothing is known yet");
    }
}
