//! HTTP as a client sees it, over real sockets, for every variant of the server: what RFC 9110 and RFC 9112 ask for, what
//! this server promises beyond that, and how it keeps its promises when files change, time runs out and clients pile up.

#[path = "../support/mod.rs"]
mod support;

mod changing_files;
mod conditionals;
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
mod targets;
mod timeouts;

fn main() -> std::process::ExitCode {
    support::variant::run(&[
        ("request_line", request_line::TESTS),
        ("header_fields", header_fields::TESTS),
        ("framing", framing::TESTS),
        ("persistence", persistence::TESTS),
        ("expect", expect::TESTS),
        ("methods", methods::TESTS),
        ("targets", targets::TESTS),
        ("files", files::TESTS),
        ("conditionals", conditionals::TESTS),
        ("ranges", ranges::TESTS),
        ("precompressed", precompressed::TESTS),
        ("errors", errors::TESTS),
        ("limits", limits::TESTS),
        ("changing_files", changing_files::TESTS),
        ("root", root::TESTS),
        ("timeouts", timeouts::TESTS),
        ("overload", overload::TESTS),
        ("listeners", listeners::TESTS),
    ])
}
