//! Replies of an application, as its clients get them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use harness::client::{Broken, Client, Reply, post, request};
use harness::scripted_http::{self, Asked};
use harness::server::{Server, Setup};
use harness::variant::{Test, Variant, tests};
use harness::{TIMEOUT, eventually};

use crate::pool;

pub(super) const TESTS: &[Test] = tests![
    Drivers: replies_end_as_the_application_says, connections_are_kept, large_replies,
    interim_replies_come_at_once, a_flood_of_interim_replies;
    Three: heads_are_passed_on, files_that_are_named, which_interim_replies_are_passed_on,
    requests_are_not_repeated_after_interim_replies, a_file_behind_interim_replies;
];

const WELL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell";

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
            "hints" => {
                asked.say("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
                "X-Accel-Redirect: /protected/secret.txt".to_owned()
            }
            "accel" => "X-Accel-Redirect: /protected/secret.txt".to_owned(),
            "path" => format!("X-Sendfile: {named}"),
            _ => "X-Sendfile: /etc/passwd".to_owned(),
        };
        asked.say(format!("HTTP/1.1 200 OK\r\nX-Mine: 1\r\n{name}\r\nContent-Length: 7\r\n\r\nnothing"))
    });
    let more = format!("send_files = {{ '/protected/' = '{}' }}", outside.display());
    let server = setup.config(&pool(&socket, &more)).start();
    let mut client = server.connect();
    for how in ["accel", "path", "hints"] {
        let mut reply = client.get(&format!("/app/?{how}"));
        if how == "hints" {
            assert_eq!((reply.status, reply.need("Link")), (103, "</a>"));
            reply = client.reply();
        }
        assert_eq!((reply.status, &*reply.text()), (200, harness::site::SECRET), "{how}");
        assert_eq!(reply.need("X-Mine"), "1");
    }
    assert_eq!(client.get("/app/?other").status, 502);
}

/// The next final reply, and the interim ones before it.
fn replies(client: &mut Client) -> (Vec<Reply>, Reply) {
    let mut interim = Vec::new();
    loop {
        let reply = client.reply();
        if reply.status >= 200 {
            return (interim, reply);
        }
        interim.push(reply);
    }
}

/// The application makes its final reply only after the client has the interim one.
fn interim_replies_come_at_once(variant: &Variant) {
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    let server = site(variant, "", move |asked| {
        for _ in 0..3 {
            asked.say(
                "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: X-Own\r\nX-Own: 1\r\n\
                 Keep-Alive: timeout=5\r\nContent-Length: 5\r\nX-Mine: 1\r\nLink: </b.css>\r\n\r\n",
            );
            told.lock().expect("no panic").recv_timeout(TIMEOUT).expect("the client has it");
        }
        asked.say(WELL)
    });
    let mut client = server.connect();
    for bytes in [request("GET", "/app/x", &[]).into_bytes(), post("/app/x", &vec![b'x'; 100_000])] {
        client.send(bytes);
        for _ in 0..3 {
            let hints = client.reply();
            assert_eq!((hints.status, &*hints.reason), (103, "Early Hints"));
            let fields: Vec<_> = hints.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(
                fields,
                [("Link", "</a.css>; rel=preload"), ("X-Mine", "1"), ("Link", "</b.css>")],
                "{hints:?}"
            );
            tell.send(()).expect("the application waits");
        }
        let reply = client.reply();
        assert_eq!((reply.status, &*reply.text()), (200, "well"));
    }
}

