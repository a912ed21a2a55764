//! Requests that an application answers, as their clients see it: bodies (RFC 9112 section 6), `100
//! (Continue)` (RFC 9110 section 10.1.1), pipelines with requests for files among them, and clients that say
//! no more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use harness::client::{post, request};
use harness::conveyed;
use harness::scripted::{self, Asked, answer, pool, scripted_site};
use harness::server::{Server, Setup};
use harness::site::{HELLO, large, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{TIMEOUT, sleep_ms};

pub(crate) const TESTS: &[Test] = tests![
    Each: an_upload_that_stalls, half_closed_clients;
    Drivers:
        pipelined_with_files,
        bodies_cut_anywhere,
        long_bodies_with_requests_behind_them,
        a_client_that_waits_to_be_asked;
    Three: uploads_that_are_refused, old_clients_are_not_asked;
];

/// An application that says what it was asked, body included, and counts how often.
fn echo() -> (Arc<AtomicUsize>, impl Fn(Asked) -> bool + Send + Sync + 'static) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let serve = move |mut asked: Asked| {
        counted.fetch_add(1, Ordering::Relaxed);
        let told = ["REQUEST_METHOD", "PATH_INFO", "CONTENT_LENGTH"].map(|name| asked.params[name].clone());
        let head = format!("X-Told: {}\n\n", told.join(" "));
        asked.say(answer([head.as_bytes(), &asked.body].concat()))
    };
    (count, serve)
}

/// Each is answered in its turn, whoever answers it, and however long that takes.
fn pipelined_with_files(variant: &Variant) {
    let server = scripted_site(variant, |mut asked| {
        let name = asked.params["PATH_INFO"].clone();
        let size: usize = name[1..].parse().expect("a number");
        sleep_ms(size as u64 % 3);
        let length = if size.is_multiple_of(2) { format!("Content-Length: {size}\n") } else { String::new() };
        let head = format!("{length}X-Body: {}\n\n", asked.body.len());
        asked.say(answer([head.as_bytes(), &pattern(size as u64, size)].concat()));
    });
    let (mut requests, mut expected) = (Vec::new(), Vec::new());
    for size in 0..20 {
        let size = size * size * 100 + size % 2;
        let target = format!("/app/{size}");
        let made = pattern(size as u64, size);
        for (bytes, method, status, body) in [
            (request("GET", &target, &[]).into_bytes(), "GET", 200, made.clone()),
            (request("GET", "/hello.txt", &[]).into_bytes(), "GET", 200, HELLO.into()),
            (post(&target, HELLO.as_bytes()), "POST", 200, made),
            (request("HEAD", &target, &[]).into_bytes(), "HEAD", 200, Vec::new()),
            (request("GET", "/nothing", &[]).into_bytes(), "", 404, Vec::new()),
        ] {
            requests.extend(bytes);
            expected.push((target.clone(), method, status, body));
        }
    }
    requests.extend(request("GET", "/large.bin", &[]).as_bytes());
    let mut client = server.connect();
    client.send(requests);
    for (target, method, status, body) in expected {
        let reply = client.reply_to(method);
        assert_eq!((reply.status, reply.closes()), (status, false), "{method} {target}");
        assert!(method.is_empty() || reply.body == body, "{method} {target}: {reply:?}");
        let told = if method == "POST" { Some("13") } else { None };
        assert!(told.is_none() || reply.field("X-Body") == told, "{method} {target}: {reply:?}");
    }
    assert!(client.reply().body == large());
    client.expect_silence(20);
}

/// In the head, between its bytes and those of the body, or in what says how long a body is.
fn bodies_cut_anywhere(variant: &Variant) {
    let (_, serve) = echo();
    let server = scripted_site(variant, serve);
    let chunked = "POST /app/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3;x=\"y\"\r\nGET\r\n2\r\n /\r\n0\r\nTrailer: x\r\n\r\n";
    let requests =
        [&post("/app/a", b"GET /"), chunked.as_bytes(), request("GET", "/app/c", &[]).as_bytes()].concat();
    let mut client = server.connect();
    for at in 1..requests.len() {
        client.send(&requests[..at]);
        sleep_ms(1);
        client.send(&requests[at..]);
        for (told, body) in [("POST /a 5", "GET /"), ("POST /b 5", "GET /"), ("GET /c", "")] {
            let reply = client.reply();
            assert_eq!((reply.need("X-Told"), &*reply.text()), (told, body), "cut at {at}");
        }
    }
}

/// Of several reads each; what follows is the next request's.
fn long_bodies_with_requests_behind_them(variant: &Variant) {
    let (_, serve) = echo();
    let server = scripted_site(variant, serve);
    let mut client = server.connect();
    for size in [65_536, 300_000, 1 << 20] {
        let body = pattern(size as u64, size);
        client.send([&post("/app/a", &body), request("GET", "/app/b", &[]).as_bytes()].concat());
        let reply = client.reply();
        assert_eq!(reply.need("X-Told"), format!("POST /a {size}"));
        assert!(reply.body == body, "a body of {size}");
        assert_eq!(client.reply().need("X-Told"), "GET /b");
    }
}

