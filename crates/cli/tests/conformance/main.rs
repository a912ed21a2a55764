//! HTTP as a client sees it, over real sockets, for the variants of the server: what RFC 9110 and RFC 9112
//! ask for, of files and of applications, what this server promises beyond that, and how it keeps its
//! promises when files change, time runs out and clients pile up.

mod changing_files;
mod conditionals;
mod dynamic_replies;
mod dynamic_requests;
mod errors;
mod expect;
mod files;
mod framing;
mod header_fields;
mod limits;
mod listeners;
mod methods;
mod overload;
mod persistence;
mod precompressed;
mod ranges;
mod request_line;
mod root;
mod sites;
mod switched_off;
mod targets;
mod timeouts;

use harness::variant::Topic;

const TOPICS: &[Topic] = &[
    // What the protocol and the files decide, whoever moves the bytes: most of it runs for three variants.
    ("request_line", request_line::TESTS),
    ("header_fields", header_fields::TESTS),
    ("framing", framing::TESTS),
    ("expect", expect::TESTS),
    ("methods", methods::TESTS),
    ("targets", targets::TESTS),
    ("conditionals", conditionals::TESTS),
    ("ranges", ranges::TESTS),
    ("precompressed", precompressed::TESTS),
    ("errors", errors::TESTS),
    ("limits", limits::TESTS),
    ("root", root::TESTS),
    ("sites", sites::TESTS),
    // What an architecture can break: how long something takes to send, who waits, what is told to whom.
    ("persistence", persistence::TESTS),
    ("dynamic_requests", dynamic_requests::TESTS),
    ("dynamic_replies", dynamic_replies::TESTS),
    ("files", files::TESTS),
    ("changing_files", changing_files::TESTS),
    ("switched_off", switched_off::TESTS),
    ("timeouts", timeouts::TESTS),
    ("overload", overload::TESTS),
    ("listeners", listeners::TESTS),
];

fn main() -> std::process::ExitCode {
    harness::variant::run_with_transports(TOPICS, &["dynamic_requests", "dynamic_replies"])
}
