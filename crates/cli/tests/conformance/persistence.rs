//! Connections that live on (RFC 9112 section 9): keep-alive, pipelining, close, and who may close when.

use harness::client::{Broken, request};
use harness::server::Server;
use harness::site::{HELLO, INDEX, large};
use harness::variant::{Test, Variant, tests};
use harness::{Random, sleep_ms};

pub(crate) const TESTS: &[Test] = tests![
    Each:
        replies_that_keep_the_connection,
        pipelining,
        pipelining_in_odd_pieces,
        pipelining_by_a_slow_reader,
        half_closed_clients_are_answered,
        half_close_after_a_large_request,
        last_reply_is_not_destroyed,
        bytes_behind_the_last_request;
    Drivers: http11_persists, http11_close, nothing_after_close, request_cap;
    Three: http10_closes, http10_keep_alive, connection_options;
];

fn http11_persists(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for _ in 0..200 {
        let reply = client.get("/hello.txt");
        assert_eq!((reply.status, reply.closes(), reply.text().as_str()), (200, false, HELLO));
    }
    assert_eq!(server.count("accepts"), 1);
}

fn http11_close(variant: &Variant) {
    let server = Server::start(variant);
    for target in ["/hello.txt", "/large.bin", "/nothing", "/dir"] {
        let mut client = server.connect();
        let reply = client.fetch("GET", target, &[("Connection", "close")]);
        assert!(reply.closes(), "{target}: {reply:?}");
        client.expect_close();
    }
}

fn http10_closes(variant: &Variant) {
    let server = Server::start(variant);
    for target in ["/hello.txt", "/large.bin", "/nothing"] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
        let reply = client.reply();
        assert!(!reply.list("Connection").contains(&"keep-alive".to_owned()), "{reply:?}");
        client.expect_close();
    }
}

fn http10_keep_alive(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for _ in 0..3 {
        client.send("GET /hello.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
        let reply = client.reply();
        assert_eq!(reply.need("Connection").to_ascii_lowercase(), "keep-alive");
        assert_eq!(reply.text(), HELLO);
    }
    client.send("GET /hello.txt HTTP/1.0\r\n\r\n");
    assert_eq!(client.reply().status, 200);
    client.expect_close();
}

fn connection_options(variant: &Variant) {
    let server = Server::start(variant);
    for (fields, closes) in [
        ("Connection: CLOSE", true),
        ("Connection: foo, Close", true),
        ("Connection: close ,foo", true),
        ("Connection: foo\r\nConnection: close", true),
        ("Connection: keep-alive, close", true),
        ("Connection: keep-alive", false),
        ("Connection: closed", false),
        ("Connection: ,,", false),
        ("Connection:", false),
        ("Keep-Alive: timeout=5", false),
    ] {
        let mut client = server.connect();
        client.send(format!("GET /hello.txt HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n"));
        let reply = client.reply();
        assert_eq!((reply.status, reply.closes()), (200, closes), "{fields:?}");
        if closes {
            client.expect_close();
        } else {
            assert_eq!(client.get("/hello.txt").status, 200, "{fields:?}");
        }
    }
}

/// An error that leaves no doubt about where the next request begins is no reason to close.
fn replies_that_keep_the_connection(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    let asked = [
        ("GET", "/nothing", 404),
        ("GET", "/dir", 301),
        ("DELETE", "/hello.txt", 405),
        ("HEAD", "/hello.txt", 200),
        ("HEAD", "/nothing", 404),
        ("GET", "/empty.txt", 200),
        ("GET", "/large.bin", 200),
    ];
    for (method, target, status) in asked {
        let reply = client.fetch(method, target, &[]);
        let expected = if reply.status == 308 { 301 } else { reply.status };
        assert_eq!((expected, reply.closes()), (status, false), "{method} {target}");
    }
    assert_eq!(client.fetch("GET", "/hello.txt", &[("If-None-Match", "*")]).status, 304);
    assert_eq!(client.fetch("GET", "/hello.txt", &[("Range", "bytes=100-")]).status, 416);
    assert_eq!(client.fetch("GET", "/hello.txt", &[("If-Match", "\"x\"")]).status, 412);
    assert_eq!(client.get("/").text(), INDEX);
}

fn pipelining(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    let kinds = [
        ("GET", "/hello.txt"),
        ("HEAD", "/large.bin"),
        ("GET", "/nothing"),
        ("GET", "/large.bin"),
        ("GET", "/"),
    ];
    let asked: Vec<_> = kinds.iter().cycle().take(100).collect();
    let text: String = asked.iter().map(|(method, target)| request(method, target, &[])).collect();
    client.send(text);
    let large = large();
    for (method, target) in asked {
        let reply = client.reply_to(method);
        match (*method, *target) {
            ("HEAD", _) => assert_eq!(reply.need("Content-Length"), large.len().to_string()),
            (_, "/hello.txt") => assert_eq!(reply.text(), HELLO),
            (_, "/large.bin") => assert!(reply.body == large),
            (_, "/") => assert_eq!(reply.text(), INDEX),
            _ => assert_eq!(reply.status, 404),
        }
    }
    client.expect_silence(20);
}

fn pipelining_in_odd_pieces(variant: &Variant) {
    let server = Server::start(variant);
    let mut random = Random(7);
    for round in 0..20 {
        let mut client = server.connect();
        let text = "GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n\
            POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nGET / HT\
            POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n\
            GET /dir/ HTTP/1.1\r\nHost: x\r\n\r\n"
            .repeat(5);
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (piece, others) = rest.split_at((1 + random.below(90)).min(rest.len()));
            client.send(piece);
            rest = others;
            if random.below(4) == 0 {
                sleep_ms(1);
            }
        }
        let statuses: Vec<u16> = (0..20).map(|_| client.reply().status).collect();
        assert_eq!(statuses, [200, 405, 405, 200].repeat(5), "round {round}");
    }
}

