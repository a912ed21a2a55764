//! Applications as the distribution has them, behind the server, driven by the programs that people use.

#[path = "../applications/fpm.rs"]
mod fpm;
mod nginx;
mod parameters;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    support::client::take_chunks();
    support::variant::run(&[("parameters", parameters::TESTS)])
}
