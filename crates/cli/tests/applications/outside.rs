//! What is seen of applications from outside: the status page, metrics, and both logs.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use harness::eventually;
use harness::scripted::{self, answer, pool, record, scripted_site};
use harness::server::Setup;
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Three: seen_from_outside, errors_are_logged;
];

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
        harness::sleep_ms(30);
        asked.say(answer("X: y\n\nwell"));
    });
    let log = setup.directory().join("access.log");
    let setup = setup.argument(format!("--access-log={}", log.display())).argument("--log-format=json");
    let server = setup.config(&pool(&[&socket], "children = 1\nqueue = 1")).start();
    let told = |name: &str| server.pool_count(name);
    let mut first = server.connect();
    first.ask("GET", "/app/first", &[("traceparent", TRACE)]);
    assert_eq!(heard.recv_timeout(harness::TIMEOUT).expect("it is asked"), Some(TRACE.to_owned()));
    let mut second = server.connect();
    second.ask("GET", "/app/second", &[("traceparent", "rubbish")]);
    eventually("one waits", || told("queued") == 1);
    assert_eq!((told("in_flight"), told("requests")), (1, 2));
    assert_eq!(server.get("/app/third").status, 503);
    assert_eq!((told("requests"), told("refused"), told("failures")), (3, 1, 1));
    harness::sleep_ms(20);
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

fn errors_are_logged(variant: &Variant) {
    let server = scripted_site(variant, |mut asked| {
        asked.say([record(7, b"PHP Warning:  something\non two lines"), answer("X: y\n\nwell")].concat());
    });
    assert_eq!(server.get("/app/page?x").text(), "well");
    let line = server.wait_for_line(|line| line.contains("PHP Warning:  something"));
    assert!(line.contains("GET /app/page?x") && line.contains("on two lines"), "{line}");
}