/// All of them but 100, which only the server itself sends. Clients of HTTP/1.0 get none.
fn which_interim_replies_are_passed_on(variant: &Variant) {
    let server = site(variant, "", |asked| {
        let interim =
            ["100 Continue", "102 Processing", "103 Early Hints", "103 ", "100 Continue", "199 Odd"];
        let heads = interim.map(|line| format!("HTTP/1.1 {line}\r\nX: y\r\n\r\n"));
        let all = heads.concat() + WELL;
        if asked.query() == "pieces" { all.bytes().all(|byte| asked.say([byte])) } else { asked.say(all) }
    });
    let mut client = server.connect();
    for (target, body) in [("/app/?whole", ""), ("/app/?pieces", ""), ("/app/?whole", "body")] {
        if body.is_empty() {
            client.ask("GET", target, &[]);
        } else {
            client.ask("POST", target, &[("Expect", "100-continue"), ("Content-Length", "4")]);
            assert_eq!(client.reply().status, 100);
            client.send(body);
        }
        let (interim, reply) = replies(&mut client);
        let statuses: Vec<_> = interim.iter().map(|reply| reply.status).collect();
        assert_eq!(statuses, [102, 103, 103, 199], "{target}");
        assert!(interim.iter().all(|reply| reply.field("X") == Some("y")), "{interim:?}");
        assert_eq!((reply.status, &*reply.text()), (200, "well"), "{target}");
    }
    let mut client = server.connect();
    client.send("GET /app/?whole HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.reply().text(), "well");
    client.send("GET /app/?pieces HTTP/1.0\r\n\r\n");
    assert_eq!(client.reply().text(), "well");
    assert_eq!(server.pool_count("failures"), 0);
}

/// An application that closes after an interim reply has heard the request.
fn requests_are_not_repeated_after_interim_replies(variant: &Variant) {
    let asked_for_hints = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked_for_hints);
    let server = site(variant, "", move |asked| {
        if asked.query() == "hints" {
            count.fetch_add(1, Ordering::Relaxed);
            asked.say("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            return false;
        }
        asked.say(WELL)
    });
    let mut client = server.connect();
    for times in 1..4 {
        assert_eq!(client.get("/app/x").text(), "well");
        client.ask("GET", "/app/?hints", &[]);
        assert_eq!(replies(&mut client).1.status, 502);
        assert_eq!(asked_for_hints.load(Ordering::Relaxed), times);
    }
    assert_eq!(server.pool_count("retried"), 0);
}

/// More than the client takes: some are dropped, whole, and the final reply comes, or the end.
fn a_flood_of_interim_replies(variant: &Variant) {
    const COUNT: usize = 10_000;
    let value = "x".repeat(1000);
    let hints = format!("HTTP/1.1 103 Early Hints\r\nLink: {value}\r\n\r\n");
    let (tell, told) = mpsc::channel();
    let server = site(variant, "[tcp]\nsend_buffer = '16 KiB'", move |asked| {
        let is_taken = (0..COUNT).all(|_| asked.say(&hints));
        tell.send(is_taken).expect("the test waits");
        asked.query() != "end" && asked.say(WELL)
    });
    server.warm_up();
    let before = server.memory();
    let mut client = server.connect_narrow();
    for _ in 0..2 {
        client.ask("GET", "/app/x", &[]);
        assert!(told.recv_timeout(TIMEOUT).expect("the server takes them all"));
        let meanwhile = server.memory();
        assert!(meanwhile < before + (4 << 20), "{before} bytes before, {meanwhile} meanwhile");
        let (interim, reply) = replies(&mut client);
        assert!((1..=COUNT).contains(&interim.len()), "{} interim replies", interim.len());
        assert!(interim.iter().all(|reply| reply.status == 103 && reply.need("Link") == value));
        assert_eq!((reply.status, &*reply.text()), (200, "well"));
    }
    // If the client has a part of one, it gets no other reply after that part.
    client.ask("GET", "/app/?end", &[]);
    assert!(told.recv_timeout(TIMEOUT).expect("the server takes them all"));
    loop {
        match client.try_reply() {
            Ok(reply) if reply.status == 502 => break,
            Ok(reply) => assert!(reply.status == 103 && reply.need("Link") == value, "{reply:?}"),
            Err(broken) => {
                assert!(matches!(broken, Broken::Reset | Broken::CutShort(_)), "{broken:?}");
                break;
            }
        }
    }
    assert_eq!(server.get("/hello.txt").text(), harness::site::HELLO);
}

/// It waits until the client has taken them, but not longer than the application may take.
fn a_file_behind_interim_replies(variant: &Variant) {
    let setup = Setup::new(variant);
    let outside = setup.directory().join("outside");
    let (tell, told) = mpsc::channel();
    let hints = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(1000));
    let socket = scripted_http::start(setup.directory(), "app.sock", move |asked| {
        let is_taken = (0..2000).all(|_| asked.say(&hints))
            && asked.say("HTTP/1.1 200 OK\r\nX-Accel-Redirect: /p/secret.txt\r\nContent-Length: 0\r\n\r\n");
        tell.send(is_taken).expect("the test waits");
        true
    });
    let more = format!(
        "send_files = {{ '/p/' = '{}' }}\ntimeout = '2 s'\n[tcp]\nsend_buffer = '16 KiB'",
        outside.display()
    );
    let server = setup.config(&pool(&socket, &more)).start();
    let ask = || {
        let mut client = server.connect_narrow();
        client.ask("GET", "/app/x", &[]);
        assert!(told.recv_timeout(TIMEOUT).expect("the server takes them all"));
        client
    };
    let mut client = ask();
    let (interim, reply) = replies(&mut client);
    assert!(interim.iter().all(|reply| reply.status == 103), "{interim:?}");
    assert_eq!((reply.status, &*reply.text()), (200, harness::site::SECRET));
    let client = ask();
    assert_eq!(server.pool_count("failures"), 0);
    eventually("the client has had its time", || server.pool_count("failures") == 1);
    drop(client);
}
