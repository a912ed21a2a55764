//! `sluicelab load` as it is asked: what its options make of requests, load and exit codes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE};
use harness::variant::VARIANTS;

fn run(target: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
    command.args(["load", "--target", target]).args(arguments).output().expect("sluicelab runs")
}

/// The results of a run whose figures may be the machine's, if that is busy.
fn load(target: &str, arguments: &[&str]) -> Value {
    let output = run(target, &[arguments, &["--format=json"]].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {told}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The results of a run that the machine did not disturb, if one of three is that.
fn undisturbed(target: &str, arguments: &[&str]) -> Value {
    for _ in 0..2 {
        let output = run(target, &[arguments, &["--format=json"]].concat());
        if output.status.success() {
            return serde_json::from_slice(&output.stdout).expect("JSON");
        }
    }
    load(target, arguments)
}

/// Mistakes are told with what is allowed.
fn refused(arguments: &[&str], words: &str) {
    let output = run("http://127.0.0.1:1/", arguments);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
    assert!(told.contains(words), "{arguments:?}: {told}");
}

/// How often it has read each request: its first line, those that are asked about, and its body.
type Heard = Arc<Mutex<BTreeMap<String, u64>>>;

/// A server that answers everything, and keeps what it was asked for.
fn listener() -> (SocketAddr, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let heard = Heard::default();
    let all = Arc::clone(&heard);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let all = Arc::clone(&all);
            thread::spawn(move || listen(BufReader::new(client), &all));
        }
    });
    (address, heard)
}

fn listen(mut client: BufReader<TcpStream>, all: &Heard) {
    loop {
        let mut head: Vec<String> = Vec::new();
        while head.last().is_none_or(|line| !line.is_empty()) {
            let mut line = String::new();
            if client.read_line(&mut line).is_ok_and(|count| count == 0) {
                return;
            }
            head.push(line.trim_end().to_owned());
        }
        let field = |name: &str| head.iter().find_map(|line| line.strip_prefix(name)).unwrap_or("-");
        let mut body = vec![0; field("Content-Length: ").parse().unwrap_or(0)];
        client.read_exact(&mut body).expect("a body");
        let what = [
            head[0].trim_end_matches(" HTTP/1.1"),
            field("Content-Length: "),
            field("Content-Type: "),
            field("Host: "),
            &String::from_utf8_lossy(&body),
        ];
        *all.lock().expect("the lock").entry(what.join("|")).or_default() += 1;
        let (_, status) = head[0].split_once(" /status/").unwrap_or(("", "200"));
        let reply = format!("HTTP/1.1 {} Said\r\nContent-Length: 0\r\n\r\n", &status[..3]);
        let _ = client.get_mut().write_all(reply.as_bytes());
    }
}

fn heard(heard: &Heard) -> Vec<(String, u64)> {
    std::mem::take(&mut *heard.lock().expect("the lock")).into_iter().collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// As with wrk, oha and hey.
#[test]
fn short_options_and_a_url_suffice() {
    let (address, all) = listener();
    let url = format!("http://{address}/a");
    let typed = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
        let output = command.args(["load", &url]).args(arguments).output().expect("sluicelab runs");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}: {output:?}");
        // No sessions were asked for.
        assert!(told.contains("\nrequests ") && !told.contains("session"), "{arguments:?}: {told}");
        heard(&all).into_iter().map(|(_, count)| count).sum::<u64>()
    };
    for (arguments, expected) in [
        (&["-c4", "-n", "1003"] as &[&str], 1003),
        (&["-c", "4", "-n", "1003", "--requests-per-connection=10", "--burst=3"], 1003),
        (&["-c", "9", "-n", "5"], 5),
        (&["-r", "400", "-n", "50", "-H", "X: y"], 50),
        (&["-r", "400", "-n", "50", "--requests-per-connection=3"], 50),
        (&["-r", "400", "-c", "2", "-n", "50"], 50),
        (&["-c2", "-n1000000000", "-d200ms"], 0),
    ] {
        let found = typed(arguments);
        assert!(found == expected || expected == 0 && found > 0, "{arguments:?}: {found}");
    }
    refused(&["-c1", "-n0"], "--requests <N>");
    refused(&["-c1", "-n5", "--session-count=5"], "cannot be used with");
    refused(&[], "how does load come? Say --connections N (-c)");
    let alone = Command::new(env!("CARGO_BIN_EXE_sluicelab")).args(["load", "-c1"]).output();
    let told = String::from_utf8_lossy(&alone.expect("sluicelab runs").stderr).into_owned();
    assert!(told.contains("URL"), "{told}");
}

