//! A descriptor table that several processes have in common ([`fork_sharing_descriptors`]): who owns what in
//! it.
//!
//! A process that is killed takes nothing with it: its sockets stay open, as the table does. So every process
//! records in shared memory what it owns, and whoever has noticed its end closes that:
//! [`Ledger::close_owned`]. Files that all processes use are *kept*, for a keeper such as a cache of theirs.
//!
//! A record is written after a descriptor was opened and before it is closed, and a process may be killed in
//! between. Such descriptors are found by looking twice ([`Ledger::suspects`], [`Ledger::close_suspects`]):
//! what nobody claims is marked, and when every living process has since been at a point where it had nothing
//! unrecorded, what still bears the mark and is claimed by nobody is nobody's. The mark is a cleared
//! close-on-exec flag, which everything newly opened has. Each change of a record makes another one of it, so
//! that no claim in between is missed.
//!
//! [`fork_sharing_descriptors`]: crate::process::fork_sharing_descriptors

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{Dir, FileType, Mode, OFlags, SealFlags};
use rustix::io::{Errno, FdFlags};

use crate::shared::{Region, Shared};

/// Who owns which descriptor of a common table. Copies are the same ledger.
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    records: &'static [AtomicU64],
    /// Records above this have never been written.
    highest: &'static AtomicU32,
}

/// Who says that a descriptor is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody.
    None,
    /// A process, by the number that it was given.
    Owned(u32),
    /// All processes that use what this keeper holds.
    Kept(u32),
    /// The process that the others come from: it was open before them.
    First,
}

/// A descriptor that was left to a keeper: its number, and the serial number of the record that says so. The
/// number may come to be another file's, the two together never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept(u64);

/// Descriptors that nobody claimed at one moment; see [`Ledger::suspects`].
#[derive(Debug, Default)]
pub struct Suspects(Vec<(RawFd, u64)>);

/// Owners and keepers have numbers below this.
pub const NUMBERS: u32 = 1 << 24;

/// The first descriptor that is not standard input, output or error.
const FIRST: RawFd = 3;

impl Ledger {
    /// Of a table with descriptors below `limit`. It stays for the life of this process and of those forked
    /// later. What is open now is claimed by the first process.
    pub fn new(limit: usize) -> io::Result<Self> {
        let this = Self { records: Region::new(limit)?.leak(), highest: Shared::<AtomicU32>::new()?.leak() };
        for number in open_numbers()? {
            this.record(number, Claim::First);
        }
        Ok(this)
    }

    /// Records that `owner` has this descriptor, from right after it was opened.
    #[inline]
    pub fn own(&self, fd: impl AsFd, owner: u32) {
        self.record(fd.as_fd().as_raw_fd(), Claim::Owned(owner));
    }

    /// Records that a descriptor is about to be closed by the caller.
    #[inline]
    pub fn leave(&self, fd: impl AsFd) {
        self.record(fd.as_fd().as_raw_fd(), Claim::None);
    }

    /// Leaves a descriptor to a keeper. `None`: it is above the ledger's limit, and closed.
    pub fn keep(&self, fd: OwnedFd, keeper: u32) -> Option<Kept> {
        let number = fd.as_raw_fd();
        self.records.get(number as usize)?;
        let record = self.record(fd.into_raw_fd(), Claim::Kept(keeper));
        Some(Kept(record >> SERIAL << SERIAL | u64::from(number.cast_unsigned())))
    }

