//! Applications that speak HTTP, behind the server.

mod breaking;
mod large;
mod names;
mod paths;
mod replies;
mod requests;
mod upgrades;
mod uploads;

use std::path::Path;
use std::process::ExitCode;

use harness::over_tls;
use harness::variant::Topic;

const TOPICS: &[Topic] = &[
    ("requests", requests::TESTS),
    ("replies", replies::TESTS),
    ("paths", paths::TESTS),
    ("breaking", breaking::TESTS),
    ("upgrades", upgrades::TESTS),
    ("uploads", uploads::TESTS),
    ("large", large::TESTS),
    ("names", names::TESTS),
];

fn main() -> ExitCode {
    over_tls::run(TOPICS, &over_tls::FEW, &[])
}

/// The settings that have the application at a socket answer all below `/app`.
fn pool(socket: &Path, more: &str) -> String {
    let socket = socket.display();
    format!(
        "[[pools]]\nname = 'app'\nprotocol = 'http'\nservers = 'unix:{socket}'\n{more}\n\
         [[routes]]\npath = '/app/**'\npool = 'app'\n"
    )
}
