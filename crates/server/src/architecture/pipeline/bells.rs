//! How threads that wait for the kernel are woken by others: those of the poll stages, and acceptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use sys::epoll::Epoll;
use sys::event::Interest;
use sys::wake::Wake;

use crate::architecture::common::token::{Kind, Token};

/// What a poll stage waits with.
pub(super) struct Poll {
    pub(super) epoll: Epoll,
    wake: Arc<Wake>,
}

const WAKE: u64 = Token::of(Kind::Helpers).number();

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        let (epoll, wake) = (Epoll::new()?, Arc::new(Wake::new()?));
        epoll.add(&*wake, WAKE, Interest::READABLE)?;
        Ok(Self { epoll, wake })
    }

    /// Has the stage look around.
    pub(super) fn wake(&self) {
        // An eventfd can always be written to.
        let _ = self.wake.wake();
    }

    /// Forgets wake-ups so far.
    pub(super) fn clear(&self) {
        let _ = self.wake.clear();
    }

    /// What others wake the stage with.
    pub(super) fn bell(&self) -> Arc<Wake> {
        Arc::clone(&self.wake)
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// How others reach an acceptor.
pub(super) struct AcceptorBell {
    wake: Wake,
    /// Connections that it has handed on, and no reader has begun to work on.
    unbegun: AtomicU32,
    thread: OnceLock<Thread>,
}

impl AcceptorBell {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { wake: Wake::new()?, unbegun: AtomicU32::new(0), thread: OnceLock::new() })
    }

    /// Has it look around.
    pub(super) fn wake(&self) {
        // An eventfd can always be written to.
        let _ = self.wake.wake();
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// A reader has begun to work on one of its connections.
    pub(super) fn begun(&self) {
        if self.unbegun.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// It has taken a connection that a reader is to work on.
    pub(super) fn handed_on(&self) {
        self.unbegun.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether readers have begun to work on all of these.
    pub(super) fn all_begun(&self) -> bool {
        self.unbegun.load(Ordering::Acquire) == 0
    }

    /// The acceptor is the calling thread.
    pub(super) fn is_of_this_thread(&self) {
        // Nobody has said so before.
        let _ = self.thread.set(thread::current());
    }

    /// Forgets wake-ups so far.
    pub(super) fn clear(&self) {
        let _ = self.wake.clear();
    }
}

impl AsFd for AcceptorBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
