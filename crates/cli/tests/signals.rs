//! Being a program: how it starts, what signals do to it, and how it ends (exit codes 0, 1 and 2).

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use support::client::{Broken, Client, one, request};
use support::server::{Server, Setup, parse_address};
use support::site::{HELLO, LARGE, large, pattern};
use support::variant::{Test, Variant, tests};
use support::{eventually, sleep_ms};

const TESTS: &[Test] = tests![
    idle_server_ends_at_once,
    drain_under_load,
    drain_empties_the_accept_queue,
    drain_finishes_replies_and_refuses_connections,
    drain_answers_pipelined_requests,
    drain_finishes_requests_that_arrive,
    drain_has_an_end,
    second_signal_stops_at_once,
    reload,
    reload_of_what_is_wrong,
    reload_keeps_connections,
    reload_of_listeners,
    upgrade,
    upgrade_to_what_does_not_work,
    nobody_reads_what_it_says,
    reopened_logs,
    port_in_use,
    wrong_configuration,
];

fn main() -> ExitCode {
    support::variant::run(&[("signals", TESTS)])
}

fn idle_server_ends_at_once(variant: &Variant) {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let mut server = Server::start(variant);
        let mut idle = server.connect();
        assert_eq!(idle.get("/hello.txt").status, 200);
        let mut silent = server.connect();
        sleep_ms(50);
        server.signal(signal);
        idle.expect_close();
        silent.expect_close();
        // It waits for them to close as well, but not for long.
        drop((idle, silent));
        assert_eq!(server.exit_code(), Some(0), "{signal:?}");
    }
}

/// What one client saw until the server was gone.
struct Seen {
    answered: usize,
    /// The last reply said that it was the last.
    told: bool,
    end: String,
}

/// Asks again and again on one connection, as soon as an answer has come.
fn keep_asking(address: SocketAddr, target: &'static str, body: usize) -> Seen {
    let mut client = Client::connect(address);
    let mut answered = 0;
    let mut told = false;
    while !told {
        if !client.try_send(request("GET", target, &[])) {
            return Seen { answered, told, end: "could not send".to_owned() };
        }
        match client.try_reply() {
            Ok(reply) => {
                assert_eq!((reply.status, reply.body.len()), (200, body));
                answered += 1;
                told = reply.closes();
            }
            Err(broken) => return Seen { answered, told, end: format!("{broken:?}") },
        }
    }
    Seen { answered, told, end: format!("{:?}", client.try_reply()) }
}

/// Asks on one connection after another, and is served on each until there is nobody to connect to; says how often.
fn come_anew(address: SocketAddr) -> usize {
    let mut count = 0;
    while let Ok(stream) = TcpStream::connect(address) {
        let mut client = Client::over(stream);
        assert!(client.try_send(request("GET", "/hello.txt", &[])), "let in, and reset before the request");
        match client.try_reply() {
            Ok(reply) => assert_eq!(reply.text(), HELLO),
            Err(broken) => panic!("let in, and then: {broken:?}"),
        }
        count += 1;
    }
    count
}

/// Every client is answered whatever it asks, until an answer says that the connection ends with it; then it does, in good
/// order.
fn drain_under_load(variant: &Variant) {
    let mut server = Server::start(variant);
    let address = server.address;
    let clients: Vec<_> = (0..40)
        .map(|number| {
            let (target, body) =
                if number % 4 == 0 { ("/large.bin", LARGE) } else { ("/hello.txt", HELLO.len()) };
            thread::spawn(move || keep_asking(address, target, body))
        })
        .collect();
    let newcomers: Vec<_> = (0..8).map(|_| thread::spawn(move || come_anew(address))).collect();
    sleep_ms(300);
    server.signal(Signal::TERM);
    for client in clients {
        let seen = client.join().expect("a client");
        assert!(seen.answered > 0);
        assert!(
            seen.told && seen.end == "Err(Closed)",
            "told: {}, {} after {}",
            seen.told,
            seen.end,
            seen.answered
        );
    }
    for newcomer in newcomers {
        assert!(newcomer.join().expect("a newcomer") > 0);
    }
    assert_eq!(server.exit_code(), Some(0));
}

