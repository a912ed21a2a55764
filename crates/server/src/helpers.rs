//! Helper threads, which wait for the disk in an event loop's place.
//!
//! ```text
//! conversation -- Job --> submit --> queue --> helper --> Finished --> eventfd --> loop --> conversation
//! ```
//!
//! A job holds all that it needs (an open file, a path), so nothing happens to it when the connection that
//! asked for it is closed meanwhile; who waits for it is known to the loop alone, by slot and ticket. Those
//! who want the same wait for the same job. The queue is bounded by the connections, each of which waits for
//! one job at most. It may be bounded by time as well: as long as a job that came now would take longer than
//! clients are welcome for, nobody is accepted ([`is_behind`](Helpers::is_behind)).
//!
//! A disk that hangs keeps those who ask it, and nobody can call them back. So a helper whose job takes long
//! is *stuck*, and another is started in its place, up to a bound. Where half as many are stuck as there are
//! helpers, no other job of the same [disk](Disk) is begun; and if they have been for as long as a client
//! waits, none is taken on, for it would wait in vain. Nobody keeps a clock for that: clients that wait are
//! looked at now and then, and have the helpers [looked after](Helpers::look_after).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use sys::wake::Wake;

use crate::config::AmpedSettings;
use crate::content::{Fetch, Lookup, LookupResult, Resolvers, SiteNumber, Variant};
use crate::counters::{Counters, HelperJob};

/// Something that may have to wait for a disk.
#[derive(Debug)]
pub enum Job {
    /// Looking up what a name stands for.
    Lookup(Box<Lookup<'static>>),
    /// Bringing a window of a file into memory.
    Fetch(Fetch),
}

/// What has become of a job.
#[derive(Debug)]
pub enum Done {
    /// What a lookup has found.
    LookedUp(Box<Lookup<'static>>, LookupResult),
    /// The window is in memory, or can't be had.
    Fetched,
}

/// A job that has been done.
#[derive(Debug)]
pub struct Finished {
    /// What it is known by.
    pub name: Name,
    /// What has become of it.
    pub done: Done,
}

/// A connection that waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The connection's slot.
    pub index: u32,
    /// Which of its waits.
    pub ticket: u64,
}

/// Helper threads and their queue, as the loop sees them.
#[derive(Debug)]
pub struct Helpers {
    shared: Arc<Shared>,
    resolvers: Arc<Resolvers>,
    /// How many have been started so far.
    started: u32,
    /// Jobs that are not finished.
    awaited: HashMap<Name, Awaited>,
    pace: Pace,
    /// The longest delay at which clients are still welcome.
    most_ms: Option<u64>,
    counters: &'static Counters,
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
    /// How many of late, and in how much time, that without jobs left out.
    finished: f64,
    busy_ms: f64,
    /// Until when that has been counted.
    counted_ms: u64,
    /// What a job took of late, waiting included: an average.
    took_ms: f64,
}

/// What a job is known by: alike for all who want the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(Wanted);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    Path(Box<[u8]>, Variant),
    Window(u64, u64, u64),
    /// What one waiter wants for itself.
    Ticket(u64),
}

/// The disk that a job waits for, as far as can be told before it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Disk {
    /// A directory in the root, which may be another file system.
    Directory(SiteNumber, Box<[u8]>),
    Device(u64),
}

/// How many helpers there are to be, and how long their jobs may take.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Helpers that are not stuck.
    helpers: usize,
    /// After this a helper is stuck.
    long_ms: u64,
    /// After this nobody waits for its job any more.
    timeout_ms: u64,
}

#[derive(Debug)]
struct Shared {
    bounds: Bounds,
    queue: Mutex<Queue>,
    /// There is something in the queue, or it has been closed.
    more: Condvar,
    /// A helper has ended.
    ended: Condvar,
    finished: Mutex<Vec<Finished>>,
    /// Something has been finished.
    wake: Wake,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Task>,
    /// What helpers are about.
    running: Vec<Running>,
    closed: bool,
    /// Helpers that have not ended.
    helpers: usize,
}

/// A job, and since when it is to be done.
#[derive(Debug)]
struct Task {
    name: Name,
    disk: Disk,
    job: Job,
    since_ms: u64,
}

/// A job under way, and since when.
#[derive(Debug)]
struct Running {
    name: Name,
    disk: Disk,
    since_ms: u64,
}

/// How often a wait is looked at before it is given up. A helper is stuck after the first part of that time.
pub const LOOKS: u32 = 8;
/// Of late is as far back as this. A disk that is shared may be given in parts of a tenth of a second.
const OF_LATE_MS: f64 = 1000.0;
/// Averages of jobs are over about so many.
const SOME_JOBS: f64 = 16.0;
/// How many times as many helpers there may be as there should, with those that are stuck.
const MOST_HELPERS: usize = 4;

