//! Clients that do what they should not, by the hundreds and thousands, while another one keeps being served;
//! afterwards the server holds no more descriptors and memory than before.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::symlink;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::client::{Client, request};
use harness::held::{Held, is_told_to_hold};
use harness::over_tls::{self, PlainOnly};
use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{Random, TIMEOUT, eventually, sleep_ms};
use socket2::SockRef;

const TESTS: &[Test] = tests![
    Each: slow_readers, trickling_readers, half_closed, resets_in_mid_reply, resets_at_once;
    Drivers: header_dribblers, body_dribblers, listings_at_once, crowd_without_a_request;
    Three: random_bytes, broken_requests;
];

fn main() -> ExitCode {
    if is_told_to_hold() {
        return ExitCode::SUCCESS;
    }
    over_tls::run(&[("misbehaving", TESTS)], &over_tls::FEW, PLAIN_ONLY)
}

const PLAIN_ONLY: &[PlainOnly] = &[
    ("misbehaving::crowd_without_a_request", "20,000 handshakes take the tunnel too long"),
    ("misbehaving::body_dribblers", "header_dribblers shows how TLS takes records of a byte"),
    ("misbehaving::listings_at_once", "what waits is the listing, before TLS"),
];

const CONFIG: &str = "
    [tcp]
    send_buffer = \"64 KiB\"
    [timeouts]
    header = \"1 s\"
    body = \"500 ms\"
    write = \"500 ms\"
    idle = \"2 s\"
    linger = \"300 ms\"
";

/// Memory that a server may keep for its next crowd, and what it may differ by after that.
const KEPT: u64 = 32 << 20;
const NOISE: u64 = 2 << 20;
/// Crowds after which it must have stopped taking more with each.
const TIMES: usize = 5;

/// Has clients misbehave until they take no more memory than they did before, at least twice, the first time
/// with another client beside them, and checks that nothing is left of them.
fn unharmed(variant: &Variant, setup: Setup, misbehave: impl Fn(&Server)) {
    unharmed_beside(variant, setup, variant.serves_one_at_a_time(), misbehave);
}

/// The same; `comes_again` as for [`Bystander::start`].
fn unharmed_beside(variant: &Variant, setup: Setup, comes_again: bool, misbehave: impl Fn(&Server)) {
    let server = setup.start();
    warm_up(&server);
    let (descriptors, memory) = (server.descriptors(), server.memory());
    let bystander = Bystander::start(&server, comes_again);
    misbehave(&server);
    bystander.stop();
    let is_back = |when: &str| {
        eventually(&format!("{variant:?} has its descriptors back {when}"), || {
            server.descriptors() <= descriptors
        });
        eventually(&format!("{variant:?} has no connections {when}"), || {
            let status = server.status();
            status["total"]["connections_opened"] == status["total"]["connections_closed"]
        });
        serve_everything(&server);
    };
    is_back("once");
    let mut after = vec![server.memory()];
    assert!(after[0] < memory + KEPT, "{memory} bytes before, {after:?} after");
    // A server keeps places for as many as it had at a time, and the kernel deals clients out differently
    // each time; the allocator gives back what lies at its end, or nothing while something lies behind it.
    // Neither goes on for ever, as what is left of each client would.
    let is_level = (2..=TIMES).any(|time| {
        let most = after.iter().copied().max().unwrap_or(0);
        misbehave(&server);
        is_back(&format!("{time} times"));
        after.push(server.memory());
        after[time - 1] < most + NOISE
    });
    assert!(is_level, "{memory} bytes before, {after:?} after each time");
}

/// Has every worker use all that it will ever need: descriptors for files, buffers.
fn warm_up(server: &Server) {
    eventually("every worker has served everything", || {
        serve_everything(server);
        let status = server.status();
        let workers = status["workers"].as_array().expect("workers");
        let of_each = |name| workers.iter().map(|worker| worker[name].as_u64()).collect::<Vec<_>>();
        let entries = of_each("file_table_entries");
        if server.common_descriptors {
            // The first tells what is in the table that they share.
            entries[0] > Some(0) && of_each("requests").into_iter().all(|count| count > Some(20))
        } else {
            entries.iter().all(|&count| count > Some(0) && count == entries[0])
        }
    });
}

