//! How the supervisor speaks to a worker: serve, retire, drain, stop, reopen the logs, take a census.
//!
//! A few words of shared memory, which the supervisor writes and the worker reads, and an eventfd that any loop can wait
//! for beside its sockets. A worker whose supervisor is gone drains by itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use sys::process;
use sys::shared::Shared;
use sys::signal::{self, Signal};
use sys::wake::Wake;

/// The supervisor's end and the worker's end are the same object, made before the fork.
#[derive(Debug)]
pub struct Control {
    words: Shared<Words>,
    wake: Wake,
    supervisor: u32,
}

sys::shareable! {
    #[derive(Debug)]
    struct Words {
        phase: AtomicU8,
        reopenings: AtomicU32,
    }
}

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serve.
    Run,
    /// Leave the listeners to others, see one's connections to their end, then return.
    Retire,
    /// Accept what is queued, close the listeners, finish what is under way, then return.
    Drain,
    /// Return now.
    Stop,
}

impl Control {
    /// Of a worker that serves, which this process is or will fork.
    ///
    /// # Errors
    ///
    /// There is no memory or no eventfd to be had.
    pub fn new() -> io::Result<Self> {
        Ok(Self { words: Shared::new()?, wake: Wake::new()?, supervisor: std::process::id() })
    }

    /// In a worker, after the fork: has the end of the supervisor noticed.
    ///
    /// # Errors
    ///
    /// The kernel has no such notice.
    pub fn attend(&self) -> io::Result<()> {
        signal::wake_on(Signal::Terminate, &self.wake)?;
        process::signal_at_end_of_parent(Signal::Terminate)?;
        self.wake.wake()
    }

    /// Moves on to a later phase; moving back is not possible.
    pub fn enter(&self, phase: Phase) {
        self.words.phase.fetch_max(phase as u8, Ordering::Release);
        self.wake();
    }

    /// The phase asked for.
    pub fn phase(&self) -> Phase {
        match self.words.phase.load(Ordering::Acquire) {
            0 => Phase::Run,
            1 => Phase::Retire,
            2 => Phase::Drain,
            _ => Phase::Stop,
        }
    }

    /// Has the logs opened anew.
    pub fn reopen_logs(&self) {
        self.words.reopenings.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// How often that was asked for.
    pub fn reopenings(&self) -> u32 {
        self.words.reopenings.load(Ordering::Acquire)
    }

    /// Makes the worker look, here and at the census.
    pub fn wake(&self) {
        // A full eventfd is one that wakes already.
        let _ = self.wake.wake();
    }

    /// In a worker: forgets wake-ups so far, and notices the end of the supervisor. Look at everything else after this,
    /// not before.
    pub fn heed(&self) {
        let _ = self.wake.clear();
        if self.is_orphaned() {
            self.words.phase.fetch_max(Phase::Drain as u8, Ordering::Release);
        }
    }

    /// In a worker: whether the supervisor is gone.
    pub fn is_orphaned(&self) -> bool {
        std::process::id() != self.supervisor && process::parent() != self.supervisor
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
