//! `sluice affinity`, on interfaces of a network namespace of this program's own.

use std::fs;
use std::process::{Command, ExitCode, Output};

use harness::namespace;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    if !namespace::enter() {
        return ExitCode::SUCCESS;
    }
    let tests: [(&str, fn()); 3] = [
        ("prints_and_changes_nothing", prints_and_changes_nothing),
        ("applies_and_undoes", applies_and_undoes),
        ("wrong_input", wrong_input),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip is here");
    assert!(status.success(), "ip {arguments}");
}

fn sluice(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).arg("affinity").args(arguments).output().expect("it runs")
}

fn printed(arguments: &[&str]) -> String {
    let output = sluice(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn steering(interface: &str, queue: usize) -> String {
    let path = format!("/sys/class/net/{interface}/queues/rx-{queue}/rps_cpus");
    mask(&fs::read_to_string(path).expect("a mask"))
}

/// Without the zeros that machines with many CPUs write before it.
fn mask(text: &str) -> String {
    let digits = text.trim().replace(',', "");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
}

/// The last CPU that is online, and the mask of it alone, if that is not too far.
fn last_cpu() -> (usize, String) {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").expect("a list");
    let last = online.trim().rsplit(['-', ',']).next().and_then(|cpu| cpu.parse().ok()).expect("a CPU");
    let last: usize = if last < 32 { last } else { 0 };
    (last, format!("{:x}", 1_u32 << last))
}

fn prints_and_changes_nothing() {
    ip("link add look0 type veth peer name look1");
    ip("addr add 192.0.2.77/32 dev look0");
    let (cpu, mask) = last_cpu();
    for name in ["look0", "192.0.2.77"] {
        let text = printed(&[&format!("{name}={cpu}")]);
        let line = text.lines().find(|line| line.starts_with("echo ")).expect("a command");
        let command = format!("echo {mask} > /sys/class/net/look0/queues/rx-0/rps_cpus ");
        assert!(line.starts_with(&command), "{text}");
        assert_eq!(steering("look0", 0), "0");
    }
}

fn applies_and_undoes() {
    ip("link add do0 numrxqueues 2 numtxqueues 2 type veth peer name do1");
    // Root of a user namespace is told that it may not.
    if fs::write("/sys/class/net/do0/queues/rx-0/rps_cpus", "0").is_err() {
        return harness::skip("steering that is applied and undone: only root of the machine may");
    }
    let (cpu, mask) = last_cpu();
    let undo = printed(&[&format!("do0={cpu}"), "do1=0", "--apply"]);
    assert_eq!([steering("do0", 0), steering("do0", 1), steering("do1", 0)], [mask.as_str(), &mask, "1"]);
    let sending = fs::read_to_string("/sys/class/net/do0/queues/tx-1/xps_cpus").expect("a mask");
    assert_eq!(self::mask(&sending), mask);

    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), &undo).expect("a file");
    let path = file.path().to_str().expect("a path");
    assert!(printed(&["--undo", path]).contains("echo 0 > /sys/class/net/do0/queues/rx-1/rps_cpus"));
    assert_eq!(steering("do0", 1), mask, "it was only printed");
    let again = printed(&["--undo", path, "--apply"]);
    assert_eq!([steering("do0", 0), steering("do0", 1), steering("do1", 0)], ["0", "0", "0"]);

    // What it printed undoes the undoing, also as a script.
    fs::write(file.path(), &again).expect("a file");
    assert!(Command::new("sh").arg(file.path()).status().expect("a shell").success());
    assert_eq!([steering("do0", 0), steering("do1", 0)], [mask.as_str(), "1"]);
}

fn wrong_input() {
    for (arguments, words) in [
        (&["nowhere=0"][..], "nowhere: there is no such interface; there are: "),
        (&["lo=1000"][..], "lo: CPU 1000 is not online; allowed: "),
        (&["lo=1-0"][..], "the range 1-0 is empty"),
        (&["lo=0x1"][..], "looks like a mask"),
        (&["lo"][..], "an interface (or one of its addresses) and CPUs, such as eth0=0-3"),
        (&["--undo", "/nowhere"][..], "/nowhere"),
        (&[][..], "required"),
        (&["lo=0", "--undo", "x"][..], "cannot be used with"),
        (&["--config", "/nowhere"][..], "/nowhere"),
    ] {
        let output = sluice(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(words), "{arguments:?}: {error}");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    }
}
