//! For tests that change what all threads of a process have in common: they run themselves again, alone.

use std::env;
use std::process::Command;

const VARIABLE: &str = "SYS_TEST_IN_OWN_PROCESS";

/// Runs `body` in a process of its own, whose only test is the caller: `test` is its path, as libtest prints
/// it.
pub(crate) fn run(test: &str, body: impl FnOnce()) {
    if env::var_os(VARIABLE).is_some() {
        return body();
    }
    let this_program = env::current_exe().unwrap();
    let output = Command::new(this_program)
        .args([test, "--exact", "--nocapture"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "no test is called {test}: {said}");
}
