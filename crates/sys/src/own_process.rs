//! For tests that change what all threads of a process share: such a test runs itself again, alone in a
//! process.

use std::env;
use std::process::Command;

const VARIABLE: &str = "SYS_TEST_IN_OWN_PROCESS";

/// Runs `body` in a new process, in which the caller is the only test. `test` is the caller's path, as
/// libtest prints it.
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
