//! A network namespace for a test program. It has its own kernel counters and settings, and no
//! connections of other programs.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, fs};

use crate::skip;

/// Commands that set up what a new namespace lacks. A sysfs shows the interfaces of the namespace in which it
/// was mounted.
const SET_UP: &str = "ip link set lo up && mount -t sysfs sysfs /sys";

/// This variable marks a program that is already in its namespace.
const INSIDE: &str = "SLUICE_TEST_NAMESPACE";

/// Starts this program again in a new network namespace, with a loopback interface that is up, and a new
/// `/sys`. Returns true in the namespace. Returns false if no namespace can be created, and has then
/// reported why.
pub fn enter() -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut why = String::new();
    // Without root, use a user namespace, in which this process is root.
    for options in [&["--net", "--mount"][..], &["--net", "--mount", "--user", "--map-root-user"]] {
        let probe = Command::new("unshare").args(options).args(["sh", "-c", SET_UP]).output();
        match probe {
            Ok(output) if output.status.success() => {
                let program = env::current_exe().expect("this program is somewhere");
                let error = Command::new("unshare")
                    .args(options)
                    .args(["sh", "-c", &format!("{SET_UP} && exec \"$0\" \"$@\"")])
                    .arg(program)
                    .args(env::args_os().skip(1))
                    .env(INSIDE, "yes")
                    .stdin(Stdio::null())
                    .exec();
                why = format!("unshare: {error}");
            }
            Ok(output) => why = format!("unshare: {}", String::from_utf8_lossy(&output.stderr).trim()),
            Err(error) => why = format!("unshare: {error}"),
        }
    }
    skip(format!("tests in a network namespace of their own: it can't be made: {why}"));
    false
}

static SETTINGS: Mutex<()> = Mutex::new(());

/// Changes settings of the namespace for a test. No other test changes them while the guard is held. The
/// settings are those below `net.ipv4`. They stay when the guard is dropped.
pub fn settings(wanted: &[(&str, u32)]) -> MutexGuard<'static, ()> {
    assert!(env::var_os(INSIDE).is_some(), "these are the namespace's settings, not the machine's");
    let held = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, value) in wanted {
        fs::write(format!("/proc/sys/net/ipv4/{name}"), value.to_string())
            .expect("root of the namespace may");
    }
    held
}
