//! The pipeline where it is narrow: several readers and writers at queues with room for one, batches of one.
//! The conformance cases of connections that live on, of where messages end, and of applications run on it,
//! and what is told of its stages. And its controllers, in the same narrow place and in one where they have
//! something to do.

use std::process::ExitCode;

use harness::client::Client;
use harness::eventually;
use harness::held::{Held, is_told_to_hold};
use harness::server::{Server, Setup};
use harness::site::HELLO;
use harness::variant::{
    Test, Topic, Variant, all_are_wanted, conclude, raise_descriptor_limit, tests, trials,
};

mod controllers;
#[path = "../conformance/dynamic_replies.rs"]
mod dynamic_replies;
#[path = "../conformance/dynamic_requests.rs"]
mod dynamic_requests;
#[path = "../conformance/framing.rs"]
mod framing;
#[path = "../conformance/persistence.rs"]
mod persistence;
const VARIANTS: &[Variant] = &[
    Variant {
        name: "narrow",
        options: &["--architecture=pipeline", "--workers=2", "--readers=3", "--writers=3"],
    },
    Variant {
        name: "narrow_blocking",
        options: &["--architecture=pipeline", "--workers=1", "--readers=2", "--writers=2", "--send=blocking"],
    },
    Variant { name: "narrow_four", options: &["--architecture=pipeline", "--stages=four", "--writers=3"] },
    Variant {
        name: "narrow_limited",
        options: &["--architecture=pipeline", "--workers=1", "--writers=1", "--accept-limit=1"],
    },
    Variant {
        name: "narrow_steered",
        options: &["--architecture=pipeline", "--workers=2", "--readers=3", "--writers=3", "--controllers"],
    },
    Variant {
        name: "narrow_four_steered",
        options: &["--architecture=pipeline", "--stages=four", "--writers=3", "--controllers"],
    },
];

/// Those that the conformance cases run for. Between them there is every kind of stage, both ways to send, a
/// queue that is full, and controllers that change who works.
const FOR_CASES: [&str; 4] = ["narrow", "narrow_blocking", "narrow_limited", "narrow_four_steered"];

const TESTS: &[Test] = tests![stages_are_told_of, a_crowd_is_served, a_crowd_waits_for_its_turn];

const OF_THEIR_OWN: &[Test] = tests![
    One: acceptors_wait_each_for_their_own, as_many_as_descriptors_allow;
];

const TWO_ACCEPTORS: Variant = Variant {
    name: "two_acceptors",
    options: &["--architecture=pipeline", "--workers=2", "--writers=2", "--accept-limit=1"],
};

const FIVE: Variant = Variant { name: "five", options: &["--architecture=pipeline", "--workers=1"] };
const FOUR: Variant = Variant { name: "four", options: &["--architecture=pipeline", "--stages=four"] };

fn main() -> ExitCode {
    if is_told_to_hold() {
        return ExitCode::SUCCESS;
    }
    let cases: &[Topic] = &[
        ("dynamic_replies", dynamic_replies::TESTS),
        ("dynamic_requests", dynamic_requests::TESTS),
        ("framing", framing::TESTS),
        ("persistence", persistence::TESTS),
    ];
    let others = [("stages", TESTS), ("controllers", controllers::TESTS), ("own", OF_THEIR_OWN)];
    let is_used = |variant: &&Variant| all_are_wanted() || FOR_CASES.contains(&variant.name);
    let variants: Vec<Variant> = VARIANTS.iter().filter(is_used).copied().collect();
    let mut all = trials(&variants, &each(cases), "stream");
    all.extend(trials(VARIANTS, &others, "stream"));
    conclude(all)
}

/// Whatever a case is for elsewhere, here it is for each variant.
fn each(topics: &[Topic]) -> Vec<Topic> {
    let each = |test: &Test| Test { on: harness::variant::On::Each, ..*test };
    topics.iter().map(|(name, tests)| (*name, &*tests.iter().map(each).collect::<Vec<_>>().leak())).collect()
}

