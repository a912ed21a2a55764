//! Applications by name: their addresses are looked up while the server runs, and again when they may have
//! changed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use harness::eventually;
use harness::name_server::{NameServer, Said};
use harness::server::{Server, Setup};
use harness::variant::{Test, Variant, tests};
use rustix::process::Signal;

pub(super) const TESTS: &[Test] = tests![
    Three: an_application_moves;
    One: all_addresses_are_used, answers_of_all_kinds, no_answer, names_of_php, a_reload_has_other_names;
];

/// Applications at one port of several loopback addresses. Each answers with its address.
struct Applications {
    port: u16,
    /// How many connections there have been.
    connections: Arc<AtomicUsize>,
}

impl Applications {
    fn start(addresses: &[&str]) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        // A port that is free at one address may be in use at another.
        let at_all = || {
            let mut port = 0;
            let mut bind = |address: &&str| {
                let listener = TcpListener::bind(SocketAddr::new(ip(address), port)).ok()?;
                port = listener.local_addr().expect("an address").port();
                Some(listener)
            };
            addresses.iter().map(&mut bind).collect::<Option<Vec<_>>>()
        };
        let listeners = (0..20).find_map(|_| at_all()).expect("a port that is free at all addresses");
        let port = listeners[0].local_addr().expect("an address").port();
        for listener in listeners {
            let connections = Arc::clone(&connections);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    connections.fetch_add(1, Ordering::Relaxed);
                    let stream = stream.expect("a connection");
                    thread::spawn(move || tell_address(stream));
                }
            });
        }
        Self { port, connections }
    }

    /// The settings that have the applications of this name answer all below `/app`.
    fn pool(&self, name: &str, names: &NameServer, more: &str) -> String {
        let (port, names) = (self.port, names.address);
        format!(
            "[gateway]\nname_servers = ['{names}']\n\
             [[pools]]\nname = 'app'\nprotocol = 'http'\nservers = '{name}:{port}'\n{more}\n\
             [[routes]]\npath = '/app/**'\npool = 'app'\n"
        )
    }
}

