//! The root of a tree, and how paths beneath it are resolved.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The flags for a directory that other files are opened from.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The root of a tree, for [`open_beneath`](super::open_beneath).
#[derive(Debug)]
pub struct Directory {
    pub(super) descriptor: OwnedFd,
    /// The absolute path that it was opened by.
    pub(super) path: PathBuf,
    pub(super) resolution: Resolution,
}

/// How paths beneath the root are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// The kernel, in one call: openat2(2).
    Kernel,
    /// By the kernel, which cannot say what it has in memory: before Linux 5.12.
    KernelUncached,
    /// By this crate, one component at a time (`walk`): for sandboxes that do not know openat2.
    Stepwise,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

pub(super) fn resolve(
    root: &Directory,
    path: &[u8],
    flags: OFlags,
    more: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    /// The kernel gives up (`EAGAIN`) if there was a rename anywhere in the system meanwhile, which is
    /// rare.
    const ATTEMPTS: usize = 8;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
    // With this flag, that error means that something is not in memory.
    let attempts = if more.contains(ResolveFlags::CACHED) { 1 } else { ATTEMPTS };
    let mut result = Err(Errno::AGAIN);
    for _ in 0..attempts {
        result = fs::openat2(root, path, flags, Mode::empty(), how);
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    result
}

/// Tries openat2(2).
pub(crate) fn probe_openat2() -> io::Result<()> {
    probe_with(ResolveFlags::BENEATH)
}

/// Tries `RESOLVE_CACHED` of openat2(2).
pub(crate) fn probe_resolve_cached() -> io::Result<()> {
    match probe_with(ResolveFlags::CACHED) {
        // It works, and found nothing in memory.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        result => result,
    }
}

fn probe_with(how: ResolveFlags) -> io::Result<()> {
    let directory = fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(fs::openat2(directory, ".", flags, Mode::empty(), how).map(drop)?)
}
