//! Applications as the distribution has them, behind the server, driven by the programs that people use.

mod daemon;
mod dav;
mod front_controller;
mod git;
mod killed;
mod libraries;
mod nginx;
mod node;
mod parameters;
mod python;
mod websocket;
mod wiki;

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::variant::run(&[
        ("dav", dav::TESTS),
        ("front_controller", front_controller::TESTS),
        ("git", git::TESTS),
        ("killed", killed::TESTS),
        ("libraries", libraries::TESTS),
        ("node", node::TESTS),
        ("parameters", parameters::TESTS),
        ("python", python::TESTS),
        ("websocket", websocket::TESTS),
        ("wiki", wiki::TESTS),
    ])
}
