//! The status endpoint: text, JSON and Prometheus metrics that say what was done.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::process::{Command, ExitCode};

use harness::client::request;
use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE};
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};
use rustix::process::Signal;
use serde_json::Value;

const TESTS: &[Test] = tests![
    Each: json_counts, connections_by_state, accept_queue, waits_of_a_client_that_asks_again;
    Three: connections_of_workers_that_retire;
    One: text, prometheus, health, other_pages, command, hosts, off_by_default,
         its_address_is_free_at_the_end;
];

fn main() -> ExitCode {
    harness::variant::run(&[("status", TESTS)])
}

/// Does this and that on three connections.
fn do_something(server: &Server) {
    let mut client = server.connect();
    for _ in 0..10 {
        assert_eq!(client.get("/hello.txt").text(), HELLO);
    }
    assert_eq!(client.get("/nothing").status, 404);
    assert_eq!(client.fetch("GET", "/large.bin", &[("Range", "bytes=0-9")]).status, 206);
    assert_eq!(client.get("/large.bin").status, 200);
    assert_eq!(client.get("/dir").status, 301);
    assert_eq!(server.one("GET / HTTP/1.1\r\n\r\n").status, 400);
    assert_eq!(server.one(request(&"F".repeat(65), "/", &[])).status, 501);
    drop(client);
    eventually("all are gone", || server.count("connections_closed") == 3);
}

fn json_counts(variant: &Variant) {
    let server = Server::start(variant);
    do_something(&server);
    let status = server.status();
    let total = &status["total"];
    let count = |path: &str| {
        total.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path}: {total:#}"))
    };
    for (path, expected) in [
        ("/accepts", 3),
        ("/connections_opened", 3),
        ("/connections_closed", 3),
        ("/replies/2xx", 12),
        ("/replies/3xx", 1),
        ("/replies/4xx", 2),
        ("/replies/5xx", 1),
        ("/replies_by_code/200", 11),
        ("/replies_by_code/206", 1),
        ("/replies_by_code/404", 1),
        ("/refusals/host", 1),
        ("/refusals/unknown_method", 1),
        ("/resets/local", 0),
    ] {
        assert_eq!(count(path), expected, "{path}: {total:#}");
    }
    assert!((14..=16).contains(&count("/requests")), "{total:#}");
    assert!(count("/bytes_sent") > LARGE as u64 + 10 * HELLO.len() as u64);
    assert!(count("/bytes_received") > 500);
    assert!(count("/file_table_hits") >= 9 && count("/file_table_misses") >= 2, "{total:#}");
    assert!(count("/accept_phases") >= 1 && count("/phases") >= 3 && count("/event_waits") >= 3);
    let phases: u64 =
        total["accepts_per_phase"].as_object().expect("a histogram").values().filter_map(Value::as_u64).sum();
    assert_eq!(phases, count("/accept_phases"));
    assert_eq!(status["schema"], 1);
    assert_eq!(status["pid"].as_u64(), Some(server.pid().into()));
    assert_eq!(
        Some(status["architecture"].as_str().expect("a name")),
        variant.options[0].strip_prefix("--architecture=")
    );
    assert!(
        status["workers"]
            .as_array()
            .is_some_and(|workers| workers.iter().all(|worker| worker["responsive"] == true))
    );
    assert!(status["process"]["open_fds"].as_u64().is_some_and(|open| open >= 3));
    assert!(status["kernel"]["listen_overflows"].is_u64() && status["kernel"]["listen_drops"].is_u64());
}

fn connections_by_state(variant: &Variant) {
    let setup =
        Setup::new(variant).config("[tcp]\nsend_buffer = \"64 KiB\"").file("big.bin", vec![b'x'; 4 << 20]);
    let server = setup.start();
    let mut idle: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut idle {
        assert_eq!(client.get("/hello.txt").status, 200);
    }
    let silent = server.connect();
    let mut halfway = server.connect();
    halfway.send("GET / HTTP/1.1\r\n");
    let mut body = server.connect();
    body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n");
    assert_eq!(body.reply().status, 405);
    let mut slow = harness::client::Client::connect_narrow(server.address);
    slow.ask("GET", "/big.bin", &[]);
    let state = |name: &str| server.count(&format!("connections/{name}"));
    let expected = [("idle", 3), ("reading_head", 2), ("reading_body", 1), ("writing", 1), ("lingering", 0)];
    eventually("each is in its state", || expected.iter().all(|(name, count)| state(name) == *count));
    drop((idle, silent, halfway, body, slow));
    eventually("all are gone", || expected.iter().all(|(name, _)| state(name) == 0));
}

