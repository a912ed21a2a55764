//! The request line (RFC 9112 section 3), and how a message may be cut on its way (section 2.2).

use harness::client::{Broken, Reply};
use harness::server::Server;
use harness::site::HELLO;
use harness::sleep_ms;
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Drivers: byte_by_byte, cut_anywhere, early_end;
    Three:
        both_versions,
        other_versions,
        malformed_lines,
        malformed_targets,
        empty_lines_before_a_request,
        bare_line_ends,
        greeting_of_tls;
];

fn both_versions(variant: &Variant) {
    let server = Server::start(variant);
    for head in ["GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n", "GET /hello.txt HTTP/1.0\r\n\r\n"] {
        let reply = server.one(head);
        assert_eq!(
            (reply.status, reply.reason.as_str(), reply.text().as_str()),
            (200, "OK", HELLO),
            "{head:?}"
        );
    }
}

/// A version that is not 1.x is told so; a minor version that is not known is taken for 1.1 (RFC 9110 section
/// 2.5).
fn other_versions(variant: &Variant) {
    let server = Server::start(variant);
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/3.1"] {
        let reply = server.one(format!("GET /hello.txt {version}\r\nHost: x\r\n\r\n"));
        assert_eq!((reply.status, reply.closes()), (505, true), "{version}");
    }
    let mut client = server.connect();
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        client.send(format!("GET /hello.txt {version}\r\nHost: x\r\n\r\n"));
        let reply = client.reply();
        assert_eq!((reply.status, reply.closes(), reply.text().as_str()), (200, false, HELLO), "{version}");
    }
    assert_eq!(refused(&server, "GET /hello.txt HTTP/1.2\r\n\r\n").status, 400, "without Host");
}

/// The line is refused, and what follows it is not taken for a request.
#[track_caller]
fn refused(server: &Server, bytes: impl AsRef<[u8]>) -> Reply {
    let bytes = bytes.as_ref();
    let mut client = server.connect();
    client.send([bytes, b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n"].concat());
    let (replies, end) = client.replies_until_end();
    let shown = String::from_utf8_lossy(bytes);
    let [reply] = replies.as_slice() else { panic!("{shown:?} got {replies:?}") };
    assert!(reply.closes() && end == Broken::Closed, "{shown:?} got {reply:?}, then {end:?}");
    reply.clone()
}

fn malformed_lines(variant: &Variant) {
    let server = Server::start(variant);
    for line in [
        "GET /hello.txt",
        "GET",
        "GET /hello.txt ",
        "GET  /hello.txt HTTP/1.1",
        "GET /hello.txt  HTTP/1.1",
        " GET /hello.txt HTTP/1.1",
        "GET\t/hello.txt\tHTTP/1.1",
        "GET /hello.txt HTTP/1.1 ",
        "GET /hello.txt http/1.1",
        "GET /hello.txt HTTP/1",
        "GET /hello.txt HTTP/1.1.1",
        "GET /hello.txt HTTP/11",
        "GET /hello.txt HTTP/1.10",
        "GET /hello.txt  HTTP/1.2",
        "GET /hello.txt HTTP/ 1.1",
        "GET /hello.txt HTTP/1.x",
        "GET /hello.txt XTTP/1.1",
        "GET /hello.txt /dir/ HTTP/1.1",
        "G\u{1}T /hello.txt HTTP/1.1",
        "G(T /hello.txt HTTP/1.1",
        "\u{fc}GET /hello.txt HTTP/1.1",
        ": HTTP/1.1",
    ] {
        let reply = refused(&server, format!("{line}\r\nHost: x\r\n\r\n"));
        assert_eq!(reply.status, 400, "{line:?} got {reply:?}");
    }
}

fn malformed_targets(variant: &Variant) {
    let server = Server::start(variant);
    for target in [
        &b"hello.txt"[..],
        b"*",
        b"/hello.txt#part",
        b"/hello\0.txt",
        b"/hello\x7f.txt",
        b"/hello\x0b.txt",
        b"http://",
        b"http:///hello.txt",
        b"http:/hello.txt",
        b"http://user@test/hello.txt",
        b"ftp://test/hello.txt",
        b"://test/hello.txt",
        b"test:80",
        b"http://x:8a/",
        b"http://:80/",
        b"http://[::1/",
        b"http://\xfcber.example/",
    ] {
        let reply = refused(&server, [b"GET ", target, b" HTTP/1.1\r\nHost: x\r\n\r\n"].concat());
        assert_eq!(reply.status, 400, "{:?} got {reply:?}", String::from_utf8_lossy(target));
    }
    // CONNECT is for a host with its port, and for nothing else (section 3.2.3).
    for target in ["/hello.txt", "test", "test:", ":80", "test:8a", "*"] {
        assert_eq!(
            refused(&server, format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n")).status,
            400,
            "{target}"
        );
    }
}

/// Clients of old send one after a body, which is not to be held against them (section 2.2).
fn empty_lines_before_a_request(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for before in ["\r\n", "\r\n\r\n", ""] {
        client.send(format!("{before}GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(client.reply().status, 200);
    }
}

/// A line feed alone ends a line for some, and not for others: what they would disagree on is refused.
fn bare_line_ends(variant: &Variant) {
    let server = Server::start(variant);
    for head in [
        "GET /hello.txt HTTP/1.1\nHost: x\n\n",
        "GET /hello.txt HTTP/1.1\nHost: x\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: x\nX-Y: z\r\n\r\n",
        "GET /hello.txt HTTP/1.1\r\nHost: x\r\n\n\r\n",
        "GET /hello.txt HTTP/1.1\rHost: x\r\n\r\n",
        "GET /hello.txt\r HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        assert_eq!(refused(&server, head).status, 400, "{head:?}");
    }
}

fn byte_by_byte(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for byte in b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n" {
        client.send([*byte]);
        sleep_ms(1);
    }
    assert_eq!(client.reply().text(), HELLO);
}

fn cut_anywhere(variant: &Variant) {
    let server = Server::start(variant);
    let requests = "GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\nHEAD /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut client = server.connect();
    for at in 1..requests.len() {
        client.send(&requests[..at]);
        sleep_ms(1);
        client.send(&requests[at..]);
        let replies = (client.reply().text(), client.reply_to("HEAD").status);
        assert_eq!(replies, (HELLO.to_owned(), 200), "cut at {at}");
    }
}

/// A browser that speaks TLS to the wrong port.
fn greeting_of_tls(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefghijklmnopqrstuvwxyz");
    let reply = client.reply();
    assert_eq!((reply.status, reply.closes()), (400, true));
    client.expect_end();
}

fn early_end(variant: &Variant) {
    let server = Server::start(variant);
    let mut silent = server.connect();
    silent.half_close();
    silent.expect_close();
    let mut broken = server.connect();
    broken.send("GET /hello.txt HTTP/1.1\r\nHos");
    broken.half_close();
    let (replies, end) = broken.replies_until_end();
    assert!(replies.iter().all(|reply| reply.status == 400 && reply.closes()), "{replies:?}");
    assert_eq!(end, Broken::Closed);
    assert_eq!(server.get("/hello.txt").status, 200);
}
