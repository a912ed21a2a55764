use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use results::status::{
    Certificate, Counts, Kernel, KernelRates, Listener, Pool, Process, SCHEMA, Snapshot, Worker,
};

use super::client::{Form, Watch, fetch};
use super::*;
use crate::config::{SocketFileSettings, StatusAddress};
use crate::counters::{ConnectionState, Counters, LoopPhase, METRICS, POOL_METRICS, PoolCounters, told};

/// A snapshot of two workers, the second of which hangs, two listeners, and a pool.
pub(crate) fn sample() -> Snapshot {
    let (first, second) = (Counters::default(), Counters::default());
    first.accept_phase(5);
    first.accept_phase(7);
    first.accept_phase(0);
    first.spent(LoopPhase::GetEvents, 500_000_000);
    first.spent(LoopPhase::Work, 2_000_000_000);
    first.accept_queue_seen(3);
    first.accept_wait_seen(40);
    first.connections[ConnectionState::Idle as usize].set(4);
    second.reply(200);
    second.reply(206);
    let pool = PoolCounters::default();
    pool.queued.set(3);
    pool.expired.set(2);
    pool.has_waited(0);
    pool.has_waited(5_500);
    let listener = |address: &str, queue: Option<(u64, u64)>| Listener {
        address: address.into(),
        accept_queue_length: queue.map(|(length, _)| length),
        accept_queue_limit: queue.map(|(_, limit)| limit),
        drops: queue.map(|_| 4),
        drops_per_second: queue.map(|_| 2.5),
    };
    let counts = [told(METRICS, &first), told(METRICS, &second)];
    let mut snapshot = Snapshot {
        schema: SCHEMA,
        time_unix_ms: 1_800_000_100_000,
        version: "1.2.3".into(),
        architecture: "sped".into(),
        pid: 4711,
        started_unix_ms: 1_800_000_000_000,
        process: Process {
            open_fds: Some(0),
            max_fds: Some(0),
            resident_memory_bytes: Some(0),
            shared_memory_bytes: Some(0),
            threads: Some(0),
        },
        kernel: Kernel {
            drops: [Some(0); 7].into(),
            tcp_syncookies: Some(0),
            tcp_abort_on_overflow: Some(0),
        },
        kernel_per_second: KernelRates { over_ms: 2000, ..KernelRates::default() },
        listeners: vec![listener("http://127.0.0.1:80/", Some((3, 511))), listener("unix:/run/sluice", None)],
        total: sum(&counts),
        past: Counts::default(),
        workers: Vec::new(),
        pools: vec![Pool { name: "php".into(), counts: told(POOL_METRICS, &pool) }],
        certificates: vec![Certificate {
            name: "/etc/chain.pem".into(),
            valid_until_unix_s: 1_800_500_000,
            days_left: 5,
        }],
    };
    snapshot.kernel.drops.listen_overflows = Some(9);
    snapshot.kernel_per_second.drops.listen_overflows = Some(3.0);
    let [first, second] = counts;
    snapshot.workers = vec![
        Worker { worker: 0, pid: 4712, responsive: true, counts: first },
        Worker { worker: 1, pid: 4713, responsive: false, counts: second },
    ];
    snapshot
}

fn private() -> SocketFileSettings {
    SocketFileSettings { mode: 0o600, owner: None, group: None }
}

/// A server with one worker, which answers a census as soon as it is woken.
fn sources() -> (&'static Counters, Arc<Sources>) {
    let counters: &'static Counters = Box::leak(Box::default());
    let wake = Box::new(move || counters.answer_census(|| [1, 2, 3, 4, 5]));
    let workers = vec![WorkerSource { counters: vec![counters], wake }];
    let (now, past) = (std::time::SystemTime::now(), Box::leak(Box::default()));
    (counters, Arc::new(Sources::new("sped", now, workers, Vec::new(), past, Vec::new(), None)))
}

fn start_local() -> (&'static Counters, Serving) {
    start(&StatusAddress::Tcp(([127, 0, 0, 1], 0).into()))
}

fn start(address: &StatusAddress) -> (&'static Counters, Serving) {
    let (counters, sources) = sources();
    let endpoint = Endpoint::bind(address, &private()).unwrap();
    (counters, endpoint.serve(sources, &Hosts::default()).unwrap())
}

