//! Files: opening them beneath a directory that cannot be left, checking, listing and reading them, and
//! creating them in memory.

mod beneath;
mod directory;
mod links;
mod stat;
mod walk;

pub use beneath::{
    OpenFailure, Symlinks, find_beneath, find_beneath_cached, is_link, open_beneath, open_beneath_cached,
};
pub use directory::Directory;
pub(crate) use directory::{probe_openat2, probe_resolve_cached};
pub use stat::{DirectoryEntry, FileKind, FileStat, FileTime, list, stat, stat_in};

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, MemfdFlags, SealFlags};
use rustix::io::Errno;

/// Opens a file to read. Unlike otherwise, the opening of a pipe does not wait for a writer. open(2) with
/// `O_NONBLOCK`.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Reads from `offset` into `buffer`, without moving a position. 0 means the end of the file. pread(2).
#[inline]
pub fn read_at(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(fd, buffer, offset)?)
}

/// Reads from `offset` and appends to `buffer`: at most `most` bytes, without moving a position. 0 means
/// the end of the file. pread(2).
pub fn read_behind(fd: impl AsFd, buffer: &mut Vec<u8>, most: usize, offset: u64) -> io::Result<usize> {
    let length = buffer.len();
    buffer.reserve(most);
    let (read, _) = rustix::io::pread(fd, &mut buffer.spare_capacity_mut()[..most], offset)?;
    let count = read.len();
    // SAFETY: this many bytes after the existing ones have just been written, within the capacity.
    unsafe { buffer.set_len(length + count) };
    Ok(count)
}

/// The current path of an open file. `proc_pid_fd(5)`.
///
/// # Errors
///
/// There is no `/proc`.
pub fn path_of(fd: impl AsFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

/// Replaces the open file of a descriptor. The descriptor stays the same and refers to the new file from
/// then on, in one step for all its users. dup3(2).
pub fn replace(descriptor: impl AsFd, new: impl AsFd) -> io::Result<()> {
    // SAFETY: the descriptor stays open and keeps its owner; only the file that it refers to changes.
    let result =
        unsafe { libc::dup3(new.as_fd().as_raw_fd(), descriptor.as_fd().as_raw_fd(), libc::O_CLOEXEC) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A file without a path, which disappears when its last descriptor is closed. `memfd_create(2)`; `name`
/// is its name in `/proc`.
pub fn in_memory(name: &str) -> io::Result<File> {
    Ok(fs::memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

/// A file without a path that holds what `write` writes and can no longer be changed. It disappears when
/// its last descriptor is closed. `memfd_create(2)`.
pub fn sealed_in_memory(write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<OwnedFd> {
    const FLAGS: MemfdFlags = MemfdFlags::CLOEXEC.union(MemfdFlags::ALLOW_SEALING);
    let descriptor = match fs::memfd_create(c"sluice", FLAGS | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before Linux 6.3.
        Err(Errno::INVAL) => fs::memfd_create(c"sluice", FLAGS),
        result => result,
    }?;
    let mut file = File::from(descriptor);
    write(&mut file)?;
    fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::file::beneath::tests::tree;

    #[test]
    fn reads_at_any_place() {
        let tree = tree();
        let root = Directory::open(&tree.inside).unwrap();
        let file = open_beneath(&root, b"file", Symlinks::None).unwrap();
        let mut buffer = [0; 3];
        assert_eq!((read_at(&file, &mut buffer, 2).unwrap(), &buffer), (3, b"nte"));
        assert_eq!((read_at(&file, &mut buffer, 5).unwrap(), &buffer[..2]), (2, b"nt".as_slice()));
        assert_eq!(read_at(&file, &mut buffer, 7).unwrap(), 0);
    }

    #[test]
    fn a_file_in_memory_stays_as_it_is() {
        let bytes = b"0123456789".repeat(100_000);
        let file = sealed_in_memory(|file| file.write_all(&bytes)).unwrap();
        let mut end = [0; 10];
        assert_eq!(stat(&file).unwrap().size, 1_000_000);
        assert_eq!((read_at(&file, &mut end, 999_990).unwrap(), &end), (10, b"0123456789"));
        assert_eq!(rustix::io::pwrite(&file, b"x", 0), Err(Errno::PERM));
        assert_eq!(fs::ftruncate(&file, 5), Err(Errno::PERM));
        assert_eq!(stat(sealed_in_memory(|_| Ok(())).unwrap()).unwrap().size, 0);
        assert!(sealed_in_memory(|_| Err(io::ErrorKind::Other.into())).is_err());
    }
}
