//! What the kernel drops when queues are full, by cause: in the server's status, and in the lab's results.
//!
//! All of it happens in a network namespace of this program's own, whose counters nobody else moves and whose
//! settings may be changed. A worker that is stopped lets its accept queue fill; a client whose socket drops
//! what it receives never answers, and lets the SYN queue fill.

use std::net::SocketAddr;
use std::process::{Command, ExitCode};

use harness::eventually;
use harness::namespace::{self, settings};
use harness::server::{self, Server, Setup};
use harness::variant::{Test, Variant, tests};
use serde_json::Value;
use socket2::{Domain, SockFilter, Socket, Type};

const TESTS: &[Test] = tests![
    Each: accept_queue_full;
    One: syn_queue_full, cookies, three_quarters_of_the_backlog, resets_on_overflow, results_of_the_lab;
];

fn main() -> ExitCode {
    if !namespace::enter() {
        return ExitCode::SUCCESS;
    }
    harness::variant::run(&[("queue_drops", TESTS)])
}

/// Settings that drop without cookies or resets.
const PLAIN: [(&str, u32); 3] =
    [("tcp_syncookies", 0), ("tcp_abort_on_overflow", 0), ("tcp_max_syn_backlog", 512)];

/// A server whose accept queues hold no more than `backlog` and one, with a second listener that nobody
/// connects to.
fn start(variant: &Variant, backlog: u32) -> Server {
    let setup = Setup::new(variant).argument("--listen=127.0.0.1:0").argument("--listen=127.0.0.1:0");
    setup.argument(format!("--backlog={backlog}")).start()
}

/// Listeners that share an address.
fn copies(variant: &Variant) -> u64 {
    if variant.has_copies() { 2 } else { 1 }
}

/// Stops its workers: nobody accepts any more.
fn stop_workers(server: &Server) {
    server::stop(&server.workers());
}

/// A client that has begun to connect.
fn connect(address: SocketAddr) -> Socket {
    begin([127, 0, 0, 1], address, false)
}

/// A client that hears nothing, as if it were gone after its SYN.
fn connect_deaf(address: SocketAddr) -> Socket {
    // From where nobody has ever connected: the kernel remembers who has, and lets those take the last
    // quarter of the backlog.
    begin([127, 9, 9, 9], address, true)
}

fn begin(source: [u8; 4], address: SocketAddr, deaf: bool) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((source, 0)).into()).expect("all of 127/8 is ours");
    socket.set_nonblocking(true).expect("a mode");
    if deaf {
        // `ret #0`: nothing passes (bpf(4)).
        socket.attach_filter(&[SockFilter::new(6, 0, 0, 0)]).expect("a filter");
    }
    // It is under way, or dropped.
    let _ = socket.connect(&address.into());
    socket
}

