//! Connections that switch to another protocol, such as WebSocket.

use std::io::Write;
use std::path::PathBuf;
use std::thread;

use harness::client::{Broken, Client};
use harness::scripted_http::{self, Asked};
use harness::server::{Server, Setup};
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{Random, eventually, sleep_ms};
use rustix::process::Signal;

use crate::pool;

pub(super) const TESTS: &[Test] = tests![
    Drivers: bytes_pass_both_ways, much_passes_both_ways, either_side_ends, offers_that_are_not_passed_on,
    switches_that_were_not_offered, a_bound, silence, an_end_of_the_server, workers_die;
];

const OFFER: &[(&str, &str)] =
    &[("Connection", "keep-alive, Upgrade"), ("Upgrade", "chat/2, echo"), ("X-Mine", "a")];

/// An application whose upgraded connections send everything back. Others are told what it was told.
fn echo(setup: &Setup) -> PathBuf {
    scripted_http::start(setup.directory(), "app.sock", |asked| {
        if asked.field("Upgrade").is_none() {
            let told = asked.fields.join("\n");
            return asked.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{told}", told.len()));
        }
        asked.switch("echo", "X-Theirs: b\r\nKeep-Alive: timeout=5\r\n");
        asked.say(asked.fields.join("\n") + "\n\n");
        send_back(asked);
        false
    })
}

fn send_back(asked: &mut Asked) {
    loop {
        let heard = asked.hear();
        if heard.is_empty() || !asked.say(heard) {
            return;
        }
    }
}

/// Everything up to this mark.
fn until(client: &mut Client, mark: &[u8]) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(mark) {
        let more = client.read_raw(1).expect("more");
        assert!(!more.is_empty(), "the end, after {:?}", String::from_utf8_lossy(&seen));
        seen.extend(more);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

fn exactly(client: &mut Client, count: usize) -> Vec<u8> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let more = client.read_raw(count - seen.len()).expect("more");
        assert!(!more.is_empty(), "{} of {count} bytes", seen.len());
        seen.extend(more);
    }
    seen
}

