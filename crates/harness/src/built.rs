//! Finds the programs that cargo has built for the running tests.
//!
//! Cargo builds the programs of a package before its integration tests, so `sluice` is never older than
//! the test that starts it. That is true only for the package `sluicegate`, so only its tests may use
//! this.

use std::env;
use std::path::PathBuf;

/// The path of `sluice`.
///
/// A library cannot use `env!("CARGO_BIN_EXE_sluice")`, because cargo sets that when it compiles a test
/// program. Both `cargo test` and `cargo nextest run` set the variable again when they run the program,
/// and its value is right wherever cargo's two directories are. A test program that is started by hand,
/// or in a debugger, looks next to itself. For every profile and target it is in `deps/`, one level below
/// the programs that it tests.
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
