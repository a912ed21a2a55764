//! The packages that `scripts/release` builds, in a fresh Debian: the page of the first ten minutes as it is
//! written, an upgrade under load, and a purge.
//!
//! `scripts/test-packages` builds what these tests need, and sets `SLUICE_PACKAGES` to its directory:
//! `debian.tar`, the two packages, and the same server as a package of the next version. Without it they are
//! skipped.

mod debian;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use debian::Debian;

/// The directory of the packages. `None`: they have not been built.
fn packages() -> Option<PathBuf> {
    let directory = std::env::var_os("SLUICE_PACKAGES").map(PathBuf::from);
    if directory.is_none() {
        harness::skip(
            "packages in a fresh Debian: SLUICE_PACKAGES is not set; scripts/test-packages sets it",
        );
    }
    directory
}

/// A fresh Debian with the packages in its root's home.
fn fresh(packages: &Path) -> Debian {
    let debian = Debian::unpacked(&packages.join("debian.tar"));
    for name in debs(packages) {
        fs::copy(packages.join(&name), debian.root().join("root").join(&name)).expect("a package");
    }
    debian
}

fn debs(packages: &Path) -> Vec<String> {
    let names = fs::read_dir(packages)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name of ASCII characters"));
    names.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "deb")).collect()
}

/// The page; the remark behind a command is what its output must contain.
const PAGE: &str = include_str!("../../../../docs/first-ten-minutes.md");

#[test]
fn the_first_ten_minutes_are_as_the_page_says() {
    let Some(packages) = packages() else { return };
    let mut debian = fresh(&packages);
    debian.boot();
    let all = harness::page::commands(PAGE);
    assert!(all.len() > 20, "{all:?}");
    for (command, expected) in all {
        if command == "reboot" {
            debian.shut_down();
            debian.boot();
            continue;
        }
        if expected.is_some() {
            // The server sees a changed file within a second, which is less than a reader needs to type.
            harness::sleep_ms(1100);
        }
        let said = debian.said(command);
        eprintln!("# {command}\n{said}");
        if let Some(expected) = expected {
            assert!(said.contains(expected), "{command}: no {expected:?} in\n{said}");
        }
    }
}

#[test]
fn an_upgrade_under_load_fails_no_request() {
    let Some(packages) = packages() else { return };
    let mut debian = fresh(&packages);
    debian.boot();
    debian.said("apt-get install --yes ./sluice_0.1.0-1_*.deb");
    let process = debian.said("systemctl show --property=MainPID --value sluice");
    let seconds = if std::env::var_os("CI").is_some() { 15 } else { 60 };
    let mut load = debian.beside(env!("CARGO_BIN_EXE_sluicelab"));
    load.args(["load", "http://127.0.0.1/", "--rate=1000"]).arg(format!("--duration={seconds}s"));
    load.args(["--fail-if=errors > 0", "--fail-if=non-2xx > 0", "--format=json"]);
    let load =
        load.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a load");
    harness::sleep_ms(seconds * 1000 / 3);
    let said = debian.said("apt-get install --yes ./sluice_0.1.1-1_*.deb");
    assert!(!said.contains("still has the old program"), "{said}");
    let output = load.wait_with_output().expect("an end");
    let told = String::from_utf8_lossy(&output.stdout);
    // Exit code 3: the machine was too busy for figures. That is no failure of the server.
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}: {told} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let told: serde_json::Value = serde_json::from_str(&told).expect("a report");
    eprintln!("{told:#}");
    assert_eq!(debian.said("systemctl show --property=MainPID --value sluice"), process);
    let program = debian.said(&format!("readlink /proc/{}/exe", process.trim()));
    assert_eq!(program.trim(), "/usr/bin/sluice", "it still has the old program");
}

#[test]
fn a_purge_leaves_nothing_but_the_logs_that_it_names() {
    let Some(packages) = packages() else { return };
    let mut debian = fresh(&packages);
    debian.boot();
    let before = files(&debian);
    debian.said("apt-get install --yes ./sluice_0.1.0-1_*.deb ./sluicelab_0.1.0-1_*.deb");
    debian.said("curl --silent --fail http://localhost/ && systemctl is-active sluice");
    // What is to be rotated is.
    let log = "/var/log/sluice/access.log";
    let lines = format!("for i in $(seq 50); do [ -s {log} ] && break; sleep 0.1; done");
    let rotate = "logrotate --force /etc/logrotate.d/sluice && curl --silent http://localhost/again";
    debian.said(&format!("{lines}; {rotate}; {lines}; grep -q /again {log} && ! grep -q /again {log}.1"));
    let said = debian.said("apt-get purge --yes sluice sluicelab");
    assert!(said.contains("the logs stay in /var/log/sluice"), "{said}");
    let after = files(&debian);
    let left: Vec<_> = after.difference(&before).collect();
    assert_eq!(left, [log, &format!("{log}.1")], "left behind");
    assert!(!debian.types("getent passwd sluice").status.success(), "the user is still there");
}

/// All files but those of the package manager's own and those of a running system.
fn files(debian: &Debian) -> BTreeSet<String> {
    const OTHERS: [&str; 10] = [
        "/var/lib/logrotate/",
        "/var/lib/dpkg/",
        "/var/lib/apt/",
        "/var/cache/",
        "/var/log/apt/",
        "/var/log/journal",
        "/tmp/",
        "/var/tmp/",
        "/var/lib/systemd/",
        "/root/",
    ];
    let found = debian.said("find / -xdev -not -type d -o -xdev -type d -empty");
    let is_ours = |path: &&str| {
        let logs = ["/var/log/dpkg.log", "/var/log/alternatives.log", "/etc/passwd-", "/etc/group-"];
        let others = ["/etc/shadow-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-", "/etc/.pwd.lock"];
        !OTHERS.iter().any(|other| path.starts_with(other)) && !logs.contains(path) && !others.contains(path)
    };
    found.lines().filter(is_ours).map(str::to_owned).collect()
}

/// `scripts/try-image` runs the image's program as process 1 of namespaces, and mounts its root read-only.
#[test]
fn the_image_serves_as_process_1_of_a_read_only_root() {
    let Some(packages) = packages() else { return };
    let script = harness::workspace::root().join("scripts/try-image");
    let image = fs::read_dir(&packages).expect("a directory").map(|entry| entry.expect("an entry").path());
    let image = image.filter(|path| path.to_string_lossy().contains("image-x86_64")).collect::<Vec<_>>();
    let [image] = image.as_slice() else {
        assert!(image.is_empty(), "several images: {image:?}");
        harness::skip(
            "the container's image: scripts/test-packages was not given what scripts/release built",
        );
        return;
    };
    let output = Command::new(script).arg(image).output().expect("a shell");
    let said = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
}
