//! `sluicelab load` against servers that fail in every way there is: each failure has a counter of its own.

#[path = "../../bench/src/scripted.rs"]
mod scripted;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use harness::free_address;
use serde_json::Value;

/// Runs `sluicelab load` and reads its results. It has to fail if it says that the run has, and only then.
fn load(arguments: &[&str]) -> Value {
    let output = run(arguments);
    let told = String::from_utf8_lossy(&output.stderr);
    let results: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    let failed = results["failed"].as_array().expect("reasons");
    // 3: played, but the machine was too busy for the figures to be trusted.
    let expected: &[i32] = if failed.is_empty() { &[0, 3] } else { &[1] };
    assert!(output.status.code().is_some_and(|code| expected.contains(&code)), "{}: {told}", output.status);
    assert!(failed.iter().all(|reason| told.contains(reason.as_str().expect("a sentence"))), "{told}");
    results
}

/// Whether a run says that it has failed.
fn has_failed(results: &Value) -> bool {
    !results["failed"].as_array().expect("reasons").is_empty()
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
    command.args(["load", "--format=json"]).args(arguments).output().expect("sluicelab runs")
}

/// Twenty requests for one path.
fn ask(server: SocketAddr, path: &str, more: &[&str]) -> Value {
    let target = format!("--target=http://{server}{path}");
    let mut arguments =
        vec![target.as_str(), "--rate=200", "--session-count=20", "--arrivals=fixed", "--timeout=400ms"];
    arguments.extend(more);
    load(&arguments)
}

/// The outcomes that were counted, without those that never happened.
fn outcomes(results: &Value) -> BTreeMap<String, u64> {
    let all = results["calls"]["outcomes"].as_object().expect("outcomes");
    all.iter()
        .map(|(name, count)| (name.clone(), count.as_u64().expect("a count")))
        .filter(|(_, n)| *n > 0)
        .collect()
}

fn only(name: &str, count: u64) -> BTreeMap<String, u64> {
    [(name.to_owned(), count)].into()
}

#[test]
fn each_failure_has_its_own_counter() {
    let server = scripted::start().expect("a server");
    for (path, outcome) in [
        ("/ok/1000", "reply"),
        ("/last/1000", "reply"),
        ("/slow/50/1000", "reply"),
        ("/delay/2000/1000", "reply_timeout"),
        ("/slow/2000/1000", "reply_timeout"),
        ("/silent", "reply_timeout"),
        ("/cut/500/1000", "cut_short"),
        ("/cut/0/1000", "cut_short"),
        ("/more/5/1000", "wrong_length"),
        ("/garbage", "malformed"),
        ("/close", "closed"),
        ("/reset", "reset"),
    ] {
        let results = ask(server, path, &[]);
        assert_eq!(outcomes(&results), only(outcome, 20), "{path}");
        let sessions = &results["sessions"];
        let (ended, other) =
            if outcome == "reply" { ("completed", "failed") } else { ("failed", "completed") };
        assert_eq!(
            (sessions[ended].as_u64(), sessions[other].as_u64()),
            (Some(20), Some(0)),
            "{path}: {sessions}"
        );
        let errors = if outcome == "reply" { 0 } else { 20 };
        assert_eq!(results["calls"]["errors"], errors, "{path}");
        let no_reply = results["reply_time_ms"].is_null();
        assert_eq!(no_reply, outcome != "reply", "{path}: {}", results["reply_time_ms"]);
        // Where nobody gets a reply there is nothing to measure.
        assert_eq!(has_failed(&results), outcome != "reply", "{path}");
    }
}

