//! Applications behind the server: PHP-FPM as the distribution has it, and applications that misbehave.

mod bounds;
mod fpm;
mod scripted;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;

use fpm::Fpm;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::Signal;
use scripted::{Asked, answer, end, record};
use support::client::{Broken, Client, Reply, request};
use support::eventually;
use support::server::{Server, Setup};
use support::site::{HELLO, pattern};
use support::variant::{Test, Variant, tests};

const TESTS: &[Test] = tests![
    Each:
        php,
        one_request_after_the_other,
        bodies_are_brought,
        a_client_that_waits_to_be_asked,
        an_upload_that_stalls,
        large_uploads_go_on,
        a_client_that_leaves,
        a_slow_client,
        slow_clients_occupy_nobody,
        as_many_as_it_has_children,
        an_application_that_is_silent,
        applications_that_break;
    Three:
        scripts_never_leave,
        scripts_that_are_refused,
        fields_that_deceive,
        routes_to_programs,
        sites_with_scripts,
        files_that_are_named,
        several_servers,
        a_line_has_an_end,
        who_leaves_the_line_is_not_asked_for,
        workers_that_die,
        seen_from_outside,
        connections_that_are_kept,
        kept_connections_that_break,
        php_on_kept_connections,
        a_full_disk_beneath_the_spool,
        spilled_replies_are_bounded,
        scant_memory,
        errors_are_logged,
        a_reload;
    One: mistakes_are_told;
];

fn main() -> ExitCode {
    support::client::take_chunks();
    support::variant::run(&[("applications", TESTS), ("bounds", bounds::TESTS)])
}

const INDEX: &str = "<?php echo 'index ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-';";
const ECHO: &str = "<?php
    header('X-Length: ' . ($_SERVER['CONTENT_LENGTH'] ?? ''));
    header('X-Type: ' . ($_SERVER['CONTENT_TYPE'] ?? ''));
    echo md5(file_get_contents('php://input'));";
const LARGE: &str = "<?php for ($i = 0; $i < 1000; $i++) echo str_repeat(chr(65 + $i % 26), 1000);";

/// A site with scripts, and PHP-FPM to run them.
fn php_site(variant: &Variant) -> (Setup, Fpm) {
    let setup = Setup::new(variant)
        .file("index.php", INDEX)
        .file("blog/index.php", INDEX)
        .file("echo.php", ECHO)
        .file("large.php", LARGE)
        .file("gone.php", "<?php header('Location: /x'); http_response_code(410); echo 'gone';");
    let fpm = Fpm::start(setup.directory(), 3);
    let setup = setup.argument(fpm.argument());
    (setup, fpm)
}

/// The standard site with a pool that an application in this process is, for all below `/app/`.
fn scripted_site<R>(variant: &Variant, serve: impl Fn(Asked) -> R + Send + Sync + 'static) -> Server {
    scripted_site_with(variant, "", serve)
}

fn scripted_site_with<R>(
    variant: &Variant,
    of_pool: &str,
    serve: impl Fn(Asked) -> R + Send + Sync + 'static,
) -> Server {
    let setup = Setup::new(variant);
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    setup.config(&pool(&[&socket], of_pool)).start()
}

/// The same with settings of the gateway.
fn gateway_site<R>(
    variant: &Variant,
    of_gateway: &str,
    of_pool: &str,
    serve: impl Fn(Asked) -> R + Send + Sync + 'static,
) -> Server {
    let setup = Setup::new(variant);
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    setup.config(&format!("{}[gateway]\n{of_gateway}\n", pool(&[&socket], of_pool))).start()
}

fn pool(sockets: &[&Path], more: &str) -> String {
    let sockets: Vec<_> = sockets.iter().map(|socket| format!("'unix:{}'", socket.display())).collect();
    format!(
        "[[pools]]\nname = 'app'\nservers = [{}]\n{more}\n\
         [[routes]]\npath = '/app/**'\npool = 'app'\nprogram = '/srv/app'\n",
        sockets.join(", ")
    )
}

fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    [request("POST", target, &[("Content-Length", &length)]).as_bytes(), body].concat()
}

fn php(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let server = setup.start();
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/").text(), "index /index.php -");
        assert_eq!(client.get("/hello.txt").text(), HELLO);
        assert_eq!(client.get("/index.php/a/b?c").text(), "index /index.php /a/b");
        assert_eq!(client.get("/blog/").text(), "index /blog/index.php -");
        let slash = client.get("/blog");
        assert_eq!((slash.status, slash.need("Location")), (301, "/blog/"));
        for missing in ["/none.php", "/none.php/a", "/blog/none.php", "/index.PHP", "/none"] {
            assert_eq!(client.get(missing).status, 404, "{missing}");
        }
        let gone = client.get("/gone.php");
        assert_eq!((gone.status, gone.need("Location"), &*gone.text()), (410, "/x", "gone"));
        let large = client.get("/large.php");
        assert_eq!(
            (large.status, large.body.len(), large.body[999_999]),
            (200, 1_000_000, b'A' + (999_u16 % 26) as u8)
        );
        let head = client.fetch("HEAD", "/index.php", &[]);
        assert_eq!((head.status, head.body.len()), (200, 0));
    }
    client.send("GET /index.php HTTP/1.0\r\nHost: x\r\n\r\n");
    let reply = client.reply();
    assert_eq!((reply.closes(), &*reply.text()), (true, "index /index.php -"));
    client.expect_close();
    assert_eq!(server.get("/index.php").text(), "index /index.php -");
    eventually("all are counted", || server.pool_count("requests") >= 12);
    assert_eq!((server.pool_count("failures"), server.pool_count("clients_left")), (0, 0));
}

