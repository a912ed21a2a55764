//! Connections to applications that are kept for another request.

use std::fs;
use std::sync::{Arc, Mutex};

use crate::site::{ECHO, INDEX, md5};
use harness::client::{Client, post};
use harness::eventually;
use harness::fpm::Fpm;
use harness::scripted::{self, Asked, pool};
use harness::server::{Server, Setup};
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Three:
        connections_that_are_kept,
        kept_connections_that_break,
        what_is_said_behind_the_end,
        php_on_kept_connections;
];

/// Until an application has mostly come to wait for the next request: before that it gets none.
const COME_TO_REST_MS: u64 = 10;

/// How often each number of requests before it on its connection was seen, with the method.
type Seen = Arc<Mutex<Vec<(String, usize)>>>;

/// An application that keeps its connections, and a pool that does.
fn keeping_site(
    variant: &Variant,
    of_pool: &str,
    serve: impl Fn(&mut Asked, usize) -> bool + Send + Sync + 'static,
) -> (Server, Seen) {
    let seen = Seen::default();
    let setup = Setup::new(variant);
    let told = Arc::clone(&seen);
    let socket = scripted::start_keeping(setup.directory(), "app.sock", move |asked, before| {
        told.lock().expect("no panic").push((asked.params["REQUEST_METHOD"].clone(), before));
        serve(asked, before)
    });
    (setup.config(&pool(&[&socket], of_pool)).start(), seen)
}

/// Each client one request after the other, on connections that the application may close at any time, and
/// says twice that a reply is over.
fn connections_that_are_kept(variant: &Variant) {
    let (server, seen) =
        keeping_site(variant, "keep = 1\nkeep_timeout = '1 s'", |asked, _| asked.answer("X: y\n\nwell", 2));
    let mut client = server.connect();
    for round in 0..20 {
        harness::sleep_ms(COME_TO_REST_MS);
        assert_eq!(client.get("/app/x").text(), "well");
        if round % 5 == 4 {
            client.send(post("/app/x", b"body"));
            assert_eq!(client.reply().text(), "well");
        }
    }
    let seen = seen.lock().expect("no panic").clone();
    let fresh = |method: &str| seen.iter().filter(|(of, before)| of == method && *before == 0).count();
    assert_eq!((seen.len(), fresh("POST")), (24, 4), "what may not be repeated has a connection of its own");
    let reused = server.pool_count("reused") as usize;
    assert_eq!(reused, 20 - fresh("GET"));
    assert_eq!(reused > 0, !variant.serves_one_at_a_time(), "{seen:?}");
    eventually("they are closed", || {
        let sockets = fs::read_to_string("/proc/net/unix").expect("a list");
        sockets.lines().filter(|line| line.contains(&*server.directory().to_string_lossy())).count() <= 2
    });
}

/// That is nobody's fault, and the next one to ask is not told of it.
fn kept_connections_that_break(variant: &Variant) {
    let (server, seen) =
        keeping_site(variant, "keep = 1", |asked, before| before == 0 && asked.answer("X: y\n\nwell", 1));
    let mut client = server.connect();
    for _ in 0..20 {
        harness::sleep_ms(COME_TO_REST_MS);
        assert_eq!(client.get("/app/x").text(), "well");
    }
    let broke = seen.lock().expect("no panic").iter().filter(|(_, before)| *before > 0).count() as u64;
    let pool = server.status()["pools"][0].clone();
    assert_eq!((&pool["retried"], &pool["failures"]), (&broke.into(), &0.into()));
    assert_eq!(broke > 0, !variant.serves_one_at_a_time(), "{pool}");
}

/// PHP can write after `fastcgi_finish_request`, and ends some requests twice: nobody gets that, least of all
/// as the next reply.
fn what_is_said_behind_the_end(variant: &Variant) {
    let (server, seen) = keeping_site(variant, "keep = 1", |asked, before| {
        let behind = asked.numbered(&[(6, b"X: y\n\nstray"), (7, b"stray"), (3, &[0; 8])]);
        asked.answer("X: y\n\nwell", 1);
        // With the end of the reply, or when the next request is announced.
        harness::sleep_ms(before as u64 % 2 * COME_TO_REST_MS);
        asked.say(behind)
    });
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/app/x").text(), "well");
        harness::sleep_ms(2 * COME_TO_REST_MS);
    }
    let seen = seen.lock().expect("no panic").clone();
    // Also after one for which more came late.
    assert_eq!(seen.iter().any(|(_, before)| *before > 1), !variant.serves_one_at_a_time(), "{seen:?}");
    let pool = server.status()["pools"][0].clone();
    assert_eq!((&pool["failures"], &pool["retried"]), (&0.into(), &0.into()));
    let told = server.stderr();
    assert!(!told.iter().any(|line| line.contains("stray")), "{told:?}");
}

/// A script that works on after its reply keeps nobody waiting, although its connection is kept.
fn php_on_kept_connections(variant: &Variant) {
    const WORKS_ON: &str = "<?php ignore_user_abort(true); echo 'said'; fastcgi_finish_request();
        while (!file_exists(__DIR__ . '/end')) usleep(10000);
        echo 'more'; flush(); file_put_contents('php://stderr', 'more');
        touch(__DIR__ . '/done');";
    let setup =
        Setup::new(variant).file("index.php", INDEX).file("works-on.php", WORKS_ON).file("echo.php", ECHO);
    let root = setup.root();
    // As many as may be in flight, and one kept by each worker.
    let fpm = Fpm::start(setup.directory(), 10);
    let config = format!(
        "[[pools]]\nname = 'php'\nservers = 'unix:{}'\nchildren = 4\nkeep = 1\n[[routes]]\npool = 'php'\n",
        fpm.socket.display()
    );
    let server = setup.config(&config).start();
    let mut client = server.connect();
    let index = |client: &mut Client| {
        harness::sleep_ms(COME_TO_REST_MS);
        assert_eq!(client.get("/index.php").text(), "index /index.php -");
    };
    for _ in 0..5 {
        index(&mut client);
        client.send(post("/echo.php", b"body"));
        assert_eq!(client.reply().text(), md5(b"body"));
    }
    assert_eq!(client.get("/works-on.php").text(), "said");
    for _ in 0..5 {
        index(&mut client);
    }
    assert!(!root.join("done").exists());
    fs::write(root.join("end"), "").expect("a file");
    eventually("it is done", || root.join("done").exists());
    for _ in 0..5 {
        index(&mut client);
    }
    let pool = server.status()["pools"][0].clone();
    assert_eq!((&pool["failures"], &pool["requests"]), (&0.into(), &21.into()));
    let reused = pool["reused"].as_u64().expect("a number");
    assert_eq!(reused > 0, !variant.serves_one_at_a_time(), "{pool}");
}