fn stop(serving: Serving) {
    serving.stop(std::time::Instant::now() + std::time::Duration::from_secs(1));
}

fn tcp(serving: &Serving) -> SocketAddr {
    let StatusAddress::Tcp(address) = serving.address() else { panic!("bound to TCP") };
    *address
}

fn ask(serving: &Serving, request: &str) -> String {
    let mut stream = TcpStream::connect(tcp(serving)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn every_page_is_served() {
    let (counters, serving) = start_local();
    counters.requests.add(42);
    let get = |path: &str| ask(&serving, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    for (path, content_type, content) in [
        ("/", "text/plain; charset=utf-8", "sluice "),
        ("/?format=json", "application/json", "\"requests\": 42"),
        ("/json", "application/json", "\"lingering\": 5"),
        (
            "/metrics",
            "text/plain; version=0.0.4; charset=utf-8",
            "# TYPE sluice_requests_total counter\nsluice_requests_total 42",
        ),
        (
            "/metrics?workers",
            "text/plain; version=0.0.4; charset=utf-8",
            "# TYPE sluice_requests_total counter\nsluice_requests_total{worker=\"0\"} 42",
        ),
        (
            "/?format=prometheus&workers=",
            "text/plain; version=0.0.4; charset=utf-8",
            "\nsluice_requests_total{worker=\"0\"} 42",
        ),
        ("/?format=prometheus", "text/plain; version=0.0.4; charset=utf-8", "# TYPE sluice_info gauge"),
        ("/health", "text/plain; charset=utf-8", "ok\n"),
    ] {
        let answer = get(path);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {head}");
        assert!(head.contains(&format!("Content-Type: {content_type}\r\n")), "{path}: {head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{path}: {head}");
        assert!(head.contains("Connection: close"), "{path}: {head}");
        assert!(body.contains(content), "{path}: {body}");
    }
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
    let answer = ask(&serving, &format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n\r\n"));
    assert!(answer.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    assert!(get("/other").starts_with("HTTP/1.1 404 "));
    assert!(get("/?format=xml").starts_with("HTTP/1.1 400 "));
    stop(serving);
}

#[test]
fn odd_requests_are_answered_as_http_wants() {
    let (_counters, serving) = start_local();
    let head = ask(&serving, "HEAD /json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    let post = ask(&serving, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("Allow: GET, HEAD\r\n"), "{post}");
    assert!(ask(&serving, "rubbish\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(ask(&serving, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(2000));
    assert!(ask(&serving, &long).starts_with("HTTP/1.1 414 "));
    // The request is sent byte by byte, without waiting for the answer.
    let mut stream = TcpStream::connect(tcp(&serving)).unwrap();
    for byte in b"GET /health HTTP/1.0\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok\n"), "{answer}");
    stop(serving);
}

/// With DNS rebinding, a page's site points its own name at the endpoint. Its Host field shows this.
#[test]
fn other_hosts_are_refused_on_every_page() {
    let (_counters, serving) = start_local();
    let own = tcp(&serving);
    let get = |path: &str, host: &str| ask(&serving, &format!("GET {path} HTTP/1.1\r\nHost:{host}\r\n\r\n"));
    for path in ["/", "/json", "/metrics", "/health", "/other"] {
        let answer = get(path, &format!(" evil.example:{}", own.port()));
        assert!(answer.starts_with("HTTP/1.1 421 "), "{path}: {answer}");
        assert!(answer.contains("status_hosts") && !answer.contains("sluice "), "{path}: {answer}");
    }
    let post = "POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n";
    assert!(ask(&serving, post).starts_with("HTTP/1.1 421 "));
    // If the target names a host, that host counts.
    let target = "GET http://evil.example/json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert!(ask(&serving, target).starts_with("HTTP/1.1 421 "));
    for host in [&format!(" {own}"), " 127.0.0.1", " localhost", " localhost:9", " LOCALHOST.:1", ""] {
        assert!(get("/json", host).starts_with("HTTP/1.1 200 "), "{host}");
    }
    assert!(ask(&serving, "GET /json HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 "));
    assert!(ask(&serving, "GET /json HTTP/1.0\r\nHost: evil.example\r\n\r\n").starts_with("HTTP/1.1 421 "));
    stop(serving);
}

#[test]
fn silent_clients_take_no_place_of_others_but_are_bounded() {
    let (_counters, serving) = start_local();
    let silent: Vec<_> = (0..15).map(|_| TcpStream::connect(tcp(&serving)).unwrap()).collect();
    assert!(fetch(serving.address(), Form::Text).is_ok());
    // One connection more than there are slots for is closed.
    let mut more: Vec<_> = (0..2).map(|_| TcpStream::connect(tcp(&serving)).unwrap()).collect();
    assert_eq!(more[1].read(&mut [0]).unwrap_or(0), 0);
    drop((silent, more));
    stop(serving);
}

/// No client connects to a wildcard address, so the endpoint does not answer for it as a host.
#[test]
fn a_client_is_answered_at_a_wildcard() {
    for wildcard in ["0.0.0.0:0", "[::]:0"] {
        let Ok(endpoint) = Endpoint::bind(&StatusAddress::Tcp(wildcard.parse().unwrap()), &private()) else {
            continue; // Without IPv6.
        };
        let serving = endpoint.serve(sources().1, &Hosts::default()).unwrap();
        assert!(fetch(serving.address(), Form::Text).unwrap().starts_with("sluice "), "{wildcard}");
        stop(serving);
    }
}

#[test]
fn a_client_gets_text_json_and_rates() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("status");
    let (counters, serving) = start(&StatusAddress::Unix(path.clone()));
    counters.requests.add(1000);
    assert!(fetch(serving.address(), Form::Text).unwrap().starts_with("sluice "));
    let snapshot = json::read(fetch(serving.address(), Form::Json).unwrap().as_bytes()).unwrap();
    assert_eq!(snapshot.workers.len(), 1);
    assert!(snapshot.workers[0].responsive);
    let mut watch = Watch::new(serving.address().clone());
    let text = watch.refresh().unwrap();
    let workers = text.lines().find(|line| line.starts_with("workers ")).unwrap();
    assert!(!workers.contains("per second"), "{workers}");
    counters.requests.add(500);
    let text = watch.refresh().unwrap();
    let requests = text.lines().find(|line| line.starts_with("requests")).unwrap();
    let words: Vec<_> = requests.split_ascii_whitespace().collect();
    assert_eq!(words[1], "1500");
    assert!(words[2].parse::<u64>().unwrap() > 0, "{requests}");
    let address = serving.address().clone();
    stop(serving);
    std::fs::remove_file(&path).unwrap();
    let error = fetch(&address, Form::Text).unwrap_err().to_string();
    assert!(error.starts_with(&format!("no status from unix:{}: ", path.display())), "{error}");
}

#[test]
fn something_else_is_recognised() {
    for (answer, complaint) in [
        ("SSH-2.0-OpenSSH\r\n\r\n", "is no status endpoint: malformed response head"),
        ("", "is no status endpoint: connection closed before the reply"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsluice", "is no status endpoint: reply cut short"),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "is no status endpoint: it answered 404 Not Found",
        ),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = StatusAddress::Tcp(listener.local_addr().unwrap());
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let error = fetch(&address, Form::Json).unwrap_err().to_string();
        assert_eq!(error, format!("{address} {complaint}"));
        other.join().unwrap();
    }
}

#[test]
fn an_address_in_use_is_named() {
    let (_counters, serving) = start_local();
    let error = Endpoint::bind(serving.address(), &private()).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot listen for status requests on {}: ", serving.address())),
        "{error}"
    );
    stop(serving);
}

#[test]
fn every_value_is_documented() {
    let document = include_str!("../../../../docs/status.md");
    for metric in crate::counters::METRICS {
        let row = document.lines().find(|line| line.starts_with(&format!("| `{}` |", metric.name)));
        let row = row.unwrap_or_else(|| panic!("{} is not in docs/status.md", metric.name));
        assert!(row.contains(metric.help), "{row}");
    }
    for metric in POOL_METRICS {
        let row = format!("| `pools.{}` |", metric.name);
        assert!(document.lines().any(|line| line.starts_with(&row) && line.contains(metric.help)), "{row}");
    }
    for metric in system::SYSTEM {
        let name = format!("| `{}.{}` |", metric.group().name(), metric.name);
        assert!(document.lines().any(|line| line.starts_with(&name) && line.contains(metric.help)), "{name}");
    }
}