/// `localhost` is at both loopback addresses.
#[test]
fn a_name_is_tried_at_all_its_addresses() {
    let server = TcpListener::bind("[::1]:0").expect("a listener");
    let port = server.local_addr().expect("an address").port();
    let heard = Heard::default();
    thread::spawn(move || {
        for client in server.incoming().flatten() {
            listen(BufReader::new(client), &heard);
        }
    });
    let results = load(&format!("http://localhost:{port}/"), &["-c1", "-n1"]);
    assert_eq!(results["run"]["targets"][0], format!("http://[::1]:{port}"));
    assert_eq!(results["replies"]["count"], 1);
}

/// One CPU of generator is too few on purpose: with a limit on statuses the exit code tells of the server.
#[test]
fn a_limit_on_replies_holds_for_a_generator_that_is_short() {
    let (address, _) = listener();
    let missing = format!("http://{address}/status/404");
    let arguments = ["-c4", "-n2000", "--may-wait=0", "--fail-if=4xx > 0", "--format=json"];
    let output = run(&missing, &arguments);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

#[test]
fn connections_are_kept_at_a_rate() {
    let server = Server::start(&VARIANTS[0]);
    let target = format!("http://{}/hello.txt", server.address);
    let paced = ["--rate=200", "--connections=4", "--duration=1s", "--arrivals=fixed"];
    let results = undisturbed(&target, &paced);
    let run = &results["run"];
    assert_eq!((&run["model"], &run["connections"]), (&"paced".into(), &4.into()));
    assert_eq!(run["outcome"]["due_sessions"], 200);
    // On a busy machine the last of them are sent, or answered, when the measured time is over.
    let (issued, replies) = (number(&results["calls"]["issued"]), number(&results["replies"]["count"]));
    assert!((180..=200).contains(&issued) && (180..=200).contains(&replies), "{results:#}");
    assert_eq!(number(&results["replies"]["statuses"]["2xx"]), replies);
    assert_eq!(number(&results["calls"]["outcomes"]["reply"]), issued);
    assert_eq!(number(&results["connections"]["tried"]), 4);

    refused(&["--rate=5", "--connections=4", "--requests-per-connection=9"], "connections are kept");
    refused(&["--rate=5", "--connections=4", "--target=http://127.0.0.1:1/other"], "have the same path");
}

#[test]
fn requests_are_as_they_were_asked_for() {
    let (address, all) = listener();
    let target = format!("http://{address}/form?x");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("body");
    fs::write(&file, "line\n\"").expect("a file");
    let from_file = format!("--data-file={}", file.display());
    let content_type = "--header=Content-Type: text/plain";
    let at_file = format!("--data=@{}", file.display());
    for (arguments, expected) in [
        (&["--data=a=1&b"] as &[&str], format!("POST /form?x|5|-|{address}|a=1&b")),
        (&["--data="], format!("POST /form?x|0|-|{address}|")),
        (&["--method=PUT", &from_file, content_type], format!("PUT /form?x|6|text/plain|{address}|line\n\"")),
        (&["--method=DELETE", "--host=h:1"], "DELETE /form?x|-|-|h:1|".to_owned()),
        (&["--burst=3"], format!("GET /form?x|-|-|{address}|")),
        (&[&at_file], format!("POST /form?x|6|-|{address}|line\n\"")),
    ] {
        let usual = ["--connections=2", "--session-count=2", "--requests-per-connection=4"];
        let results = load(&target, &[&usual, arguments].concat());
        assert_eq!((&results["replies"]["count"], heard(&all)), (&8.into(), vec![(expected, 8)]));
    }
    refused(&["--rate=1", "--method=B/W"], "is no token; allowed: any name of 1 to 64 letters");
    refused(&["--rate=1", &format!("--method={}", "M".repeat(65))], "is too long; allowed");
    refused(&["--rate=1", "--method=CONNECT"], "asks for a tunnel; allowed");
    refused(&["--rate=1", "--data=x", "--sessions=x"], "cannot be used with");
    refused(&["--rate=1", "--data-file=/nonexistent"], "--data-file /nonexistent: No such file");
    refused(&["--rate=1", "--data=@/nonexistent"], "--data /nonexistent: No such file");
}

/// The head of the one request that is sent with these arguments.
fn head(target: &str, arguments: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address").to_string();
    let server = thread::spawn(move || {
        let mut client = BufReader::new(listener.accept().expect("a client").0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(client.read_line(&mut head).expect("a line"), 0, "{head}");
        }
        let _ = client.get_mut().write_all(b"HTTP/1.1 204 None\r\n\r\n");
        head
    });
    let usual = ["--connections=1", "--session-count=1"];
    load(&target.replace("ADDRESS", &address), &[&usual, arguments].concat());
    server.join().expect("a head").replace(&address, "ADDRESS")
}

#[test]
fn nothing_is_sent_that_http_does_not_allow() {
    let (host, agent) = ("Host: ADDRESS\r\n", "User-Agent: sluicelab\r\n");
    let usual = format!("{host}{agent}");
    let once = "--requests-per-connection=1";
    for (target, argument, expected) in [
        ("http://ADDRESS?x", once, format!("GET /?x HTTP/1.1\r\n{usual}\r\n")),
        ("HTTP://ADDRESS/a?b#c", once, format!("GET /a?b HTTP/1.1\r\n{usual}\r\n")),
        ("ADDRESS", "--method=PROPFIND", format!("PROPFIND / HTTP/1.1\r\n{usual}\r\n")),
        ("ADDRESS", "--method=PUT", format!("PUT / HTTP/1.1\r\n{usual}Content-Length: 0\r\n\r\n")),
        ("ADDRESS", "--method=PATCH", format!("PATCH / HTTP/1.1\r\n{usual}Content-Length: 0\r\n\r\n")),
        ("ADDRESS", "--header=Accept: a", format!("GET / HTTP/1.1\r\n{usual}Accept: a\r\n\r\n")),
        ("ADDRESS", "--header=host: x:1", format!("GET / HTTP/1.1\r\nhost: x:1\r\n{agent}\r\n")),
        ("ADDRESS", "--header=User-Agent: u", format!("GET / HTTP/1.1\r\n{host}User-Agent: u\r\n\r\n")),
    ] {
        assert_eq!(head(target, &[once, argument][usize::from(argument == once)..]), expected, "{target}");
    }
    refused(&["--rate=1", "--header=Content-Length: 5"], "the body says its length; use --data");
    refused(&["--rate=1", "--header=Transfer-Encoding: chunked"], "bodies are sent whole");
    refused(&["--rate=1", "--header=Host: a", "--header=HOST: b"], "'HOST: ...' is given twice");
    refused(&["--rate=1", "--header=Host: a", "--host=b"], "is given twice; allowed: once, or --host");
    refused(&["--rate=1", "--method=TRACE", "--data=x"], "a TRACE has no body; allowed");
    refused(&["--rate=1", "--host=a b"], "\"a b\" is no host; allowed: a name or an address");
    refused(&["--rate=1", "--target=http://127.0.0.1:1/a|b"], "has '|', which must be percent-encoded");
    refused(&["--rate=1", "--target=http://127.0.0.1:1/ü"], "must be percent-encoded (%C3%BC)");
    refused(&["--rate=1", "--target=http://127.0.0.1:0/"], "a port is a number from 1 to 65535");
}

/// A run that can't be as it is asked for is refused before anything is sent.
#[test]
fn options_for_tls_need_a_target_with_tls_and_go_together() {
    for (option, named) in [
        ("--roots=own.pem", "--roots own.pem"),
        ("--insecure", "--insecure"),
        ("--tls-name=localhost", "--tls-name localhost"),
        ("--resumption=off", "--resumption off"),
        ("--tls-version=1.3", "--tls-version 1.3"),
        ("--tls-group=X25519", "--tls-group x25519"),
        ("--tls-cipher=tls_aes_128_gcm_sha256", "--tls-cipher TLS_AES_128_GCM_SHA256"),
    ] {
        let told = format!("{named}: no target speaks TLS; leave it out, or name a target such as https://");
        refused(&["--rate=1", option], &told);
    }
    let tls = "--target=https://127.0.0.1:1/";
    refused(&["--rate=1", tls, "--tls-group=x448"], "allowed: x25519mlkem768, secp256r1mlkem768, x25519, ");
    refused(&["--rate=1", tls, "--tls-cipher=AES"], "allowed: TLS_AES_256_GCM_SHA384, ");
    refused(&["--rate=1", tls, "--tls-version=1.1"], "allowed: 1.2, 1.3");
    refused(&["--rate=1", tls, "--tls-name=a b"], "a certificate can't have this name");
    refused(&["--rate=1", tls, "--resumption=maybe"], "'maybe'");
    refused(&["--rate=1", tls, "--roots=nowhere.pem"], "--roots nowhere.pem: No such file or directory");
    refused(&["--rate=1", tls, "--roots=/dev/null"], "--roots /dev/null: there is no certificate in it");
    refused(&["--rate=1", tls, "--roots=a.pem", "--insecure"], "cannot be used with");
    let both = ["--rate=1", tls, "--insecure", "--tls-version=1.2", "--tls-group=x25519mlkem768"];
    refused(&both, "--tls-version 1.2 (TLS 1.2) --tls-group x25519mlkem768 (TLS 1.3): no version of TLS");
}

#[test]
fn replies_without_success_are_told_and_have_limits() {
    let (address, _) = listener();
    let usual = ["--connections=1", "--session-count=5", "--requests-per-connection=1"];
    let last = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().last().unwrap_or_default().to_owned()
    };
    // What has no meaning is a 5xx.
    for (status, class) in [(404, "4xx"), (500, "5xx"), (600, "5xx"), (999, "5xx")] {
        let target = format!("http://{address}/status/{status}");
        let output = run(&target, &usual);
        assert_eq!(last(&output), format!("WARNING: no reply has a status of 2xx: 5 of {class}"));
        for (limit, found) in [(format!("{class} > 0"), "5"), ("non-2xx >= 100%".to_owned(), "100%")] {
            let output = run(&target, &[&usual[..], &[&format!("--fail-if={limit}")]].concat());
            let told = format!("threshold     BROKEN: found {found}; broken if {limit}");
            assert_eq!(last(&output), told);
            assert!(matches!(output.status.code(), Some(3 | 4)), "{}", output.status);
        }
    }
    // A limit on times holds for a server that is wrong, too.
    let output =
        run(&format!("http://{address}/status/404"), &[&usual[..], &["--fail-if=p50 > 9s"]].concat());
    assert_eq!(last(&output), "WARNING: no reply has a status of 2xx: 5 of 4xx");
    let output = run(&format!("http://{address}/status/204"), &usual);
    assert!(!last(&output).contains("WARNING"), "{}", last(&output));
    let output = run("http://127.0.0.1:1/", &["--rate=50", "--session-count=5"]);
    assert_eq!(last(&output), "FAILED: none of 5 calls was answered: connection refused (refused), 5 times");
}

