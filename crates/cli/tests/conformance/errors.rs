//! What a client is told when it gets no file.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use harness::server::{Server, Setup};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Three:
        every_error_is_well_framed,
        header_rules,
        own_pages,
        pages_that_change,
        pages_that_are_missing,
        no_echo,
        routes,
        told_in_a_line,
        when_to_ask_again;
];

fn every_error_is_well_framed(variant: &Variant) {
    let server = Server::start(variant);
    for (head, status) in [
        ("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        ("FOO / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
        ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        ("GET /hello.txt HTTP/1.1\r\nHost: x\r\nRange: bytes=1000-\r\n\r\n", 416),
    ] {
        let reply = server.one(head);
        assert_eq!(reply.status, status);
        assert!(!reply.reason.is_empty(), "{reply:?}");
        assert!(!reply.body.is_empty() && reply.field("Content-Type").is_some(), "{reply:?}");
        for name in ["ETag", "Last-Modified", "Accept-Ranges"] {
            assert!(status == 416 || reply.field(name).is_none(), "an error is no file: {reply:?}");
        }
    }
    // The reply to a head that could not be read has to stay short of content only where HEAD is understood.
    let mut client = server.connect();
    assert_eq!(client.fetch("HEAD", "/nothing", &[]).status, 404);
    assert_eq!(client.get("/hello.txt").status, 200);
}

/// What browsers want with every reply: HSTS, and the answer to a CORS preflight.
fn header_rules(variant: &Variant) {
    let config = r#"
        listing = true
        [[headers]]
        set = { Strict-Transport-Security = "max-age=63072000" }
        expires = "1 d"
        [[headers]]
        path = "/bare/**"
        set = { Access-Control-Allow-Origin = "*", Access-Control-Allow-Headers = "X-Own" }
    "#;
    let server = Setup::new(variant).config(config).start();
    for (head, status, cors) in [
        ("GET /bare/a.txt HTTP/1.1\r\nHost: x\r\n\r\n", 200, true),
        ("GET /bare/ HTTP/1.1\r\nHost: x\r\n\r\n", 200, true),
        ("OPTIONS /bare/a.txt HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\n\r\n", 204, true),
        ("GET /bare/nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404, true),
        ("GET /dir HTTP/1.1\r\nHost: x\r\n\r\n", 301, false),
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\n", 405, false),
        ("FOO /bare/a.txt HTTP/1.1\r\nHost: x\r\n\r\n", 501, true),
        // It breaks the protocol, so nothing is said of what it asks for.
        ("GET /bare/a.txt HTTP/1.1\r\n\r\n", 400, false),
    ] {
        let reply = server.one(head);
        assert_eq!(reply.status, status);
        assert_eq!(reply.need("Strict-Transport-Security"), "max-age=63072000", "{head}");
        assert_eq!(reply.field("Access-Control-Allow-Origin"), cors.then_some("*"), "{head}");
        assert_eq!(reply.field("Expires").is_some(), head.contains("a.txt") && status == 200, "{head}");
    }
}

/// Redirects, errors and fallbacks by path, on connections that go on.
fn routes(variant: &Variant) {
    let config = r#"
        [[routes]]
        path = "/old/**"
        redirect = "/{rest}"
        status = 308
        [[routes]]
        path = "/bare/**"
        status = 410
        [[routes]]
        path = "/app/**"
        fallback = "/hello.txt"
    "#;
    let server = Setup::new(variant).config(config).start();
    let mut client = server.connect();
    for _ in 0..3 {
        let reply = client.get("/old/dir/?a=b");
        assert_eq!((reply.status, reply.need("Location")), (308, "/dir/?a=b"));
        assert_eq!(client.get("/bare/a.txt").status, 410);
        assert_eq!(client.get("/app/page").text(), HELLO);
        assert_eq!(client.fetch("HEAD", "/app/page", &[]).status, 200);
        assert_eq!(client.get("/nothing").status, 404);
    }
    client.send("POST /old/form HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na=b");
    assert_eq!(client.reply().need("Location"), "/form");
    client.send("POST /app/form HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na=b");
    assert_eq!(client.reply().status, 405);
}

fn own_pages(variant: &Variant) {
    let page = "<!DOCTYPE html><title>not here</title>\n";
    let config =
        "[error_pages]\n404 = \"/errors/404.html\"\n405 = \"/errors/big.txt\"\n400 = \"/errors/400.html\"";
    let big = "big ".repeat(50_000);
    let setup = Setup::new(variant).config(config).file("errors/404.html", page).file("errors/big.txt", &big);
    let server = setup.file("errors/400.html", "bad").start();
    let mut client = server.connect();
    for _ in 0..2 {
        let reply = client.get("/nothing/at/all");
        assert_eq!((reply.status, reply.text().as_str()), (404, page));
        assert!(reply.need("Content-Type").starts_with("text/html"));
        let head = client.fetch("HEAD", "/nothing", &[]);
        assert_eq!((head.status, head.need("Content-Length")), (404, page.len().to_string().as_str()));
        let reply = client.fetch("POST", "/", &[]);
        assert_eq!((reply.status, reply.list("Allow").len()), (405, 3));
        assert!(reply.text() == big);
        // Its own range and validators are the page's, not those of what was asked for.
        let fields = [("Range", "bytes=0-1"), ("If-None-Match", "*"), ("Accept-Encoding", "gzip")];
        let reply = client.fetch("GET", "/nothing", &fields);
        assert_eq!((reply.status, reply.text().as_str()), (404, page));
    }
    let reply = server.one("GET / HTTP/1.1\r\n\r\n");
    assert_eq!((reply.status, reply.text().as_str(), reply.closes()), (400, "bad", true));
    // By its own address a page is a file.
    assert_eq!(server.get("/errors/404.html").status, 200);
}

fn pages_that_change(variant: &Variant) {
    let setup = Setup::new(variant).config("[files]\nvalidity = \"0 s\"\n[error_pages]\n404 = \"/404.html\"");
    let server = setup.file("404.html", "first").start();
    assert_eq!(server.get("/nothing").text(), "first");
    server.replace("404.html", "second, and longer");
    assert_eq!(server.get("/nothing").text(), "second, and longer");
}

/// An error page that is not there is no reason for another error.
fn pages_that_are_missing(variant: &Variant) {
    let setup = Setup::new(variant).config("[files]\nvalidity = \"0 s\"\n[error_pages]\n404 = \"/404.html\"");
    let server = setup.file("404.html", "first").start();
    std::fs::remove_file(server.root().join("404.html")).expect("a file");
    let reply = server.get("/nothing");
    assert_eq!(reply.status, 404);
    assert!(reply.text() != "first" && !reply.body.is_empty(), "{reply:?}");
}

/// A page that repeats what it was asked for can be made to say anything.
fn no_echo(variant: &Variant) {
    let server = Server::start(variant);
    for target in
        ["/<script>alert(1)</script>", "/%3Cscript%3Ealert(1)%3C/script%3E", "/x?<script>alert(1)</script>"]
    {
        let text = server.get(target).text();
        assert!(!text.contains("<script>"), "{text}");
    }
}

/// What the file system says is told with the path, which the client chose: as a line of its own, and once a
/// second.
fn told_in_a_line(variant: &Variant) {
    // What the kernel says of a network interface that has no such thing.
    let failing = Path::new("/sys/class/net/lo");
    assert!(std::fs::read(failing.join("speed")).is_err(), "a file that can be opened and not read");
    let setup = Setup::new(variant).config("[files]\nsymlinks = \"any\"");
    symlink(failing, setup.root().join("x\nlistening on everything")).expect("a link");
    let server = setup.start();
    let (began, mut client) = (Instant::now(), server.connect());
    for _ in 0..50 {
        assert_eq!(client.get("/x%0alistening%20on%20everything/speed").status, 500);
    }
    server.wait_for_line(|line| line.contains("can't read"));
    let (lines, seconds) = (server.stderr(), began.elapsed().as_secs() as usize);
    assert!(!lines.iter().any(|line| line.starts_with("listening on everything")), "{lines:#?}");
    let told = lines.iter().filter(|line| line.contains("can't read")).count();
    assert!(told <= 2 + seconds, "{told} lines in {seconds} s");
}

/// By the common setting, or by a rule; and with what may be asked for again alone.
fn when_to_ask_again(variant: &Variant) {
    let setup = Setup::new(variant).config(
        "limits.retry_after = '1500 ms'\n\
         [[routes]]\npath = '/{down,shop}'\nstatus = 503\n[[routes]]\npath = '/often'\nstatus = 429\n\
         [[headers]]\npath = '/{shop,often,hello.txt,nothing}'\nset = { Retry-After = '3600' }",
    );
    let server = setup.start();
    for (path, status, when) in [
        ("/down", 503, Some("2")),
        ("/shop", 503, Some("3600")),
        ("/often", 429, Some("3600")),
        ("/hello.txt", 200, None),
        ("/nothing", 404, None),
    ] {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.field("Retry-After")), (status, when), "{path}");
    }
}
