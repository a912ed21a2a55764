//! A descriptor table that several processes have in common ([`fork_sharing_descriptors`]): who owns what in it.
//!
//! A process that is killed takes nothing with it: its sockets stay open, as the table does. So every process records in shared
//! memory what it owns, and whoever has noticed its end closes that: [`Ledger::close_owned`]. Files that all processes use are
//! *kept*, for a keeper such as a cache of theirs.
//!
//! A record is written after a descriptor was opened and before it is closed, and a process may be killed in between. Such
//! descriptors are found by looking twice ([`Ledger::suspects`], [`Ledger::close_suspects`]): what nobody claims is marked, and
//! when every living process has since been at a point where it had nothing unrecorded, what still bears the mark and is
//! claimed by nobody is nobody's. The mark is a cleared close-on-exec flag, which everything newly opened has. Each change of a
//! record makes another one of it, so that no claim in between is missed.
//!
//! [`fork_sharing_descriptors`]: crate::process::fork_sharing_descriptors

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{FileType, OFlags};
use rustix::io::FdFlags;

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

/// Descriptors that nobody claimed at one moment; see [`Ledger::suspects`].
#[derive(Debug, Default)]
pub struct Suspects(Vec<(RawFd, u64)>);

/// Owners and keepers have numbers below this.
pub const NUMBERS: u32 = 1 << 24;

/// The first descriptor that is not standard input, output or error.
const FIRST: RawFd = 3;

impl Ledger {
    /// Of a table with descriptors below `limit`. It stays for the life of this process and of those forked later. What is
    /// open now is claimed by the first process.
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

    /// Leaves a descriptor to a keeper, and names it by its number. `None`: it is above the ledger's limit, and closed.
    pub fn keep(&self, fd: OwnedFd, keeper: u32) -> Option<u32> {
        let number = fd.as_raw_fd().cast_unsigned();
        self.records.get(number as usize)?;
        self.record(fd.into_raw_fd(), Claim::Kept(keeper));
        Some(number)
    }

    /// A kept descriptor. `None`: no such is kept.
    #[inline]
    pub fn kept(&self, number: u32) -> Option<BorrowedFd<'_>> {
        let Claim::Kept(_) = claim(self.records.get(number as usize)?.load(Ordering::Relaxed)) else {
            return None;
        };
        // SAFETY: a kept descriptor is open, and who asks for it sees to it that it is kept for as long as it is used: if
        // not, the number is that of another descriptor, which calls can be made on all the same.
        Some(unsafe { BorrowedFd::borrow_raw(number.cast_signed()) })
    }

    /// Closes a kept descriptor; says whether it was kept.
    pub fn close_kept(&self, number: u32) -> bool {
        let Some(record) = self.records.get(number as usize) else { return false };
        let now = record.load(Ordering::Relaxed);
        let Claim::Kept(_) = claim(now) else { return false };
        let left =
            record.compare_exchange(now, next(now, Claim::None), Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if left {
            close(number.cast_signed());
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

    /// Marks what is open and nobody claims, `is_valid` saying of a number and its claim whether whoever claims it still is
    /// there. For [`close_suspects`](Self::close_suspects), when all living processes have been at a point with nothing
    /// unrecorded.
    ///
    /// Suspected is only what processes serve with: connections, files that are read, epoll instances, directories. Listening
    /// sockets, event counters and files that are written to are not.
    pub fn suspects(&self, is_valid: impl Fn(u32, Claim) -> bool) -> io::Result<Suspects> {
        let mut suspects = Vec::new();
        for number in open_numbers()? {
            let Some(record) = self.records.get(number as usize) else { continue };
            let record = record.load(Ordering::Acquire);
            if !is_valid(number.cast_unsigned(), claim(record)) && is_served_with(number) {
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

    /// In a process that was forked with a *copy* of the common table: closes what others serve with, so that what they
    /// close is closed.
    pub fn close_copies(&self) -> io::Result<()> {
        for number in open_numbers()? {
            let record = self.records.get(number as usize).map_or(0, |record| record.load(Ordering::Relaxed));
            let is_ours = match claim(record) {
                Claim::First => true,
                Claim::Owned(_) | Claim::Kept(_) => false,
                Claim::None => !is_served_with(number),
            };
            // The records go on changing: what they say of a number that is not open here is not of this table.
            if !is_ours && rustix::io::fcntl_getfd(borrow(number)).is_ok() {
                close(number);
            }
        }
        Ok(())
    }

    fn close_all(&self, whose: Claim) -> usize {
        let mut closed = 0;
        for number in 0..=self.highest.load(Ordering::Acquire) {
            if self
                .records
                .get(number as usize)
                .is_some_and(|record| claim(record.load(Ordering::Acquire)) == whose)
            {
                self.record(number.cast_signed(), Claim::None);
                close(number.cast_signed());
                closed += 1;
            }
        }
        closed
    }

    #[inline]
    fn record(&self, number: RawFd, claim: Claim) {
        if let Some(record) = self.records.get(number as usize) {
            let number = number.cast_unsigned();
            if number > self.highest.load(Ordering::Relaxed) {
                self.highest.fetch_max(number, Ordering::AcqRel);
            }
            // Whoever has the descriptor is the only one to write its record.
            record.store(next(record.load(Ordering::Relaxed), claim), Ordering::Release);
        }
    }
}

/// Has the common table hold descriptors below `limit` from now on. Growing it under load would stop all who use it until the
/// kernel knows that nobody looks at the old one.
pub fn grow_table(limit: u32) -> io::Result<()> {
    let highest = limit.saturating_sub(1).cast_signed();
    drop(rustix::io::fcntl_dupfd_cloexec(io::stderr().as_fd(), highest)?);
    Ok(())
}

// A record: what was last said of a descriptor, under a number of its own.
const SERIAL: u32 = 32;
const KIND: u32 = 24;

fn next(before: u64, claim: Claim) -> u64 {
    let serial = (before >> SERIAL).wrapping_add(1);
    let (kind, number) = match claim {
        Claim::None => (0, 0),
        Claim::Owned(owner) => (1, owner),
        Claim::Kept(keeper) => (2, keeper),
        Claim::First => (3, 0),
    };
    serial << SERIAL | kind << KIND | u64::from(number % NUMBERS)
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

/// What is open, but for the standard three.
fn open_numbers() -> io::Result<Vec<RawFd>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    numbers.retain(|&number| number >= FIRST);
    Ok(numbers)
}

/// Whether a descriptor is of a kind that processes serve with.
fn is_served_with(number: RawFd) -> bool {
    let fd = borrow(number);
    // One that was closed meanwhile is none.
    let Ok(stat) = rustix::fs::fstat(fd) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => crate::socket::is_listening(fd).is_ok_and(|is_listening| !is_listening),
        FileType::RegularFile | FileType::Directory => rustix::fs::fcntl_getfl(fd)
            .is_ok_and(|flags| flags.contains(OFlags::PATH) || flags & OFlags::RWMODE == OFlags::RDONLY),
        _ => std::fs::read_link(format!("/proc/self/fd/{number}"))
            .is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]"),
    }
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
    // SAFETY: the record says that nobody uses it any more. A number that is not open is an error that concerns nobody.
    unsafe { libc::close(number) };
}
