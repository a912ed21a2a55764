//! A descriptor table that several processes share ([`fork_sharing_descriptors`]), and the ledger of
//! which process owns which descriptor.
//!
//! When a process is killed, its sockets stay open, because the table does. So every process records in
//! shared memory what it owns. A process that notices the end of another closes what that one owned:
//! [`Ledger::close_owned`]. Files that all processes use are *kept* for a keeper, such as a cache that
//! they share.
//!
//! A record is written after a descriptor was opened and before it is closed, and a process may be killed
//! in between. [`Ledger::suspects`] and [`Ledger::close_suspects`] find such descriptors in two passes.
//! The first pass marks what no process claims. Then every living process must reach a point where it has
//! nothing unrecorded. After that, a descriptor that is still marked and unclaimed belongs to no process.
//! The mark is a cleared close-on-exec flag, because every new descriptor has that flag set. Each change
//! creates a new record, so that no claim in between is missed.
//!
//! [`fork_sharing_descriptors`]: crate::process::fork_sharing_descriptors

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{Dir, FileType, Mode, OFlags, SealFlags};
use rustix::io::{Errno, FdFlags};

use crate::shared::{Region, Shared};

/// Records which process owns which descriptor of a shared table. Copies refer to the same ledger.
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    records: &'static [AtomicU64],
    /// Records above this index have never been written.
    highest: &'static AtomicU32,
}

/// Who claims that a descriptor is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// No process.
    None,
    /// The process with this number, which the program assigned.
    Owned(u32),
    /// All processes that use what this keeper holds.
    Kept(u32),
    /// The first process: the descriptor was open before the others were forked.
    First,
}

/// A descriptor that was given to a keeper: its number, and the serial number of its record. The
/// descriptor number may later be another file's, but never with the same serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept(u64);

/// Descriptors that no process claimed at one moment. See [`Ledger::suspects`].
#[derive(Debug, Default)]
pub struct Suspects(Vec<(RawFd, u64)>);

/// Numbers of owners and keepers are below this.
pub const NUMBERS: u32 = 1 << 24;

/// The first descriptor that is not standard input, output or error.
const FIRST: RawFd = 3;

impl Ledger {
    /// A ledger for a table with descriptors below `limit`. It exists for the life of this process and of
    /// those forked later. The first process claims what is open now.
    pub fn new(limit: usize) -> io::Result<Self> {
        let this = Self { records: Region::new(limit)?.leak(), highest: Shared::<AtomicU32>::new()?.leak() };
        for number in open_numbers()? {
            this.record(number, Claim::First);
        }
        Ok(this)
    }

    /// Records that `owner` has this descriptor. Call this right after it was opened.
    #[inline]
    pub fn own(&self, fd: impl AsFd, owner: u32) {
        self.record(fd.as_fd().as_raw_fd(), Claim::Owned(owner));
    }

    /// Records that a descriptor is about to be closed by the caller.
    #[inline]
    pub fn leave(&self, fd: impl AsFd) {
        self.record(fd.as_fd().as_raw_fd(), Claim::None);
    }

    /// Gives a descriptor to a keeper. `None`: its number is above the ledger's limit, and it was closed.
    pub fn keep(&self, fd: OwnedFd, keeper: u32) -> Option<Kept> {
        let number = fd.as_raw_fd();
        self.records.get(number as usize)?;
        let record = self.record(fd.into_raw_fd(), Claim::Kept(keeper));
        Some(Kept(record >> SERIAL << SERIAL | u64::from(number.cast_unsigned())))
    }