/// A client whose connection is upgraded, what it was told, and what the application was told.
fn upgraded(server: &Server) -> (Client, String, String) {
    let mut client = server.connect();
    client.ask("GET", "/app/x", OFFER);
    let head = until(&mut client, b"\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    let told = until(&mut client, b"\n\n");
    (client, head, told)
}

fn bytes_pass_both_ways(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = echo(&setup);
    let server = setup.config(&pool(&socket, "children = 1")).start();
    let mut client = server.connect();
    // It is early, but the application gets it.
    client.send(harness::client::request("GET", "/app/x", OFFER) + "early");
    let head = until(&mut client, b"\r\n\r\n").to_lowercase();
    for (field, is_there) in [
        ("connection: upgrade\r\n", true),
        ("upgrade: echo\r\n", true),
        ("x-theirs: b\r\n", true),
        ("date: ", true),
        ("keep-alive", false),
        ("content-length", false),
        ("transfer-encoding", false),
        ("close", false),
    ] {
        assert_eq!(head.contains(field), is_there, "{field}: {head}");
    }
    let told = until(&mut client, b"\n\n");
    for field in ["Connection: upgrade\n", "Upgrade: chat/2, echo\n", "X-Mine: a\n", "X-Forwarded-For: "] {
        assert_eq!(told.matches(field).count(), 1, "{field}: {told}");
    }
    assert_eq!(exactly(&mut client, 5), b"early");
    let mut random = Random(3);
    for number in 0..60 {
        let bytes = pattern(number, 1 + random.below(if number % 3 == 0 { 100_000 } else { 200 }));
        client.send(&bytes);
        assert!(exactly(&mut client, bytes.len()) == bytes, "message {number}");
    }
    // It takes nobody's place in the queue.
    assert!(server.get("/app/y").text().contains("Host: "));
    assert_eq!(["upgraded", "upgrades", "failures"].map(|name| server.pool_count(name)), [1, 1, 0]);
    drop(client);
    eventually("it is over", || server.pool_count("upgraded") == 0);
    assert_eq!(server.pool_count("failures"), 0);
}

/// In both directions at once, to and from sides that are slow. Nothing grows meanwhile.
fn much_passes_both_ways(variant: &Variant) {
    const MUCH: usize = 12 << 20;
    let setup = Setup::new(variant);
    let socket = scripted_http::start(setup.directory(), "app.sock", |asked| {
        asked.switch("echo", "");
        let mut stream = asked.stream();
        let sends = thread::spawn(move || stream.write_all(&pattern(1, MUCH)).is_ok());
        let mut heard = Vec::new();
        while heard.len() < MUCH {
            let more = asked.hear();
            assert!(!more.is_empty(), "{} bytes", heard.len());
            heard.extend(more);
            if heard.len() % 7 == 0 {
                sleep_ms(1);
            }
        }
        assert!(sends.join().expect("a thread"));
        asked.say(if heard == pattern(2, MUCH) { "right" } else { "wrong" });
        false
    });
    let server = setup.config(&pool(&socket, "")).start();
    let mut client = server.connect_narrow();
    client.ask("GET", "/app/", OFFER);
    until(&mut client, b"\r\n\r\n");
    let before = server.memory();
    let mut stream = client.stream.try_clone().expect("a descriptor");
    let sends = thread::spawn(move || stream.write_all(&pattern(2, MUCH)).is_ok());
    let (mut seen, mut most) = (Vec::new(), 0);
    while seen.len() < MUCH {
        seen.extend(exactly(&mut client, (1 << 20).min(MUCH - seen.len())));
        most = most.max(server.memory());
    }
    assert!(seen == pattern(1, MUCH));
    assert!(sends.join().expect("a thread"));
    assert_eq!(exactly(&mut client, 5), b"right");
    client.expect_end();
    assert!(most < before + (4 << 20), "{before} bytes before, {most} meanwhile");
}

/// What was sent before the end of one side reaches the other.
fn either_side_ends(variant: &Variant) {
    let setup = Setup::new(variant);
    let heard = setup.directory().join("heard");
    let file = heard.clone();
    let socket = scripted_http::start(setup.directory(), "app.sock", move |asked| {
        asked.switch("echo", "");
        match asked.query().as_str() {
            "server" => {
                asked.say(pattern(4, 300_000));
            }
            "client" => {
                let mut all = Vec::new();
                loop {
                    let more = asked.hear();
                    if more.is_empty() {
                        break;
                    }
                    all.extend(more);
                    sleep_ms(1);
                }
                std::fs::write(&file, all).expect("a file");
            }
            _ => {}
        }
        false
    });
    let server = setup.config(&pool(&socket, "")).start();
    let offer = |target: &str| {
        let mut client = server.connect();
        client.ask("GET", target, OFFER);
        until(&mut client, b"\r\n\r\n");
        client
    };
    let mut client = offer("/app/?server");
    assert!(exactly(&mut client, 300_000) == pattern(4, 300_000));
    client.expect_end();
    let mut client = offer("/app/?at-once");
    client.expect_end();
    for half in [false, true] {
        let mut client = offer("/app/?client");
        client.send(pattern(5, 100_000));
        if half {
            client.half_close();
            client.expect_end();
        }
        drop(client);
        eventually("the application has all", || {
            std::fs::read(&heard).is_ok_and(|heard| heard == pattern(5, 100_000))
        });
        std::fs::remove_file(&heard).expect("a file");
    }
    // A reset need not tell the application more than that it is over.
    offer("/app/?client").reset();
    eventually("the application has ended", || heard.exists());
    eventually("they are over", || server.pool_count("upgraded") == 0);
    assert_eq!((server.pool_count("upgrades"), server.pool_count("failures")), (5, 0));
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

fn offers_that_are_not_passed_on(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = echo(&setup);
    let more = "[[pools]]\nname = 'none'\nprotocol = 'http'\nupgrades = 0\n";
    let more = format!(
        "{more}servers = 'unix:{}'\n[[routes]]\npath = '/none/**'\npool = 'none'\n",
        socket.display()
    );
    let server = setup.config(&(pool(&socket, "") + &more)).start();
    let upgrade = "Connection: upgrade\r\nUpgrade: echo\r\n";
    for request in [
        format!("GET /none/ HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n"),
        format!("GET /app/ HTTP/1.0\r\nHost: a\r\n{upgrade}\r\n"),
        format!("POST /app/ HTTP/1.1\r\nHost: a\r\n{upgrade}Content-Length: 4\r\n\r\nwell"),
        "GET /app/ HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\n\r\n".to_owned(),
        "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
            .to_owned(),
    ] {
        let mut client = server.connect();
        client.send(&request);
        let reply = client.reply();
        let told = reply.text().to_lowercase();
        assert!(
            reply.status == 200 && !told.contains("upgrade") && !told.contains("http2"),
            "{request}{told}"
        );
    }
    assert_eq!(server.pool_count("upgrades"), 0);
}

fn switches_that_were_not_offered(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = scripted_http::start(setup.directory(), "app.sock", |asked| {
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n";
        let upgrade = match asked.query().as_str() {
            "other" => "Upgrade: other\r\n",
            "two" => "Upgrade: echo\r\nUpgrade: chat/2\r\n",
            "unasked" => "Upgrade: echo\r\n",
            _ => "",
        };
        asked.say(format!("{head}{upgrade}\r\nsecret"));
        asked.wait_for_end();
        false
    });
    let server = setup.config(&pool(&socket, "")).start();
    for (query, offer) in [("other", OFFER), ("two", OFFER), ("none", OFFER), ("unasked", &[])] {
        let mut client = server.connect();
        client.ask("GET", &format!("/app/?{query}"), offer);
        let reply = client.reply();
        assert!(reply.status == 502 && !reply.text().contains("secret"), "{query}: {reply:?}");
        assert_eq!(client.get("/hello.txt").text(), HELLO);
    }
    assert_eq!(["upgraded", "upgrades", "failures"].map(|name| server.pool_count(name)), [0, 0, 4]);
}

fn a_bound(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = echo(&setup);
    let server = setup.config(&pool(&socket, "upgrades = 2")).start();
    // Where each takes a worker, there may be room for one only.
    let mut clients = Vec::new();
    let refused = loop {
        let mut client = server.connect();
        client.ask("GET", "/app/x", OFFER);
        let head = until(&mut client, b"\r\n\r\n");
        if !head.starts_with("HTTP/1.1 101") {
            break head;
        }
        until(&mut client, b"\n\n");
        clients.push(client);
    };
    assert!(refused.starts_with("HTTP/1.1 503") && [1, 2].contains(&clients.len()), "{refused}");
    let counts = || ["upgraded", "upgrades_refused"].map(|name| server.pool_count(name));
    assert_eq!(counts(), [clients.len() as u64, 1]);
    assert!(server.get("/app/y").text().contains("Host: "), "others are served");
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    let all = clients.len() as u64;
    drop(clients.pop());
    eventually("there is room", || counts()[0] < all);
    upgraded(&server);
}

fn silence(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = echo(&setup);
    let server = setup.config(&pool(&socket, "upgrade_timeout = '600 ms'")).start();
    let (mut client, ..) = upgraded(&server);
    for _ in 0..8 {
        sleep_ms(150);
        client.send("a");
        assert_eq!(exactly(&mut client, 1), b"a");
    }
    client.expect_end();
    eventually("it is over", || server.pool_count("upgraded") == 0);
    assert_eq!(server.pool_count("failures"), 0);
}

fn an_end_of_the_server(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = echo(&setup);
    let mut server = setup.config(&pool(&socket, "")).start();
    let (mut client, ..) = upgraded(&server);
    server.signal(Signal::HUP);
    eventually("the settings are reloaded", || {
        server.stderr().iter().any(|line| line.contains("settings reloaded"))
    });
    client.send("still");
    assert_eq!(exactly(&mut client, 5), b"still");
    server.signal(Signal::TERM);
    sleep_ms(100);
    client.send("here");
    assert_eq!(exactly(&mut client, 4), b"here");
    drop(client);
    assert_eq!(server.exit_code(), Some(0));
}

/// Their places do not stay taken.
fn workers_die(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = echo(&setup);
    let server = setup.config(&pool(&socket, "")).start();
    let (mut client, ..) = upgraded(&server);
    for pid in server.workers() {
        let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
        rustix::process::kill_process(pid, Signal::KILL).expect("the process is there");
    }
    assert!(matches!(client.read_raw(1), Err(Broken::Reset | Broken::Closed) | Ok(_)));
    eventually("its place is free", || server.pool_count("upgraded") == 0);
    upgraded(&server);
}
