//! A server whose kernel or sandbox refuses a system call that the server can do without. strace makes every
//! call of that name fail, in all processes. gVisor, old kernels and old seccomp profiles do the same.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE};
use harness::variant::Variant;

const SYMPED: Variant = Variant { name: "symped", options: &["--architecture=symped", "--workers=1"] };
const AMPED: Variant = Variant { name: "amped", options: &["--architecture=amped", "--workers=1"] };

/// A program for which a call fails, as if the kernel did not have it.
fn refused(call: &str, traced: &std::path::Path) -> Command {
    refused_with(call, "ENOSYS", traced)
}

/// A program for which a call fails with this error.
fn refused_with(call: &str, error: &str, traced: &std::path::Path) -> Command {
    let [trace, inject] = [format!("trace={call}"), format!("inject={call}:error={error}")];
    let mut command = Command::new("strace");
    // The tracer is a grandchild: the server is the test's own child, which takes its signals.
    command.args(["-D", "-f", "-qq", "-e", &trace, "-e", &inject, "-o"]).arg(traced);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server for which a call fails, and links of all kinds in its root.
fn start_without(call: &str, variant: &Variant) -> Server {
    let setup = Setup::new(variant);
    let root = setup.root();
    symlink("hello.txt", root.join("inside")).expect("a link");
    symlink(root.join("hello.txt"), root.join("absolute")).expect("a link");
    symlink("/etc/hostname", root.join("outside")).expect("a link");
    let usual = setup.command();
    let mut command = refused(call, &setup.directory().join("traced"));
    command.arg(usual.get_program()).args(usual.get_args());
    setup.start_as(command)
}

fn serves_as_ever(server: &Server) {
    let mut client = server.connect();
    for path in ["/hello.txt", "/inside", "/absolute"] {
        let reply = client.get(path);
        assert_eq!((reply.status, reply.text()), (200, HELLO.to_owned()), "{path}");
    }
    assert_eq!(client.get("/outside").status, 404);
    assert_eq!(client.get("/large.bin").body.len(), LARGE);
    let traced = fs::read_to_string(server.directory().join("traced")).expect("what was traced");
    assert!(traced.contains("ENOSYS") && traced.contains("(INJECTED)"), "{traced}");
}

fn warnings(server: &Server) -> Vec<String> {
    server.stderr().into_iter().filter(|line| line.contains("WARN")).collect()
}

#[test]
fn without_openat2_links_beneath_the_root_are_followed_and_no_setting_is_narrowed() {
    let server = start_without("openat2", &SYMPED);
    serves_as_ever(&server);
    let warnings = warnings(&server);
    assert!(!warnings.iter().any(|line| line.contains("openat2")), "{warnings:?}");
}

#[test]
fn without_openat2_amped_says_what_does_not_hold() {
    let server = start_without("openat2", &AMPED);
    serves_as_ever(&server);
    let line =
        server.wait_for_line(|line| line.contains("WARN") && line.contains("openat2(2) is not available"));
    assert!(line.contains("Function not implemented") && line.contains("helpers look up"), "{line}");
}

#[test]
fn without_preadv2_amped_says_what_does_not_hold() {
    let server = start_without("preadv2", &AMPED);
    serves_as_ever(&server);
    let told = "RWF_NOWAIT of preadv2(2) is not available here";
    let line = server.wait_for_line(|line| line.contains("WARN") && line.contains(told));
    assert!(line.contains("helpers read"), "{line}");
    assert!(server.count("helper_jobs/fetch") > 0, "the loop itself has waited for the disk");
}

#[test]
fn what_is_missing_is_told_before_anything_serves() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |arguments: &[&str]| {
        let mut command = refused("openat2", &directory.path().join("traced"));
        let output = command.arg(env!("CARGO_BIN_EXE_sluice")).args(arguments).output().expect("strace runs");
        assert!(output.status.success(), "{output:?}");
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"))
    };
    let [told, _] = run(&["architectures"]);
    assert!(told.contains("\nopenat2(2) is not available here (Function not implemented"), "{told}");
    let root = directory.path().to_str().expect("text");
    let [_, warned] = run(&["check", root, "--listen=127.0.0.1:0", "--architecture=amped"]);
    assert!(warned.contains("warning: openat2(2) is not available here"), "{warned}");
    let [_, warned] = run(&["check", root, "--listen=127.0.0.1:0"]);
    assert!(!warned.contains("openat2"), "{warned}");
}

/// Docker's and containerd's default profiles refuse a ring with EPERM, and old kernels don't know the call.
#[test]
fn without_a_ring_uring_names_the_cause_and_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    for (error, remedy) in [("EPERM", "default seccomp profiles of Docker"), ("ENOSYS", "needs Linux 6.10")] {
        let run = |arguments: &[&str]| {
            let mut command = refused_with("io_uring_setup", error, &directory.path().join("traced"));
            let output = command.arg(env!("CARGO_BIN_EXE_sluice")).args(arguments).output();
            let output = output.expect("strace runs");
            let [told, wrong] =
                [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
            (output.status.code(), told, wrong)
        };
        let root = directory.path().to_str().expect("text");
        for command in ["serve", "check"] {
            let (code, _, wrong) = run(&[command, root, "--listen=127.0.0.1:0", "--architecture=uring"]);
            assert_eq!(code, Some(2), "{wrong}");
            let line = wrong.lines().find(|line| line.contains("io_uring is not available here"));
            assert!(line.is_some_and(|line| line.contains(remedy)), "{wrong}");
        }
        let (code, told, _) = run(&["architectures"]);
        assert!(code == Some(0) && told.contains(remedy), "{told}");
    }
}