/// Each stage has its threads, and what passes through it is counted.
fn stages_are_told_of(variant: &Variant) {
    let server = Server::start(variant);
    let count = |name: &str, stage: &str| server.count(&format!("{name}/{stage}"));
    let mut client = server.connect();
    for _ in 0..10 {
        assert_eq!(client.get("/hello.txt").status, 200);
    }
    let writers = variant.options.iter().find_map(|option| option.strip_prefix("--writers="));
    let workers = if variant.options.contains(&"--workers=2") { 2 } else { 1 };
    let writers: u64 = writers.and_then(|number| number.parse().ok()).expect("a number");
    let is_steered = variant.options.contains(&"--controllers");
    let in_use =
        if is_steered { workers..writers * workers + 1 } else { writers * workers..writers * workers + 1 };
    eventually("writers are told of", || in_use.contains(&count("stage_threads", "write")));
    for stage in ["accept", "read_poll", "write_poll"] {
        assert_eq!(count("stage_threads", stage), 1, "{stage}");
    }
    assert_eq!(count("stage_connections", "accept"), 1);
    eventually("all replies are counted", || count("stage_connections", "write") >= 10);
    assert!(count("stage_connections", "read") >= 1);
    assert!(count("stage_batches", "write") >= 10, "a batch has one connection");
    assert_eq!(server.status()["workers"].as_array().expect("workers").len(), 1, "one process");
}

/// Many who ask at once through queues with room for one, with replies that fill sockets.
fn a_crowd_is_served(variant: &Variant) {
    const CLIENTS: usize = 100;
    let server = Server::start(variant);
    let large = server.get("/large.bin").body;
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            let target = if (number + round) % 2 == 0 { "/large.bin" } else { "/hello.txt" };
            client.ask("GET", target, &[]);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let reply = client.reply();
            assert_eq!(reply.status, 200);
            assert!((number + round) % 2 == 1 || reply.body == large, "the whole file");
        }
    }
    assert_eq!(server.count("connections_opened"), CLIENTS as u64 + 1);
    for stage in ["read", "write_poll", "write"] {
        eventually("nobody is in a queue", || server.count(&format!("stage_queue/{stage}")) == 0);
    }
    drop(clients);
    eventually("all are gone", || server.count("connections_closed") == CLIENTS as u64 + 1);
}

/// Two acceptors with a limit of one wait for the stages again and again, each until its own connection has
/// been through them: whichever lanes they share, nobody is forgotten, and no phase brings in two.
fn acceptors_wait_each_for_their_own(_: &Variant) {
    const CLIENTS: usize = 60;
    for config in ["[placement]\npartition = false", "[placement]\npartition = true"] {
        let setup = Setup::new(&TWO_ACCEPTORS).argument("--listen=127.0.0.1:0");
        let server = setup.argument("--listen=127.0.0.2:0").config(config).start();
        let addresses = server.addresses();
        assert_eq!(addresses.len(), 2);
        for round in 1..4 {
            let address = |number: usize| addresses[number % 2];
            let mut clients: Vec<_> = (0..CLIENTS).map(|number| Client::connect(address(number))).collect();
            for client in &mut clients {
                client.ask("GET", "/hello.txt", &[("Connection", "close")]);
            }
            for client in &mut clients {
                assert_eq!(client.reply().status, 200);
            }
            let closed = (CLIENTS * round) as u64;
            eventually("all are gone", || server.count("connections_closed") == closed);
        }
        assert_eq!(server.count("accepts_per_phase_max"), 1, "{config}");
    }
}

/// 19,500 connections in one process, where it may have 20,000 descriptors: all are there before anybody
/// asks, and each gets a reply.
fn as_many_as_descriptors_allow(_: &Variant) {
    let limit = usize::try_from(raise_descriptor_limit()).unwrap_or(usize::MAX);
    let each = 9_750.min(limit.saturating_sub(500) / 2);
    for variant in [FIVE, FOUR] {
        let places = format!("max_connections = {}\n", 2 * each + 10);
        let more = "[files]\nmax_open = 100\n[timeouts]\nheader = '60 s'\nidle = '60 s'";
        let server = Setup::new(&variant).config(&(places + more)).start();
        let mut held = Held::connect(server.address, each);
        held.ask("/hello.txt", HELLO);
        let count = 2 * each as u64;
        eventually("all are idle", || server.count("connections/idle") == count);
        assert_eq!((server.count("replies/2xx"), server.count("connections_closed")), (count, 0));
        // The sizes of its parts, those of connections that have never been any included.
        let (bytes, places) = (server.count("connection_bytes"), server.count("connection_places"));
        assert!((100..500).contains(&bytes) && (count..count + 512).contains(&places), "{bytes} x {places}");
        held.leave();
        eventually("all are gone", || server.count("connections_closed") == count);
    }
}

/// More than there are places for: some leave, and others come in.
fn a_crowd_waits_for_its_turn(variant: &Variant) {
    let server = Setup::new(variant).argument("--max-connections=3").start();
    let mut clients: Vec<_> = (0..9).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ask("GET", "/hello.txt", &[("Connection", "close")]);
    }
    for client in &mut clients {
        assert_eq!(client.reply().status, 200);
    }
    eventually("all are gone", || server.count("connections_closed") == 9);
}
