//! `sluicelab load` as it is asked: what its options make of requests, load and exit codes.

mod support;

use std::process::{Command, Output};

use serde_json::Value;

use support::server::Server;
use support::variant::VARIANTS;

fn run(target: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
    command.args(["load", "--target", target]).args(arguments).output().expect("sluicelab runs")
}

/// The results of a run whose figures may be the machine's, if that is busy.
fn load(target: &str, arguments: &[&str]) -> Value {
    let output = run(target, &[arguments, &["--format=json"]].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {told}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Mistakes are told with what is allowed.
fn refused(arguments: &[&str], words: &str) {
    let output = run("http://127.0.0.1:1/", arguments);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
    assert!(told.contains(words), "{arguments:?}: {told}");
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn connections_are_kept_at_a_rate() {
    let server = Server::start(&VARIANTS[0]);
    let target = format!("http://{}/hello.txt", server.address);
    let results = load(&target, &["--rate=200", "--connections=4", "--duration=1s", "--arrivals=fixed"]);
    let run = &results["run"];
    assert_eq!((&run["model"], &run["connections"]), (&"paced".into(), &4.into()));
    assert_eq!((&run["outcome"]["due_sessions"], &results["calls"]["issued"]), (&200.into(), &200.into()));
    assert_eq!(number(&results["replies"]["statuses"]["2xx"]), 200, "{results:#}");
    assert_eq!(number(&results["connections"]["tried"]), 4);

    refused(&["--rate=5", "--connections=4", "--requests-per-connection=9"], "connections are kept");
    refused(&["--rate=5", "--connections=4", "--target=http://127.0.0.1:1/other"], "have the same path");
}
