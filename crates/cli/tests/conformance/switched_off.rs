//! Files without the caches: each request opens its file (`files.max_open = 0`), or each reply makes its
//! header lines (`files.header_cache = false`). Clients see no difference, except that changes show at once.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use harness::client::{Client, Reply, request};
use harness::eventually;
use harness::server::{Server, Setup, settle};
use harness::site::{INDEX, SMALL, pattern};
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Drivers: every_request_opens_its_file, changed_while_sent, made_header_lines_are_the_same;
];

/// More than a socket takes, so that the reply is under way for a while.
const LARGE: usize = 8 << 20;

/// Requests that come to all kinds of replies with a file: what is asked for, and fields.
const REQUESTS: &[(&str, &[(&str, &str)])] = &[
    ("/", &[]),
    ("/index.html", &[]),
    ("/large.bin", &[]),
    ("/large.bin", &[("Range", "bytes=5-9")]),
    ("/large.bin", &[("Range", "bytes=0-3,100000-")]),
    ("/large.bin", &[("Range", "bytes=99999999-")]),
    ("/large.bin", &[("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT")]),
    ("/large.bin", &[("If-Match", "\"another\"")]),
    ("/small.txt", &[("Range", "bytes=-3")]),
    ("/small.txt", &[("If-None-Match", "*")]),
    ("/coded.css", &[("Accept-Encoding", "br, gzip")]),
    ("/coded.css", &[]),
    ("/empty", &[]),
    ("/listed/", &[]),
    ("/none", &[]),
    ("/none/../index.html", &[]),
];

fn site(variant: &Variant, files: &str) -> Setup {
    let config = format!("listing = true\n[error_pages]\n404 = '/404.html'\n[files]\n{files}");
    Setup::on_disk(variant)
        .config(&config)
        .file("large.bin", pattern(1, LARGE))
        .file("small.txt", "small")
        .file("empty", "")
        .file("404.html", "nothing there")
        .file("coded.css", pattern(2, 3 * SMALL))
        .file("coded.css.gz", pattern(3, 2 * SMALL))
        .file("listed/a", "a")
}

fn every_request_opens_its_file(variant: &Variant) {
    let start = |files: &str| {
        let setup = site(variant, files);
        // A listing shows when its files were changed.
        let listed = File::open(setup.root().join("listed/a")).expect("a file");
        listed.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).expect("a time can be set");
        setup.start()
    };
    let (server, other) = (start("max_open = 0"), start(""));
    server.warm_up();
    let before = server.descriptors();
    let (mut client, mut cached) = (server.connect(), other.connect());
    for _ in 0..2 {
        for (target, fields) in REQUESTS {
            let reply = client.fetch("GET", target, fields);
            let expected = cached.fetch("GET", target, fields);
            assert_eq!(reply.status, expected.status, "{target} {fields:?}");
            // Boundaries of parts are drawn.
            let is_whole = !reply.field("Content-Type").is_some_and(|it| it.starts_with("multipart/"));
            assert!(reply.body == expected.body || !is_whole, "{target} {fields:?}");
            assert_eq!(reply.body.len(), expected.body.len());
        }
    }
    // One after the other, as fast as they are answered.
    client.send(request("GET", "/large.bin", &[("Range", "bytes=0-9")]).repeat(100));
    for _ in 0..100 {
        assert_eq!(client.reply().body, pattern(1, 10));
    }
    assert!(client.get("/index.html").text().contains(INDEX));
    // What changes is seen at once.
    server.replace("small.txt", "another");
    assert_eq!(client.get("/small.txt").text(), "another");
    drop(client);
    eventually("all files are closed", || server.descriptors() <= before);
    eventually("nothing is kept", || server.count("file_table_entries") == 0);
    assert_eq!(server.count("file_table_hits"), 0);
    assert!(server.count("file_table_misses") > 100);
}

fn changed_while_sent(variant: &Variant) {
    let server = site(variant, "max_open = 0\n[tcp]\nsend_buffer = '64 KiB'").start();
    let (old, new) = (pattern(1, LARGE), pattern(4, LARGE));
    let begin = || {
        let mut client = Client::connect_narrow(server.address);
        client.ask("GET", "/large.bin", &[]);
        let beginning = client.read_raw(100_000).expect("a beginning");
        client.unread(beginning);
        client
    };
    let mut client = begin();
    server.replace("large.bin", &new);
    assert!(server.get("/large.bin").body == new, "a request that comes later has the new file");
    assert!(client.reply().body == old, "it was opened before");
    settle();
    // Appended to: what was promised is sent.
    let mut client = begin();
    let path = server.root().join("large.bin");
    OpenOptions::new().append(true).open(&path).expect("a file").write_all(b"more").expect("room");
    assert_eq!(server.get("/large.bin").body.len(), LARGE + 4);
    assert!(client.reply().body == new);
    // Cut short: the promise can't be kept, which the client is to notice.
    let mut client = begin();
    OpenOptions::new().write(true).open(&path).expect("a file").set_len(1000).expect("a length can be set");
    assert!(client.try_reply().is_err());
    assert!(server.get("/large.bin").body == new[..1000]);
    fs::remove_file(path).expect("a file");
    assert_eq!(server.get("/large.bin").status, 404);
}

fn made_header_lines_are_the_same(variant: &Variant) {
    let rules = "[[headers]]\npath = '/small.*'\nset = { Cache-Control = 'no-cache' }";
    let long_ago = UNIX_EPOCH + Duration::new(1_700_000_000, 5);
    let times = [("future.txt", long_ago + Duration::from_hours(1_000_000))];
    let names = ["large.bin", "small.txt", "empty", "coded.css", "coded.css.gz", "404.html", "index.html"];
    let start = |files: &str| {
        let files = format!("{files}\n{rules}");
        let setup = site(variant, &files).file("future.txt", "later");
        for (name, time) in names.map(|name| (name, long_ago)).into_iter().chain(times) {
            let file = File::open(setup.root().join(name)).expect("a file");
            file.set_modified(time).expect("a time can be set");
        }
        settle();
        setup.start()
    };
    let (made, kept) = (start("header_cache = false"), start(""));
    let lines = |server: &Server, method: &str, target: &str, fields| {
        let Reply { status, fields, .. } = server.fetch(method, target, fields);
        // The names of boundaries are drawn, and the clock goes on.
        let is_same = |(name, value): &(String, String)| {
            !(["Date", "Last-Modified"].contains(&&**name) && target == "/future.txt")
                && name != "Date"
                && !value.starts_with("multipart/")
        };
        (status, fields.into_iter().filter(is_same).collect::<Vec<_>>())
    };
    for (target, fields) in REQUESTS.iter().chain([&("/future.txt", &[][..])]) {
        for method in ["GET", "HEAD"] {
            let (made, kept) = (lines(&made, method, target, fields), lines(&kept, method, target, fields));
            assert_eq!(made, kept, "{method} {target} {fields:?}");
        }
    }
    let body = made.fetch("GET", "/large.bin", &[("Range", "bytes=100-199")]).body;
    assert_eq!(body, pattern(1, LARGE)[100..200]);
    let tag = made.get("/small.txt").need("ETag").to_owned();
    assert_eq!(made.fetch("GET", "/small.txt", &[("If-None-Match", &tag)]).status, 304);
    let part = made.fetch("GET", "/small.txt", &[("If-Range", &tag), ("Range", "bytes=1-2")]);
    assert_eq!((part.status, &*part.text()), (206, "ma"));
    assert!(made.count("file_table_hits") > 0, "the files are kept");
}