/// Nobody waits for anything but the application: if a request were only noticed when its client is looked
/// after, so many would take longer than anything may.
fn one_request_after_the_other(variant: &Variant) {
    let server = scripted_site(variant, |mut asked: Asked| asked.say(answer("X: y\n\nwell")));
    let mut client = server.connect();
    let took = support::client::time(|| {
        for _ in 0..100 {
            assert_eq!(client.get("/app/x").text(), "well");
        }
    });
    assert!(took < support::PATIENCE, "{took:?}");
}

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

/// By the tool that everybody has: the application's word for it must not be ours.
fn md5(bytes: &[u8]) -> String {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child =
        Command::new("md5sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("md5sum");
    child.stdin.take().expect("a pipe").write_all(bytes).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout[..32]).into_owned()
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

fn a_client_that_leaves(variant: &Variant) {
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let server = scripted_site(variant, move |mut asked| {
        let begun = asked.params["QUERY_STRING"] == "begun";
        if begun {
            asked.say(record(6, b"X: y\r\n\r\nbegun"));
        }
        let told = told.lock().expect("no panic").clone();
        told.send(Vec::new()).expect("the test waits");
        let records: Vec<_> = std::iter::from_fn(|| asked.next_record()).collect();
        let _ = told.send(records);
    });
    for (left, target) in ["/app/x", "/app/x?begun"].into_iter().enumerate() {
        let mut client = server.connect();
        client.ask("GET", target, &[]);
        heard.recv_timeout(support::PATIENCE).expect("the application is asked");
        if target.ends_with("begun") {
            client.read_raw(10).expect("a reply begins");
        }
        drop(client);
        // The request to abort, and the end.
        assert_eq!(heard.recv_timeout(support::PATIENCE).expect("the application hears of it"), [2]);
        eventually("it is counted", || server.pool_count("clients_left") == left as u64 + 1);
    }
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

/// Nobody waits for it, and of a reply no more is kept than a part.
fn a_slow_client(variant: &Variant) {
    const PIECE: usize = 60_000;
    const PIECES: usize = 600;
    let said = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&said);
    let server = gateway_site(variant, "spill = 0", "", move |mut asked| {
        asked.say(record(6, b"Content-Type: text/plain\r\n\r\n"));
        for _ in 0..PIECES {
            if !asked.say(record(6, &vec![b'x'; PIECE])) {
                return;
            }
            *counted.lock().expect("no panic") += 1;
        }
        asked.say(end());
    });
    let mut slow = Client::connect_narrow(server.addresses()[0]);
    slow.ask("GET", "/app/x", &[]);
    let count = || *said.lock().expect("no panic");
    eventually("it has begun", || count() > 0);
    let mut before = 0;
    eventually("the application waits", || {
        support::sleep_ms(200);
        std::mem::replace(&mut before, count()) == count()
    });
    assert!(count() < PIECES / 2, "{} pieces are under way", count());
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    let reply = slow.reply();
    assert_eq!((reply.status, reply.body.len()), (200, PIECE * PIECES));
    assert_eq!(server.pool_count("failures"), 0);
}

fn an_application_that_is_silent(variant: &Variant) {
    let server = scripted_site_with(variant, "timeout = '300 ms'\ntotal_timeout = '1 s'", |mut asked| {
        match &*asked.params["QUERY_STRING"] {
            "nothing" => {}
            "begun" => {
                asked.say(record(6, b"Content-Type: a/b\r\n\r\nbegun"));
            }
            // Slow, but never for so long.
            _ => {
                asked.say(record(6, b"Content-Type: a/b\r\n\r\n"));
                while asked.say(record(6, b"x")) {
                    support::sleep_ms(100);
                }
            }
        }
        while asked.next_record().is_some() {}
    });
    let mut client = server.connect();
    assert_eq!(client.get("/app/?nothing").status, 504);
    assert_eq!(client.get("/hello.txt").text(), HELLO);
    for target in ["/app/?begun", "/app/?always"] {
        let mut client = server.connect();
        client.ask("GET", target, &[]);
        assert!(matches!(client.try_reply(), Err(Broken::Reset | Broken::CutShort(_))), "{target}");
    }
    assert_eq!(server.pool_count("failures"), 3);
}

/// Requests that are with an application now, at most at a time, and in all.
type Counts = Arc<Mutex<(usize, usize, usize)>>;

/// An application that takes that long for each request, and counts those that are with it, and the most.
fn busy(ms: u64) -> (Counts, impl Fn(Asked) + Send + Sync + 'static) {
    let counts = Counts::default();
    let counted = Arc::clone(&counts);
    let serve = move |mut asked: Asked| {
        {
            let (now, most, all) = &mut *counted.lock().expect("no panic");
            *now += 1;
            *most = (*most).max(*now);
            *all += 1;
        }
        support::sleep_ms(ms);
        // The next may come as soon as this one is over.
        counted.lock().expect("no panic").0 -= 1;
        asked.say(answer("X: y\n\nwell"));
    };
    (counts, serve)
}

/// Of all workers together.
fn as_many_as_it_has_children(variant: &Variant) {
    let (counts, serve) = busy(60);
    let server = scripted_site_with(variant, "children = 2", serve);
    let address = server.addresses()[0];
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for _ in 0..3 {
                    assert_eq!(client.get("/app/x").text(), "well");
                }
            });
        }
    });
    let (now, most, all) = *counts.lock().expect("no panic");
    assert_eq!((now, most, all), (0, 2, 24));
    assert_eq!(server.pool_count("failures"), 0);
}

