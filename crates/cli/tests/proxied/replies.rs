//! Replies of an application, as its clients get them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::client::post;
use harness::scripted_http::{self, Asked};
use harness::server::{Server, Setup};
use harness::variant::{Test, Variant, tests};

use crate::pool;

pub(super) const TESTS: &[Test] = tests![
    Drivers: replies_end_as_the_application_says, connections_are_kept, large_replies;
    Three: heads_are_passed_on, files_that_are_named;
];

fn site(variant: &Variant, more: &str, serve: impl Fn(&mut Asked) -> bool + Send + Sync + 'static) -> Server {
    let setup = Setup::new(variant);
    let socket = scripted_http::start(setup.directory(), "app.sock", serve);
    setup.config(&pool(&socket, more)).start()
}

fn replies_end_as_the_application_says(variant: &Variant) {
    let server = site(variant, "", |asked| match &*asked.query() {
        "length" => asked.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"),
        "chunks" => asked.say(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n\
             1;a=b\r\nw\r\n3\r\nell\r\n0\r\nX: y\r\n\r\n",
        ),
        "close" => {
            asked.say("HTTP/1.0 200 OK\r\n\r\nwell");
            false
        }
        "in pieces" => {
            let all = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nwe\r\n2\r\nll\r\n0\r\n\r\n";
            all.bytes().all(|byte| asked.say([byte]))
        }
        "continue" => {
            asked.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell")
        }
        other => panic!("{other}"),
    });
    for how in ["length", "chunks", "close", "in-pieces", "continue"] {
        let mut client = server.connect();
        for _ in 0..3 {
            let reply = client.get(&format!("/app/?{how}"));
            assert_eq!((reply.status, &*reply.text()), (200, "well"), "{how}");
        }
        client.send(format!("GET /app/?{how} HTTP/1.0\r\n\r\n"));
        assert_eq!(client.reply().text(), "well", "{how}, HTTP/1.0");
    }
    assert_eq!(server.pool_count("failures"), 0);
}

fn heads_are_passed_on(variant: &Variant) {
    let server = site(variant, "", |asked| {
        let head = match &*asked.query() {
            "made" => "201 Made it\r\nLocation: /app/new\r\nContent-Length: 0",
            "cookies" => "200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0",
            "head" => "200 OK\r\nContent-Length: 1234\r\nStatus: 404 of CGI",
            "nothing" => "204 No Content",
            "same" => "304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 1234",
            "own" => {
                "200 OK\r\nConnection: X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 0"
            }
            "odd" => "799 Odd\r\nContent-Length: 0",
            other => panic!("{other}"),
        };
        asked.say(format!("HTTP/1.1 {head}\r\n\r\n"))
    });
    let mut client = server.connect();
    let reply = client.get("/app/?made");
    assert_eq!((reply.status, reply.need("Location")), (201, "/app/new"));
    let reply = client.get("/app/?cookies");
    let cookies = reply.fields.iter().filter(|(name, _)| name == "Set-Cookie").map(|(_, value)| &**value);
    assert_eq!(cookies.collect::<Vec<_>>(), ["a=1", "b=2"]);
    let reply = client.fetch("HEAD", "/app/?head", &[]);
    assert_eq!((reply.status, reply.need("Content-Length")), (200, "1234"));
    assert_eq!(client.get("/app/?nothing").status, 204);
    let reply = client.get("/app/?same");
    assert_eq!((reply.status, reply.need("ETag")), (304, "\"x\""));
    let reply = client.get("/app/?own");
    assert_eq!((reply.field("X-Mine"), reply.field("Keep-Alive")), (None, None));
    assert_eq!(client.get("/app/?odd").status, 799);
}

/// As many as the pool keeps, unless a request may not be repeated. One that the application has closed
/// meanwhile does no harm.
fn connections_are_kept(variant: &Variant) {
    let fresh = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fresh);
    let server = site(variant, "keep = 1", move |asked| {
        count.fetch_add(usize::from(asked.before == 0), Ordering::Relaxed);
        asked.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell");
        asked.before < 9
    });
    let mut client = server.connect();
    for _ in 0..30 {
        assert_eq!(client.get("/app/x").text(), "well");
    }
    let of_gets = fresh.swap(0, Ordering::Relaxed);
    let keeps = !variant.serves_one_at_a_time();
    assert!(if keeps { (3..=6).contains(&of_gets) } else { of_gets == 30 }, "{of_gets}");
    for _ in 0..3 {
        client.send(post("/app/x", b"body"));
        assert_eq!(client.reply().text(), "well");
    }
    assert_eq!((fresh.load(Ordering::Relaxed), server.pool_count("failures")), (3, 0));
}

/// At the pace of the client, and whole.
fn large_replies(variant: &Variant) {
    const LENGTH: usize = 5_000_000;
    let server = site(variant, "", |asked| {
        let body = harness::site::pattern(7, LENGTH);
        if asked.query() == "length" {
            return asked.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n"))
                && asked.say(body);
        }
        asked.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            && body.chunks(100_001).all(|chunk| {
                asked.say(format!("{:x}\r\n", chunk.len())) && asked.say(chunk) && asked.say("\r\n")
            })
            && asked.say("0\r\n\r\n")
    });
    for how in ["length", "chunks"] {
        let mut client = server.connect_narrow();
        assert!(client.get(&format!("/app/?{how}")).body == harness::site::pattern(7, LENGTH), "{how}");
    }
}

/// The application names a file to be sent in place of its body.
fn files_that_are_named(variant: &Variant) {
    let setup = Setup::new(variant);
    let outside = setup.directory().join("outside");
    let named = outside.join("secret.txt").display().to_string();
    let socket = scripted_http::start(setup.directory(), "app.sock", move |asked| {
        let name = match &*asked.query() {
            "accel" => "X-Accel-Redirect: /protected/secret.txt".to_owned(),
            "path" => format!("X-Sendfile: {named}"),
            _ => "X-Sendfile: /etc/passwd".to_owned(),
        };
        asked.say(format!("HTTP/1.1 200 OK\r\nX-Mine: 1\r\n{name}\r\nContent-Length: 7\r\n\r\nnothing"))
    });
    let more = format!("send_files = {{ '/protected/' = '{}' }}", outside.display());
    let server = setup.config(&pool(&socket, &more)).start();
    let mut client = server.connect();
    for how in ["accel", "path"] {
        let reply = client.get(&format!("/app/?{how}"));
        assert_eq!((reply.status, &*reply.text()), (200, harness::site::SECRET), "{how}");
        assert_eq!(reply.need("X-Mine"), "1");
    }
    assert_eq!(client.get("/app/?other").status, 502);
}
