//! httperf and this generator play the same sessions against the same server: the reports have the same
//! lines, and what is counted the same way comes to the same numbers.

mod support;

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use load::engine::{self, Keep};
use load::report::{self, Facts, RunOutcome};
use load::run::Load;
use load::schedule::{Arrivals, Rate, Schedule};
use workload::session::{Builder, Request, SessionLog};

/// Sessions that are played.
const SESSIONS: u64 = 60;
/// Sessions per second.
const RATE: f64 = 100.0;
/// How long clients wait for a reply.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of each body.
const BODY: usize = 1500;

#[test]
fn reports_have_the_same_lines_and_counts() {
    let server = serve();
    let theirs = httperf(server, FILE);
    let ours = ours(server, sessions());

    assert_eq!(shape(&theirs), shape(&ours), "--- httperf\n{theirs}\n--- ours\n{ours}");
    for line in [
        // Two of three sessions have two calls, the third is never answered.
        "Total: connections # requests # replies # test-duration",
        "Connection length [replies/conn]: #",
        "Reply status:",
        "Errors: total # client-timo",
        "Errors: fd-unavail",
        "Session: avg # connections/session",
        "Session length histogram:",
    ] {
        let (theirs, ours) = (numbers(&theirs, line), numbers(&ours, line));
        let exact = if line.starts_with("Total") { 3 } else { theirs.len() };
        assert_eq!(theirs[..exact], ours[..exact], "{line}");
    }
    let size = |text: &str| numbers(text, "Reply size [B]:");
    assert_eq!(size(&theirs), size(&ours));
    // (completed/ended)
    let sessions = |text: &str| numbers(text, "Session rate [sess/s]:")[4..].to_vec();
    assert_eq!(sessions(&theirs), sessions(&ours));
    assert_eq!(sessions(&ours), [40.0, 60.0]);
}

/// Connections that die with requests on them, which are sent again over others.
#[test]
fn what_is_sent_again_is_counted_alike() {
    let (mut file, mut log) = (String::new(), Builder::new());
    for session in 0..SESSIONS {
        for (place, name) in ["/first", "/dropped", "/behind", "/last"].into_iter().enumerate() {
            let (margin, uri) = (if place == 0 { "" } else { " " }, format!("{name}{session}"));
            file.extend([margin, &uri, "\n"]);
            log.call(Request { uri: uri.into(), ..Request::default() });
        }
        file += "\n";
        log.end_of_session();
    }
    let theirs = httperf(serve(), &file);
    let ours = ours(serve(), log.finish());
    // Each session's burst is sent twice, over two connections.
    let total = "Total: connections # requests # replies #";
    let counts = [2, 7, 4].map(|each| (each * SESSIONS) as f64);
    assert_eq!((&numbers(&theirs, total)[..3], &numbers(&ours, total)[..3]), (&counts[..], &counts[..]));
    let errors = "Errors: total #";
    assert_eq!(numbers(&theirs, errors), numbers(&ours, errors));
    let sessions = |text: &str| numbers(text, "Session rate [sess/s]:")[4..].to_vec();
    assert_eq!(sessions(&theirs), sessions(&ours));
}

/// Answers every request but those for `/never` with [`BODY`] bytes, a connection after the other on threads
/// of their own. The first time that it is asked for one that begins with `/dropped`, it closes when two more
/// requests have come.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let dropped = Arc::new(Mutex::new(HashSet::new()));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, dropped) = (stream.unwrap(), Arc::clone(&dropped));
            thread::spawn(move || answer(stream, &dropped));
        }
    });
    address
}

/// Until the client has had enough, however it says so.
fn answer(mut stream: TcpStream, dropped: &Mutex<HashSet<Vec<u8>>>) {
    let mut left = None;
    let mut input = Vec::new();
    let mut room = [0; 4096];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n");
    let reply = [head.as_bytes(), &[b'x'; BODY]].concat();
    while let Ok(count @ 1..) = stream.read(&mut room) {
        input.extend_from_slice(&room[..count]);
        while let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") {
            let request: Vec<u8> = input.drain(..end + 4).collect();
            let target = request.split(|byte| *byte == b' ').nth(1).unwrap().to_vec();
            if target.starts_with(b"/dropped") && dropped.lock().unwrap().insert(target) {
                left = Some(3);
            }
            if let Some(left) = &mut left {
                *left -= 1;
                if *left == 0 {
                    return;
                }
            } else if !request.starts_with(b"GET /never ") && stream.write_all(&reply).is_err() {
                return;
            }
        }
    }
}

