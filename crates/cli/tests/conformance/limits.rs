//! Bounds on what one request may ask for, each with its own status.

use harness::client::{Broken, Reply};
use harness::server::Server;
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Drivers: head_size, endless_head;
    Three: request_line, endless_request_line, field_count, limits_by_choice;
];

/// A GET of `/` whose request line, line end included, has that many bytes.
fn line_of(bytes: usize) -> String {
    let rest = "GET /? HTTP/1.1\r\n".len();
    format!("GET /?{} HTTP/1.1\r\n", "x".repeat(bytes - rest))
}

#[track_caller]
fn closing(server: &Server, bytes: impl AsRef<[u8]>) -> Reply {
    let mut client = server.connect();
    // The server may have said what it thinks before it has seen it all.
    client.try_send(bytes);
    let reply = client.reply();
    assert!(reply.closes(), "{reply:?}");
    client.half_close();
    assert!(matches!(client.try_reply(), Err(Broken::Closed | Broken::Reset)));
    reply
}

fn request_line(variant: &Variant) {
    let server = Server::start(variant);
    assert_eq!(server.one(line_of(8 << 10) + "Host: x\r\n\r\n").status, 200);
    assert_eq!(closing(&server, line_of((8 << 10) + 1) + "Host: x\r\n\r\n").status, 414);
    assert_eq!(server.get("/hello.txt").status, 200);
}

fn endless_request_line(variant: &Variant) {
    let server = Server::start(variant);
    assert_eq!(closing(&server, format!("GET /{}", "x".repeat(1 << 20))).status, 414);
    let reply = closing(&server, "x".repeat(1 << 20));
    assert!(matches!(reply.status, 400 | 414), "{reply:?}");
}

/// A request whose head has that many bytes.
fn head_of(bytes: usize) -> String {
    let start = "GET / HTTP/1.1\r\nHost: x\r\nX: ";
    format!("{start}{}\r\n\r\n", "x".repeat(bytes - start.len() - 4))
}

fn head_size(variant: &Variant) {
    let server = Server::start(variant);
    assert_eq!(server.one(head_of(32 << 10)).status, 200);
    assert_eq!(closing(&server, head_of((32 << 10) + 1)).status, 431);
    // Behind a request the bound is the same.
    let mut client = server.connect();
    client.send(head_of(32 << 10).repeat(3));
    assert_eq!([client.reply().status, client.reply().status, client.reply().status], [200; 3]);
}

fn endless_head(variant: &Variant) {
    let server = Server::start(variant);
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "x".repeat(1 << 20));
    assert_eq!(closing(&server, head).status, 431);
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{}", "X: y\r\n".repeat(100_000));
    assert_eq!(closing(&server, head).status, 431);
}

fn field_count(variant: &Variant) {
    let server = Server::start(variant);
    let head = |fields: usize| format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(fields - 1));
    assert_eq!(server.one(head(100)).status, 200);
    assert_eq!(closing(&server, head(101)).status, 431);
}

fn limits_by_choice(variant: &Variant) {
    let config = "[limits]\nrequest_line = 256\nheader_size = \"1 KiB\"\nheader_count = 2";
    let server = Server::with(variant, config);
    assert_eq!(server.one(line_of(256) + "Host: x\r\n\r\n").status, 200);
    assert_eq!(closing(&server, line_of(257) + "Host: x\r\n\r\n").status, 414);
    assert_eq!(server.one(head_of(1024)).status, 200);
    assert_eq!(closing(&server, head_of(1025)).status, 431);
    assert_eq!(server.one("GET / HTTP/1.1\r\nHost: x\r\nX: y\r\n\r\n").status, 200);
    assert_eq!(closing(&server, "GET / HTTP/1.1\r\nHost: x\r\nX: y\r\nY: z\r\n\r\n").status, 431);
}
