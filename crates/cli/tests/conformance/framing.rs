//! Where a message ends (RFC 9112 sections 6 and 7). Whatever two parties could read differently is refused,
//! and a body is never taken for a request: this is what request smuggling lives from (section 11.2).

use harness::client::{Broken, Client, Reply};
use harness::server::Server;
use harness::site::HELLO;
use harness::sleep_ms;
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Drivers: body_that_comes_slowly, bodies_cut_anywhere, body_cut_short;
    Three:
        body_by_length_is_passed_over,
        body_in_chunks_is_passed_over,
        body_of_a_get_is_passed_over,
        conflicting_framing,
        malformed_lengths,
        transfer_codings,
        chunked_in_http10,
        chunked_bad_size,
        chunked_bad_end,
        chunked_right,
        body_too_large;
];

/// What an attacker would hide in a body. It must never be answered.
const SMUGGLED: &str = "GET /dir/file.txt HTTP/1.1\r\nHost: x\r\n\r\n";
const NEXT: &str = "GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n";

/// The POST is refused as files take none, its body passed over, and the next request answered.
#[track_caller]
fn passed_over(client: &mut Client, request: &str) {
    client.send(format!("{request}{NEXT}"));
    let (first, second) = (client.reply(), client.reply());
    assert_eq!((first.status, first.closes()), (405, false), "{request:?}");
    assert_eq!((second.status, second.text().as_str()), (200, HELLO), "{request:?}");
}

/// At most one reply comes, an error, and the connection ends: nothing behind it was taken for a request.
#[track_caller]
fn ends(server: &Server, request: &str) -> Option<Reply> {
    let mut client = server.connect();
    client.send(format!("{request}{SMUGGLED}{NEXT}"));
    client.half_close();
    let (replies, end) = client.replies_until_end();
    assert!(matches!(end, Broken::Closed | Broken::Reset), "{request:?}: {end:?}");
    assert!(replies.len() <= 1, "{request:?} got {replies:?}");
    assert!(replies.iter().all(|reply| reply.status >= 400), "{request:?} got {replies:?}");
    replies.into_iter().next()
}

#[track_caller]
fn refused(server: &Server, request: &str, status: u16) {
    let reply = ends(server, request).unwrap_or_else(|| panic!("no reply to {request:?}"));
    assert_eq!((reply.status, reply.closes()), (status, true), "{request:?}");
}

fn post(fields: &str, body: &str) -> String {
    format!("POST /hello.txt HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n{body}")
}

fn body_by_length_is_passed_over(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    passed_over(&mut client, &post(&format!("Content-Length: {}", SMUGGLED.len()), SMUGGLED));
    passed_over(&mut client, &post("content-length:0", ""));
    passed_over(&mut client, &post("Content-Length: 0003", "abc"));
    let long = SMUGGLED.repeat(5000);
    passed_over(&mut client, &post(&format!("Content-Length: {}", long.len()), &long));
}

fn body_in_chunks_is_passed_over(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    let chunk = format!("{:x}\r\n{SMUGGLED}\r\n", SMUGGLED.len());
    passed_over(&mut client, &post("Transfer-Encoding: chunked", &format!("{}0\r\n\r\n", chunk.repeat(3))));
    passed_over(&mut client, &post("Transfer-Encoding: chunked", "0\r\n\r\n"));
}

fn body_of_a_get_is_passed_over(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{SMUGGLED}{NEXT}",
        SMUGGLED.len()
    ));
    assert_eq!(client.reply().status, 200);
    assert_eq!(client.reply().text(), HELLO);
    client.expect_silence(50);
}

fn body_that_comes_slowly(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    client.send(post("Content-Length: 30", ""));
    let early = client.reply();
    assert_eq!((early.status, early.closes()), (405, false), "known without the body");
    for piece in [&SMUGGLED[..10], &SMUGGLED[10..20], &SMUGGLED[20..30]] {
        sleep_ms(20);
        client.send(piece);
    }
    client.send(NEXT);
    assert_eq!(client.reply().text(), HELLO);
}

