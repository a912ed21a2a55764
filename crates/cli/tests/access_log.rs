//! The access log: what its lines say, and that a disk that stands still does not stop the server.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use harness::client::{Client, request};
use harness::eventually;
use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE, pattern};
use harness::variant::{Test, Variant, tests};
use rustix::process::Signal;
use serde_json::Value;

const TESTS: &[Test] = tests![
    Drivers: standard_output, cut_replies, logs_of_sites;
    Three:
        combined_lines,
        json_lines,
        those_whom_proxies_ask_for,
        those_whom_connections_announce,
        disk_that_stands_still,
        a_log_that_holds_up_no_other,
        waiting_for_the_disk,
        waiting_can_be_stopped;
    One: refused_requests, hostile_values, time_in_the_accept_queue;
];

fn main() -> ExitCode {
    harness::variant::run(&[("access_log", TESTS)])
}

fn logging(variant: &Variant, format: &str, config: &str) -> (Server, PathBuf) {
    let setup = Setup::new(variant).config(config);
    let log = setup.directory().join("access.log");
    let setup = setup.argument(format!("--access-log={}", log.display()));
    (setup.argument(format!("--log-format={format}")).start(), log)
}

/// The lines of the log, once there are so many.
fn lines(log: &std::path::Path, count: usize) -> Vec<String> {
    let read = || fs::read_to_string(log).unwrap_or_default();
    eventually(&format!("{count} lines"), || read().lines().count() >= count);
    let text = read();
    assert!(text.ends_with('\n'));
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

/// The lines of [`ask_everything`], in its order. Its last request may have been another worker's, and a
/// pipeline has several threads: their lines come when they like.
fn lines_of_everything(log: &std::path::Path, count: usize) -> Vec<String> {
    let mut lines = lines(log, count);
    lines.sort_by_key(|line| {
        let is_of = |asked: &&str| {
            let [method, target, version] = words(asked);
            line.contains(&format!("\"{asked}\""))
                || line.contains(&format!(r#""method":"{method}","target":"{target}","version":"{version}""#))
        };
        let place = ASKED.iter().position(is_of);
        // Of two that are alike the second asks for a range.
        (place.unwrap_or(ASKED.len()), line.contains("206"))
    });
    lines
}

/// Method, target and version.
fn words(asked: &str) -> [&str; 3] {
    let words: Vec<&str> = asked.split(' ').collect();
    words.try_into().expect("a request line has three words")
}

/// Requests of every kind on one connection, and what each came to: status and bytes of body.
fn ask_everything(server: &Server) -> Vec<(u16, usize)> {
    let mut client = server.connect();
    let etag = client.get("/hello.txt?a=b").need("ETag").to_owned();
    let mut outcomes = vec![(200, HELLO.len())];
    let not_found = client.get("/nothing").body.len();
    outcomes.push((404, not_found));
    for (method, target, fields, outcome) in [
        ("HEAD", "/large.bin", &[][..], (200, 0)),
        ("GET", "/large.bin", &[("User-Agent", "test/1"), ("Referer", "http://x/")], (200, LARGE)),
        ("GET", "/large.bin", &[("Range", "bytes=10-19")], (206, 10)),
        ("GET", "/hello.txt", &[("If-None-Match", etag.as_str())], (304, 0)),
    ] {
        assert_eq!(client.fetch(method, target, fields).status, outcome.0);
        outcomes.push(outcome);
    }
    client.send("POST /form HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc");
    outcomes.push((405, client.reply().body.len()));
    let unreadable = server.one("BAD\r\n\r\n");
    outcomes.push((400, unreadable.body.len()));
    outcomes
}

/// The request lines of [`ask_everything`].
const ASKED: [&str; 7] = [
    "GET /hello.txt?a=b HTTP/1.1",
    "GET /nothing HTTP/1.1",
    "HEAD /large.bin HTTP/1.1",
    "GET /large.bin HTTP/1.1",
    "GET /large.bin HTTP/1.1",
    "GET /hello.txt HTTP/1.1",
    "POST /form HTTP/1.0",
];

/// For whom a line says that a request was.
fn remote(line: &str) -> String {
    let line: Value = serde_json::from_str(line).expect("JSON");
    line["remote"].as_str().expect("an address").to_owned()
}

/// Whose word is taken is a setting.
fn those_whom_proxies_ask_for(variant: &Variant) {
    let asked_for = |config: &str| -> Vec<String> {
        let (server, log) = logging(variant, "json", config);
        let mut client = server.connect();
        let requests = [
            ("/hello.txt?1", &[("X-Forwarded-For", "192.0.2.1, 198.51.100.7")][..]),
            ("/hello.txt?2", &[("Forwarded", "for=\"[2001:db8::1]:80\";proto=https")]),
            ("/hello.txt?3", &[("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.2")]),
            ("/hello.txt?4", &[]),
        ];
        for (target, fields) in requests {
            assert_eq!(client.fetch("GET", target, fields).status, 200);
        }
        // A pipeline has several threads: their lines come when they like.
        let mut lines = lines(&log, 4);
        lines.sort_by_key(|line| requests.iter().position(|(target, _)| line.contains(target)));
        let schemes = lines.iter().filter(|line| line.contains(",\"scheme\":\"https\"")).count();
        assert_eq!(schemes, usize::from(config.contains("127")), "{lines:?}");
        lines.iter().map(|line| remote(line)).collect()
    };
    let peer = "127.0.0.1";
    assert_eq!(asked_for(""), [peer; 4]);
    assert_eq!(asked_for("[proxies]\ntrusted = ['unix', '10.0.0.0/8']"), [peer; 4]);
    assert_eq!(asked_for("[proxies]\ntrusted = '127.0.0.0/8'"), ["198.51.100.7", "2001:db8::1", peer, peer]);
}

/// By the header that a connection begins with, where one is agreed upon.
fn those_whom_connections_announce(variant: &Variant) {
    let listen = "listen = '127.0.0.1:0'\n";
    let (server, log) = logging(
        variant,
        "json",
        &format!(
            "{listen}[proxies]\ntrusted = '127.0.0.1'\nprotocol = '127.0.0.1:0'\n[timeouts]\nheader = '1 s'"
        ),
    );
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\x7f\0\0\x01\x12\x34\0\x50";
    for (header, cut) in [
        (&b"PROXY TCP4 198.51.100.7 127.0.0.1 4660 80\r\n"[..], 1000),
        (b"PROXY TCP6 2001:db8::1 ::1 4660 80\r\n", 9),
        (b"PROXY UNKNOWN\r\n", 3),
        (v2, 13),
    ] {
        let mut client = server.connect();
        let (now, later) = header.split_at(cut.min(header.len()));
        client.send(now);
        if !later.is_empty() {
            harness::sleep_ms(20);
            client.send(later);
        }
        assert_eq!(client.get("/hello.txt").text(), HELLO);
        assert_eq!(client.get("/hello.txt").text(), HELLO);
    }
    // Nothing is said to whoever does not begin so, or not in time.
    for header in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PROXY TCP4 1.1.1.1\r\n", "PROXY TCP4 198.51."] {
        let mut client = server.connect();
        client.send(header);
        client.expect_end();
    }
    // Nor to whoever leaves before.
    for header in ["", "PROXY TCP4 198.51."] {
        let mut client = server.connect();
        client.send(header);
        client.half_close();
        client.expect_end();
    }
    eventually("they are counted", || server.count("proxy_headers_refused") == 4);
    let mut remotes: Vec<String> = lines(&log, 8).iter().map(|line| remote(line)).collect();
    remotes.sort();
    let expected =
        ["127.0.0.1", "192.0.2.7", "198.51.100.7", "2001:db8::1"].map(|address| [address; 2]).concat();
    assert_eq!(remotes, expected);
    // Somebody else's word is not taken.
    let (server, _) = logging(
        variant,
        "json",
        &format!("{listen}[proxies]\ntrusted = '10.0.0.0/8'\nprotocol = '127.0.0.1:0'"),
    );
    let mut client = server.connect();
    client.send("PROXY UNKNOWN\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
    client.expect_end();
}

fn combined_lines(variant: &Variant) {
    let (server, log) = logging(variant, "combined", "");
    let outcomes = ask_everything(&server);
    let lines = lines_of_everything(&log, outcomes.len());
    for (number, (line, (status, bytes))) in lines.iter().zip(&outcomes).enumerate() {
        let rest = line.strip_prefix("127.0.0.1 - - [").unwrap_or_else(|| panic!("{line}"));
        let (time, rest) = rest.split_once("] ").expect("a time");
        let is_like = |like: &str| {
            like.len() == time.len()
                && like.bytes().zip(time.bytes()).all(|(like, byte)| match like {
                    b'9' => byte.is_ascii_digit(),
                    b'A' => byte.is_ascii_alphabetic(),
                    other => byte == other,
                })
        };
        assert!(is_like("99/AAA/9999:99:99:99 +0000"), "{time}");
        let asked = ASKED.get(number).unwrap_or(&"-");
        let agent = if number == 3 { "\"http://x/\" \"test/1\"" } else { "\"-\" \"-\"" };
        assert_eq!(rest, format!("\"{asked}\" {status} {bytes} {agent}"));
    }
}

fn json_lines(variant: &Variant) {
    let (server, log) = logging(variant, "json", "");
    let outcomes = ask_everything(&server);
    for (number, (line, (status, bytes))) in
        lines_of_everything(&log, outcomes.len()).iter().zip(&outcomes).enumerate()
    {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let told = (value["status"].as_u64(), value["bytes"].as_u64(), value["remote"].as_str());
        assert_eq!(told, (Some((*status).into()), Some(*bytes as u64), Some("127.0.0.1")), "{line}");
        assert!(number == 0 || number == 7 || value.get("accept_ms").is_none(), "{line}");
        assert!(value["duration_ms"].as_u64().is_some_and(|ms| ms < 15_000), "{line}");
        assert!(value["time"].as_str().is_some_and(|time| time.len() == 20 && time.ends_with('Z')), "{line}");
        let asked: Vec<Value> = ASKED
            .get(number)
            .map_or_else(|| vec![Value::Null; 3], |line| words(line).map(Value::from).to_vec());
        assert_eq!(
            [&value["method"], &value["target"], &value["version"]],
            [&asked[0], &asked[1], &asked[2]],
            "{line}"
        );
        let agent = if number == 3 { Value::from("test/1") } else { Value::Null };
        assert_eq!(value["user_agent"], agent, "{line}");
    }
}

/// It is looked at now and then, and told in the connection's first line.
fn time_in_the_accept_queue(variant: &Variant) {
    let (server, log) = logging(variant, "json", "");
    eventually("one is looked at", || {
        let mut client = server.connect();
        assert_eq!([client.get("/hello.txt?1").status, client.get("/hello.txt?2").status], [200, 200]);
        fs::read_to_string(&log).is_ok_and(|text| text.contains("\"accept_ms\":"))
    });
    for line in fs::read_to_string(&log).expect("a log").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let is_first = line["target"] == "/hello.txt?1";
        assert!(line.get("accept_ms").is_none_or(|ms| is_first && ms.is_u64()), "{line}");
    }
}

/// What is in memory is written when the server ends.
fn standard_output(variant: &Variant) {
    let mut server = Setup::new(variant).argument("--access-log=-").start();
    for _ in 0..100 {
        assert_eq!(server.get("/hello.txt").status, 200);
    }
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    assert_eq!(
        server.stdout().lines().filter(|line| line.contains("\"GET /hello.txt HTTP/1.1\" 200 13 ")).count(),
        100
    );
}

/// The size is that of the body as sent, which may be less than was promised.
fn cut_replies(variant: &Variant) {
    let (server, log) = logging(variant, "json", "[tcp]\nsend_buffer = \"64 KiB\"");
    server.write("big.bin", pattern(5, 4 << 20));
    let mut client = Client::connect_narrow(server.address);
    client.ask("GET", "/big.bin", &[]);
    assert_eq!(client.read_raw(10_000).expect("a beginning").len(), 10_000);
    client.reset();
    let value: Value = serde_json::from_str(&lines(&log, 1)[0]).expect("JSON");
    let bytes = value["bytes"].as_u64().expect("a number");
    assert!((5_000..4 << 20).contains(&bytes), "{value}");
}

/// A request that was read is written down, also if it is refused.
fn refused_requests(variant: &Variant) {
    let (server, log) = logging(variant, "combined", "[limits]\nbody = 10");
    let agent = "Host: x\r\nUser-Agent: test/1\r\n";
    assert_eq!(server.one(format!("GET /a HTTP/1.1\r\n{agent}Expect: more\r\n\r\n")).status, 417);
    let mut client = server.connect();
    client.send(format!("HEAD /b HTTP/1.1\r\n{agent}Content-Length: 11\r\n\r\n"));
    assert_eq!(client.reply_to("HEAD").status, 413);
    let mut lines = lines(&log, 2);
    lines.sort_by_key(|line| line.contains("/b"));
    for (line, asked) in lines.iter().zip(["\"GET /a HTTP/1.1\" 417 ", "\"HEAD /b HTTP/1.1\" 413 0 "]) {
        assert!(line.contains(asked) && line.ends_with(" \"-\" \"test/1\""), "{line}");
    }
}

/// No client can make a line that is not its own, or one that cannot be read.
fn hostile_values(variant: &Variant) {
    for format in ["combined", "json"] {
        let (server, log) = logging(variant, format, "");
        let hostile = b"GET /%22%0a?\"\\\xff\xc2\x9b HTTP/1.1\r\nHost: x\r\n\
            User-Agent: a\"b\\c\td\xff\x1b[31m\r\nReferer: \"\r\n\r\n";
        // An escape character is refused; without it the line is for the log to bear.
        assert_eq!(server.one(hostile).status, 400);
        let hostile: Vec<u8> = hostile.iter().copied().filter(|&byte| byte != 0x1b).collect();
        assert!(server.one(hostile).status >= 400);
        // Workers write their lines in no order among each other.
        let lines = lines(&log, 2);
        let line = lines.iter().find(|line| line.contains("/%22")).expect("the readable request");
        if format == "json" {
            let value: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(value["target"], "/%22%0a?\"\\\u{fffd}\u{9b}");
            assert_eq!(value["user_agent"], "a\"b\\c\td\u{fffd}[31m");
        } else {
            let end = r#""\x22" "a\x22b\x5Cc\x09d\xFF[31m""#;
            assert!(
                line.ends_with(end) && line.contains(r#""GET /%22%0a?\x22\x5C\xFF\xC2\x9B HTTP/1.1""#),
                "{line}"
            );
        }
    }
}

/// Sites may have logs of their own, or none; the others have the common one, which tells of requests for
/// nobody knows whom, too. Each is opened anew by its name.
fn logs_of_sites(variant: &Variant) {
    let setup = Setup::new(variant);
    let (own, root) = (setup.directory().join("own.log"), setup.root().display().to_string());
    let sites = format!(
        "[limits]\nbody = 10\n\
         [[sites]]\nhosts = 'own.example'\nroot = '{root}'\naccess_log = '{}'\nlog_format = 'json'\n\
         [[sites]]\nhosts = 'silent.example'\nroot = '{root}'\naccess_log = 'off'\n\
         [[sites]]\nhosts = 'common.example'\nroot = '{root}'\n",
        own.display()
    );
    let common = setup.directory().join("access.log");
    let setup = setup.argument(format!("--access-log={}", common.display())).config(&sites);
    let server = setup.argument("--log-format=combined").start();
    let ask = |host: &str, target: &str| {
        let asked = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(server.one(asked).status, 404, "{host}");
    };
    for (host, target) in
        [("silent.example", "/a"), ("OWN.example:80", "/b"), ("common.example", "/c"), ("else.example", "/d")]
    {
        ask(host, target);
    }
    for host in ["own.example", "silent.example"] {
        let refused = format!("POST /e HTTP/1.1\r\nHost: {host}\r\nContent-Length: 11\r\n\r\n");
        assert_eq!(server.one(refused).status, 413, "{host}");
    }
    assert_eq!(server.one("GET /f HTTP/1.1\r\nHost: own.example\r\nBAD\r\n\r\n").status, 400);
    let target = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["target"].as_str().expect("a target").to_owned()
    };
    let mut targets: Vec<_> = lines(&own, 2).iter().map(|line| target(line)).collect();
    targets.sort();
    assert_eq!(targets, ["/b", "/e"]);
    let mut asked: Vec<_> =
        lines(&common, 3).iter().map(|line| line.split('"').nth(1).unwrap_or_default().to_owned()).collect();
    asked.sort();
    assert_eq!(asked, ["-", "GET /c HTTP/1.1", "GET /d HTTP/1.1"]);

    for log in [&own, &common] {
        fs::rename(log, log.with_extension("old")).expect("a log");
    }
    server.signal(Signal::USR1);
    let has_line = |log: &PathBuf| fs::read_to_string(log).is_ok_and(|text| text.contains("/again"));
    eventually("both logs are new files", || {
        ask("own.example", "/again");
        ask("common.example", "/again");
        has_line(&own) && has_line(&common)
    });
}

/// Each log has a writer of its own.
fn a_log_that_holds_up_no_other(variant: &Variant) {
    let setup = Setup::new(variant);
    let path = setup.directory().join("own.log");
    let site = format!(
        "[[sites]]\nhosts = 'own.example'\nroot = '{}'\naccess_log = '{}'\n",
        setup.root().display(),
        path.display()
    );
    let (server, _fifo) = into_a_fifo(setup, "drop", &site);
    log_much(&mut server.connect());
    assert!(server.count("access_log_dropped/behind") > 0);
    assert_eq!(server.one("GET /own HTTP/1.0\r\nHost: own.example\r\n\r\n").status, 404);
    assert!(lines(&path, 1)[0].contains("/own"));
}

/// A log that goes into a FIFO which is open, but that nobody reads.
fn into_a_fifo(setup: Setup, when_full: &str, config: &str) -> (Server, fs::File) {
    let path = setup.directory().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a FIFO");
    // Opened for reading and writing, so that neither side has to wait for the other to open it.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut options = OpenOptions::new();
    let fifo = options.read(true).write(true).custom_flags(nonblocking).open(&path).expect("a FIFO");
    let setup = setup.argument(format!("--access-log={}", path.display()));
    (
        setup
            .argument(format!("--log-when-full={when_full}"))
            .config(&format!("drain_timeout = \"1 s\"\n{config}"))
            .start(),
        fifo,
    )
}

/// Four megabytes of lines: more than the FIFO and the server's memory for lines hold.
const MANY: usize = 1000;

fn log_much(client: &mut Client) {
    let agent = "x".repeat(4000);
    for _ in 0..MANY / 50 {
        client.send(request("GET", "/hello.txt", &[("User-Agent", &agent)]).repeat(50));
        for _ in 0..50 {
            assert_eq!(client.reply().text(), HELLO);
        }
    }
}

fn disk_that_stands_still(variant: &Variant) {
    let (mut server, fifo) = into_a_fifo(Setup::new(variant), "drop", "");
    log_much(&mut server.connect());
    let dropped = server.count("access_log_dropped/behind");
    assert!(dropped > 0 && dropped < MANY as u64, "{dropped} lines dropped");
    assert_eq!(server.get("/hello.txt").status, 200);
    server.signal(Signal::TERM);
    assert_eq!(
        server.exit_code(),
        Some(0),
        "a log that can't be written does not keep the server from ending"
    );
    drop(fifo);
}

/// Who waits for the disk can still be stopped, if not in good order.
fn waiting_can_be_stopped(variant: &Variant) {
    let (mut server, _fifo) = into_a_fifo(Setup::new(variant), "wait", "");
    let address = server.address;
    let asking = thread::spawn(move || {
        let mut client = Client::connect(address);
        let agent = "x".repeat(4000);
        let _ = client.try_send(request("GET", "/hello.txt", &[("User-Agent", &agent)]).repeat(MANY));
        client.replies_until_end().0.len()
    });
    harness::sleep_ms(500);
    server.signal(Signal::TERM);
    harness::sleep_ms(200);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(1));
    assert!(asking.join().expect("replies") > 0);
}

/// No line is lost when the operator says so, at the price of waiting.
fn waiting_for_the_disk(variant: &Variant) {
    let (server, mut fifo) = into_a_fifo(Setup::new(variant), "wait", "");
    let address = server.address;
    let asking = thread::spawn(move || log_much(&mut Client::connect(address)));
    harness::sleep_ms(500);
    assert!(!asking.is_finished(), "it waits");
    let mut text = Vec::new();
    eventually("all lines come", || {
        let _ = fifo.read_to_end(&mut text);
        text.split(|&byte| byte == b'\n').count() == MANY + 1
    });
    asking.join().expect("every request was answered");
    assert_eq!(server.count("access_log_dropped/behind"), 0);
}
