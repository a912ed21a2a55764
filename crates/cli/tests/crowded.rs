//! Where a worker serves one client at a time, and slow clients hold all the places: others are served all
//! the same, and whoever is slow keeps its place where nobody wants it.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::client::{Client, request};
use harness::server::{Server, Setup};
use harness::site::{HELLO, pattern};
use harness::sleep_ms;
use harness::variant::{Test, VARIANTS, Variant, tests};

const TESTS: &[Test] = tests![
    begun_heads,
    begun_bodies,
    slow_readers,
    silent_ones,
    whoever_is_slow_stays_where_nobody_waits,
    whoever_reads_fast_enough_stays,
];

fn main() -> ExitCode {
    let variants: Vec<Variant> =
        VARIANTS.iter().filter(|variant| variant.serves_one_at_a_time()).copied().collect();
    harness::variant::run_for(&variants, &[("crowded", TESTS)])
}

/// Half as many again as there are places.
const CROWD: usize = 30;

/// How long one who behaves waits for its reply.
const TIMEOUT: Duration = Duration::from_secs(10);

const BIG: usize = 4 << 20;

fn start(variant: &Variant) -> Server {
    let setup = Setup::new(variant).file("big.bin", pattern(5, BIG));
    setup.config("[tcp]\nsend_buffer = \"64 KiB\"").start()
}

/// Clients of one kind hold all places, and come again whenever they are turned away; others get their
/// replies.
fn held_by(variant: &Variant, first: &'static str, dribble: &'static str) {
    let server = start(variant);
    let stop = Arc::new(AtomicBool::new(false));
    let (told, address) = (Arc::clone(&stop), server.address);
    let crowd = thread::spawn(move || {
        let mut slow: Vec<Client> = (0..CROWD).map(|_| come(address, first)).collect();
        while !told.load(Ordering::Relaxed) {
            sleep_ms(200);
            for (number, client) in slow.iter_mut().enumerate() {
                if !goes_on(client, if number % 2 == 0 { dribble } else { "" }) {
                    *client = come(address, first);
                }
            }
        }
    });
    sleep_ms(500);
    for round in 0..4 {
        let mut client = server.connect();
        client.ask("GET", "/hello.txt", &[("Connection", "close")]);
        match client.try_reply_within(TIMEOUT) {
            Ok(reply) => assert_eq!(reply.text(), HELLO),
            Err(broken) => panic!("round {round}: {broken:?}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    crowd.join().expect("the server takes connections");
    assert!(server.count("connections_closed_under_pressure") > 0);
    assert_eq!(server.count("timeouts/header") + server.count("timeouts/write"), 0);
}

fn come(address: SocketAddr, first: &str) -> Client {
    let mut client = Client::connect_narrow(address);
    client.stream.set_nonblocking(true).expect("an option of sockets");
    // It may have been turned away already.
    client.try_send(first);
    client
}

/// Sends and takes a little; whether the connection is still there.
fn goes_on(client: &mut Client, dribble: &str) -> bool {
    let sent = dribble.is_empty() || client.stream.write_all(dribble.as_bytes()).is_ok();
    let there = match client.stream.read(&mut [0; 10]) {
        Ok(count) => count > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    };
    sent && there
}

/// As slowhttptest has them, and a byte alone.
fn begun_heads(variant: &Variant) {
    held_by(variant, "G", "E");
}

fn begun_bodies(variant: &Variant) {
    held_by(variant, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx", "x");
}

fn slow_readers(variant: &Variant) {
    held_by(variant, "GET /big.bin HTTP/1.1\r\nHost: x\r\n\r\n", "");
}

fn silent_ones(variant: &Variant) {
    held_by(variant, "", "");
}

/// All places are taken by clients that dribble, and there they stay until they have been served.
fn whoever_is_slow_stays_where_nobody_waits(variant: &Variant) {
    let server = start(variant);
    let places = server.status()["workers"].as_array().expect("workers").len();
    let mut slow: Vec<Client> = (0..places).map(|_| Client::connect_narrow(server.address)).collect();
    for client in &mut slow[1..] {
        client.send("G");
    }
    slow[0].ask("GET", "/big.bin", &[]);
    for byte in b"ET /hello.txt HTTP/1.1".chunks(1) {
        sleep_ms(120);
        for client in &mut slow[1..] {
            client.send(byte);
        }
    }
    for client in &mut slow[1..] {
        client.send("\r\nHost: x\r\n\r\n");
        assert_eq!(client.reply().text(), HELLO);
    }
    assert!(slow[0].reply().body == pattern(5, BIG));
    assert_eq!(server.count("connections_closed_under_pressure"), 0);
}

/// A client that reads steadily is not turned away, though its reply takes long and others wait.
fn whoever_reads_fast_enough_stays(variant: &Variant) {
    let server = Setup::new(variant)
        .file("big.bin", pattern(5, BIG))
        .config("max_connections = 1\n[tcp]\nsend_buffer = \"64 KiB\"")
        .start();
    let mut steady = Client::connect_narrow(server.address);
    steady.ask("GET", "/big.bin", &[("Range", "bytes=0-119999"), ("Connection", "close")]);
    let mut got = steady.read_raw(1000).expect("a beginning");
    let mut waiting = server.connect();
    waiting.send(request("GET", "/hello.txt", &[("Connection", "close")]));
    while got.len() < 120_000 {
        let piece = steady.read_raw(4000).expect("it stays");
        assert!(!piece.is_empty(), "cut short at {}", got.len());
        got.extend_from_slice(&piece);
        sleep_ms(100);
    }
    steady.unread(got);
    assert!(steady.reply().body == pattern(5, BIG)[..120_000]);
    assert_eq!(waiting.reply().text(), HELLO);
}
