//! Files below a directory that cannot be left: opening, reading, listing.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// What a file that is served is opened with: a pipe's missing writer is not waited for, a terminal does not become
/// the process's.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// A directory that only serves as a place to open from.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The root of a tree, for [`open_beneath`].
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    resolution: Resolution,
}

/// Which symbolic links are followed on the way to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// None: a path with one fails with `ELOOP`.
    None,
    /// Those that stay below the root, `path_resolution(7)`; others fail with `EXDEV`.
    Beneath,
    /// Any, wherever it leads.
    Any,
}

/// Who walks along a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The kernel, in one call: openat2(2).
    Kernel,
    /// We, one component after the other, following no symbolic link ([`Symlinks::Beneath`] becomes
    /// [`Symlinks::None`]): for sandboxes that do not know openat2.
    Stepwise,
}

impl Directory {
    /// Opens the root of a tree, by the best resolution that works here. open(2) with `O_PATH`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = Self::open_with(path, Resolution::Kernel)?;
        match open_beneath(&directory, b".", Symlinks::Beneath) {
            Err(error) if is_refused(&error) => Ok(Self { resolution: Resolution::Stepwise, ..directory }),
            // Whatever else may be wrong, the path concerned will tell.
            _ => Ok(directory),
        }
    }

    /// The same, with this resolution.
    pub fn open_with(path: &Path, resolution: Resolution) -> io::Result<Self> {
        Ok(Self { descriptor: fs::openat(CWD, path, PLACE, Mode::empty())?, resolution })
    }

    /// Who walks along the paths below this root.
    pub fn resolution(&self) -> Resolution {
        self.resolution
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Opens the file or directory at `path` below `root` for reading, without waiting for a pipe's other end.
/// openat2(2), openat(2).
///
/// The path is relative (`.` is the root itself). One that begins with `/` or has a `..` component fails with `EXDEV`
/// whatever the symbolic links, one with a NUL with `EINVAL`.
pub fn open_beneath(root: &Directory, path: &[u8], symlinks: Symlinks) -> io::Result<OwnedFd> {
    if path.starts_with(b"/") || path.split(|byte| *byte == b'/').any(|component| component == b"..") {
        return Err(Errno::XDEV.into());
    }
    let opened = match (symlinks, root.resolution) {
        (Symlinks::Any, _) => fs::openat(root, path, READ, Mode::empty()),
        (Symlinks::Beneath, Resolution::Kernel) => resolve(root, path, ResolveFlags::empty()),
        (Symlinks::None, Resolution::Kernel) => resolve(root, path, ResolveFlags::NO_SYMLINKS),
        (Symlinks::None | Symlinks::Beneath, Resolution::Stepwise) => walk(root.as_fd(), path),
    };
    Ok(opened?)
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// Anything else: a device, a pipe, a socket, a symbolic link.
    Other,
}

/// What is known about a file, inode(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Length in bytes.
    pub size: u64,
    /// The file system that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// When the content changed last.
    pub mtime: FileTime,
    /// When the content or anything else about it changed last; unlike `mtime` it cannot be set at will.
    pub ctime: FileTime,
    /// The permission bits, 0 to 0o7777.
    pub mode: u32,
}

/// A moment on a file's clock, since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime {
    /// Whole seconds; negative before 1970.
    pub secs: i64,
    /// Nanoseconds beyond them, 0 to 999,999,999.
    pub nanos: u32,
}

/// What is known about an open file. fstat(2).
pub fn stat(fd: impl AsFd) -> io::Result<FileStat> {
    let stat = fs::fstat(fd)?;
    Ok(FileStat {
        kind: FileKind::from_type(FileType::from_raw_mode(stat.st_mode)),
        size: stat.st_size as u64,
        device: stat.st_dev,
        inode: stat.st_ino,
        mtime: FileTime { secs: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
        ctime: FileTime { secs: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 },
        mode: stat.st_mode & 0o7777,
    })
}

/// Reads from `offset` into `buffer`, and moves no position; 0 is the end of the file. pread(2).
#[inline]
pub fn read_at(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(fd, buffer, offset)?)
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, any bytes but `/` and NUL.
    pub name: OsString,
    /// What it is, where the file system says so with the name. A symbolic link is `Other`.
    pub kind: Option<FileKind>,
}

/// The first `limit` names in a directory, in no particular order, without `.` and `..`. getdents64(2).
pub fn list(directory: impl AsFd, limit: usize) -> io::Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if entries.len() == limit {
            break;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => None,
            known => Some(FileKind::from_type(known)),
        };
        entries.push(DirectoryEntry { name: OsString::from_vec(name.to_vec()), kind });
    }
    Ok(entries)
}

impl FileKind {
    fn from_type(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            _ => Self::Other,
        }
    }
}

fn resolve(root: &Directory, path: &[u8], more: ResolveFlags) -> rustix::io::Result<OwnedFd> {
    /// The kernel gives up (`EAGAIN`) where a rename anywhere in the system came between, which is rare.
    const ATTEMPTS: usize = 8;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
    let mut result = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        result = fs::openat2(root, path, READ, Mode::empty(), how);
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    result
}

fn walk(root: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    // A final slash asks for a directory, and so does a final dot.
    let (last, must_be_directory) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) if slash + 1 == path.len() => (b".".as_slice(), true),
        Some(slash) => (&path[slash + 1..], false),
        None => (path, false),
    };
    let parents = &path[..path.len() - if must_be_directory { 0 } else { last.len() }];

    let mut place: Option<OwnedFd> = None;
    for component in parents.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
        let from = place.as_ref().map_or(root, AsFd::as_fd);
        place = Some(step(from, component, PLACE)?);
    }
    step(place.as_ref().map_or(root, AsFd::as_fd), last, READ)
}

/// Opens one component, which must not be a symbolic link.
fn step(from: BorrowedFd<'_>, component: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    match fs::openat(from, component, flags | OFlags::NOFOLLOW, Mode::empty()) {
        // A link is not a directory either; say which it was.
        Err(Errno::NOTDIR) => match fs::statat(from, component, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => Err(Errno::LOOP),
            _ => Err(Errno::NOTDIR),
        },
        result => result,
    }
}

/// Old kernels and seccomp sandboxes.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}
