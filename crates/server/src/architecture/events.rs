//! One interface to the event mechanisms of the get-events phase: edge-triggered epoll, level-triggered
//! epoll, poll, select, and a ring.
//!
//! With edge triggers a connection is registered once, for everything. The loop then acts on what the
//! connection wants *and* the ready bits that it has gathered. The loop tells the other mechanisms what to
//! wait for whenever that changes. A ring reports readiness as epoll does with edge triggers; but what
//! clients send and receive it moves itself ([`by_ring`](super::event_loop)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use sys::epoll::Epoll;
use sys::event::{Events, Interest};
use sys::poll::PollSet;
use sys::ring::Ring;
use sys::select::SelectSet;

use crate::config;
pub(super) use crate::registration::Registration;

/// One of the mechanisms.
#[derive(Debug)]
pub(super) enum EventMechanism {
    Epoll { epoll: Epoll, edge: bool },
    Poll(PollSet),
    Select(SelectSet),
    Ring(Box<Ring>),
}

impl EventMechanism {
    pub(super) fn new(events: config::Events) -> io::Result<Self> {
        Ok(match events {
            config::Events::Epoll => Self::Epoll { epoll: Epoll::new()?, edge: true },
            config::Events::EpollLevel => Self::Epoll { epoll: Epoll::new()?, edge: false },
            config::Events::Poll => Self::Poll(PollSet::new()),
            config::Events::Select => Self::Select(SelectSet::new()),
        })
    }

    /// The mechanism's own descriptor, if it has one.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Epoll { epoll, .. } => Some(epoll.as_fd()),
            Self::Poll(_) | Self::Select(_) | Self::Ring(_) => None,
        }
    }

    /// Whether the mechanism reports an event once, when it occurs, and not for as long as the state lasts.
    pub(super) fn is_edge_triggered(&self) -> bool {
        matches!(self, Self::Epoll { edge: true, .. } | Self::Ring(_))
    }

    /// The ring, if there is one.
    #[inline]
    pub(super) fn ring(&mut self) -> Option<&mut Ring> {
        match self {
            Self::Ring(ring) => Some(ring),
            Self::Epoll { .. } | Self::Poll(_) | Self::Select(_) => None,
        }
    }

    /// Watches a listener. `alone`: without waking other processes that watch it for the same connection
    /// (not with poll and select).
    pub(super) fn listen(&mut self, fd: BorrowedFd<'_>, token: u64, alone: bool) -> io::Result<Registration> {
        let interest = if alone { Interest::READABLE.alone() } else { Interest::READABLE };
        if self.is_edge_triggered() {
            self.add(fd, token, interest.on_edge())?;
            return Ok(Registration::Edge);
        }
        self.add(fd, token, interest)?;
        Ok(Registration::Level { readable: true, writable: false })
    }

    /// Memory that a descriptor takes in this process.
    pub(super) fn bytes_each(&self) -> usize {
        match self {
            Self::Epoll { .. } => 0,
            Self::Poll(_) => PollSet::BYTES_EACH,
            Self::Select(_) => SelectSet::BYTES_EACH,
            Self::Ring(_) => Ring::BYTES_EACH,
        }
    }

    /// Ensures that the mechanism reports a descriptor for what it waits for: input (`readable`), room for
    /// output (`writable`).
    pub(super) fn await_events(
        &mut self,
        fd: BorrowedFd<'_>,
        token: u64,
        now: Registration,
        (readable, writable): (bool, bool),
    ) -> io::Result<Registration> {
        if self.is_edge_triggered() {
            if now == Registration::None {
                self.add(fd, token, Interest::BOTH.on_edge())?;
            }
            return Ok(Registration::Edge);
        }
        let wanted = Registration::Level { readable, writable };
        if now != wanted {
            let interest = Interest { readable, writable, ..Interest::NONE };
            if now == Registration::None {
                self.add(fd, token, interest)?;
            } else {
                self.modify(fd, token, interest)?;
            }
        }
        Ok(wanted)
    }

    /// Removes a descriptor that is about to be closed. epoll does that by itself.
    pub(super) fn forget_closing(&mut self, fd: BorrowedFd<'_>, now: Registration) {
        if now != Registration::None && !matches!(self, Self::Epoll { .. }) {
            self.remove(fd);
        }
    }

    /// Watches for input on a descriptor for as long as the loop lives.
    pub(super) fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.add(fd, token, Interest::READABLE)
    }

    /// Removes a descriptor that stays open, if it is registered.
    pub(super) fn remove_if(&mut self, fd: BorrowedFd<'_>, now: Registration) {
        if now != Registration::None {
            self.remove(fd);
        }
    }

    /// Removes a descriptor that stays open.
    pub(super) fn remove(&mut self, fd: BorrowedFd<'_>) {
        // Removing a registered descriptor cannot fail.
        let _ = match self {
            Self::Epoll { epoll, .. } => epoll.remove(fd),
            Self::Poll(set) => set.remove(fd),
            Self::Select(set) => set.remove(fd),
            Self::Ring(ring) => ring.remove(fd),
        };
    }

    /// The get-events phase: waits for events, at most `timeout_ms` (none: for ever).
    pub(super) fn get(&mut self, events: &mut Events, timeout_ms: Option<u32>) -> io::Result<usize> {
        match self {
            Self::Epoll { epoll, .. } => epoll.wait(events, timeout_ms),
            Self::Poll(set) => set.wait(events, timeout_ms),
            Self::Select(set) => set.wait(events, timeout_ms),
            Self::Ring(ring) => ring.wait(events, timeout_ms),
        }
    }

    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        match self {
            Self::Epoll { epoll, .. } => epoll.add(fd, token, interest),
            Self::Poll(set) => set.add(fd, token, interest),
            Self::Select(set) => set.add(fd, token, interest),
            Self::Ring(ring) => ring.add(fd, token, interest),
        }
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        match self {
            Self::Epoll { epoll, .. } => epoll.modify(fd, token, interest),
            Self::Poll(set) => set.modify(fd, token, interest),
            Self::Select(set) => set.modify(fd, token, interest),
            Self::Ring(ring) => ring.remove(fd).and_then(|()| ring.add(fd, token, interest)),
        }
    }
}
