//! `sluicelab load` against a real `sluice serve`: what is written agrees with itself, and with what the
//! server says.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Two sessions, one of them with a file that is not there.
const SESSIONS: &str = "/a\n/b\n\n/a think=0.01\n/none\n/a?dynamic\n";

struct Server {
    child: Child,
    url: String,
    directory: TempDir,
}

impl Server {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("root");
        fs::create_dir(&root).expect("a directory");
        fs::write(root.join("a"), [b'a'; 1000]).expect("a file");
        fs::write(root.join("b"), "b".repeat(20_000)).expect("a file");
        fs::write(directory.path().join("sessions"), SESSIONS).expect("a file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .current_dir(directory.path())
            .args([
                "serve",
                "root",
                "--listen",
                "127.0.0.1:0",
                "--status",
                "off",
                "--access-log",
                "access.log",
            ])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        let url =
            line.split_whitespace().find(|word| word.starts_with("http://")).expect("an address").to_owned();
        Self { child, url, directory }
    }

    fn load(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
        command.current_dir(self.directory.path()).args(["load", "--target", &self.url]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).expect("a file")).expect("JSON")
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_form_of_the_results_says_the_same() {
    let server = Server::start();
    let output = server
        .load(&[
            "--sessions",
            "sessions",
            "--session-rate",
            "200",
            "--session-count",
            "200",
            "--timeout",
            "5s",
        ])
        .args([
            "--json",
            "results.json",
            "--calls",
            "calls.csv",
            "--hdr",
            "log.hdr",
            "--server-log",
            "access.log",
        ])
        .output()
        .expect("the generator runs");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");

    let results = server.json("results.json");
    // Half of the sessions have two calls, the other half three.
    assert_eq!(results["calls"]["issued"], 500, "{results:#}");
    assert_eq!(results["replies"]["count"], 500);
    assert_eq!(results["replies"]["statuses"]["4xx"], 100);
    assert_eq!(results["sessions"]["completed"], 200);
    assert_eq!(results["reply_time_ms"]["count"], 500);
    let kinds = results["by_kind"].as_array().expect("an array");
    let points = |kind: &Value| kind["reply_time_ms"]["percentiles"].as_array().map_or(0, Vec::len);
    assert!(kinds.iter().all(|kind| points(kind) == 26), "{kinds:?}");
    let kinds: Vec<_> =
        kinds.iter().map(|kind| (kind["dynamic"].as_bool(), kind["calls"].as_u64())).collect();
    assert_eq!(kinds, [(Some(false), Some(400)), (Some(true), Some(100))]);
    let of_size = |bytes: u64| {
        let sizes = results["sizes"].as_array().expect("an array");
        sizes.iter().find(|size| size["bytes"] == bytes).map(|size| size["calls"].as_u64().expect("a number"))
    };
    assert_eq!((of_size(1000), of_size(20_000)), (Some(300), Some(100)));
    let seconds = results["seconds"].as_array().expect("an array");
    let sum = |name: &str| seconds.iter().map(|second| second[name].as_u64().expect("a number")).sum::<u64>();
    assert_eq!((sum("arrived"), sum("replies"), sum("timeouts")), (200, 500, 0));
    let log = &results["run"]["outcome"]["server_log"];
    assert_eq!(
        (log["read"].as_u64(), log["never_read"].as_u64(), log["odd_lines"].as_u64()),
        (Some(500), Some(0), Some(0))
    );

    let calls = fs::read_to_string(server.path("calls.csv")).expect("a file");
    let (names, calls) = calls.split_once('\n').expect("lines");
    let column = |name: &str| names.split(',').position(|found| found == name).expect("a column");
    let rows: Vec<Vec<&str>> = calls.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 500);
    let sum =
        |name: &str| rows.iter().map(|row| row[column(name)].parse::<u64>().expect("a number")).sum::<u64>();
    assert_eq!(Some(sum("body_bytes")), results["replies"]["body_bytes"].as_u64());
    assert_eq!(Some(sum("head_bytes")), results["replies"]["head_bytes"].as_u64());
    assert!(rows.iter().all(|row| row[column("outcome")] == "reply" && row[column("client_port")] != "0"));