/// Asks for everything there is, with many clients at once.
fn serve_everything(server: &Server) {
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        // Whether there is a big file or not.
        client.fetch("HEAD", "/big.bin", &[]);
        client.send(request("GET", "/large.bin", &[]) + &request("GET", "/nothing", &[]));
    }
    for client in &mut clients {
        client.send(request("GET", "/hello.txt", &[("Connection", "close")]));
        assert_eq!(client.reply().body.len(), LARGE);
        assert_eq!((client.reply().status, client.reply().text().as_str()), (404, HELLO));
        client.expect_close();
    }
}

/// A client that behaves, and is served all the time.
struct Bystander {
    stop: Arc<AtomicBool>,
    /// How often it was served.
    rounds: Arc<AtomicUsize>,
    thread: thread::JoinHandle<()>,
}

impl Bystander {
    /// `comes_again`: where places are few, somebody who is served all the time is asked to make room for
    /// others.
    fn start(server: &Server, comes_again: bool) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let address = server.address;
        let (told, count) = (Arc::clone(&stop), Arc::clone(&rounds));
        let thread = thread::spawn(move || {
            let mut client = Client::connect(address);
            while !told.load(Ordering::Relaxed) {
                for (target, length) in [("/hello.txt", HELLO.len()), ("/large.bin", LARGE)] {
                    let reply = client.get(target);
                    assert_eq!((reply.status, reply.body.len()), (200, length));
                    if reply.closes() {
                        assert!(comes_again, "told to go");
                        client = Client::connect(address);
                    }
                }
                count.fetch_add(1, Ordering::Relaxed);
                sleep_ms(5);
            }
        });
        let bystander = Self { stop, rounds, thread };
        bystander.more();
        bystander
    }

    /// It is served a few more times.
    fn more(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        eventually("the bystander is served", || {
            assert!(!self.thread.is_finished(), "the bystander failed");
            self.rounds.load(Ordering::Relaxed) >= before + 3
        });
    }

    fn stop(self) {
        self.more();
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the bystander was served to the end");
    }
}

fn setup(variant: &Variant) -> Setup {
    Setup::new(variant).config(CONFIG)
}

fn connect_many(server: &Server, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| Client::connect(server.address).stream).collect()
}

fn send(mut stream: &TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}

fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("an option of sockets");
    drop(stream);
}

/// Reads until the end, however it comes; it must come.
fn drain(mut stream: &TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return got,
            Ok(count) => got.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return got,
            Err(error) => panic!("the connection does not end: {error}"),
        }
    }
}

/// Slowloris: heads that never end.
fn header_dribblers(variant: &Variant) {
    unharmed(variant, setup(variant), |server| {
        let clients = connect_many(server, variant.crowd(500));
        let head = b"GET /hello.txt HTTP/1.1\r\nHost: x\r\nX-Slow: ".iter().chain([b'a'].iter().cycle());
        for &byte in head.take(60) {
            for client in &clients {
                send(client, &[byte]);
            }
            sleep_ms(20);
        }
        for client in &clients {
            let end = String::from_utf8_lossy(&drain(client)).into_owned();
            assert!(end.is_empty() || end.starts_with("HTTP/1.1 408 "), "{end}");
        }
    });
}

