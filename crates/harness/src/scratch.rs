//! Directories for the files of tests: in memory if possible, otherwise in the temporary directory.
//!
//! The standard site is created for thousands of servers that live for a second each. On ext4, each new
//! file makes the kernel check every recently freed inode and skip it. That took a fifth of the tests'
//! CPU time.

use std::env;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;

const IN_MEMORY: &str = "/dev/shm";

/// The space that all concurrent tests may need, in bytes.
const ROOM: u64 = 2 << 30;

/// A new directory, in memory if possible. If `TMPDIR` is set, it is created there.
pub fn directory() -> TempDir {
    let is_told = env::var_os("TMPDIR").is_some();
    if !is_told && is_fit(Path::new(IN_MEMORY)) { make_in(Path::new(IN_MEMORY)) } else { on_disk() }
}

/// A new directory in the temporary directory, for tests whose files may not be in memory.
pub fn on_disk() -> TempDir {
    make_in(&env::temp_dir())
}

fn make_in(parent: &Path) -> TempDir {
    tempfile::Builder::new().prefix("sluice-").tempdir_in(parent).expect("a directory")
}

/// Whether a directory is suitable. Tests also start programs there.
fn is_fit(directory: &Path) -> bool {
    statvfs(directory).is_ok_and(|of| {
        !of.f_flag.intersects(StatVfsMountFlags::NOEXEC | StatVfsMountFlags::RDONLY)
            && of.f_bavail * of.f_frsize >= ROOM
    })
}
