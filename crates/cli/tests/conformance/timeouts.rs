//! How long a client may take, and how slow it may be. The times are short here; upper bounds are generous,
//! as the machine may be busy.

use harness::client::{Broken, Client, request, time};
use harness::server::Server;
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{TIMEOUT, eventually, sleep_ms};

pub(crate) const TESTS: &[Test] = tests![
    // A time limit becomes a wait in another way with each event mechanism.
    Each: silent_connection, idle_connection, reader_that_stops;
    Drivers:
        dribbled_head,
        dribbled_second_head,
        busy_connection_is_not_idle,
        slow_body,
        steady_body,
        reader_that_trickles,
        steady_reader,
        lingering_has_an_end,
        silence_after_a_timeout_has_an_end;
];

const SHORT: &str = "
    [tcp]
    send_buffer = \"64 KiB\"
    [timeouts]
    header = \"300 ms\"
    body = \"300 ms\"
    body_min_rate = 2000
    write = \"300 ms\"
    write_min_rate = \"50 KB\"
    idle = \"300 ms\"
    linger = \"300 ms\"
";

/// The time for a head is that for a handshake as well, in which both ends compute and wait for each other.
fn short(variant: &Variant) -> String {
    let header = if variant.speaks_tls() { "header = \"2 s\"" } else { "header = \"300 ms\"" };
    SHORT.replace("header = \"300 ms\"", header)
}

/// Sends a byte now and then until the connection ends, and tells what came.
fn dribble(client: &mut Client, bytes: &[u8]) -> Result<u16, Broken> {
    let mut sent = 0;
    let took = time(|| {
        for byte in bytes.iter().cycle() {
            if !client.try_send([*byte]) || sent > 500 {
                break;
            }
            sent += 1;
            match client.try_reply_within(std::time::Duration::from_millis(20)) {
                Err(Broken::Silent) => {}
                _ => break,
            }
        }
    });
    assert!(took < TIMEOUT, "it went on and on");
    assert!(sent <= 500, "it went on and on");
    client.try_reply().map(|reply| reply.status)
}

#[track_caller]
fn told_or_closed(client: &mut Client) {
    match client.try_reply() {
        Ok(reply) => assert_eq!((reply.status, reply.closes()), (408, true)),
        Err(broken) => assert_eq!(broken, Broken::Closed),
    }
}

fn silent_connection(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    let mut client = server.connect();
    let took = time(|| told_or_closed(&mut client));
    assert!(took.as_millis() >= 200, "{took:?}");
    assert_eq!(server.count("timeouts/header"), 1);
}

fn dribbled_head(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    let mut client = server.connect();
    let head = [b"GET / HTTP/1.1\r\nHost: x\r\nX: ".as_slice(), &[b'x'; 1000]].concat();
    let end = dribble(&mut client, &head);
    assert!(!matches!(end, Err(Broken::Silent)), "{end:?}");
    assert_eq!(server.count("timeouts/header"), 1);
    assert_eq!(server.count("replies_by_code/408"), 1, "{end:?}");
}

fn dribbled_second_head(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").status, 200);
    let end = dribble(&mut client, b"GET /xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    assert!(!matches!(end, Err(Broken::Silent)), "{end:?}");
    assert_eq!(server.count("timeouts/header"), 1);
}

fn idle_connection(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").status, 200);
    let took = time(|| client.expect_close());
    assert!(took.as_millis() >= 200, "{took:?}");
    assert_eq!(server.count("timeouts/idle"), 1);
}

fn busy_connection_is_not_idle(variant: &Variant) {
    let server = Server::with(variant, "[timeouts]\nidle = \"1 s\"\nheader = \"1 s\"");
    let mut client = server.connect();
    for _ in 0..15 {
        assert_eq!(client.get("/hello.txt").status, 200);
        sleep_ms(100);
    }
}

fn slow_body(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
    assert_eq!(client.reply().status, 405);
    let end = dribble(&mut client, b"x");
    assert!(matches!(end, Err(Broken::Closed | Broken::Reset)), "{end:?}");
    assert_eq!(server.count("timeouts/body"), 1);
}

fn steady_body(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n");
    for _ in 0..50 {
        sleep_ms(20);
        client.send([b'x'; 1000]);
    }
    client.send(request("GET", "/hello.txt", &[]));
    assert_eq!((client.reply().status, client.reply().text().as_str()), (405, HELLO));
}

fn big(server: &Server) -> Vec<u8> {
    let content = pattern(3, 4 << 20);
    server.write("big.bin", &content);
    content
}

fn reader_that_stops(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    big(&server);
    let mut client = Client::connect_narrow(server.address);
    client.ask("GET", "/big.bin", &[]);
    eventually("it is given up", || server.count("timeouts/write") == 1);
    let end = client.try_reply();
    assert!(matches!(end, Err(Broken::Reset | Broken::CutShort(_))), "{end:?}");
}

/// It takes something again and again, but not enough.
fn reader_that_trickles(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    big(&server);
    let mut client = Client::connect_narrow(server.address);
    client.ask("GET", "/big.bin", &[]);
    let mut rounds = 0;
    while server.count("timeouts/write") == 0 {
        rounds += 1;
        assert!(rounds < 400, "it goes on and on");
        let _ = client.read_raw(100);
        sleep_ms(20);
    }
}

fn steady_reader(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    let content = big(&server);
    // Room for two pieces: a client that waits for its CPU now and then still takes what it has to.
    let mut client = Client::connect_with_room(server.address, 60_000).expect("a connection");
    client.ask("GET", "/big.bin", &[("Range", "bytes=0-1499999")]);
    let mut got = Vec::new();
    while got.len() < 1_500_000 {
        let piece = client.read_raw(30_000).expect("it is fast enough");
        assert!(!piece.is_empty(), "cut short at {}", got.len());
        got.extend_from_slice(&piece);
        sleep_ms(20);
    }
    client.unread(got);
    assert!(client.reply().body == content[..1_500_000]);
}

/// The client is told of an error, and goes on sending as if nothing had happened.
fn lingering_has_an_end(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    let mut client = server.connect();
    client.send("BAD\r\n\r\n");
    assert_eq!(client.reply().status, 400);
    let mut rounds = 0;
    while client.try_send("x") {
        rounds += 1;
        assert!(rounds < 500, "it goes on and on");
        sleep_ms(20);
    }
    assert_eq!(server.count("timeouts/linger"), 1);
}

/// Those who were too slow hear of it, fall silent, and never close. Their places come back all the same.
fn silence_after_a_timeout_has_an_end(variant: &Variant) {
    let server = Server::with(variant, &short(variant));
    let begun = ["G", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"];
    let mut slow_heads: Vec<Client> = begun.iter().map(|_| server.connect()).collect();
    let mut slow_body = server.connect();
    for (client, begun) in slow_heads.iter_mut().zip(begun) {
        client.send(begun);
    }
    slow_body.send("GET /hello.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(slow_body.reply().text(), HELLO);
    slow_body.expect_close();
    for client in &mut slow_heads {
        assert_eq!(client.reply().status, 408);
        client.expect_close();
    }
    eventually("their places are free", || {
        server.count("connections_opened") == server.count("connections_closed")
    });
    assert_eq!(server.count("timeouts/linger"), 3);
}