fn bodies_cut_anywhere(variant: &Variant) {
    let server = Server::start(variant);
    let length = post("Content-Length: 5", "GET /");
    let chunked =
        post("Transfer-Encoding: chunked", "3;x=\"y\"\r\nGET\r\n2\r\n /\r\n0\r\nTrailer: x\r\n\r\n");
    let requests = format!("{length}{chunked}{NEXT}");
    let mut client = server.connect();
    for at in 1..requests.len() {
        client.send(&requests[..at]);
        sleep_ms(1);
        client.send(&requests[at..]);
        let statuses = [client.reply().status, client.reply().status, client.reply().status];
        assert_eq!(statuses, [405, 405, 200], "cut at {at}");
    }
}

fn conflicting_framing(variant: &Variant) {
    let server = Server::start(variant);
    for fields in [
        "Content-Length: 3\r\nContent-Length: 3",
        "Content-Length: 3\r\nContent-Length: 4",
        "Content-Length: 3\r\ncontent-length: 0",
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 3",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity, chunked, identity",
        "Transfer-Encoding:",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding:\r\n chunked",
        "Content-Length : 3",
    ] {
        refused(&server, &post(fields, "0\r\n\r\n"), 400);
    }
}

fn malformed_lengths(variant: &Variant) {
    let server = Server::start(variant);
    for length in [
        "",
        "-1",
        "+3",
        "3.0",
        "0x3",
        "3a",
        "a",
        "3 3",
        "3,3",
        "3, 3",
        "\"3\"",
        "3;",
        "99999999999999999999",
        "\u{663}",
        "18446744073709551616",
        "1e1",
    ] {
        refused(&server, &post(&format!("Content-Length: {length}"), "abc"), 400);
    }
}

/// Codings that are not known are told so (section 6.1); where `chunked` is not the last of them, the body's
/// end can't be found (section 6.3).
fn transfer_codings(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for name in ["chunked", "Chunked", "CHUNKED"] {
        passed_over(&mut client, &post(&format!("Transfer-Encoding: {name}"), "1\r\na\r\n0\r\n\r\n"));
    }
    for coding in
        ["gzip", "xchunked", "identity", "chunkedx", "chunked;q=1", "\"chunked\"", "chunke", "gzip, deflate"]
    {
        refused(&server, &post(&format!("Transfer-Encoding: {coding}"), "0\r\n\r\n"), 400);
    }
    // Several lines are one list (RFC 9110 section 5.3).
    for (first, second, status) in [
        ("deflate", "chunked", 501),
        ("gzip, deflate", "chunked", 501),
        ("gzip", "deflate, chunked", 501),
        ("chunked", "deflate", 400),
        ("gzip, chunked", "deflate", 400),
        ("gzip, chunked", "chunked", 400),
        ("gzip", "deflate", 400),
    ] {
        let line = format!("Transfer-Encoding: {first}, {second}");
        let lines = format!("Transfer-Encoding: {first}\r\nX: y\r\nTransfer-Encoding: {second}");
        for fields in [line, lines] {
            refused(&server, &post(&fields, "0\r\n\r\n"), status);
        }
    }
}

/// A message of 1.0 with Transfer-Encoding has faulty framing (section 6.1).
fn chunked_in_http10(variant: &Variant) {
    let server = Server::start(variant);
    let head =
        "POST /hello.txt HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n";
    refused(&server, head, 400);
}

fn chunked_bad_size(variant: &Variant) {
    let server = Server::start(variant);
    for size in [
        "",
        "g",
        "-1",
        "+3",
        "0x3",
        " 3",
        "3 ",
        "3\t",
        "\u{663}",
        "3\n",
        "3\r",
        ";",
        ";x=y",
        "fffffffffffffffff",
        "10000000000000000",
        "3;x=\ny",
        "3;x=\ry",
        "3;x=\0y",
        "3 x",
        "3;",
        "3; ",
        "3 ;",
        "3;;x",
        "3;x;",
        "3;x=",
        "3;x= ",
        "3;=y",
        "3;x y",
        "3;x=y z",
        "3;x ",
        "3;x=y ",
        "3;x=\"y",
        "3;x=\"y\\\"",
        "3;x=\"y\"z",
        "3;x==y",
        "3;x(=y",
        "3;x=\u{fc}",
    ] {
        ends(&server, &post("Transfer-Encoding: chunked", &format!("{size}\r\nabc\r\n0\r\n\r\n")));
    }
}

