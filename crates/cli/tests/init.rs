//! `sluice init`: the settings that it writes serve the site, and it replaces no file.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn sluice(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(arguments).current_dir(directory).output().expect("it runs")
}

#[test]
fn its_settings_work_and_stay() {
    let site = tempfile::tempdir().expect("a directory");
    fs::write(site.path().join("index.html"), "a page").expect("a file");
    let output = sluice(site.path(), &["init"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let root = site.path().canonicalize().expect("a directory");
    assert!(said.starts_with(&format!("found    the files of {}\n", root.display())), "{said}");
    assert!(said.contains("wrote    sluice.toml\n"), "{said}");

    // The settings are below the root: clients must not get them.
    let explained = sluice(site.path(), &["check", "-c", "sluice.toml", "--url", "/sluice.toml"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("404"), "{explained}");
    let page = sluice(site.path(), &["check", "-c", "sluice.toml", "--url", "/"]);
    assert!(String::from_utf8_lossy(&page.stdout).contains("the file /"), "{page:?}");

    let before = fs::read_to_string(site.path().join("sluice.toml")).expect("settings");
    let again = sluice(site.path(), &["init"]);
    let why = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(2), "{why}");
    assert!(why.contains("sluice.toml exists already"), "{why}");
    assert_eq!(fs::read_to_string(site.path().join("sluice.toml")).expect("settings"), before);

    let printed = sluice(site.path(), &["init", "--output", "-"]);
    assert!(printed.status.success() && printed.stdout.starts_with(b"# Settings of sluice"), "{printed:?}");
    assert_eq!(sluice(site.path(), &["init", "no-such-directory"]).status.code(), Some(2));
}

#[test]
fn options_of_other_servers_get_a_tip() {
    let here = Path::new(".");
    for (arguments, tip) in
        [(&["-t"][..], "sluice check -c FILE"), (&["serve", "-t"], "sluice check"), (&["-s", "stop"], "kill")]
    {
        let output = sluice(here, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(tip), "{arguments:?}: {said}");
    }
}
