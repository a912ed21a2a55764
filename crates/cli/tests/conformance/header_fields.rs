//! Header fields (RFC 9112 section 5, RFC 9110 section 5), and Host (RFC 9112 section 3.2).

use harness::client::Broken;
use harness::server::Server;
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Three: malformed_fields, unusual_but_right, host_is_needed_once, host_is_checked, hosts_that_are_right;
];

#[track_caller]
fn refused(server: &Server, fields: &[u8]) {
    let shown = String::from_utf8_lossy(fields);
    let mut client = server.connect();
    let next = b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n";
    client.send([b"GET /hello.txt HTTP/1.1\r\n", fields, b"\r\n\r\n", next].concat());
    let (replies, end) = client.replies_until_end();
    let [reply] = replies.as_slice() else { panic!("{shown:?} got {replies:?}") };
    assert!(reply.status == 400 && reply.closes(), "{shown:?} got {reply:?}");
    assert_eq!(end, Broken::Closed, "{shown:?}");
}

fn malformed_fields(variant: &Variant) {
    let server = Server::start(variant);
    for fields in [
        // White space before the colon has led to smuggling and must be refused (section 5.1).
        &b"Host : x"[..],
        b"Host: x\r\nX-Field : y",
        b"Host: x\r\nX-Field\t: y",
        // Line folding is obsolete (section 5.2).
        b"Host: x\r\nX-Field: y\r\n z",
        b"Host: x\r\nX-Field: y\r\n\tz",
        b" Host: x",
        b"\tHost: x",
        b"Host: x\r\nX-Field",
        b"Host: x\r\n: y",
        b"Host: x\r\nX Field: y",
        b"Host: x\r\nX(Field): y",
        b"Host: x\r\nX\xfcField: y",
        b"Host: x\r\nX-\0Field: y",
        b"Host: x\r\nX-Field: a\rb",
        b"Host: x\r\nX-Field: a\0b",
        b"Host: x\r\nX-Field: a\x01b",
        b"Host: x\r\nX-Field: a\x7fb",
        b"Host: x\r\nX-Field: a\r\r\nY: b",
    ] {
        refused(&server, fields);
    }
}

fn unusual_but_right(variant: &Variant) {
    let server = Server::start(variant);
    for fields in [
        &b"hOST: x"[..],
        b"Host:x",
        b"Host: \t x \t ",
        b"Host: x\r\nX-Empty:",
        b"Host: x\r\nX-Empty: \t ",
        b"Host: x\r\nX-Old: \xe4\xf6\xfc\xff",
        b"Host: x\r\nX-Tab: a\tb",
        b"Host: x\r\n!#$%&'*+-.^_`|~09azAZ: token",
        b"Host: x\r\nX-Same: 1\r\nX-Same: 2",
        b"Host: x\r\nAccept: a\r\nAccept: b\r\nCookie: a=b; c=\"d\"\r\nUpgrade: h2c\r\nTE: trailers",
    ] {
        let reply = server.one([b"GET /hello.txt HTTP/1.1\r\n", fields, b"\r\n\r\n"].concat());
        assert_eq!(reply.status, 200, "{:?}", String::from_utf8_lossy(fields));
    }
}

fn host_is_needed_once(variant: &Variant) {
    let server = Server::start(variant);
    for fields in ["X: y", "Host: x\r\nHost: x", "Host: x\r\nhost: y"] {
        refused(&server, fields.as_bytes());
    }
    assert_eq!(server.one("GET /hello.txt HTTP/1.0\r\n\r\n").status, 200);
}

fn host_is_checked(variant: &Variant) {
    let server = Server::start(variant);
    for host in [
        "a b",
        "a/b",
        "user@x",
        "x?y",
        "x#y",
        "x\\y",
        "<x>",
        "a,b c",
        "a:8x",
        "a:80:80",
        "a:-1",
        ":80",
        "a%zz",
        "a%4",
        "[::1",
        "[::1]x",
        "[::1]:x",
        "[zz]",
        "[]",
        "[127.0.0.1]",
        "[::1%25lo]",
        "::1",
        "a[::1]",
        "[v.x]",
        "[v1.x]",
        "\u{fc}ber.example",
    ] {
        refused(&server, format!("Host: {host}").as_bytes());
    }
}

fn hosts_that_are_right(variant: &Variant) {
    let server = Server::start(variant);
    for host in [
        "",
        "x",
        "www.example.org",
        "www.example.org:8080",
        "127.0.0.1:80",
        "[::1]",
        "[::1]:80",
        "[::ffff:127.0.0.1]",
        "x:",
        "a_b~!$&'()*+,;=",
        "%C3%BCber.example",
        "xn--bcher-kva",
    ] {
        assert_eq!(server.one(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).status, 200, "{host:?}");
    }
}
