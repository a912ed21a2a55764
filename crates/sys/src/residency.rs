//! Whether bytes of a file are in the page cache, and loading them into it.
//!
//! The check is `preadv2(2)` with `RWF_NOWAIT`, which reads what is in memory and fails if it would have
//! to wait. It is exact for the page that it touches (a page that is still being read counts as absent),
//! and any user may call it. The alternatives, measured on a 2.x GHz virtual machine with kernel 6.18,
//! where a getppid(2) takes 124 ns:
//!
//! | question | cost | catch |
//! |---|---|---|
//! | one byte | 399 ns | says nothing of other pages |
//! | the first and the last byte of 256 KiB | 813 ns | a hole in the middle goes unnoticed |
//! | all of 64 KiB, 256 KiB, copied | 1.9 us, 7.0 us | |
//! | cachestat(2), 256 KiB | 189 ns | EPERM unless one owns or may write it; counts pages being read |
//! | mincore(2), 256 KiB, mapped already | 4.7 us | the same |
//!
//! So [`is_resident`] reads all of it, into a buffer that stays in the CPU's nearest cache: 0.4 us for 16
//! KiB, 1.4 us for 64 KiB, 5.0 us for 256 KiB. Reading only the first and the last byte takes 0.37 us. An
//! earlier version did that. But a check also counts as a use: under pressure, the kernel kept both ends
//! of a file and evicted the middle. The loop then waited for the middle in sendfile, most of the time.

use std::cell::UnsafeCell;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

/// Bytes of a part that is skimmed, and how many parts at a time: together as much as is sent in a turn.
const PART: usize = 16 << 10;
const PARTS: usize = 16;

/// Reads from `offset` into `buffer` what is in memory. This may be less than the file has. If nothing is
/// in memory, it fails with [`WouldBlock`](io::ErrorKind::WouldBlock). So does every file on a file
/// system that does not support the check. 0 means the end of the file. `preadv2(2)`, `RWF_NOWAIT`.
#[inline]
pub fn read_at_cached(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    match read_now(fd, buffer, offset) {
        Err(error) if cannot_tell(error) => Err(io::ErrorKind::WouldBlock.into()),
        result => Ok(result?),
    }
}

/// Reads as [`read_at_cached`] does. But if the file system does not support the check, this reads the
/// file, however long that takes.
pub fn read_at_unless_absent(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    match read_now(&fd, buffer, offset) {
        Err(error) if cannot_tell(error) => crate::file::read_at(fd, buffer, offset),
        result => Ok(result?),
    }
}

/// Whether an error means that the check is not supported: `EOPNOTSUPP` from the file system, or from a
/// kernel before 4.14; `ENOSYS` and `EPERM` from a sandbox that does not know `preadv2(2)`.
const fn cannot_tell(error: Errno) -> bool {
    matches!(error, Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM)
}

#[inline]
pub(crate) fn read_now(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
}

/// Whether the `len` bytes from `offset` can be sent without waiting for a disk. Bytes after the end of
/// the file need no waiting, and neither do bytes that cannot be read at all.
pub fn is_resident(fd: impl AsFd, offset: u64, len: u64) -> bool {
    match skim(fd.as_fd(), offset, len, libc::RWF_NOWAIT) {
        Ok(()) => true,
        Err(error) => error != Errno::AGAIN && !cannot_tell(error),
    }
}

/// Waits until the `len` bytes from `offset` are in memory, or cannot be read. A later read then gets the
/// error. `preadv2(2)`.
pub fn fetch(fd: impl AsFd, offset: u64, len: u64) {
    let fd = fd.as_fd();
    if skim(fd, offset, len, 0).is_err_and(cannot_tell) {
        // Used if there is no preadv2(2).
        let (mut at, end, mut scratch) = (offset, offset.saturating_add(len), [0; PART]);
        while at < end
            && let Ok(here @ 1..) = crate::file::read_at(fd, &mut scratch, at)
        {
            at += here as u64;
        }
    }
}