    let intervals = read_intervals(&server.path("log.hdr"));
    let mut places = BTreeMap::new();
    for interval in &intervals {
        for (place, count) in &interval.counts {
            *places.entry(*place).or_insert(0) += count;
        }
    }
    let times = rows.iter().map(|row| {
        let time = |name: &str| row[column(name)].parse::<u64>().expect("a number");
        (time("ended") - time("intended") + 500) / 1000
    });
    let mut expected = BTreeMap::new();
    times.clone().for_each(|us| *expected.entry(place(us)).or_insert(0) += 1);
    assert_eq!(places, expected);
    let longest = intervals.iter().map(|interval| interval.most_ms).fold(0.0, f64::max);
    let of_calls = times.max().expect("calls") as f64;
    assert!((longest * 1000.0 / of_calls - 1.0).abs() < 0.001, "{longest} ms, {of_calls} us");
    assert!(
        intervals
            .iter()
            .all(|interval| (0.001..=1.0).contains(&interval.length_s) && interval.start_s.fract() == 0.0)
    );

    let text = String::from_utf8(output.stdout).expect("text");
    for words in ["sessions     200 arrived", "requests     500 sent", "server's log  read 500 of 500 calls"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn an_interrupted_run_reports_what_it_has() {
    let server = Server::start();
    let child = server
        .load(&[
            "--connections",
            "4",
            "--duration",
            "10min",
            "--json",
            "results.json",
            "--calls",
            "calls.csv",
        ])
        .spawn()
        .expect("the generator starts");
    let calls = server.path("calls.csv");
    wait_for(&calls, 100_000);
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("the generator ends");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let results = server.json("results.json");
    assert_eq!(results["run"]["outcome"]["interrupted"], true);
    let issued = results["calls"]["issued"].as_u64().expect("a number");
    assert!(issued > 1000, "{issued}");
    let lines = fs::read_to_string(calls).expect("a file").lines().count() as u64;
    assert_eq!(lines, issued + 1);
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted"), "{output:?}");
}

#[test]
fn a_run_that_is_interrupted_in_its_warm_up_has_no_result() {
    let server = Server::start();
    let child = server
        .load(&["--connections", "2", "--warm-up", "5min", "--duration", "10min"])
        .args(["--json", "results.json", "--calls", "calls.csv"])
        .spawn()
        .expect("the generator starts");
    wait_for(&server.path("calls.csv"), 10_000);
    kill_process(Pid::from_child(&child), Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("the generator ends");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let reason = "interrupted in the warm-up: nothing was measured";
    assert_eq!(server.json("results.json")["invalid"], serde_json::json!([reason]));
    let table = String::from_utf8(output.stdout).expect("text");
    assert!(table.ends_with(&format!("INVALID: {reason}\n")), "{table}");
    assert!(!table.contains("0.00"), "there are no figures: {table}");
}

#[test]
fn those_who_watch_see_errors_of_both_kinds() {
    let server = Server::start();
    let output = server
        .load(&["--rate", "100", "--arrivals", "fixed", "--duration", "5500ms"])
        .output()
        .expect("the generator runs");
    let told = String::from_utf8(output.stderr).expect("text");
    // The root has no index.
    let line = told.lines().find(|line| line.starts_with("5 s: ")).expect("a line after five seconds");
    assert!(line.contains(" Mbps of bodies, "), "{line}");
    let (_, so_far) = line.split_once("so far 0 errors and ").expect(line);
    let (bad, rest) = so_far.split_once(' ').expect("words");
    assert!((400..=510).contains(&bad.parse::<u64>().expect("a number")), "{line}");
    assert!(rest.starts_with("replies of 4xx or 5xx"), "{line}");
}

/// Not even a last word can be said by a run that is killed.
#[test]
fn a_killed_run_leaves_its_calls_and_intervals() {
    let server = Server::start();
    let mut child = server
        .load(&["--rate", "50", "--arrivals", "fixed", "--duration", "10min"])
        .args(["--calls", "calls.csv", "--hdr", "log.hdr"])
        .spawn()
        .expect("the generator starts");
    let (calls, intervals) = (server.path("calls.csv"), server.path("log.hdr"));
    wait_for(&calls, 5000);
    // Two intervals, each of which has more than a hundred bytes.
    wait_for(&intervals, 600);
    child.kill().expect("a kill");
    child.wait().expect("an end");
    let calls = fs::read_to_string(calls).expect("a file");
    let columns = calls.lines().next().expect("a line").split(',').count();
    assert!(calls.lines().all(|line| line.split(',').count() == columns), "{calls}");
    let counted: u64 = read_intervals(&intervals).iter().flat_map(|interval| interval.counts.values()).sum();
    // Either file may be behind the other by what comes in a second.
    assert!(counted >= 50 && counted <= calls.lines().count() as u64 + 50, "{counted}");
}

/// Whoever names the file that standard output goes to gets everything in it, and keeps what was there.
#[test]
fn results_can_go_to_standard_output() {
    let server = Server::start();
    let path = server.path("all");
    fs::write(&path, "before\n").expect("a file");
    let all = fs::OpenOptions::new().append(true).open(&path).expect("a file");
    let status = server
        .load(&["--rate", "50", "--session-count", "10", "--json", "/dev/stdout"])
        .stdout(all)
        .status()
        .expect("the generator runs");
    assert!(matches!(status.code(), Some(0 | 3)), "{status}");
    let all = fs::read_to_string(&path).expect("a file");
    let (table, json) = all.split_once('{').expect("JSON");
    assert!(table.starts_with("before\n") && table.contains("requests     10 sent"), "{all}");
    let results: Value = serde_json::from_str(&format!("{{{json}")).expect("JSON");
    assert_eq!(results["calls"]["issued"], 10);
}

#[test]
fn a_server_that_is_not_there_is_told_by_every_form() {
    let server = Server::start();
    let formats = |format: &str| {
        // Port 1 of loopback: nobody listens there.
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
        command.args([
            "load",
            "--target",
            "http://127.0.0.1:1",
            "--rate",
            "100",
            "--duration",
            "1s",
            "--arrivals",
            "fixed",
        ]);
        let output: Output = command.args(["--format", format]).output().expect("the generator runs");
        String::from_utf8(output.stdout).expect("text")
    };
    drop(server);
    let results: Value = serde_json::from_str(&formats("json")).expect("JSON");
    let refused = results["calls"]["outcomes"]["refused"].as_u64().expect("a number");
    // On a busy machine the last of them begin when the measured time is over.
    assert!((90..=101).contains(&refused), "{results:#}");
    assert_eq!(results["calls"]["errors"].as_u64(), Some(refused));
    let httperf = formats("httperf");
    assert!(httperf.contains(" connrefused ") && !httperf.contains(" connrefused 0"), "{httperf}");
    assert!(formats("table").contains("refused"), "{}", formats("table"));
}

#[test]
fn the_doctor_looks_at_the_machine() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sluicelab")).arg("doctor").args(arguments).output();
        let output = output.expect("the doctor comes");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let findings: Value = serde_json::from_str(&run(&["--json"])).expect("JSON");
    for name in ["descriptors", "local ports", "backlog", "kernel", "stolen time", "lateness"] {
        let found = findings["findings"].as_array().expect("an array");
        assert!(found.iter().any(|finding| finding["name"] == name), "{name}: {findings:#}");
    }
    assert!(run(&[]).contains("lateness"));
}

/// A line of an interval log.
struct IntervalLine {
    start_s: f64,
    length_s: f64,
    most_ms: f64,
    /// By their place in the histogram.
    counts: BTreeMap<u64, u64>,
}

/// As a reader sees it that has nothing in common with what wrote it.
fn read_intervals(path: &Path) -> Vec<IntervalLine> {
    let log = fs::File::open(path).expect("a file");
    let output =
        Command::new("/usr/bin/python3").args(["-c", include_str!("hdr_log.py")]).stdin(log).output();
    let output = output.expect("python3 is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).expect("a number");
    let read = String::from_utf8(output.stdout).expect("text");
    let read = read.lines().map(|line| {
        let mut words = line.split(' ');
        let (start_s, length_s, most_ms) = (number(words.next()), number(words.next()), number(words.next()));
        let counts = words.map(|word| {
            let (place, count) = word.split_once(':').expect("a place and its count");
            (place.parse().expect("a number"), count.parse().expect("a number"))
        });
        IntervalLine { start_s, length_s, most_ms, counts: counts.collect() }
    });
    read.collect()
}

/// Where a histogram of three digits counts a number: each power of two from 2048 on has 1024 places.
fn place(number: u64) -> u64 {
    let power = u64::from((number | 2047).ilog2() - 10);
    1024 * power + (number >> power)
}

fn wait_for(path: &Path, bytes: u64) {
    for _ in 0..600 {
        if fs::metadata(path).is_ok_and(|file| file.len() >= bytes) {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{} does not grow to {bytes} bytes", path.display());
}
