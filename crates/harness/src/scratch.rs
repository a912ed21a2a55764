//! Where tests have their files: in memory where that can be had, in the temporary directory otherwise.
//!
//! The standard site is made for thousands of servers that live for a second each. On ext4, every place that
//! was free a moment ago is looked at and passed over for each new file, which took a fifth of all CPU time
//! of the tests.

use std::env;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;

const IN_MEMORY: &str = "/dev/shm";

/// What all tests that run at a time may need, in bytes.
const ROOM: u64 = 2 << 30;

/// A new directory, in memory if that can be had. `TMPDIR`, if it is set, says where.
pub fn directory() -> TempDir {
    let is_told = env::var_os("TMPDIR").is_some();
    if !is_told && is_fit(Path::new(IN_MEMORY)) { make_in(Path::new(IN_MEMORY)) } else { on_disk() }
}

/// A new directory in the temporary directory, for tests of files that may not be in memory.
pub fn on_disk() -> TempDir {
    make_in(&env::temp_dir())
}

fn make_in(parent: &Path) -> TempDir {
    tempfile::Builder::new().prefix("sluice-").tempdir_in(parent).expect("a directory")
}

/// Programs are started there, too.
fn is_fit(directory: &Path) -> bool {
    statvfs(directory).is_ok_and(|of| {
        !of.f_flag.intersects(StatVfsMountFlags::NOEXEC | StatVfsMountFlags::RDONLY)
            && of.f_bavail * of.f_frsize >= ROOM
    })
}
