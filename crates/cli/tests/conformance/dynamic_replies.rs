//! Replies of applications, which are made while they are sent: where they end (RFC 9112 section 6.3), that
//! their clients notice when they don't, and what follows them on their connection.

use std::sync::{Mutex, mpsc};

use rustix::process::Signal;

use harness::client::{Broken, Client, Reply, request};
use harness::conveyed;
use harness::scripted::{self, answer, end, pool, record, scripted_site};
use harness::server::Setup;
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};
use harness::{TIMEOUT, sleep_ms};

pub(crate) const TESTS: &[Test] = tests![
    Drivers: pieces_as_they_are_made, replies_cut_short, the_last_reply, stopping;
    Three: ends, longer_than_promised, statuses_without_a_body, fields_about_the_connection, heads;
];

/// Sends a request for an application's reply as a client of that version.
fn ask(client: &mut Client, method: &str, target: &str, version: &str, fields: &str) {
    client.send(format!("{method} {target} HTTP/{version}\r\nHost: x\r\n{fields}\r\n"));
}

/// By a length where the application tells one; else by chunks, or to a client of 1.0 by the connection's
/// end. Wherever the end can be told otherwise, the connection goes on.
fn ends(variant: &Variant) {
    let server = scripted_site(variant, |mut asked| {
        let body = if asked.params["QUERY_STRING"] == "none" { "" } else { "hello" };
        let length = format!("Content-Length: {}\n", body.len());
        let length = if asked.params["PATH_INFO"] == "/known" { &*length } else { "" };
        asked.say(answer(format!("{length}X: y\n\n{body}")));
    });
    let keep = "Connection: keep-alive\r\n";
    for (body, query) in [("hello", "some"), ("", "none")] {
        for (method, path, version, fields, framing, closes) in [
            ("GET", "known", "1.1", "", "length", false),
            ("GET", "unknown", "1.1", "", "chunked", false),
            ("HEAD", "known", "1.1", "", "length", false),
            ("HEAD", "unknown", "1.1", "", "", false),
            ("GET", "known", "1.0", "", "length", true),
            ("GET", "unknown", "1.0", "", "", true),
            ("GET", "known", "1.0", keep, "length", false),
            ("GET", "unknown", "1.0", keep, "", true),
            ("GET", "unknown", "1.1", "Connection: close\r\n", "chunked", true),
        ] {
            let what = format!("{method} {path} {version} {fields:?} {query}");
            let mut client = server.connect();
            ask(&mut client, method, &format!("/app/{path}?{query}"), version, fields);
            let reply = client.reply_to(method);
            let length = body.len().to_string();
            let told = [reply.field("Content-Length"), reply.field("Transfer-Encoding")];
            let expected = match framing {
                "length" => [Some(&*length), None],
                "chunked" => [None, Some("chunked")],
                _ => [None, None],
            };
            assert_eq!(told, expected, "{what}");
            assert_eq!(reply.text(), if method == "HEAD" { "" } else { body }, "{what}");
            if closes {
                client.expect_close();
            } else {
                assert!(!reply.closes(), "{what}");
                assert_eq!(client.get("/hello.txt").text(), HELLO, "{what}");
            }
        }
    }
}

/// Of whatever size they are below the bound on their bytes, down to nothing, and with their own words.
fn heads(variant: &Variant) {
    let server = scripted_site(variant, |mut asked| {
        let head = match &*asked.params["PATH_INFO"] {
            "/own" => "Status: 404 Nothing  Here\n".to_owned(),
            "/registered" => "Status: 201\n".to_owned(),
            "/many" => (0..5000).map(|n| format!("A{n}: b\n")).collect::<Vec<_>>().concat(),
            "/long" => format!("A: {}\n", "b".repeat(64 << 10)),
            _ => String::new(),
        };
        asked.say(answer(format!("{head}\nhello")));
    });
    let mut client = server.connect();
    for (path, status, reason, fields) in [
        ("own", 404, "Nothing  Here", 0),
        ("registered", 201, "Created", 0),
        ("many", 200, "OK", 5000),
        ("none", 200, "OK", 0),
    ] {
        let reply = client.get(&format!("/app/{path}"));
        // Lent a client, the application makes the status line itself.
        let reason = if conveyed::transport() == "pass-fd" { &reply.reason } else { reason };
        assert_eq!((reply.status, &*reply.reason), (status, reason), "{path}");
        assert_eq!(reply.text(), "hello", "{path}");
        assert_eq!(reply.fields.iter().filter(|(name, _)| name.starts_with('A')).count(), fields, "{path}");
    }
    if conveyed::transport() != "pass-fd" {
        assert_eq!(client.get("/app/long").status, 502);
    }
}

