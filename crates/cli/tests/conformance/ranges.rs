//! Parts of files (RFC 9110 section 14), from memory and from disk alike.

use harness::client::{Client, Reply};
use harness::server::{Server, Setup};
use harness::site::{HELLO, large, pattern};
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Three:
        single,
        suffix,
        unsatisfiable,
        ignored,
        multiple,
        overlapping_are_joined,
        too_many_are_ignored,
        fewer_by_choice,
        if_range,
        empty_file,
        head,
        whole_file_piece_by_piece;
];

/// A file that is sent from memory, one that is sent from disk, and their content.
fn both(server: &Server) -> [(&'static str, Vec<u8>); 2] {
    let small = pattern(2, 1000);
    server.write("small.bin", &small);
    [("/small.bin", small), ("/large.bin", large())]
}

#[track_caller]
fn part(client: &mut Client, target: &str, content: &[u8], range: &str, first: usize, last: usize) {
    let reply = client.fetch("GET", target, &[("Range", range)]);
    assert_eq!(reply.status, 206, "{target} {range}");
    assert_eq!(
        reply.need("Content-Range"),
        format!("bytes {first}-{last}/{}", content.len()),
        "{target} {range}"
    );
    assert!(reply.body == content[first..=last], "{target} {range}: wrong bytes");
    assert!(
        reply.field("ETag").is_some()
            && reply.field("Last-Modified").is_some()
            && reply.field("Date").is_some()
    );
}

fn single(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for (target, content) in both(&server) {
        let end = content.len() - 1;
        for (range, first, last) in [
            ("bytes=0-0", 0, 0),
            ("bytes=0-99", 0, 99),
            ("bytes=1-1", 1, 1),
            ("bytes=500-", 500, end),
            ("bytes=0-", 0, end),
            ("bytes=0-99999999", 0, end),
            ("bytes=0-99999999999999999999999", 0, end),
            ("BYTES=5-6", 5, 6),
            ("bytes= 5-6", 5, 6),
            ("bytes=5-6,", 5, 6),
            ("bytes=,5-6", 5, 6),
            ("bytes=5-6 ,, 99999999-", 5, 6),
        ] {
            part(&mut client, target, &content, range, first, last);
        }
        part(&mut client, target, &content, &format!("bytes={end}-{end}"), end, end);
    }
}

fn suffix(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for (target, content) in both(&server) {
        let size = content.len();
        for (count, first) in [(1, size - 1), (500, size - 500), (size, 0), (size + 1, 0)] {
            part(&mut client, target, &content, &format!("bytes=-{count}"), first, size - 1);
        }
        part(&mut client, target, &content, "bytes=-99999999999999999999999", 0, size - 1);
    }
}

fn unsatisfiable(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for (target, content) in both(&server) {
        let size = content.len();
        for range in
            [format!("{size}-"), format!("{size}-{size}"), "99999999999999999999999-".into(), "-0".into()]
        {
            let reply = client.fetch("GET", target, &[("Range", &format!("bytes={range}"))]);
            assert_eq!(
                (reply.status, reply.need("Content-Range")),
                (416, format!("bytes */{size}").as_str()),
                "{range}"
            );
            assert_ne!(reply.body, content);
        }
    }
}

/// What cannot be read, or is in other units, is as good as nothing (section 14.2).
fn ignored(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for range in [
        "bytes",
        "bytes=",
        "bytes=a-b",
        "bytes=-",
        "bytes=1",
        "bytes=3-1",
        "bytes=0-1,3-2",
        "bytes=--1",
        "bytes=1--2",
        "bytes=+1-2",
        "bytes=0x1-2",
        "bytes 0-1",
        "lines=0-1",
        "0-1",
        "",
        "bytes=0-1;x",
        "bytes=1 - 2",
    ] {
        let reply = client.fetch("GET", "/hello.txt", &[("Range", range)]);
        assert_eq!(
            (reply.status, reply.text().as_str(), reply.field("Content-Range")),
            (200, HELLO, None),
            "{range:?}"
        );
    }
}

/// The parts of a `multipart/byteranges` body: Content-Type, Content-Range and bytes of each.
fn parts(reply: &Reply) -> Vec<(String, String, Vec<u8>)> {
    let media_type = reply.need("Content-Type");
    let boundary = media_type
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("the type of parts")
        .trim_matches('"');
    assert_eq!(reply.field("Content-Range"), None, "each part has its own");
    let mut rest = reply.body.as_slice();
    let mut found = Vec::new();
    let delimiter = format!("--{boundary}");
    rest = rest
        .strip_prefix(b"\r\n")
        .unwrap_or(rest)
        .strip_prefix(delimiter.as_bytes())
        .expect("a first boundary");
    let delimiter = format!("\r\n{delimiter}");
    loop {
        if rest == b"--" || rest == b"--\r\n" {
            return found;
        }
        rest = rest.strip_prefix(b"\r\n").expect("a line end after the boundary");
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").expect("fields of a part");
        let head = std::str::from_utf8(&rest[..end]).expect("text");
        let field = |name: &str| {
            let value = head.split("\r\n").find_map(|line| {
                line.split_once(": ")
                    .filter(|(other, _)| other.eq_ignore_ascii_case(name))
                    .map(|(_, value)| value)
            });
            value.unwrap_or_else(|| panic!("no {name} in {head:?}")).to_owned()
        };
        rest = &rest[end + 4..];
        let length =
            rest.windows(delimiter.len()).position(|w| w == delimiter.as_bytes()).expect("a next boundary");
        found.push((field("Content-Type"), field("Content-Range"), rest[..length].to_vec()));
        rest = &rest[length + delimiter.len()..];
    }
}

#[track_caller]
fn several(client: &mut Client, target: &str, content: &[u8], range: &str, expected: &[(usize, usize)]) {
    let whole = client.get(target);
    let reply = client.fetch("GET", target, &[("Range", range)]);
    assert_eq!(reply.status, 206, "{target} {range}");
    assert_eq!(reply.need("ETag"), whole.need("ETag"));
    let found = parts(&reply);
    let expected: Vec<_> = expected
        .iter()
        .map(|&(first, last)| {
            let place = format!("bytes {first}-{last}/{}", content.len());
            (whole.need("Content-Type").to_owned(), place, content[first..=last].to_vec())
        })
        .collect();
    assert!(
        found == expected,
        "{target} {range}: {:?}",
        found.iter().map(|part| &part.1).collect::<Vec<_>>()
    );
}

fn multiple(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for (target, content) in both(&server) {
        let end = content.len() - 1;
        several(&mut client, target, &content, "bytes=0-0,-1", &[(0, 0), (end, end)]);
        several(&mut client, target, &content, "bytes=0-9, 20-29,40-49", &[(0, 9), (20, 29), (40, 49)]);
        several(&mut client, target, &content, "bytes=500-599,0-99", &[(500, 599), (0, 99)]);
        several(&mut client, target, &content, "bytes=900-,99999999-,1-2", &[(900, end), (1, 2)]);
        let all: Vec<_> = (0..16).map(|i| (i * 50, i * 50 + 20)).collect();
        let range: Vec<_> = all.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        several(&mut client, target, &content, &format!("bytes={}", range.join(",")), &all);
    }
}

/// Asking for the same bytes many times over is an attack (section 17.15): no byte is sent twice.
fn overlapping_are_joined(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for (target, content) in both(&server) {
        for range in ["bytes=0-,0-,0-,0-,0-,0-", "bytes=0-,1-,2-,3-,4-,5-,6-", "bytes=-500,0-,-1"] {
            let reply = client.fetch("GET", target, &[("Range", range)]);
            assert!(
                matches!(reply.status, 200 | 206) && reply.body.len() < content.len() + 1000,
                "{range}: {reply:?}"
            );
        }
        let reply = client.fetch("GET", target, &[("Range", "bytes=0-9,5-19,20-29")]);
        assert_eq!(
            (reply.status, reply.need("Content-Range")),
            (206, format!("bytes 0-29/{}", content.len()).as_str())
        );
    }
}

fn too_many_are_ignored(variant: &Variant) {
    let server = Server::start(variant);
    let ranges: Vec<_> = (0..17).map(|i| format!("{0}-{0}", 2 * i)).collect();
    let reply = server.fetch("GET", "/large.bin", &[("Range", &format!("bytes={}", ranges.join(",")))]);
    assert_eq!(reply.status, 200);
    assert!(reply.body == large());
    let many = format!("bytes={}", "0-0,2-2,".repeat(400));
    assert_eq!(server.fetch("GET", "/large.bin", &[("Range", &many)]).status, 200);
}

fn fewer_by_choice(variant: &Variant) {
    let server = Server::with(variant, "[limits]\nranges = 2");
    for (range, status) in [("bytes=0-0,2-2", 206), ("bytes=0-0,2-2,4-4", 200)] {
        assert_eq!(server.fetch("GET", "/hello.txt", &[("Range", range)]).status, status, "{range}");
    }
}

fn if_range(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for (target, content) in both(&server) {
        let whole = client.get(target);
        let (etag, modified) = (whole.need("ETag").to_owned(), whole.need("Last-Modified").to_owned());
        for (value, status) in [
            (etag.as_str(), 206),
            (&modified, 206),
            (&format!("W/{etag}"), 200),
            ("\"other\"", 200),
            (&format!("{etag}, \"other\""), 200),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
            ("Fri, 01 Jan 2100 00:00:00 GMT", 200),
            ("nonsense", 200),
        ] {
            let reply = client.fetch("GET", target, &[("Range", "bytes=1-3"), ("If-Range", value)]);
            assert_eq!(reply.status, status, "{target} {value}");
            assert!(
                reply.body == if status == 206 { &content[1..=3] } else { &content[..] },
                "{target} {value}"
            );
        }
        // Without Range it means nothing, and a range that the file does not have is none.
        assert_eq!(client.fetch("GET", target, &[("If-Range", "\"other\"")]).status, 200);
        let reply = client.fetch("GET", target, &[("Range", "bytes=99999999-"), ("If-Range", "\"other\"")]);
        assert_eq!(reply.status, 200);
    }
}

fn empty_file(variant: &Variant) {
    let server = Server::start(variant);
    for (range, statuses) in
        [("bytes=0-", &[416][..]), ("bytes=0-0", &[416]), ("bytes=-1", &[200, 416]), ("bytes=-0", &[416])]
    {
        let reply = server.fetch("GET", "/empty.txt", &[("Range", range)]);
        assert!(statuses.contains(&reply.status), "{range}: {reply:?}");
    }
}

fn head(variant: &Variant) {
    let server = Server::start(variant);
    let mut client = server.connect();
    for range in ["bytes=0-1", "bytes=0-1,4-5", "bytes=9999999-"] {
        let reply = client.fetch("HEAD", "/large.bin", &[("Range", range)]);
        assert!(matches!(reply.status, 200 | 206 | 416), "{reply:?}");
        assert_eq!(client.get("/hello.txt").text(), HELLO, "no content follows");
    }
}

/// As a player does that jumps about in a film.
fn whole_file_piece_by_piece(variant: &Variant) {
    let content = pattern(9, 2_000_000);
    let server = Setup::new(variant).file("film.mp4", &content).start();
    let mut client = server.connect();
    let mut got = Vec::new();
    while got.len() < content.len() {
        let last = got.len() + 99_999;
        let reply = client.fetch("GET", "/film.mp4", &[("Range", &format!("bytes={}-{last}", got.len()))]);
        assert_eq!(reply.status, 206);
        got.extend_from_slice(&reply.body);
    }
    assert!(got == content);
}