/// A server that speaks HTTP is asked with TLS.
#[test]
fn a_server_without_tls_fails_in_words() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            let _ = client.read(&mut [0; 4096]);
        }
    });
    let target = format!("--target=https://{address}/");
    let arguments = ["--rate=200", "--session-count=20", "--insecure", "--tls-version=1.3"];
    let results = load(&[&[target.as_str()], &arguments[..]].concat());
    assert_eq!(outcomes(&results), only("tls_error", 20));
    let tls = &results["tls"];
    assert_eq!((&tls["handshakes"]["failed"], &tls["handshakes"]["full"]), (&20.into(), &0.into()));
    assert_eq!(tls["errors"][0]["connections"], 20);
    let reason = tls["errors"][0]["message"].as_str().expect("a reason");
    assert!(reason.starts_with("what came is not TLS"), "{reason}");
    let failed = results["failed"][0].as_str().expect("a reason");
    assert!(failed.contains(&format!("TLS failed: {reason} (tls_error), 20 times")), "{failed}");
    let asked = &results["run"]["tls"];
    assert_eq!((&asked["roots"], &asked["version"]), (&"none".into(), &"1.3".into()));
    assert_eq!(results["run"]["targets"][0], format!("https://{address}"));
}

#[test]
fn nobody_listens() {
    let results = ask(free_address(), "/", &[]);
    assert_eq!(outcomes(&results), only("refused", 20));
    assert!(has_failed(&results));
}

/// A listener whose queue is full does not answer handshakes.
#[test]
fn nobody_accepts() {
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("an address");
    listener.listen(1).expect("a listener");
    let address = listener.local_addr().ok().and_then(|address| address.as_socket()).expect("an address");
    let found = outcomes(&ask(address, "/", &[]));
    // As many as the queue holds are connected by the kernel, and wait for a reply.
    let (connected, not) = (found.get("reply_timeout").copied(), found.get("connect_timeout").copied());
    assert!(connected.is_some_and(|count| count <= 4), "{found:?}");
    assert_eq!(connected.unwrap_or(0) + not.unwrap_or(0), 20, "{found:?}");
}

/// A real server, killed in the middle of a run: what was open is cut, what comes after is refused.
#[test]
fn a_server_is_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    // More than sockets hold, so that there is always one under way.
    fs::write(directory.path().join("big"), vec![b'x'; 32 << 20]).expect("a file");
    let mut server = sluice(directory.path());
    let address = address_of(&mut server);
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_secs(1));
        // All of its processes, or the workers would see their connections to the end.
        let group = rustix::process::Pid::from_child(&server);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).expect("a server");
        server.wait().expect("a server");
    });
    let target = format!("--target=http://{address}/big");
    let results = load(&[&target, "--connections=4", "--duration=2500ms", "--timeout=5s"]);
    assert!(!has_failed(&results), "failures are results where there is a reply");
    killer.join().expect("the killer");
    let found = outcomes(&results);
    assert!(found.get("reply").is_some_and(|count| *count > 0), "{found:?}");
    assert!(found.get("refused").is_some_and(|count| *count > 0), "{found:?}");
    let cut: u64 = ["cut_short", "reset", "closed"].iter().filter_map(|name| found.get(*name)).sum();
    assert!(cut > 0, "{found:?}");
}

/// How every other connection of [`unfaithful`] ends, after its first reply and once it has read what was
/// sent behind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Reset,
    Closed,
    /// Its second reply says that it is the last.
    Announced,
}

/// Serves, but every other connection ends with requests that were read and not answered. Counts the requests
/// that it reads.
fn unfaithful(end: End) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let read = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&read);
    thread::spawn(move || {
        for (number, client) in listener.incoming().flatten().enumerate() {
            let count = Arc::clone(&count);
            thread::spawn(move || serve_unfaithfully(client, (number % 2 == 0).then_some(end), &count));
        }
    });
    (address, read)
}

fn serve_unfaithfully(mut client: TcpStream, end: Option<End>, count: &AtomicU64) {
    let reply = |more: &str| format!("HTTP/1.1 200 OK\r\n{more}Content-Length: 5\r\n\r\nsmall");
    let mut answered = 0;
    loop {
        let requests = read_requests(&mut client);
        count.fetch_add(requests, Ordering::Relaxed);
        match end {
            _ if requests == 0 => return,
            Some(end) if answered > 0 => {
                if end == End::Announced {
                    let _ = client.write_all(reply("Connection: close\r\n").as_bytes());
                }
                let linger = (end == End::Reset).then_some(Duration::ZERO);
                return socket2::SockRef::from(&client).set_linger(linger).expect("an open socket");
            }
            _ => {
                let replies = reply("").repeat(requests as usize);
                if client.write_all(replies.as_bytes()).is_err() {
                    return;
                }
                answered += requests;
            }
        }
    }
}