/// Helpers look and read, and call nothing deep.
const STACK: usize = 256 << 10;
/// How long the end of service waits for jobs that nobody waits for any more.
const LAST_JOBS: Duration = Duration::from_secs(1);

impl Helpers {
    /// Starts as many threads as the settings say, which look names up with `resolvers`.
    ///
    /// # Errors
    ///
    /// There are no threads or no eventfd to be had.
    pub fn start(
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
        let mut helpers = Self { shared, resolvers, started: 0, awaited, pace, most_ms, counters };
        for _ in 0..bounds.helpers {
            helpers.start_another()?;
        }
        Ok(helpers)
    }

    /// Has a job done for a waiter, or lets it wait for the same job of another. Says whether it is worth
    /// waiting for.
    #[must_use]
    pub fn submit(&mut self, waiter: Waiter, job: Job, now_ms: u64) -> bool {
        let (name, disk) = (Name::of(&job, waiter), Disk::of(&job));
        if lock(&self.shared.queue).is_hopeless(&name, &disk, self.shared.bounds, now_ms) {
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

    /// Has a lookup that was finished done once more, for the same waiters.
    pub fn look_up_again(&mut self, name: Name, lookup: Box<Lookup<'static>>, now_ms: u64) {
        let job = Job::Lookup(lookup);
        self.enqueue(Task { name, disk: Disk::of(&job), job, since_ms: now_ms });
    }

    /// Starts helpers in place of those that are stuck, and gives up jobs that were not begun in time. Those
    /// who wait for one of these still are to wait no longer. To be called when somebody has waited long.
    #[must_use]
    pub fn look_after(&mut self, now_ms: u64) -> Vec<Waiter> {
        let bounds = self.shared.bounds;
        let mut queue = lock(&self.shared.queue);
        let in_time = |task: &Task| now_ms.saturating_sub(task.since_ms) < bounds.timeout_ms;
        let late = queue.jobs.iter().position(in_time).unwrap_or(queue.jobs.len());
        let late: Vec<Name> = queue.jobs.drain(..late).map(|task| task.name).collect();
        let stuck = queue.stuck(bounds, now_ms);
        let wanted = (bounds.helpers + stuck).min(bounds.helpers * MOST_HELPERS);
        let missing = wanted.saturating_sub(queue.helpers);
        drop(queue);
        if stuck > 0 && self.counters.helpers_stuck.get() == 0 {
            tracing::warn!("{stuck} helpers have waited for the disk for {} ms", bounds.long_ms);
        }
        self.counters.helpers_stuck.set(stuck as u64);
        for _ in 0..missing {
            if let Err(error) = self.start_another() {
                tracing::error!("cannot start a helper in place of one that is stuck: {error}");
                break;
            }
        }
        late.iter().flat_map(|name| self.release(name, now_ms)).collect()
    }

    /// What has been finished since this was asked last.
    pub fn take_finished(&mut self, now_ms: u64) -> Vec<Finished> {
        // Before the list is taken: what comes in between wakes the loop once more.
        let _ = self.shared.wake.clear();
        let finished = std::mem::take(&mut *lock(&self.shared.finished));
        if self.counters.helpers_stuck.get() > 0 {
            let stuck = lock(&self.shared.queue).stuck(self.shared.bounds, now_ms);
            self.counters.helpers_stuck.set(stuck as u64);
        }
        finished
    }

    /// Those who wait for a job that is finished.
    pub fn release(&mut self, name: &Name, now_ms: u64) -> Vec<Waiter> {
        let Some(Awaited { waiters, since_ms }) = self.awaited.remove(name) else { return Vec::new() };
        self.pace.finished(since_ms, now_ms);
        self.counters.helper_queue.set(self.awaited.len() as u64);
        waiters
    }

    /// Whether the disk is too far behind for more clients: a job that came now would take longer than
    /// clients are welcome for. To be asked when jobs have been finished: a disk that finishes none says
    /// nothing about others, and must not keep clients from those.
    pub fn is_behind(&self) -> bool {
        let delay_ms = self.pace.delay_ms(self.awaited.len());
        self.counters.disk_delay_us.set((delay_ms * 1e3) as u64);
        self.most_ms.is_some_and(|most_ms| delay_ms > most_ms as f64)
    }

    fn start_another(&mut self) -> io::Result<()> {
        let (shared, resolvers) = (Arc::clone(&self.shared), Arc::clone(&self.resolvers));
        let thread = thread::Builder::new().name(format!("helper {}", self.started)).stack_size(STACK);
        // Before it can see that there are too many.
        lock(&self.shared.queue).helpers += 1;
        let started = thread.spawn(move || help(&shared, &resolvers));
        self.started += 1;
        started.map(drop).inspect_err(|_| lock(&self.shared.queue).helpers -= 1)
    }

    fn enqueue(&mut self, task: Task) {
        let kind = match task.job {
            Job::Lookup(_) => HelperJob::Lookup,
            Job::Fetch(_) => HelperJob::Fetch,
        };
        self.counters.helper_jobs(kind, self.awaited.len() as u64);
        lock(&self.shared.queue).jobs.push_back(task);
        self.shared.more.notify_one();
    }
}

impl AsFd for Helpers {
    /// Readable when something has been finished.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

impl Drop for Helpers {
    /// Forgets what has not been begun, and waits for the rest, but not for ever: a disk that hangs holds up
    /// no end.
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
        })
    }
}

