//! Many connections at once and then nothing that could wake the server: it serves them to the last one.
//!
//! Whoever accepts a part of what is queued has to come back for the rest by itself. How that can be
//! forgotten depends on the event mechanism, on the accept limit, and on who else accepts: each is tried with
//! each.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use harness::client::{Broken, Client, request};
use harness::over_tls::{self, PlainOnly};
use harness::server::{Server, Setup, parse_address};
use harness::site::HELLO;
use harness::sleep_ms;
use harness::variant::{self, Test, Topic, VARIANTS, Variant, tests};
use rustix::process::Signal;

const TESTS: &[Test] = tests![
    served_to_the_last_one,
    requests_come_late,
    no_work_for_new_connections,
    at_two_listeners,
    beyond_the_connection_limit,
    beyond_the_limit_and_nobody_leaves,
];

const PLAIN_ONLY: &[PlainOnly] = &[
    ("bursts::at_two_listeners", "the test chooses the listeners, and these are plain"),
    ("bursts::beyond_the_limit_and_nobody_leaves", "overload::connections_beyond_the_limit_wait shows it"),
];

fn main() -> ExitCode {
    let topics: &[Topic] = &[("bursts", TESTS)];
    let mut trials = variant::trials(&every_mechanism(), topics, "stream");
    trials.extend(over_tls::trials(topics, &over_tls::FEW, PLAIN_ONLY));
    variant::conclude(trials)
}

/// Each variant that can choose its event mechanism, with every one that goes with its other options.
fn every_mechanism() -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    for variant in VARIANTS {
        let others = variant.without_mechanism();
        let mechanisms: &[&str] = match (others.len() == variant.options.len(), wakes_one(variant)) {
            (true, _) => &[""],
            (false, true) => &["epoll", "epoll-level"],
            (false, false) => &["epoll", "epoll-level", "poll", "select"],
        };
        for mechanism in mechanisms {
            let mut options = others.clone();
            if !mechanism.is_empty() {
                options.push(format!("--events={mechanism}").leak());
            }
            if variants.iter().all(|known| known.options != options) {
                variants.push(Variant { name: name(&options).leak(), options: options.leak() });
            }
        }
    }
    variants
}

/// Which only epoll can.
fn wakes_one(variant: &Variant) -> bool {
    variant.options.iter().any(|option| option.starts_with("--wake="))
}

/// What the options say, but for numbers.
fn name(options: &[&str]) -> String {
    let values = options.iter().filter_map(|option| option.split_once('=')).map(|(_, value)| value);
    let words: Vec<&str> = values.filter(|value| value.parse::<u32>().is_err()).collect();
    words.join("_").replace('-', "_")
}

/// More than one phase takes, and than one get-events phase is told of.
const BURST: usize = 300;

/// Many more than the connection limits here.
const CROWD: usize = 60;

/// What may be accepted in a phase: a part of what is queued, or all of it.
const LIMITS: [&str; 4] = ["1", "10", "inf", "auto"];

/// The two ends of it, where it matters less than something else.
const ENDS: [&str; 2] = ["1", "inf"];

/// For each of these accept limits, a server.
fn with_each(limits: &[&str], variant: &Variant, config: &str, test: impl Fn(&Server, &str)) {
    for limit in limits {
        let setup = Setup::new(variant).config(config).argument(format!("--accept-limit={limit}"));
        test(&setup.start(), limit);
    }
}

/// Everything is there before the server sees any of it.
fn burst(server: &Server, addresses: &[SocketAddr], count: usize) -> Vec<Client> {
    server.stop_all();
    let mut clients = connect(addresses, count);
    ask(&mut clients);
    server.signal_all(Signal::CONT);
    clients
}

fn connect(addresses: &[SocketAddr], count: usize) -> Vec<Client> {
    addresses.iter().cycle().take(count).map(|&address| Client::connect(address)).collect()
}

fn ask(clients: &mut [Client]) {
    for (number, client) in clients.iter_mut().enumerate() {
        // Some have the server close the connection, the others do it themselves.
        let fields: &[(&str, &str)] = if number % 2 == 0 { &[] } else { &[("Connection", "close")] };
        client.send(request("GET", "/hello.txt", fields));
    }
}

/// They leave one after another, each when it has its answer.
#[track_caller]
fn all_served(clients: Vec<Client>) {
    for (number, mut client) in clients.into_iter().enumerate() {
        match client.try_reply() {
            Ok(reply) => assert_eq!(reply.text(), HELLO),
            Err(broken) => panic!("number {number} of the burst: {broken:?}"),
        }
    }
}

