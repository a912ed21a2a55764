//! Bodies of requests on their way to an application, whole and before it is asked.

use crate::scripted::{self, Asked, answer};
use crate::site::{busy, md5, php_site, pool, post};
use crate::support::client::{Reply, request};
use crate::support::server::Setup;
use crate::support::site::pattern;
use crate::support::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Each: bodies_are_brought, a_client_that_waits_to_be_asked, an_upload_that_stalls, large_uploads_go_on;
];

fn bodies_are_brought(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let server = setup.start();
    let mut client = server.connect();
    for length in [0, 1, 1000, 70_000, 1_000_000] {
        let body = pattern(7, length);
        let digest = |reply: &Reply| (reply.status, reply.text(), reply.need("X-Length").to_owned());
        let known =
            [("X-Form", "a"), ("Content-Type", "application/x"), ("Content-Length", &*length.to_string())];
        client.send(request("PUT", "/echo.php", &known));
        for piece in body.chunks(100_000) {
            client.send(piece);
        }
        let reply = client.reply();
        // A body that is not there has no length.
        let told = if length == 0 { String::new() } else { length.to_string() };
        let expected = (200, md5(&body), told);
        assert_eq!((digest(&reply), reply.need("X-Type")), (expected.clone(), "application/x"));
        client.send(request("POST", "/echo.php", &[("Transfer-Encoding", "chunked")]));
        for piece in body.chunks(33_333) {
            client.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
        }
        client.send("0\r\n\r\n");
        let reply = client.reply();
        assert_eq!(digest(&reply), expected);
    }
    // Larger than it may be.
    client.send(request("POST", "/echo.php", &[("Content-Length", "9000000")]));
    assert_eq!(client.reply().status, 413);
    // Two at once.
    let mut client = server.connect();
    client.send([post("/echo.php", b"first"), post("/echo.php", b"second")].concat());
    assert_eq!([client.reply().text(), client.reply().text()], [md5(b"first"), md5(b"second")]);
    // The other methods are for applications alone.
    assert_eq!(server.one(post("/hello.txt", b"x")).status, 405);
    assert_eq!(server.fetch("OPTIONS", "/hello.txt", &[]).status, 204);
}

fn a_client_that_waits_to_be_asked(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let server = setup.start();
    let mut client = server.connect();
    for _ in 0..2 {
        client.send(request("POST", "/echo.php", &[("Content-Length", "5"), ("Expect", "100-continue")]));
        assert_eq!(client.reply().status, 100);
        client.expect_silence(50);
        client.send("hello");
        let reply = client.reply();
        assert_eq!((reply.text(), reply.closes()), (md5(b"hello"), false));
    }
    // Nobody wants this one.
    client.send(request("POST", "/none.php", &[("Content-Length", "5"), ("Expect", "100-continue")]));
    let reply = client.reply();
    assert_eq!((reply.status, reply.closes()), (404, true));
}

/// Its client is told so, and no application is asked for half of it.
fn an_upload_that_stalls(variant: &Variant) {
    let setup = Setup::new(variant);
    let (counts, serve) = busy(0);
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    let config = format!("{}[timeouts]\nbody = '300 ms'\n", pool(&[&socket], ""));
    let server = setup.config(&config).start();
    let mut client = server.connect();
    client.send([request("POST", "/app/x", &[("Content-Length", "1000")]).as_bytes(), b"half"].concat());
    let reply = client.reply();
    assert_eq!((reply.status, reply.closes()), (408, true));
    client.expect_close();
    assert_eq!(counts.lock().expect("no panic").2, 0);
    assert_eq!(server.get("/app/x").text(), "well");
}

/// Turn by turn, without waiting for anything in between.
fn large_uploads_go_on(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = scripted::start(setup.directory(), "app.sock", |mut asked: Asked| {
        let length = asked.body.len();
        asked.say(answer(format!("X: y\n\n{length}")))
    });
    let config = format!("{}[event]\nquantum = '4 KiB'\n", pool(&[&socket], ""));
    let server = setup.config(&config).start();
    let mut client = server.connect();
    client.send(post("/app/x", &pattern(3, 1_000_000)));
    assert_eq!(client.reply().text(), "1000000");
}
