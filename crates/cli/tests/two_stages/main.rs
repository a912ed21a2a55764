//! Conversations that move between threads: the conformance cases of connections that live on and of where
//! messages end, served by a driver that has a thread for receiving and another for sending. No architecture
//! works so yet; this holds that `receive` and `send` are enough for one that does.

mod driver;

#[path = "../support/mod.rs"]
mod common;
#[path = "../conformance/framing.rs"]
mod framing;
#[path = "../conformance/persistence.rs"]
mod persistence;

/// What the cases use, with the driver in place of the server that is a program.
mod support {
    pub(crate) use crate::common::{Random, client, site, sleep_ms, variant};
    pub(crate) use crate::driver as server;
}

use support::variant::{On, Test, Topic, Variant, run_for};

fn main() -> std::process::ExitCode {
    // There is one variant, so that each case is for it.
    let each =
        |tests: &[Test]| -> Vec<Test> { tests.iter().map(|test| Test { on: On::Each, ..*test }).collect() };
    let (persistence, framing) = (each(persistence::TESTS).leak(), each(framing::TESTS).leak());
    let topics: &[Topic] = &[("persistence", persistence), ("framing", framing)];
    run_for(&[Variant { name: "two_stages", options: &["--architecture=sped"] }], topics)
}
