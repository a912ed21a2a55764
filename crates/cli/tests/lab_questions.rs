//! The questions on the first page of docs/lab.md: each command there is run as it stands, but for a shorter
//! time, at another address, and with files that the test makes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use harness::server::Server;
use harness::variant::VARIANTS;

/// The questions and their commands.
fn questions() -> Vec<(String, String)> {
    let page = include_str!("../../../docs/lab.md");
    let table = page.split("\n## Ten questions\n").nth(1).expect("the heading");
    let rows = table.split("\n## ").next().expect("a part").lines().filter(|line| line.starts_with("| "));
    let row = |line: &str| {
        let (question, command) = line.trim_matches(['|', ' ']).split_once(" | `").expect("a command");
        (question.to_owned(), command.trim_end_matches('`').to_owned())
    };
    rows.skip(1).map(row).collect()
}

/// Where commands are typed: with the files that they name.
struct Place {
    directory: tempfile::TempDir,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("public")).expect("a directory");
        fs::write(path("public/index.html"), "a page").expect("a file");
        fs::create_dir_all(path("old")).expect("a directory");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sluice"), path("old/sluice")).expect("a link");
        let line =
            "10.0.0.1 - - [28/Nov/2026:12:00:00 +0000] \"GET /hello.txt HTTP/1.1\" 200 5 \"-\" \"x\"\n";
        fs::write(path("access.log"), line.repeat(5)).expect("a log");
        Self { directory, server: Server::start(&VARIANTS[0]) }
    }

    /// Types a command, `made_quick` by more options and other times.
    fn types(&self, command: &str, made_quick: impl Fn(&str) -> String) -> Output {
        let address = self.server.address.to_string();
        let words = made_quick(&command.replace("127.0.0.1:8080", &address));
        let programs = Path::new(env!("CARGO_BIN_EXE_sluicelab")).parent().expect("a directory");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&words).current_dir(self.directory.path()).env("PATH", path);
        shell.output().expect("a shell")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// Those whose command has this in it.
fn with(words: &str) -> Vec<(String, String)> {
    let found: Vec<_> = questions().into_iter().filter(|(_, command)| command.contains(words)).collect();
    assert!(!found.is_empty(), "no question has {words:?}");
    found
}

#[test]
fn ten_questions_have_a_command() {
    let all = questions();
    assert_eq!(all.len(), 10, "{all:?}");
    assert!(
        all.iter().all(|(question, command)| question.ends_with('?') && command.starts_with("sluicelab "))
    );
}

#[test]
fn comparing_servers_and_settings() {
    let place = Place::new();
    for (question, command) in with("sluicelab compare") {
        let quick = |command: &str| {
            let workload = if command.contains("--path") { "" } else { "--workload one-packet" };
            // Only root may sample.
            let command =
                if lab_may_sample() { command.to_owned() } else { command.replace("--profile 2s", "") };
            format!(
                "{command} {workload} --rounds 1 --measured 400ms --settling 0s --loopback --data data \
                 --out out"
            )
        };
        let output = place.types(&command, quick);
        let told = said(&output);
        assert!(output.status.success(), "{question} {command}: {told}");
        assert!(told.contains("CPU us/reply") && told.contains("report:"), "{question} {command}: {told}");
        if command.contains("--profile") && lab_may_sample() {
            let page = fs::read_to_string(place.directory.path().join("out/report.html")).expect("a page");
            assert!(page.contains("CPU time"), "no profile");
        }
        fs::remove_dir_all(place.directory.path().join("out")).expect("results");
    }
}

fn lab_may_sample() -> bool {
    let perf = Command::new("perf").args(["record", "-o", "/dev/null", "true"]).output();
    perf.is_ok_and(|output| output.status.success())
}

#[test]
fn loading_a_server_that_runs() {
    let place = Place::new();
    for (question, command) in with("sluicelab load") {
        let quick = |command: &str| {
            command.replace("-d 10s", "-d 1s").replace("-d 30s", "-d 1s").replace("8080/", "8080/hello.txt")
        };
        let output = place.types(&command, quick);
        let told = said(&output);
        // On a busy machine the figures may be the generator's.
        assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{question} {command}: {told}");
        assert!(told.contains("replies"), "{question} {command}: {told}");
    }
}

#[test]
fn looking_for_the_best_setting() {
    let place = Place::new();
    let like = "title = 't'\nwarm_up = '50ms'\nmeasured = '200ms'\nslices = 1\nservers = ['nginx']\n\
                [[points]]\nworkload = 'one-packet'\nload = '4 sessions'\ncompare = ['CPU us/reply']\n";
    fs::write(place.directory.path().join("like.toml"), like).expect("a file");
    for (question, command) in with("sluicelab tune") {
        let quick = |command: &str| {
            format!("{command} --vary sendfile=off,on --like like.toml --loopback --data data")
        };
        let output = place.types(&command, quick);
        let told = said(&output);
        assert!(output.status.success(), "{question} {command}: {told}");
        let keeps = told.contains("Keep the defaults: ");
        let has_lines = told.contains(" into nginx.conf:\n\n    sendfile o");
        let conclusion = if told.contains("as good as the best that was found") {
            keeps && has_lines
        } else {
            keeps || told.contains("is better than the defaults by ") && has_lines
        };
        assert!(conclusion && told.contains("of 2 combinations were tried"), "{question} {command}: {told}");
        for word in ["heat", "fresh"] {
            let is_said = |line: &str| line.contains(word) && !line.contains('/');
            assert!(!told.lines().any(is_said), "{word}: {told}");
        }
    }
}

#[test]
fn looking_at_the_machine() {
    let place = Place::new();
    for (question, command) in with("sluicelab doctor") {
        let output = place.types(&command, str::to_owned);
        assert!(output.status.success(), "{question} {command}: {}", said(&output));
    }
}
