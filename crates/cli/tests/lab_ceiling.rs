//! Experiments with the ceiling as a server and wrk as the generator: what README's table of costs is made
//! with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A ceiling and a server of ours, asked by wrk for a moment; on loopback, so that anybody may.
const EXPERIMENT: &str = "
    title = 'Costs'
    rounds = 1
    again = false
    generator = 'wrk'
    warm_up = '100ms'
    measured = '1s'
    slices = 1
    servers = ['ceiling', 'sluice']
    [[points]]
    name = 'kept'
    workload = 'fixed: bytes=10KiB'
    load = '8 sessions'
    compare = ['CPU us/reply']
    [[points]]
    name = 'a connection each'
    workload = 'single'
    load = '8 sessions'
    generator = 'wrk: close'
    servers = ['ceiling: --defer-accept=true', 'sluice']
";

/// The ceiling is built beside our server, as are the tests of its crate.
fn ceiling() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_sluicelab")).with_file_name("ceiling");
    assert!(path.is_file(), "no {} (cargo build -p bench)", path.display());
    path
}

fn sluicelab(directory: &Path, experiment: &str, options: &[&str]) -> Command {
    let path = directory.join("experiment.toml");
    fs::write(&path, experiment).expect("it is written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
    command.arg("run").arg(path).arg("--loopback").args(options);
    command.arg("--data").arg(directory.join("data"));
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[test]
fn wrk_asks_the_ceiling_and_others_and_what_it_does_not_tell_is_empty() {
    ceiling();
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("results");
    let output = sluicelab(directory.path(), EXPERIMENT, &["--out", &out.display().to_string()]).output();
    let output = output.expect("sluicelab runs");
    assert!(output.status.success(), "{}", said(&output));
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("it is there");
    let results: Value = serde_json::from_str(&read("results.json")).expect("JSON");
    assert_eq!(results["left_out"], Value::Array(Vec::new()), "replies of both are their files");
    let points = results["found"].as_array().expect("points");
    for point in points {
        for series in point["series"].as_array().expect("servers") {
            let outcome = &series["rounds"][0]["outcome"];
            let number = |path: &str| outcome.pointer(path).and_then(Value::as_f64);
            for told in ["/replies_per_s", "/cpu/server_us_per_reply", "/generator_cpu_us_per_call"] {
                assert!(number(told) > Some(0.0), "{told}: {outcome}");
            }
            assert!(number("/wait_ms/p999") >= number("/wait_ms/p50"), "{outcome}");
            assert!(number("/wait_ms/p50") > Some(0.0), "{outcome}");
            assert_eq!(outcome["failed"], Value::Array(Vec::new()), "{outcome}");
            for untold in ["replies_body_mbps", "replies_2xx_per_s", "looks"] {
                assert!(outcome[untold].is_null(), "{untold}: {outcome}");
            }
        }
        // Our server counts what wrk does.
        let ours = &point["series"][1]["rounds"][0]["outcome"];
        let accepts = ours["accepting"]["accepts_per_s"].as_f64().expect("our server tells");
        let replies = ours["replies_per_s"].as_f64().expect("replies");
        let name = point["point"]["name"].as_str().expect("a name");
        let are_kept = name.ends_with("kept");
        assert_eq!(accepts < replies / 10.0, are_kept, "{name}: {accepts} accepts, {replies} replies");
    }
    assert_eq!(points.len(), 2);
    let environment: Value = serde_json::from_str(&read("environment.json")).expect("JSON");
    assert!(environment["settings"]["builds"]["generator wrk"].is_string(), "{environment}");
    let page = read("report.html");
    assert!(!page.contains("NaN") && page.contains("generator: wrk"), "the page tells who asked");
    assert!(!page.contains("Mbit/s (more is better)"), "a figure of nothing");
    assert!(!read("results.csv").contains("NaN"));
}

#[test]
fn what_wrk_and_the_ceiling_cannot_do_is_refused_with_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    for (instead_of, there_is, told) in [
        ("'wrk'", "'ab'", "\"ab\" is no generator; allowed: sluicelab, wrk"),
        ("'8 sessions'", "'2x'", "points[0]: load: wrk sends the next request after each reply"),
        ("'fixed: bytes=10KiB'", "'fixed'", "points[0]: workload: wrk requests one file repeatedly"),
        ("'single'", "'single: calls=3'", "points[1]: workload: wrk requests one file repeatedly"),
        ("'1s'", "'1500ms'", "points[0]: measured: 1.5s in 1 slices is not allowed with wrk"),
        ("slices = 1", "slices = 2", "points[0]: measured: 1s in 2 slices is not allowed with wrk"),
        ("'CPU us/reply'", "'Mbit/s'", "points[0]: compare: wrk does not report Mbit/s"),
        ("slices = 1", "slices = 1\nmay_wait = 9", "points[0]: generator: wrk does not support may_wait"),
        ("again = false", "settling = '25s'", "settling: \"fixed bytes=10KiB, 8 sessions, kept\" uses the"),
        (
            "generator = 'wrk'\n    warm_up = '100ms'\n    measured = '1s'\n    slices = 1\n    servers = [",
            "servers = [",
            "",
        ),
    ] {
        let text = EXPERIMENT.replacen(instead_of, there_is, 1);
        assert_ne!(text, EXPERIMENT, "{instead_of}");
        let output = sluicelab(directory.path(), &text, &["--check"]).output().expect("sluicelab runs");
        assert_eq!(output.status.code(), Some(if told.is_empty() { 0 } else { 2 }), "{}", said(&output));
        assert!(said(&output).contains(told), "{there_is}: {}", said(&output));
    }
    let of_many = "title = 't'\nservers = ['ceiling']\n[[points]]\nworkload = 'specweb99'\nload = '2x'";
    let output = sluicelab(directory.path(), of_many, &["--check"]).output().expect("sluicelab runs");
    let told = "\"specweb99, 2x\": workload: ceiling answers every request with one file, and the";
    assert!(output.status.code() == Some(2) && said(&output).contains(told), "{}", said(&output));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("results").display().to_string();
    let run = |experiment: &str| sluicelab(directory.path(), experiment, &["--out", &out]);
    let elsewhere = EXPERIMENT.replace("['ceiling',", "['ceiling@/nowhere/ceiling',");
    let output = run(&elsewhere).output().expect("sluicelab runs");
    let told = "there is no program for ceiling@/nowhere/ceiling (cargo build --release -p bench";
    assert!(!output.status.success() && said(&output).contains(told), "{}", said(&output));
    assert!(!Path::new(&out).exists(), "it was told before anything was written");

    ceiling();
    let output = run(EXPERIMENT).env("PATH", "/nowhere").output().expect("sluicelab runs");
    let told = "wrk is not installed (Debian package wrk)";
    assert!(!output.status.success() && said(&output).contains(told), "{}", said(&output));
}

#[test]
fn what_came_of_points_is_a_table_for_documents() {
    ceiling();
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("results").display().to_string();
    // One point, with two settings of a peer; counting takes root, and a kernel that traces.
    let text = EXPERIMENT.split("[[points]]\n    name = 'a connection each'").next().expect("a point");
    let text = text.replace("'sluice']", "'sluice', 'nginx', 'nginx: sendfile=off']");
    let counted = text.replace("slices = 1", "slices = 1\nsystem_calls = '1s'");
    let run =
        |text: &str| sluicelab(directory.path(), text, &["--out", &out]).output().expect("sluicelab runs");
    let mut output = run(&counted);
    let may_count = !said(&output).contains("`system_calls` counts raw_syscalls:sys_enter with perf");
    if !may_count {
        harness::skip("system calls are not counted");
        assert!(!output.status.success(), "it was told before the start: {}", said(&output));
        assert!(!Path::new(&out).join("journal.jsonl").exists(), "it was told before the start");
        fs::remove_dir_all(&out).expect("it was begun");
        output = run(&text);
    }
    assert!(output.status.success(), "{}", said(&output));
    let mut report = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
    let output = report.args(["report", &out, "--markdown"]).output().expect("a report");
    let told = said(&output);
    assert!(told.contains("| point | ceiling | sluice | nginx |\n|---|---:|---:|---:|\n"), "{told}");
    let row = |number: usize| {
        let rows = told.lines().filter(|line| line.starts_with("| fixed bytes=10KiB, 8 sessions, kept | "));
        let row = rows.into_iter().nth(number).unwrap_or_else(|| panic!("no row {number}: {told}"));
        row.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).to_owned()).collect::<Vec<_>>()
    };
    let costs = row(0);
    assert!(costs[3].contains("as it comes") || costs[3].contains("sendfile=off"), "{costs:?}");
    assert_eq!(costs[2].split(", ").count(), 2, "a cost and a ratio: {costs:?}");
    if may_count {
        let calls: Vec<f64> = row(1)[1..].iter().map(|cell| cell.parse().expect("a number")).collect();
        // A receive and a send at least; and asking for events.
        assert!(calls.iter().all(|calls| (1.8..8.0).contains(calls)), "{calls:?}");
    }
}
