//! Whole runs against small servers that speak TLS: handshakes are counted for what they are, replies come to
//! the same as without TLS, and each way in which TLS fails has its own outcome.

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use load::engine::{self, Keep};
use load::measures::Measures;
use load::record::{Agreed, Outcome};
use load::run::{Class, Load, Run, Target};
use load::schedule::{Arrivals, Rate, Schedule};
use load::tls::{Roots, Settings};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion, version};
use tempfile::TempDir;
use workload::session::{Builder, Method, Request, SessionLog};

const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS12, &version::TLS13];
/// Many records, and more than a client receives at a time.
const LARGE: usize = 300_000;
const TIMEOUT: Duration = Duration::from_secs(20);

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A server with a certificate for `localhost` that it has signed itself.
struct Server {
    address: SocketAddr,
    directory: TempDir,
}

/// What a server is made of.
struct Maker {
    certificate: CertificateDer<'static>,
    config: ServerConfig,
}

impl Maker {
    fn new(versions: &[&'static SupportedProtocolVersion]) -> Self {
        Self::with_groups(versions, aws_lc_rs::default_provider().kx_groups)
    }

    fn with_groups(
        versions: &[&'static SupportedProtocolVersion],
        groups: Vec<&'static dyn rustls::crypto::SupportedKxGroup>,
    ) -> Self {
        static SERVERS: AtomicUsize = AtomicUsize::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        // A root is found by its name.
        parameters.distinguished_name.push(DnType::CommonName, format!("server {number}"));
        let certificate = parameters.self_signed(&key).unwrap().der().clone();
        let provider = rustls::crypto::CryptoProvider { kx_groups: groups, ..aws_lc_rs::default_provider() };
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], PrivateKeyDer::from(key))
            .unwrap();
        Self { certificate, config }
    }

    /// Answers requests on each connection until it ends.
    fn start(self) -> Server {
        let config = Arc::new(self.config);
        let converse = move |client: TcpStream| {
            client.set_nodelay(true).unwrap();
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), client);
            while let Some((path, body)) = next_request(&mut stream) {
                if !answer(&mut stream, &path, body) {
                    break;
                }
            }
        };
        Server::new(&self.certificate, converse)
    }
}

impl Server {
    /// A server that treats connections so, each on its own thread.
    fn new(certificate: &CertificateDer<'_>, converse: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let text = STANDARD.encode(certificate);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        fs::write(directory.path().join("roots.pem"), pem).unwrap();
        let converse = Arc::new(converse);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, converse) = (client.unwrap(), Arc::clone(&converse));
                thread::spawn(move || converse(client));
            }
        });
        Self { address, directory }
    }

    fn roots(&self) -> PathBuf {
        self.directory.path().join("roots.pem")
    }

    fn target(&self) -> Target {
        Target::Tls(self.address, "localhost".parse().unwrap())
    }
}

/// The next request's path, and how long its body is; none when the client has gone.
fn next_request(stream: &mut Stream) -> Option<(String, usize)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    assert!(body.iter().enumerate().all(|(at, byte)| *byte == letter(at)), "the body came as it was sent");
    let path = head.split(' ').nth(1).unwrap().to_owned();
    Some((path, body.len()))
}

fn letter(at: usize) -> u8 {
    b'a' + (at % 23) as u8
}

fn letters(count: usize) -> Vec<u8> {
    (0..count).map(letter).collect()
}

/// Answers a request; false when the connection is over.
fn answer(stream: &mut Stream, path: &str, body: usize) -> bool {
    let (head, content) = match path {
        "/large" => (format!("Content-Length: {LARGE}\r\n"), letters(LARGE)),
        "/chunked" => {
            let chunks = format!("5\r\nabcde\r\n{:x}\r\n", LARGE - 5).into_bytes();
            let chunks = [&chunks, &letters(LARGE)[5..], b"\r\n0\r\n\r\n"].concat();
            ("Transfer-Encoding: chunked\r\n".to_owned(), chunks)
        }
        "/closed" | "/cut" => (String::new(), letters(1000)),
        "/cut-behind-its-end" => ("Content-Length: 1000\r\n".to_owned(), letters(1000)),
        "/cut-in-the-middle" => ("Content-Length: 1001\r\n".to_owned(), letters(1000)),
        _ => {
            let told = body.to_string();
            (format!("Content-Length: {}\r\n", told.len()), told.into_bytes())
        }
    };
    let reply = [format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes(), &content].concat();
    if stream.write_all(&reply).is_err() {
        return false;
    }
    match path {
        "/closed" => {
            stream.conn.send_close_notify();
            let _ = stream.conn.complete_io(&mut stream.sock);
            false
        }
        path => !path.starts_with("/cut"),
    }
}

