//! User-level threads in the ways of the papers: a stack for each connection, threads that accept, helpers
//! that send. The conformance cases of connections that live on, of where messages end, and of applications
//! run in each of these ways. And what becomes of clients when there are few threads, of a worker whose
//! thread fails, and of 19,500 connections.

use std::fs;
use std::process::ExitCode;

use harness::eventually;
use harness::held::{Held, is_told_to_hold};
use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE};
use harness::variant::{Test, Topic, Variant, conclude, raise_descriptor_limit, tests, trials};

mod checked;
#[path = "../conformance/dynamic_replies.rs"]
mod dynamic_replies;
#[path = "../conformance/dynamic_requests.rs"]
mod dynamic_requests;
#[path = "../conformance/framing.rs"]
mod framing;
#[path = "../conformance/persistence.rs"]
mod persistence;
mod states;

/// [`Variant::tables`] has the rest of their settings.
const VARIANTS: &[Variant] = &[
    Variant { name: "knot_a", options: &["--architecture=user-threads", "--workers=2"] },
    Variant {
        name: "knot_c",
        options: &["--architecture=user-threads", "--workers=1", "--accept-limit=10", "--events=poll"],
    },
    Variant { name: "knot_sending", options: &["--architecture=user-threads", "--workers=1"] },
    Variant {
        name: "knot_sending_blocking",
        options: &["--architecture=user-threads", "--workers=1", "--send=blocking"],
    },
];

const ONE: Variant = Variant { name: "one", options: &["--architecture=user-threads", "--workers=1"] };

const OF_THEIR_OWN: &[Test] = tests![
    One: silent_clients_have_no_thread, clients_wait_for_threads, threads_that_accept_serve_what_they_took,
        helpers_send_files, a_thread_that_fails_ends_its_worker_and_harms_no_other,
        as_many_as_descriptors_allow;
];

fn main() -> ExitCode {
    if is_told_to_hold() {
        return ExitCode::SUCCESS;
    }
    let cases: &[Topic] = &[
        ("dynamic_replies", dynamic_replies::TESTS),
        ("dynamic_requests", dynamic_requests::TESTS),
        ("framing", framing::TESTS),
        ("persistence", persistence::TESTS),
    ];
    let each = |test: &Test| Test { on: harness::variant::On::Each, ..*test };
    let cases: Vec<Topic> = cases
        .iter()
        .map(|(name, tests)| (*name, &*tests.iter().map(each).collect::<Vec<_>>().leak()))
        .collect();
    let mut all = trials(VARIANTS, &cases, "stream");
    let own: &[Topic] = &[("own", OF_THEIR_OWN), ("checked", checked::TESTS), ("states", states::TESTS)];
    all.extend(trials(VARIANTS, own, "stream"));
    conclude(all)
}

/// A thread has a client only from the first byte of a request to the last byte of its reply, unless it keeps
/// its stack.
fn silent_clients_have_no_thread(_: &Variant) {
    for (config, busy) in [("", 0), ("[user_threads]\nkeep_stack = true", 8)] {
        let server = Server::with(&ONE, config);
        let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/hello.txt").status, 200);
        }
        eventually("all are silent", || server.count("user_threads_busy") == busy);
        // Half a request needs a stack.
        for client in &mut clients {
            client.send("GET /hello.txt HTTP/1.1\r\nHo");
        }
        eventually("all have a thread", || server.count("user_threads_busy") == 8);
        for client in &mut clients {
            client.send("st: a\r\n\r\n");
            assert_eq!(client.reply().text(), HELLO);
        }
        eventually("all are silent again", || server.count("user_threads_busy") == busy);
        let stack = || server.count("user_thread_stack_bytes");
        eventually("stacks are looked at", || {
            assert_eq!(server.get("/hello.txt").status, 200);
            (4096..128 << 10).contains(&stack())
        });
        assert!(server.count("user_threads") >= busy.max(1));
        assert!(server.count("user_thread_switches") >= 16);
    }
}

/// With two threads, two slow clients hold up the other clients. Those are served afterwards.
fn clients_wait_for_threads(_: &Variant) {
    let server = Server::with(&ONE, "[user_threads]\nthreads = 2");
    let mut slow = [server.connect(), server.connect()];
    for client in &mut slow {
        client.send("GET /hello.txt HTTP/1.1\r\n");
    }
    eventually("both have a thread", || server.count("user_threads_busy") == 2);
    let mut others: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for client in &mut others {
        client.ask("GET", "/hello.txt", &[]);
    }
    eventually("they wait", || server.count("user_threads_awaited") == 5);
    // A client may leave while it waits.
    drop(others.pop());
    for client in &mut slow {
        client.send("Host: a\r\n\r\n");
        assert_eq!(client.reply().text(), HELLO);
    }
    for client in &mut others {
        assert_eq!(client.reply().text(), HELLO);
    }
    eventually("no client waits", || server.count("user_threads_awaited") == 0);
    assert_eq!(server.count("user_threads"), 2);
}

