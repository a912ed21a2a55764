//! Bodies and replies that are put by: within bounds, with scant memory, and where the disk is full.

use std::sync::Arc;

use harness::client::post;
use harness::scripted::{self, end, gateway_site, pool, record};
use harness::server::Setup;
use harness::site::{HELLO, pattern};
use harness::small_disk::SmallDisk;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Three: scant_memory, a_full_disk_beneath_the_spool, spilled_replies_are_bounded;
];

/// All goes the long way: bodies through the disk, and replies in small pieces.
fn scant_memory(variant: &Variant) {
    let server = gateway_site(variant, "memory = 0\nspill = '1 MiB'", "", |mut asked| {
        let body = asked.body.repeat(20);
        asked.say([record(6, b"X: y\n\n"), record(6, &body), end()].concat());
    });
    for length in [1, 1000, 300_000] {
        let body = pattern(5, length);
        let mut client = server.connect_narrow();
        client.send(post("/app/x", &body));
        let reply = client.reply();
        assert!(reply.body == body.repeat(20), "{length}: {} bytes", reply.body.len());
    }
    assert_eq!(server.pool_count("failures"), 0);
}

/// A body has no place then, but a reply goes on as fast as its client takes it.
fn a_full_disk_beneath_the_spool(variant: &Variant) {
    let setup = Setup::new(variant);
    let Some(disk) = SmallDisk::mount("1m") else { return };
    let reply = Arc::new(pattern(9, 8_000_000));
    let large = Arc::clone(&reply);
    let socket = scripted::start(setup.directory(), "app.sock", move |mut asked| {
        let body: &[u8] = if asked.body.is_empty() { &large } else { &asked.body };
        let answer = [record(6, b"X: y\n\n"), record(6, body), end()].concat();
        asked.say(answer);
    });
    let config =
        format!("{}[gateway]\nspool = '{}'\nmemory = 0\n", pool(&[&socket], ""), disk.directory().display());
    let server = setup.config(&config).start();
    for _ in 0..2 {
        // What was begun is given back.
        assert_eq!(server.one(post("/app/x", &pattern(1, 900_000))).body, pattern(1, 900_000));
        let mut slow = server.connect_narrow();
        slow.ask("GET", "/app/x", &[]);
        server.wait_for_line(|line| line.contains("the reply can't be spooled: No space left on device"));
        assert_eq!(server.get("/hello.txt").text(), HELLO);
        assert!(slow.reply().body == *reply);
    }
    let mut client = server.connect();
    client.send(post("/app/x", &pattern(1, 3_000_000)));
    assert_eq!(client.reply().status, 503);
    assert_eq!((server.pool_count("failures"), server.count("replies_by_code/503")), (1, 1));
}

/// However long a reply is, no more of it is on the disk than may be, also of a client that takes some of it
/// again and again.
fn spilled_replies_are_bounded(variant: &Variant) {
    let setup = Setup::new(variant);
    let Some(disk) = SmallDisk::mount("1m") else { return };
    let large = Arc::new(pattern(9, 12_000_000));
    let reply = Arc::clone(&large);
    let socket = scripted::start(setup.directory(), "app.sock", move |mut asked| {
        asked.say([record(6, b"X: y\n\n"), record(6, &large), end()].concat())
    });
    let spill = format!(
        "[gateway]\nspool = '{}'\nspill = '600 KiB'\n[tcp]\nsend_buffer = '16 KiB'\n",
        disk.directory().display()
    );
    let server = setup.config(&format!("{}{spill}", pool(&[&socket], ""))).start();
    let mut slow = server.connect_narrow();
    slow.ask("GET", "/app/x", &[]);
    let mut taken = Vec::new();
    while taken.len() < 8_000_000 {
        taken.extend(slow.read_raw(100_000).expect("more of the reply"));
        harness::sleep_ms(1);
    }
    slow.unread(taken);
    assert!(slow.reply().body == *reply);
    let told = server.stderr();
    assert!(!told.iter().any(|line| line.contains("can't be spooled")), "{told:?}");
}
