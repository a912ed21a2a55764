//! Types that the three event mechanisms share: what to wait for, and what happened.
//!
//! [`Epoll`](crate::epoll::Epoll), [`PollSet`](crate::poll::PollSet) and
//! [`SelectSet`](crate::select::SelectSet) have the same methods (`add`, `modify`, `remove`, `wait`) and
//! fill the same [`Events`], so that a server can match over them. `Events` belongs to the caller and
//! holds the kernel's `epoll_event` records unchanged. Linux gives the bits of poll and epoll the same
//! values (see poll(2) and `epoll_ctl(2)`), so nothing is converted until a record is read.

use std::io;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{Event, EventData, EventFlags};

/// What to wait for on a descriptor.
///
/// `edge` and `exclusive` exist for epoll only (`EPOLLET`, `EPOLLEXCLUSIVE`, `epoll_ctl(2)`). poll and
/// select are always level-triggered and ignore them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "these are the kernel's independent flags, by name")]
pub struct Interest {
    /// There is something to read or to accept, or the peer will send nothing more.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// Report each change once, instead of a state for as long as it lasts.
    pub edge: bool,
    /// Wake one (or a few) of the processes that wait for this descriptor, not all of them. This is
    /// allowed only in `add`. The entry cannot be modified later, only removed. The peer's half-close is
    /// then not reported as `hang_up`.
    pub exclusive: bool,
}

impl Interest {
    /// Nothing. epoll and poll still report errors; select reports nothing at all.
    pub const NONE: Self = Self { readable: false, writable: false, edge: false, exclusive: false };
    /// Readable, level-triggered.
    pub const READABLE: Self = Self { readable: true, ..Self::NONE };
    /// Writable, level-triggered.
    pub const WRITABLE: Self = Self { writable: true, ..Self::NONE };
    /// Readable and writable, level-triggered.
    pub const BOTH: Self = Self { readable: true, ..Self::WRITABLE };

    /// Edge-triggered: reports each change once, instead of states.
    #[must_use]
    pub const fn on_edge(self) -> Self {
        Self { edge: true, ..self }
    }

    /// Wakes only a few of several waiting processes, instead of all.
    #[must_use]
    pub const fn alone(self) -> Self {
        Self { exclusive: true, ..self }
    }

    /// The kernel's flags for epoll. poll takes the same flags except the last two.
    pub(crate) const fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        if self.readable {
            flags = flags.union(EventFlags::IN);
            // `epoll_ctl(2)` lists the flags allowed with EPOLLEXCLUSIVE; EPOLLRDHUP is not among them.
            if !self.exclusive {
                flags = flags.union(EventFlags::RDHUP);
            }
        }
        if self.writable {
            flags = flags.union(EventFlags::OUT);
        }
        if self.edge {
            flags = flags.union(EventFlags::ET);
        }
        if self.exclusive {
            flags = flags.union(EventFlags::EXCLUSIVE);
        }
        flags
    }
}

/// What happened on one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "these are the kernel's independent flags, by name")]
pub struct Ready {
    /// The token that the descriptor was added with.
    pub token: u64,
    /// A read (or accept) would return something, possibly the end of input or an error.
    pub readable: bool,
    /// A write would accept bytes, or return an error.
    pub writable: bool,
    /// The peer sends nothing more (`EPOLLRDHUP`), or the connection has ended in both directions
    /// (`EPOLLHUP`). select does not report this: it reports `readable`, and a read returns the end of
    /// input.
    pub hang_up: bool,
    /// The socket has a pending error. select does not report this: it reports `readable` and `writable`.
    pub error: bool,
}

impl Ready {
    #[inline]
    pub(crate) fn from_event(event: Event) -> Self {
        let flags = event.flags;
        Self {
            token: event.data.u64(),
            readable: flags.contains(EventFlags::IN),
            writable: flags.contains(EventFlags::OUT),
            hang_up: flags.intersects(EventFlags::HUP.union(EventFlags::RDHUP)),
            error: flags.contains(EventFlags::ERR),
        }
    }
}

/// The caller's buffer of events, reused from wait to wait.
pub struct Events {
    records: Vec<Event>,
    capacity: usize,
}

