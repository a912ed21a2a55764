//! Applications that break, or are silent: the right status, or a connection that ends.

use rustix::process::Signal;

use harness::client::Broken;
use harness::scripted::{self, answer, end, pool, record, scripted_site, scripted_site_with};
use harness::server::Setup;
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Drivers: an_application_that_is_silent, applications_that_break, replies_that_are_cut_off;
];

/// Who knows the end of a reply by that of the connection alone hears that it is not whole.
fn replies_that_are_cut_off(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = scripted::start(setup.directory(), "app.sock", |mut asked| {
        asked.say(record(6, b"Content-Type: a/b\r\n\r\nbegun"));
        while asked.next_record().is_some() {}
    });
    let config = format!("drain_timeout = '300 ms'\n{}", pool(&[&socket], ""));
    let mut server = setup.config(&config).start();
    let mut client = server.connect();
    client.send("GET /app/x HTTP/1.0\r\nHost: x\r\n\r\n");
    let mut seen = Vec::new();
    while !seen.ends_with(b"begun") {
        seen.extend(client.read_raw(1).expect("more of the reply"));
    }
    server.signal(Signal::TERM);
    assert_eq!(client.read_raw(1), Err(Broken::Reset));
    assert_eq!(server.exit_code(), Some(0));
}

fn an_application_that_is_silent(variant: &Variant) {
    let server = scripted_site_with(variant, "timeout = '300 ms'\ntotal_timeout = '1 s'", |mut asked| {
        match &*asked.params["QUERY_STRING"] {
            "nothing" => {}
            "begun" => {
                asked.say(record(6, b"Content-Type: a/b\r\n\r\nbegun"));
            }
            // Slow, but never for so long. It would end well, after a while.
            _ => {
                asked.say(record(6, b"Content-Type: a/b\r\n\r\n"));
                for _ in 0..30 {
                    asked.say(record(6, b"x"));
                    harness::sleep_ms(100);
                }
                asked.say(end());
            }
        }
        while asked.next_record().is_some() {}
    });
    let mut client = server.connect();
    assert_eq!(client.get("/app/?nothing").status, 504);
    assert_eq!(client.get("/hello.txt").text(), HELLO);
    for target in ["/app/?begun", "/app/?always"] {
        let mut client = server.connect();
        client.ask("GET", target, &[]);
        assert!(matches!(client.try_reply(), Err(Broken::Reset | Broken::CutShort(_))), "{target}");
    }
    assert_eq!(server.pool_count("failures"), 3);
}

/// Each at another point of the exchange: the right status, or a connection that breaks. (Where a part of the
/// reply has come, it is a matter of time whether any of it has been sent.)
fn applications_that_break(variant: &Variant) {
    const HEAD: &[u8] = b"Content-Type: text/plain\r\n\r\n";
    let server = scripted_site(variant, |mut asked| {
        let how = asked.params["QUERY_STRING"].replace('-', " ");
        let long_head = vec![b'x'; 100_000];
        match &*how {
            "close" => true,
            "half a header" => asked.say([1, 6, 0]),
            "half a head" => asked.say(record(6, b"Content-Ty")),
            "an end without a reply" => asked.say(end()),
            "garbage" => asked.say("HTTP/1.1 200 OK\r\n\r\nhello"),
            "another request" => asked.say([1, 3, 0, 9, 0, 8, 0, 0]),
            "a long head" => asked.say(answer(long_head)),
            "no head" => asked.say(answer("hello\r\n\r\n")),
            "a bad status" => asked.say(answer("Status: 99\r\n\r\n")),
            "two lengths" => asked.say(answer("Content-Length: 1\r\nContent-Length: 2\r\n\r\nx")),
            "overloaded" => asked.say(record(3, &[0, 0, 0, 0, 2, 0, 0, 0])),
            "a line end in a field" => asked.say(answer("X: a\rb\r\n\r\n")),
            "garbage in the body" => asked.say([record(6, HEAD), b"garbage!".to_vec()].concat()),
            "two ends" => asked.say([answer([HEAD, b"well"].concat()), end()].concat()),
            "more behind the end" => {
                asked.say([answer([HEAD, b"well"].concat()), b"garbage!".to_vec()].concat())
            }
            "a byte at a time" => answer([HEAD, b"well"].concat()).iter().all(|byte| asked.say([*byte])),
            other => panic!("{other}"),
        }
    });
    for (how, status) in [
        ("close", 502),
        ("half a header", 502),
        ("half a head", 502),
        ("an end without a reply", 502),
        ("garbage", 502),
        ("another request", 502),
        ("a long head", 502),
        ("no head", 502),
        ("a bad status", 502),
        ("two lengths", 502),
        ("overloaded", 503),
        ("a line end in a field", 502),
        ("garbage in the body", 0),
        ("two ends", 200),
        ("more behind the end", 200),
        ("a byte at a time", 200),
    ] {
        let mut client = server.connect();
        client.ask("GET", &format!("/app/?{}", how.replace(' ', "-")), &[]);
        match client.try_reply() {
            Ok(reply) => {
                assert!(reply.status == status || (reply.status, status) == (502, 0), "{how}: {reply:?}");
                assert!(status != 200 || reply.text() == "well", "{how}");
                assert_eq!(client.get("/hello.txt").text(), HELLO, "{how}");
            }
            Err(broken) => assert_eq!(status, 0, "{how}: {broken:?}"),
        }
    }
    assert_eq!(server.pool_count("failures"), 13);
    assert_eq!(server.pool_count("clients_left"), 0);
}