fn body_dribblers(variant: &Variant) {
    unharmed(variant, setup(variant), |server| {
        let clients = connect_many(server, variant.crowd(300));
        for client in &clients {
            send(client, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
        }
        for _ in 0..30 {
            for client in &clients {
                send(client, b"x");
            }
            sleep_ms(20);
        }
        for client in &clients {
            let end = String::from_utf8_lossy(&drain(client)).into_owned();
            assert!(end.starts_with("HTTP/1.1 405 "), "{end}");
        }
    });
}

/// They ask for much and take nothing.
fn slow_readers(variant: &Variant) {
    let setup = setup(variant).file("big.bin", pattern(5, 4 << 20));
    unharmed(variant, setup, |server| {
        let before = given_up(server);
        let count = variant.crowd(if variant.speaks_tls() { 50 } else { 200 });
        let mut clients: Vec<Client> = (0..count).map(|_| Client::connect_narrow(server.address)).collect();
        for client in &mut clients {
            client.send(request("GET", "/big.bin", &[]).repeat(3));
        }
        eventually("they are given up", || given_up(server) >= before + count as u64);
        for client in &clients {
            assert!(drain(&client.stream).len() < 3 * (4 << 20));
        }
    });
}

/// They ask for much and take a byte now and then, so that there is always some room for a little more.
fn trickling_readers(variant: &Variant) {
    let setup = setup(variant).file("big.bin", pattern(5, 4 << 20));
    unharmed(variant, setup, |server| {
        let before = given_up(server);
        let count = variant.crowd(100);
        let mut clients: Vec<Client> = (0..count).map(|_| Client::connect_narrow(server.address)).collect();
        for client in &mut clients {
            client.send(request("GET", "/big.bin", &[]));
        }
        eventually("they are given up", || {
            for client in &clients {
                // It may be over already.
                let _ = (&client.stream).read(&mut [0; 2]);
            }
            given_up(server) >= before + count as u64
        });
    });
}

/// How many readers have been found too slow, or so slow that others have their places.
fn given_up(server: &Server) -> u64 {
    server.count("timeouts/write") + server.count("connections_closed_under_pressure")
}

/// They ask for long listings, all at once, and take nothing.
fn listings_at_once(variant: &Variant) {
    const NAMES: usize = 1500;
    const ATTEMPTS: usize = 20;
    let setup = Setup::new(variant).config("listing = true\n[tcp]\nsend_buffer = \"64 KiB\"");
    let long = setup.root().join("long");
    fs::create_dir(&long).expect("a directory");
    for number in 0..NAMES {
        fs::write(long.join(format!("{number}{}", "&".repeat(250))), "").expect("a file");
    }
    // Where a worker has one client, there are some left for others.
    let count = if variant.serves_one_at_a_time() { 15 } else { 60 };
    for number in 0..ATTEMPTS * count {
        symlink("long", setup.root().join(format!("long{number}"))).expect("a link");
    }
    let server = setup.start();
    warm_up(&server);
    let before = server.memory();
    let ask = |target: &dyn Fn(usize) -> String| -> Vec<Client> {
        let mut clients: Vec<Client> = (0..count).map(|_| Client::connect_narrow(server.address)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(request("GET", &target(number), &[]));
        }
        clients
    };
    // The same for all.
    let clients = ask(&|_| "/long/".to_owned());
    eventually("all are answered", || clients.iter().all(|client| is_answered(&client.stream)));
    let memory = server.memory();
    assert!(memory < before + KEPT, "{before} bytes before, {memory} with {count} listings to be taken");
    drop(clients);
    // Another one for each, and then a client who wants something else. Where others have the CPU, so much
    // time may pass for its connection that all listings are made meanwhile, but not each time.
    let is_served_between = (0..ATTEMPTS).any(|attempt| {
        let clients = ask(&|number| format!("/long{}/", attempt * count + number));
        let mut bystander = server.connect();
        assert_eq!(bystander.get("/hello.txt").text(), HELLO);
        let before_it = clients.iter().filter(|client| is_answered(&client.stream)).count();
        eventually("all are answered", || clients.iter().all(|client| is_answered(&client.stream)));
        before_it < count
    });
    assert!(is_served_between || variant.serves_one_at_a_time(), "all the listings were made first");
}

/// Whether the first bytes of a reply are there.
fn is_answered(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("an option of sockets");
    let is_answered = stream.peek(&mut [0]).is_ok_and(|count| count > 0);
    stream.set_nonblocking(false).expect("an option of sockets");
    is_answered
}

/// As many connections as one process of clients holds. There are two such processes, since one alone may not
/// have all.
const HELD: usize = 10_000;

/// 20,000 connects and not one request.
fn crowd_without_a_request(variant: &Variant) {
    let limit = harness::variant::raise_descriptor_limit();
    // Where only so many are accepted, the others have to find room in the accept queue.
    let held = if variant.serves_one_at_a_time() { HELD / 8 } else { HELD };
    let held = held.min(usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(100));
    // There may be more of them than places, which are given by turns then.
    unharmed_beside(variant, setup(variant), true, |server| {
        let crowds = Held::connect(server.address, held);
        // All are connected, and stay so until they are found to be silent for too long.
        sleep_ms(300);
        crowds.leave();
    });
}

fn random_bytes(variant: &Variant) {
    unharmed(variant, setup(variant), |server| {
        let mut random = Random(42);
        for _ in 0..400 {
            let mut stream = Client::connect(server.address).stream;
            let count = 1 + random.below(3000);
            let mut bytes = random.bytes(count);
            if random.below(3) == 0 {
                bytes.splice(..0, *b"GET / HTTP/1.1\r\n");
            }
            for piece in bytes.chunks(1 + random.below(1000)) {
                send(&stream, piece);
            }
            match random.below(4) {
                0 => reset(stream),
                1 => drop(stream),
                _ => {
                    stream.shutdown(Shutdown::Write).ok();
                    drain(&stream);
                    stream.flush().ok();
                }
            }
        }
    });
}

/// Requests that were right until a few of their bytes were changed, doubled or left out.
fn broken_requests(variant: &Variant) {
    let good = "GET /large.bin HTTP/1.1\r\nHost: x\r\nRange: bytes=0-99,200-\r\nIf-None-Match: \"a\"\r\n\r\n\
        POST /x?y HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
        5;a=b\r\nabcde\r\n0\r\nT: u\r\n\r\n\
        GET /dir/../%2e%2e/hello.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\
        Connection: keep-alive\r\n\r\nabc";
    unharmed(variant, setup(variant), |server| {
        let mut random = Random(43);
        for _ in 0..400 {
            let mut bytes = good.as_bytes().to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = random.draw() as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"\r\n\0 :,;%/.0A"[random.below(12)]),
                }
            }
            let stream = Client::connect(server.address).stream;
            send(&stream, &bytes);
            stream.shutdown(Shutdown::Write).ok();
            drain(&stream);
        }
    });
}

