//! Manual pages and completions: `contrib/install` puts them where they belong, they can be read, and they
//! leave nothing out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::workspace::root;

/// Installs everything below a directory, and gives the prefix in there.
fn installed(below: &Path) -> PathBuf {
    let mut install = Command::new(root().join("contrib/install"));
    let binaries = Path::new(env!("CARGO_BIN_EXE_sluice")).parent().expect("a directory");
    install.env("DESTDIR", below).env("PREFIX", "/opt/sluice").env("BINARIES", binaries);
    said_nothing_wrong(&install.output().expect("it runs"));
    below.join("opt/sluice")
}

#[track_caller]
fn said_nothing_wrong(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// The words of a program's help that begin with `--`, for it and all of its subcommands, by the name of
/// their page.
fn options(program: &str, words: &[&str], found: &mut Vec<(String, BTreeSet<String>)>) {
    let path = Path::new(env!("CARGO_BIN_EXE_sluice")).with_file_name(program);
    let help = Command::new(path).args(words).arg("--help").output().expect("it runs");
    let help = String::from_utf8(help.stdout).expect("text");
    let begins = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let long = begins.filter_map(|line| line.split([' ', ',', '=', '[']).find(|word| word.starts_with("--")));
    let name = [&[program], words].concat().join("-");
    found.push((name, long.map(str::to_owned).collect()));
    let commands =
        help.split_once("Commands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
    for line in commands.lines().filter(|line| !line.starts_with("   ")) {
        let command = line.split_whitespace().next().expect("a command");
        if command != "help" {
            options(program, &[words, &[command]].concat(), found);
        }
    }
}

#[test]
fn every_option_has_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let share = installed(directory.path()).join("share");
    let read =
        |path: String| fs::read_to_string(share.join(&path)).unwrap_or_else(|_| panic!("there is no {path}"));
    for program in ["sluice", "sluicelab"] {
        let mut found = Vec::new();
        options(program, &[], &mut found);
        assert!(found.len() > 4, "{found:?}");
        let [bash, zsh, fish] = [
            format!("bash-completion/completions/{program}.bash"),
            format!("zsh/site-functions/_{program}"),
            format!("fish/vendor_completions.d/{program}.fish"),
        ]
        .map(read);
        for (name, options) in found {
            let page = read(format!("man/man1/{name}.1")).replace(r"\-", "-");
            assert!(options.contains("--help"), "{name}: {options:?}");
            for option in options {
                assert!(page.contains(&format!(r"\fB{option}\fR")), "{name}: {option}");
                assert!(bash.contains(&option) && zsh.contains(&option), "{option}");
                assert!(fish.contains(&format!("-l {}", &option[2..])), "{option}");
            }
        }
    }
}

#[test]
fn every_key_has_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = installed(directory.path()).join("share/man/man5/sluice.toml.5");
    let page = fs::read_to_string(page).expect("a page");
    let example = fs::read_to_string(root().join("docs/sluice.example.toml")).expect("an example");
    // Tests of the configuration hold the example against the code. What is indented there is an example in
    // it.
    let commented = example.lines().filter_map(|line| line.strip_prefix('#'));
    let lines = commented.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase() || c == '['));
    let mut count = 0;
    for line in lines {
        let key = line.split(" =").next().expect("a key");
        if line.contains(" = ") || line.starts_with('[') {
            count += 1;
            let (row, heading) = (format!(".TP\n\\fB{key}\\fR"), format!(".SH {key}"));
            assert!(page.contains(&row) || page.contains(&heading), "{key}");
        }
    }
    assert!(count > 50, "{count} keys");
    for left_over in ["](", "| ", "`"] {
        assert!(!page.contains(left_over), "Markdown is left: {left_over}");
    }
}

#[test]
fn pages_and_completions_can_be_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let prefix = installed(directory.path());
    let bash = prefix.join("share/bash-completion/completions/sluice.bash");
    let ask = "source \"$0\"; COMP_WORDS=(sluice serve --arch); COMP_CWORD=2; \
        _sluice sluice --arch serve; echo $COMPREPLY";
    let output = Command::new("bash").args(["-c", ask]).arg(bash).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "--architecture", "{output:?}");
    let unit = fs::read_to_string(prefix.join("lib/systemd/system/sluice.service")).expect("a unit");
    assert!(unit.contains("ExecStart=/opt/sluice/bin/sluice serve "), "{unit}");
    // Some systems have another program of that name, which says where the real one is to be had.
    let version = Command::new("man").arg("--version").output();
    if !version.is_ok_and(|output| output.stdout.starts_with(b"man ")) {
        harness::skip("manual pages as man shows them: man is not installed");
        return;
    }
    for section in ["man1", "man5"] {
        for page in fs::read_dir(prefix.join("share/man").join(section)).expect("pages").flatten() {
            let man = Command::new("man")
                .args(["--warnings", "-l"])
                .arg(page.path())
                .env("MANWIDTH", "80")
                .env("LC_ALL", "C.UTF-8")
                .output();
            let output = man.expect("man runs");
            said_nothing_wrong(&output);
            assert!(String::from_utf8_lossy(&output.stdout).contains("NAME"), "{}", page.path().display());
        }
    }
}
