//! Files that change while they are served. A client gets a file as it was at one moment, or notices that it
//! did not.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use harness::client::{Broken, Client, Reply, request};
use harness::server::{Server, Setup};
use harness::site::pattern;
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};

pub(crate) const TESTS: &[Test] = tests![
    Drivers:
        replaced_while_sent,
        truncated_while_sent,
        overwritten_while_sent,
        removed_while_sent,
        appended_while_sent,
        overwritten_and_longer_while_sent;
    Three:
        replaced_again_and_again,
        replaced_between_ranges,
        appended_all_the_time,
        overwritten_between_requests,
        truncated_between_requests,
        come_and_gone,
        directory_instead_of_file;
];

/// So large that it can't hide in socket buffers, which are kept small as well.
const SIZE: usize = 8 << 20;

fn old() -> Vec<u8> {
    pattern(1, SIZE)
}

fn new() -> Vec<u8> {
    pattern(2, SIZE)
}

fn start(variant: &Variant) -> Server {
    start_in(Setup::on_disk(variant))
}

fn start_in(setup: Setup) -> Server {
    let config = "[tcp]\nsend_buffer = \"64 KiB\"\n[files]\nvalidity = \"20 ms\"";
    setup.config(config).file("big.bin", old()).start()
}

/// The reply to a GET of `/big.bin`, with `change` made when some of it has arrived and most has not been
/// sent.
fn changed_while_sent(server: &Server, change: impl FnOnce(&Server)) -> Result<Reply, Broken> {
    // Known to the table, as it would be on any other day.
    assert_eq!(server.fetch("HEAD", "/big.bin", &[]).status, 200);
    sleep_ms(40);
    let mut client = Client::connect_narrow(server.address);
    client.ask("GET", "/big.bin", &[]);
    let beginning = client.read_raw(100_000).expect("a beginning");
    sleep_ms(50);
    change(server);
    client.unread(beginning);
    client.try_reply()
}

fn replaced_again_and_again(variant: &Variant) {
    // One is sent from memory, the other from its file.
    for (size, other_size) in [(3000, 2000), (300_000, 200_000)] {
        let contents = [pattern(1, size), pattern(2, other_size)];
        let server = Setup::on_disk(variant)
            .config("[files]\nvalidity = \"5 ms\"")
            .file("a.bin", &contents[0])
            .start();
        let mut seen: HashMap<String, Vec<u8>> = HashMap::new();
        let mut client = server.connect();
        for round in 1..=60 {
            server.replace("a.bin", &contents[round % 2]);
            for _ in 0..3 {
                let reply = client.get("/a.bin");
                assert!(contents.contains(&reply.body), "neither the one nor the other");
                if let Some(tag) = reply.field("ETag") {
                    let known = seen.entry(tag.to_owned()).or_insert_with(|| reply.body.clone());
                    assert!(*known == reply.body, "one tag for two contents");
                }
                sleep_ms(if round % 10 == 0 { 50 } else { round as u64 % 7 });
            }
        }
        assert!(seen.len() > 2, "changes were never noticed");
    }
}

fn replaced_between_ranges(variant: &Variant) {
    let contents = [pattern(1, 300_000), pattern(2, 300_000)];
    let server =
        Setup::on_disk(variant).config("[files]\nvalidity = \"5 ms\"").file("a.bin", &contents[0]).start();
    let mut client = server.connect();
    for round in 1..=40 {
        let first = client.fetch("GET", "/a.bin", &[("Range", "bytes=0-149999")]);
        assert_eq!(first.status, 206);
        if round % 2 == 0 {
            server.replace("a.bin", &contents[round / 2 % 2]);
        }
        // Without a tag there is nothing to go on with, but to begin anew.
        let tag = first.field("ETag").unwrap_or("\"none\"");
        let second = client.fetch("GET", "/a.bin", &[("Range", "bytes=150000-"), ("If-Range", tag)]);
        let whole = match second.status {
            206 => [first.body, second.body].concat(),
            _ => second.body,
        };
        assert!(contents.contains(&whole), "round {round}: a mixture");
        sleep_ms(round as u64 % 4 * 15);
    }
}

