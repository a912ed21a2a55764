//! Bodies of requests on their way to an application. The server asks it after it has the whole body.

use crate::site::{md5, php_site};
use harness::client::{Reply, post, request};
use harness::scripted::{self, Asked, answer, pool};
use harness::server::Setup;
use harness::site::pattern;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Drivers: bodies_are_brought, large_uploads_go_on;
    Three: what_is_wrong_with_them_is_told_by_their_site;
];

fn bodies_are_brought(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let server = setup.start();
    let mut client = server.connect();
    for length in [0, 1, 1000, 70_000, 1_000_000, 1_500_000] {
        let body = pattern(7, length);
        let digest = |reply: &Reply| (reply.status, reply.text(), reply.need("X-Length").to_owned());
        let known =
            [("X-Form", "a"), ("Content-Type", "application/x"), ("Content-Length", &*length.to_string())];
        client.send(request("PUT", "/echo.php", &known));
        for piece in body.chunks(100_000) {
            client.send(piece);
        }
        let reply = client.reply();
        let expected = (200, md5(&body), length.to_string());
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
    // The other methods are for applications alone.
    assert_eq!(server.one(post("/hello.txt", b"x")).status, 405);
    assert_eq!(server.fetch("OPTIONS", "/hello.txt", &[]).status, 204);
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

fn what_is_wrong_with_them_is_told_by_their_site(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = scripted::start(setup.directory(), "app.sock", |mut asked: Asked| {
        asked.say(answer("X: y\n\nwell"));
    });
    let site = format!(
        "[[sites]]\nhosts = 'a.example'\nroot = '{}'\n\
         [[sites.headers]]\nset = {{ X-Site = 'a' }}\n\
         [[sites.routes]]\npath = '/app/**'\npool = 'app'\nprogram = '/srv/app'\n\
         [limits]\nbody = '100 KB'\n[timeouts]\nbody = '300 ms'\n",
        setup.root().display()
    );
    let server = setup.config(&(pool(&[&socket], "") + &site)).start();
    for (host, site) in [("a.example", Some("a")), ("test", None)] {
        for (body, status) in [("5\r\nhello\r\nzz\r\n", 400), ("30d40\r\n", 413), ("5\r\nhello\r\n", 408)] {
            let head = format!("POST /app/x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n");
            let reply = server.one(head + body);
            assert_eq!((reply.status, reply.field("X-Site")), (status, site), "{host}: {body:?}");
        }
    }
}