#[test]
fn a_list_of_urls_is_gone_through_by_weight() {
    let (address, all) = listener();
    let target = format!("http://{address}/unused");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("urls");
    fs::write(&file, "/a 3\n/b\n# and\n/c?d 6\n").expect("a file");
    let urls = format!("--urls={}", file.display());
    let told = |path: &str, count: u64| (format!("HEAD {path}|-|-|{address}|"), count);
    for load_of in [
        &["--rate=400", "--session-count=100"] as &[&str],
        &["--rate=400", "--connections=2", "--session-count=100"],
        &["--connections=3", "--session-count=10", "--requests-per-connection=10"],
        &["--connections=3", "--session-count=20", "--requests-per-connection=5", "--burst=2"],
    ] {
        let results = load(&target, &[&[&*urls, "--method=HEAD"], load_of].concat());
        assert_eq!(number(&results["replies"]["count"]), 100, "{load_of:?}");
        assert_eq!(heard(&all), [told("/a", 30), told("/b", 10), told("/c?d", 60)], "{load_of:?}");
    }
    fs::write(&file, "/a\nb\n").expect("a file");
    refused(&["--rate=1", &urls], "urls: line 2: b is no path");
    refused(&["--rate=1", "--urls=/nonexistent"], "--urls /nonexistent: No such file");
}