    /// A kept descriptor. `None`: this keeper does not keep it any more.
    ///
    /// It stays this file's for as long as whoever asks for it prevents those who close it from doing so:
    /// another that calls [`close_kept`](Self::close_kept) for the same keeper, and
    /// [`close_all_kept`](Self::close_all_kept). Everything else that closes by the ledger spares what is
    /// kept.
    #[inline]
    pub fn kept(&self, kept: Kept, keeper: u32) -> Option<BorrowedFd<'_>> {
        let record = self.records.get(kept.number() as usize)?.load(Ordering::Acquire);
        // SAFETY: by this record it is open, and nobody else's: the record of another file under this number
        // would be another one. That it is not closed meanwhile is the caller's care, see above; should
        // somebody in the common table close what is not his, calls are made on what then has the number, or
        // fail.
        (record == kept.record(keeper))
            .then(|| unsafe { BorrowedFd::borrow_raw(kept.number().cast_signed()) })
    }

    /// Closes a kept descriptor; says whether this keeper kept it.
    pub fn close_kept(&self, kept: Kept, keeper: u32) -> bool {
        let Some(record) = self.records.get(kept.number() as usize) else { return false };
        let now = kept.record(keeper);
        let left =
            record.compare_exchange(now, next(now, Claim::None), Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if left {
            close(kept.number().cast_signed());
        }
        left
    }

    /// Closes all that a process owned which has ended; says how many they were. Not for one that lives.
    pub fn close_owned(&self, owner: u32) -> usize {
        self.close_all(Claim::Owned(owner))
    }

    /// Closes all that is kept for a keeper whom nobody uses any more; says how many they were.
    pub fn close_all_kept(&self, keeper: u32) -> usize {
        self.close_all(Claim::Kept(keeper))
    }

    /// Marks what is open and nobody claims, `is_valid` saying of a number and its claim whether whoever
    /// claims it still is there. For [`close_suspects`](Self::close_suspects), when all living processes have
    /// been at a point with nothing unrecorded.
    ///
    /// Suspected is only what processes serve with: connections, files that are read, epoll instances,
    /// directories. Listening sockets, event counters and files that are written to are not.
    pub fn suspects(&self, is_valid: impl Fn(u32, Claim) -> bool) -> io::Result<Suspects> {
        let mut suspects = Vec::new();
        for number in open_numbers()? {
            let Some(record) = self.records.get(number as usize) else { continue };
            let record = record.load(Ordering::Acquire);
            if !is_valid(number.cast_unsigned(), claim(record)) && kind(number) == Kind::Served {
                set_mark(number, true);
                suspects.push((number, record));
            }
        }
        Ok(Suspects(suspects))
    }

    /// Closes the suspects that turn out to be nobody's; says how many they were.
    pub fn close_suspects(&self, suspects: Suspects, is_valid: impl Fn(u32, Claim) -> bool) -> usize {
        let mut closed = 0;
        for (number, before) in suspects.0 {
            let now = self.records[number as usize].load(Ordering::Acquire);
            let is_claimed = now != before || is_valid(number.cast_unsigned(), claim(now));
            if !is_claimed && is_marked(number) {
                self.record(number, Claim::None);
                close(number);
                closed += 1;
            } else if is_claimed {
                set_mark(number, false);
            }
        }
        closed
    }

    /// In a process that was forked with a *copy* of the common table: closes what others serve with, so that
    /// what they close is closed.
    pub fn close_copies(&self) -> io::Result<()> {
        for number in open_numbers()? {
            let record = self.records.get(number as usize).map_or(0, |record| record.load(Ordering::Relaxed));
            // The records go on changing, and may speak of what has got this number since the copy was made.
            // So what is never anybody's but the first process's is left alone whatever they say.
            let is_foreign = match (kind(number), claim(record)) {
                (Kind::Served, claim) => claim != Claim::First,
                (Kind::Written, claim) => matches!(claim, Claim::Owned(_)),
                (Kind::Other, _) => false,
            };
            if is_foreign {
                close(number);
            }
        }
        Ok(())
    }

    fn close_all(&self, whose: Claim) -> usize {
        let mut closed = 0;
        let highest = self.highest.load(Ordering::Acquire) as usize;
        for (number, record) in (0..).zip(self.records).take(highest + 1) {
            if claim(record.load(Ordering::Acquire)) == whose {
                self.record(number, Claim::None);
                close(number);
                closed += 1;
            }
        }
        closed
    }

    /// Gives the new record.
    #[inline]
    fn record(&self, number: RawFd, claim: Claim) -> u64 {
        let Some(record) = self.records.get(number as usize) else { return 0 };
        let number = number.cast_unsigned();
        if number > self.highest.load(Ordering::Relaxed) {
            self.highest.fetch_max(number, Ordering::AcqRel);
        }
        // Whoever has the descriptor is the only one to write its record.
        let anew = next(record.load(Ordering::Relaxed), claim);
        record.store(anew, Ordering::Release);
        anew
    }
}

impl Kept {
    /// It as a word, which is not 0.
    pub fn word(self) -> u64 {
        self.0
    }

    /// What that word says, if it can be one.
    pub fn of(word: u64) -> Option<Self> {
        (word as u32 >= FIRST.cast_unsigned()).then_some(Self(word))
    }

    /// The descriptor's number.
    pub fn number(self) -> u32 {
        self.0 as u32
    }

    /// What the ledger has of it.
    #[inline]
    fn record(self, keeper: u32) -> u64 {
        self.0 >> SERIAL << SERIAL | words(Claim::Kept(keeper))
    }
}