/// It is asked once somebody wants the body, and only then.
fn a_client_that_waits_to_be_asked(variant: &Variant) {
    let (count, serve) = echo();
    let server = scripted_site(variant, serve);
    let mut client = server.connect();
    for framing in [("Content-Length", "5"), ("Transfer-Encoding", "chunked")] {
        client.send(request("POST", "/app/x", &[framing, ("Expect", "100-continue")]));
        assert_eq!(client.reply().status, 100);
        client.expect_silence(50);
        client.send(if framing.1 == "5" { "hello" } else { "5\r\nhello\r\n0\r\n\r\n" });
        let reply = client.reply();
        assert_eq!((reply.text().as_str(), reply.closes()), ("hello", false));
    }
    // Without a body there is nothing to ask for.
    let reply = client.fetch("GET", "/app/x", &[("Expect", "100-continue")]);
    assert_eq!((reply.status, reply.closes()), (200, false));
    // One that does not wait is asked, or not, and gets one reply.
    client.send(
        [request("POST", "/app/x", &[("Content-Length", "5"), ("Expect", "100-continue")]), "hello".into()]
            .concat(),
    );
    let mut reply = client.reply();
    if reply.status == 100 {
        reply = client.reply();
    }
    assert_eq!(reply.text(), "hello");
    // Nobody wants these.
    for (target, length, status) in
        [("/nothing", "5", 404), ("/hello.txt", "5", 405), ("/app/x", "9000000", 413)]
    {
        let expecting = [("Content-Length", length), ("Expect", "100-continue")];
        let mut client = server.connect();
        client.send(request("POST", target, &expecting));
        let reply = client.reply();
        assert_eq!((reply.status, reply.closes()), (status, true), "{target}");
        client.expect_close();
    }
    assert_eq!(count.load(Ordering::Relaxed), 4);
}

/// A client of 1.0 does not know interim replies.
fn old_clients_are_not_asked(variant: &Variant) {
    let (_, serve) = echo();
    let server = scripted_site(variant, serve);
    let mut client = server.connect();
    client.send("POST /app/x HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    client.expect_silence(50);
    client.send("hello");
    let reply = client.reply();
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
}

/// Its client is told so, and no application is asked for half of it.
fn an_upload_that_stalls(variant: &Variant) {
    let setup = Setup::new(variant);
    let (count, serve) = echo();
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    let config = format!("{}[timeouts]\nbody = '300 ms'\n", pool(&[&socket], ""));
    let server = setup.config(&config).start();
    let begun = [
        "Content-Length: 1000\r\n\r\nhalf",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nha",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
    ];
    let clients = begun.map(|begun| {
        let mut client = server.connect();
        client.send(format!("POST /app/x HTTP/1.1\r\nHost: x\r\n{begun}"));
        (client, begun)
    });
    for (mut client, begun) in clients {
        let reply = client.reply();
        assert_eq!((reply.status, reply.closes()), (408, true), "{begun:?}");
        client.expect_close();
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert_eq!(server.get("/app/x").status, 200);
}

/// Before anybody takes them in: what is behind them is answered where they have an end that can be found.
fn uploads_that_are_refused(variant: &Variant) {
    let setup = Setup::new(variant);
    let (count, serve) = echo();
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    let limits = "[[routes]]\npath = '/shut/**'\nstatus = 403\n[limits]\nbody = 100_000\n";
    let server = setup.config(&format!("{}{limits}", pool(&[&socket], ""))).start();
    let mut client = server.connect();
    for (target, status) in [("/nothing", 404), ("/hello.txt", 405), ("/shut/x", 403)] {
        client.send([post(target, &pattern(1, 100_000)), request("GET", "/hello.txt", &[]).into()].concat());
        let reply = client.reply();
        assert_eq!((reply.status, reply.closes()), (status, false), "{target}");
        assert_eq!(client.reply().text(), HELLO, "{target}");
    }
    let too_large = |fields: &str, body: &[u8]| {
        let head = format!("POST /app/x HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
        let reply = server.one([head.as_bytes(), body].concat());
        assert_eq!((reply.status, reply.closes()), (413, true), "{fields}");
    };
    too_large("Content-Length: 100001", b"");
    too_large("Content-Length: 100001", &pattern(1, 100_001));
    let chunk = [b"c350\r\n", &pattern(1, 50_000)[..], b"\r\n"].concat();
    too_large("Transfer-Encoding: chunked", &[&chunk.repeat(2)[..], b"1\r\nx\r\n0\r\n\r\n"].concat());
    too_large("Transfer-Encoding: chunked", &chunk.repeat(5));
    assert_eq!(count.load(Ordering::Relaxed), 0, "nobody is asked for a part of it");
    let all =
        [b"POST /app/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", &chunk.repeat(2)[..]];
    let reply = server.one([&all.concat()[..], b"0\r\n\r\n"].concat());
    assert_eq!(reply.need("X-Told"), "POST /x 100000");
}

/// One that shuts down its own side is taken to have left, where an application would have to work for it.
/// What was asked before that, of files, it gets.
fn half_closed_clients(variant: &Variant) {
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let server: Server = scripted_site(variant, move |mut asked: Asked| {
        // Until the request is given up.
        while asked.next_record().is_some() {}
        let told = told.lock().expect("no panic").clone();
        told.send(()).expect("the test waits");
    });
    for asked in [request("GET", "/app/x", &[]).into(), post("/app/x", b"body")] {
        let mut client = server.connect();
        client.send([request("GET", "/hello.txt", &[]).as_bytes(), &asked].concat());
        assert_eq!(client.reply().text(), HELLO);
        client.half_close();
        client.expect_end();
        // One that was still being asked for its transports never got the request.
        if conveyed::transport() == "stream" {
            heard.recv_timeout(TIMEOUT).expect("the application hears of it");
        }
    }
    // Half of a body is none.
    let mut client = server.connect();
    client.send([request("POST", "/app/x", &[("Content-Length", "10")]).as_bytes(), b"half"].concat());
    client.half_close();
    let (replies, _) = client.replies_until_end();
    assert!(replies.iter().all(|reply| reply.status >= 400), "{replies:?}");
    let later = std::iter::from_fn(|| heard.recv_timeout(std::time::Duration::from_millis(50)).ok());
    let most = if conveyed::transport() == "stream" { 0 } else { 2 };
    assert!(later.count() <= most, "nobody is asked");
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}