/// The next piece is made when the client has the one before.
fn pieces_as_they_are_made(variant: &Variant) {
    const PIECES: [&str; 3] = ["first", "second", "third"];
    let (taken, told) = mpsc::channel();
    let told = Mutex::new(told);
    let server = scripted_site(variant, move |mut asked| {
        let is_known = asked.params["PATH_INFO"] == "/known";
        let head: &[u8] = if is_known { b"Content-Length: 16\n\n" } else { b"X: y\n\n" };
        asked.say(record(6, head));
        for piece in PIECES {
            asked.say(record(6, piece.as_bytes()));
            told.lock().expect("no panic").recv_timeout(TIMEOUT).expect("it arrives");
        }
        asked.say(end());
    });
    for (path, version) in [("known", "1.1"), ("unknown", "1.1"), ("unknown", "1.0")] {
        let mut client = server.connect();
        ask(&mut client, "GET", &format!("/app/{path}"), version, "");
        let mut seen = Vec::new();
        for piece in PIECES {
            while !seen.windows(piece.len()).any(|part| part == piece.as_bytes()) {
                seen.extend(client.read_raw(1).expect("the piece"));
            }
            taken.send(()).expect("the application waits");
        }
        client.unread(seen);
        assert_eq!(client.reply().text(), PIECES.concat(), "{path} {version}");
    }
}