impl Disk {
    fn of(job: &Job) -> Self {
        match job {
            Job::Lookup(lookup) => {
                let (site, directory) = lookup.top_directory();
                Self::Directory(site, directory.into())
            }
            Job::Fetch(fetch) => Self::Device(fetch.shared_name().0),
        }
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

    /// What a job that comes now will take behind so many others. By Little's law, but no longer than jobs
    /// have taken of late: those that are stuck are waited for by nobody else.
    fn delay_ms(&self, unfinished: usize) -> f64 {
        let by_number = unfinished as f64 * self.busy_ms / self.finished.max(1.0);
        by_number.min(self.took_ms)
    }
}

impl Bounds {
    /// Helpers that may be stuck at one disk before no other is let go there.
    fn most_at_one_disk(self) -> usize {
        (self.helpers / 2).max(1)
    }
}

impl Running {
    fn has_taken(&self, ms: u64, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since_ms) >= ms
    }
}

impl Queue {
    /// How many helpers are stuck.
    fn stuck(&self, bounds: Bounds, now_ms: u64) -> usize {
        self.running.iter().filter(|running| running.has_taken(bounds.long_ms, now_ms)).count()
    }

    /// Whether as many jobs of a disk have taken this long as may.
    fn is_full(&self, disk: &Disk, bounds: Bounds, ms: u64, now_ms: u64) -> bool {
        let there = |running: &&Running| running.disk == *disk && running.has_taken(ms, now_ms);
        self.running.iter().filter(there).count() >= bounds.most_at_one_disk()
    }

    /// Whether a job would be waited for in vain: it is under way, or others of its disk are, and have taken
    /// too long already.
    fn is_hopeless(&self, name: &Name, disk: &Disk, bounds: Bounds, now_ms: u64) -> bool {
        let same = |running: &Running| running.name == *name && running.has_taken(bounds.timeout_ms, now_ms);
        self.is_full(disk, bounds, bounds.timeout_ms, now_ms) || self.running.iter().any(same)
    }

    /// The first job of a disk that does not have its full number of helpers stuck.
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
    /// The next job; `None` when there will be no more, or there are helpers enough without the one that
    /// asks, which has ended then.
    fn next(&self) -> Option<Task> {
        let mut queue = lock(&self.queue);
        loop {
            let now_ms = sys::clock::monotonic_ms();
            let too_many = queue.helpers > self.bounds.helpers + queue.stuck(self.bounds, now_ms);
            if queue.closed || too_many {
                queue.helpers -= 1;
                self.ended.notify_all();
                // What it was woken for is another's.
                self.more.notify_one();
                return None;
            }
            if let Some(task) = queue.take(self.bounds, now_ms) {
                let (name, disk) = (task.name.clone(), task.disk.clone());
                queue.running.push(Running { name, disk, since_ms: now_ms });
                return Some(task);
            }
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
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
            // The eventfd lives as long as this.
            let _ = self.wake.wake();
        }
    }
}

/// The life of a helper.
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
        };
        shared.finish(Finished { name, done });
    }
}

/// Whoever panicked with the lock held left the list as it was before or after a push.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job each `each_ms` for a second, each of which took `took_ms`.
    fn pace(each_ms: u64, took_ms: u64) -> Pace {
        let mut pace = Pace { counted_ms: 5_000, ..Pace::default() };
        for n in 1..=1_000 / each_ms {
            let now_ms = 5_000 + n * each_ms;
            pace.finished(now_ms - took_ms, now_ms);
        }
        pace
    }

    #[test]
    fn the_delay_is_that_of_all_before_at_the_pace_of_late() {
        let expect = |found: f64, expected: f64| {
            assert!((found - expected).abs() < expected / 8.0, "{found}, not {expected}");
        };
        expect(pace(2, 400).delay_ms(100), 200.0);
        expect(pace(10, 400).delay_ms(30), 300.0);
        // Jobs of a disk that hangs are no reason to wait for one that does not.
        expect(pace(10, 20).delay_ms(1_000), 20.0);
        // Bursts, as of a disk that is throttled.
        let mut bursts = Pace { counted_ms: 5_000, ..Pace::default() };
        for n in 0..4_000 {
            let now_ms = 5_000 + (n / 100 + 1) * 100;
            bursts.finished(now_ms - 500, now_ms);
        }
        expect(bursts.delay_ms(200), 200.0);
        assert!(Pace::default().delay_ms(1_000) == 0.0, "nothing is known yet");
    }
}