fn half_closed(variant: &Variant) {
    // What ends a request here is that no more of it can come. Times would only end those of a busy machine.
    let setup = Setup::new(variant).config("[tcp]\nsend_buffer = '64 KiB'");
    unharmed(variant, setup, |server| {
        let requests = request("GET", "/large.bin", &[]) + &request("GET", "/hello.txt", &[]);
        let clients = connect_many(server, 300);
        // All at the same time: one that waits for others is a slow reader, which the server disconnects.
        thread::scope(|scope| {
            for (number, client) in clients.iter().enumerate() {
                let asked = &requests[..[0, 10, requests.len() / 2 + 5, requests.len()][number % 4]];
                scope.spawn(move || {
                    send(client, asked.as_bytes());
                    // A worker with one client at a time may close the connection for another client.
                    let shut = client.shutdown(Shutdown::Write);
                    assert!(shut.is_ok() || variant.serves_one_at_a_time(), "{shut:?}");
                    let got = drain(client);
                    let has_all = got.ends_with(HELLO.as_bytes()) || variant.serves_one_at_a_time();
                    assert!(number % 4 != 3 || got.len() > LARGE && has_all, "{number} got {}", got.len());
                });
            }
        });
    });
}

fn resets_in_mid_reply(variant: &Variant) {
    let setup = setup(variant).file("big.bin", pattern(5, 4 << 20));
    unharmed(variant, setup, |server| {
        // So many handshakes at once of one network would be a flood on a slow machine.
        let count = if variant.speaks_tls() { 8 } else { 30 };
        for _ in 0..10 {
            let connect = |_| Client::connect_narrow(server.address);
            let mut clients: Vec<Client> = (0..count).map(connect).collect();
            for client in &mut clients {
                client.send(request("GET", "/big.bin", &[]).repeat(2));
            }
            for mut client in clients {
                assert_eq!(client.read_raw(10_000).expect("a beginning").len(), 10_000);
                client.reset();
            }
        }
    });
}

/// Some are gone before they are accepted, others with their request.
fn resets_at_once(variant: &Variant) {
    unharmed(variant, setup(variant), |server| {
        let began = Instant::now();
        // More handshakes would keep the bystander's requests from coming for so long that it seems idle.
        for number in 0..if variant.speaks_tls() { 100 } else { 1000 } {
            let mut client = server.connect();
            if number % 2 == 0 {
                client.send(request("GET", "/large.bin", &[]).repeat(number % 5));
            }
            client.reset();
        }
        assert!(began.elapsed() < 4 * TIMEOUT, "connecting hangs");
    });
}
