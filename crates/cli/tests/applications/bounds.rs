//! What takes too long, is too long, or goes on for longer than its reply.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixListener;
use std::thread;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::site::php_site;
use harness::client::post;
use harness::scripted::pool;
use harness::server::Setup;
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};

pub(super) const TESTS: &[Test] = tests![Three:
    a_queue_that_stays_full,
    an_application_that_takes_nothing,
    a_parameter_that_is_too_long,
    a_script_that_goes_on
];

/// The queue of a Unix socket, where nobody accepts: there is a time for that, and then an answer.
fn a_queue_that_stays_full(variant: &Variant) {
    let setup = Setup::new(variant);
    let path = setup.directory().join("full.sock");
    let address = SockAddr::unix(&path).expect("an address");
    let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    listener.bind(&address).expect("a path");
    listener.listen(0).expect("a listener");
    let mut waiting = Vec::new();
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        socket.set_nonblocking(true).expect("an option");
        match socket.connect(&address) {
            Ok(()) => waiting.push(socket),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    let server = setup.config(&pool(&[&path], "connect_timeout = '300 ms'")).start();
    let mut client = server.connect();
    assert_eq!(client.get("/app/x").status, 503);
    // Whoever is accepted in time is served.
    client.ask("GET", "/app/x", &[]);
    sleep_ms(100);
    let accepting = thread::spawn(move || {
        for _ in 0..=waiting.len() {
            let (socket, _) = listener.accept().expect("a connection");
            let _ = socket.send(&harness::scripted::answer("X: y\n\nwell"));
            waiting.pop();
            // Let it read what is asked of it.
            thread::spawn(move || std::io::copy(&mut &socket, &mut std::io::sink()));
        }
    });
    assert_eq!(client.reply().text(), "well");
    accepting.join().expect("all are accepted");
}

/// It neither says nor takes anything, while there is more for it than its socket holds.
fn an_application_that_takes_nothing(variant: &Variant) {
    let setup = Setup::new(variant);
    let path = setup.directory().join("deaf.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    thread::spawn(move || {
        let mut kept = Vec::new();
        for socket in listener.incoming() {
            kept.push(socket);
        }
    });
    let server = setup.config(&pool(&[&path], "timeout = '300 ms'")).start();
    let mut client = server.connect();
    client.send(post("/app/x", &pattern(5, 6_000_000)));
    assert_eq!(client.reply().status, 504);
    assert_eq!(client.get("/hello.txt").text(), HELLO);
}

/// The application is not asked with a part of it.
fn a_parameter_that_is_too_long(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = harness::scripted::start(setup.directory(), "app.sock", |mut asked| {
        let length = asked.params["HTTP_COOKIE"].len();
        asked.say(harness::scripted::answer(format!("X: y\n\n{length}")))
    });
    let server =
        setup.config(&format!("{}[limits]\nheader_size = '200 KiB'\n", pool(&[&socket], ""))).start();
    let mut client = server.connect();
    let most = 65_535 - "HTTP_COOKIE".len() - 1 - 4;
    assert_eq!(client.fetch("GET", "/app/x", &[("Cookie", &"x".repeat(most))]).text(), most.to_string());
    assert_eq!(client.fetch("GET", "/app/x", &[("Cookie", &"x".repeat(most + 1))]).status, 431);
    let half = "x".repeat(40_000);
    assert_eq!(client.fetch("GET", "/app/x", &[("Cookie", &half), ("Cookie", &half)]).status, 431);
    assert_eq!(client.get("/hello.txt").text(), HELLO);
}

/// What PHP does after `fastcgi_finish_request` is none of the client's business: it has its whole reply, and
/// the connection goes on.
fn a_script_that_goes_on(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let [go, done] = ["go", "done"].map(|name| setup.directory().join(name));
    let script = format!(
        "<?php ignore_user_abort(true); echo 'before'; fastcgi_finish_request();
         while (!file_exists('{}')) {{ usleep(10000); clearstatcache(); }}
         echo 'after'; flush(); fwrite(fopen('php://stderr', 'w'), 'more'); touch('{}');",
        go.display(),
        done.display()
    );
    let server = setup.file("goes-on.php", script).start();
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/goes-on.php").text(), "before");
        assert_eq!(client.get("/index.php").text(), "index /index.php -");
        fs::write(&go, "").expect("a file");
        eventually("the script goes on", || done.exists());
        assert_eq!(client.get("/index.php").text(), "index /index.php -");
        for file in [&go, &done] {
            fs::remove_file(file).expect("a file");
        }
    }
    assert_eq!(server.pool_count("failures"), 0);
}