/// How many requests come before a pause. Bodies have no empty line.
fn read_requests(client: &mut TcpStream) -> u64 {
    let (mut input, mut room) = (Vec::new(), [0; 4096]);
    client.set_read_timeout(None).expect("an open socket");
    while let Ok(count @ 1..) = client.read(&mut room) {
        input.extend_from_slice(&room[..count]);
        client.set_read_timeout(Some(Duration::from_millis(100))).expect("an open socket");
    }
    input.windows(4).filter(|four| four == b"\r\n\r\n").count() as u64
}

/// Plays sessions of these lines.
fn play(server: SocketAddr, sessions: &str, more: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sessions");
    fs::write(&file, sessions).expect("a file");
    let (target, file) = (format!("--target=http://{server}"), format!("--sessions={}", file.display()));
    let mut arguments = vec![target.as_str(), &file, "--session-rate=200"];
    arguments.extend(more);
    load(&arguments)
}

/// What a server dropped is sent again over the next connection, and told: it has read more than there were
/// calls.
#[test]
fn requests_that_are_sent_again_are_counted() {
    for end in [End::Reset, End::Closed, End::Announced] {
        let (server, read) = unfaithful(end);
        let results = play(server, "/a\n /b\n /c\n /d\n", &["--session-count=20"]);
        let read = read.load(Ordering::Relaxed);
        let calls = &results["calls"];
        assert_eq!(outcomes(&results), only("reply", 80), "{end:?}: {calls}");
        assert!(read > 80, "{end:?}: {read}");
        let sent = calls["sent"].as_u64().zip(calls["resent"].as_u64()).map(|(sent, again)| sent + again);
        assert_eq!(sent, Some(read), "{end:?}: {calls}");
        let connections = &results["connections"];
        let lost = connections["tried"].as_u64().map(|tried| tried - 20);
        assert_eq!(connections["lost"].as_u64(), lost, "{end:?}: {connections}");
    }
}

/// A POST may have had its effect, so it is not sent again (RFC 9110 section 9.2.2).
#[test]
fn what_may_not_be_repeated_is_not_sent_again() {
    let sessions = "/a\n /b\n /c method=POST contents=x=y\n /d\n";
    for (end, outcome) in [(End::Reset, "reset"), (End::Closed, "closed"), (End::Announced, "closed")] {
        let (server, read) = unfaithful(end);
        let results = play(server, sessions, &["--session-count=20"]);
        let read = read.load(Ordering::Relaxed);
        let found = outcomes(&results);
        let of = |name: &str| found.get(name).copied().unwrap_or(0);
        assert!(of(outcome) > 0, "{end:?}: {found:?}");
        assert_eq!(
            of(outcome),
            results["sessions"]["failed"].as_u64().expect("a count"),
            "{end:?}: {found:?}"
        );
        assert_eq!(of("reply") + of(outcome) + of("abandoned"), 80, "{end:?}: {found:?}");
        let calls = &results["calls"];
        assert_eq!(
            (calls["sent"].as_u64(), calls["resent"].as_u64()),
            (Some(read), Some(0)),
            "{end:?}: {calls}"
        );
    }
    // Behind a call that the client would ask again.
    let server = scripted::start().expect("a server");
    let sessions = "/ok/5\n /silent\n /ok/6 method=POST contents=x\n";
    let results = play(server, sessions, &["--session-count=20", "--timeout=300ms", "--on-timeout=retry"]);
    let expected = ["reply", "reply_timeout", "abandoned"].map(|name| (name.to_owned(), 20)).into();
    assert_eq!((outcomes(&results), results["calls"]["resent"].as_u64()), (expected, Some(0)));
}

/// The rules that a run broke.
fn broken(results: &Value) -> Vec<&str> {
    let checks = results["checks"].as_array().expect("checks");
    checks.iter().filter(|check| check["holds"] == false).filter_map(|check| check["rule"].as_str()).collect()
}