/// What [`sessions`] gives, in a file for httperf.
const FILE: &str = "/a\n/b\n\n/a think=0.01\n/b\n\n/never\n";

fn sessions() -> SessionLog {
    let get = |uri: &str| Request { uri: uri.into(), ..Request::default() };
    let mut log = Builder::new();
    log.call(get("/a"));
    log.end_of_burst(None);
    log.call(get("/b"));
    log.end_of_session();
    log.call(get("/a"));
    log.end_of_burst(Some(Duration::from_millis(10)));
    log.call(get("/b"));
    log.end_of_session();
    log.call(get("/never"));
    log.finish()
}

fn httperf(server: SocketAddr, sessions: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sessions");
    std::fs::write(&file, sessions).unwrap();
    let output = Command::new("httperf")
        .args(["--hog", "--server", &server.ip().to_string(), "--port", &server.port().to_string()])
        .arg(format!("--wsesslog={SESSIONS},0,{}", file.display()))
        .args(["--rate", &RATE.to_string(), "--timeout", &TIMEOUT.as_secs().to_string()])
        .output()
        .expect("httperf runs; scripts/install-test-tools installs it");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn ours(server: SocketAddr, log: SessionLog) -> String {
    let load = Load::Arriving {
        schedule: Schedule::drawn(Rate::constant(RATE).unwrap(), Arrivals::Fixed, 1),
        count: Some(SESSIONS),
        kept: None,
    };
    let run = support::run(log, server, load, TIMEOUT);
    let finished = engine::start(run, Keep::default()).unwrap().finish().unwrap();
    let facts = Facts {
        version: String::new(),
        command: vec!["sluicelab".into(), "load".into()],
        began_unix_s: 0,
        targets: vec![server.to_string()],
        model: "sessions".into(),
        unit: "sessions".into(),
        requests: None,
        arrivals: Some("fixed".into()),
        asked_sessions_per_s: Some(RATE),
        asked_requests_per_s: None,
        connections: None,
        seed: Some(1),
        log_sessions: 3,
        log_requests: 5,
        warm_up_s: 0.0,
        connect_timeout_s: TIMEOUT.as_secs_f64(),
        reply_timeout_s: TIMEOUT.as_secs_f64(),
        verified: false,
        tls: None,
        cpus: vec![0],
        realtime: false,
        may_wait: 0.05,
        classes: Vec::new(),
        machine: machine::Machine::this().describe(),
        outcome: RunOutcome {
            duration_s: finished.ended as f64 / 1e9,
            drain_s: 0.0,
            interrupted: false,
            due_sessions: Some(SESSIONS),
            cpu_s: finished
                .cpu
                .iter()
                .map(|(user, system)| (user.as_secs_f64(), system.as_secs_f64()))
                .collect(),
            stolen_s: 0.0,
            server_log: None,
            queue_drops: None,
        },
    };
    report::httperf(&finished.measures, &facts)
}

/// A report without its figures, and without the command line.
fn shape(report: &str) -> Vec<String> {
    report.lines().skip_while(|line| !line.starts_with("Maximum")).map(without_numbers).collect()
}

/// A line with each of its numbers replaced by `#`.
fn without_numbers(line: &str) -> String {
    let mut shape = String::new();
    let mut digits = false;
    for character in line.chars() {
        let number = character.is_ascii_digit() || digits && character == '.';
        if !number {
            shape.push(character);
        } else if !digits {
            shape.push('#');
        }
        digits = number;
    }
    // A histogram is as long as the longest session.
    shape
}

/// The numbers of the line that begins like this, `#` standing for any.
fn numbers(report: &str, begin: &str) -> Vec<f64> {
    let line = report
        .lines()
        .find(|line| without_numbers(line).starts_with(begin))
        .unwrap_or_else(|| panic!("no line begins with {begin}:\n{report}"));
    let parts = line.split(|character: char| !character.is_ascii_digit() && character != '.');
    parts.filter_map(|part| part.parse().ok()).collect()
}