#[test]
fn what_a_run_fails_if_it_is_so_is_its_exit_code() {
    let (address, _) = listener();
    let target = format!("http://{address}/");
    for (thresholds, kept) in [
        (&["replies/s > 50", "errors > 0"], [false, true]),
        (&["p50 >= 30s", "replies/s < 10"], [true, true]),
    ] {
        let [one, other] = thresholds.map(|threshold| format!("--fail-if={threshold}"));
        let usual = ["--rate=100", "--arrivals=fixed", "--duration=1s", "--format=json"];
        let output = run(&target, &[&usual[..], &[&one, &other]].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let judged = results["thresholds"].as_array().expect("thresholds");
        let said: Vec<_> =
            judged.iter().map(|of| (of["expression"].as_str(), of["holds"].as_bool())).collect();
        assert_eq!(said, [(Some(thresholds[0]), Some(kept[0])), (Some(thresholds[1]), Some(kept[1]))]);
        let expected = match (&results["valid"], kept[0]) {
            (Value::Bool(false), _) => 3,
            (_, true) => 0,
            (_, false) => 4,
        };
        assert_eq!(output.status.code(), Some(expected), "{told}");
        let broken = told.lines().any(|line| line.contains("BROKEN: ") && line.ends_with("replies/s > 50"));
        assert_eq!(broken, !kept[0], "{told}");
    }
    // Nobody listens on port 1: 1 goes before 4.
    let output = run("http://127.0.0.1:1/", &["--rate=50", "--duration=200ms", "--fail-if=errors > 1%"]);
    assert_eq!(output.status.code(), Some(1));
    // What was stopped by its warm-up is not valid, and 3 goes before 4.
    let short = ["--rate=50", "--session-count=2", "--warm-up=10s", "--fail-if=p99 > 1us"];
    assert_eq!(run(&target, &short).status.code(), Some(3));
    refused(&["--rate=5", "--fail-if=p0 > 1ms"], "\"p0\" is not known; allowed: mean, max or a percentile");
}

/// Every model, and bodies that the kernel does not drop.
#[test]
fn unix_sockets_are_targets() {
    let setup = Setup::new(&VARIANTS[0]);
    let socket = setup.directory().join("socket");
    let listen = format!("listen = [\"127.0.0.1:0\", \"unix:{}\"]", socket.display());
    let server = setup.config(&listen).start();
    let target = |path: &str| format!("unix:{}:{path}", socket.display());
    let verify = format!("--verify={}", server.root().display());
    for model in [
        &["--rate=100", "--session-count=20"] as &[&str],
        &["--rate=100", "--connections=2", "--session-count=20"],
        &["--connections=2", "--session-count=2", "--requests-per-connection=10"],
    ] {
        for more in [&[] as &[&str], &[&verify]] {
            let results = load(&target("/large.bin"), &[model, more].concat());
            assert_eq!(number(&results["replies"]["count"]), 20, "{results:#}");
            assert_eq!(number(&results["replies"]["body_bytes"]), 20 * LARGE as u64, "{model:?}");
            assert_eq!(results["run"]["targets"][0], format!("unix:{}", socket.display()));
            assert!(results["run"]["outcome"]["queue_drops"].is_null());
        }
    }
    let both = format!("--target=http://{}/hello.txt", server.address);
    let results = load(&target("/hello.txt"), &[&both, "--rate=100", "--session-count=20"]);
    assert_eq!(number(&results["replies"]["body_bytes"]), 20 * HELLO.len() as u64);

    let nobody = format!("unix:{}", server.directory().join("none").display());
    let output = run(&nobody, &["--rate=100", "--session-count=5", "--format=json"]);
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), number(&results["calls"]["outcomes"]["refused"])), (Some(1), 5));
    refused(&["--rate=1", "--target=unix:"], "a socket's name has 1 to 107 bytes; allowed");
    refused(&["--rate=1", "--target=unix:/x", "--source=127.0.0.1"], "Unix sockets have no address");
}