fn chunked_bad_end(variant: &Variant) {
    let server = Server::start(variant);
    for body in [
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\r0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabc\r\n0\n\n",
        "3\r\nabc\r\n0\r\nNo colon\r\n\r\n",
        "3\r\nabc\r\n0\r\nSpace : y\r\n\r\n",
        "3\r\nabc\r\n0\r\nX: y\n\r\n",
        "3\r\nabc\r\n0\r\n X: y\r\n\r\n",
    ] {
        ends(&server, &post("Transfer-Encoding: chunked", body));
    }
}

fn chunked_right(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for body in [
        "0\r\n\r\n",
        "000\r\n\r\n",
        "3\r\nabc\r\n0\r\n\r\n",
        "0003\r\nabc\r\n0\r\n\r\n",
        "A\r\n0123456789\r\n0\r\n\r\n",
        "a\r\n0123456789\r\n0\r\n\r\n",
        "3;name\r\nabc\r\n0;last=\"quoted\"\r\n\r\n",
        "3;name=value;other\r\nabc\r\n0\r\nTrailer: x\r\nOther:\r\n\r\n",
        "3 ; name = value\t;\tother\r\nabc\r\n0 \t; last\r\n\r\n",
        "3;name=\"; \\\" \\\\ \u{fc}\" ;other=\"\"\r\nabc\r\n0\r\n\r\n",
    ] {
        passed_over(&mut client, &post("Transfer-Encoding: chunked", body));
    }
}

fn body_cut_short(variant: &Variant) {
    let server = Server::start(variant);
    for request in [post("Content-Length: 100", "abc"), post("Transfer-Encoding: chunked", "5\r\nabc")] {
        let mut client = server.connect();
        client.send(&request);
        client.half_close();
        let (replies, _) = client.replies_until_end();
        assert!(replies.len() <= 1 && replies.iter().all(|reply| reply.status >= 400), "{replies:?}");
    }
    assert_eq!(server.get("/hello.txt").status, 200);
}

fn body_too_large(variant: &Variant) {
    let server = Server::with(variant, "[limits]\nbody = 1000");
    let mut client = server.connect();
    passed_over(&mut client, &post("Content-Length: 1000", &"x".repeat(1000)));
    refused(&server, &post("Content-Length: 1001", &"x".repeat(1001)), 413);
    refused(&server, &post("Content-Length: 9223372036854775807", ""), 413);
    // Of a body in chunks the data count, however small the chunks are.
    passed_over(
        &mut client,
        &post("Transfer-Encoding: chunked", &format!("{}0\r\n\r\n", "1;a=b\r\nx\r\n".repeat(500))),
    );
    let whole = format!("3e8;e={}\r\n{}\r\n0\r\nT: x\r\n\r\n", "e".repeat(2000), "x".repeat(1000));
    passed_over(&mut client, &post("Transfer-Encoding: chunked", &whole));
    // That such a body is too large shows too late for a status of its own.
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    ends(&server, &post("Transfer-Encoding: chunked", &format!("{}0\r\n\r\n", chunk.repeat(4))));
    ends(&server, &post("Transfer-Encoding: chunked", &format!("{}0\r\n\r\n", "1\r\nx\r\n".repeat(1001))));
    // What is around the data has limits of its own.
    ends(&server, &post("Transfer-Encoding: chunked", &format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(5000))));
    ends(&server, &post("Transfer-Encoding: chunked", &format!("0\r\nT: {}\r\n\r\n", "t".repeat(9000))));
}