/// Has the common table hold descriptors below `limit` from now on. Growing it under load would stop all who
/// use it until the kernel knows that nobody looks at the old one.
pub fn grow_table(limit: u32) -> io::Result<()> {
    let highest = limit.saturating_sub(1).cast_signed();
    drop(rustix::io::fcntl_dupfd_cloexec(io::stderr().as_fd(), highest)?);
    Ok(())
}

// A record: what was last said of a descriptor, under a number of its own.
const SERIAL: u32 = 32;
const KIND: u32 = 24;

fn next(before: u64, claim: Claim) -> u64 {
    (before >> SERIAL).wrapping_add(1) << SERIAL | words(claim)
}

/// The lower half of a record.
fn words(claim: Claim) -> u64 {
    let (kind, number) = match claim {
        Claim::None => (0, 0),
        Claim::Owned(owner) => (1, owner),
        Claim::Kept(keeper) => (2, keeper),
        Claim::First => (3, 0),
    };
    kind << KIND | u64::from(number % NUMBERS)
}

fn claim(record: u64) -> Claim {
    let number = record as u32 % NUMBERS;
    match record as u32 >> KIND {
        1 => Claim::Owned(number),
        2 => Claim::Kept(number),
        3 => Claim::First,
        _ => Claim::None,
    }
}

/// What is open, but for the standard three and what this looks with. Without `/proc` each number is tried.
fn open_numbers() -> io::Result<Vec<RawFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = match rustix::fs::open("/proc/self/fd", flags, Mode::empty()) {
        Ok(listing) => listing,
        Err(Errno::NOENT) => {
            let limit = RawFd::try_from(crate::process::descriptor_limit()).unwrap_or(RawFd::MAX);
            let is_open = |number: &RawFd| rustix::io::fcntl_getfd(borrow(*number)).is_ok();
            return Ok((FIRST..limit).filter(is_open).collect());
        }
        Err(error) => return Err(error.into()),
    };
    // It is closed when this is done, and the next that is opened gets its number.
    let own = listing.as_raw_fd();
    let mut numbers = Vec::new();
    for entry in Dir::new(listing)? {
        let number = entry?.file_name().to_str().ok().and_then(|name| name.parse::<RawFd>().ok());
        numbers.extend(number.filter(|&number| number >= FIRST && number != own));
    }
    Ok(numbers)
}

/// What a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Processes serve with it: a connection, a file that is read, a directory, an epoll instance.
    Served,
    /// It can be written to, as logs are.
    Written,
    /// A listening socket, an event counter, anything else; or it was closed meanwhile.
    Other,
}

fn kind(number: RawFd) -> Kind {
    let fd = borrow(number);
    let Ok(stat) = rustix::fs::fstat(fd) else { return Kind::Other };
    let is_read = || {
        rustix::fs::fcntl_getfl(fd)
            .is_ok_and(|flags| flags.contains(OFlags::PATH) || flags & OFlags::RWMODE == OFlags::RDONLY)
            // Files made in memory are there to be read; all others there can't be sealed
            // (F_GET_SEALS(2const)).
            || rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals != SealFlags::SEAL)
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket if crate::socket::is_listening(fd).is_ok_and(|is_listening| !is_listening) => {
            Kind::Served
        }
        FileType::RegularFile | FileType::Directory if is_read() => Kind::Served,
        FileType::RegularFile | FileType::Fifo | FileType::CharacterDevice => Kind::Written,
        _ if is_epoll(fd) => Kind::Served,
        _ => Kind::Other,
    }
}

/// An epoll instance says that it does not know a stranger (`ENOENT`), anything else that it is none
/// (`EINVAL`), `epoll_ctl(2)`.
fn is_epoll(fd: BorrowedFd<'_>) -> bool {
    let stranger = eventfd(0, EventfdFlags::CLOEXEC);
    stranger.is_ok_and(|stranger| epoll::delete(fd, stranger) == Err(Errno::NOENT))
}

fn set_mark(number: RawFd, marked: bool) {
    let flags = if marked { FdFlags::empty() } else { FdFlags::CLOEXEC };
    let _ = rustix::io::fcntl_setfd(borrow(number), flags);
}

fn is_marked(number: RawFd) -> bool {
    rustix::io::fcntl_getfd(borrow(number)).is_ok_and(|flags| flags.is_empty())
}

fn borrow<'a>(number: RawFd) -> BorrowedFd<'a> {
    // SAFETY: for one call that asks or marks; it fails for a number that is not open.
    unsafe { BorrowedFd::borrow_raw(number) }
}

fn close(number: RawFd) {
    // SAFETY: the record says that nobody uses it any more. A number that is not open is an error that
    // concerns nobody.
    unsafe { libc::close(number) };
}
