//! Whether bytes of a file are in the page cache, and getting them there.
//!
//! Asking is `preadv2(2)` with `RWF_NOWAIT`, which reads what is in memory and fails where it would have to
//! wait. It is exact for the page it touches (a page that is still being read counts as absent) and any user
//! may ask. The alternatives, measured on a 2.x GHz virtual machine with kernel 6.18, a getppid(2) being 124
//! ns:
//!
//! | question | cost | catch |
//! |---|---|---|
//! | one byte | 399 ns | says nothing of other pages |
//! | the first and the last byte of 256 KiB | 813 ns | a hole in the middle goes unnoticed |
//! | all of 64 KiB, 256 KiB, copied | 1.9 us, 7.0 us | a fifth of what sending them takes |
//! | cachestat(2), 256 KiB | 189 ns | EPERM unless one owns or may write it; counts pages being read |
//! | mincore(2), 256 KiB, mapped already | 4.7 us | the same |
//!
//! So [`is_resident`] asks for the first and the last byte: files are read ahead and forgotten in long runs.

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsFd;

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

/// The smallest page there is: what lies in one of these is in memory as a whole.
const PAGE: u64 = 4096;

/// Reads from `offset` into `buffer` what is in memory. It may be less than there is, and where nothing is it
/// fails with [`WouldBlock`](io::ErrorKind::WouldBlock). So does every file on a file system that cannot
/// tell; 0 is the end of the file. `preadv2(2)`, `RWF_NOWAIT`.
#[inline]
pub fn read_at_cached(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    match rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP) => Err(io::ErrorKind::WouldBlock.into()),
        result => Ok(result?),
    }
}

/// Whether the `len` bytes from `offset` can be sent without waiting for a disk, as told by the first and the
/// last of them. What lies behind the end of the file needs no waiting; nor does what cannot be read at all.
#[inline]
pub fn is_resident(fd: impl AsFd, offset: u64, len: u64) -> bool {
    let fd = fd.as_fd();
    let is_here = |at| match read_at_cached(fd, &mut [0], at) {
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        Ok(_) => true,
    };
    let last = offset + len.saturating_sub(1);
    is_here(offset) && (offset / PAGE == last / PAGE || is_here(last))
}

/// Has the kernel begin to read the `len` bytes from `offset`, without waiting for them to arrive.
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

    /// A file on the disk that the tests are built on: what `/tmp` is on may be memory.
    fn file() -> File {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![b'x'; LEN as usize]).unwrap();
        file.sync_all().unwrap();
        file
    }

    /// Puts a file out of memory, as far as the kernel follows the advice; says whether it did.
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
    fn what_is_not_in_memory_is_said_to_be_and_can_be_fetched() {
        let file = file();
        if !drop_pages(&file) {
            eprintln!("skipped: this file system keeps the pages of a file that is not needed");
            return;
        }
        assert_eq!(read_at_cached(&file, &mut [0], 0).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop_pages(&file);
        assert!(!is_resident(&file, 0, LEN));
        will_need(&file, 0, LEN).unwrap();
        will_need(&file, 0, 0).unwrap();
        let mut buffer = vec![0; LEN as usize];
        assert_eq!(crate::file::read_at(&file, &mut buffer, 0).unwrap(), buffer.len());
        assert!(is_resident(&file, 0, LEN));
    }
}
