//! Waiting for events with epoll(7). The kernel keeps the set, and the cost of a wait depends on what is
//! ready, not on what is watched.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData};

use crate::event::{self, Events, Interest, timespec};

/// An epoll instance, epoll(7).
#[derive(Debug)]
pub struct Epoll {
    descriptor: OwnedFd,
}

impl Epoll {
    /// A new, empty set, `epoll_create1(2)`. Closed on exec.
    pub fn new() -> io::Result<Self> {
        Ok(Self { descriptor: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Watches `fd`. Its events carry `token`. `EPOLL_CTL_ADD`, `epoll_ctl(2)`; `EEXIST` if it is already
    /// watched.
    #[inline]
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.descriptor, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Changes what is watched, and re-arms an edge-triggered entry. `EPOLL_CTL_MOD`, `epoll_ctl(2)`;
    /// `ENOENT` if it is not watched.
    #[inline]
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.descriptor, fd, EventData::new_u64(token), interest.flags())?)
    }

    /// Stops watching. `EPOLL_CTL_DEL`, `epoll_ctl(2)`. This is not needed before closing the last
    /// descriptor of a socket, because closing removes it.
    #[inline]
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.descriptor, fd)?)
    }

    /// Waits until something happens or `timeout_ms` has passed (`None`: no limit; 0: does not wait).
    /// Returns the number of events, 0 after a timeout or a signal. `epoll_wait(2)`.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout_ms: Option<u32>) -> io::Result<usize> {
        let (records, capacity) = events.records();
        let spare = &mut records.spare_capacity_mut()[..capacity];
        // The call fills uninitialised space and returns how much of it. The vector's length is set
        // below.
        let count = match epoll::wait(&self.descriptor, spare, timespec(timeout_ms).as_ref()) {
            Ok((filled, _)) => filled.len(),
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        // SAFETY: the kernel has initialised the first `count` records of the spare capacity of an empty
        // vector.
        unsafe { records.set_len(count) };
        Ok(count)
    }

    /// Waits until something happens or `timeout_ns` nanoseconds have passed. Returns the number of
    /// events, 0 after a timeout or a signal. The thread's timer slack, prctl(2), decides how soon it
    /// returns after that. `epoll_pwait2(2)` (Linux 5.11).
    #[inline]
    pub fn wait_ns(&self, events: &mut Events, timeout_ns: u64) -> io::Result<usize> {
        let (records, capacity) = events.records();
        let timeout = crate::clock::timespec(Duration::from_nanos(timeout_ns));
        // SAFETY: rustix's `Event` is the kernel's `epoll_event`; there is room for `capacity` of them behind
        // the pointer, and the timeout lives through the call. No signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.descriptor.as_raw_fd(),
                records.as_mut_ptr(),
                capacity as libc::c_int,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        let count = event::count(count)?;
        // SAFETY: the kernel has initialised the first `count` records.
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

    use std::io::Write;

    crate::event::tests::mechanism_tests!(Epoll::new().unwrap());

    #[test]
    fn waits_for_fractions_of_a_millisecond() {
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::default());
        let before = crate::clock::monotonic_ns();
        assert_eq!(epoll.wait_ns(&mut events, 300_000).unwrap(), 0);
        assert!(crate::clock::monotonic_ns() - before >= 300_000);
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        epoll.add(&near, 7, Interest::READABLE).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(epoll.wait_ns(&mut events, 5_000_000_000).unwrap(), 1);
        assert_eq!(events.get(0).unwrap().token, 7);
    }

    #[test]
    fn tells_an_edge_once_and_again_after_modify() {
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::default());
        let (near, mut far) = crate::event::tests::pair();
        let interest = Interest::READABLE.on_edge();
        epoll.add(&near, 1, interest).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(epoll.wait(&mut events, Some(1_000)).unwrap(), 1);
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);
        far.write_all(b"x").unwrap();
        assert_eq!(epoll.wait(&mut events, Some(1_000)).unwrap(), 1, "more data is another edge");
        epoll.modify(&near, 2, interest).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 1);
        assert_eq!(events.get(0).unwrap().token, 2);
    }

    #[test]
    fn tells_a_half_close_from_data() {
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::default());
        let (near, far) = crate::event::tests::pair();
        epoll.add(&near, 1, Interest::READABLE).unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(1_000)).unwrap(), 1);
        let ready = events.get(0).unwrap();
        assert!(ready.readable && ready.hang_up && !ready.error);
    }

    #[test]
    fn brings_no_more_events_than_there_is_room_for() {
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::with_capacity(3));
        let pairs: Vec<_> = (0..5).map(|_| crate::event::tests::pair()).collect();
        for (token, (near, _)) in pairs.iter().enumerate() {
            epoll.add(near, token as u64, Interest::WRITABLE).unwrap();
        }
        let mut seen = [false; 5];
        for _ in 0..2 {
            assert_eq!(epoll.wait(&mut events, Some(1_000)).unwrap(), 3);
            events.iter().for_each(|ready| seen[ready.token as usize] = true);
        }
        assert_eq!(seen, [true; 5], "the next wait goes on with the others");
    }

    #[test]
    fn wakes_one_of_several_sets_that_asked_to_be_woken_alone() {
        let (near, mut far) = crate::event::tests::pair();
        let sets: Vec<Epoll> = (0..4).map(|_| Epoll::new().unwrap()).collect();
        for set in &sets {
            set.add(&near, 1, Interest::READABLE.alone()).unwrap();
            let refused = set.modify(&near, 1, Interest::READABLE).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
        let woken: usize = std::thread::scope(|scope| {
            let waiters: Vec<_> = sets
                .iter()
                .map(|set| scope.spawn(|| set.wait(&mut Events::default(), Some(300)).unwrap()))
                .collect();
            // All waiters must be asleep. One that starts to wait later would find the descriptor
            // readable.
            std::thread::sleep(std::time::Duration::from_millis(100));
            far.write_all(b"x").unwrap();
            waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum()
        });
        assert_eq!(woken, 1);
    }
}
