//! A thread that computes handshakes in time that nothing else wants.
//!
//! ```text
//! channel -- Job --> give --> thread --> Finished, and the worker is woken --> take --> channel
//! ```
//!
//! The kernel runs the thread only while its CPU is idle, and takes the CPU away as soon as the worker has
//! something to do ([`sys::process::run_only_when_idle`]). So a handshake delays no client that is served
//! already, however long it takes.
//!
//! The thread is started when there is a handshake for it, and ends when it has been idle for [`IDLE`]. A job
//! holds everything that it needs. If its client has gone meanwhile, its result is dropped.
//!
//! Where other programs keep the CPU busy, the thread may get no time for seconds, and it may have stopped in
//! the middle of a job. So a job that is late is taken back: the worker computes the same handshake from the
//! beginning, with another session, and drops what the thread makes of the old one.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::queues::{QueueHandle, Ticket};
use crate::tls::{Opened, Session};

/// A client's session, and what has come of its handshake.
#[derive(Debug)]
pub struct Job {
    /// Its session.
    pub session: Session,
    /// A copy of what it has sent.
    pub sealed: Vec<u8>,
}

/// A job that is done.
#[derive(Debug)]
pub struct Finished {
    /// Its session and what it has sent, of which some is used up.
    pub job: Job,
    /// What is to be sent.
    pub leaving: Vec<u8>,
    /// What came of opening.
    pub opened: io::Result<Opened>,
    /// How long that took, in nanoseconds of CPU time.
    pub(super) took_ns: u64,
}

/// The thread, as its worker sees it.
#[derive(Debug)]
pub(super) struct Aside {
    shared: Arc<Shared>,
    /// Jobs that were given to the thread, and whose result has not been taken.
    inside: Vec<Given>,
    next: u64,
}

/// A job that was given to the thread.
#[derive(Debug)]
struct Given {
    number: u64,
    /// When it was given.
    since_ns: u64,
    /// Nothing has come of its session before, so another can take its place.
    is_first: bool,
    waiter: Waiter,
}

/// Who waits for a job's result.
#[derive(Debug)]
enum Waiter {
    Client,
    /// The job was taken back, or its client has gone. Then its ticket is still here.
    Nobody(Option<Ticket>),
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    more: Condvar,
    worker: QueueHandle,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<(u64, Job)>,
    finished: Vec<(u64, Finished)>,
    has_thread: bool,
    is_closed: bool,
}

/// How many jobs the thread has at once: with a second one it need not wait for its worker.
const MOST_INSIDE: usize = 2;
/// How long the thread waits for a job before it ends.
const IDLE: Duration = Duration::from_secs(10);
/// How long a job may take before it is late, and the thread counts as starved.
const LATE_NS: u64 = 100_000_000;
/// How many more descriptors than twice the open connections there is room for.
const MORE_OPEN: u32 = 1024;
/// Signatures with large RSA keys take some stack; nothing here recurses.
const STACK: usize = 256 << 10;