/// They are counted for as long as they are there, and no longer.
fn connections_of_workers_that_retire(variant: &Variant) {
    let setup =
        Setup::new(variant).config("[tcp]\nsend_buffer = \"64 KiB\"").file("big.bin", vec![b'x'; 4 << 20]);
    let server = setup.start();
    let mut slow: Vec<_> = (0..4).map(|_| harness::client::Client::connect_narrow(server.address)).collect();
    for client in &mut slow {
        client.ask("GET", "/big.bin", &[]);
    }
    let writing = || server.count("connections/writing");
    eventually("all are sent to", || writing() == 4);
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("settings reloaded"));
    // Between two stages of a pipeline, a connection may be counted by both.
    eventually("they still count", || writing() == 4);
    slow.truncate(1);
    eventually("those that are closed count no more", || writing() == 1);
}

fn accept_queue(variant: &Variant) {
    let server = Setup::new(variant).argument("--max-connections=2").argument("--backlog=7").start();
    let mut clients = Vec::new();
    eventually("two are in", || {
        // Not idle, so that nothing can be made of it but wait. Where copies share an address it may wait
        // already.
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\n");
        clients.push(client);
        sleep_ms(20);
        server.count("accepts") == 2
    });
    clients.extend((0..3).map(|_| server.connect()));
    let waiting = clients.len() - 2;
    eventually("the others wait", || server.status()["listeners"][0]["accept_queue_length"] == waiting);
    let listener = &server.status()["listeners"][0];
    let copies = if variant.has_copies() { 2 } else { 1 };
    assert_eq!(listener["accept_queue_limit"], 7 * copies);
    assert!(
        listener["address"].as_str().is_some_and(|text| text.contains(&server.address.to_string())),
        "{listener}"
    );
    drop(clients);
}

fn text(variant: &Variant) {
    let server = Server::start(variant);
    do_something(&server);
    for path in ["/", "/?format=text"] {
        let (code, text) = server.status_page(path);
        assert!(code == 200 && text.lines().count() > 10, "{text}");
        assert!(text.contains(&server.address.to_string()), "{text}");
        let line = text.lines().find(|line| line.starts_with("accepts ")).expect("a line");
        assert_eq!(line.split_whitespace().nth(1), Some("3"), "{line}");
    }
}

/// Whether a sample is what was described: of a histogram there are several kinds.
fn described_as(family: &str, described: &str) -> bool {
    family.strip_prefix(described).is_some_and(|suffix| ["", "_bucket", "_sum", "_count"].contains(&suffix))
}

/// Every sample by its name and labels. The syntax is checked on the way.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut described: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (keyword, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            assert!(["TYPE", "HELP"].contains(&keyword) && words.next().is_some(), "{line}");
            described.push(name);
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a value");
        let family = name.split('{').next().unwrap_or_default();
        assert!(family.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line}");
        assert!(
            described.last().is_some_and(|described| described_as(family, described)),
            "{line} has no TYPE before it"
        );
        assert!(!name.contains('{') || name.ends_with('}') && name.matches('"').count() % 2 == 0, "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(samples.insert(name.to_owned(), value), None, "{line} is there twice");
    }
    samples
}

fn prometheus(variant: &Variant) {
    let server = Server::start(variant);
    do_something(&server);
    let (code, text) = server.status_page("/metrics");
    assert_eq!(code, 200);
    let samples = samples(&text);
    let (code, text) = server.status_page("/metrics?workers");
    assert!(code == 200 && text.contains("sluice_accepts_total{worker=\"0\"} "), "{text}");
    let by_worker = self::samples(&text);
    // The sum over all workers, however many there are.
    let sum_of = |samples: &BTreeMap<String, f64>, family: &str, label: &str| -> f64 {
        let is_it = |name: &str| name.split('{').next() == Some(family) && name.contains(label);
        samples.iter().filter(|(name, _)| is_it(name)).map(|(_, value)| value).sum()
    };
    let sum = |family: &str, label: &str| sum_of(&samples, family, label);
    for (family, label, expected) in [
        ("sluice_accepts_total", "", 3.0),
        ("sluice_replies_total", "class=\"2xx\"", 12.0),
        ("sluice_replies_by_code_total", "code=\"404\"", 1.0),
        ("sluice_refusals_total", "cause=\"host\"", 1.0),
        ("sluice_connections_closed_total", "", 3.0),
        ("sluice_connections", "state=\"idle\"", 0.0),
    ] {
        for samples in [&samples, &by_worker] {
            let sum = sum_of(samples, family, label);
            assert!((sum - expected).abs() < 0.5, "{family} {label}: {sum}");
        }
    }
    let buckets = sum("sluice_accepts_per_phase_bucket", "le=\"+Inf\"");
    assert!(buckets >= 1.0 && (buckets - sum("sluice_accepts_per_phase_count", "")).abs() < 0.5);
    assert_eq!(server.status_page("/?format=prometheus").0, 200);
}