/// One class is served, and the other never, which the server tells apart by their addresses.
#[test]
fn classes_have_rates_timeouts_and_addresses_of_their_own() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let target = format!("http://{}/", listener.local_addr().expect("an address"));
    let all = Heard::default();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for client in listener.incoming().flatten() {
            if client.peer_addr().expect("an address").ip() == Ipv4Addr::new(127, 0, 0, 3) {
                kept.push(client);
            } else {
                let all = Arc::clone(&all);
                thread::spawn(move || listen(BufReader::new(client), &all));
            }
        }
    });
    let results = undisturbed(
        &target,
        &[
            "--class=quick: rate=100",
            "--class=slow: rate=20 timeout=150ms retries=2 source=127.0.0.3",
            "--duration=1s",
            "--arrivals=fixed",
        ],
    );
    let (quick, slow) = (&results["by_class"][0], &results["by_class"][1]);
    assert_eq!((&quick["class"], &slow["class"]), (&"quick".into(), &"slow".into()));
    // On a busy machine the last of 100 begin when the measured time is over.
    let calls = number(&quick["calls"]);
    assert!((90..=100).contains(&calls), "{calls}");
    assert_eq!(number(&quick["replies"]), calls);
    // Each of 20 clients asks three times; the last of them always begin after that time.
    let calls = number(&slow["calls"]);
    assert!((45..=60).contains(&calls), "{calls}");
    assert_eq!((number(&slow["replies"]), number(&slow["timeouts"])), (0, calls));
    assert_eq!(number(&slow["wait_ms"]["bounds"]), calls);
    assert_eq!(number(&results["calls"]["timeouts"]), calls);
    let asked: Vec<_> =
        (0..2).map(|class| &results["run"]["classes"][class]["asked_requests_per_s"]).collect();
    assert_eq!(
        (asked, &results["run"]["asked_requests_per_s"]),
        (vec![&100.0.into(), &20.0.into()], &120.0.into())
    );
    assert_eq!(results["run"]["outcome"]["due_sessions"], 120);

    refused(&["--class=slow: rate=5 handshakes-only"], "does not speak TLS; allowed: targets such as https");
    refused(
        &["--class=slow: rate=5 connections=1", "--cpus=0-1"],
        "--class 'slow: connections=1': each of the 2 --cpus needs one; allowed: from 2",
    );
    refused(&["--class=slow: rate=0"], "rate=0: a rate must be a number above 0");
    refused(&["--class=slow: rate=5", "--rate=5"], "cannot be used with");
    refused(&["--class=slow: rate=5", "--arrivals=logged"], "--arrivals logged");
    refused(&["--class=slow: rate=5 source=::1"], "--source");
}

