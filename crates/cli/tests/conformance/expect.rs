//! Expectations (RFC 9110 section 10.1.1).

use harness::server::Server;
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Drivers: body_anyway;
    Three: final_status_at_once, without_a_body, members, unknown_expectation, old_clients;
];

/// Nobody wants the body, so the client is told so instead of `100 (Continue)`. As it may or may not send the
/// body then, the connection ends.
fn final_status_at_once(variant: &Variant) {
    let server = Server::start(variant);
    for framing in ["Content-Length: 1000000", "Transfer-Encoding: chunked"] {
        for expect in ["100-continue", "100-Continue"] {
            let mut client = server.connect();
            client
                .send(format!("PUT /hello.txt HTTP/1.1\r\nHost: x\r\n{framing}\r\nExpect: {expect}\r\n\r\n"));
            let reply = client.reply();
            assert_eq!((reply.status, reply.closes()), (405, true), "{framing}, {expect}");
            client.expect_close();
        }
    }
}

fn without_a_body(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for _ in 0..2 {
        for fields in
            [&[("Expect", "100-continue")][..], &[("Expect", "100-continue"), ("Content-Length", "0")]]
        {
            let reply = client.fetch("GET", "/hello.txt", fields);
            assert_eq!((reply.status, reply.closes(), reply.text().as_str()), (200, false, HELLO));
        }
    }
}

/// The field is a list, of which empty members mean nothing (section 5.6.1.2).
fn members(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for expect in ["", ",", " , ,", ", 100-continue", "100-continue ,, 100-Continue,"] {
        let reply = client.fetch("GET", "/hello.txt", &[("Expect", expect)]);
        assert_eq!((reply.status, reply.closes()), (200, false), "{expect:?}");
    }
    for (expect, closes) in [(",", false), ("100-continue,", true)] {
        let reply =
            server.fetch("PUT", "/hello.txt", &[("Expect", expect), ("Transfer-Encoding", "chunked")]);
        assert_eq!((reply.status, reply.closes()), (405, closes), "{expect:?}");
    }
}

fn unknown_expectation(variant: &Variant) {
    let server = Server::start(variant);
    for expect in
        ["something-else", "100-continue, more", "100-continue=x", "100-continue;x", "\"100-continue\""]
    {
        let reply = server.fetch("GET", "/hello.txt", &[("Expect", expect)]);
        assert_eq!((reply.status, reply.closes()), (417, true), "{expect:?}");
    }
}

/// A client of 1.0 does not know interim replies.
fn old_clients(variant: &Variant) {
    let server = Server::start(variant);
    let reply = server.one("POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(reply.status, 405);
}

/// A client that got tired of waiting, or never waited.
fn body_anyway(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    let body = "x".repeat(100_000);
    client.send(format!(
        "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(client.reply().status, 405);
    client.expect_close();
}
