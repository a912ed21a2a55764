//! Helper threads, which wait for the disk in an event loop's place.
//!
//! ```text
//! conversation -- Job --> submit --> queue --> helper --> Finished --> eventfd --> loop --> conversation
//! ```
//!
//! A job holds all that it needs (an open file, a path), so nothing happens to it when the connection that asked for it is
//! closed meanwhile; who waits for it is known to the loop alone, by slot and ticket. Those who want the same wait for the
//! same job. The queue is bounded by the connections, each of which waits for one job at most.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use http1::coding::Coding;
use sys::wake::Wake;

use crate::content::{Fetch, Look, Looker, Seen};
use crate::counters::{Counters, HelperJob};

/// Something that may have to wait for a disk.
#[derive(Debug)]
pub enum Job {
    /// Looking for what a name stands for.
    Look(Box<Look<'static>>),
    /// Bringing a window of a file into memory.
    Fetch(Fetch),
}

/// What has become of a job.
#[derive(Debug)]
pub enum Done {
    /// What a look has seen.
    Seen(Box<Look<'static>>, Seen),
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
    /// Who waits for which job.
    waiters: HashMap<Name, Vec<Waiter>>,
    counters: &'static Counters,
}

/// What a job is known by: alike for all who want the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(Wanted);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    Path(Box<[u8]>, Option<Coding>),
    Window(u64, u64, u64),
    /// What one waiter wants for itself.
    Ticket(u64),
}

#[derive(Debug)]
struct Shared {
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
    jobs: VecDeque<(Name, Job)>,
    closed: bool,
    /// Helpers that have not ended.
    helpers: u32,
}

/// Helpers look and read, and call nothing deep.
const STACK: usize = 256 << 10;
/// What a helper reads at a time; the bytes are of no use to it.
const SCRATCH: usize = 64 << 10;
/// How long the end of service waits for jobs that nobody waits for any more.
const LAST_JOBS: Duration = Duration::from_secs(2);

impl Helpers {
    /// Starts so many threads, which look with `looker`.
    ///
    /// # Errors
    ///
    /// There are no threads or no eventfd to be had.
    pub fn start(count: NonZeroU32, looker: &Arc<Looker>, counters: &'static Counters) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            more: Condvar::new(),
            ended: Condvar::new(),
            finished: Mutex::default(),
            wake: Wake::new()?,
        });
        let helpers = Self { shared, waiters: HashMap::new(), counters };
        for number in 0..count.get() {
            let (shared, looker) = (Arc::clone(&helpers.shared), Arc::clone(looker));
            let thread = thread::Builder::new().name(format!("helper {number}")).stack_size(STACK);
            thread.spawn(move || help(&shared, &looker))?;
            lock(&helpers.shared.queue).helpers += 1;
        }
        Ok(helpers)
    }

    /// Has a job done for a waiter, or lets it wait for the same job of another.
    pub fn submit(&mut self, waiter: Waiter, job: Job) {
        let name = Name::of(&job, waiter);
        if let Some(waiters) = self.waiters.get_mut(&name) {
            waiters.push(waiter);
            return;
        }
        self.waiters.insert(name.clone(), vec![waiter]);
        self.enqueue(name, job);
    }

    /// Has a look that was finished done once more, for the same waiters.
    pub fn look_again(&mut self, name: Name, look: Box<Look<'static>>) {
        self.enqueue(name, Job::Look(look));
    }

    /// What has been finished since this was asked last.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        // Before the list is taken: what comes in between wakes the loop once more.
        let _ = self.shared.wake.clear();
        std::mem::take(&mut *lock(&self.shared.finished))
    }

    /// Those who wait for a job that is finished.
    pub fn release(&mut self, name: &Name) -> Vec<Waiter> {
        let waiters = self.waiters.remove(name).unwrap_or_default();
        self.counters.helper_queue.set(self.waiters.len() as u64);
        waiters
    }

    fn enqueue(&mut self, name: Name, job: Job) {
        let kind = match job {
            Job::Look(_) => HelperJob::Look,
            Job::Fetch(_) => HelperJob::Fetch,
        };
        self.counters.helper_jobs(kind, self.waiters.len() as u64);
        lock(&self.shared.queue).jobs.push_back((name, job));
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
    /// Forgets what has not been begun, and waits for the rest, but not for ever: a disk that hangs holds up no end.
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        queue.jobs.clear();
        self.shared.more.notify_all();
        let waited = self.shared.ended.wait_timeout_while(queue, LAST_JOBS, |queue| queue.helpers > 0);
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if queue.helpers > 0 {
            tracing::warn!("{} helper threads still wait for the disk after {LAST_JOBS:?}", queue.helpers);
        }
    }
}

impl Name {
    fn of(job: &Job, waiter: Waiter) -> Self {
        Self(match job {
            Job::Look(look) => match look.shared_name() {
                Some((path, coding)) => Wanted::Path(path, coding),
                None => Wanted::Ticket(waiter.ticket),
            },
            Job::Fetch(fetch) => {
                let (device, inode, window) = fetch.shared_name();
                Wanted::Window(device, inode, window)
            }
        })
    }
}

impl Shared {
    /// The next job; `None` when there will be no more.
    fn next(&self) -> Option<(Name, Job)> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, finished: Finished) {
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
fn help(shared: &Shared, looker: &Looker) {
    let mut scratch = Vec::new();
    while let Some((name, job)) = shared.next() {
        let done = match job {
            Job::Look(look) => {
                let seen = looker.look(&look);
                Done::Seen(look, seen)
            }
            Job::Fetch(fetch) => {
                // A helper that never fetches takes no memory for it.
                scratch.resize(SCRATCH, 0);
                fetch.run(&mut scratch);
                Done::Fetched
            }
        };
        shared.finish(Finished { name, done });
    }
    lock(&shared.queue).helpers -= 1;
    shared.ended.notify_all();
}

/// Whoever panicked with the lock held left the list as it was before or after a push.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
