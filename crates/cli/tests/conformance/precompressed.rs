//! Files that lie ready in a content coding (RFC 9110 sections 8.4 and 12.5.3).

use std::time::{Duration, SystemTime};

use harness::client::Client;
use harness::server::{Server, Setup};
use harness::site::pattern;
use harness::sleep_ms;
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Three:
        negotiation,
        fields_of_each,
        ranges_and_conditions,
        large_siblings,
        missing_siblings,
        outdated_siblings,
        whole_seconds,
        off,
        siblings_themselves;
];

fn setup(variant: &Variant) -> Setup {
    let setup =
        Setup::new(variant).file("a.css", "plain").file("a.css.br", "brotli").file("a.css.zst", "zstandard");
    setup.file("a.css.gz", "gnu-zip").file("b.css", "plain").file("b.css.gz", "gnu-zip")
}

#[track_caller]
fn coding(client: &mut Client, target: &str, accepted: &str, expected: &str) {
    let reply = client.fetch("GET", target, &[("Accept-Encoding", accepted)]);
    let body = match expected {
        "br" => "brotli",
        "zstd" => "zstandard",
        "gzip" => "gnu-zip",
        _ => "plain",
    };
    assert_eq!((reply.status, reply.text().as_str()), (200, body), "{target} with {accepted:?}");
    assert_eq!(reply.field("Content-Encoding").unwrap_or(""), expected, "{target} with {accepted:?}");
    assert!(reply.need("Content-Type").starts_with("text/css"), "{reply:?}");
    assert!(reply.list("Vary").contains(&"accept-encoding".to_owned()), "{reply:?}");
}

fn negotiation(variant: &Variant) {
    let server = setup(variant).start();
    let mut client = server.connect();
    for (accepted, of_three, of_one) in [
        ("gzip", "gzip", "gzip"),
        ("br", "br", ""),
        ("zstd", "zstd", ""),
        ("gzip, deflate, br, zstd", "br", "gzip"),
        ("gzip;q=1.0, br;q=0.5", "gzip", "gzip"),
        ("gzip;q=0.5, br;q=0.5", "br", "gzip"),
        ("br;q=0, gzip", "gzip", "gzip"),
        ("GZIP", "gzip", "gzip"),
        ("x-gzip", "gzip", "gzip"),
        ("*", "br", "gzip"),
        ("*;q=0", "", ""),
        ("identity", "", ""),
        ("identity;q=1, gzip;q=0.5", "", ""),
        ("gzip;q=0", "", ""),
        ("deflate, compress", "", ""),
        ("", "", ""),
        ("gzip;q=nonsense", "", ""),
        (" gzip ; q=0.8 ,br ; q=0.1", "gzip", "gzip"),
    ] {
        coding(&mut client, "/a.css", accepted, of_three);
        coding(&mut client, "/b.css", accepted, of_one);
    }
    // Who says nothing can often read nothing else.
    let reply = client.get("/a.css");
    assert_eq!((reply.text().as_str(), reply.field("Content-Encoding")), ("plain", None));
    assert!(reply.list("Vary").contains(&"accept-encoding".to_owned()));
}

/// Every representation has a tag of its own, or caches would mix them up (section 8.8.3.3).
fn fields_of_each(variant: &Variant) {
    let server = setup(variant).start();
    let mut client = server.connect();
    let mut tags: Vec<String> = ["br", "zstd", "gzip", "identity"]
        .iter()
        .map(|coding| client.fetch("GET", "/a.css", &[("Accept-Encoding", coding)]).need("ETag").to_owned())
        .collect();
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4, "{tags:?}");
}

fn ranges_and_conditions(variant: &Variant) {
    let server = setup(variant).start();
    let mut client = server.connect();
    let gzip = ("Accept-Encoding", "gzip");
    let etag = client.fetch("GET", "/a.css", &[gzip]).need("ETag").to_owned();
    let reply = client.fetch("GET", "/a.css", &[gzip, ("If-None-Match", &etag)]);
    assert_eq!((reply.status, reply.list("Vary")), (304, vec!["accept-encoding".to_owned()]));
    assert_eq!(
        client.fetch("GET", "/a.css", &[("If-None-Match", &etag)]).status,
        200,
        "that was another one"
    );
    let reply = client.fetch("GET", "/a.css", &[gzip, ("Range", "bytes=4-"), ("If-Range", &etag)]);
    assert_eq!((reply.status, reply.text().as_str(), reply.need("Content-Encoding")), (206, "zip", "gzip"));
}

