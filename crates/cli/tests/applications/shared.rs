//! Replies in memory that an application shares, and applications that say of it what is not so.

use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use harness::client::{Broken, Client, post};
use harness::guest::{self, Asked, Connection, FILLED, filled};
use harness::server::{Server, Setup};
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{eventually, scripted, sleep_ms};

pub(super) const TESTS: &[Test] = tests![
    Drivers:
        one_after_the_other,
        slow_readers_and_memory_used_again,
        an_application_that_waits_for_memory;
    Three: heads_and_bodies_however_cut, what_cannot_be, a_slow_client_keeps_nobody, dies_in_its_reply;
    One: no_more_than_its_bound;
];

fn site(
    variant: &Variant,
    more: &str,
    serve: impl Fn(Asked) -> Option<Connection> + Send + Sync + 'static,
) -> Server {
    scripted::guest_site(variant, "shared-memory", more, serve)
}

fn asked_for(asked: &Asked) -> (u64, usize) {
    let mut numbers =
        asked.params["PATH_INFO"].split('/').skip(1).map(|part| part.parse::<u64>().expect("a number"));
    let mut next = || numbers.next().expect("a number");
    (next(), next() as usize)
}

/// Answers with the pattern that the path asks for, by seed and length, in whole chunks.
fn serve_pattern(asked: Asked) -> Option<Connection> {
    let (reply, length) = asked_for(&asked);
    let head = match &*asked.params["QUERY_STRING"] {
        "chunked" => "X: y\n\n".to_owned(),
        _ => format!("Content-Length: {length}\n\n"),
    };
    asked.share(&[head.as_bytes(), &pattern(reply, length)].concat(), 64 << 10)
}

/// With a length and in chunks, on connections that are kept and others, copied and by page.
fn one_after_the_other(variant: &Variant) {
    for more in ["", "keep = 2", "keep = 2\narea_send = 'sendfile'", "area = '256 KiB'\nkeep = 1"] {
        let server = site(variant, more, serve_pattern);
        let mut client = server.connect();
        for (reply, length) in [(1, 0), (2, 1), (3, 65_500), (4, 65_536), (5, 1 << 20), (6, 3_000_001)] {
            for query in ["", "?chunked"] {
                let reply = reply * 10 + query.len() as u64;
                let got = client.get(&format!("/app/{reply}/{length}{query}"));
                assert_eq!(got.field("Transfer-Encoding").is_some(), !query.is_empty(), "{more} {length}");
                assert!(got.body == pattern(reply, length), "{more} {length} {query}");
                assert_eq!(client.fetch("HEAD", &format!("/app/{reply}/{length}{query}"), &[]).status, 200);
            }
            assert_eq!(client.get("/hello.txt").text(), HELLO);
        }
        client.send(post("/app/7/10", &vec![b'x'; 100_000]));
        assert_eq!(client.reply().body, pattern(7, 10));
        client.send("GET /app/8/100000 HTTP/1.0\r\nHost: x\r\n\r\n");
        assert!(client.reply().body == pattern(8, 100_000));
        client.expect_close();
        let pool = server.status()["pools"][0].clone();
        let counted = (&pool["shared"], &pool["fell_back"], &pool["failures"]);
        assert_eq!(counted, (&26.into(), &0.into(), &0.into()), "{more}");
        let may_keep = more.contains("keep") && !variant.serves_one_at_a_time();
        assert_eq!(pool["reused"].as_u64() > Some(0), may_keep, "{more}");
        eventually("memory is given back, or kept with a connection", || {
            server.count("application_memory_bytes") <= if may_keep { 2 << 20 } else { 0 }
        });
    }
}

/// Many clients of all kinds at a time: nobody gets what is another's, although all memory is used again and
/// again, and the kernel may have its pages in the queues of readers who take their time.
fn slow_readers_and_memory_used_again(variant: &Variant) {
    for more in ["area_send = 'copy'", "area_send = 'sendfile'"] {
        let server = site(variant, &format!("keep = 4\narea = '256 KiB'\n{more}"), serve_pattern);
        // Nobody leaves before the last reply is over. Clients know that sooner than the server, which waits
        // for the application to say so, and one that has left by then counts as gone.
        let _clients: Vec<Client> = std::thread::scope(|scope| {
            let one = |number: u64| {
                let server = &server;
                scope.spawn(move || {
                    let is_slow = number.is_multiple_of(3);
                    let mut client = if is_slow { server.connect_narrow() } else { server.connect() };
                    for round in 0..6 {
                        let (reply, length) = (number * 100 + round, 1_000_000);
                        client.ask("GET", &format!("/app/{reply}/{length}"), &[]);
                        if is_slow {
                            sleep_ms(100);
                        }
                        let got = client.reply();
                        assert_eq!(got.status, 200, "{more} {number} {round}");
                        assert!(got.body == pattern(reply, length), "{more} {number} {round}");
                    }
                    client
                })
            };
            let threads: Vec<_> = (0..6).map(one).collect();
            threads.into_iter().map(|thread| thread.join().expect("a client's thread")).collect()
        });
        // A reply is counted when the application has said that it is over, which clients don't wait for.
        let counts = || ["shared", "fell_back", "failures"].map(|what| server.pool_count(what));
        eventually("all are counted", || counts().iter().sum::<u64>() == 36);
        assert_eq!(counts(), [36, 0, 0], "{more}");
    }
}

