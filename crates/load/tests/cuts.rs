//! However a server's replies are cut into pieces on their way, sessions come to the same: the same calls,
//! the same bytes, over one connection.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use load::engine::{self, Keep};
use load::measures::Measures;
use load::record::Outcome;
use load::run::{Load, Run};
use workload::session::{Builder, Method, Request, SessionLog};

const SMALL: &[u8] = b"small";
/// Larger than what is received at a time without comparing, so that its end is dropped in the kernel.
const LARGE: usize = 20_000;

/// What the paths of a session are answered with, in its order.
fn replies() -> [(Method, &'static str, Vec<u8>); 6] {
    let large =
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").as_bytes(), &vec![b'l'; LARGE]]
            .concat();
    [
        (Method::GET, "/small", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall".to_vec()),
        (
            Method::GET,
            "/chunked",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
              3;x=y\r\nsma\r\n2\r\nll\r\n0\r\nTrailer: t\r\n\r\n"
                .to_vec(),
        ),
        (Method::HEAD, "/small", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec()),
        (
            Method::GET,
            "/interim",
            b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall".to_vec(),
        ),
        (Method::GET, "/large", large),
        (Method::GET, "/empty", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ]
}

/// The first call alone, the others in a row.
fn log() -> SessionLog {
    let mut log = Builder::new();
    for (method, uri, _) in replies() {
        log.call(Request { method, uri: uri.into(), ..Request::default() });
    }
    log.finish()
}

/// Answers session `n` with its replies cut in two: the first reply after `n` bytes, what follows in a row
/// likewise.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sessions = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, cut) = (stream.unwrap(), sessions.fetch_add(1, Ordering::Relaxed));
            thread::spawn(move || answer(stream, cut));
        }
    });
    address
}

fn answer(mut stream: TcpStream, cut: usize) {
    stream.set_nodelay(true).unwrap();
    let [first, others @ ..] = replies().map(|(.., reply)| reply);
    if !read_requests(&mut stream, 1) || !write_in_two(&mut stream, &first, cut) {
        return;
    }
    if read_requests(&mut stream, others.len()) {
        write_in_two(&mut stream, &others.concat(), cut);
    }
}

/// Reads so many heads; false when the client has gone.
fn read_requests(stream: &mut TcpStream, count: usize) -> bool {
    let (mut input, mut room) = (Vec::new(), [0; 4096]);
    while input.windows(4).filter(|four| four == b"\r\n\r\n").count() < count {
        match stream.read(&mut room) {
            Ok(read @ 1..) => input.extend_from_slice(&room[..read]),
            _ => return false,
        }
    }
    true
}

fn write_in_two(stream: &mut TcpStream, reply: &[u8], cut: usize) -> bool {
    let (begin, rest) = reply.split_at(cut.min(reply.len()));
    if stream.write_all(begin).is_err() {
        return false;
    }
    // Long enough for the client to have read the first piece, or else nothing is tested but no harm is done.
    thread::sleep(Duration::from_millis(2));
    stream.write_all(rest).is_ok()
}

fn play(log: SessionLog, server: SocketAddr, sessions: u64, verify: Option<&Path>) -> Measures {
    let load = Load::Closed { connections: 16, count: Some(sessions), kept: false };
    let run = Run {
        verify: verify.map(Path::to_owned),
        ..support::run(log, server, load, Duration::from_secs(20))
    };
    engine::start(run, Keep::default()).unwrap().finish().unwrap().measures
}

/// Enough to cut every head, and the chunked body, at every byte.
fn cuts() -> u64 {
    replies()[..5].iter().map(|(.., reply)| reply.len().min(300) as u64).sum()
}

fn check(measures: &Measures, sessions: u64) {
    let calls = replies().len() as u64 * sessions;
    assert_eq!(measures.cohort.outcomes.of(Outcome::Reply), calls, "{measures:?}");
    assert_eq!((measures.sessions.completed, measures.connections.tried), (sessions, sessions));
    assert_eq!(measures.flow.statuses, [0, calls, 0, 0, 0]);
    assert_eq!(measures.flow.body_bytes, sessions * (3 * SMALL.len() + LARGE) as u64);
    // Interim heads are passed over as part of the head that follows.
    let heads: usize = replies().iter().map(|(.., reply)| head_bytes(reply)).sum();
    assert_eq!(measures.flow.head_bytes, sessions * heads as u64);
}

fn head_bytes(reply: &[u8]) -> usize {
    let end = reply.windows(4).rposition(|four| four == b"\r\n\r\n").unwrap() + 4;
    let chunked = reply.windows(7).position(|seven| seven == b"chunked");
    chunked.map_or(end, |at| at + b"chunked\r\n\r\n".len())
}

#[test]
fn cuts_change_nothing() {
    let measures = play(log(), serve(), cuts(), None);
    check(&measures, cuts());
}

#[test]
fn cuts_change_nothing_for_replies_that_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("small", SMALL),
        ("chunked", SMALL),
        ("interim", SMALL),
        ("large", &vec![b'l'; LARGE]),
        ("empty", b""),
    ] {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let measures = play(log(), serve(), cuts(), Some(directory.path()));
    check(&measures, cuts());

    // One byte that is not the file's is found wherever the cut is, and nothing else is.
    let mut other = vec![b'l'; LARGE];
    other[LARGE / 2] = b'x';
    std::fs::write(directory.path().join("large"), other).unwrap();
    let sessions = 100;
    let measures = play(log(), serve(), sessions, Some(directory.path()));
    assert_eq!(measures.cohort.outcomes.of(Outcome::WrongBytes), sessions);
    assert_eq!(measures.cohort.outcomes.of(Outcome::Reply), sessions * (replies().len() as u64 - 1));
}