fn replaced_while_sent(variant: &Variant) {
    let server = start(variant);
    let reply = changed_while_sent(&server, |server| server.replace("big.bin", new())).expect("a reply");
    assert!(reply.body == old(), "it was opened before");
    eventually("the new file is served", || server.get("/big.bin").body == new());
}

#[track_caller]
fn noticed(reply: Result<Reply, Broken>) {
    match reply {
        Err(Broken::Reset | Broken::CutShort(_) | Broken::Closed) => {}
        Err(other) => panic!("{other:?}"),
        Ok(reply) => panic!("complete: {}", if reply.body == old() { "the old file" } else { "a mixture" }),
    }
}

fn truncated_while_sent(variant: &Variant) {
    let server = start(variant);
    let truncate = |server: &Server| {
        let file = OpenOptions::new().write(true).open(server.root().join("big.bin")).expect("a file");
        file.set_len(1000).expect("a length can be set");
    };
    noticed(changed_while_sent(&server, truncate));
    eventually("the new length is told", || server.get("/big.bin").body.len() == 1000);
    assert!(server.count("resets/file_changed") >= 1);
}

fn overwrite(server: &Server) {
    let file = OpenOptions::new().write(true).open(server.root().join("big.bin")).expect("a file");
    file.write_all_at(&new(), 0).expect("it can be written");
}

fn overwritten_while_sent(variant: &Variant) {
    let server = start(variant);
    noticed(changed_while_sent(&server, overwrite));
    eventually("the new content is served", || server.get("/big.bin").body == new());
}

/// The file has no name any more, but is whole.
fn removed_while_sent(variant: &Variant) {
    let server = start(variant);
    let removed = changed_while_sent(&server, |server| {
        fs::remove_file(server.root().join("big.bin")).expect("a file");
    });
    if let Ok(reply) = removed {
        assert!(reply.body == old());
    }
    eventually("it is missed", || server.get("/big.bin").status == 404);
}

fn append(server: &Server) {
    let file = OpenOptions::new().write(true).open(server.root().join("big.bin")).expect("a file");
    file.write_all_at(b"one more line\n", SIZE as u64).expect("it can be written");
}

/// Like a log: what was promised is still there.
/// On a disk and in memory: on tmpfs the kernel does not say what can be read without waiting.
fn appended_while_sent(variant: &Variant) {
    for setup in [Setup::on_disk(variant), Setup::new(variant)] {
        let server = start_in(setup);
        let appended = changed_while_sent(&server, append).expect("a reply");
        assert!(appended.status == 200 && appended.body == old());
        eventually("it has grown", || server.get("/big.bin").body.len() == SIZE + 14);
    }
}

/// A log is written to all the time, also between the look at it and the first byte of a reply.
fn appended_all_the_time(variant: &Variant) {
    let server = Setup::on_disk(variant).config("[tcp]\nsend_buffer = \"64 KiB\"").file("log", old()).start();
    let path = server.root().join("log");
    thread::scope(|scope| {
        let logger = scope.spawn(move || {
            let mut log = OpenOptions::new().append(true).open(path).expect("a file");
            for _ in 0..300 {
                log.write_all(b"one more line\n").expect("it can be written");
                sleep_ms(5);
            }
        });
        let mut client = server.connect();
        let mut whole = Vec::new();
        while !logger.is_finished() {
            let reply = client.get("/log");
            assert!(reply.status == 200 && reply.body.starts_with(&old()));
            // Whoever follows it asks for what has come since.
            let range = format!("bytes={}-", SIZE - 300_000);
            let part = client.fetch("GET", "/log", &[("Range", &range)]);
            assert!(part.status == 206 && part.body.starts_with(&old()[SIZE - 300_000..]));
            whole = reply.body;
        }
        logger.join().expect("it has written all");
        assert!(whole.ends_with(b"one more line\n"));
    });
    assert_eq!(server.count("resets/file_changed"), 0);
}