fn a_line_has_an_end(variant: &Variant) {
    let (_, serve) = busy(1500);
    let server = scripted_site_with(variant, "children = 1\nqueue = 1\nqueue_timeout = '300 ms'", serve);
    let mut first = server.connect();
    first.ask("GET", "/app/first", &[]);
    eventually("the first is asked for", || server.pool_count("requests") == 1);
    let mut second = server.connect();
    second.ask("GET", "/app/second", &[]);
    eventually("the second waits", || server.pool_count("requests") == 2);
    let mut third = server.connect();
    for _ in 0..2 {
        let reply = third.get("/app/third");
        assert_eq!((reply.status, reply.need("Retry-After"), reply.closes()), (503, "1", false));
    }
    let reply = second.reply();
    assert_eq!((reply.status, reply.need("Retry-After")), (503, "1"));
    assert_eq!(second.get("/hello.txt").text(), HELLO);
    assert_eq!(first.reply().text(), "well");
    assert_eq!(second.get("/app/second").text(), "well");
    let counts = ["refused", "expired", "failures"].map(|of| server.pool_count(of));
    assert_eq!(counts, [2, 1, 3]);
}

fn who_leaves_the_line_is_not_asked_for(variant: &Variant) {
    let (asked_for, is_open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, opened) = (Arc::clone(&asked_for), Arc::clone(&is_open));
    let server = scripted_site_with(variant, "children = 1", move |mut asked| {
        counted.fetch_add(1, Ordering::Relaxed);
        eventually("the test goes on", || opened.load(Ordering::Relaxed));
        asked.say(answer("X: y\n\nwell"));
    });
    let mut clients: Vec<_> = (0..3)
        .map(|at| {
            let mut client = server.connect();
            client.ask("GET", "/app/x", &[]);
            eventually("it is read", || server.pool_count("requests") == at + 1);
            client
        })
        .collect();
    drop(clients.remove(1));
    eventually("it is noticed", || server.pool_count("clients_left") == 1);
    is_open.store(true, Ordering::Relaxed);
    for mut client in clients {
        assert_eq!(client.reply().text(), "well");
    }
    assert_eq!(asked_for.load(Ordering::Relaxed), 2);
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// What a pool's requests go through: on the status page while they do, and in the log afterwards.
fn seen_from_outside(variant: &Variant) {
    let is_open = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&is_open);
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let setup = Setup::new(variant);
    let socket = scripted::start(setup.directory(), "app.sock", move |mut asked| {
        let trace = asked.params.get("HTTP_TRACEPARENT").cloned();
        told.lock().expect("no panic").send(trace).expect("the test waits");
        eventually("the test goes on", || opened.load(Ordering::Relaxed));
        support::sleep_ms(30);
        asked.say(answer("X: y\n\nwell"));
    });
    let log = setup.directory().join("access.log");
    let setup = setup.argument(format!("--access-log={}", log.display())).argument("--log-format=json");
    let server = setup.config(&pool(&[&socket], "children = 1\nqueue = 1")).start();
    let told = |name: &str| server.pool_count(name);
    let mut first = server.connect();
    first.ask("GET", "/app/first", &[("traceparent", TRACE)]);
    assert_eq!(heard.recv_timeout(support::PATIENCE).expect("it is asked"), Some(TRACE.to_owned()));
    let mut second = server.connect();
    second.ask("GET", "/app/second", &[("traceparent", "rubbish")]);
    eventually("one waits", || told("queued") == 1);
    assert_eq!((told("in_flight"), told("requests")), (1, 2));
    assert_eq!(server.get("/app/third").status, 503);
    assert_eq!((told("requests"), told("refused"), told("failures")), (3, 1, 1));
    support::sleep_ms(20);
    is_open.store(true, Ordering::Relaxed);
    assert_eq!((first.reply().text(), second.reply().text()), ("well".into(), "well".into()));
    eventually("nobody is left", || (told("queued"), told("in_flight")) == (0, 0));
    let pool = server.status()["pools"][0].clone();
    assert_eq!(
        (&pool["name"], &pool["clients_left"], &pool["expired"]),
        (&"app".into(), &0.into(), &0.into())
    );
    let count = |of: &str| -> u64 {
        let buckets = pool[of].as_object().expect("a histogram").values();
        buckets.filter_map(serde_json::Value::as_u64).sum()
    };
    assert_eq!(["waits_ms", "connects_ms", "first_bytes_ms", "last_bytes_ms"].map(count), [2; 4]);
    let us = |of: &str| pool[of].as_u64().expect("a number");
    assert!(us("wait_us") >= 50_000 && us("first_byte_us") >= 80_000, "{pool}");
    assert!(us("first_byte_us") <= us("last_byte_us"), "{pool}");
    let (_, metrics) = server.status_page("/metrics");
    assert!(metrics.contains("\nsluice_pool_waits_seconds_count{pool=\"app\"} 2\n"), "{metrics}");
    let (_, text) = server.status_page("/");
    assert!(text.lines().any(|line| line.split_whitespace().eq(["pool", "app"])), "{text}");

    assert_eq!(server.get("/hello.txt").text(), HELLO);
    let line = |target: &str| -> serde_json::Value {
        let find = || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.lines().find(|line| line.contains(target)).map(str::to_owned)
        };
        eventually("it is logged", || find().is_some());
        serde_json::from_str(&find().expect("a line")).expect("it is JSON")
    };
    let (first, second, file) = (line("/app/first"), line("/app/second"), line("/hello.txt"));
    let ms = |line: &serde_json::Value, of: &str| line[of].as_u64().expect("a number");
    assert_eq!((&first["pool"], &first["traceparent"]), (&"app".into(), &TRACE.into()));
    assert!(ms(&first, "queue_ms") < ms(&first, "application_ms"), "{first}");
    assert!(ms(&second, "queue_ms") >= 50 && ms(&second, "application_ms") >= 30, "{second}");
    assert!(ms(&second, "duration_ms") + 2 >= ms(&second, "queue_ms") + ms(&second, "application_ms"));
    assert_eq!((second.get("traceparent"), file.get("pool"), file.get("queue_ms")), (None, None, None));
}

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
        support::sleep_ms(COME_TO_REST_MS);
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
        support::sleep_ms(COME_TO_REST_MS);
        assert_eq!(client.get("/app/x").text(), "well");
    }
    let broke = seen.lock().expect("no panic").iter().filter(|(_, before)| *before > 0).count() as u64;
    let pool = server.status()["pools"][0].clone();
    assert_eq!((&pool["retried"], &pool["failures"]), (&broke.into(), &0.into()));
    assert_eq!(broke > 0, !variant.serves_one_at_a_time(), "{pool}");
}

