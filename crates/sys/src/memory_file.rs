//! Memory that two processes share without trusting each other: a file in memory, and mappings of it.
//!
//! Either process may write to it at any time, even while the other reads. So no reference to its bytes
//! is ever made. Bytes are copied in and out ([`Mapping::write`], [`Mapping::read`]), or the kernel gets
//! their address ([`Mapping::slice`]). A copy belongs to the reader and does not change.
//!
//! A file that can shrink can kill every process that has it mapped (`SIGBUS`). So [`MemoryFile::new`]
//! seals the file. [`Mapping::new`] refuses files that are not sealed against shrinking, or that are too
//! small.

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

/// What a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reading. A file that cannot be written to is enough.
    Read,
    /// Reading and writing.
    Write,
}

/// A memory file, mapped into this process.
#[derive(Debug)]
pub struct Mapping {
    memory: NonNull<u8>,
    size: usize,
    is_writable: bool,
}

// SAFETY: it is an address that stays valid for as long as the mapping lives. It is only ever used for
// copies, which may overlap in time with copies of other processes anyway.
unsafe impl Send for Mapping {}
// SAFETY: as above; concurrent `write`s of two threads leave bytes of both, as with another process.
unsafe impl Sync for Mapping {}

impl MemoryFile {
    /// A file of this size, filled with zeros. It takes no memory before it is used. It is sealed against
    /// shrinking, growing and further seals, and closed on exec. `name` is shown in `/proc/PID/maps`.
    /// `memfd_create(2)`, `F_ADD_SEALS`.
    pub fn new(name: &str, size: u64) -> io::Result<Self> {
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, size)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self { file, size })
    }

    /// A file that this process has inherited.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: it is not a file in memory that is sealed against shrinking.
    pub fn adopt(file: OwnedFd) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "not a sealed file in memory");
        // Only files in memory have seals.
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|_| wrong())?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(wrong());
        }
        let size = u64::try_from(rustix::fs::fstat(&file)?.st_size).map_err(|_| wrong())?;
        Ok(Self { file, size })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the memory of a range to the kernel. The range then reads as zeros, in every process that
    /// has it mapped. It takes memory again when it is written to. Data that the kernel has yet to send
    /// is not affected. fallocate(2), `FALLOC_FL_PUNCH_HOLE`.
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
    /// Maps the first `size` bytes of another process's memory file, after checking that they will stay
    /// there. mmap(2), `MAP_SHARED`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the file is not a file in memory sealed against shrinking (`F_SEAL_SHRINK`), or it
    /// is smaller, or `size` is zero or too large to be addressed.
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
    /// The bytes do not fit after `offset`, or the mapping is read-only. The caller must know both.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(self.is_writable && self.has(offset, bytes.len()), "a write outside of a mapping");
        // SAFETY: the range is inside the mapping, which can be written to. `bytes` belong to this
        // process, so the two do not overlap. No reference to the mapping's bytes exists anywhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.as_ptr().add(offset), bytes.len()) };
    }

    /// Copies the bytes at `offset` into `bytes`.
    ///
    /// # Panics
    ///
    /// The mapping has fewer bytes after `offset`.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(self.has(offset, bytes.len()), "a read outside of a mapping");
        // SAFETY: as for `write`, in the other direction.
        unsafe {
            ptr::copy_nonoverlapping(self.memory.as_ptr().add(offset), bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// A range in the form that sends take. The kernel reads the bytes as they are at that time.
    ///
    /// # Panics
    ///
    /// The mapping has fewer than `length` bytes after `offset`.
    #[inline]
    pub fn slice(&self, offset: usize, length: usize) -> Slice<'_> {
        assert!(self.has(offset, length), "a slice outside of a mapping");
        // SAFETY: the range is inside the mapping, which lives as long as the slice.
        unsafe { Slice::raw(self.memory.as_ptr().add(offset), length) }
    }

    #[inline]
    fn has(&self, offset: usize, length: usize) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.size)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` made this very mapping, and slices of it end with `self`. After an error it stays
        // mapped, which does no harm.
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
