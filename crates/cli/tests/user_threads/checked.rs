//! Runs the server under valgrind. `sys::stacks` tells valgrind where each stack is (valgrind(1), section
//! "Client requests"). So valgrind finds every use of memory that is not there or was never written, on any
//! stack.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::eventually;
use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE};
use harness::variant::{Test, Variant, tests};
use rustix::process::Signal;

/// What valgrind takes for an error, and is none. `epoll_pwait(2)` reads the size of a signal mask only if
/// there is one; rustix passes none, and leaves the register for the size as it is.
const NO_ERRORS: &str = "{\n   no_mask\n   Memcheck:Param\n   epoll_pwait(sigsetsize)\n   fun:*\n}\n";

pub(crate) const TESTS: &[Test] = tests![Each: valgrind_finds_nothing];

/// Serves clients that park threads everywhere: within a request, within a reply, between requests.
fn serve(server: &Server) {
    let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /hello.txt HTTP/1.1\r\nHo");
    }
    // A thread that accepts may have taken all of them, and serves one after another.
    for mut client in clients {
        client.send("st: a\r\n\r\n");
        assert_eq!(client.reply().text(), HELLO);
        assert_eq!(client.get("/none").status, 404);
    }
    let mut slow = server.connect_narrow();
    slow.ask("GET", "/large.bin", &[]);
    eventually("it is being served", || server.count("connections/writing") == 1);
    let mut leaves = server.connect();
    leaves.send("GET /");
    eventually("it is being served", || server.count("user_threads_busy") == 2);
    drop(leaves);
    eventually("it has left", || server.count("user_threads_busy") == 1);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    assert_eq!(slow.reply().body.len(), LARGE);
}

/// The errors that valgrind has found in each process.
fn errors(directory: &Path) -> Vec<u64> {
    let reports = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("a file").path());
    let summary = |report: &Path| {
        let text = fs::read_to_string(report).expect("text");
        let (_, behind) = text.split_once("ERROR SUMMARY: ")?;
        let errors = behind.split_once(" errors")?.0.parse().expect("a number");
        if errors > 0 {
            println!("{text}");
        }
        Some(errors)
    };
    reports.filter_map(|report| summary(&report)).collect()
}

/// Runs the server, and reads what valgrind has written about each of its processes.
fn valgrind_finds_nothing(variant: &Variant) {
    let reports = tempfile::tempdir().expect("a directory");
    let suppressions = tempfile::NamedTempFile::new().expect("a file");
    fs::write(suppressions.path(), NO_ERRORS).expect("a file that can be written");
    let setup = Setup::new(variant).config("[tcp]\nsend_buffer = '64 KiB'\n");
    let server = setup.command();
    let mut command = Command::new("valgrind");
    command.arg("--trace-children=yes").arg(format!("--log-file={}/%p", reports.path().display()));
    command.arg(format!("--suppressions={}", suppressions.path().display()));
    command.arg(server.get_program()).args(server.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = setup.start_as(command);
    serve(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    let errors = errors(reports.path());
    assert!(errors.len() >= 2, "a supervisor and a worker: {errors:?}");
    assert!(errors.iter().all(|errors| *errors == 0), "{errors:?}");
}