/// One that has filled all of it goes on once a client has taken some.
fn an_application_that_waits_for_memory(variant: &Variant) {
    let server = site(variant, "area = '256 KiB'", |asked: Asked| {
        let (reply, length) = asked_for(&asked);
        // A byte in each chunk.
        asked.share(&[b"X: y\n\n", &pattern(reply, length)[..]].concat(), 1)
    });
    let got = server.get("/app/1/3000");
    assert!(got.body == pattern(1, 3000));
    assert_eq!(server.pool_count("shared"), 1);
}

/// The end of the head may be anywhere, and the stream and the memory may be mixed.
fn heads_and_bodies_however_cut(variant: &Variant) {
    let server = site(variant, "keep = 1", |mut asked: Asked| {
        let (cut, way) = asked_for(&asked);
        let mut response = b"Content-Type: text/plain\r\nX: y\r\n\r\n".to_vec();
        response.extend(pattern(9, 20_000));
        let (first, rest) = response.split_at(cut as usize);
        match way {
            0 => {
                asked.fill(first);
                asked.fill(rest);
            }
            1 => {
                asked.say(&[(6, first)]);
                asked.fill(rest);
            }
            2 => {
                asked.fill(first);
                asked.say(&[(6, rest)]);
            }
            _ => {
                for piece in response.chunks(7_777) {
                    asked.fill(piece);
                    asked.say(&[(6, b"|")]);
                }
            }
        }
        asked.say(&[(3, &[0; 8])]).then_some(asked.connection)
    });
    let mut client = server.connect();
    for cut in [1, 24, 25, 26, 30, 34, 35, 36, 4_096, 4_097, 10_000] {
        for way in 0..3 {
            let got = client.get(&format!("/app/{cut}/{way}"));
            assert_eq!(got.field("X"), Some("y"));
            assert!(got.body == pattern(9, 20_000), "{cut} {way}");
        }
    }
    let got = client.get("/app/1/3");
    let mut response = b"Content-Type: text/plain\r\nX: y\r\n\r\n".to_vec();
    response.extend(pattern(9, 20_000));
    let mixed: Vec<u8> = response.chunks(7_777).flat_map(|piece| [piece, b"|"].concat()).collect();
    let differ = got.body.iter().zip(&mixed[34..]).position(|(one, other)| one != other);
    assert!(got.body == mixed[34..], "{differ:?} {} {}", got.body.len(), mixed.len());
}