fn log(paths: &[&str]) -> SessionLog {
    let mut log = Builder::new();
    for path in paths {
        log.call(Request { uri: (*path).into(), ..Request::default() });
    }
    log.finish()
}

fn closed(connections: u32, sessions: u64) -> Load {
    Load::Closed { connections, count: Some(sessions), kept: false }
}

fn measured(run: Run) -> Measures {
    engine::start(run, Keep::default()).unwrap().finish().unwrap().measures
}

/// Plays sessions with these settings, and the server's own certificate as the root.
fn play(server: &Server, log: SessionLog, load: Load, tls: &Settings) -> Measures {
    let roots = Roots::File(server.roots());
    play_as_told(server, log, load, TIMEOUT, Settings { roots, ..tls.clone() })
}

fn play_as_told(server: &Server, log: SessionLog, load: Load, timeout: Duration, tls: Settings) -> Measures {
    let run = support::run(log, server.address, load, timeout);
    measured(Run { targets: vec![server.target()], tls, ..run })
}

fn of(measures: &Measures, outcome: Outcome) -> u64 {
    measures.cohort.outcomes.of(outcome)
}

/// Full, resumed and failed handshakes.
fn handshakes(measures: &Measures) -> (u64, u64, u64) {
    let of = &measures.handshakes;
    assert_eq!((of.full_times.count(), of.resumed_times.count()), (of.full, of.resumed));
    (of.full, of.resumed, of.failed)
}

fn reasons(measures: &Measures) -> String {
    measures.handshakes.reasons().iter().map(|(reason, _)| *reason).collect::<Vec<_>>().join("; ")
}

#[test]
fn sessions_are_resumed_unless_that_is_off() {
    for only in BOTH {
        let server = Maker::new(&[only]).start();
        for (resumption, expected) in [(true, (1, 9, 0)), (false, (10, 0, 0))] {
            let settings = Settings { resumption, ..Settings::default() };
            let measures = play(&server, log(&["/a", "/b"]), closed(1, 10), &settings);
            assert_eq!(of(&measures, Outcome::Reply), 20, "{measures:?}");
            assert_eq!(handshakes(&measures), expected, "{only:?}");
            assert_eq!((measures.connections.tried, measures.connections.lost), (10, 0));
            assert_eq!(measures.connections.connect_times.count(), 10);
            assert_eq!(reasons(&measures), "");
        }
    }
}

#[test]
fn each_connection_has_its_handshake() {
    let server = Maker::new(BOTH).start();
    let paced = Load::Arriving {
        schedule: Schedule::drawn(Rate::constant(500.0).unwrap(), Arrivals::Fixed, 1),
        count: Some(100),
        kept: Some(4),
    };
    for (load, connections) in [(closed(8, 50), 50), (paced, 4)] {
        let sessions = if connections == 4 { 100 } else { 50 };
        let measures = play(&server, log(&["/a"]), load, &Settings::default());
        assert_eq!(of(&measures, Outcome::Reply), sessions);
        let (full, resumed, failed) = handshakes(&measures);
        assert_eq!((full + resumed, failed, measures.connections.connected), (connections, 0, connections));
    }
}

/// As the run of `sessions_are_resumed_unless_that_is_off`, beside clients that only want handshakes.
#[test]
fn handshakes_alone_are_full_and_no_calls() {
    let server = Maker::new(BOTH).start();
    let run = support::run(log(&["/a"]), server.address, closed(1, 10), TIMEOUT);
    let mut classes = run.classes.clone();
    "asks".clone_into(&mut classes[0].name);
    let name = "flood".to_owned();
    classes.push(Class { name, load: closed(2, 20), handshakes_only: true, ..run.classes[0].clone() });
    let tls = Settings { roots: Roots::File(server.roots()), ..Settings::default() };
    let measures = measured(Run { targets: vec![server.target()], tls, classes, ..run });
    assert_eq!((measures.cohort.issued, of(&measures, Outcome::Reply)), (10, 10));
    assert_eq!((measures.flow.handshakes.all(), measures.flow.handshakes.of(Outcome::Handshake)), (20, 20));
    assert_eq!(handshakes(&measures), (21, 9, 0));
    let all: Vec<_> = measures.cohort.by_class.each().collect();
    assert_eq!((all[0].outcomes.all(), all[0].handshake_times.count(), all[0].waits.bounds()), (10, 0, 0));
    let flood = all[1];
    assert_eq!((flood.outcomes.of(Outcome::Handshake), flood.handshake_times.count()), (20, 20));
    assert_eq!((flood.reply_times.count(), flood.waits.count(), flood.waits.bounds()), (0, 20, 0));
    assert_eq!(measures.sessions.completed, 30);
}

