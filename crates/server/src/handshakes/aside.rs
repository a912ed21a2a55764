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
    /// What it has sent.
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
    /// Jobs that were given to the thread, and whose result has not been taken, with the time when they were
    /// given to it.
    inside: Vec<(u64, u64)>,
    /// Those of them whose clients have gone, with their tickets.
    gone: Vec<(u64, Ticket)>,
    next: u64,
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
/// How long a job may get no CPU time before the thread counts as starved.
const STARVED_NS: u64 = 30_000_000;
/// How many more descriptors than twice the open connections there is room for.
const MORE_OPEN: u32 = 1024;
/// Signatures with large RSA keys take some stack; nothing here recurses.
const STACK: usize = 256 << 10;

impl Aside {
    pub(super) fn new(worker: QueueHandle) -> Self {
        let (state, more) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { state, more, worker });
        Self { shared, inside: Vec::new(), gone: Vec::new(), next: 0 }
    }

    /// Whether the thread can take another job.
    pub(super) fn has_room(&self) -> bool {
        self.inside.len() < MOST_INSIDE
    }

    /// Whether the thread gets no CPU time.
    pub(super) fn is_starved(&self, now_ns: u64) -> bool {
        self.inside.first().is_some_and(|(_, since_ns)| now_ns.saturating_sub(*since_ns) > STARVED_NS)
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
        state.jobs.push_back((self.next, job));
        drop(state);
        self.shared.more.notify_one();
        self.inside.push((self.next, now_ns));
        Ok(self.next)
    }

    /// Takes the result of a job, if it is done.
    pub(super) fn take(&mut self, number: u64) -> Option<Finished> {
        let mut state = lock(&self.shared.state);
        let at = state.finished.iter().position(|(of, _)| *of == number)?;
        let (_, finished) = state.finished.swap_remove(at);
        drop(state);
        self.inside.retain(|(of, _)| *of != number);
        Some(finished)
    }

    /// The client of a job has gone. The ticket comes back when the job is done.
    pub(super) fn let_go(&mut self, number: u64, ticket: Ticket) {
        self.gone.push((number, ticket));
    }

    /// The ticket and the CPU time of a job that is done, and whose client has gone.
    pub(super) fn take_gone(&mut self) -> Option<(Ticket, u64)> {
        for at in 0..self.gone.len() {
            if let Some(finished) = self.take(self.gone[at].0) {
                return Some((self.gone.swap_remove(at).1, finished.took_ns));
            }
        }
        None
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