fn health(variant: &Variant) {
    let server = Server::start(variant);
    let (code, text) = server.status_page("/health");
    assert_eq!((code, text.trim()), (200, "ok"));
}

fn other_pages(variant: &Variant) {
    let server = Server::start(variant);
    assert_eq!(server.status_page("/nothing").0, 404);
    assert_eq!(server.status_page("/../../etc/passwd").0, 404);
    for query in ["/metrics?worker", "/?format=xml", "/json?pretty"] {
        let (code, text) = server.status_page(query);
        assert!(code == 400 && text.contains("a query may be format=html, "), "{query}: {code} {text}");
    }
    assert_eq!(server.status_page("/health?from=probe").0, 200);
    // The public side knows nothing of it.
    for path in ["/json", "/metrics", "/health", "/status"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

fn command(variant: &Variant) {
    let server = Server::start(variant);
    do_something(&server);
    let address = format!("unix:{}", server.directory().join("status").display());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let output = command.arg("status").arg(&address).args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(run(&[]).contains("\naccepts "));
    let value: Value = serde_json::from_str(&run(&["--json"])).expect("JSON");
    assert_eq!(value["total"]["accepts"], 3);
}

/// A name that a web page has pointed here is none that the endpoint answers for, unless it is set.
fn hosts(variant: &Variant) {
    let address = harness::free_address();
    let config = |hosts: &str| format!("status_hosts = [{hosts}]");
    let server =
        Setup::new(variant).argument(format!("--status={address}")).config(&config("'a.example'")).start();
    let status = |host: &str| {
        let mut client = harness::client::Client::connect(address);
        client.send(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let reply = client.reply();
        assert!(reply.status == 200 || reply.text().contains("status_hosts"), "{}", reply.text());
        reply.status
    };
    for (host, code) in [
        (address.to_string().as_str(), 200),
        ("127.0.0.1", 200),
        ("localhost", 200),
        ("A.example.:80", 200),
        ("b.example", 421),
        ("a.example.evil.example", 421),
    ] {
        assert_eq!(status(host), code, "{host}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let output = command.arg("status").arg(address.to_string()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.rewrite_config(&config("'*.example'"));
    server.signal(Signal::HUP);
    eventually("the new list holds", || status("b.example") == 200);
    // No browser reaches a Unix socket, and others may say what they like.
    let server = Server::start(variant);
    assert_eq!(server.status_page("/health").0, 200);
}

fn off_by_default(variant: &Variant) {
    let setup = Setup::new(variant).argument("--status=off");
    let endpoint = setup.directory().join("status");
    let server = setup.start();
    sleep_ms(20);
    assert_eq!(server.get("/hello.txt").status, 200);
    assert!(!endpoint.exists());
}

/// Even if the endpoint is still answering a client.
fn its_address_is_free_at_the_end(variant: &Variant) {
    let address = harness::free_address();
    let start = || Setup::new(variant).argument(format!("--status={address}")).start();
    let mut server = start();
    let _asker = TcpStream::connect(address).expect("somebody to ask");
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    drop(start());
}

/// Where a worker has one client at a time, the next request of one that asks again at once is awaited in the
/// call that receives it: a request takes two system calls, and none that only waits.
fn waits_of_a_client_that_asks_again(variant: &Variant) {
    if !variant.serves_one_at_a_time() {
        return;
    }
    let server = Server::start(variant);
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").text(), HELLO);
    let before = server.count("event_waits");
    for _ in 0..400 {
        assert_eq!(client.get("/hello.txt").text(), HELLO);
    }
    // Some are of other workers, which hear that the status is asked for, and of moments in which a busy
    // machine has kept the client from asking.
    let waits = server.count("event_waits") - before;
    assert!(waits < 200, "{waits} of 400");
}
