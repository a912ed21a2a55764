//! How the supervisor speaks to a running architecture: drain, stop, take over changed settings, wake for a census.
//!
//! One word that only grows, one slot for changed settings, and an eventfd that any loop can wait for beside its
//! sockets.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use sys::wake::Wake;

use crate::config::Settings;
use crate::listeners::Listeners;

/// The supervisor's end and the architecture's end are the same object, shared.
#[derive(Debug)]
pub struct Shutdown {
    phase: AtomicU8,
    changes: Mutex<Option<Changes>>,
    wake: Wake,
}

/// What a server is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serve.
    Run,
    /// Accept what is queued, finish what is under way, then return.
    Drain,
    /// Return now.
    Stop,
}

/// Changed settings, checked, with the listeners that they ask for already open.
#[derive(Debug)]
pub struct Changes {
    /// All settings, changed or not.
    pub settings: Settings,
    /// All listeners, those that go on and new ones. Those missing are to be drained and closed.
    pub listeners: Listeners,
}

impl Shutdown {
    /// A server that runs.
    ///
    /// # Errors
    ///
    /// No eventfd can be made.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { phase: AtomicU8::new(Phase::Run as u8), changes: Mutex::new(None), wake: Wake::new()? })
    }

    /// Moves on to a later phase; moving back is not possible.
    pub fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::Release);
        self.wake();
    }

    /// The phase asked for.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Run,
            1 => Phase::Drain,
            _ => Phase::Stop,
        }
    }

    /// Leaves changed settings for the architecture to take up. Settings not taken up yet are replaced.
    pub fn change(&self, changes: Changes) {
        *self.changes.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(changes);
        self.wake();
    }

    /// Takes up changed settings.
    pub fn take_changes(&self) -> Option<Changes> {
        self.changes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }

    /// Makes the architecture look, here and at the census.
    pub fn wake(&self) {
        // A full eventfd is one that wakes already.
        let _ = self.wake.wake();
    }

    /// Forgets wake-ups so far. Look at the phase and the changes after this, not before.
    pub fn clear(&self) {
        let _ = self.wake.clear();
    }
}

impl AsFd for Shutdown {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
