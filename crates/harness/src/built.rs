//! The programs that cargo has built for the tests that run.
//!
//! Cargo builds the programs of a package before its integration tests, so `sluice` is never older than the
//! test that starts it. That holds for the package `sluicegate` alone: only its tests may ask here.

use std::env;
use std::path::PathBuf;

/// Where `sluice` is.
///
/// A library can't have `env!("CARGO_BIN_EXE_sluice")`: cargo sets that when it compiles a test program. Both
/// `cargo test` and `cargo nextest run` set the variable again when they run the program, and it is right
/// wherever the two directories of cargo's are. A test program that is started by hand, or below a debugger,
/// looks beside itself: it lies in `deps/`, one below what it tests, for every profile and target.
pub fn sluice() -> PathBuf {
    let told = env::var_os("CARGO_BIN_EXE_sluice").map(PathBuf::from);
    let path = told.unwrap_or_else(|| {
        let test = env::current_exe().expect("this program is somewhere");
        let profile = test.parent().and_then(|deps| deps.parent()).expect("it lies two directories deep");
        profile.join("sluice")
    });
    assert!(path.is_file(), "{} is not built: only tests of sluicegate may need it", path.display());
    path
}