fn large_siblings(variant: &Variant) {
    let (plain, coded) = (pattern(1, 200_000), pattern(2, 100_000));
    let server = Setup::new(variant).file("a.js", &plain).file("a.js.gz", &coded).start();
    let mut client = server.connect();
    for _ in 0..2 {
        assert!(client.fetch("GET", "/a.js", &[("Accept-Encoding", "gzip")]).body == coded);
        assert!(client.get("/a.js").body == plain);
    }
}

fn missing_siblings(variant: &Variant) {
    let server =
        setup(variant).file("c.css", "plain").file("d.css.gz", "gnu-zip").file("e.css", "plain").start();
    std::fs::create_dir(server.root().join("e.css.gz")).expect("a directory");
    let mut client = server.connect();
    for target in ["/c.css", "/e.css"] {
        let reply = client.fetch("GET", target, &[("Accept-Encoding", "gzip, br")]);
        assert_eq!((reply.text().as_str(), reply.field("Content-Encoding")), ("plain", None), "{target}");
    }
    assert_eq!(
        client.fetch("GET", "/d.css", &[("Accept-Encoding", "gzip")]).status,
        404,
        "a sibling of nothing"
    );
}

fn date(server: &Server, name: &str, time: SystemTime) {
    let file = std::fs::File::open(server.root().join(name)).expect("a file");
    file.set_modified(time).expect("a time can be set");
}

/// Siblings that are older than their file are of its past. They are not sent, and who is to make them anew
/// hears of it once.
fn outdated_siblings(variant: &Variant) {
    let server = setup(variant).config("[files]\nvalidity = \"5 ms\"").file("evil\n.css", "plain").start();
    server.write("evil\n.css.gz", "gnu-zip");
    let old = SystemTime::now() - Duration::from_secs(10_000);
    for name in ["a.css.gz", "b.css.gz", "evil\n.css.gz"] {
        date(&server, name, old);
    }
    let mut client = server.connect();
    for _ in 0..5 {
        for (target, body) in [("/a.css", "brotli"), ("/b.css", "plain"), ("/evil%0A.css", "plain")] {
            let reply = client.fetch("GET", target, &[("Accept-Encoding", "gzip, br")]);
            assert_eq!((reply.status, reply.text().as_str()), (200, body), "{target}");
        }
        sleep_ms(10);
    }
    for name in ["\"/a.css.gz\"", "\"/b.css.gz\"", "\"/evil\\n.css.gz\""] {
        let is_it = |line: &str| line.contains(" WARN ") && line.contains(name) && line.contains("older");
        server.wait_for_line(is_it);
        assert_eq!(server.stderr().iter().filter(|line| is_it(line)).count(), 1, "{:?}", server.stderr());
    }
}

/// As brotli(1) makes them, which carries the time over without its fraction.
fn whole_seconds(variant: &Variant) {
    let server = setup(variant).start();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    date(&server, "b.css", then + Duration::from_nanos(987_654_321));
    date(&server, "b.css.gz", then);
    let reply = server.fetch("GET", "/b.css", &[("Accept-Encoding", "gzip")]);
    assert_eq!(reply.text(), "gnu-zip");
}

fn off(variant: &Variant) {
    let server = setup(variant).config("[files]\nprecompressed = false").start();
    let reply = server.fetch("GET", "/a.css", &[("Accept-Encoding", "gzip, br")]);
    assert_eq!((reply.text().as_str(), reply.field("Content-Encoding")), ("plain", None));
}

/// Asked for by its own name, a sibling is a file like any other.
fn siblings_themselves(variant: &Variant) {
    let server: Server = setup(variant).start();
    let reply = server.fetch("GET", "/a.css.gz", &[("Accept-Encoding", "gzip")]);
    assert_eq!((reply.text().as_str(), reply.field("Content-Encoding")), ("gnu-zip", None));
    assert_eq!(reply.need("Content-Type"), "application/gzip");
}