/// Once a part of a reply is sent, whether it is whole is all that a client can be told.
fn replies_cut_short(variant: &Variant) {
    let (taken, told) = mpsc::channel();
    let told = Mutex::new(told);
    let server = scripted_site(variant, move |mut asked| {
        let is_known = asked.params["PATH_INFO"] == "/known";
        let head: &[u8] = if is_known { b"Content-Length: 10\n\n" } else { b"X: y\n\n" };
        asked.say(record(6, &[head, b"hello"].concat()));
        told.lock().expect("no panic").recv_timeout(TIMEOUT).expect("it arrives");
        match &*asked.params["QUERY_STRING"] {
            "ends" => asked.say(end()),
            "fails" => asked.say(record(3, &[0, 0, 0, 0, 2, 0, 0, 0])),
            _ => true,
        };
    });
    for (path, version, how) in [
        ("known", "1.1", "ends"),
        ("known", "1.1", "closes"),
        ("known", "1.0", "closes"),
        ("unknown", "1.1", "closes"),
        ("unknown", "1.1", "fails"),
        ("unknown", "1.0", "closes"),
        ("unknown", "1.0", "fails"),
    ] {
        let mut client = server.connect();
        ask(&mut client, "GET", &format!("/app/{path}?{how}"), version, "");
        let mut seen = Vec::new();
        while !seen.ends_with(b"hello") {
            seen.extend(client.read_raw(1).expect("a part of it"));
        }
        client.unread(seen);
        taken.send(()).expect("the application waits");
        let end = client.try_reply();
        assert_eq!(end, Err(Broken::Reset), "{path} {version} {how}");
    }
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

/// What goes beyond the length is nobody's, least of all the next reply's.
fn longer_than_promised(variant: &Variant) {
    let server = scripted_site(variant, |mut asked| {
        let more = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
        let length = &asked.params["QUERY_STRING"];
        let said = answer(format!("Content-Length: {length}\n\nwell{more}"));
        asked.say(said);
    });
    let mut client = server.connect();
    for _ in 0..3 {
        for (length, text) in [("4", "well"), ("0", "")] {
            let target = format!("/app/?{length}");
            client.send(request("GET", &target, &[]) + &request("GET", "/hello.txt", &[]));
            let reply = client.reply();
            assert_eq!((&*reply.text(), reply.closes()), (text, false));
            assert_eq!(client.reply().text(), HELLO);
        }
    }
}

/// Whatever the application says behind their heads, and of its length.
fn statuses_without_a_body(variant: &Variant) {
    let server = scripted_site(variant, |mut asked| {
        let status = &asked.params["QUERY_STRING"];
        let length = if asked.params["PATH_INFO"] == "/known" { "Content-Length: 5\n" } else { "" };
        let said = answer(format!("Status: {status}\n{length}ETag: \"x\"\n\nhello"));
        asked.say(said);
    });
    let mut client = server.connect();
    for path in ["known", "unknown"] {
        for status in [204, 304] {
            for method in ["GET", "HEAD", "DELETE"] {
                let what = format!("{method} {path} {status}");
                let reply = client.fetch(method, &format!("/app/{path}?{status}"), &[]);
                assert_eq!(
                    (reply.status, reply.closes(), reply.need("ETag")),
                    (status, false, "\"x\""),
                    "{what}"
                );
                assert_eq!(reply.field("Transfer-Encoding"), None, "{what}");
                assert_eq!(client.get("/hello.txt").text(), HELLO, "{what}");
            }
        }
        // An interim reply is nothing that an application can end with.
        for status in [100, 101, 199] {
            assert_eq!(client.get(&format!("/app/{path}?{status}")).status, 502, "{status}");
        }
    }
}

/// Those that an application sets are none of the client's business.
fn fields_about_the_connection(variant: &Variant) {
    let server = scripted_site(variant, |mut asked| {
        asked.say(answer(
            "Connection: close, X-Named\nKeep-Alive: timeout=1\nTransfer-Encoding: gzip, chunked\n\
             Trailer: X\nUpgrade: h2c\nDate: Thu, 01 Jan 1970 00:00:00 GMT\n\
             Server: other\nX-Kept: yes\n\n5\r\nhello",
        ));
    });
    let mut client = server.connect();
    for _ in 0..3 {
        let reply = client.get("/app/x");
        assert_eq!((&*reply.text(), reply.need("X-Kept")), ("5\r\nhello", "yes"));
        assert_eq!(reply.need("Transfer-Encoding"), "chunked");
        for name in ["Connection", "Keep-Alive", "Trailer", "Upgrade"] {
            assert_eq!(reply.field(name), None);
        }
        assert!(!reply.field("Server").is_some_and(|server| server.contains("other")), "{reply:?}");
    }
}

/// What comes behind the last request is not asked for, and does not destroy its reply.
fn the_last_reply(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = scripted::start(setup.directory(), "app.sock", |mut asked| {
        let path = asked.params["PATH_INFO"].clone();
        sleep_ms(5);
        asked.say(answer(format!("X: y\n\n{path}")));
    });
    let limits = "[limits]\nrequests_per_connection = 2\n";
    let server = setup.config(&format!("{}{limits}", pool(&[&socket], ""))).start();
    let get = |target: &str| request("GET", target, &[]);
    for (requests, texts) in [
        (get("/app/a") + &get("/app/b") + &get("/app/c"), &["/a", "/b"][..]),
        (request("GET", "/app/a", &[("Connection", "close")]) + &get("/app/b"), &["/a"]),
        (get("/hello.txt") + &get("/app/a") + &get("/hello.txt"), &[HELLO, "/a"]),
    ] {
        let mut client = server.connect();
        client.send(requests);
        let (replies, end) = client.replies_until_end();
        let found: Vec<_> = replies.iter().map(Reply::text).collect();
        assert_eq!((found, end), (texts.iter().map(|&text| text.to_owned()).collect(), Broken::Closed));
        assert!(replies.last().is_some_and(Reply::closes), "{replies:?}");
    }
}

/// Who has been asked for something is answered before the server ends.
fn stopping(variant: &Variant) {
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let mut server = scripted_site(variant, move |mut asked| {
        let told = told.lock().expect("no panic").clone();
        asked.say(record(6, b"X: y\n\nbefore "));
        told.send(()).expect("the test waits");
        sleep_ms(300);
        asked.say(answer("after"));
    });
    let mut client = server.connect();
    client.ask("GET", "/app/x", &[]);
    heard.recv_timeout(TIMEOUT).expect("the application is asked");
    server.signal(Signal::TERM);
    assert_eq!(client.reply().text(), "before after");
    client.expect_close();
    drop(client);
    assert_eq!(server.exit_code(), Some(0));
}
