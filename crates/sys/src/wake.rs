//! Waking an event loop from another thread or process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// An event counter, eventfd(2). The loop to be woken watches it for reading. Any thread can use it, and
/// so can processes forked after its creation.
#[derive(Debug)]
pub struct Wake {
    descriptor: OwnedFd,
}

impl Wake {
    /// A wake-up that has not been triggered. Non-blocking and closed on exec.
    pub fn new() -> io::Result<Self> {
        Ok(Self { descriptor: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    /// Makes the descriptor readable until the next [`clear`](Self::clear). Further calls before that
    /// have no effect.
    pub fn wake(&self) -> io::Result<()> {
        match rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes()) {
            // The counter is full, so the descriptor is readable.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the descriptor unreadable again, and returns whether it was woken.
    pub fn clear(&self) -> io::Result<bool> {
        match rustix::io::read(&self.descriptor, &mut [0_u8; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::Epoll;
    use crate::event::{Events, Interest};

    #[test]
    fn wakes_a_loop_once_until_cleared() {
        let (wake, epoll, mut events) = (Wake::new().unwrap(), Epoll::new().unwrap(), Events::default());
        epoll.add(&wake, 5, Interest::READABLE).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wake.wake().unwrap();
                wake.wake().unwrap();
            });
            assert_eq!(epoll.wait(&mut events, None).unwrap(), 1);
        });
        assert_eq!(events.get(0).unwrap().token, 5);
        assert!(wake.clear().unwrap());
        assert!(!wake.clear().unwrap());
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);
    }
}
