//! Clients of an application: one request after the other, slow ones, and those that leave.

use std::sync::{Arc, Mutex, mpsc};

use harness::eventually;
use harness::scripted::{Asked, answer, end, gateway_site, record, scripted_site};
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Each: a_client_that_leaves;
    Drivers: one_request_after_the_other, a_slow_client, slow_clients_occupy_nobody;
];

/// Nobody waits for anything but the application: if a request were only noticed when its client is looked
/// after, so many would take longer than anything may.
fn one_request_after_the_other(variant: &Variant) {
    let server = scripted_site(variant, |mut asked: Asked| asked.say(answer("X: y\n\nwell")));
    let mut client = server.connect();
    let took = harness::client::time(|| {
        for _ in 0..100 {
            assert_eq!(client.get("/app/x").text(), "well");
        }
    });
    assert!(took < harness::TIMEOUT, "{took:?}");
}

fn a_client_that_leaves(variant: &Variant) {
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let server = scripted_site(variant, move |mut asked| {
        let begun = asked.params["QUERY_STRING"] == "begun";
        if begun {
            asked.say(record(6, b"X: y\r\n\r\nbegun"));
        }
        let told = told.lock().expect("no panic").clone();
        told.send(Vec::new()).expect("the test waits");
        let records: Vec<_> = std::iter::from_fn(|| asked.next_record()).collect();
        let _ = told.send(records);
    });
    for (left, target) in ["/app/x", "/app/x?begun"].into_iter().enumerate() {
        let mut client = server.connect();
        client.ask("GET", target, &[]);
        heard.recv_timeout(harness::TIMEOUT).expect("the application is asked");
        if target.ends_with("begun") {
            client.read_raw(10).expect("a reply begins");
        }
        drop(client);
        // The request to abort, and the end.
        assert_eq!(heard.recv_timeout(harness::TIMEOUT).expect("the application hears of it"), [2]);
        eventually("it is counted", || server.pool_count("clients_left") == left as u64 + 1);
    }
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

/// Nobody waits for it, and of a reply no more is kept than a part.
fn a_slow_client(variant: &Variant) {
    const PIECE: usize = 60_000;
    const PIECES: usize = 600;
    let said = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&said);
    let server = gateway_site(variant, "spill = 0", "", move |mut asked| {
        asked.say(record(6, b"Content-Type: text/plain\r\n\r\n"));
        for _ in 0..PIECES {
            if !asked.say(record(6, &vec![b'x'; PIECE])) {
                return;
            }
            *counted.lock().expect("no panic") += 1;
        }
        asked.say(end());
    });
    let mut slow = server.connect_narrow();
    slow.ask("GET", "/app/x", &[]);
    let count = || *said.lock().expect("no panic");
    eventually("it has begun", || count() > 0);
    let mut before = 0;
    eventually("the application waits", || {
        harness::sleep_ms(200);
        std::mem::replace(&mut before, count()) == count()
    });
    assert!(count() < PIECES / 2, "{} pieces are under way", count());
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    let reply = slow.reply();
    assert_eq!((reply.status, reply.body.len()), (200, PIECE * PIECES));
    assert_eq!(server.pool_count("failures"), 0);
}

/// The application is free while they take their time, and they get all of it. It is told where it ends in
/// each of the ways.
fn slow_clients_occupy_nobody(variant: &Variant) {
    const LENGTH: usize = 12_000_000;
    let body = Arc::new(pattern(3, LENGTH));
    let large = Arc::clone(&body);
    let server = gateway_site(variant, "", "children = 1", move |mut asked| {
        let how = &*asked.params["QUERY_STRING"];
        let head = if how == "chunked" { String::new() } else { format!("Content-Length: {LENGTH}\n") };
        let length = if how == "quick" { 4 } else { LENGTH };
        let end = if how == "closed" { Vec::new() } else { end() };
        let head = if how == "quick" { "X: y\n\n".to_owned() } else { head + "X: y\n\n" };
        asked.say([record(6, head.as_bytes()), record(6, &large[..length]), end].concat());
    });
    for (at, how) in ["chunked", "length", "closed"].iter().enumerate() {
        let mut slow = server.connect_narrow();
        slow.ask("GET", &format!("/app/?{how}"), &[]);
        eventually("the rest is on the disk", || server.pool_count("spilled") == at as u64 + 1);
        // With one child nobody else would be served if that waited.
        assert_eq!(server.get("/app/?quick").body, body[..4]);
        eventually("some of it is in memory", || server.count("application_memory_bytes") > 0);
        let reply = slow.reply();
        assert_eq!(reply.status, 200, "{how}");
        assert!(reply.body == *body, "{how}: {} bytes", reply.body.len());
        eventually("nothing is in memory", || server.count("application_memory_bytes") == 0);
        assert_eq!(server.pool_count("failures"), 0, "{how}");
    }
}
