//! A file system that is easily filled, for servers whose logs or spools have no room.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use crate::skip;

/// A tmpfs on a directory of its own. It is not below a server's, which could not be deleted before it.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Of such a size, as tmpfs(5) has it. `None`: it can't be had here, which is told.
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

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    /// A path on it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(self.directory(), UnmountFlags::DETACH);
    }
}