impl Aside {
    pub(super) fn new(worker: QueueHandle) -> Self {
        let (state, more) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { state, more, worker });
        Self { shared, inside: Vec::new(), next: 0 }
    }

    /// As where other programs have the CPU: the thread never runs.
    #[cfg(test)]
    pub(super) fn gets_no_time(&mut self) {
        lock(&self.shared.state).has_thread = true;
    }

    /// Whether the thread can take another job.
    pub(super) fn has_room(&self) -> bool {
        self.inside.len() < MOST_INSIDE
    }

    /// Whether the thread has, or had, something to do that is not seen to yet.
    pub(super) fn is_used(&self) -> bool {
        !self.inside.is_empty()
    }

    /// Whether the thread gets no CPU time.
    pub(super) fn is_starved(&self, now_ns: u64) -> bool {
        self.inside.first().is_some_and(|given| given.is_late(now_ns))
    }

    /// When the next job is late that can be taken back, in nanoseconds.
    pub(super) fn is_late_at_ns(&self) -> Option<u64> {
        self.inside.iter().find(|given| given.can_be_taken_back()).map(Given::is_late_at_ns)
    }

    /// Takes back a job if it is late, and the next to be taken back. Its result will be dropped.
    pub(super) fn take_back(&mut self, number: u64, now_ns: u64) -> bool {
        let next = self.inside.iter_mut().find(|given| given.can_be_taken_back());
        let Some(given) = next.filter(|given| given.number == number && given.is_late(now_ns)) else {
            return false;
        };
        given.waiter = Waiter::Nobody(None);
        true
    }

    /// Gives the thread a job. Returns its number. The worker has so many connections open.
    ///
    /// # Errors
    ///
    /// No thread can be started. The job comes back.
    pub(super) fn give(&mut self, job: Job, open: u64, now_ns: u64) -> Result<u64, Box<Job>> {
        let mut state = lock(&self.shared.state);
        if !state.has_thread {
            let shared = Arc::clone(&self.shared);
            // Where threads share the table of descriptors, a growing table stops the worker for 10 ms.
            let _ = sys::descriptors::grow_table((open as u32).saturating_mul(2).saturating_add(MORE_OPEN));
            let thread = thread::Builder::new().name("handshakes".into()).stack_size(STACK);
            if thread.spawn(move || shared.compute_all()).is_err() {
                return Err(Box::new(job));
            }
            state.has_thread = true;
        }
        self.next += 1;
        let (number, is_first) = (self.next, !job.session.is_begun());
        state.jobs.push_back((number, job));
        drop(state);
        self.shared.more.notify_one();
        self.inside.push(Given { number, since_ns: now_ns, is_first, waiter: Waiter::Client });
        Ok(number)
    }

    /// Takes the result of a job, if it is done.
    pub(super) fn take(&mut self, number: u64) -> Option<Finished> {
        let finished = self.shared.take(number)?;
        self.inside.retain(|given| given.number != number);
        Some(finished)
    }

    /// The client of a job has gone. The ticket comes back when the job is done.
    pub(super) fn let_go(&mut self, number: u64, ticket: Ticket) {
        if let Some(given) = self.inside.iter_mut().find(|given| given.number == number) {
            given.waiter = Waiter::Nobody(Some(ticket));
        }
    }

    /// Drops the result of a job that nobody waits for, if one is done. Returns its ticket, if that is here,
    /// and its CPU time.
    pub(super) fn drop_one(&mut self) -> Option<(Option<Ticket>, u64)> {
        for given in &mut self.inside {
            if let Waiter::Nobody(ticket) = &mut given.waiter
                && let Some(finished) = self.shared.take(given.number)
            {
                let (number, ticket) = (given.number, ticket.take());
                self.inside.retain(|given| given.number != number);
                return Some((ticket, finished.took_ns));
            }
        }
        None
    }
}

impl Given {
    fn is_late_at_ns(&self) -> u64 {
        self.since_ns + LATE_NS
    }

    fn is_late(&self, now_ns: u64) -> bool {
        now_ns >= self.is_late_at_ns()
    }

    fn can_be_taken_back(&self) -> bool {
        self.is_first && matches!(self.waiter, Waiter::Client)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.is_closed = true;
        state.jobs.clear();
        drop(state);
        self.shared.more.notify_one();
    }
}

impl Shared {
    /// The main loop of the thread.
    fn compute_all(&self) {
        sys::process::run_only_when_idle();
        while let Some((number, job)) = self.next() {
            let finished = compute(job);
            let mut state = lock(&self.state);
            state.finished.push((number, finished));
            // One wake-up is enough for all that the worker has not taken yet.
            let is_first = state.finished.len() == 1;
            drop(state);
            if is_first {
                self.worker.wake_this();
            }
        }
    }

    /// Takes the result of a job, if it is done.
    fn take(&self, number: u64) -> Option<Finished> {
        let mut state = lock(&self.state);
        let at = state.finished.iter().position(|(of, _)| *of == number)?;
        Some(state.finished.swap_remove(at).1)
    }

    /// The next job. `None`: there has been none for a while, or there will be no more. Then the thread has
    /// ended.
    fn next(&self) -> Option<(u64, Job)> {
        let state = lock(&self.state);
        let is_idle = |state: &mut State| state.jobs.is_empty() && !state.is_closed;
        let waited = self.more.wait_timeout_while(state, IDLE, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let next = state.jobs.pop_front();
        state.has_thread = next.is_some();
        next
    }
}

/// Computes what a handshake needs next. A client's first messages carry nothing for the conversation.
fn compute(mut job: Job) -> Finished {
    let began_ns = sys::clock::thread_cpu_ns();
    let mut leaving = Vec::new();
    let opened = job.session.open(&mut job.sealed, &mut [], &mut leaving);
    Finished { took_ns: sys::clock::thread_cpu_ns() - began_ns, job, leaving, opened }
}

/// A thread that panicked with the lock held left the lists as they were before or after a change.
fn lock(mutex: &Mutex<State>) -> MutexGuard<'_, State> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
