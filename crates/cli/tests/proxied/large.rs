//! Bodies and replies that are larger than anything that is kept in memory.
//!
//! `SLUICE_LARGE` says how many MiB they have (default: 64).

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use harness::client::request;
use harness::eventually;
use harness::scripted_http;
use harness::server::{Server, Setup};
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};

use crate::pool;

pub(super) const TESTS: &[Test] = tests![
    Three: much_each_way, a_slow_reader_occupies_nothing;
];

const PIECE: usize = 1 << 20;

/// How many pieces there are.
fn pieces() -> usize {
    std::env::var("SLUICE_LARGE").map_or(64, |text| text.parse().expect("a number of MiB"))
}

/// The same piece again and again: the bytes need not differ to be counted, and the hash of each is the same.
fn much_each_way(variant: &Variant) {
    let piece: &'static [u8] = pattern(3, PIECE).leak();
    let setup = Setup::new(variant);
    let received = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&received);
    let socket = scripted_http::start_unread(setup.directory(), "app.sock", move |head, mut stream| {
        let length = (PIECE * pieces()) as u64;
        if head.starts_with("GET") {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.get_mut().write_all(head.as_bytes());
            (0..pieces()).all(|_| stream.get_mut().write_all(piece).is_ok());
            return;
        }
        assert!(head.contains(&format!("\r\nContent-Length: {length}\r\n")), "{head}");
        let mut buffer = vec![0; PIECE];
        for _ in 0..pieces() {
            stream.read_exact(&mut buffer).expect("all of it");
            assert!(buffer == piece);
            count.fetch_add(PIECE as u64, Ordering::Relaxed);
        }
        let _ = stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell");
    });
    let server = setup.config(&(pool(&socket, "") + "[limits]\nbody = '2 GiB'\n")).start();
    server.warm_up();
    let before = server.memory();
    let is_over = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let most = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(server.memory());
                harness::sleep_ms(20);
            }
            most
        });
        let mut client = server.connect();
        client.send(request("GET", "/app/", &[]));
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            seen.extend(client.read_raw(1).expect("a head"));
        }
        for number in 0..pieces() {
            assert!(client.read_raw(PIECE).expect("more") == piece, "piece {number}");
        }
        upload(&server, piece);
        assert_eq!(received.load(Ordering::Relaxed), (PIECE * pieces()) as u64);
        is_over.store(true, Ordering::Relaxed);
        let most = most.join().expect("a thread");
        assert!(most < before + (8 << 20), "{before} bytes before, {most} meanwhile");
    });
    assert_eq!(server.pool_count("failures"), 0);
}

fn upload(server: &Server, piece: &[u8]) {
    let mut client = server.connect();
    client.send(request("POST", "/app/", &[("Content-Length", &(PIECE * pieces()).to_string())]));
    for _ in 0..pieces() {
        client.send(piece);
    }
    assert_eq!(client.reply().text(), "well");
}

/// The application has said all before its client has taken more than the beginning, and answers others.
fn a_slow_reader_occupies_nothing(variant: &Variant) {
    let length = PIECE * pieces();
    let setup = Setup::new(variant);
    let large: &'static [u8] = pattern(4, length).leak();
    let has_said_all = Arc::new(AtomicBool::new(false));
    let all = Arc::clone(&has_said_all);
    let socket = scripted_http::start(setup.directory(), "app.sock", move |asked| {
        let body = if asked.query() == "large" { large } else { b"small" };
        asked.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()));
        let has_said = asked.say(body);
        all.fetch_or(body.len() == length && has_said, Ordering::SeqCst);
        has_said
    });
    let more = "[gateway]\nspill = '1 GiB'\n";
    let server = setup.config(&(pool(&socket, "children = 1") + more)).start();
    let mut slow = server.connect_narrow();
    slow.ask("GET", "/app/?large", &[]);
    eventually("the application is free", || has_said_all.load(Ordering::SeqCst));
    assert_eq!(server.get("/app/?small").text(), "small");
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    assert!(slow.reply().body == large);
    assert_eq!(server.pool_count("failures"), 0);
}
