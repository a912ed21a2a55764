//! `sluicelab fileset` and `sluicelab sessions`: what they write is served, played, and understood by the
//! real httperf.

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
            .contains("file_set/dir00001/class1_5 is missing or has the wrong contents")
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
    let text = "# comment\n/file_set/dir00000/class0_1 think=0.05\n\
        \t/file_set/dir00000/class0_2\n    /file_set/dir00000/class1_1\n\
                /file_set/dir00000/class2_1 method=HEAD\n\n# another session\n/file_set/dir00001/class1_5 \
                method=POST contents=\"a=\\\"b\\\"\\\n&c\\n\"\n";
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
            "10.0.0.{client} - - [20/Nov/2026:10:00:{second:02} +0000] \
             \"GET {target} HTTP/1.1\" 200 1 \"-\" \"x\"\n"
        )
    };
    let log: String = (0..10)
        .map(|client| {
            line(client, 1, "/file_set/dir00000/class0_1")
                + &line(client, 1, "/file_set/dir00000/class0_2")
                + &line(client, 11, "/file_set/dir00000/class1_1")
        })
        .collect();
    let upload = line(1, 12, "/form").replace("GET", "POST");
    fs::write(site.path("access.log"), log + "rubbish\n" + &upload + "and more\n").expect("a file");
    let output = sluicelab(
        &["sessions", "replay", "access.log", "--speed-up=100", "--out=again"],
        site.directory.path(),
    );
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "sluicelab: access.log: 3 of 33 lines are left out:\n\
                    sluicelab:        2: neither the combined format nor JSON (from line 31)\n\
                    sluicelab:        1: the log does not have the request's body (line 32)\n";
    assert!(output.status.success(), "{output:?}");
    assert_eq!(told, expected);
    let results = site.load(&["--sessions=again", "--session-rate=100", "--session-count=10"]);
    assert_eq!(
        (&results["replies"]["statuses"]["2xx"], &results["sessions"]["completed"]),
        (&30.into(), &10.into())
    );
}

#[test]
fn sessions_of_one_file_may_have_several_requests() {
    let directory = tempfile::tempdir().expect("a directory");
    succeed(&["fileset", "single", "--root=one"], directory.path());
    succeed(&["sessions", "single", "--fileset=one", "--calls=3", "--out=kept"], directory.path());
    let written = fs::read_to_string(directory.path().join("kept")).expect("sessions");
    // Not in one burst: each when the reply to the one before is there.
    assert_eq!(written.lines().filter(|line| *line == "/1k.html").count(), 3, "{written}");

    succeed(&["fileset", "fixed", "--root=many"], directory.path());
    let of_one = ["sessions", "fixed", "--fileset=many", "--bytes=128KiB", "--calls=2", "--out=kept"];
    let said = succeed(&of_one, directory.path());
    assert!(said.starts_with("kept: 1 sessions, 2 calls of 1 different requests"), "{said}");
    let refused =
        sluicelab(&["sessions", "fixed", "--fileset=many", "--bytes=100KiB", "--out=kept"], directory.path());
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("allowed: 32KiB, 64KiB, "), "{refused:?}");

    succeed(&["fileset", "fixed", "--root=ten", "--bytes=10KiB"], directory.path());
    assert_eq!(fs::metadata(directory.path().join("ten/10240.bin")).expect("the file").len(), 10_240);
    let of_ten = |bytes| ["sessions", "fixed", "--fileset=ten", bytes, "--out=kept"];
    succeed(&of_ten("--bytes=10KiB"), directory.path());
    let refused = sluicelab(&of_ten("--bytes=32KiB"), directory.path());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("32768: allowed: 10KiB"), "{refused:?}");
}

#[test]
fn mistakes_name_their_place() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("bad"), "/a\n/b method=B/W\n").expect("a file");
    for (arguments, words) in [
        (
            ["load", "--target=http://127.0.0.1:1/", "--rate=1", "--sessions=bad"].as_slice(),
            "bad: line 2: method \"B/W\" is no token",
        ),
        (&["sessions", "specweb99", "--fileset=nowhere", "--out=x"], "no file set in nowhere"),
        (&["fileset", "specweb99", "--root=r", "--preset=2003"], "--preset 2003: allowed: 2004, 2007, 2012"),
        (
            &["fileset", "single", "--root=r", "--directories=3"],
            "only specweb99 and support have directories",
        ),
        (&["fileset", "single", "--root=r", "--bytes=1KB"], "--bytes: only fixed has files of any size"),
        (&["fileset", "specweb99", "--root=r", "--total=1KB"], "a directory alone has 5119484 bytes"),
        (&["sessions", "replay", "nowhere", "--out=x"], "nowhere: No such file"),
        // It would be gone.
        (&["sessions", "replay", "bad", "--out=bad"], "--out bad: the file exists, and without bad.man"),
        (&["sessions", "support", "--fileset=r", "--replaced=2", "--out=x"], "allowed: a number from 0 to 1"),
    ] {
        let output = sluicelab(arguments, directory.path());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}