/// How much counters of `kernel` have grown.
fn grown(server: &Server, before: &Value, name: &str) -> u64 {
    let of =
        |status: &Value| status["kernel"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {status:#}"));
    of(&server.status()) - of(before)
}

/// The drops of each listener.
fn drops(server: &Server) -> Vec<u64> {
    let status = server.status();
    let listeners = status["listeners"].as_array().expect("an array");
    listeners.iter().map(|listener| listener["drops"].as_u64().expect("a number")).collect()
}

fn accept_queue_full(variant: &Variant) {
    let _settings = settings(&PLAIN);
    let server = start(variant, 2);
    stop_workers(&server);
    let before = server.status();
    // The kernel lets in one more than the backlog, and drops the others' SYNs at once and whenever they come
    // again.
    let room = 3 * copies(variant);
    let clients: Vec<_> = (0..room + 9).map(|_| connect(server.address)).collect();
    eventually("nine are dropped", || grown(&server, &before, "listen_overflows") >= 9);
    let waiting = server.status()["listeners"][0]["accept_queue_length"].as_u64().expect("a number");
    // The kernel does not deal them out evenly to copies.
    assert!(waiting == room || variant.has_copies() && waiting <= room, "{waiting} of {room}");
    assert!(drops(&server)[0] >= 9, "{:#}", server.status());
    assert_eq!(drops(&server)[1], 0, "nobody connects there");
    for name in [
        "req_queue_full_drops",
        "req_queue_full_cookies",
        "syn_cookies_sent",
        "embryonic_resets",
        "other_listen_drops",
    ] {
        assert_eq!(grown(&server, &before, name), 0, "{name}");
    }
    let status = server.status();
    let rate = |value: &Value| value.as_f64().expect("a rate");
    assert!(rate(&status["kernel_per_second"]["listen_overflows"]) > 0.0, "{status:#}");
    assert!(rate(&status["listeners"][0]["drops_per_second"]) > 0.0, "{status:#}");
    assert!(rate(&status["listeners"][1]["drops_per_second"]) < 0.001, "{status:#}");
    let (_, text) = server.status_page("/");
    let line = text.lines().find(|line| line.starts_with("listen_overflows ")).expect("a line");
    assert!(line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()) >= Some(9), "{line}");
    let (_, metrics) = server.status_page("/metrics");
    let address = format!("sluice_listener_drops_total{{listener=\"http://{}/\"}} ", server.address);
    let sample = metrics.lines().find_map(|line| line.strip_prefix(&address)).expect("a sample");
    assert!(sample.parse::<u64>().expect("a number") >= 9, "{sample}");
    drop(clients);
}

fn syn_queue_full(variant: &Variant) {
    let _settings = settings(&PLAIN);
    let server = start(variant, 4);
    let before = server.status();
    let clients: Vec<_> = (0..20 * copies(variant)).map(|_| connect_deaf(server.address)).collect();
    eventually("most are dropped", || grown(&server, &before, "req_queue_full_drops") >= 15);
    assert_eq!(grown(&server, &before, "listen_overflows"), 0);
    assert_eq!(grown(&server, &before, "other_listen_drops"), 0);
    assert_eq!(grown(&server, &before, "syn_cookies_sent"), 0);
    assert!(drops(&server)[0] >= 15 && drops(&server)[1] == 0, "{:#}", server.status());
    drop(clients);
}

fn cookies(variant: &Variant) {
    let _settings = settings(&[&PLAIN[..], &[("tcp_syncookies", 1)]].concat());
    let server = start(variant, 4);
    let before = server.status();
    assert_eq!(before["kernel"]["tcp_syncookies"], 1);
    let clients: Vec<_> = (0..20 * copies(variant)).map(|_| connect_deaf(server.address)).collect();
    eventually("most get a cookie", || grown(&server, &before, "syn_cookies_sent") >= 15);
    assert!(grown(&server, &before, "req_queue_full_cookies") >= 15);
    assert_eq!(grown(&server, &before, "listen_drops"), 0, "none is dropped");
    // A client that answers is served by its cookie although the SYN queue is full.
    assert_eq!(server.get("/hello.txt").status, 200);
    drop(clients);
}

fn three_quarters_of_the_backlog(variant: &Variant) {
    let _settings = settings(&[&PLAIN[..], &[("tcp_max_syn_backlog", 8)]].concat());
    let server = start(variant, 100);
    let before = server.status();
    let clients: Vec<_> = (0..20 * copies(variant)).map(|_| connect_deaf(server.address)).collect();
    eventually("most are dropped", || grown(&server, &before, "other_listen_drops") >= 12);
    assert_eq!(grown(&server, &before, "req_queue_full_drops"), 0);
    assert_eq!(grown(&server, &before, "listen_overflows"), 0);
    drop(clients);
}

fn resets_on_overflow(variant: &Variant) {
    let _settings = settings(&[&PLAIN[..], &[("tcp_abort_on_overflow", 1)]].concat());
    let server = start(variant, 3);
    stop_workers(&server);
    let before = server.status();
    assert_eq!(before["kernel"]["tcp_abort_on_overflow"], 1);
    // Their SYNs come while there is room, and the rest of their handshakes when there is none.
    let late: Vec<_> = (0..2).map(|_| begin([127, 0, 0, 1], server.address, true)).collect();
    let (_waiting, early) = if variant.has_copies() {
        // Enough to fill both queues, however the kernel deals them out.
        let waiting: Vec<_> = (0..40).map(|_| connect(server.address)).collect();
        (waiting, grown(&server, &before, "listen_overflows"))
    } else {
        ((0..4).map(|_| connect(server.address)).collect(), 0)
    };
    assert_eq!(grown(&server, &before, "listen_overflows"), early);
    for client in &late {
        client.detach_filter().expect("it has one");
    }
    eventually("the handshakes have ended", || grown(&server, &before, "embryonic_resets") == 2);
    let overflows = grown(&server, &before, "listen_overflows");
    assert!(overflows == 2 || variant.has_copies() && overflows >= early + 2, "{overflows}, {early} early");
    for client in &late {
        let error = client.take_error().expect("a state").expect("an error");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

fn results_of_the_lab(variant: &Variant) {
    let _settings = settings(&PLAIN);
    let server = start(variant, 2);
    stop_workers(&server);
    let load = |arguments: &[&str]| -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_sluicelab"))
            .args(["load", "--target", &format!("http://{}/hello.txt", server.address), "--connections=20"])
            .args(["--duration=500ms", "--timeout=1s", "--format=json"])
            .args(arguments)
            .output()
            .expect("it runs");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    };
    let results = load(&[]);
    let least = 20 - 3 * copies(variant);
    let dropped = &results["run"]["outcome"]["queue_drops"];
    assert_eq!(dropped["server_pid"], Value::Null);
    assert!(dropped["counts"]["listen_overflows"].as_u64() >= Some(least), "{dropped:#}");
    assert_eq!(dropped["counts"]["req_queue_full_drops"], 0);
    assert!(dropped["per_s"]["listen_overflows"].as_f64() >= Some(least as f64), "{dropped:#}");
    assert_eq!(dropped["listeners"][0]["address"], server.address.to_string());
    assert!(dropped["listeners"][0]["drops"].as_u64() >= Some(least), "{dropped:#}");
    assert_eq!(dropped["listeners"].as_array().map(Vec::len), Some(1), "the other is no target");

    // In another namespace nothing happens.
    let mut elsewhere =
        Command::new("unshare").args(["--net", "sleep", "60"]).spawn().expect("unshare is here");
    let own = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
    let theirs = format!("/proc/{}/ns/net", elsewhere.id());
    eventually("it is elsewhere", || std::fs::read_link(&theirs).is_ok_and(|theirs| theirs != own));
    let results = load(&[&format!("--server-pid={}", elsewhere.id())]);
    elsewhere.kill().expect("it is there");
    elsewhere.wait().expect("it ends");
    let dropped = &results["run"]["outcome"]["queue_drops"];
    assert_eq!(dropped["server_pid"], elsewhere.id());
    assert_eq!(dropped["counts"]["listen_overflows"], 0, "{dropped:#}");
    assert_eq!(dropped["listeners"], Value::Array(Vec::new()));
}
