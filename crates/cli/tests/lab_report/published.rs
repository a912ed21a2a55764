//! `docs/measurements` has journals and no reports: `scripts/reports` makes these, and misses no trial.

use std::fs;
use std::process::Command;

use harness::workspace::{files, root};
use serde_json::Value;

#[test]
fn no_report_is_kept() {
    for pattern in ["*.html", "*results.json", "*results.json.gz"] {
        let kept = files(&[&format!("docs/measurements/{pattern}")]);
        assert!(kept.is_empty(), "scripts/reports makes these from journals: {kept:?}");
    }
}

#[test]
fn every_journal_is_reported_whole() {
    let journals = files(&["docs/measurements/*journal.jsonl.gz"]);
    let mut on_verdicts = 0;
    let directory = tempfile::tempdir().expect("a directory");
    let mut script = Command::new(root().join("scripts/reports"));
    script.env("SLUICELAB", env!("CARGO_BIN_EXE_sluicelab")).env("REPORTS", directory.path());
    let output = script.output().expect("it runs");
    let (said, wrong) = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).into();
    assert!(output.status.success() && wrong.is_empty(), "{said}{wrong}");
    assert!(said.contains(&format!("{} reports:", journals.len())), "{said}");
    for journal in &journals {
        let name = journal
            .strip_prefix("docs/measurements/")
            .and_then(|name| name.strip_suffix("/journal.jsonl.gz"));
        let name = name.expect("a directory of its own");
        let read = |file: &str| {
            fs::read_to_string(directory.path().join(name).join(file))
                .unwrap_or_else(|error| panic!("{name}/{file}: {error}"))
        };
        let results: Value = serde_json::from_str(&read("results.json")).expect("JSON");
        // A trial is found by its key, which has its settings. If these are read otherwise, it is missing.
        assert_eq!(results["missing"], 0, "{name}: trials are not found in the journal");
        on_verdicts += findings_on_verdicts(name, &results);
        let (journal, csv) = (read("journal.jsonl"), read("results.csv"));
        // In a journal of schema 1 waits were called times.
        let is_trial =
            |line: &&str| [r#""wait_ms":{"#, r#""times":{"#].iter().any(|times| line.contains(times));
        let beside = journal.lines().filter(is_trial).filter(|line| line.contains(") beside ")).count();
        let trials = journal.lines().filter(is_trial).count();
        let rows = csv.lines().count() - 1;
        assert!((trials - beside..=trials).contains(&rows), "{name}: {rows} rows of {trials} trials");
        let page = read("report.html");
        assert!(page.contains("</html>"), "{name}");
        for path in files(&[&format!("docs/measurements/{name}/trials/*")]) {
            let (_, file) = path.rsplit_once('/').expect("a directory");
            assert!(page.contains(&format!(": {file}</summary>")), "the report of {name} lacks {path}");
        }
    }
    assert!(on_verdicts > 5, "only {on_verdicts} findings are about pairs that verdicts are about");
}

/// How many findings are about a pair that a verdict is about. None is surer than that one.
fn findings_on_verdicts(name: &str, results: &Value) -> usize {
    let all = |what: &str| results[what].as_array().expect("an array").clone();
    let is_about = |verdict: &Value, expect: &Value| {
        let pair = [&verdict["server"], &verdict["first"]];
        let [left, right] = [&expect["left"], &expect["right"]];
        let is_plain = left["of"] == "server" && right["of"] == "server" && expect["is"] != "equal";
        let servers = [&left["servers"][0], &right["servers"][0]];
        let is_there = [left, right].iter().all(|term| term["points"][0] == verdict["point"]);
        let is_pair = servers == pair || servers == [pair[1], pair[0]];
        is_plain && is_there && is_pair && verdict["quantity"] == expect["quantity"]
    };
    let mut count = 0;
    for held in all("findings") {
        let expect = &held["finding"]["expect"];
        for verdict in all("verdicts").iter().filter(|verdict| is_about(verdict, expect)) {
            count += 1;
            let is_sure = held["says"] == "holds" || held["says"] == "other_size";
            let is_told = verdict["says"] == "more" || verdict["says"] == "less";
            assert!(!is_sure || is_told, "{name}: {held} is surer than {verdict}");
        }
    }
    count
}
