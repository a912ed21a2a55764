//! A file system that is easily filled, for servers whose logs or spools run out of room.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use crate::skip;

/// A tmpfs on a new directory. It is not below a server's directory, which could not be deleted before
/// this is unmounted.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts a file system of this size, in the notation of tmpfs(5). `None`: this is not possible here,
    /// which is reported.
    pub fn mount(size: &str) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("sluice-").tempdir().expect("a directory");
        let options = CString::new(format!("size={size},mode=777")).expect("no zero in it");
        match mount("tmpfs", directory.path(), "tmpfs", MountFlags::empty(), &*options) {
            Ok(()) => Some(Self(directory)),
            Err(error) => {
                skip(format!("a disk that is full: a tmpfs can't be mounted: {error}"));
                None
            }
        }
    }

    /// The mount point.
    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    /// A path on this file system.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(self.directory(), UnmountFlags::DETACH);
    }
}
