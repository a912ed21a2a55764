//! Waiting for events with poll(2). The whole set goes to the kernel each time, which checks every entry.
//!
//! The set is a dense array, as the call requires. An index by descriptor number makes every change O(1).
//! The last entry takes the place of a removed entry.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustix::event::epoll::{Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::event::{self, Events, Interest, Ready};

/// A set of descriptors for poll(2).
///
/// A descriptor must be removed before it is closed. One that was not removed is reported as [`error`]
/// and [`hang_up`].
///
/// [`error`]: crate::event::Ready::error
/// [`hang_up`]: crate::event::Ready::hang_up
#[derive(Debug, Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
    /// The token of the entry at the same index.
    tokens: Vec<u64>,
    /// The index of each descriptor's entry, by descriptor number.
    places: Vec<u32>,
}

/// The index of a descriptor that is not in the set.
const ABSENT: u32 = u32::MAX;

impl PollSet {
    /// Bytes of memory for each descriptor.
    pub const BYTES_EACH: usize = size_of::<libc::pollfd>() + size_of::<u64>() + size_of::<u32>();

    /// A new, empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches `fd`. Its events carry `token`. `EEXIST` if it is already watched.
    pub fn add(&mut self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let number = fd.as_fd().as_raw_fd();
        let index = number as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, ABSENT);
        }
        if self.places[index] != ABSENT {
            return Err(Errno::EXIST.into());
        }
        self.places[index] = self.entries.len() as u32;
        self.entries.push(libc::pollfd { fd: number, events: poll_flags(interest), revents: 0 });
        self.tokens.push(token);
        Ok(())
    }

    /// Changes what is watched. `ENOENT` if it is not watched.
    #[inline]
    pub fn modify(&mut self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let place = self.place(fd.as_fd().as_raw_fd())?;
        self.entries[place].events = poll_flags(interest);
        self.tokens[place] = token;
        Ok(())
    }

    /// Stops watching. `ENOENT` if it is not watched.
    pub fn remove(&mut self, fd: impl AsFd) -> io::Result<()> {
        let number = fd.as_fd().as_raw_fd();
        let place = self.place(number)?;
        self.places[number as usize] = ABSENT;
        self.entries.swap_remove(place);
        self.tokens.swap_remove(place);
        if let Some(moved) = self.entries.get(place) {
            self.places[moved.fd as usize] = place as u32;
        }
        Ok(())
    }

    /// Waits until something happens or `timeout_ms` has passed (`None`: no limit; 0: does not wait).
    /// Returns the number of events, 0 after a timeout or a signal. poll(2).
    pub fn wait(&mut self, events: &mut Events, timeout_ms: Option<u32>) -> io::Result<usize> {
        events.clear();
        let count = poll(&mut self.entries, timeout_ms)?;
        events.prepare(count);
        for (entry, token) in
            self.entries.iter().zip(&self.tokens).filter(|(entry, _)| entry.revents != 0).take(count)
        {
            events.push(*token, event_flags(entry.revents));
        }
        Ok(events.len())
    }

    #[inline]
    fn place(&self, number: RawFd) -> io::Result<usize> {
        match self.places.get(number as usize) {
            Some(&place) if place != ABSENT => Ok(place as usize),
            _ => Err(Errno::NOENT.into()),
        }
    }
}

/// Waits once for a few descriptors, until something happens to one of them or `timeout_ms` has passed
/// (`None`: no limit; 0: does not wait). Returns what happened to each, with its index as the token, or
/// nothing after a timeout or a signal. poll(2).
pub fn wait_for<const N: usize>(
    watched: [(BorrowedFd<'_>, Interest); N],
    timeout_ms: Option<u32>,
) -> io::Result<[Ready; N]> {
    let mut entries = watched.map(|(fd, interest)| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: poll_flags(interest),
        revents: 0,
    });
    poll(&mut entries, timeout_ms)?;
    let mut place = 0;
    Ok(entries.map(|entry| {
        let data = EventData::new_u64(place);
        place += 1;
        Ready::from_event(Event { flags: event_flags(entry.revents), data })
    }))
}

/// The system call. It stores what happened to each entry, and returns the number of entries with events.
fn poll(entries: &mut [libc::pollfd], timeout_ms: Option<u32>) -> io::Result<usize> {
    let timeout = timeout_ms.map_or(-1, |ms| libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX));
    // SAFETY: the pointer and the length are those of a live slice that is borrowed for the call.
    event::count(unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout) })
}

/// The flags have the same values; edge and exclusive are beyond the 16 bits.
fn poll_flags(interest: Interest) -> libc::c_short {
    let plain = Interest { edge: false, exclusive: false, ..interest };
    plain.flags().bits() as libc::c_short
}

fn event_flags(revents: libc::c_short) -> EventFlags {
    if revents & libc::POLLNVAL != 0 {
        return EventFlags::ERR.union(EventFlags::HUP);
    }
    EventFlags::from_bits_retain(u32::from(revents.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::event::tests::mechanism_tests!(PollSet::new());

    #[test]
    fn reports_all_that_are_ready_whatever_the_buffers_size() {
        let (mut set, mut events) = (PollSet::new(), Events::with_capacity(2));
        let pairs: Vec<_> = (0..9).map(|_| crate::event::tests::pair()).collect();
        for (token, (near, _)) in pairs.iter().enumerate() {
            set.add(near, token as u64, Interest::WRITABLE).unwrap();
        }
        assert_eq!(set.wait(&mut events, Some(1_000)).unwrap(), 9);
    }

    #[test]
    fn waits_for_a_few() {
        let ((one, _one_far), (two, two_far)) = (crate::event::tests::pair(), crate::event::tests::pair());
        let wait = |timeout| {
            wait_for([(one.as_fd(), Interest::READABLE), (two.as_fd(), Interest::READABLE)], timeout)
        };
        assert!(
            wait(Some(0)).unwrap().iter().all(|ready| !ready.readable && !ready.writable && !ready.error)
        );
        drop(two_far);
        let [first, second] = wait(None).unwrap();
        assert_eq!((first.token, first.readable, second.token, second.readable), (0, false, 1, true));
        assert!(second.hang_up && !first.hang_up);
    }

    #[test]
    fn tells_a_half_close_from_data() {
        let (mut set, mut events) = (PollSet::new(), Events::default());
        let (near, far) = crate::event::tests::pair();
        set.add(&near, 1, Interest::READABLE).unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(set.wait(&mut events, Some(1_000)).unwrap(), 1);
        let ready = events.get(0).unwrap();
        assert!(ready.readable && ready.hang_up && !ready.error);
    }

    #[test]
    fn reports_a_descriptor_that_is_not_open_as_an_error() {
        let (mut set, mut events) = (PollSet::new(), Events::default());
        // A number beyond all that the tests open, so nothing else can take it meanwhile.
        set.entries.push(libc::pollfd { fd: 1_000_000_000, events: libc::POLLIN, revents: 0 });
        set.tokens.push(4);
        assert_eq!(set.wait(&mut events, Some(1_000)).unwrap(), 1);
        let ready = events.get(0).unwrap();
        assert!(ready.token == 4 && ready.error && ready.hang_up && !ready.readable);
    }
}