/// A script that works on after its reply keeps nobody waiting, although its connection is kept.
fn php_on_kept_connections(variant: &Variant) {
    const WORKS_ON: &str = "<?php echo 'said'; fastcgi_finish_request();
        while (!file_exists(__DIR__ . '/end')) usleep(10000);
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
        support::sleep_ms(COME_TO_REST_MS);
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

/// The application is free while they take their time, and they get all of it. It is told where it ends in
/// each of the ways.
fn slow_clients_occupy_nobody(variant: &Variant) {
    const LENGTH: usize = 12_000_000;
    let body = Arc::new(pattern(3, LENGTH));
    let large = Arc::clone(&body);
    let server = gateway_site(variant, "", "children = 1", move |mut asked| {
        let how = &*asked.params["QUERY_STRING"];
        let head = if how == "chunked" { String::new() } else { format!("Content-Length: {LENGTH}\n") };
        let length = if how == "quick" { 4 } else { LENGTH };
        let end = if how == "closed" { Vec::new() } else { end() };
        let head = if how == "quick" { "X: y\n\n".to_owned() } else { head + "X: y\n\n" };
        asked.say([record(6, head.as_bytes()), record(6, &large[..length]), end].concat());
    });
    for (at, how) in ["chunked", "length", "closed"].iter().enumerate() {
        let mut slow = Client::connect_narrow(server.addresses()[0]);
        slow.ask("GET", &format!("/app/?{how}"), &[]);
        eventually("the rest is on the disk", || server.pool_count("spilled") == at as u64 + 1);
        // With one child nobody else would be served if that waited.
        assert_eq!(server.get("/app/?quick").body, body[..4]);
        eventually("some of it is in memory", || server.count("application_memory_bytes") > 0);
        let reply = slow.reply();
        assert_eq!(reply.status, 200, "{how}");
        assert!(reply.body == *body, "{how}: {} bytes", reply.body.len());
        eventually("nothing is in memory", || server.count("application_memory_bytes") == 0);
        assert_eq!(server.pool_count("failures"), 0, "{how}");
    }
}

/// All goes the long way: bodies through the disk, and replies in small pieces.
fn scant_memory(variant: &Variant) {
    let server = gateway_site(variant, "memory = 0\nspill = '1 MiB'", "", |mut asked| {
        let body = asked.body.repeat(20);
        asked.say([record(6, b"X: y\n\n"), record(6, &body), end()].concat());
    });
    for length in [1, 1000, 300_000] {
        let body = pattern(5, length);
        let mut client = Client::connect_narrow(server.addresses()[0]);
        client.send(post("/app/x", &body));
        let reply = client.reply();
        assert!(reply.body == body.repeat(20), "{length}: {} bytes", reply.body.len());
    }
    assert_eq!(server.pool_count("failures"), 0);
}

/// A small file system.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`: it can't be had here, which is told.
    fn mount(below: &Path) -> Option<Self> {
        let directory = below.join("disk");
        fs::create_dir(&directory).expect("a directory");
        match rustix::mount::mount("tmpfs", &directory, "tmpfs", MountFlags::empty(), c"size=1m,mode=777") {
            Ok(()) => Some(Self(directory)),
            Err(error) => {
                eprintln!("skipped: a file system can't be mounted here: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A body has no place then, but a reply goes on as fast as its client takes it.
fn a_full_disk_beneath_the_spool(variant: &Variant) {
    let setup = Setup::new(variant);
    let Some(disk) = SmallDisk::mount(setup.directory()) else { return };
    let reply = Arc::new(pattern(9, 8_000_000));
    let large = Arc::clone(&reply);
    let socket = scripted::start(setup.directory(), "app.sock", move |mut asked| {
        let body: &[u8] = if asked.body.is_empty() { &large } else { &asked.body };
        let answer = [record(6, b"X: y\n\n"), record(6, body), end()].concat();
        asked.say(answer);
    });
    let config = format!("{}[gateway]\nspool = '{}'\n", pool(&[&socket], ""), disk.0.display());
    let server = setup.config(&config).start();
    for _ in 0..2 {
        // What was begun is given back.
        assert_eq!(server.one(post("/app/x", &pattern(1, 900_000))).body, pattern(1, 900_000));
        let mut slow = Client::connect_narrow(server.addresses()[0]);
        slow.ask("GET", "/app/x", &[]);
        server.wait_for_line(|line| line.contains("the reply can't be spooled: No space left on device"));
        assert_eq!(server.get("/hello.txt").text(), HELLO);
        assert!(slow.reply().body == *reply);
    }
    let mut client = server.connect();
    client.send(post("/app/x", &pattern(1, 3_000_000)));
    assert_eq!(client.reply().status, 503);
    assert_eq!((server.pool_count("failures"), server.count("replies_by_code/503")), (1, 1));
}

/// However long a reply is, no more of it is on the disk than may be, also of a client that takes some of it
/// again and again.
fn spilled_replies_are_bounded(variant: &Variant) {
    let setup = Setup::new(variant);
    let Some(disk) = SmallDisk::mount(setup.directory()) else { return };
    let large = Arc::new(pattern(9, 12_000_000));
    let reply = Arc::clone(&large);
    let socket = scripted::start(setup.directory(), "app.sock", move |mut asked| {
        asked.say([record(6, b"X: y\n\n"), record(6, &large), end()].concat())
    });
    let spill = format!(
        "[gateway]\nspool = '{}'\nspill = '600 KiB'\n[tcp]\nsend_buffer = '16 KiB'\n",
        disk.0.display()
    );
    let server = setup.config(&format!("{}{spill}", pool(&[&socket], ""))).start();
    let mut slow = Client::connect_narrow(server.addresses()[0]);
    slow.ask("GET", "/app/x", &[]);
    let mut taken = Vec::new();
    while taken.len() < 8_000_000 {
        taken.extend(slow.read_raw(100_000).expect("more of the reply"));
        support::sleep_ms(1);
    }
    slow.unread(taken);
    assert!(slow.reply().body == *reply);
    let told = server.stderr();
    assert!(!told.iter().any(|line| line.contains("can't be spooled")), "{told:?}");
}

/// What they have in flight is given back, or nobody would be served any more.
fn workers_that_die(variant: &Variant) {
    let (counts, serve) = busy(3000);
    let server = scripted_site_with(variant, "children = 1", move |asked: Asked| {
        if asked.params["PATH_INFO"] == "/slow" {
            return serve(asked);
        }
        let mut asked = asked;
        asked.say(answer("X: y\n\nquick"));
    });
    let mut client = server.connect();
    client.ask("GET", "/app/slow", &[]);
    eventually("it is asked for", || counts.lock().expect("no panic").0 == 1);
    for worker in server.workers() {
        let pid = rustix::process::Pid::from_raw(worker as i32).expect("a process");
        rustix::process::kill_process(pid, Signal::KILL).expect("it is ours");
    }
    assert!(client.try_reply().is_err());
    eventually("others are served", || {
        let mut client = Client::connect(server.addresses()[0]);
        client.ask("GET", "/app/quick", &[]);
        client.try_reply().is_ok_and(|reply| reply.text() == "quick")
    });
}

/// Each at another point of the exchange: the right status, or a connection that breaks. (Where a part of the
/// reply has come, it is a matter of time whether any of it has been sent.)
fn applications_that_break(variant: &Variant) {
    const HEAD: &[u8] = b"Content-Type: text/plain\r\n\r\n";
    let server = scripted_site(variant, |mut asked| {
        let how = asked.params["QUERY_STRING"].replace('-', " ");
        let long_head = vec![b'x'; 100_000];
        match &*how {
            "close" => true,
            "half a header" => asked.say([1, 6, 0]),
            "half a head" => asked.say(record(6, b"Content-Ty")),
            "an end without a reply" => asked.say(end()),
            "garbage" => asked.say("HTTP/1.1 200 OK\r\n\r\nhello"),
            "another request" => asked.say([1, 3, 0, 9, 0, 8, 0, 0]),
            "a long head" => asked.say(answer(long_head)),
            "no head" => asked.say(answer("hello\r\n\r\n")),
            "a bad status" => asked.say(answer("Status: 99\r\n\r\n")),
            "two lengths" => asked.say(answer("Content-Length: 1\r\nContent-Length: 2\r\n\r\nx")),
            "overloaded" => asked.say(record(3, &[0, 0, 0, 0, 2, 0, 0, 0])),
            "a line end in a field" => asked.say(answer("X: a\rb\r\n\r\n")),
            "close in the body" => asked.say(record(6, &[HEAD, b"hello"].concat())),
            "garbage in the body" => asked.say([record(6, HEAD), b"garbage!".to_vec()].concat()),
            "short" => asked.say(answer("Content-Length: 10\r\n\r\nhello")),
            "two ends" => asked.say([answer([HEAD, b"well"].concat()), end()].concat()),
            "more behind the end" => {
                asked.say([answer([HEAD, b"well"].concat()), b"garbage!".to_vec()].concat())
            }
            "too long" => asked.say(answer("Content-Length: 4\r\n\r\nwell, that is more")),
            "a byte at a time" => answer([HEAD, b"well"].concat()).iter().all(|byte| asked.say([*byte])),
            other => panic!("{other}"),
        }
    });
    for (how, status) in [
        ("close", 502),
        ("half a header", 502),
        ("half a head", 502),
        ("an end without a reply", 502),
        ("garbage", 502),
        ("another request", 502),
        ("a long head", 502),
        ("no head", 502),
        ("a bad status", 502),
        ("two lengths", 502),
        ("overloaded", 503),
        ("a line end in a field", 502),
        ("close in the body", 0),
        ("garbage in the body", 0),
        ("short", 0),
        ("two ends", 200),
        ("more behind the end", 200),
        ("too long", 200),
        ("a byte at a time", 200),
    ] {
        let mut client = server.connect();
        client.ask("GET", &format!("/app/?{}", how.replace(' ', "-")), &[]);
        match client.try_reply() {
            Ok(reply) => {
                assert!(reply.status == status || (reply.status, status) == (502, 0), "{how}: {reply:?}");
                assert!(status != 200 || reply.text() == "well", "{how}");
                assert_eq!(client.get("/hello.txt").text(), HELLO, "{how}");
            }
            Err(broken) => assert_eq!(status, 0, "{how}: {broken:?}"),
        }
    }
    assert_eq!(server.pool_count("failures"), 15);
    assert_eq!(server.pool_count("clients_left"), 0);
}

/// The source of a script is nobody's, whatever is asked for and however the pool is.
fn scripts_never_leave(variant: &Variant) {
    const SECRET: &str = "<?php /* the source */ echo 'run';";
    let setup = Setup::new(variant)
        .file("index.php", SECRET)
        .file("dir/index.php", SECRET)
        .file("dir/a.PHP", SECRET)
        .file("file.php/inside.txt", "inside");
    let root = setup.root();
    symlink("index.php", root.join("alias.txt")).expect("a link");
    symlink("dir", root.join("linked")).expect("a link");
    let dead = setup.directory().join("dead.sock");
    let setup = setup
        .argument(format!("--php=unix:{}", dead.display()))
        .config("[error_pages]\n404 = '/index.php'\n[[routes]]\npath = '/front/**'\nfallback = '/index.php'");
    let server = setup.start();
    for (target, status) in [
        ("/", 502),
        ("/index.php", 502),
        ("/INDEX.php", 404),
        ("/index.PHP", 404),
        ("/inde%78.ph%70", 502),
        ("//index.php", 502),
        ("/dir/../index.php", 502),
        ("/index.php/", 502),
        ("/index.php/a.txt", 502),
        ("/dir/", 502),
        ("/dir/a.PHP", 404),
        ("/dir/a.php", 404),
        ("/alias.txt", 404),
        ("/linked/index.php", 502),
        ("/linked/", 502),
        ("/file.php", 404),
        ("/file.php/inside.txt", 404),
        ("/none.txt", 404),
        ("/front/any", 502),
        ("/index.php%00", 400),
        ("/index.php%0a", 404),
        ("/index.php/%0d%0aX:%20y", 404),
        ("/hello.txt", 200),
    ] {
        for fields in [&[][..], &[("Range", "bytes=0-100")], &[("Accept-Encoding", "gzip")]] {
            let reply = server.fetch("GET", target, fields);
            assert!(reply.status == status || (status, reply.status) == (200, 206), "{target}: {reply:?}");
            assert!(!reply.text().contains("source"), "{target}: {reply:?}");
        }
    }
}

/// What routes refuse or lead elsewhere, PHP does not run.
fn scripts_that_are_refused(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let config = "[[routes]]\npath = '/conf/**'\nstatus = 403\n\
                  [[routes]]\npath = '/old/**'\nredirect = '/blog/{rest}'\n\
                  [[routes]]\npath = '/uploads/**'\n\
                  [[routes]]\npath = '/blog/**'\nfallback = '/blog/index.php'\n";
    let server = ["conf", "old", "uploads", "uploads/index.php"]
        .iter()
        .fold(setup, |setup, directory| setup.file(&format!("{directory}/page.php"), INDEX))
        .config(config)
        .start();
    for (target, status) in [
        ("/conf/page.php", 403),
        ("/conf/page.php/info", 403),
        ("/conf/none.php", 403),
        ("//conf/%70age.php", 403),
        ("/old/page.php", 302),
        ("/uploads/page.php", 404),
        ("/uploads/index.php/page.php", 404),
        ("/uploads/", 403),
        ("/blog/index.php", 200),
        ("/blog/none.php", 404),
    ] {
        let reply = server.get(target);
        assert_eq!(reply.status, status, "{target}");
        assert!(status == 200 || !reply.text().contains("index"), "{target}");
    }
    assert_eq!(server.get("/blog/none").text(), "index /blog/index.php -");
}

fn fields_that_deceive(variant: &Variant) {
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let serve = move |mut asked: Asked| {
        assert!(asked.body.is_empty());
        told.lock().expect("no panic").send(asked.params.clone()).expect("the test waits");
        asked.say(answer("Content-Type: text/plain\r\n\r\nwell"));
    };
    let server = scripted_site(variant, serve);
    let fields = [
        ("Proxy", "http://evil/"),
        ("X_Real_IP", "192.0.2.1"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-Proto", "https"),
        ("X.Y", "z"),
        ("Cookie", "a=1"),
        ("Cookie", "b=2"),
        ("Authorization", "Basic YTpi"),
    ];
    let reply = server.fetch("GET", "/app/some%20where?q=%20", &fields);
    assert_eq!((reply.status, &*reply.text()), (200, "well"));
    let params = heard.recv_timeout(support::PATIENCE).expect("the application is asked");
    let of_client: Vec<_> = params.iter().filter(|(name, _)| name.starts_with("HTTP_")).collect();
    let of_client: Vec<_> = of_client.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [("HTTP_AUTHORIZATION", "Basic YTpi"), ("HTTP_COOKIE", "a=1; b=2"), ("HTTP_HOST", "test")];
    assert_eq!(of_client, expected);
    for (name, value) in [
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REQUEST_URI", "/app/some%20where?q=%20"),
        ("PATH_INFO", "/some where"),
        ("SCRIPT_NAME", "/app"),
        ("SCRIPT_FILENAME", "/srv/app"),
        ("QUERY_STRING", "q=%20"),
        ("SERVER_NAME", "test"),
        ("REQUEST_METHOD", "GET"),
        ("CONTENT_LENGTH", ""),
    ] {
        assert_eq!(params[name], value, "{name}");
    }
}

fn routes_to_programs(variant: &Variant) {
    let setup = Setup::new(variant).file("app/file.txt", "a file that nobody gets");
    let named = |name: &'static str| {
        move |mut asked: Asked| {
            let [script, info] = ["SCRIPT_NAME", "PATH_INFO"].map(|of| asked.params.get(of).cloned());
            let own = asked.params.get("OWN").cloned().unwrap_or_default();
            let text = format!("{name} {script:?} {info:?} {own}");
            asked.say(answer(format!("Content-Length: {}\r\n\r\n{text}", text.len())));
        }
    };
    let directory = setup.directory();
    let app = scripted::start(directory, "app.sock", named("app"));
    let cgi = scripted::start(directory, "cgi.sock", named("cgi"));
    let config = format!(
        "{}[[pools]]\nname = 'cgi'\nservers = 'unix:{}'\nparams = {{ OWN = 'own words' }}\n\
         [[routes]]\npath = '/bin/**'\npool = 'cgi'\nscripts = '.cgi'\nfallback = '/hello.txt'\n",
        pool(&[&app], ""),
        cgi.display()
    );
    let server = setup.file("bin/run.cgi", "#!/bin/sh").file("other/run.cgi", "text").config(&config).start();
    let some = |text: &str| format!("Some({text:?})");
    for (target, text) in [
        ("/app/file.txt", format!("app {} {} ", some("/app"), some("/file.txt"))),
        ("/app/", format!("app {} {} ", some("/app"), some("/"))),
        ("/bin/run.cgi", format!("cgi {} None own words", some("/bin/run.cgi"))),
        ("/bin/run.cgi/x", format!("cgi {} {} own words", some("/bin/run.cgi"), some("/x"))),
        ("/bin/none.cgi", HELLO.to_owned()),
    ] {
        assert_eq!(server.get(target).text(), text, "{target}");
    }
    // No pool runs it there, and it is no file, either.
    assert_eq!(server.get("/other/run.cgi").status, 404);
}

/// Files outside the root that an application names in place of a reply.
fn files_that_are_named(variant: &Variant) {
    let setup = Setup::new(variant).file("own.txt", "of the site").file("lost.html", "lost");
    let private = setup.directory().join("private");
    fs::create_dir(&private).expect("a directory");
    for (name, content) in [("a b.txt", "0123456789"), (".hidden", "dot"), ("x.cgi", "source"), ("empty", "")]
    {
        fs::write(private.join(name), content).expect("a file");
    }
    let large = pattern(3, 3_000_000);
    fs::write(private.join("large"), &large).expect("a file");
    symlink("/etc/passwd", private.join("out")).expect("a link");
    support::server::settle();
    let at = private.display().to_string();
    // What is behind /app/ is the head of the reply, in hexadecimal.
    let socket = scripted::start(setup.directory(), "app.sock", move |mut asked| {
        let hexadecimal = asked.params["PATH_INFO"][1..].to_owned();
        let head: Vec<u8> = (0..hexadecimal.len() / 2)
            .map(|at| u8::from_str_radix(&hexadecimal[2 * at..][..2], 16).expect("digits"))
            .collect();
        assert_eq!(asked.params["HTTP_X_SENDFILE_TYPE"], "X-Sendfile");
        asked.say(answer(format!("{}\n\nthe body, which nobody gets", String::from_utf8_lossy(&head))));
    });
    let config = pool(&[&socket], &format!("send_files = {{ '/protected/' = '{at}' }}"))
        + "[[routes]]\npath = '/cgi/**'\npool = 'app'\nscripts = '.cgi'\n[error_pages]\n404 = '/lost.html'\n";
    let server = setup.config(&config).start();
    let mut client = server.connect();
    let target = |head: &str| {
        let digits: Vec<_> = head.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("/app/{}", digits.concat())
    };
    for _ in 0..2 {
        for (head, status, body) in [
            (format!("X-Sendfile: {at}/a b.txt"), 200, "0123456789"),
            ("X-Accel-Redirect: /protected/a%20b.txt?x".to_owned(), 200, "0123456789"),
            (format!("X-Sendfile: {at}/.hidden"), 200, "dot"),
            (format!("X-Sendfile: {at}/empty"), 200, ""),
            (format!("X-Sendfile: {at}/none"), 404, "lost"),
            (format!("X-Sendfile: {at}/x.cgi"), 404, "lost"),
            (format!("X-Sendfile: {at}/out"), 404, "lost"),
        ] {
            let reply = client.get(&target(&head));
            assert_eq!((reply.status, &*reply.text()), (status, body), "{head}");
        }
        for head in [
            "X-Sendfile: /etc/passwd".to_owned(),
            format!("X-Sendfile: {}/own.txt", server.root().display()),
            format!("X-Sendfile: {at}/../root/own.txt"),
            "X-Accel-Redirect: /own.txt".to_owned(),
            "X-Accel-Redirect: /protected/%2e%2e/own.txt".to_owned(),
        ] {
            assert_eq!(client.get(&target(&head)).status, 502, "{head}");
        }
        let named = format!("Content-Type: a/b\nContent-Disposition: attachment\nX-Sendfile: {at}/large");
        let whole = client.get(&target(&named));
        assert!(whole.body == large);
        assert_eq!([whole.need("Content-Type"), whole.need("Content-Disposition")], ["a/b", "attachment"]);
        let tag = whole.need("ETag").to_owned();
        let range = [("Range", "bytes=1000000-1000009"), ("If-Range", &*tag)];
        let part = client.fetch("GET", &target(&named), &range);
        assert_eq!((part.status, part.need("Content-Range")), (206, "bytes 1000000-1000009/3000000"));
        assert!(part.body == large[1_000_000..1_000_010] && part.need("Content-Type") == "a/b");
        let unchanged = client.fetch("GET", &target(&named), &[("If-None-Match", &tag)]);
        assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
        let posted =
            client.fetch("POST", &target(&named), &[("Range", "bytes=0-9"), ("If-None-Match", &tag)]);
        assert!((posted.status, posted.body) == (200, large.clone()), "conditions are for GET");
        let cookie = format!("Set-Cookie: a=1\n{named}");
        let unchanged = client.fetch("GET", &target(&cookie), &[("If-None-Match", &tag)]);
        assert_eq!((unchanged.status, unchanged.need("Set-Cookie")), (304, "a=1"));
        let denied =
            client.fetch("GET", &target(&format!("Status: 403\n{named}")), &[("Range", "bytes=0-9")]);
        assert_eq!((denied.status, denied.body.len()), (403, 3_000_000));
        let beyond = client.fetch("GET", &target(&named), &[("Range", "bytes=3000000-")]);
        assert_eq!((beyond.status, beyond.need("Content-Range")), (416, "bytes */3000000"));
        let head = client.fetch("HEAD", &target(&named), &[]);
        assert_eq!((head.need("Content-Length"), head.body.len()), ("3000000", 0));
    }
    assert_eq!(client.get("/protected/a%20b.txt").status, 404, "no URL leads there");
    server.wait_for_line(|line| line.contains("/etc/passwd, which is below none of the pool's send_files"));
}

/// One PHP-FPM for several roots, and a site whose own is down.
fn sites_with_scripts(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let setup = setup
        .file("a/x.php", "<?php echo $_SERVER['DOCUMENT_ROOT'], ' ', $_SERVER['SCRIPT_NAME'];")
        .file("b/x.php", "<?php echo 'source';")
        .file("b/down.html", "down for now")
        .file("c/x.cgi", "source");
    let (root, socket) = (setup.root().display().to_string(), setup.directory().join("none.sock"));
    let server = setup
        .config(&format!(
            "[[sites]]\nhosts = 'a.example'\nroot = '{root}/a'\n\
             [[sites]]\nhosts = 'b.example'\nroot = '{root}/b'\nphp = 'unix:{}'\n\
             [sites.error_pages]\n502 = '/down.html'\n\
             [[sites]]\nhosts = 'c.example'\nroot = '{root}/c'\n[[sites.routes]]\npool = 'cgi'\n\
             scripts = '.cgi'\n[[pools]]\nname = 'cgi'\nservers = '127.0.0.1:1'\n",
            socket.display()
        ))
        .start();
    let mut client = server.connect();
    let mut ask = |host: &str, target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let reply = client.reply();
        (reply.status, reply.text())
    };
    assert_eq!(ask("a.example", "/x.php"), (200, format!("{root}/a /x.php")));
    assert_eq!(ask("test", "/a/x.php"), (200, format!("{root} /a/x.php")));
    assert_eq!(ask("a.example", "/blog/index.php").0, 404, "it is in the other root");
    assert_eq!(ask("b.example", "/x.php"), (502, "down for now".to_owned()), "the site's own page");
    assert_eq!(ask("test", "/c/x.cgi").0, 404, "what is a script of one site is a file of none");
    assert_eq!(ask("b.example", "/").0, 403, "without an index, although the top has PHP's");
}

fn several_servers(variant: &Variant) {
    let setup = Setup::new(variant);
    let named = |name: &'static str| move |mut asked: Asked| asked.say(answer(format!("X: y\n\n{name}")));
    let directory = setup.directory().to_owned();
    let first = scripted::start(&directory, "first.sock", named("first"));
    let dead = directory.join("dead.sock");
    let server = setup.config(&pool(&[&dead, &first], "")).start();
    for _ in 0..20 {
        assert_eq!(server.get("/app/x").text(), "first");
    }
    fs::remove_file(&first).expect("a socket");
    assert_eq!(server.get("/app/x").status, 502);
    let _again = scripted::start(&directory, "dead.sock", named("second"));
    for _ in 0..20 {
        assert_eq!(server.get("/app/x").text(), "second");
    }
}

fn errors_are_logged(variant: &Variant) {
    let server = scripted_site(variant, |mut asked| {
        asked.say([record(7, b"PHP Warning:  something\non two lines"), answer("X: y\n\nwell")].concat());
    });
    assert_eq!(server.get("/app/page?x").text(), "well");
    let line = server.wait_for_line(|line| line.contains("PHP Warning:  something"));
    assert!(line.contains("GET /app/page?x") && line.contains("on two lines"), "{line}");
}

/// Requests that are under way end well, and new ones go to the new pool.
fn a_reload(variant: &Variant) {
    let setup = Setup::new(variant);
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let slow = scripted::start(setup.directory(), "slow.sock", move |mut asked| {
        told.lock().expect("no panic").send(()).expect("the test waits");
        support::sleep_ms(700);
        asked.say(answer("X: y\n\nslow"));
    });
    let new = scripted::start(setup.directory(), "new.sock", |mut asked| asked.say(answer("X: y\n\nnew")));
    let server = setup.config(&pool(&[&slow], "")).start();
    let mut client = server.connect();
    client.ask("GET", "/app/x", &[]);
    heard.recv_timeout(support::PATIENCE).expect("the application is asked");
    server.rewrite_config(&pool(&[&new], ""));
    server.signal(Signal::HUP);
    assert_eq!(client.reply().text(), "slow");
    eventually("new ones go elsewhere", || server.get("/app/x").text() == "new");
}

fn mistakes_are_told(variant: &Variant) {
    for (config, told) in [
        ("[[pools]]\nname = 'a'", "a pool needs servers"),
        ("[[pools]]\nservers = '127.0.0.1:1'", "a pool needs name"),
        ("[[pools]]\nname = 'a b'\nservers = '127.0.0.1:1'", "pools.name = 'a b': allowed: letters"),
        ("[[pools]]\nname = 'a'\nservers = ':80'", "allowed: an address and port that can be connected to"),
        (
            "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nparams = { 'A=' = 'x' }",
            "allowed: a name without",
        ),
        ("[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nkeep = 1", "keep is for servers at Unix sockets"),
        ("[[routes]]\npool = 'a'", "there is no pool \"a\" for a route; allowed: there are none"),
        ("[[routes]]\nprogram = '/x'", "a pool is to run it"),
        ("[[routes]]\npool = 'a'\nstatus = 404", "an application answers, or a redirect or a status"),
        ("[[routes]]\npool = 'a'\nscripts = 'php'", "allowed: a dot and what follows it"),
        (
            "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nsend_files = { '/a' = '/' }",
            "allowed: a path that begins and ends with a slash",
        ),
        (
            "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nsend_files = { '/a/' = '/none' }",
            "cannot serve /none",
        ),
        (
            "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nsend_files = { '/a/' = 'root' }",
            "anybody can have what is there",
        ),
        (
            "php = '127.0.0.1:1'\n[[routes]]\nfallback = '/x'\n[[routes]]\npath = '/b'\nstatus = 403",
            "the route for /b stands behind one with a fallback",
        ),
        (
            "[gateway]\nspool = '/none'\n[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'",
            "/none is no directory",
        ),
    ] {
        let output = Setup::new(variant).config(config).output();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{config}: {stderr}");
        assert!(stderr.contains(told), "{config}: {stderr}");
    }
}
