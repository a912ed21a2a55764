//! Memory that two processes share which do not trust each other: a file in memory, and mappings of it.
//!
//! Either may write to it at any time, also while the other reads. So no reference to its bytes is ever made:
//! they are copied in and out ([`Mapping::write`], [`Mapping::read`]), or the kernel is told where they are
//! ([`Mapping::slice`]). What was copied out is the reader's own and stays as it is.
//!
//! A file that can shrink can kill whoever has it mapped (`SIGBUS`). Therefore [`MemoryFile::new`] seals it,
//! and [`Mapping::new`] maps nothing that is not sealed against that, or is smaller than it should be.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{FileType, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::socket::Slice;

/// A file in memory that can neither shrink nor grow.
#[derive(Debug)]
pub struct MemoryFile {
    file: OwnedFd,
    size: u64,
}

/// What may be done with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is only read; a file that can't be written to will do.
    Read,
    /// It is read and written.
    Write,
}

/// A memory file where this process can reach it.
#[derive(Debug)]
pub struct Mapping {
    memory: NonNull<u8>,
    size: usize,
    is_writable: bool,
}

// SAFETY: it is an address that stays valid for as long as the mapping lives, and is only ever used for
// copies, which may meet others' on the same bytes anyway.
unsafe impl Send for Mapping {}
// SAFETY: as above; `write` of two threads at a time leaves bytes of both, as it does with another process.
unsafe impl Sync for Mapping {}

impl MemoryFile {
    /// A file of that size, full of zeros, of which no memory is taken before it is used. It is sealed
    /// against shrinking, growing and other seals, and closed on exec. `name` is for people
    /// (`/proc/PID/maps`). `memfd_create(2)`, `F_ADD_SEALS`.
    pub fn new(name: &str, size: u64) -> io::Result<Self> {
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, size)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self { file, size })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Gives the memory of a range back: it reads as zeros, for all who have it mapped, and is taken anew
    /// when it is written to. What the kernel still has to send of it stays as it was. fallocate(2),
    /// `FALLOC_FL_PUNCH_HOLE`.
    pub fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, offset, length)?)
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl From<MemoryFile> for File {
    fn from(file: MemoryFile) -> Self {
        file.file.into()
    }
}

impl Mapping {
    /// Maps the first `size` bytes of somebody's memory file, once it is known that they will stay there.
    /// mmap(2), `MAP_SHARED`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: it is no file in memory that is sealed against shrinking (`F_SEAL_SHRINK`), or it is
    /// smaller, or `size` is zero or beyond what can be addressed.
    pub fn new(file: impl AsFd, size: u64, access: Access) -> io::Result<Self> {
        let file = file.as_fd();
        let refuse = |why: &'static str| io::Error::new(io::ErrorKind::InvalidInput, why);
        let stat = rustix::fs::fstat(file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refuse("not a file in memory"));
        }
        // Only files in memory have seals.
        let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| refuse("not a file in memory"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(refuse("a memory file that could shrink"));
        }
        if u64::try_from(stat.st_size).is_ok_and(|there| there < size) {
            return Err(refuse("a memory file that is too small"));
        }
        let size = usize::try_from(size).ok().filter(|&size| size > 0 && isize::try_from(size).is_ok());
        let size = size.ok_or_else(|| refuse("a size that cannot be mapped"))?;
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let memory =
            unsafe { rustix::mm::mmap(ptr::null_mut(), size, protection, MapFlags::SHARED, file, 0)? };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, size, is_writable: access == Access::Write })
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Copies the bytes to `offset`.
    ///
    /// # Panics
    ///
    /// They do not fit behind it, or the mapping is only for reading: both are the caller's to know.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(self.is_writable && self.has(offset, bytes.len()), "a write outside of a mapping");
        // SAFETY: the range is inside of the mapping, which can be written to, and `bytes` are this process's
        // own, so that the two don't overlap. No reference to the mapping's bytes exists anywhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.as_ptr().add(offset), bytes.len()) };
    }

    /// Copies the bytes from `offset` on to `bytes`.
    ///
    /// # Panics
    ///
    /// There are not so many behind it.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(self.has(offset, bytes.len()), "a read outside of a mapping");
        // SAFETY: as for `write`, in the other direction.
        unsafe {
            ptr::copy_nonoverlapping(self.memory.as_ptr().add(offset), bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// A range as the kernel takes it in a send: it reads the bytes as they are by then.
    ///
    /// # Panics
    ///
    /// There are not so many behind `offset`.
    #[inline]
    pub fn slice(&self, offset: usize, length: usize) -> Slice<'_> {
        assert!(self.has(offset, length), "a slice outside of a mapping");
        // SAFETY: the range is inside of the mapping, which lives as long as the slice.
        unsafe { Slice::raw(self.memory.as_ptr().add(offset), length) }
    }

    #[inline]
    fn has(&self, offset: usize, length: usize) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.size)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this very mapping was made by `new`, and slices of it end with `self`. An error leaves it
        // mapped, which harms nobody.
        unsafe {
            let _ = rustix::mm::munmap(self.memory.as_ptr().cast(), self.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let file = MemoryFile::new("test", 8_192).unwrap();
        let (one, other) = (
            Mapping::new(&file, 8_192, Access::Write).unwrap(),
            Mapping::new(&file, 8_192, Access::Read).unwrap(),
        );
        one.write(8_187, b"hello");
        let mut bytes = [0; 5];
        other.read(8_187, &mut bytes);
        assert_eq!(&bytes, b"hello");
        assert_eq!(other.slice(8_188, 3).to_vec(), b"ell");
        file.punch(4_096, 4_096).unwrap();
        other.read(8_187, &mut bytes);
        assert_eq!(bytes, [0; 5]);
    }

    #[test]
    fn what_could_vanish_is_not_mapped() {
        let refused = |file: &dyn AsFd, size| {
            let error = Mapping::new(file.as_fd(), size, Access::Read).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        };
        let file = MemoryFile::new("test", 4_096).unwrap();
        refused(&file, 4_097);
        refused(&file, 0);
        refused(&tempfile::tempfile().unwrap(), 1);
        refused(&std::os::unix::net::UnixStream::pair().unwrap().0, 1);
        let unsealed = crate::file::in_memory("test").unwrap();
        unsealed.set_len(4_096).unwrap();
        refused(&unsealed, 4_096);
        assert_eq!(
            rustix::fs::ftruncate(&file, 1).unwrap_err(),
            rustix::io::Errno::PERM,
            "it is sealed, for whoever has it"
        );
    }

    #[test]
    fn bounds_are_checked() {
        let file = MemoryFile::new("test", 4_096).unwrap();
        let mapping = Mapping::new(&file, 4_096, Access::Write).unwrap();
        for (offset, length) in [(4_096, 1), (0, 4_097), (usize::MAX, 2)] {
            let bytes = vec![0; length];
            std::panic::catch_unwind(|| mapping.write(offset, &bytes)).unwrap_err();
            std::panic::catch_unwind(|| mapping.slice(offset, length).to_vec()).unwrap_err();
        }
        mapping.write(4_096, b"");
        let only_read = Mapping::new(&file, 4_096, Access::Read).unwrap();
        std::panic::catch_unwind(|| only_read.write(0, b"x")).unwrap_err();
    }
}
