//! What an application is told.

use harness::client::post;
use harness::scripted_http;
use harness::server::Setup;
use harness::variant::{Test, Variant, tests};

use crate::pool;

pub(super) const TESTS: &[Test] = tests![
    Drivers: a_request_is_passed_on, bodies_have_a_length;
    Three: fields_about_connections_stay_here;
];

/// An application that answers with what it was told: the request line, the fields, and the body.
fn told(variant: &Variant, more: &str) -> harness::server::Server {
    let setup = Setup::new(variant);
    let socket = scripted_http::start(setup.directory(), "app.sock", |asked| {
        let mut told = format!("{}\n{}\n\n", asked.line, asked.fields.join("\n")).into_bytes();
        told.extend_from_slice(&asked.body);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", told.len());
        asked.say(head) && asked.say(told)
    });
    setup.config(&pool(&socket, more)).start()
}

fn a_request_is_passed_on(variant: &Variant) {
    let server = told(variant, "");
    let mut client = server.connect();
    let reply = client.fetch("GET", "/app/%61//x?a=%20b", &[("Accept", "text/x"), ("Cookie", "a=1")]);
    let text = reply.text();
    assert!(text.starts_with("GET /app/%61//x?a=%20b HTTP/1.1\n"), "{text}");
    let scheme = if variant.speaks_tls() { "https" } else { "http" };
    for line in [
        "Host: test",
        "Accept: text/x",
        "Cookie: a=1",
        "X-Forwarded-For: 127.0.0.1",
        &format!("X-Forwarded-Proto: {scheme}"),
        "X-Forwarded-Host: test",
        &format!("Forwarded: for=127.0.0.1;proto={scheme};host=\"test\""),
    ] {
        assert_eq!(text.lines().filter(|other| *other == line).count(), 1, "{line} in {text}");
    }
    // The target's host counts, and the application gets the path alone.
    client.send("OPTIONS http://other.example/app/x?y HTTP/1.1\r\nHost: other.example\r\n\r\n");
    let text = client.reply().text();
    assert!(text.starts_with("OPTIONS /app/x?y HTTP/1.1\nHost: other.example\n"), "{text}");
}

fn bodies_have_a_length(variant: &Variant) {
    let server = told(variant, "");
    let mut client = server.connect();
    for size in [0, 1, 5000, 70_000, 3_000_000] {
        let body = harness::site::pattern(size as u64, size);
        client.send(post("/app/x", &body));
        let reply = client.reply();
        let length = format!("\nContent-Length: {size}\n");
        let head = reply.body.windows(length.len()).any(|part| part == length.as_bytes());
        assert!(head && reply.body.ends_with(&body), "{size} bytes");
    }
    client.send(
        "POST /app/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    );
    let text = client.reply().text();
    assert!(text.contains("\nContent-Length: 5\n") && text.ends_with("\n\nabcde"), "{text}");
}

/// And those by which a client could pose as a proxy, or as one with a field of another name.
fn fields_about_connections_stay_here(variant: &Variant) {
    let server = told(variant, "host = 'app.example:8080'");
    let text = server.fetch(
        "GET",
        "/app/x",
        &[
            ("Connection", "keep-alive, X-Mine"),
            ("X-Mine", "1"),
            ("Keep-Alive", "timeout=1"),
            ("TE", "trailers"),
            ("Upgrade", "websocket"),
            ("Proxy", "http://evil"),
            ("Proxy-Connection", "close"),
            ("Proxy-Authorization", "x"),
            ("Expect", "100-continue"),
            ("X-Forwarded-For", "6.6.6.6"),
            ("X-Forwarded-Prefix", "/evil"),
            ("X_Forwarded_For", "6.6.6.6"),
            ("Forwarded", "for=6.6.6.6"),
            ("X-Real-IP", "6.6.6.6"),
            ("X-Sendfile-Type", "X-Accel-Redirect"),
            ("X-Yours", "2"),
        ],
    );
    let text = text.text();
    // Where a worker serves one client at a time, it keeps no connection to the application.
    let lines = text.lines().skip(1).filter(|line| *line != "Connection: close");
    let names: Vec<_> = lines.filter_map(|line| line.split_once(": ")).map(|of| of.0).collect();
    let expected =
        ["Host", "X-Yours", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded"];
    assert_eq!(names, expected, "{text}");
    assert!(text.contains("\nHost: app.example:8080\n") && !text.contains("6.6.6.6"), "{text}");
}