/// Written anew and longer, without another name: that is no log.
fn overwritten_and_longer_while_sent(variant: &Variant) {
    let server = start(variant);
    let longer = pattern(3, SIZE + 1000);
    noticed(changed_while_sent(&server, |server| server.write("big.bin", &longer)));
    eventually("the new content is served", || server.get("/big.bin").body == longer);
}

/// While the table trusts what it knows (here for a second) it may send what the file has become under what
/// it was, since it does not look; but no reply is a mixture, and in the end tag and bytes agree again.
fn overwritten_between_requests(variant: &Variant) {
    let (old, new) = (pattern(1, 200_000), pattern(2, 200_000));
    let server = Setup::on_disk(variant).file("a.bin", &old).start();
    let old_tag = server.get("/a.bin").need("ETag").to_owned();
    sleep_ms(20);
    let file = OpenOptions::new().write(true).open(server.root().join("a.bin")).expect("a file");
    file.write_all_at(&new, 0).expect("it can be written");
    let began = Instant::now();
    let mut complete = false;
    while began.elapsed() < Duration::from_millis(1500) || !complete {
        assert!(began.elapsed() < Duration::from_secs(15), "never complete again");
        let mut client = server.connect();
        client.ask("GET", "/a.bin", &[]);
        if let Ok(reply) = client.try_reply() {
            let is_old = reply.field("ETag") == Some(&old_tag);
            assert!(reply.body == new || is_old && reply.body == old, "a mixture");
            // Each worker trusts what it knows for a second of its own.
            assert!(!complete || !is_old || began.elapsed() < Duration::from_millis(1200), "back to the old");
            complete |= !is_old;
        }
        sleep_ms(20);
    }
}

fn truncated_between_requests(variant: &Variant) {
    for size in [5000, 200_000] {
        let server = Setup::on_disk(variant).file("a.bin", pattern(1, size)).start();
        assert_eq!(server.get("/a.bin").body.len(), size);
        sleep_ms(20);
        let file = OpenOptions::new().write(true).open(server.root().join("a.bin")).expect("a file");
        file.set_len(100).expect("a length can be set");
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < Duration::from_secs(15), "never complete again");
            let mut client = server.connect();
            client.send(request("GET", "/a.bin", &[]).repeat(2));
            match client.try_reply() {
                Ok(reply) if reply.body.len() == 100 => break,
                Ok(reply) => assert!(reply.body == pattern(1, size), "padded with something"),
                Err(broken) => assert!(matches!(broken, Broken::Reset | Broken::CutShort(_)), "{broken:?}"),
            }
            sleep_ms(20);
        }
    }
}

fn come_and_gone(variant: &Variant) {
    let server = Setup::on_disk(variant).start();
    assert_eq!(server.get("/late.txt").status, 404);
    server.write("late.txt", "late");
    eventually("a new file is found", || server.get("/late.txt").text() == "late");
    fs::remove_file(server.root().join("late.txt")).expect("a file");
    eventually("it is missed", || server.get("/late.txt").status == 404);
    server.write("bare/index.html", "index");
    eventually("a new index file is found", || server.get("/bare/").text() == "index");
    fs::remove_file(server.root().join("bare/index.html")).expect("a file");
    eventually("it is missed", || server.get("/bare/").status != 200);
    server.write("hello.txt.gz", "zip");
    let gzip = || server.fetch("GET", "/hello.txt", &[("Accept-Encoding", "gzip")]).text();
    eventually("a new sibling is found", || gzip() == "zip");
}

fn directory_instead_of_file(variant: &Variant) {
    let server = Server::with(variant, "[files]\nvalidity = \"20 ms\"");
    assert_eq!(server.get("/hello.txt").status, 200);
    fs::remove_file(server.root().join("hello.txt")).expect("a file");
    fs::create_dir(server.root().join("hello.txt")).expect("a directory");
    eventually("it is a directory", || matches!(server.get("/hello.txt").status, 301 | 308));
    fs::remove_dir(server.root().join("hello.txt")).expect("a directory");
    server.write("hello.txt", "again");
    eventually("it is a file", || server.get("/hello.txt").text() == "again");
}