/// Nobody makes room, or wakes the server in another way, before the last one has been served.
#[track_caller]
fn all_served_at_once(mut clients: Vec<Client>) {
    let last = clients.pop().expect("there are some");
    all_served(vec![last]);
    all_served(clients);
}

fn served_to_the_last_one(variant: &Variant) {
    let crowd = variant.crowd(BURST);
    with_each(&LIMITS, variant, "", |server, limit| {
        // Once for a server that has never seen anybody, and once more.
        for _ in 0..2 {
            all_served_at_once(burst(server, &[server.address], crowd));
        }
        assert_eq!(server.count("accepts"), 2 * crowd as u64);
        let (most, limit) = (server.count("accepts_per_phase_max"), limit.parse().unwrap_or(u64::MAX));
        assert!((1..=limit).contains(&most), "{most} accepts in one phase");
    });
}

/// The connections come to a server that waits; their requests come when all has been quiet for a while.
fn requests_come_late(variant: &Variant) {
    with_each(&ENDS, variant, "", |server, _| {
        let mut clients = connect(&[server.address], variant.crowd(BURST));
        sleep_ms(50);
        clients.reverse();
        ask(&mut clients);
        all_served_at_once(clients);
    });
}

/// A connection waits for its first request like all others wait for theirs.
fn no_work_for_new_connections(variant: &Variant) {
    with_each(&ENDS, variant, "[event]\nwork_phase_skips_new = true", |server, _| {
        all_served_at_once(burst(server, &[server.address], variant.crowd(BURST)));
    });
}

/// One accept limit holds for both.
fn at_two_listeners(variant: &Variant) {
    with_each(&ENDS, variant, "listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]", |server, _| {
        let second = server.wait_for_line(|line| line.starts_with("listening on http://127.0.0.2:"));
        let second = parse_address(&second).expect("an address");
        all_served_at_once(burst(server, &[server.address, second], variant.crowd(BURST)));
        // All of it at the one that is looked at last.
        all_served_at_once(burst(server, &[second], variant.crowd(BURST)));
    });
}

/// Whenever somebody leaves, the next one is served, and nobody before that.
fn beyond_the_connection_limit(variant: &Variant) {
    with_each(&ENDS, variant, "max_connections = 8", |server, _| {
        // They do not become idle, so the server can't make room by itself.
        server.stop_all();
        let mut clients = connect(&[server.address], CROWD);
        for client in &mut clients {
            client.send("GET /hello.txt HTTP/1.1\r\n");
        }
        server.signal_all(Signal::CONT);
        sleep_ms(50);
        let accepted = server.count("accepts");
        assert!(accepted <= 8 + server.workers().len() as u64, "{accepted} are in");
        let mut late = 0;
        for (number, mut client) in clients.into_iter().enumerate() {
            // It may be gone.
            client.try_send("Host: x\r\n\r\n");
            match client.try_reply() {
                // On a busy machine this has taken a second, and it was another's turn.
                Ok(reply) if reply.status == 408 && variant.serves_one_at_a_time() => late += 1,
                Ok(reply) => assert_eq!(reply.text(), HELLO),
                Err(Broken::Closed | Broken::Reset) if variant.serves_one_at_a_time() => late += 1,
                Err(broken) => panic!("number {number} of the burst: {broken:?}"),
            }
        }
        assert!(late <= server.count("connections_closed_under_pressure"), "{late} were turned away");
        assert_eq!(server.count("accepts"), CROWD as u64);
    });
}

/// Connections that are kept alive give way to those who wait.
fn beyond_the_limit_and_nobody_leaves(variant: &Variant) {
    let setup = Setup::new(variant).config("max_connections = 40").argument("--accept-limit=1");
    let server = setup.start();
    server.stop_all();
    let mut clients = connect(&[server.address], CROWD);
    for client in &mut clients {
        client.ask("GET", "/hello.txt", &[]);
    }
    server.signal_all(Signal::CONT);
    for (number, client) in clients.iter_mut().enumerate() {
        match client.try_reply() {
            Ok(reply) => assert_eq!(reply.text(), HELLO),
            Err(broken) => panic!("number {number} of the burst: {broken:?}"),
        }
    }
    let left = clients.iter_mut().map(|client| client.try_reply_within(Duration::from_millis(1)));
    let left = left.filter(|end| *end != Err(Broken::Silent)).count();
    assert!(left >= CROWD - 40, "{left} had to leave");
}