/// Replies wait until the client takes them, and requests until then, but none is lost.
fn pipelining_by_a_slow_reader(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = harness::client::Client::connect_narrow(server.address);
    let text = request("GET", "/large.bin", &[]) + &request("GET", "/hello.txt", &[]);
    client.send(text.repeat(10));
    sleep_ms(100);
    let large = large();
    for _ in 0..10 {
        assert!(client.reply().body == large);
        assert_eq!(client.reply().text(), HELLO);
    }
}

fn nothing_after_close(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    client
        .send(request("GET", "/hello.txt", &[("Connection", "close")]) + &request("GET", "/", &[]).repeat(5));
    let (replies, end) = client.replies_until_end();
    assert_eq!((replies.len(), end), (1, Broken::Closed));
    assert!(replies[0].closes());
}

fn request_cap(variant: &Variant) {
    let server = Server::with(variant, "[limits]\nrequests_per_connection = 3");
    let mut client = server.connect();
    client.send(request("GET", "/hello.txt", &[]).repeat(5));
    let (replies, end) = client.replies_until_end();
    let closes: Vec<_> = replies.iter().map(|reply| (reply.status, reply.closes())).collect();
    assert_eq!((closes, end), (vec![(200, false), (200, false), (200, true)], Broken::Closed));
}

fn half_closed_clients_are_answered(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    client.send(request("GET", "/large.bin", &[]) + &request("GET", "/hello.txt", &[]));
    client.half_close();
    assert!(client.reply().body == large());
    assert_eq!(client.reply().text(), HELLO);
    client.expect_close();
}

fn half_close_after_a_large_request(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    let body = "x".repeat(500_000);
    client.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    client.send(request("GET", "/hello.txt", &[]));
    client.half_close();
    assert_eq!([client.reply().status, client.reply().status], [405, 200]);
    client.expect_close();
}

/// A connection that is closed with bytes unread is reset, and the reset can overtake the reply: the server
/// has to wait for the client's end (section 9.6).
fn last_reply_is_not_destroyed(variant: &Variant) {
    let server = Server::start(variant);
    for _ in 0..20 {
        let mut client = server.connect();
        client.send("BAD\r\n\r\n");
        let junk = vec![b'x'; 200_000];
        client.send(&junk);
        sleep_ms(5);
        client.send(&junk);
        client.half_close();
        let reply = client.reply();
        assert_eq!((reply.status, reply.closes()), (400, true));
        client.expect_close();
    }
}

/// The same for bytes behind a request that was said to be the last, whether they come with it or while the
/// reply is on its way: the client is slow, and the kernel takes little of it.
fn bytes_behind_the_last_request(variant: &Variant) {
    let server = Server::with(variant, "[tcp]\nsend_buffer = \"32 KiB\"");
    let large = large();
    let last = [
        "GET /large.bin HTTP/1.0\r\n\r\n",
        "GET /large.bin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ];
    for (at_once, later) in [(0, 2), (2, 0), (2, 2), (200_000, 0), (0, 200_000)] {
        for request in last {
            let mut client = harness::client::Client::connect_narrow(server.address);
            client.send([request.as_bytes(), &vec![b'\n'; at_once]].concat());
            sleep_ms(20);
            client.send(vec![b'\n'; later]);
            sleep_ms(20);
            assert!(
                client.reply().body == large,
                "{at_once} bytes at once, {later} later, behind {request:?}"
            );
            client.half_close();
            client.expect_close();
        }
    }
}
