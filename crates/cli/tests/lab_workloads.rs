//! `sluicelab fileset` and `sluicelab sessions`: what they write is served, played, and understood by the real httperf.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

fn sluicelab(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluicelab"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("sluicelab runs")
}

#[track_caller]
fn succeed(arguments: &[&str], directory: &Path) -> String {
    let output = sluicelab(arguments, directory);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

struct Site {
    directory: TempDir,
    server: Child,
    address: String,
}

impl Site {
    /// A served set of two directories.
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let said = succeed(&["fileset", "specweb99", "--root=root", "--directories=2"], directory.path());
        assert!(said.contains("72 files, 10238968 bytes (0 were there)"), "{said}");
        let mut server = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(["serve", "root", "--listen=127.0.0.1:0"])
            .current_dir(directory.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(server.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.split('/').nth(2).expect("an address").to_owned();
        Self { directory, server, address }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn load(&self, arguments: &[&str]) -> Value {
        let target = format!("--target=http://{}", self.address);
        let mut all = vec!["load", &target, "--format=json"];
        all.extend(arguments);
        let output = sluicelab(&all, self.directory.path());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // It is there until now.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_set_is_served_and_every_byte_of_it_is_right() {
    let site = Site::new();
    let said = succeed(
        &["sessions", "specweb99", "--fileset=root", "--count=400", "--out=s99"],
        site.directory.path(),
    );
    assert!(said.starts_with("s99: 400 sessions, "), "{said}");
    let manifest: Value =
        serde_json::from_slice(&fs::read(site.path("s99.manifest.json")).expect("a manifest")).expect("JSON");
    let calls = manifest["calls"].as_u64().expect("a count");
    let results = site.load(&[
        "--sessions=s99",
        "--session-rate=300",
        "--session-count=400",
        "--verify=root",
        "--timeout=10s",
    ]);
    assert_eq!((results["replies"]["count"].as_u64(), &results["calls"]["errors"]), (Some(calls), &0.into()));
    assert_eq!(results["sessions"]["completed"], 400);

    let file = site.path("root/file_set/dir00001/class1_5");
    let mut bytes = fs::read(&file).expect("a file");
    bytes[100] ^= 1;
    fs::write(&file, bytes).expect("a file");
    let output = sluicelab(
        &["fileset", "specweb99", "--root=root", "--directories=2", "--check"],
        site.directory.path(),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("file_set/dir00001/class1_5 is not what it should be")
    );
}

/// What the real httperf says of a session file: replies and sessions.
fn httperf(site: &Site, sessions: u32, file: &str) -> (String, String) {
    let (host, port) = site.address.split_once(':').expect("a port");
    let output = Command::new("httperf")
        .args(["--hog", &format!("--server={host}"), &format!("--port={port}"), "--rate=100", "--timeout=10"])
        .arg(format!("--wsesslog={sessions},0,{file}"))
        .current_dir(site.directory.path())
        .output()
        .expect("httperf runs (Debian package httperf)");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("error"), "{told}{said}");
    let word = |before: &str| {
        let rest = said.split_once(before).unwrap_or_else(|| panic!("no {before} in {said}")).1;
        rest.split_whitespace().next().expect("a word").to_owned()
    };
    (word(" replies "), word("stddev 0.00 ("))
}

#[test]
fn httperf_plays_our_session_files() {
    let site = Site::new();
    let draw = [
        "sessions",
        "specweb99",
        "--fileset=root",
        "--count=40",
        "--off-times=surge",
        "--seed=3",
        "--out=s99",
    ];
    succeed(&draw, site.directory.path());
    let text = fs::read_to_string(site.path("s99")).expect("a file");
    // Thinking for minutes would make the test as long.
    let quick: String = text
        .lines()
        .map(|line| line.split(" think=").next().unwrap_or_default().to_owned() + " think=0.01\n")
        .map(|line| if line.trim() == "think=0.01" { "\n".to_owned() } else { line })
        .collect();
    fs::write(site.path("quick"), quick).expect("a file");
    let manifest: Value =
        serde_json::from_slice(&fs::read(site.path("s99.manifest.json")).expect("a manifest")).expect("JSON");
    let (replies, _) = httperf(&site, 40, "quick");
    assert_eq!(replies, manifest["calls"].to_string());
}

/// All of the syntax: what httperf makes of it, and what we make of it.
#[test]
fn we_play_httperfs_session_files() {
    let site = Site::new();
    let text = "# comment\n/file_set/dir00000/class0_1 think=0.05\n\t/file_set/dir00000/class0_2\n    /file_set/dir00000/class1_1\n\
                /file_set/dir00000/class2_1 method=HEAD\n\n# another session\n/file_set/dir00001/class1_5 method=POST \
                contents=\"a=\\\"b\\\"\\\n&c\\n\"\n";
    fs::write(site.path("theirs"), text).expect("a file");
    let (replies, sessions) = httperf(&site, 10, "theirs");
    let results =
        site.load(&["--sessions=theirs", "--session-rate=100", "--session-count=10", "--arrivals=fixed"]);
    assert_eq!(results["replies"]["count"].to_string(), replies);
    assert_eq!(format!("({}/10)", results["sessions"]["completed"]), format!("({sessions}"));
    assert_eq!(results["replies"]["statuses"]["4xx"], 5, "files take no POST");
}

#[test]
fn an_access_log_is_played_again() {
    let site = Site::new();
    let line = |client: u32, second: u32, target: &str| {
        format!(
            "10.0.0.{client} - - [20/Nov/2026:10:00:{second:02} +0000] \"GET {target} HTTP/1.1\" 200 1 \"-\" \"x\"\n"
        )
    };
    let log: String = (0..10)
        .map(|client| {
            line(client, 1, "/file_set/dir00000/class0_1")
                + &line(client, 1, "/file_set/dir00000/class0_2")
                + &line(client, 11, "/file_set/dir00000/class1_1")
        })
        .collect();
    fs::write(site.path("access.log"), log + "rubbish\n").expect("a file");
    let output = sluicelab(
        &["sessions", "replay", "access.log", "--speed-up=100", "--out=again"],
        site.directory.path(),
    );
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && told.contains("line 31: neither the combined format nor JSON"),
        "{told}"
    );
    let results = site.load(&["--sessions=again", "--session-rate=100", "--session-count=10"]);
    assert_eq!(
        (&results["replies"]["statuses"]["2xx"], &results["sessions"]["completed"]),
        (&30.into(), &10.into())
    );
}

#[test]
fn mistakes_name_their_place() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("bad"), "/a\n/b method=BREW\n").expect("a file");
    for (arguments, words) in [
        (
            ["load", "--target=http://127.0.0.1:1/", "--rate=1", "--sessions=bad"].as_slice(),
            "bad: line 2: unknown method BREW",
        ),
        (&["sessions", "specweb99", "--fileset=nowhere", "--out=x"], "no file set in nowhere"),
        (&["fileset", "specweb99", "--root=r", "--preset=2003"], "--preset 2003: allowed: 2004, 2007, 2012"),
        (
            &["fileset", "single", "--root=r", "--directories=3"],
            "only specweb99 and support have directories",
        ),
        (&["fileset", "specweb99", "--root=r", "--total=1KB"], "a directory alone has 5119484 bytes"),
        (&["sessions", "replay", "nowhere", "--out=x"], "nowhere: No such file"),
        (&["sessions", "support", "--fileset=r", "--replaced=2", "--out=x"], "allowed: a number from 0 to 1"),
    ] {
        let output = sluicelab(arguments, directory.path());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}
