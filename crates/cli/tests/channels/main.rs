//! The seam between a conversation and who moves its bytes, tried with three channels that exist only here.
//! Each serves the cases of conformance files, to clients that know nothing of it.
//!
//! - [`queues`]: two queues of bytes without a socket, which cut input and output at every place;
//! - [`records`]: bytes are changed on their way, as TLS does: in records, with a handshake, a closing
//!   exchange, and reads that a write has to wait for;
//! - [`completions`]: operations are handed to other threads, and what came of them is told later.
//!
//! This program is the server, too: `serve` as the first argument, as `sluice` has it. The front that clients
//! connect to is [`front`]; what all of it serves with is [`world`].

#[path = "../conformance/conditionals.rs"]
mod conditionals;
#[path = "../conformance/expect.rs"]
mod expect;
#[path = "../conformance/framing.rs"]
mod framing;
#[path = "../conformance/limits.rs"]
mod limits;
#[path = "../conformance/ranges.rs"]
mod ranges;

mod completions;
mod faults;
mod front;
mod queues;
mod records;
mod turn;
mod world;

use std::process::ExitCode;

use harness::variant::{On, Test, Topic, Variant};
use libtest_mimic::Trial;

/// The channels, as `--channel` names them.
const CHANNELS: &[Variant] = &[
    Variant { name: "queues", options: &["--channel=queues"] },
    Variant { name: "records", options: &["--channel=records"] },
    Variant { name: "completions", options: &["--channel=completions"] },
];

/// What is decided between the bytes and the files, however the bytes move.
const TOPICS: &[Topic] = &[
    ("framing", framing::TESTS),
    ("expect", expect::TESTS),
    ("ranges", ranges::TESTS),
    ("conditionals", conditionals::TESTS),
    ("limits", limits::TESTS),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "serve") {
        front::serve(&arguments[1..]);
        return ExitCode::SUCCESS;
    }
    let tests: Vec<(&'static str, Vec<Test>)> = TOPICS
        .iter()
        .map(|&(topic, tests)| (topic, tests.iter().map(|test| Test { on: On::Each, ..*test }).collect()))
        .collect();
    let topics: Vec<Topic> = tests.iter().map(|(topic, tests)| (*topic, &*tests.clone().leak())).collect();
    let mut trials = harness::variant::trials(CHANNELS, &topics, "stream");
    trials.extend(faults::TESTS.iter().map(|&(name, test)| {
        Trial::test(format!("queues::faults::{name}"), move || {
            test();
            Ok(())
        })
    }));
    harness::variant::conclude(trials)
}