/// A server that leaves out some requests altogether, in whatever way, is unfair: nobody ever learns how
/// large their files are.
#[test]
fn what_is_never_served_breaks_the_rules() {
    let server = scripted::start().expect("a server");
    let fair = "/ok/1000\n\n/ok/9000\n\n".repeat(10);
    for never in ["/silent", "/slow/9000/8000", "/reset", "/close", "/cut/0/8000", "/garbage"] {
        let sessions = format!("{fair}{never}\n");
        let results = play(server, &sessions, &["--session-count=105", "--timeout=300ms"]);
        assert_eq!(results["replies"]["count"], 100, "{never}");
        // Five of 105, too few for the rule on all.
        assert_eq!(broken(&results), ["failures of a size", "unfairness"], "{never}: {}", results["checks"]);
    }
    let results = play(server, &fair, &["--session-count=20"]);
    assert_eq!(broken(&results), [""; 0], "{}", results["checks"]);
    // What nobody was there to serve is not well served.
    let results = ask(free_address(), "/", &[]);
    assert!(broken(&results).contains(&"timeouts"), "{}", results["checks"]);
}

#[test]
fn wrong_bytes_and_wrong_lengths_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("root");
    for name in ["ok/100", "ok/200", "ok/300", "absent/100", "cut/10/100", "refused"] {
        fs::create_dir_all(root.join(name).parent().expect("a parent")).expect("a directory");
        let length = name.rsplit('/').next().and_then(|length| length.parse().ok()).unwrap_or(0);
        fs::write(root.join(name), vec![b'x'; length]).expect("a file");
    }
    let mut wrong = vec![b'x'; 200];
    wrong[199] = b'y';
    fs::write(root.join("ok/200"), wrong).expect("a file");
    fs::write(root.join("ok/300"), vec![b'x'; 299]).expect("a file");
    let server = scripted::start().expect("a server");
    let verify = format!("--verify={}", root.display());
    // Of twenty replies so many were compared, so many were wrong.
    for (path, outcome, compared, wrong) in [
        ("/ok/100", "reply", 20, 0),
        ("/ok/200", "wrong_bytes", 20, 20),
        ("/ok/300", "wrong_length", 20, 20),
        ("/absent/100", "reply", 0, 0),
        ("/cut/10/100", "cut_short", 0, 0),
    ] {
        let results = ask(server, path, &[&verify]);
        assert_eq!(outcomes(&results), only(outcome, 20), "{path}");
        let verification = &results["verification"];
        assert_eq!(*verification, serde_json::json!({ "compared": compared, "wrong": wrong }), "{path}");
        assert_eq!(
            has_failed(&results),
            outcome != "reply" || compared == 0,
            "{path}: {}",
            results["failed"]
        );
    }
    let nowhere = ask(free_address(), "/refused", &[&verify]);
    assert!(has_failed(&nowhere), "{}", nowhere["failed"]);
    assert_eq!(ask(server, "/ok/100", &[])["verification"], Value::Null);
    let target = format!("--target=http://{server}/absent");
    let output = run(&[&target, "--rate=10", &verify]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains("no file to compare /absent with"), "{told}");
}