/// Answers each request with the address that it was sent to.
fn tell_address(stream: TcpStream) {
    let told = stream.local_addr().expect("an address").ip().to_string();
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    while stream.read_line(&mut line).is_ok_and(|count| count > 0) {
        if line == "\r\n" {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", told.len());
            let _ = stream.get_mut().write_all((head + &told).as_bytes());
        }
        line.clear();
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn has(addresses: &[&str], seconds: u32) -> Said {
    Said::Has(addresses.iter().map(|text| ip(text)).collect(), seconds)
}

fn told(server: &Server) -> String {
    let reply = server.get("/app/");
    if reply.status == 200 { reply.text() } else { reply.status.to_string() }
}

/// Also with connections that are kept, which lead to where the application was.
fn an_application_moves(variant: &Variant) {
    let (names, apps) = (NameServer::start(), Applications::start(&["127.0.0.2", "127.0.0.3"]));
    names.say("app.test", has(&["127.0.0.2"], 1));
    let server = Setup::new(variant).config(&apps.pool("app.test", &names, "")).start();
    let mut client = server.connect();
    assert_eq!(client.get("/app/").text(), "127.0.0.2");
    names.say("app.test", has(&["127.0.0.3"], 1));
    eventually("the application has moved", || client.get("/app/").text() == "127.0.0.3");
    // It stays there.
    for _ in 0..20 {
        assert_eq!(client.get("/app/").text(), "127.0.0.3");
    }
    assert_eq!(told(&server), "127.0.0.3");
    server.wait_for_line(|line| line.contains("app.test has the address 127.0.0.3"));
}

fn all_addresses_are_used(variant: &Variant) {
    let (names, apps) = (NameServer::start(), Applications::start(&["127.0.0.2", "127.0.0.3"]));
    names.say("app.test", has(&["127.0.0.2", "127.0.0.3"], 3600));
    let server = Setup::new(variant).config(&apps.pool("app.test", &names, "keep = 0")).start();
    assert_eq!(told(&server), "127.0.0.2");
    // An address where nothing listens does no harm.
    names.say("app.test", has(&["127.0.0.1", "127.0.0.3"], 3600));
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("127.0.0.1, 127.0.0.3"));
    for _ in 0..5 {
        assert_eq!(told(&server), "127.0.0.3");
    }
    // It is asked for each kind of address, when the server starts and at the reload.
    assert_eq!(names.count("app.test"), 4, "an hour is not over");
    assert_eq!(apps.connections.load(Ordering::Relaxed), 6);
}

fn answers_of_all_kinds(variant: &Variant) {
    let (names, apps) = (NameServer::start(), Applications::start(&["127.0.0.2"]));
    names.say("also.test", Said::IsAlso("other.test"));
    names.say("other.test", has(&["127.0.0.2"], 60));
    names.say("long.test", Said::TooLong(vec![ip("127.0.0.2")]));
    names.say("six.test", has(&["::1"], 60));
    names.say("both.test", has(&["::1", "127.0.0.2"], 60));
    for (name, expected) in [
        ("also.test", "127.0.0.2"),
        ("ALSO.test.", "127.0.0.2"),
        ("long.test", "127.0.0.2"),
        ("both.test", "127.0.0.2"),
        // Nothing listens there.
        ("six.test", "502"),
    ] {
        let server = Setup::new(variant).config(&apps.pool(name, &names, "")).start();
        assert_eq!(told(&server), expected, "{name}");
    }
}

/// A name server that has no answer does not hold requests up, and what was known stays in use.
fn no_answer(variant: &Variant) {
    let (names, apps) = (NameServer::start(), Applications::start(&["127.0.0.2"]));
    names.say("fails.test", Said::Fails);
    for length in [0, 12, 27] {
        names.say(&format!("cut-{length}.test"), Said::Cut(length));
    }
    for name in ["none.test", "fails.test", "cut-0.test", "cut-12.test", "cut-27.test"] {
        let server = Setup::new(variant).config(&apps.pool(name, &names, "")).start();
        assert_eq!(told(&server), "502", "{name}");
        let log = server.wait_for_line(|line| line.contains("cannot look"));
        assert!(log.contains(name), "{log}");
        server.wait_for_line(|line| line.contains(&format!("no address is known for {name}")));
    }
    names.say("app.test", has(&["127.0.0.2"], 1));
    let server = Setup::new(variant).config(&apps.pool("app.test", &names, "keep = 0")).start();
    assert_eq!(told(&server), "127.0.0.2");
    names.say("app.test", Said::Silent);
    let asked = names.count("app.test");
    // Each question is sent again and again. After that, the lookup has failed.
    server.wait_for_line(|line| line.contains("cannot look app.test up"));
    assert!(names.count("app.test") > asked + 2);
    assert_eq!(told(&server), "127.0.0.2");
    names.say("app.test", has(&["127.0.0.2"], 60));
    server.wait_for_line(|line| line.contains("app.test has the address"));
}

fn names_of_php(variant: &Variant) {
    let (names, nothing) = (NameServer::start(), Applications::start(&["127.0.0.2"]));
    names.say("php.test", has(&["127.0.0.3"], 60));
    let config =
        format!("php = 'php.test:{}'\n[gateway]\nname_servers = ['{}']\n", nothing.port, names.address);
    let server = Setup::new(variant).file("x.php", "").config(&config).start();
    assert_eq!(server.get("/x.php").status, 502);
    let log = server.wait_for_line(|line| line.contains("no server can be connected to"));
    assert!(log.contains(&format!("127.0.0.3:{}", nothing.port)), "{log}");
}

fn a_reload_has_other_names(variant: &Variant) {
    let (names, apps) = (NameServer::start(), Applications::start(&["127.0.0.2", "127.0.0.3"]));
    names.say("a.test", has(&["127.0.0.2"], 60));
    names.say("b.test", has(&["127.0.0.3"], 60));
    let server = Setup::new(variant).config("").start();
    for (name, expected) in [("a.test", "127.0.0.2"), ("b.test", "127.0.0.3"), ("a.test", "127.0.0.2")] {
        server.rewrite_config(&apps.pool(name, &names, ""));
        server.signal(Signal::HUP);
        eventually("the settings are in use", || told(&server) == expected);
    }
    server.rewrite_config("");
    server.signal(Signal::HUP);
    eventually("there are no names", || told(&server) == "404");
}