/// Chunks that there are not, that are too long, or that are the server's.
fn what_cannot_be(variant: &Variant) {
    let server = site(variant, "keep = 1", |mut asked: Asked| {
        let what = asked.params["QUERY_STRING"].clone();
        if what.starts_with("late-") {
            asked.fill(b"Content-Length: 100\n\nbegun");
            sleep_ms(100);
        }
        let (chunks, size) = asked.connection.area.as_ref().map(|area| (area.chunks, area.chunk_size))?;
        let record = match what.trim_start_matches("late-") {
            "none" => filled(chunks, 1),
            "last" => filled(u16::MAX, 1),
            "long" => filled(1, size + 1),
            "longest" => filled(1, u32::MAX),
            "twice" => {
                // Before any of it can have been sent.
                asked.say(&[(FILLED, &filled(2, size)), (FILLED, &filled(2, size))]);
                filled(2, size)
            }
            "empty" => filled(1, 0),
            "writes-on" => {
                // What was said to be filled may be written to, and is its own client's alone.
                let area = asked.connection.area.as_ref()?;
                area.file.write_all_at(b"Content-Length: 4\n\nwell", 0).expect("memory");
                asked.say(&[(FILLED, &filled(0, 23)), (3, &[0; 8])]);
                let area = asked.connection.area.as_ref()?;
                for _ in 0..1000 {
                    area.file.write_all_at(&[b'x'; 64], 0).expect("memory");
                }
                return None;
            }
            "shrinks" => {
                let area = asked.connection.area.as_ref()?;
                assert!(area.file.set_len(0).is_err() && area.file.set_len(1 << 30).is_err(), "it is sealed");
                return asked.share(b"X: y\n\nwell", 100);
            }
            other => panic!("{other}"),
        };
        asked.say(&[(FILLED, &record)]);
        while asked.connection.record().is_ok() {}
        None
    });
    let mut failures = 0;
    for what in ["none", "last", "long", "longest", "twice"] {
        assert_eq!(server.get(&format!("/app/x?{what}")).status, 502, "{what}");
        let mut client = server.connect();
        client.ask("GET", &format!("/app/x?late-{what}"), &[]);
        let end = client.try_reply();
        assert!(matches!(end, Err(Broken::Reset)), "{what}: {end:?}");
        failures += 2;
        assert_eq!(server.pool_count("failures"), failures);
    }
    assert_eq!(server.get("/app/x?shrinks").text(), "well");
    let got = server.get("/app/x?writes-on");
    // It may have written before the head was copied.
    assert!(got.status == 502 || got.body.len() == 4, "{got:?}");
    eventually("memory is given back", || server.count("application_memory_bytes") <= 1 << 20);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

/// What it has not taken goes to the disk, and the application is free.
fn a_slow_client_keeps_nobody(variant: &Variant) {
    let (told, over) = mpsc::channel();
    let told = Mutex::new(told);
    let server = site(variant, "area = '256 KiB'\nkeep = 1", move |asked: Asked| {
        let next = serve_pattern(asked);
        told.lock().expect("no panic").send(next.is_some()).expect("the test waits");
        next
    });
    let length = 8_000_000;
    let mut slow = server.connect_narrow();
    slow.ask("GET", &format!("/app/1/{length}"), &[]);
    assert_eq!(over.recv_timeout(harness::TIMEOUT), Ok(true), "it has said all, and its client has not read");
    assert_eq!(server.pool_count("spilled"), 1);
    assert!(slow.reply().body == pattern(1, length));
    drop(slow);
    eventually("memory is given back", || server.count("application_memory_bytes") <= 256 << 10);
}

/// What it has said by then is sent, and where that is not all its client notices.
fn dies_in_its_reply(variant: &Variant) {
    let reached = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&reached);
    let server = site(variant, "", move |mut asked: Asked| {
        *counted.lock().expect("no panic") += 1;
        match &*asked.params["QUERY_STRING"] {
            "whole" => asked.fill(b"Content-Length: 4\n\nwell"),
            "part" => asked.fill(b"Content-Length: 5\n\nwell"),
            "chunked" => asked.fill(b"X: y\n\nwell"),
            _ => asked.fill(b"Content-"),
        };
        sleep_ms(100);
        None
    });
    assert_eq!(server.get("/app/x?whole").text(), "well");
    assert_eq!(server.get("/app/x?head").status, 502);
    for what in ["part", "chunked"] {
        let mut client: Client = server.connect();
        client.ask("GET", &format!("/app/x?{what}"), &[]);
        assert!(matches!(client.try_reply(), Err(Broken::Reset)), "{what}");
    }
    assert_eq!(*reached.lock().expect("no panic"), 4);
    eventually("memory is given back", || server.count("application_memory_bytes") == 0);
}

/// Areas count against `gateway.memory`, all of each; where there is no room for one, the reply comes by the
/// stream.
fn no_more_than_its_bound(variant: &Variant) {
    let (tell, heard) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    let (tell, may_go) = (Mutex::new(tell), Mutex::new(may_go));
    let setup = Setup::new(variant);
    let socket = guest::start(setup.directory(), "app.sock", "shared-memory", move |asked| {
        let is_shared = asked.connection.area.is_some();
        tell.lock().expect("no panic").send(is_shared).expect("the test waits");
        may_go.lock().expect("no panic").recv().expect("the test tells");
        if is_shared { serve_pattern(asked) } else { asked.answer("X: y\n\nby the stream") }
    });
    let pool = scripted::pool(&[&socket], "transport = 'shared-memory'\narea = '256 KiB'");
    let server = setup.config(&format!("{pool}[gateway]\nmemory = '600 KiB'\n")).start();
    for _ in 0..2 {
        let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
        for (client, is_shared) in clients.iter_mut().zip([true, true, false]) {
            client.ask("GET", "/app/1/100", &[]);
            assert_eq!(heard.recv_timeout(harness::TIMEOUT), Ok(is_shared));
        }
        eventually("it is told", || server.count("application_memory_bytes") == 512 << 10);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_sluice"))
            .arg("memory")
            .arg(format!("unix:{}", server.directory().join("status").display()))
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("For applications 524,288 are set aside"), "{text}");
        for _ in 0..3 {
            go.send(()).expect("it waits");
        }
        let replies = clients.iter_mut().map(|client| client.reply().body);
        let expected = [pattern(1, 100), pattern(1, 100), b"by the stream".to_vec()];
        assert_eq!(replies.collect::<Vec<_>>(), expected);
        eventually("it is given back", || server.count("application_memory_bytes") == 0);
    }
    assert_eq!(["shared", "fell_back", "failures"].map(|name| server.pool_count(name)), [4, 2, 0]);
}
