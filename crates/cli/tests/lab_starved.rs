//! `sluicelab load` on a CPU that others use as well: what it measures then is the generator, and it must say
//! so, also in a closed loop, which no schedule makes late.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

#[path = "../../bench/src/scripted.rs"]
mod scripted;

/// Three who never sleep on a CPU; they go with the test, whatever becomes of it.
struct Spinners(Vec<Child>);

impl Spinners {
    fn start(cpu: &str) -> Self {
        let spinner = || {
            let mut command = Command::new("timeout");
            command.args(["60", "taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]);
            command.stdin(Stdio::null()).spawn().expect("coreutils and util-linux")
        };
        Self((0..3).map(|_| spinner()).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // `timeout` passes TERM on, and KILL it could not.
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = child.wait();
        }
    }
}

/// The last CPU that this process may use: the generator's own choice.
fn last_cpu() -> String {
    let mut status = String::new();
    let mut file = std::fs::File::open("/proc/self/status").expect("proc(5)");
    file.read_to_string(&mut status).expect("text");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("CPUs").trim();
    list.rsplit([',', '-']).next().expect("a CPU").to_owned()
}

#[test]
fn a_closed_loop_that_is_starved_is_invalid() {
    let server = scripted::start().expect("a server");
    let cpu = last_cpu();
    let _spinners = Spinners::start(&cpu);
    let output = Command::new(env!("CARGO_BIN_EXE_sluicelab"))
        .args([
            "load",
            &format!("--target=http://{server}/ok/100"),
            "--connections=16",
            "--duration=3s",
            "--format=json",
        ])
        .arg(format!("--cpus={cpu}"))
        .output()
        .expect("sluicelab runs");
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let reasons = results["invalid"].to_string();
    assert_eq!(
        (output.status.code(), results["valid"].as_bool()),
        (Some(3), Some(false)),
        "{}",
        results["generator"]
    );
    assert!(
        reasons.contains("waited for its CPU behind other programs"),
        "{reasons} {}",
        results["generator"]
    );
    assert!(results["generator"]["waited_part"].as_f64().is_some_and(|part| part > 0.05), "{reasons}");
}