impl Events {
    /// The default for how many events one epoll wait returns at most.
    pub const DEFAULT_CAPACITY: usize = 1_024;

    /// Room for `capacity` events (at least 1) of one epoll wait. poll and select check every descriptor
    /// before they return. So they return all events, and enlarge the buffer if necessary.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { records: Vec::with_capacity(capacity), capacity }
    }

    /// The events of the last wait.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Ready> {
        self.records.iter().map(|event| Ready::from_event(*event))
    }

    /// Event number `index` of the last wait, for callers that change the event set while they iterate.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Ready> {
        self.records.get(index).map(|event| Ready::from_event(*event))
    }

    /// How many events the last wait returned.
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the last wait returned none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.records.clear();
    }

    /// Clears the buffer and makes room for `count` pushes.
    pub(crate) fn prepare(&mut self, count: usize) {
        self.records.clear();
        self.records.reserve(count);
    }

    #[inline]
    pub(crate) fn push(&mut self, token: u64, flags: EventFlags) {
        self.records.push(Event { flags, data: EventData::new_u64(token) });
    }

    /// The cleared vector, which the kernel may fill up to `capacity`.
    pub(crate) fn records(&mut self) -> (&mut Vec<Event>, usize) {
        self.records.clear();
        (&mut self.records, self.capacity)
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::with_capacity(Self::DEFAULT_CAPACITY)
    }
}

/// How many events a wait returned: none if a signal interrupted it.
#[inline]
pub(crate) fn count(result: impl TryInto<usize>) -> io::Result<usize> {
    let Ok(count) = result.try_into() else {
        return match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        };
    };
    Ok(count)
}