/// Clients whose connection the kernel has completed are the server's, though it has not accepted them yet.
fn drain_empties_the_accept_queue(variant: &Variant) {
    for limit in ["1", "inf", "auto"] {
        let mut server = Setup::new(variant).argument(format!("--accept-limit={limit}")).start();
        server.signal_all(Signal::STOP);
        let mut clients: Vec<Client> = (0..50).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.ask("GET", "/hello.txt", &[]);
        }
        server.signal(Signal::TERM);
        server.signal_all(Signal::CONT);
        for (number, client) in clients.iter_mut().enumerate() {
            match client.try_reply() {
                // Whether the signal or the queue is noticed first is a matter of luck.
                Ok(reply) => assert_eq!(reply.text(), HELLO),
                Err(broken) => panic!("number {number} of the queue: {broken:?}"),
            }
            client.expect_close();
        }
        drop(clients);
        assert_eq!(server.exit_code(), Some(0));
    }
}

const BIG: usize = 4 << 20;

/// A server and a client that has begun to receive something big.
fn with_a_slow_client(variant: &Variant, config: &str) -> (Server, Client) {
    let setup = Setup::new(variant).file("big.bin", pattern(6, BIG));
    let server = setup.config(config).config("[tcp]\nsend_buffer = \"64 KiB\"").start();
    let mut client = Client::connect_narrow(server.address);
    client.ask("GET", "/big.bin", &[]);
    let beginning = client.read_raw(1000).expect("a beginning");
    client.unread(beginning);
    (server, client)
}

fn drain_finishes_replies_and_refuses_connections(variant: &Variant) {
    let (mut server, mut slow) = with_a_slow_client(variant, "");
    server.signal(Signal::TERM);
    eventually("the listener is closed", || TcpStream::connect(server.address).is_err());
    assert!(!server.has_ended());
    assert!(slow.reply().body == pattern(6, BIG));
    slow.expect_close();
    drop(slow);
    assert_eq!(server.exit_code(), Some(0));
}

fn drain_answers_pipelined_requests(variant: &Variant) {
    let (mut server, mut slow) = with_a_slow_client(variant, "");
    let mut other = server.connect();
    slow.ask("GET", "/hello.txt", &[]);
    assert_eq!(other.get("/hello.txt").status, 200);
    server.signal(Signal::TERM);
    sleep_ms(100);
    // One of them is on its way when the server begins to end; what is behind the reply that says close is not answered.
    other.send(request("GET", "/large.bin", &[]).repeat(2));
    let (replies, end) = other.replies_until_end();
    assert_eq!(replies.len(), 1);
    assert!(replies[0].closes() && replies[0].body == large());
    assert_eq!(end, Broken::Closed);
    // By now idle connections may be closed, but this one is not idle: its request was there before the reply was over.
    sleep_ms(700);
    let (replies, end) = slow.replies_until_end();
    assert!(
        replies[0].body.len() == BIG
            && replies.last().is_some_and(|reply| reply.text() == HELLO && reply.closes())
    );
    assert_eq!(end, Broken::Closed);
    drop((slow, other));
    assert_eq!(server.exit_code(), Some(0));
}

/// A request of which a part is there will be answered.
fn drain_finishes_requests_that_arrive(variant: &Variant) {
    let mut server = Server::start(variant);
    let mut client = server.connect();
    client.send("GET /hello.txt HT");
    sleep_ms(50);
    server.signal(Signal::TERM);
    sleep_ms(100);
    client.send("TP/1.1\r\nHost: x\r\n\r\n");
    let reply = client.reply();
    assert_eq!((reply.text().as_str(), reply.closes()), (HELLO, true));
    client.expect_close();
    drop(client);
    assert_eq!(server.exit_code(), Some(0));
}

fn drain_has_an_end(variant: &Variant) {
    let (mut server, mut slow) = with_a_slow_client(variant, "drain_timeout = \"300 ms\"");
    server.signal(Signal::TERM);
    let code = server.exit_code();
    let end = slow.try_reply();
    assert!(matches!(end, Err(Broken::Reset | Broken::CutShort(_))), "{end:?}");
    assert_eq!(code, Some(0));
}

fn second_signal_stops_at_once(variant: &Variant) {
    let (mut server, mut slow) = with_a_slow_client(variant, "");
    server.signal(Signal::TERM);
    sleep_ms(200);
    assert!(!server.has_ended(), "it waits for the slow client");
    server.signal(Signal::INT);
    let code = server.exit_code();
    assert!(slow.try_reply().is_err());
    assert_eq!(code, Some(0));
}