#[test]
fn what_is_asked_is_what_is_agreed_on() {
    let server = Maker::with_groups(BOTH, aws_lc_rs::ALL_KX_GROUPS.to_vec()).start();
    for (version, group, cipher) in [
        ("1.3", Some("x25519"), "TLS_CHACHA20_POLY1305_SHA256"),
        ("1.3", Some("x25519mlkem768"), "TLS_AES_128_GCM_SHA256"),
        ("1.3", Some("secp256r1"), "TLS_AES_256_GCM_SHA384"),
        ("1.2", Some("secp384r1"), "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ] {
        let settings = Settings {
            version: Some(version.parse().unwrap()),
            group: group.map(|group| group.parse().unwrap()),
            cipher: Some(cipher.parse().unwrap()),
            resumption: false,
            ..Settings::default()
        };
        let measures = play(&server, log(&["/a"]), closed(1, 3), &settings);
        assert_eq!(measures.handshakes.agreed(), [(Agreed { version, cipher, group }, 3)]);
    }
}

#[test]
fn a_second_hello_is_counted() {
    let server = Maker::with_groups(&[&version::TLS13], vec![aws_lc_rs::kx_group::SECP384R1]).start();
    for (resumption, retries) in [(false, 3), (true, 1)] {
        let settings = Settings { resumption, ..Settings::default() };
        let measures = play(&server, log(&["/a"]), closed(1, 3), &settings);
        assert_eq!((of(&measures, Outcome::Reply), measures.handshakes.hello_retries), (3, retries));
    }
}

#[test]
fn bodies_are_those_of_the_server_however_long_they_are() {
    let files = tempfile::tempdir().unwrap();
    for (name, content) in [("large", letters(LARGE)), ("chunked", letters(LARGE)), ("small", b"0".to_vec())]
    {
        fs::write(files.path().join(name), content).unwrap();
    }
    let paths = ["/large", "/small", "/chunked", "/large"];
    let play = |verify: Option<&Path>| {
        let server = Maker::new(BOTH).start();
        let run = support::run(log(&paths), server.address, closed(4, 12), TIMEOUT);
        let tls = Settings { roots: Roots::File(server.roots()), ..Settings::default() };
        let verify = verify.map(Path::to_owned);
        measured(Run { targets: vec![server.target()], tls, verify, ..run })
    };
    for measures in [play(None), play(Some(files.path()))] {
        assert_eq!(of(&measures, Outcome::Reply), 48, "{:?}", measures.cohort.outcomes);
        assert_eq!(measures.flow.body_bytes, 12 * (3 * LARGE as u64 + 1));
        assert_eq!(measures.connections.tried, 12, "pipelined on one connection");
    }
    fs::write(files.path().join("large"), letters(LARGE - 1)).unwrap();
    assert_eq!(of(&play(Some(files.path())), Outcome::WrongLength), 24);
}

#[test]
fn large_requests_are_sent_whole() {
    let server = Maker::new(BOTH).start();
    let mut log = Builder::new();
    for length in [LARGE, 1, LARGE] {
        log.call(Request {
            method: Method::POST,
            uri: "/".into(),
            contents: Some(letters(length).into()),
            ..Request::default()
        });
    }
    let measures = play(&server, log.finish(), closed(2, 6), &Settings::default());
    assert_eq!(of(&measures, Outcome::Reply), 18, "{:?}", measures.cohort.outcomes);
    assert_eq!(measures.flow.body_bytes, 6 * (2 * "300000".len() as u64 + 1));
    assert!(measures.flow.request_bytes > 6 * (2 * LARGE as u64 + 1));
}

/// Without `close_notify`, anybody on the way could have cut the connection.
#[test]
fn a_reply_that_only_the_end_of_its_connection_ends_needs_a_close_notify() {
    let server = Maker::new(BOTH).start();
    for (path, outcome) in [
        ("/closed", Outcome::Reply),
        ("/cut", Outcome::CutShort),
        ("/cut-in-the-middle", Outcome::CutShort),
        ("/cut-behind-its-end", Outcome::Reply),
    ] {
        let measures = play(&server, log(&[path]), closed(1, 5), &Settings::default());
        assert_eq!(of(&measures, outcome), 5, "{path}: {:?}", measures.cohort.outcomes);
        assert_eq!(handshakes(&measures).2, 0);
    }
    // A server may close between replies, and the session goes on over another connection.
    let measures = play(&server, log(&["/cut-behind-its-end", "/a"]), closed(1, 5), &Settings::default());
    assert_eq!((of(&measures, Outcome::Reply), measures.connections.tried), (10, 10));
    assert_eq!(measures.connections.lost, 5);
}

#[test]
fn failures_of_tls_are_told_in_words() {
    let old = Maker::new(&[&version::TLS12]).start();
    let other = Maker::new(BOTH).start();
    let own = |server: &Server| Settings { roots: Roots::File(server.roots()), ..Settings::default() };
    let new_only = Settings { version: Some("1.3".parse().unwrap()), ..own(&old) };
    for (settings, told) in [
        (new_only, "the server sent the alert protocol_version"),
        (own(&other), "the server's certificate is not from a known root; name its root with --roots"),
    ] {
        let measures = play_as_told(&old, log(&["/a"]), closed(1, 3), TIMEOUT, settings);
        assert_eq!(of(&measures, Outcome::TlsError), 3, "{told}: {:?}", measures.cohort.outcomes);
        assert_eq!((handshakes(&measures), reasons(&measures)), ((0, 0, 3), told.to_owned()));
        assert_eq!((measures.sessions.failed, measures.connections.connected), (3, 3));
    }
    let run = support::run(log(&["/a"]), old.address, closed(1, 3), TIMEOUT);
    let stranger = Target::Tls(old.address, "example.org".parse().unwrap());
    let measures = measured(Run { targets: vec![stranger.clone()], tls: own(&old), ..run });
    assert_eq!(reasons(&measures), "the server's certificate is not for example.org");
    let run = support::run(log(&["/a"]), old.address, closed(1, 3), TIMEOUT);
    let insecure = Settings { roots: Roots::None, ..Settings::default() };
    let measures = measured(Run { targets: vec![stranger], tls: insecure, ..run });
    assert_eq!((of(&measures, Outcome::Reply), reasons(&measures)), (3, String::new()), "not verified");
}

#[test]
fn what_is_not_tls_fails_as_what_it_is() {
    let certificate = Maker::new(BOTH).certificate;
    let play = |converse: fn(TcpStream), timeout| {
        let server = Server::new(&certificate, converse);
        let insecure = Settings { roots: Roots::None, ..Settings::default() };
        play_as_told(&server, log(&["/a"]), closed(1, 2), timeout, insecure)
    };
    let speaks_http = play(
        |mut client| {
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            // To the client's end, so that no reset overtakes it.
            let _ = client.read(&mut [0; 4096]);
        },
        TIMEOUT,
    );
    assert_eq!((of(&speaks_http, Outcome::TlsError), handshakes(&speaks_http)), (2, (0, 0, 2)));
    assert!(reasons(&speaks_http).starts_with("what came is not TLS"), "{}", reasons(&speaks_http));
    let closes = play(
        |mut client| {
            let _ = client.read(&mut [0; 4096]);
        },
        TIMEOUT,
    );
    assert_eq!((of(&closes, Outcome::Closed), handshakes(&closes)), (2, (0, 0, 2)));
    let says_nothing = play(
        |mut client| {
            let mut all = Vec::new();
            let _ = client.read_to_end(&mut all);
        },
        Duration::from_millis(200),
    );
    assert_eq!((of(&says_nothing, Outcome::TlsTimeout), handshakes(&says_nothing)), (2, (0, 0, 2)));
    assert_eq!(says_nothing.cohort.outcomes.timeouts(), 2);
}

#[test]
fn targets_with_and_without_tls_take_turns() {
    let server = Maker::new(BOTH).start();
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    thread::spawn(move || {
        for client in plain.incoming() {
            let mut client = client.unwrap();
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let run = support::run(log(&["/a"]), address, closed(1, 10), TIMEOUT);
    let targets = vec![Target::Inet(address), server.target()];
    let tls = Settings { roots: Roots::File(server.roots()), ..Settings::default() };
    let measures = measured(Run { targets, tls, ..run });
    assert_eq!(of(&measures, Outcome::Reply), 10, "{:?}", measures.cohort.outcomes);
    assert_eq!((handshakes(&measures), measures.connections.connected), ((1, 4, 0), 10));
}

/// Connections that the end of a run cuts off have not failed.
#[test]
fn a_handshake_that_the_run_cuts_off_has_not_failed() {
    let certificate = Maker::new(BOTH).certificate;
    let server = Server::new(&certificate, |mut client| {
        let mut all = Vec::new();
        let _ = client.read_to_end(&mut all);
    });
    let run = support::run(log(&["/a"]), server.address, closed(3, 3), TIMEOUT);
    let tls = Settings { roots: Roots::None, ..Settings::default() };
    let running = engine::start(Run { targets: vec![server.target()], tls, ..run }, Keep::default()).unwrap();
    while running.progress().arrived < 3 {
        thread::sleep(Duration::from_millis(5));
    }
    running.stop();
    let measures = running.finish().unwrap().measures;
    assert_eq!(handshakes(&measures), (0, 0, 0));
    assert!(measures.handshakes.unfinished <= 3);
    assert_eq!(of(&measures, Outcome::Unfinished), 3);
}