/// A timeout as the kernel's type. `None` waits without a limit.
#[inline]
pub(crate) fn timespec(timeout_ms: Option<u32>) -> Option<Timespec> {
    timeout_ms.map(|ms| {
        let duration = Duration::from_millis(u64::from(ms));
        Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::fd::{AsFd, OwnedFd, RawFd};
    use std::os::unix::net::UnixStream;

    use rustix::process::{Resource, Rlimit, setrlimit};

    /// The same tests for each mechanism, which must agree in everything that a level-triggered server
    /// depends on.
    macro_rules! mechanism_tests {
        ($new:expr) => {
            #[test]
            fn reports_what_is_ready_with_its_token() {
                use std::io::{Read, Write};

                #[allow(unused_mut, reason = "epoll changes its set through a shared reference")]
                let mut set = $new;
                let mut events = crate::event::Events::default();
                let (mut near, mut far) = crate::event::tests::pair();
                let (other, _other_far) = crate::event::tests::pair();
                set.add(&near, 7, Interest::READABLE).unwrap();
                set.add(&other, 8, Interest::READABLE).unwrap();
                assert_eq!(set.wait(&mut events, Some(0)).unwrap(), 0);
                assert!(events.is_empty());

                far.write_all(b"x").unwrap();
                for _ in 0..2 {
                    assert_eq!(set.wait(&mut events, None).unwrap(), 1, "level-triggered: told until read");
                    let ready = events.get(0).unwrap();
                    assert_eq!((ready.token, ready.readable, ready.writable), (7, true, false));
                    assert!(!ready.hang_up && !ready.error);
                }
                near.read_exact(&mut [0]).unwrap();
                assert_eq!(set.wait(&mut events, Some(1)).unwrap(), 0);

                set.modify(&near, 9, Interest::BOTH).unwrap();
                far.write_all(b"x").unwrap();
                assert_eq!(set.wait(&mut events, Some(1_000)).unwrap(), 1, "one event for both directions");
                let ready = events.iter().next().unwrap();
                assert_eq!((ready.token, ready.readable, ready.writable), (9, true, true));

                set.modify(&near, 9, Interest::NONE).unwrap();
                assert_eq!(set.wait(&mut events, Some(0)).unwrap(), 0);
                set.modify(&near, 9, Interest::READABLE).unwrap();
                assert_eq!(set.wait(&mut events, Some(0)).unwrap(), 1);
                set.remove(&near).unwrap();
                assert_eq!(set.wait(&mut events, Some(0)).unwrap(), 0);
            }

            #[test]
            fn reports_the_end_of_the_peers_sending_as_readable() {
                #[allow(unused_mut, reason = "epoll changes its set through a shared reference")]
                let mut set = $new;
                let mut events = crate::event::Events::default();
                let (near, far) = crate::event::tests::pair();
                set.add(&near, 1, Interest::READABLE).unwrap();
                drop(far);
                assert_eq!(set.wait(&mut events, Some(1_000)).unwrap(), 1);
                assert!(events.get(0).unwrap().readable);
            }

            #[test]
            fn refuses_to_add_twice_and_to_change_what_is_absent() {
                #[allow(unused_mut, reason = "epoll changes its set through a shared reference")]
                let mut set = $new;
                let (near, _far) = crate::event::tests::pair();
                let absent = |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::NotFound;
                assert!(absent(set.modify(&near, 1, Interest::READABLE)));
                assert!(absent(set.remove(&near)));
                set.add(&near, 1, Interest::NONE).unwrap();
                let twice = set.add(&near, 2, Interest::READABLE).unwrap_err();
                assert_eq!(twice.kind(), io::ErrorKind::AlreadyExists);
                set.remove(&near).unwrap();
                assert!(absent(set.remove(&near)));
                set.add(&near, 3, Interest::READABLE).unwrap();
            }

            #[test]
            fn keeps_tokens_apart_through_many_changes() {
                #[allow(unused_mut, reason = "epoll changes its set through a shared reference")]
                let mut set = $new;
                let mut events = crate::event::Events::default();
                let pairs: Vec<_> = (0..50).map(|_| crate::event::tests::pair()).collect();
                for (token, (near, _)) in pairs.iter().enumerate() {
                    set.add(near, token as u64, Interest::WRITABLE).unwrap();
                }
                for (near, _) in pairs.iter().step_by(3) {
                    set.remove(near).unwrap();
                }
                for (token, (near, _)) in pairs.iter().enumerate().filter(|(token, _)| token % 3 == 1) {
                    set.modify(near, 1_000 + token as u64, Interest::WRITABLE).unwrap();
                }
                let expected: Vec<u64> = (0..50)
                    .filter_map(|token| match token % 3 {
                        0 => None,
                        1 => Some(1_000 + token),
                        _ => Some(token),
                    })
                    .collect();
                assert_eq!(set.wait(&mut events, Some(1_000)).unwrap(), expected.len());
                let mut tokens: Vec<u64> = events.iter().map(|ready| ready.token).collect();
                tokens.sort_unstable();
                let mut expected = expected;
                expected.sort_unstable();
                assert_eq!(tokens, expected);
            }

            #[test]
            fn works_with_high_descriptor_numbers() {
                use std::io::Write;

                #[allow(unused_mut, reason = "epoll changes its set through a shared reference")]
                let mut set = $new;
                let mut events = crate::event::Events::default();
                let (low, _low_far) = crate::event::tests::pair();
                let (near, mut far) = crate::event::tests::pair();
                let high = crate::event::tests::under_high_number(&near);
                assert!(std::os::fd::AsRawFd::as_raw_fd(&high) >= 4_000);
                set.add(&low, 1, Interest::READABLE).unwrap();
                set.add(&high, 2, Interest::READABLE).unwrap();
                assert_eq!(set.wait(&mut events, Some(0)).unwrap(), 0);
                far.write_all(b"x").unwrap();
                assert_eq!(set.wait(&mut events, Some(1_000)).unwrap(), 1);
                assert_eq!(events.get(0).unwrap().token, 2);
                set.remove(&high).unwrap();
                assert_eq!(set.wait(&mut events, Some(0)).unwrap(), 0);
            }
        };
    }
    pub(crate) use mechanism_tests;

    pub(crate) fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    /// The same open socket under a descriptor number beyond 20,000, or as high as this machine allows.
    pub(crate) fn under_high_number(fd: &impl AsFd) -> OwnedFd {
        const WANTED: u64 = 20_100;
        if crate::process::raise_descriptor_limit().unwrap() < WANTED {
            // Only root may raise the limit. Without it, the test still works: it checks the number.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(WANTED), maximum: Some(WANTED) });
        }
        let limit = crate::process::descriptor_limit().min(WANTED);
        rustix::io::fcntl_dupfd_cloexec(fd, limit as RawFd - 100).unwrap()
    }
}