/// Reads up to the end of the file and discards the data at once: all parts go to the same buffer.
fn skim(fd: BorrowedFd<'_>, offset: u64, len: u64, flags: libc::c_int) -> Result<(), Errno> {
    let (mut at, end) = (offset, offset.saturating_add(len));
    while at < end {
        match skim_once(fd, at, end - at, flags) {
            Ok(0) => break,
            Ok(here) => at += here as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

thread_local! {
    /// Where skimmed bytes go, over one another. They would take most of a user-level thread's
    /// [stack](crate::stacks).
    static SCRATCH: UnsafeCell<[u8; PART]> = const { UnsafeCell::new([0; PART]) };
}

/// Returns how many bytes there were.
fn skim_once(fd: BorrowedFd<'_>, offset: u64, len: u64, flags: libc::c_int) -> Result<usize, Errno> {
    let place = SCRATCH.with(UnsafeCell::get).cast::<libc::c_void>();
    let parts: [libc::iovec; PARTS] = std::array::from_fn(|number| {
        let before = (number * PART) as u64;
        libc::iovec { iov_base: place, iov_len: len.saturating_sub(before).min(PART as u64) as usize }
    });
    let offset = libc::off_t::try_from(offset).map_err(|_| Errno::OVERFLOW)?;
    // SAFETY: each part is at most as long as `SCRATCH`, which lives as long as this kernel thread. No
    // reference to it exists, and nothing reads it. The descriptor is borrowed, so it is open.
    let read = unsafe { libc::preadv2(fd.as_raw_fd(), parts.as_ptr(), PARTS as libc::c_int, offset, flags) };
    usize::try_from(read).map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Makes the kernel begin to read the `len` bytes from `offset`, without waiting for them to arrive.
/// `posix_fadvise(2)`, `POSIX_FADV_WILLNEED`.
pub fn will_need(fd: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    match NonZeroU64::new(len) {
        Some(len) => Ok(rustix::fs::fadvise(fd, offset, Some(len), Advice::WillNeed)?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    const LEN: u64 = 1 << 20;

    /// A file on the disk where the tests are built. `/tmp` may be in memory.
    fn file() -> File {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![b'x'; LEN as usize]).unwrap();
        file.sync_all().unwrap();
        file
    }

    /// Evicts a file from memory, as far as the kernel follows the advice. Returns whether it did.
    fn drop_pages(file: &File) -> bool {
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed).unwrap();
        read_at_cached(file, &mut [0], 0).is_err()
    }

    #[test]
    fn what_is_in_memory_is_read() {
        let file = file();
        let mut buffer = [0; 10];
        assert_eq!(crate::file::read_at(&file, &mut buffer, 0).unwrap(), 10);
        assert_eq!((read_at_cached(&file, &mut buffer, 0).unwrap(), buffer), (10, [b'x'; 10]));
        assert_eq!(read_at_cached(&file, &mut buffer, LEN - 3).unwrap(), 3);
        assert_eq!(read_at_cached(&file, &mut buffer, LEN).unwrap(), 0);
        assert!(is_resident(&file, 0, LEN) && is_resident(&file, 5, 0) && is_resident(&file, LEN, 100));
        let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
        assert!(is_resident(pipe, 0, 1), "what can't be read at a place is the caller's to find out");
    }

    #[test]
    fn where_nobody_can_tell_it_is_read() {
        // For a file in memory, the kernel does not support the check.
        let file = File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        (&file).write_all(b"text").unwrap();
        let mut buffer = [0; 10];
        assert_eq!(read_at_unless_absent(&file, &mut buffer, 0).unwrap(), 4);
        assert_eq!(&buffer[..4], b"text");
    }

    #[test]
    fn a_hole_in_the_middle_is_seen_and_filled() {
        let file = file();
        fetch(&file, 0, 2 * LEN);
        assert!(is_resident(&file, 0, LEN));
        let (hole, len) = (LEN / 2, LEN / 8);
        rustix::fs::fadvise(&file, hole, NonZeroU64::new(len), Advice::DontNeed).unwrap();
        if read_at_cached(&file, &mut [0], hole).is_ok() {
            harness::skip("a file that is not in memory: the file system of the sources keeps its pages");
            return;
        }
        rustix::fs::fadvise(&file, hole, NonZeroU64::new(len), Advice::DontNeed).unwrap();
        assert!(is_resident(&file, 0, hole) && is_resident(&file, LEN - len, len));
        assert!(!is_resident(&file, 0, LEN));
        fetch(&file, hole, len);
        assert!(is_resident(&file, 0, LEN));
    }

    #[test]
    fn what_is_not_in_memory_is_said_to_be_and_can_be_fetched() {
        let file = file();
        if !drop_pages(&file) {
            harness::skip("a file that is not in memory: the file system of the sources keeps its pages");
            return;
        }
        // The check itself may start a read, and a fast disk may complete it at once.
        let is_absent = || {
            drop_pages(&file);
            read_at_cached(&file, &mut [0], 0).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        assert!((0..20).any(|_| is_absent()));
        drop_pages(&file);
        assert!(!is_resident(&file, 0, LEN));
        will_need(&file, 0, LEN).unwrap();
        will_need(&file, 0, 0).unwrap();
        let mut buffer = vec![0; LEN as usize];
        assert_eq!(crate::file::read_at(&file, &mut buffer, 0).unwrap(), buffer.len());
        assert!(is_resident(&file, 0, LEN));
    }
}