fn reload(variant: &Variant) {
    let server = Server::start(variant);
    assert!(server.get("/bare/").status >= 400);
    let config = "listing = true\n[[headers]]\nset = { X-New = \"yes\" }\n[limits]\nrequest_line = 300\n";
    server.rewrite_config(config);
    server.signal(Signal::HUP);
    // Workers hear of it one after another.
    eventually("the new settings hold", || (0..20).all(|_| server.get("/bare/").status == 200));
    assert_eq!(server.get("/hello.txt").need("X-New"), "yes");
    assert_eq!(server.get(&format!("/{}", "x".repeat(400))).status, 414);
    assert_eq!(server.get("/large.bin").body.len(), LARGE);
}

/// A file with a mistake changes nothing, and the mistake is told.
fn reload_of_what_is_wrong(variant: &Variant) {
    let mut server = Server::with(variant, "listing = true");
    for wrong in ["listing = 3", "[limits]\nrequest_line = \"1 XB\"", "nonsense"] {
        server.rewrite_config(wrong);
        let said = server.stderr().len();
        server.signal(Signal::HUP);
        eventually("the mistake is told", || {
            server.stderr().iter().skip(said).any(|line| line.contains("sluice.toml:"))
        });
        assert_eq!(server.get("/bare/").status, 200);
    }
    assert!(!server.has_ended());
    server.rewrite_config("listing = false");
    server.signal(Signal::HUP);
    eventually("the right settings hold", || server.get("/bare/").status >= 400);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

fn reload_keeps_connections(variant: &Variant) {
    let (server, mut slow) = with_a_slow_client(variant, "");
    let mut idle = server.connect();
    assert_eq!(idle.get("/hello.txt").status, 200);
    server.rewrite_config("[[headers]]\nset = { X-New = \"yes\" }\n");
    server.signal(Signal::HUP);
    eventually("the new settings hold", || server.get("/hello.txt").field("X-New") == Some("yes"));
    assert_eq!(idle.get("/hello.txt").status, 200);
    assert!(slow.reply().body == pattern(6, BIG));
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Addresses come and go while connections stay; where one cannot be had, everything stays as it was.
fn reload_of_listeners(variant: &Variant) {
    let (first, second) = (free_address(), free_address());
    let server = Server::with(variant, &format!("listen = \"{first}\""));
    assert_eq!(server.address, first);
    let mut old = server.connect();
    assert_eq!(old.get("/hello.txt").status, 200);

    server.rewrite_config(&format!("listen = [\"{first}\", \"{second}\"]"));
    server.signal(Signal::HUP);
    eventually("the second address answers", || TcpStream::connect(second).is_ok());
    assert_eq!(one(second, request("GET", "/hello.txt", &[])).text(), HELLO);
    assert_eq!(server.get("/hello.txt").text(), HELLO);

    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let taken = (taken.local_addr().expect("an address"), taken);
    server.rewrite_config(&format!("listen = [\"{second}\", \"{}\"]\nlisting = true", taken.0));
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains(&taken.0.to_string()) && line.contains("not reloaded"));
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    assert!(server.get("/bare/").status >= 400);

    server.rewrite_config(&format!("listen = \"{second}\""));
    server.signal(Signal::HUP);
    eventually("the first address is closed", || TcpStream::connect(first).is_err());
    assert_eq!(one(second, request("GET", "/hello.txt", &[])).text(), HELLO);
    assert_eq!(old.get("/hello.txt").text(), HELLO);
}

/// A server that runs from a file of its own, which can be replaced.
fn from_a_file(variant: &Variant) -> (Server, PathBuf) {
    let setup = Setup::new(variant).file("big.bin", pattern(6, BIG));
    let program = setup.directory().join("sluice");
    fs::copy(env!("CARGO_BIN_EXE_sluice"), &program).expect("a copy");
    let usual = setup.command();
    let mut command = Command::new(&program);
    command.args(usual.get_args()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (setup.start_as(command), program)
}

/// The file is replaced by another in one step, as package managers do.
fn replace(program: &Path, by: impl AsRef<[u8]>) {
    let new = program.with_extension("new");
    fs::write(&new, by).expect("a file");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("it can be run");
    fs::rename(&new, program).expect("it can be replaced");
}

/// While clients come and go, the process becomes another program, twice: with its id, without a refused connection, and
/// without harm to a reply under way.
fn upgrade(variant: &Variant) {
    let (mut server, program) = from_a_file(variant);
    let mut slow = Client::connect_narrow(server.address);
    slow.ask("GET", "/big.bin", &[]);
    let beginning = slow.read_raw(1000).expect("a beginning");
    slow.unread(beginning);
    let address = server.address;
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut replies = 0;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(one(address, request("GET", "/hello.txt", &[])).text(), HELLO);
                    replies += 1;
                }
                replies
            })
        })
        .collect();
    for times in 0..2 {
        let before = server.workers();
        replace(&program, fs::read(env!("CARGO_BIN_EXE_sluice")).expect("a program"));
        let running = || fs::read_link(format!("/proc/{}/exe", server.pid())).expect("a process");
        assert_ne!(running(), program, "its file is gone");
        server.signal(Signal::USR2);
        eventually("it runs the new file", || running() == program);
        eventually("it says again where it listens", || {
            server.stderr().iter().filter(|line| line.starts_with("status on ")).count() == times + 2
        });
        assert!(server.workers().iter().all(|pid| !before.contains(pid)), "the workers are others");
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.join().expect("every connection was served") > 0);
    }
    let body = slow.reply().body;
    assert!(body == pattern(6, BIG), "{} bytes", body.len());
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0), "the workers of all three have ended");
}