/// Knot-C: a thread takes up to the limit, and serves one connection to its end before the next.
fn threads_that_accept_serve_what_they_took(_: &Variant) {
    let config = "[user_threads]\nkeep_stack = true\naccepting = 'threads'\nthreads = 1";
    let server = Setup::new(&ONE).argument("--accept-limit=2").config(config).start();
    // The only thread is busy, so that the others come together.
    let mut first = server.connect();
    assert_eq!(first.get("/hello.txt").text(), HELLO);
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ask("GET", "/hello.txt", &[]);
        client.expect_silence(50);
    }
    assert_eq!(server.count("accepts"), 1, "no thread is free");
    drop(first);
    for served in 0..4 {
        assert_eq!(clients[0].reply().text(), HELLO);
        if served == 0 {
            assert_eq!(server.count("accepts"), 3, "two at a time");
            clients[1].expect_silence(50);
        }
        drop(clients.remove(0));
    }
    assert_eq!(server.count("accepts_per_phase_max"), 2);
}

/// Helpers send files, and wait for clients that read slowly; a client that reads nothing keeps none.
fn helpers_send_files(_: &Variant) {
    for send in ["non-blocking", "blocking"] {
        let config =
            "[user_threads]\nhelpers_send = true\n[amped]\nhelpers = 2\n[tcp]\nsend_buffer = '64 KiB'";
        let server = Setup::new(&ONE).argument(format!("--send={send}")).config(config).start();
        let large = server.get("/large.bin");
        assert_eq!(large.body.len(), LARGE);
        assert!(server.count("helper_jobs/send") >= 1, "{send}");
        let mut idle: Vec<_> = (0..4).map(|_| server.connect_narrow()).collect();
        for client in &mut idle {
            client.ask("GET", "/large.bin", &[]);
        }
        for _ in 0..4 {
            assert_eq!(server.get("/large.bin").body, large.body, "{send}");
        }
        for client in &mut idle {
            assert_eq!(client.reply().body, large.body, "{send}");
        }
    }
}

/// What one thread has left half done ends with its worker. The message says why, and others are served.
fn a_thread_that_fails_ends_its_worker_and_harms_no_other(_: &Variant) {
    for (fault, said) in [
        ("user-thread overrun once", "a user-level thread has overrun its stack"),
        ("user-thread panic once", "a thread has panicked"),
    ] {
        let setup = Setup::new(&ONE);
        let order = setup.directory().join("fault");
        let mut command = setup.command();
        command.env("SLUICE_TEST_FAULT", &order);
        let server = setup.start_as(command);
        assert_eq!(server.get("/hello.txt").text(), HELLO);
        let before = server.workers();
        fs::write(&order, fault).expect("a file");
        let mut client = server.connect();
        client.ask("GET", "/hello.txt", &[]);
        client.expect_end();
        server.wait_for_line(|line| line.contains(said));
        eventually("another worker serves", || !order.exists() && server.workers() != before);
        assert_eq!(server.get("/hello.txt").text(), HELLO, "{fault}");
    }
}

/// 19,500 connections in one process, where it may have 20,000 descriptors, and a reply for each: idle, with
/// half a request, and with a stack each.
fn as_many_as_descriptors_allow(_: &Variant) {
    let limit = usize::try_from(raise_descriptor_limit()).unwrap_or(usize::MAX);
    let each = 9_750.min(limit.saturating_sub(500) / 2);
    for keep_stack in [false, true] {
        let places = format!("max_connections = {}\n", 2 * each + 10);
        let more = "[files]\nmax_open = 100\n[timeouts]\nheader = '60 s'\nidle = '60 s'\n";
        let threads = format!("[user_threads]\nkeep_stack = {keep_stack}");
        let server = Setup::new(&ONE).config(&(places + more + &threads)).start();
        let mut held = Held::connect(server.address, each);
        held.ask("/hello.txt", HELLO);
        let count = 2 * each as u64;
        eventually("all are idle", || server.count("connections/idle") == count);
        assert_eq!((server.count("replies/2xx"), server.count("connections_closed")), (count, 0));
        let busy = if keep_stack { count } else { 0 };
        eventually("all are silent", || server.count("user_threads_busy") == busy);
        let bytes = server.count("connection_bytes");
        assert!((100..450).contains(&bytes), "{bytes}");
        held.leave();
        eventually("all are gone", || server.count("connections_closed") == count);
        eventually("no thread has a client", || server.count("user_threads_busy") == 0);
    }
}
