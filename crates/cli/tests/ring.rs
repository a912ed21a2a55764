//! A ring and its clients: whatever they do, no operation of theirs is left over, no buffer, and no open
//! file. `RING_SECONDS` says for how long random clients come; 3 by default. For more than five minutes, run
//! the test program itself: nextest ends a test after that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::client::Client;
use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE};
use harness::variant::Variant;
use harness::{Random, eventually, sleep_ms};

const URING: Variant = Variant { name: "uring", options: &["--architecture=uring", "--workers=1"] };
/// Everything that is off by default.
const OPTIONS: Variant = Variant { name: "uring_options", options: URING.options };
const GET: &str = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n";
/// Goes through the ring, and is more than a socket with little room takes.
const TWELVE: usize = 12 << 10;

/// Operations under way while there are no clients: the watches of listeners and of this worker's own
/// descriptors. The status counts as of the worker's last turn.
fn in_flight(server: &Server) -> u64 {
    server.count("ring_in_flight")
}

/// A client that does one of many things, and goes.
fn visit(server: &Server, random: &mut Random) {
    let mut client = if random.below(2) == 0 { server.connect() } else { server.connect_narrow() };
    match random.below(9) {
        0 => assert_eq!(client.get("/hello.txt").text(), HELLO),
        1 => client.send(&GET[..random.below(GET.len())]),
        2 => {
            client.send(GET.repeat(5));
            (0..random.below(6)).for_each(|_| assert_eq!(client.reply().text(), HELLO));
        }
        3 => {
            client.ask("GET", "/large.bin", &[]);
            let _ = client.read_raw(1 + random.below(4096));
        }
        4 => {
            client.ask("GET", "/large.bin", &[]);
            let _ = client.read_raw(1);
            client.reset();
        }
        5 => {
            client.send(GET);
            client.half_close();
            assert_eq!(client.reply().text(), HELLO);
            client.expect_end();
        }
        6 => {
            client.ask("GET", "/hello.txt", &[("Connection", "close")]);
            assert_eq!(client.reply().text(), HELLO);
            client.expect_end();
        }
        7 => {
            client.send(GET.repeat(3));
            client.reset();
        }
        _ => {
            let body = random.below(20_000);
            client.send(format!("POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: {body}\r\n\r\n"));
            client.try_send(random.bytes(body / 2));
        }
    }
}

#[test]
fn nothing_is_left_over_when_random_clients_have_gone() {
    random_clients_leave_nothing(&URING);
}

#[test]
fn nothing_is_left_over_with_all_options() {
    random_clients_leave_nothing(&OPTIONS);
}

fn random_clients_leave_nothing(variant: &Variant) {
    let seconds = std::env::var("RING_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let server = Server::start(variant);
    server.warm_up();
    assert_eq!(server.get("/large.bin").body.len(), LARGE);
    eventually("the first clients have gone", || {
        server.count("connections_opened") == server.count("connections_closed")
    });
    let (before, descriptors) = (in_flight(&server), server.descriptors());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 1..=8 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut random = Random(seed);
                while !is_over.load(Ordering::Relaxed) {
                    visit(server, &mut random);
                }
            });
        }
        thread::sleep(Duration::from_secs(seconds));
        is_over.store(true, Ordering::Relaxed);
    });
    eventually("all clients have gone", || {
        server.count("connections_opened") == server.count("connections_closed")
    });
    eventually("no operation is left over", || {
        // The status is that of the last turn, and this is a turn.
        assert_eq!(server.get("/hello.txt").text(), HELLO);
        server.count("connections_opened") == server.count("connections_closed")
            && in_flight(&server) <= before
    });
    eventually("no file is left open", || server.descriptors() <= descriptors);
    assert_eq!(server.count("restarts"), 0);
}

/// The ring sends a small reply that its client does not take.
fn server_with_a_slow_client(config: &str) -> (Server, Client) {
    let setup = Setup::new(&URING).config(&format!("{config}\n[tcp]\nsend_buffer = '4 KiB'\n"));
    let server = setup.file("twelve.bin", vec![7; TWELVE]).start();
    let mut client = server.connect_narrow();
    // What the kernel holds for a client that reads nothing is more than one such reply.
    for _ in 0..400 {
        if !client.try_send("GET /twelve.bin HTTP/1.1\r\nHost: a\r\n\r\n") {
            break;
        }
    }
    eventually("a reply stays in the ring", || {
        let sends = server.count("ring_operations/send");
        sleep_ms(50);
        sends > 0 && server.count("ring_operations/send") == sends
    });
    (server, client)
}

#[test]
fn a_client_may_go_while_the_ring_sends_to_it() {
    let (server, client) = server_with_a_slow_client("");
    client.reset();
    eventually("it has gone", || server.count("connections_opened") == server.count("connections_closed"));
    assert_eq!(server.get("/large.bin").body.len(), LARGE);
}

#[test]
fn a_client_that_takes_nothing_is_given_up_in_time() {
    let (server, _client) = server_with_a_slow_client("[timeouts]\nwrite = '1 s'\n");
    eventually("it is given up", || server.count("timeouts/write") == 1);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

#[test]
fn a_slow_client_gets_everything() {
    let (server, mut client) = server_with_a_slow_client("");
    for _ in 0..3 {
        assert_eq!(client.reply().body, vec![7; TWELVE]);
    }
    drop(client);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

/// What is not copied is released when the client has it, and other requests go on meanwhile.
#[test]
fn replies_that_are_not_copied_come_whole() {
    let setup = Setup::new(&OPTIONS).file("twelve.bin", vec![7; TWELVE]);
    let server = setup.start();
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/twelve.bin").body, vec![7; TWELVE]);
        assert_eq!(client.get("/hello.txt").text(), HELLO);
        assert_eq!(client.get("/large.bin").body.len(), LARGE);
    }
    drop(client);
    assert!(server.count("ring_operations/register") > 0);
    eventually("all is released", || {
        assert_eq!(server.get("/hello.txt").text(), HELLO);
        server.count("connections_opened") == server.count("connections_closed")
    });
}

/// Less than one call for a request, when clients come together.
#[test]
fn one_call_does_the_work_of_many_clients() {
    let server = Server::start(&URING);
    let mut clients: Vec<_> = (0..64).map(|_| server.connect()).collect();
    let calls = || (server.count("ring_enters"), server.count("requests"));
    let (enters, requests) = calls();
    for _ in 0..20 {
        for client in &mut clients {
            client.send(GET);
        }
        for client in &mut clients {
            assert_eq!(client.reply().text(), HELLO);
        }
    }
    let (enters, requests) = (calls().0 - enters, calls().1 - requests);
    assert!(requests >= 64 * 20 && enters < 2 * requests, "{enters} calls for {requests} requests");
}
