//! README.md as a reader uses it: each command is typed as it stands, and the demo runs for an ordinary user.
//! Programs come from the test's build instead of a release build. Servers run in namespaces, in which every
//! port is free.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::workspace::root;

/// The directory of the programs that are tested.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_sluicelab")).parent().expect("a directory").to_owned()
}

/// Types a command in the root of the repository.
fn types(command: &str, home: &Path) -> Output {
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(root()).env("PATH", path).env("HOME", home);
    shell.output().expect("a shell")
}

#[track_caller]
fn succeeds(command: &str, output: &Output) {
    let said = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command}: {} {said}", output.status);
}

/// Starts a server in namespaces, asks for its first page, and stops it. Exit code 77: there are no
/// namespaces.
const SERVE: &str = r#"
unshare --net --mount --user --map-root-user sh -c '
  ip link set lo up && mount -t tmpfs tmpfs /srv && mkdir /srv/wiki || exit 77
  echo wiki > /srv/wiki/index.html
  eval "exec $1" & server=$!
  for try in $(seq 50); do
    curl --silent --fail --max-time 5 --output /dev/null http://127.0.0.1:8080/ && found=yes && break
    sleep 0.1
  done
  kill $server && wait $server && test "$found"' sh "$0"
"#;

fn serves(command: &str, home: &Path) -> Output {
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", SERVE, command]).current_dir(root()).env("PATH", path).env("HOME", home);
    shell.output().expect("a shell")
}

#[test]
fn every_command_does_what_it_says() {
    let home = tempfile::tempdir().expect("a directory");
    fs::create_dir(home.path().join("my-site")).expect("a directory");
    fs::write(home.path().join("my-site/index.html"), "a page").expect("a file");
    let all = harness::page::commands(include_str!("../../../README.md"));
    assert!(all.len() > 6, "{all:?}");
    for (command, _) in all {
        match command {
            // The test's own build has shown that this works. The lock file must be complete for it.
            "cargo build --release --locked" => {
                succeeds(command, &types("cargo tree --locked --offline --package sluicegate", home.path()));
            }
            "scripts/test" => {
                let runs = fs::read_to_string(root().join(".ci/run")).expect("what CI runs");
                assert!(runs.contains("exec scripts/test\n"), "CI runs something else: {runs}");
            }
            // The tests of the packages do both, with the page of the first ten minutes.
            "scripts/release" => assert!(root().join(command).is_file(), "there is such a script"),
            _ if command.contains("apt-get install ") => {
                assert!(command.ends_with("_amd64.deb"), "{command}: another package");
            }
            "scripts/demo" => assert!(root().join(command).is_file(), "the next test runs it"),
            "sudo contrib/install" => {
                let to = tempfile::tempdir().expect("a directory");
                let install = format!(
                    "DESTDIR={} BINARIES={} contrib/install",
                    to.path().display(),
                    programs().display()
                );
                succeeds(command, &types(&install, home.path()));
                assert!(to.path().join("usr/local/bin/sluice").is_file());
            }
            _ if command.starts_with("sluice init ") => succeeds(command, &types(command, home.path())),
            _ if command.contains("serve ") => {
                let output =
                    serves(&command.replace("cargo run --release --locked --", "sluice"), home.path());
                if output.status.code() == Some(77) {
                    harness::skip("the README's servers: there are no namespaces");
                } else {
                    succeeds(command, &output);
                }
            }
            _ if command.contains("sluicelab run ") => {
                let check = command.replace("target/release/", "") + " --check";
                succeeds(command, &types(&check, home.path()));
            }
            _ if command.contains("sluicelab compare ") => {
                let quick = format!(
                    "{} --rounds 1 --measured 300ms --settling 0s --workload one-packet --loopback \
                     --data {home} --out {home}/out",
                    command.replace("target/release/", ""),
                    home = home.path().display()
                );
                succeeds(command, &types(&quick, home.path()));
            }
            _ => panic!("README.md has a command that this test does not know: {command}"),
        }
    }
}

#[test]
fn the_demo_runs_for_an_ordinary_user() {
    // That user may not be able to read the repository.
    let copy = tempfile::tempdir().expect("a directory");
    let path = |name: &str| copy.path().join(name);
    fs::create_dir(path("scripts")).expect("a directory");
    fs::copy(root().join("scripts/demo"), path("scripts/demo")).expect("the demo");
    for program in ["sluice", "sluicelab"] {
        fs::copy(programs().join(program), path(program)).expect("a program");
    }
    fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o755)).expect("all may read it");
    let is_root = rustix::process::getuid().is_root();
    let mut demo = Command::new(if is_root { "setpriv" } else { "env" });
    if is_root {
        demo.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    demo.arg(path("scripts/demo")).env("SECONDS_EACH", "1");
    demo.env("SLUICE", path("sluice")).env("SLUICELAB", path("sluicelab"));
    let output = demo.env("TMPDIR", "/tmp").output().expect("it runs");
    succeeds("scripts/demo", &output);
    let said = String::from_utf8(output.stdout).expect("text");
    let switched = said.lines().filter(|line| line.ends_with(" requests, 0 failed")).count();
    assert_eq!(switched, 6, "{said}");
    assert!(said.contains("the nine polite clients: "), "{said}");
}