/// A reply that is not the file is an error and no reply, in every figure.
#[test]
fn wrong_replies_are_errors_in_every_form() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("ok")).expect("a directory");
    fs::write(directory.path().join("ok/100"), vec![b'x'; 100]).expect("a file");
    fs::write(directory.path().join("ok/200"), vec![b'y'; 200]).expect("a file");
    let server = scripted::start().expect("a server");
    let verify = format!("--verify={}", directory.path().display());
    let sessions = "/ok/100\n\n/ok/100\n/ok/200\n";
    let results = play(server, sessions, &[&verify, "--session-count=20"]);
    let sum = |list: &str, name: &str| -> u64 {
        let items = results[list].as_array().expect("an array").iter();
        items.map(|item| item[name].as_u64().expect("a count")).sum()
    };
    assert_eq!(results["calls"]["outcomes"]["reply"], 20);
    assert_eq!(results["verification"], serde_json::json!({ "compared": 30, "wrong": 10 }));
    let replies = &results["replies"];
    assert_eq!((&replies["count"], &replies["statuses"]["2xx"]), (&20.into(), &20.into()), "{replies}");
    assert_eq!(replies["body_bytes"], 2000, "{replies}");
    for times in ["reply_time_ms", "corrected_reply_time_ms", "transfer_time_ms"] {
        assert_eq!(results[times]["count"], 20, "{times}");
    }
    assert_eq!((sum("seconds", "replies"), sum("seconds", "errors")), (20, 10));
    assert_eq!((sum("by_size", "replies"), sum("by_size", "unserved")), (20, 10));
    assert_eq!(results["sessions"]["failed"], 10);
    // Ten connections had a reply, and ten one and a wrong one.
    assert_eq!(results["connections"]["replies_per_connection"], 1.0);

    let text = |format| {
        let file = directory.path().join("sessions");
        fs::write(&file, sessions).expect("a file");
        let (target, file) = (format!("--target=http://{server}"), format!("--sessions={}", file.display()));
        let output = Command::new(env!("CARGO_BIN_EXE_sluicelab"))
            .args(["load", &target, &file, &verify, "--session-rate=200", "--session-count=20", format])
            .output()
            .expect("sluicelab runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let table = text("--format=table");
    for words in
        ["replies      20 (", "verified     30 replies compared, 10 wrong", "FAILED: 10 of 30 replies"]
    {
        assert!(table.contains(words), "{words}\n{table}");
    }
    let httperf = text("--format=httperf");
    for words in ["requests 30 replies 20 ", "Errors: total 10 ", "other 10", "1xx=0 2xx=20 "] {
        assert!(httperf.contains(words), "{words}\n{httperf}");
    }
}

/// Descriptors and ports are counted before anything begins.
#[test]
fn what_the_machine_lacks_is_told_before_the_start() {
    let output = Command::new("/bin/sh")
        .args(["-c", "ulimit -n 200; exec \"$0\" load --target=http://127.0.0.1:1/ --connections=190"])
        .arg(env!("CARGO_BIN_EXE_sluicelab"))
        .output()
        .expect("sluicelab runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains("ulimit -n"), "{told}");
    // A rate begins with what there is.
    let output = run(&["--target=http://127.0.0.1:1/", "--rate=40000", "--duration=1s", "--timeout=100ms"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && told.contains("ports are needed") && told.contains("--source"),
        "{told}"
    );
}

/// Nobody accepts, so that connections pile up: more than there are descriptors.
#[test]
fn what_does_not_fit_is_counted() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let url = format!("http://{}/", server.local_addr().expect("an address"));
    let output = Command::new("/bin/sh")
        .args(["-c", "ulimit -n 100; exec \"$0\" load \"$@\""])
        .args([env!("CARGO_BIN_EXE_sluicelab"), &url, "-r", "200", "-n", "100", "--timeout=800ms"])
        .args(["--arrivals=fixed", "--format=json"])
        .output()
        .expect("sluicelab runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let results: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    // 64 descriptors are kept for other things.
    let expected = [("no_descriptor".to_owned(), 64), ("reply_timeout".to_owned(), 36)];
    assert_eq!(outcomes(&results), expected.into(), "{told}");
    assert!(told.contains("INVALID: the generator ran out of descriptors: 64 connections did not"), "{told}");
}

/// A client ends a connection whose reply had too many bytes, and its session goes on over another.
#[test]
fn a_connection_that_the_client_ends_is_not_the_servers() {
    let server = scripted::start().expect("a server");
    let results = play(server, "/more/5/1000\n/ok/100\n", &["--session-count=20"]);
    let connections = &results["connections"];
    assert_eq!((&connections["tried"], &connections["lost"]), (&40.into(), &0.into()), "{connections}");
    let results = play(server, "/last/100\n/ok/100\n", &["--session-count=20"]);
    let connections = &results["connections"];
    assert_eq!((&connections["tried"], &connections["lost"]), (&40.into(), &20.into()), "{connections}");
}

/// Where a client asks again, the session goes on until it is answered.
#[test]
fn a_client_that_asks_again() {
    let server = scripted::start().expect("a server");
    let target = format!("--target=http://{server}/silent");
    let results =
        load(&[&target, "--connections=3", "--duration=1500ms", "--timeout=300ms", "--on-timeout=retry"]);
    let found = outcomes(&results);
    assert!(found.get("reply_timeout").is_some_and(|count| (6..=15).contains(count)), "{found:?}");
    assert_eq!(results["sessions"]["arrived"], 3, "they are still the same clients");
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().to_str().expect("text");
    let sluicelab = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sluicelab")).args(arguments).output();
        let output = output.expect("sluicelab runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let set = format!("--root={directory}/set");
    assert_eq!(sluicelab(&["fileset", "single", &set]).0, Some(0));
    let set = format!("--fileset={directory}/set");
    let run = ["load", "--target=http://127.0.0.1:1/", "--rate=10", "--duration=10min"];
    let draw = ["sessions", "single", &set];
    for (option, command) in [("--json", &run[..]), ("--hdr", &run), ("--calls", &run), ("--out", &draw)] {
        for (path, reason) in [("/nonexistent/x", "No such file or directory"), ("/proc", "Is a directory")] {
            let (code, told) = sluicelab(&[command, &[option, path]].concat());
            assert_eq!(code, Some(2), "{option}: {told}");
            assert!(told.contains(&format!("sluicelab: {option} {path}: {reason}")), "{option}: {told}");
        }
    }
}

/// What an earlier run has left is not given up for one that does not begin.
#[test]
fn a_run_that_is_refused_leaves_the_files_of_the_one_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let verify = format!("--verify={}", directory.path().display());
    let files = ["--json", "--hdr", "--calls"].map(|option| {
        let path = directory.path().join(option);
        fs::write(&path, "earlier").expect("a file");
        format!("{option}={}", path.display())
    });
    let mut arguments = vec!["--target=http://127.0.0.1:1/absent", "--rate=10", &verify];
    arguments.extend(files.iter().map(String::as_str));
    assert_eq!(run(&arguments).status.code(), Some(2));
    for option in ["--json", "--hdr", "--calls"] {
        assert_eq!(fs::read_to_string(directory.path().join(option)).expect("a file"), "earlier", "{option}");
    }
}

#[test]
fn a_full_disk_costs_nothing_but_the_file_on_it() {
    let server = scripted::start().expect("a server");
    let target = format!("--target=http://{server}/ok/10");
    // More calls than there is room for in memory.
    let closed = [&target, "--connections=20", "--requests-per-connection=100", "--session-count=400"];
    for (full, intact) in [("--json", "--calls"), ("--calls", "--json"), ("--hdr", "--calls")] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let intact = format!("{intact}={}", file.path().display());
        let output = run(&[&closed[..], &[full, "/dev/full", &intact]].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{full}: {told}");
        assert!(told.contains("cannot write /dev/full: No space left on device"), "{full}: {told}");
        let results: Value = serde_json::from_slice(&output.stdout).expect("results");
        assert_eq!(results["calls"]["issued"], 40_000, "{full}");
        let written = fs::read_to_string(file.path()).expect("a file");
        let (json, calls) = (written.starts_with('{'), written.lines().count() == 40_001);
        assert!(json || calls, "{full}: {} bytes", written.len());
    }
}

/// Of both programs: a reader that has gone changes nothing, a full disk is a failure, and nobody panics.
#[test]
fn standard_output_that_is_closed_or_full() {
    let address = scripted::start().expect("a server");
    let target = format!("--target=http://{address}/ok/10");
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let root = format!("--root={}", path("set"));
    let fileset = format!("--fileset={}", path("set"));
    let out = format!("--out={}", path("sessions"));
    let (sluicelab, sluice) = (env!("CARGO_BIN_EXE_sluicelab"), env!("CARGO_BIN_EXE_sluice"));
    let load = ["load", &target, "--rate=100", "--session-count=5", "--rules"];
    let json = [&load[..], &["--format=json"]].concat();
    let served = directory.path().display().to_string();
    for (program, arguments) in [
        (sluicelab, &["fileset", "single", &root][..]),
        (sluicelab, &["fileset", "single", &root, "--check"]),
        (sluicelab, &["sessions", "single", &fileset, &out]),
        (sluicelab, &["doctor", "--json"]),
        (sluicelab, &load),
        (sluicelab, &json),
        (sluice, &["architectures"]),
        (sluice, &["check", "--listen=127.0.0.1:0", "--status=off", &served]),
    ] {
        let run = |stdout: Stdio, stderr: Stdio| {
            let child = Command::new(program).args(arguments).stdout(stdout).stderr(stderr).spawn();
            let output = child.and_then(std::process::Child::wait_with_output).expect("it runs");
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let usual = run(Stdio::null(), Stdio::piped());
        assert!(matches!(usual.0, Some(0 | 3)), "{arguments:?}: {usual:?}");
        let nobody = || Stdio::from(std::io::pipe().expect("a pipe").1);
        let closed = run(nobody(), Stdio::piped());
        // A machine that is busy makes another run invalid.
        let same = closed.0 == usual.0 || matches!(closed.0, Some(0 | 3)) && arguments.contains(&"load");
        assert!(same && !closed.1.contains("standard output"), "{arguments:?}: {usual:?} {closed:?}");
        let code = run(nobody(), nobody()).0;
        assert!(matches!(code, Some(0 | 3)), "{arguments:?}: {code:?}");
        let disk = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").expect("a disk"));
        let (code, told) = run(disk(), Stdio::piped());
        assert_eq!(code, Some(1), "{arguments:?}: {told}");
        assert!(told.contains("cannot write to standard output: No space left"), "{arguments:?}: {told}");
        assert_eq!(run(disk(), disk()).0, Some(1), "{arguments:?}");
    }
}

/// Five sessions take a twentieth of a second.
#[test]
fn a_run_that_is_over_before_its_warm_up_has_no_figures() {
    let server = scripted::start().expect("a server");
    let target = format!("--target=http://{server}/ok/100");
    let output = run(&[&target, "--rate=100", "--session-count=5", "--warm-up=10s"]);
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results["invalid"][0], "the run ended before its warm-up: nothing was measured");
    assert_eq!((output.status.code(), results["failed"].as_array().map(Vec::len)), (Some(3), Some(0)));
}

#[test]
fn bad_options_name_themselves() {
    for (arguments, words) in [
        (["--rate=0", "--duration=1s"].as_slice(), "--rate"),
        (&["--rate=5-9"], "from-to:time"),
        (&["--connections=0"], "--connections"),
        (&["--rate=5", "--timeout=soon"], "not a time; allowed: a number and a unit"),
        (&["--rate=5", "--timeout=20"], "a time needs a unit; allowed: us, ms, s, min, h, d"),
        (&["--rate=5", "--cpus=9-1"], "--cpus"),
        (&["--rate=5", "--duration=1s", "--warm-up=2s"], "--warm-up"),
        (&["--rate=5", "--sessions=/nonexistent"], "/nonexistent"),
        (&["--rate=5", "--source=::1"], "--source"),
        (&["--rate=5", "--session-rate=5"], "cannot be used with"),
        (&[], "--rate"),
    ] {
        let target = "--target=http://127.0.0.1:1/";
        let output =
            Command::new(env!("CARGO_BIN_EXE_sluicelab")).args(["load", target]).args(arguments).output();
        let output = output.expect("sluicelab runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}

fn sluice(root: &Path) -> std::process::Child {
    Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["serve", "--listen=127.0.0.1:0"])
        .arg(root)
        .stderr(std::process::Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the server starts")
}

fn address_of(server: &mut std::process::Child) -> String {
    use std::io::BufRead as _;
    let mut line = String::new();
    std::io::BufReader::new(server.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    line.split('/').nth(2).expect("an address").to_owned()
}
