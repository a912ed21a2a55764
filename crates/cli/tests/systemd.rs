//! systemd takes the units of `contrib`, and knows each privilege that they name.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use harness::skip;
use harness::tools::{command, output};
use harness::workspace::root;

/// `systemd-analyze`. `None`: it is not installed.
fn systemd_analyze(directory: &Path, arguments: &[&str]) -> Option<Output> {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        skip("the units of systemd: systemd-analyze is not installed");
        return None;
    }
    Some(output(command(directory, "systemd-analyze").args(arguments)))
}

/// What systemd says of the units, with this change of the service. It is silent if they are right.
fn said_of_units(change: impl Fn(String) -> String) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let read = |name: &str| fs::read_to_string(root().join("contrib").join(name)).expect("a unit");
    // Where the program may not be installed.
    let service = read("sluice.service").replace("/usr/local/bin/sluice", "/bin/true");
    fs::write(directory.path().join("sluice.service"), change(service)).expect("a file");
    fs::write(directory.path().join("sluice.socket"), read("sluice.socket")).expect("a file");
    let drop_in = directory.path().join("sluice.service.d");
    fs::create_dir(&drop_in).expect("a directory");
    fs::write(drop_in.join("user.conf"), read("debian/user.conf")).expect("a file");
    let output = systemd_analyze(
        directory.path(),
        &["verify", "--man=no", "--recursive-errors=no", "./sluice.service", "./sluice.socket"],
    )?;
    // A key that it does not know is no failure for it.
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let status = if output.status.success() { "" } else { "it failed\n" };
    // The machine's own units are its own.
    Some(said.lines().filter(|line| line.contains("sluice")).collect::<Vec<_>>().join("\n") + status)
}

#[test]
fn systemd_takes_the_units() {
    if let Some(said) = said_of_units(|service| service) {
        assert_eq!(said, "");
    }
}

#[test]
fn a_wrong_unit_is_noticed() {
    let misspelled = |service: String| service.replace("LockPersonality", "LockPersonalty");
    let Some(said) = said_of_units(misspelled) else { return };
    assert!(said.contains("LockPersonalty"), "{said:?}");
    let Some(said) = said_of_units(|service| service.replace("/bin/true", "/nowhere/sluice")) else { return };
    assert!(said.contains("/nowhere/sluice"), "{said:?}");
}

/// `verify` says nothing about a privilege that there is not.
#[test]
fn systemd_knows_the_privileges() {
    let unit = fs::read_to_string(root().join("contrib/sluice.service")).expect("a unit");
    let lists =
        unit.lines().filter_map(|line| line.split_once("Capabilities=").or(line.split_once("BoundingSet=")));
    let names: Vec<&str> = lists.flat_map(|(_, names)| names.split(' ')).collect();
    assert!(names.iter().filter(|&&name| name == "CAP_DAC_READ_SEARCH").count() == 2, "{names:?}");
    let is_known = |name: &str| {
        let output = systemd_analyze(Path::new("/"), &["capability", name])?;
        Some(
            output.status.success() && String::from_utf8_lossy(&output.stdout).contains(&name.to_lowercase()),
        )
    };
    for name in names {
        assert_ne!(is_known(name), Some(false), "{name}");
    }
    assert_ne!(is_known("CAP_NONSENSE"), Some(true));
}