#[test]
fn results_are_drawn_and_put_into_a_line() {
    let (address, _) = listener();
    let target = format!("http://{address}/");
    let usual = ["--rate=100", "--session-count=20"];
    for (locale, bar, other) in [("C.UTF-8", '\u{2588}', '#'), ("C", '#', '\u{2588}')] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
        command.args(["load", "--target", &target]).args(usual).env("LC_ALL", locale);
        let text = String::from_utf8(command.output().expect("sluicelab runs").stdout).expect("text");
        assert!(text.contains("reply time from intended start, ms\n"), "{text}");
        assert!(text.contains(bar) && !text.contains(other), "{locale}: {text}");
    }
    let output = run(&target, &[&usual[..], &["--format=csv"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Vec<String>> = text.lines().map(harness::csv::fields).collect();
    assert_eq!(lines.len(), 2, "{text}");
    let at = |name: &str| lines[0].iter().position(|found| found == name).expect("a column");
    let of = |name: &str| lines[1][at(name)].as_str();
    let found = ["model", "calls_issued", "replies_count", "calls_errors", "failed"].map(of);
    assert_eq!(found, ["open", "20", "20", "0", ""]);
    assert!(of("wait_ms_p99").parse::<f64>().is_ok_and(|ms| ms > 0.0), "{text}");
}
