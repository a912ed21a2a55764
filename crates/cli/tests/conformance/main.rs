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

use harness::over_tls::{self, PlainOnly};
use harness::variant::{self, Topic};

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

const PLAIN_ONLY: &[PlainOnly] = &[
    ("listeners", "the tests choose the listeners, and these are plain"),
    ("sites", "a connection over TLS is for the sites of one certificate: see tls"),
    ("overload::places_are_given_by_turns", "connections_beyond_the_limit_wait shows who makes room"),
    ("overload::small_backlog", "the kernel decides it before TLS begins"),
    ("overload::few_descriptors", "TLS needs no descriptors"),
    ("overload::descriptors_run_out", "TLS needs no descriptors"),
    ("overload::cached_files_leave_room_for_clients", "TLS needs no descriptors"),
    ("overload::cached_files_make_room_for_clients", "TLS needs no descriptors"),
];

fn main() -> std::process::ExitCode {
    let mut trials = variant::trials_with_transports(TOPICS, &["dynamic_requests", "dynamic_replies"]);
    trials.extend(over_tls::trials(TOPICS, &over_tls::DRIVERS, PLAIN_ONLY));
    variant::conclude(trials)
}
