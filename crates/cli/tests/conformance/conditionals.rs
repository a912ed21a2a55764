//! Conditional requests (RFC 9110 section 13).

use std::time::{Duration, SystemTime};

use harness::client::Client;
use harness::server::{Server, settle};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Three:
        if_none_match,
        if_modified_since,
        if_match,
        if_unmodified_since,
        order_of_preconditions,
        repeated_dates,
        stars_among_tags,
        fields_of_304,
        large_files_and_directories,
        not_for_errors;
];

/// The server, its validators of `/hello.txt`, and one tag and two dates that are others.
struct Known {
    server: Server,
    etag: String,
    modified: String,
    before: String,
    after: String,
}

impl Known {
    fn new(variant: &Variant) -> Self {
        let server = Server::start(variant);
        // Far enough in the past that `after` is not in the future, where dates do not count (section
        // 13.1.3).
        let file = std::fs::File::open(server.root().join("hello.txt")).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(100_000)).expect("a time can be set");
        settle();
        let reply = server.get("/hello.txt");
        let modified = httpdate::parse_http_date(reply.need("Last-Modified")).expect("a date");
        let date = httpdate::fmt_http_date;
        Self {
            etag: reply.need("ETag").to_owned(),
            modified: date(modified),
            before: date(modified - Duration::from_secs(1)),
            after: date(modified + Duration::from_secs(1)),
            server,
        }
    }

    #[track_caller]
    fn check_all(&self, name: &str, cases: &[(&str, u16)]) {
        let mut client = self.server.connect();
        for (value, status) in cases {
            check(&mut client, &[(name, value)], *status);
        }
    }
}

#[track_caller]
fn check(client: &mut Client, fields: &[(&str, &str)], status: u16) {
    for method in ["GET", "HEAD"] {
        let reply = client.fetch(method, "/hello.txt", fields);
        assert_eq!(reply.status, status, "{method} {fields:?}");
        assert_eq!(reply.text() == HELLO, status == 200 && method == "GET", "{method} {fields:?}");
    }
}

fn if_none_match(variant: &Variant) {
    let known = Known::new(variant);
    let etag = &known.etag;
    known.check_all(
        "If-None-Match",
        &[
            (etag, 304),
            ("*", 304),
            (&format!("W/{etag}"), 304),
            (&format!("\"a\", {etag}"), 304),
            (&format!("\"a,b\" ,W/\"c\",{etag},\"d\""), 304),
            (&format!(",, {etag}"), 304),
            ("\"other\"", 200),
            ("W/\"other\"", 200),
            ("\"a\", \"b\"", 200),
            (etag.trim_matches('"'), 200),
            ("", 200),
            ("\"", 200),
            (&etag[..etag.len() - 1], 200),
            (&format!("\"x{}", &etag[1..]), 200),
        ],
    );
}

fn if_modified_since(variant: &Variant) {
    let known = Known::new(variant);
    let rfc850 = "Sunday, 06-Nov-94 08:49:37 GMT";
    known.check_all(
        "If-Modified-Since",
        &[
            (&known.modified, 304),
            (&known.after, 304),
            (&known.before, 200),
            (rfc850, 200),
            ("Sun Nov  6 08:49:37 1994", 200),
            ("yesterday", 200),
            ("", 200),
            ("0", 200),
            ("Sun, 99 Nov 1994 08:49:37 GMT", 200),
        ],
    );
}

fn if_match(variant: &Variant) {
    let known = Known::new(variant);
    let etag = &known.etag;
    known.check_all(
        "If-Match",
        &[
            (etag, 200),
            ("*", 200),
            (&format!("\"a\", {etag}"), 200),
            (&format!("W/{etag}"), 412),
            ("\"other\"", 412),
            ("\"a\", \"b\"", 412),
        ],
    );
}

fn if_unmodified_since(variant: &Variant) {
    let known = Known::new(variant);
    known.check_all(
        "If-Unmodified-Since",
        &[(&known.modified, 200), (&known.after, 200), (&known.before, 412), ("whenever", 200)],
    );
}

