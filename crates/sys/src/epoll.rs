//! Waiting for events with epoll(7): the kernel keeps the set, and a wait costs what is ready, not what is watched.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData};

use crate::event::{Events, Interest, timespec};

/// An epoll instance, epoll(7).
#[derive(Debug)]
pub struct Epoll {
    descriptor: OwnedFd,
}

impl Epoll {
    /// A new and empty set, `epoll_create1(2)`. Closed on exec.
    pub fn new() -> io::Result<Self> {
        Ok(Self { descriptor: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Watches `fd`; its events carry `token`. `EPOLL_CTL_ADD`, `epoll_ctl(2)`; `EEXIST` if it is watched already.
    #[inline]
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.descriptor, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Changes what is watched, and re-arms an edge-triggered entry. `EPOLL_CTL_MOD`, `epoll_ctl(2)`; `ENOENT` if it
    /// is not watched.
    #[inline]
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.descriptor, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Stops watching. `EPOLL_CTL_DEL`, `epoll_ctl(2)`. Needless before closing the last descriptor of a socket:
    /// closing removes it.
    #[inline]
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.descriptor, fd)?)
    }

    /// Waits until something happens or `timeout_ms` is over (`None`: no limit; 0: only looks), and gives the number
    /// of events, 0 after a timeout or a signal. `epoll_wait(2)`.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout_ms: Option<u32>) -> io::Result<usize> {
        let (records, capacity) = events.records();
        let spare = &mut records.spare_capacity_mut()[..capacity];
        // The call fills uninitialised room and says how much of it: the vector's length follows below.
        let count = match epoll::wait(&self.descriptor, spare, timespec(timeout_ms).as_ref()) {
            Ok((filled, _)) => filled.len(),
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        // SAFETY: the kernel has initialised the first `count` records of the spare capacity of an empty vector.
        unsafe { records.set_len(count) };
        Ok(count)
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::event::tests::mechanism_tests!(Epoll::new().unwrap());
}