    /// Borrows a kept descriptor. `None`: this keeper no longer keeps it.
    ///
    /// The caller must prevent others from closing it meanwhile, with [`close_kept`](Self::close_kept)
    /// for the same keeper or with [`close_all_kept`](Self::close_all_kept). All other methods that close
    /// descriptors spare kept ones.
    #[inline]
    pub fn kept(&self, kept: Kept, keeper: u32) -> Option<BorrowedFd<'_>> {
        let record = self.records.get(kept.number() as usize)?.load(Ordering::Acquire);
        // SAFETY: this record says that it is open and belongs to no other process: another file under
        // this number would have another record. The caller ensures that it is not closed meanwhile, see
        // above. If a process closes a descriptor in the shared table that it does not own, calls use
        // whatever then has the number, or fail.
        (record == kept.record(keeper))
            .then(|| unsafe { BorrowedFd::borrow_raw(kept.number().cast_signed()) })
    }

    /// Closes a kept descriptor. Returns whether this keeper kept it.
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

    /// Closes everything that an ended process owned, and returns how many descriptors that were. Do not
    /// call it for a living process.
    pub fn close_owned(&self, owner: u32) -> usize {
        self.close_all(Claim::Owned(owner))
    }

    /// Closes everything that is kept for a keeper that no process uses any more, and returns how many
    /// descriptors that were.
    pub fn close_all_kept(&self, keeper: u32) -> usize {
        self.close_all(Claim::Kept(keeper))
    }

    /// Marks open descriptors that no process claims. `is_valid` says, for a number and its claim,
    /// whether the claimant still exists. Pass the result to [`close_suspects`](Self::close_suspects)
    /// when every living process has been at a point with nothing unrecorded.
    ///
    /// Only descriptors that processes serve with can be suspects: connections, files that are read,
    /// epoll instances, directories. Listening sockets, event counters and files that are written to
    /// cannot.
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

    /// Closes the suspects that belong to no process, and returns how many.
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

    /// Call this in a process that was forked with a *copy* of the shared table. It closes the copies of
    /// what the other processes serve with. Otherwise, what they close would stay open here.
    pub fn close_copies(&self) -> io::Result<()> {
        for number in open_numbers()? {
            let record = self.records.get(number as usize).map_or(0, |record| record.load(Ordering::Relaxed));
            // The records continue to change, and may describe a file that got this number after the copy
            // was made. So a kind that only the first process ever has is left alone, whatever the
            // records say.
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

    /// Returns the new record.
    #[inline]
    fn record(&self, number: RawFd, claim: Claim) -> u64 {
        let Some(record) = self.records.get(number as usize) else { return 0 };
        let number = number.cast_unsigned();
        if number > self.highest.load(Ordering::Relaxed) {
            self.highest.fetch_max(number, Ordering::AcqRel);
        }
        // Only the process that has the descriptor writes its record.
        let anew = next(record.load(Ordering::Relaxed), claim);
        record.store(anew, Ordering::Release);
        anew
    }
}

impl Kept {
    /// The value as a word, which is not 0.
    pub fn word(self) -> u64 {
        self.0
    }

    /// The value of such a word, if it is valid.
    pub fn of(word: u64) -> Option<Self> {
        (word as u32 >= FIRST.cast_unsigned()).then_some(Self(word))
    }

    /// The descriptor's number.
    pub fn number(self) -> u32 {
        self.0 as u32
    }

    /// The record that the ledger has for it.
    #[inline]
    fn record(self, keeper: u32) -> u64 {
        self.0 >> SERIAL << SERIAL | words(Claim::Kept(keeper))
    }
}

/// Makes the shared table hold descriptors below `limit` from now on. Growing it under load would stop
/// all its users until the kernel knows that no CPU reads the old table.
pub fn grow_table(limit: u32) -> io::Result<()> {
    let highest = limit.saturating_sub(1).cast_signed();
    drop(rustix::io::fcntl_dupfd_cloexec(io::stderr().as_fd(), highest)?);
    Ok(())
}

// A record: the latest claim on a descriptor, with a serial number.
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

/// The open descriptors, except the standard three and the one used here. Without `/proc`, this tries
/// each number.
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
    // The listing is closed when this function returns, and the next opened descriptor gets its number.
    let own = listing.as_raw_fd();
    let mut numbers = Vec::new();
    for entry in Dir::new(listing)? {
        let number = entry?.file_name().to_str().ok().and_then(|name| name.parse::<RawFd>().ok());
        numbers.extend(number.filter(|&number| number >= FIRST && number != own));
    }
    Ok(numbers)
}

/// What a descriptor is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Processes serve with it: a connection, a file that is read, a directory, or an epoll instance.
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
            // Files in memory are for reading. All other files there cannot be sealed
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

/// For an unknown descriptor, an epoll instance reports `ENOENT`, and everything else reports `EINVAL`,
/// `epoll_ctl(2)`.
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
    // SAFETY: it is used for one call that reads or sets the mark. The call fails for a number that is
    // not open.
    unsafe { BorrowedFd::borrow_raw(number) }
}

fn close(number: RawFd) {
    // SAFETY: the record says that no process uses it any more. For a number that is not open, the call
    // fails, and no other code is affected.
    unsafe { libc::close(number) };
}