/// What can't be run, or does not take the settings, is not run.
fn upgrade_to_what_does_not_work(variant: &Variant) {
    let (mut server, program) = from_a_file(variant);
    for (file, why) in
        [("#!/bin/sh\necho no such luck >&2\nexit 3\n", "no such luck"), ("nonsense", "can't be run")]
    {
        replace(&program, file);
        server.signal(Signal::USR2);
        server.wait_for_line(|line| line.contains("not upgraded") && line.contains(why));
        assert_eq!(server.get("/hello.txt").text(), HELLO);
        assert!(server.status()["total"]["requests"].as_u64() > Some(0));
    }
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// Whoever started it has closed the other end of its standard error.
fn nobody_reads_what_it_says(variant: &Variant) {
    let setup = Setup::new(variant);
    let mut command = setup.command();
    let mut child = command.spawn().expect("sluice starts");
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    stderr.read_line(&mut line).expect("a line");
    let address = parse_address(&line).expect("an address");
    drop(stderr);
    let pid = Pid::from_child(&child);
    for signal in [Signal::HUP, Signal::USR1] {
        kill_process(pid, signal).expect("the server is there");
        sleep_ms(100);
        assert_eq!(one(address, request("GET", "/hello.txt", &[])).text(), HELLO);
    }
    kill_process(pid, Signal::TERM).expect("the server is there");
    let mut ended = None;
    eventually("the server has ended", || {
        ended = child.try_wait().expect("a child can be waited for");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
}

/// As logrotate does it.
fn reopened_logs(variant: &Variant) {
    let setup = Setup::new(variant);
    let (log, errors) = (setup.directory().join("access.log"), setup.directory().join("error.log"));
    let setup = setup.argument(format!("--access-log={}", log.display()));
    let server = setup.argument(format!("--error-log={}", errors.display())).start();
    let lines = |path: &std::path::Path| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    assert_eq!(server.get("/hello.txt?first").status, 200);
    eventually("a line is written", || lines(&log) == 1);
    let (old_log, old_errors) = (log.with_extension("1"), errors.with_extension("1"));
    fs::rename(&log, &old_log).expect("a log");
    fs::rename(&errors, &old_errors).expect("a log");
    server.signal(Signal::USR1);
    eventually("new logs are there", || log.exists() && errors.exists());
    assert_eq!(server.get("/hello.txt?second").status, 200);
    eventually("a line is written", || lines(&log) == 1);
    assert!(fs::read_to_string(&log).expect("a log").contains("?second"));
    assert_eq!(lines(&old_log), 1);
}

fn port_in_use(variant: &Variant) {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = taken.local_addr().expect("an address");
    let setup = Setup::new(variant).argument(format!("--listen={address}"));
    let output = setup.command().output().expect("sluice runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(&address.to_string()) && told.to_lowercase().contains("in use"), "{told}");
    assert!(!told.contains("listening on"), "{told}");
}

fn wrong_configuration(variant: &Variant) {
    let output = Setup::new(variant).config("listing = 3").command().output().expect("sluice runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
    assert!(told.contains("sluice.toml:2:") && told.contains("listing"), "{told}");
    let output = Setup::new(variant).argument("--accept-limit=0").command().output().expect("sluice runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains("--accept-limit"), "{told}");
}
