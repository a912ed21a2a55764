//! Applications as the distribution has them, behind the server, driven by the programs that people use.

mod daemon;
mod dav;
mod front_controller;
mod git;
mod killed;
mod libraries;
mod nginx;
mod parameters;
mod wiki;

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::variant::run(&[
        ("dav", dav::TESTS),
        ("front_controller", front_controller::TESTS),
        ("git", git::TESTS),
        ("killed", killed::TESTS),
        ("libraries", libraries::TESTS),
        ("parameters", parameters::TESTS),
        ("wiki", wiki::TESTS),
    ])
}
