//! Applications that answer anything: 502, or a reset, and never the bytes of another client.

use harness::client::Broken;
use harness::scripted_http;
use harness::server::Setup;
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

use crate::pool;

pub(super) const TESTS: &[Test] = tests![
    Drivers: applications_that_break, an_application_that_is_silent, early_replies;
];

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// The status, or 0 for a reply that ends in a reset.
fn applications_that_break(variant: &Variant) {
    const CASES: &[(&str, &str, u16)] = &[
        ("close", "", 502),
        ("half a line", "HTTP/1.", 502),
        ("half a head", "HTTP/1.1 200 OK\r\nContent-Le", 502),
        ("garbage", "garbage\r\n\r\n", 502),
        ("an old protocol", "ICY 200 OK\r\n\r\n", 502),
        ("a later protocol", "HTTP/2.0 200 OK\r\n\r\n", 502),
        ("a low status", "HTTP/1.1 099 Low\r\n\r\n", 502),
        ("a long status", "HTTP/1.1 2000 High\r\n\r\n", 502),
        ("a line feed alone", "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", 502),
        ("a carriage return alone", "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", 502),
        ("a nul", "HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", 502),
        ("a folded line", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", 502),
        ("a blank in a name", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n", 502),
        ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 502),
        (
            "length and chunks",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            502,
        ),
        ("a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 502),
        ("another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 502),
        ("a bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 0),
        ("a switch", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", 502),
        ("too short", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwell", 0),
        ("a chunk too few", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwell\r\n", 0),
        ("too long", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell, and more", 200),
        (
            "two replies",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell\
             HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            200,
        ),
    ];
    let setup = Setup::new(variant);
    let socket = scripted_http::start(setup.directory(), "app.sock", |asked| {
        let how = asked.query();
        if how == "a long head" {
            asked.say(format!("{OK}A: {}\r\n\r\n", "x".repeat(100_000)));
            return false;
        }
        let (_, reply, _) = CASES.iter().find(|(name, ..)| *name == how).expect("a case");
        asked.say(reply);
        // Whoever waits for more than it sends must not do so for ever.
        false
    });
    let server = setup.config(&pool(&socket, "")).start();
    let long = [("a long head", "", 502)];
    for (how, _, status) in CASES.iter().chain(&long) {
        let mut client = server.connect();
        client.ask("GET", &format!("/app/?{}", how.replace(' ', "-")), &[]);
        match client.try_reply() {
            Ok(reply) => {
                assert!(reply.status == *status || (reply.status, *status) == (502, 0), "{how}: {reply:?}");
                assert!(*status != 200 || reply.text() == "well", "{how}: {reply:?}");
                assert_eq!(client.get("/hello.txt").text(), HELLO, "{how}");
            }
            Err(broken) => assert_eq!(*status, 0, "{how}: {broken:?}"),
        }
    }
    let failures = CASES.iter().chain(&long).filter(|(.., status)| *status != 200).count() as u64;
    assert_eq!(server.pool_count("failures"), failures);
    assert_eq!(server.pool_count("clients_left"), 0);
}

fn an_application_that_is_silent(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = scripted_http::start(setup.directory(), "app.sock", |asked| {
        if asked.query() == "begun" {
            asked.say(format!("{OK}Content-Length: 10\r\n\r\nbegun"));
        }
        asked.wait_for_end();
        false
    });
    let server = setup.config(&pool(&socket, "timeout = '300 ms'")).start();
    assert_eq!(server.get("/app/?nothing").status, 504);
    let mut client = server.connect();
    client.ask("GET", "/app/?begun", &[]);
    assert!(matches!(client.try_reply(), Err(Broken::Reset | Broken::CutShort(_))));
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

/// An application that answers before it has read the request, and closes.
fn early_replies(variant: &Variant) {
    use std::io::Write;
    let setup = Setup::new(variant);
    let path = setup.directory().join("app.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let reply = "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge";
            let _ = stream.write_all(reply.as_bytes());
            // The rest of the request is lost.
            harness::sleep_ms(50);
        }
    });
    let server = setup.config(&pool(&path, "")).start();
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(harness::client::post("/app/x", &vec![b'x'; 1_000_000]));
        let reply = client.reply();
        assert!([413, 502].contains(&reply.status), "{reply:?}");
    }
}