/// Three clients' afternoon, twenty times as fast: when each request was due, and that none went before its
/// time.
#[test]
fn an_access_log_is_played_again_at_its_times() {
    const SECOND: u64 = 1_000_000_000 / 20;
    let site = Site::new();
    let line = |agent: &str, second: u64, target: &str| {
        format!(
            "10.0.0.1 - - [20/Nov/2026:10:00:{second:02} +0000] \
             \"GET {target} HTTP/1.1\" 200 1 \"-\" \"{agent}\"\n"
        )
    };
    // One a second; a page with an image, and another page; a name that has quotes, by nginx and by Apache.
    let clients = [
        (0..8).map(|second| ("steady", second, "/file_set/dir00000/class0_1")).collect::<Vec<_>>(),
        vec![
            ("browser", 2, "/file_set/dir00000/class0_2"),
            ("browser", 2, "/file_set/dir00000/class0_3"),
            ("browser", 6, "/file_set/dir00000/class0_4"),
        ],
        vec![
            (r"a \x22b\x22", 3, r"/file_set/dir00000/class0_5?\x22"),
            (r#"a \"b\""#, 5, r#"/file_set/dir00000/class0_5?\""#),
        ],
    ];
    let mut lines = clients.concat();
    lines.sort_by_key(|line| line.1);
    let log: String = lines.iter().map(|(agent, second, target)| line(agent, *second, target)).collect();
    fs::write(site.path("access.log"), log).expect("a file");
    let said =
        succeed(&["sessions", "replay", "access.log", "--speed-up=20", "--out=again"], site.directory.path());
    assert!(said.starts_with("again: 3 sessions over 0 s, 13 calls of 5 different requests"), "{said}");

    let allowed = fs::read_to_string("/proc/self/status").expect("a file");
    let cpus =
        allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list").trim();
    let results = site.load(&["--sessions=again", "--calls=calls.csv", &format!("--cpus={cpus}")]);
    let run = &results["run"];
    assert_eq!((&run["arrivals"], &run["outcome"]["due_sessions"]), (&"logged".into(), &3.into()));
    assert_eq!(
        (&results["sessions"]["completed"], &results["replies"]["statuses"]["2xx"]),
        (&3.into(), &13.into())
    );
    let rate = 3.0 / run["outcome"]["duration_s"].as_f64().expect("a number");
    assert!((run["asked_sessions_per_s"].as_f64().expect("a number") - rate).abs() < 1e-6);

    let text = fs::read_to_string(site.path("calls.csv")).expect("a file");
    let (names, rows) = text.split_once('\n').expect("lines");
    let column = |name: &str| names.split(',').position(|found| found == name).expect("a column");
    let columns = ["session", "position", "intended", "issued", "ended"].map(column);
    let mut calls: Vec<[u64; 5]> = rows
        .lines()
        .map(|row| row.split(',').collect::<Vec<_>>())
        .map(|row| columns.map(|column| row[column].parse().expect("a number")))
        .collect();
    calls.sort_unstable();
    for (session, client) in clients.iter().enumerate() {
        let calls: Vec<_> = calls.iter().filter(|call| call[0] == session as u64).collect();
        assert_eq!(calls.len(), client.len());
        let mut answered = 0;
        for (place, (call, (.., second, _))) in calls.iter().zip(client).enumerate() {
            let &[.., intended, issued, ended] = *call;
            let logged = second * SECOND;
            assert!(issued >= intended && intended >= logged, "{call:?} was too early");
            let same_page = place > 0 && client[place - 1].1 == *second;
            if place == 0 || (answered <= logged && !same_page) {
                assert_eq!(intended, logged, "{call:?}: nothing kept it from its time");
            }
            assert!(issued >= answered, "{call:?} did not wait for the reply before");
            answered = ended;
        }
    }
}

/// Whose times are not wanted, and who has none.
#[test]
fn times_hold_where_nothing_else_is_asked_for() {
    let site = Site::new();
    let text = "#@ 0\n/file_set/dir00000/class0_1 think=0.001\n#@ 3600\n/file_set/dir00000/class0_2\n\n\
                #@ 7200\n/file_set/dir00000/class0_1\n";
    fs::write(site.path("timed"), text).expect("a file");
    let results =
        site.load(&["--sessions=timed", "--session-rate=100", "--session-count=10", "--arrivals=fixed"]);
    assert_eq!(results["replies"]["count"], 15, "an hour is not waited for, and sessions come round again");
    let results = site.load(&["--sessions=timed", "--connections=2", "--session-count=10"]);
    assert_eq!(results["replies"]["count"], 15);
    let results = site.load(&["--sessions=timed", "--duration=300ms"]);
    assert_eq!((&results["sessions"]["arrived"], &results["sessions"]["unfinished"]), (&1.into(), &1.into()));
    let (replies, sessions) = httperf(&site, 2, "timed");
    assert_eq!((replies.as_str(), sessions.as_str()), ("3", "2/2)"), "for httperf they are comments");

    fs::write(site.path("untimed"), "/a\n").expect("a file");
    for (arguments, told) in [
        (
            &["--sessions=untimed"][..],
            "how does load come? Say --connections N (-c), each asking again when it is answered, or",
        ),
        (&["--sessions=untimed", "--arrivals=logged"], "how does load come? Say --connections N (-c)"),
        (&["--sessions=timed", "--arrivals=fixed"], "--arrivals: one of --rate and --session-rate is needed"),
        (
            &["--sessions=timed", "--arrivals=logged", "--rate=5"],
            "--arrivals logged: the session file says when",
        ),
        (
            &["--sessions=timed", "--arrivals=logged", "--connections=5"],
            "--arrivals logged: the session file says",
        ),
    ] {
        let output =
            sluicelab(&[&["load", "--target=http://127.0.0.1:1"], arguments].concat(), site.directory.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(told), "{arguments:?}: {said}");
    }
}
