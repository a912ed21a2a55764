//! How threads that wait for the kernel are woken by other threads. These are the threads of the poll
//! stages, and acceptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use sys::epoll::Epoll;
use sys::event::Interest;
use sys::poll;
use sys::wake::Wake;

use crate::architecture::common::token::{Kind, Token};

/// What a poll stage waits with.
pub(super) struct Poll {
    pub(super) epoll: Epoll,
    wake: Arc<Wake>,
    /// Get-events phases that are complete.
    passes: AtomicU64,
    /// An acceptor waits for the next.
    is_awaited: AtomicBool,
}

const WAKE: u64 = Token::of(Kind::Helpers).number();

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        let (epoll, wake) = (Epoll::new()?, Arc::new(Wake::new()?));
        epoll.add(&*wake, WAKE, Interest::READABLE)?;
        Ok(Self { epoll, wake, passes: AtomicU64::new(0), is_awaited: AtomicBool::new(false) })
    }

    /// Wakes the stage, so that it looks for work.
    pub(super) fn wake(&self) {
        // Writing to an eventfd cannot fail here.
        let _ = self.wake.wake();
    }

    /// Clears wake-ups so far.
    pub(super) fn clear(&self) {
        let _ = self.wake.clear();
    }

    /// If there are events that the stage has not received: the number of a pass in which it will have
    /// received them.
    pub(super) fn pass_to_come(&self) -> Option<u64> {
        let pass = self.passes.load(Ordering::SeqCst) + 1;
        self.is_awaited.store(true, Ordering::SeqCst);
        let events = poll::wait_for([(self.epoll.as_fd(), Interest::READABLE)], Some(0));
        events.is_ok_and(|[events]| events.readable).then(|| {
            // If a reader receives the input or closes the connection meanwhile, the event is gone and
            // wakes no thread.
            self.wake();
            pass
        })
    }

    /// Whether that pass is complete.
    pub(super) fn has_made(&self, pass: u64) -> bool {
        self.passes.load(Ordering::SeqCst) >= pass
    }

    /// A pass is complete. Returns whether an acceptor waits for that.
    pub(super) fn pass_ends(&self) -> bool {
        self.passes.fetch_add(1, Ordering::SeqCst);
        self.is_awaited.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// The wake-up with which other threads wake the stage.
    pub(super) fn wakeup(&self) -> Arc<Wake> {
        Arc::clone(&self.wake)
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// How other threads reach an acceptor.
pub(super) struct AcceptorWakeup {
    wake: Wake,
    /// Connections that it has handed on, and that have not had their first turn yet.
    ahead: AtomicU32,
    thread: OnceLock<Thread>,
}

impl AcceptorWakeup {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { wake: Wake::new()?, ahead: AtomicU32::new(0), thread: OnceLock::new() })
    }

    /// Wakes the acceptor, so that it looks for work.
    pub(super) fn wake(&self) {
        // Writing to an eventfd cannot fail here.
        let _ = self.wake.wake();
        self.stages_have_passed();
    }

    /// One of its connections has had its first turn.
    pub(super) fn served(&self) {
        if self.ahead.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stages_have_passed();
        }
    }

    /// The acceptor has taken a connection that the stages are to work on.
    pub(super) fn handed_on(&self) {
        self.ahead.fetch_add(1, Ordering::AcqRel);
    }

    /// How many of these connections have not had their first turn.
    pub(super) fn ahead(&self) -> u32 {
        self.ahead.load(Ordering::Acquire)
    }

    /// The acceptor is the calling thread.
    pub(super) fn is_of_this_thread(&self) {
        // This is called only once.
        let _ = self.thread.set(thread::current());
    }

    /// Makes the acceptor check again whether the stages have got as far as it waits for.
    pub(super) fn stages_have_passed(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Clears wake-ups so far.
    pub(super) fn clear(&self) {
        let _ = self.wake.clear();
    }
}

impl AsFd for AcceptorWakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_has_news_to_hear_is_woken_and_awaited() {
        let poll = Poll::new().unwrap();
        assert_eq!(poll.pass_to_come(), None, "there is nothing to be heard");

        let news = Wake::new().unwrap();
        poll.epoll.add(&news, 7, Interest::READABLE.on_edge()).unwrap();
        news.wake().unwrap();
        let pass = poll.pass_to_come().expect("there is");
        assert!(!poll.has_made(pass));
        // Another thread consumes the event first. The stage must still complete a pass.
        news.clear().unwrap();
        let [woken] = poll::wait_for([(poll.as_fd(), Interest::READABLE)], Some(0)).unwrap();
        assert!(woken.readable);
        assert!(poll.pass_ends(), "somebody waits for it");
        assert!(poll.has_made(pass));
        assert!(!poll.pass_ends(), "and has been told");
    }

    #[test]
    fn those_ahead_are_counted_until_they_have_had_a_turn() {
        let wakeup = AcceptorWakeup::new().unwrap();
        wakeup.is_of_this_thread();
        wakeup.handed_on();
        wakeup.handed_on();
        wakeup.served();
        assert_eq!(wakeup.ahead(), 1);
        wakeup.served();
        assert_eq!(wakeup.ahead(), 0);
        // Would wait for ever, had it not been called.
        thread::park();
    }
}