/// Section 13.2.2.
fn order_of_preconditions(variant: &Variant) {
    let known = Known::new(variant);
    let (etag, modified, before) = (&known.etag, &known.modified, &known.before);
    let mut client = known.server.connect();
    let mut check = |fields: &[(&str, &str)], status| check(&mut client, fields, status);
    check(&[("If-None-Match", "\"other\""), ("If-Modified-Since", modified)], 200);
    check(&[("If-None-Match", etag), ("If-Modified-Since", before)], 304);
    check(&[("If-Match", "\"other\""), ("If-None-Match", etag)], 412);
    check(&[("If-Match", etag), ("If-Unmodified-Since", before)], 200);
    check(&[("If-Match", etag), ("If-None-Match", etag)], 304);
    check(&[("If-Unmodified-Since", before), ("If-None-Match", etag)], 412);
    // A precondition that fails goes before a range, and one that holds lets it pass.
    check(&[("If-None-Match", etag), ("Range", "bytes=0-1")], 304);
    check(&[("If-Match", "\"other\""), ("Range", "bytes=0-1")], 412);
}

/// A date that comes twice is no date, and its field is ignored (sections 13.1.3 and 13.1.4).
fn repeated_dates(variant: &Variant) {
    let known = Known::new(variant);
    let (modified, before) = (known.modified.as_str(), known.before.as_str());
    let mut client = known.server.connect();
    let mut check = |fields: &[(&str, &str)]| check(&mut client, fields, 200);
    for (name, date) in [("If-Modified-Since", modified), ("If-Unmodified-Since", before)] {
        check(&[(name, date), (name, date)]);
        check(&[(name, date), ("X", "y"), (name, "yesterday")]);
        check(&[(name, &format!("{date}, {date}"))]);
    }
    let mut ranged = |fields: &[(&str, &str)]| client.fetch("GET", "/hello.txt", fields).status;
    let range = ("Range", "bytes=0-1");
    assert_eq!(ranged(&[range, ("If-Range", modified)]), 206);
    assert_eq!(ranged(&[range, ("If-Range", modified), ("If-Range", modified)]), 200);
    assert_eq!(ranged(&[range, range]), 200, "neither is a range twice");
}

/// A star stands alone (sections 13.1.1 and 13.1.2); in a list it is an element that can't be read.
fn stars_among_tags(variant: &Variant) {
    let known = Known::new(variant);
    let etag = known.etag.as_str();
    let mut client = known.server.connect();
    for (first, second, is_match) in [
        ("*", "\"x\"", false),
        ("\"x\"", "*", false),
        ("*", "*", false),
        ("*", etag, false),
        (etag, "*", true),
        ("junk", etag, false),
        ("\"x\"", etag, true),
    ] {
        for fields in [vec![format!("{first}, {second}")], vec![first.to_owned(), second.to_owned()]] {
            let lines = |name| fields.iter().map(|value| (name, value.as_str())).collect::<Vec<_>>();
            check(&mut client, &lines("If-Match"), if is_match { 200 } else { 412 });
            check(&mut client, &lines("If-None-Match"), if is_match { 304 } else { 200 });
        }
    }
}

/// Section 15.4.5.
fn fields_of_304(variant: &Variant) {
    let known = Known::new(variant);
    let mut client = known.server.connect();
    let reply = client.fetch("GET", "/hello.txt", &[("If-None-Match", &known.etag)]);
    assert_eq!((reply.status, reply.need("ETag")), (304, known.etag.as_str()));
    if let Some(length) = reply.field("Content-Length") {
        assert_eq!(length, HELLO.len().to_string());
    }
    assert_eq!(client.get("/hello.txt").text(), HELLO, "no byte of content follows a 304");
}

fn large_files_and_directories(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for target in ["/large.bin", "/", "/empty.txt"] {
        let etag = client.get(target).need("ETag").to_owned();
        for _ in 0..2 {
            assert_eq!(client.fetch("GET", target, &[("If-None-Match", &etag)]).status, 304, "{target}");
        }
    }
}

fn not_for_errors(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for field in
        [("If-None-Match", "*"), ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"), ("If-Match", "*")]
    {
        assert_eq!(client.fetch("GET", "/nothing", &[field]).status, 404, "{field:?}");
    }
    assert!(matches!(client.fetch("GET", "/dir", &[("If-None-Match", "*")]).status, 301 | 308));
    assert_eq!(client.fetch("POST", "/hello.txt", &[("If-Match", "\"x\"")]).status, 405);
}
