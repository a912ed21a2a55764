//! Applications behind the server: PHP-FPM as the distribution has it, and applications that misbehave.

mod bodies;
mod bounds;
mod breaking;
mod clients;
mod endless;
mod kept;
mod lent;
mod line;
mod named_files;
mod outside;
mod parameters;
mod passing;
mod pools;
mod scripts;
mod shared;
mod site;
mod spool;
use std::process::ExitCode;

use harness::variant::Topic;

const TOPICS: &[Topic] = &[
    // What an application is asked for, and told.
    ("scripts", scripts::TESTS),
    ("parameters", parameters::TESTS),
    ("bodies", bodies::TESTS),
    ("named_files", named_files::TESTS),
    // Who waits for whom.
    ("clients", clients::TESTS),
    ("line", line::TESTS),
    ("kept", kept::TESTS),
    ("lent", lent::TESTS),
    ("shared", shared::TESTS),
    ("spool", spool::TESTS),
    // What goes wrong.
    ("breaking", breaking::TESTS),
    ("bounds", bounds::TESTS),
    ("endless", endless::TESTS),
    ("passing", passing::TESTS),
    // What an operator has to do with them.
    ("pools", pools::TESTS),
    ("outside", outside::TESTS),
];

fn main() -> ExitCode {
    harness::variant::run(TOPICS)
}
