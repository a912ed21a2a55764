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

use support::variant::{Topic, Variant, run_for};

const TOPICS: &[Topic] = &[("persistence", persistence::TESTS), ("framing", framing::TESTS)];

fn main() -> std::process::ExitCode {
    run_for(&[Variant { name: "two_stages", options: &["--architecture=sped"] }], TOPICS)
}
