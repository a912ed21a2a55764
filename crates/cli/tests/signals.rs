//! Being a program: how it starts, what signals do to it, and how it ends (exit codes 0, 1 and 2).

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use harness::client::{Broken, Client, connect, one, request};
use harness::over_tls::{self, PlainOnly};
use harness::program::{from_a_file, replace, sluice};
use harness::server::{Server, Setup, children, parse_address, state};
use harness::site::{HELLO, LARGE, large, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{TIMEOUT, eventually, free_address, sleep_ms};
use rustix::process::{Pid, Signal, kill_process};

const TESTS: &[Test] = tests![
    Each:
        idle_server_ends_at_once,
        drain_under_load,
        drain_empties_the_accept_queue,
        drain_of_a_crowd_has_an_end,
        drain_after_a_reload_has_an_end,
        drain_of_orphans_has_an_end,
        drain_after_an_upgrade_has_an_end,
        a_successor_can_start_when_the_supervisor_was_killed,
        reload,
        reload_keeps_connections,
        reload_of_listeners,
        reload_of_the_bound_on_connections;
    Drivers:
        drain_finishes_replies_and_refuses_connections,
        drain_answers_pipelined_requests,
        drain_finishes_requests_that_arrive,
        drain_has_an_end,
        second_signal_stops_at_once,
        signals_to_workers_change_nothing;
    Three:
        signals_again_do_not_put_off_the_end,
        a_listener_handed_over_serves_a_successor,
        nobody_gains_privileges,
        reload_that_finds_no_process,
        upgrade_to_what_does_not_work,
        nobody_reads_what_it_says,
        reopened_logs,
        without_proc;
    One:
        signals_to_the_status_process_change_nothing,
        reload_of_what_is_wrong,
        port_in_use,
        checked_while_it_runs,
        wrong_configuration;
];

const PLAIN_ONLY: &[PlainOnly] = &[
    ("signals::reload_of_listeners", "the test chooses the listeners, and these are plain"),
    ("signals::a_listener_handed_over_serves_a_successor", "a listener that is handed over is plain"),
    ("signals::nobody_reads_what_it_says", "the test starts the server itself, without a tunnel"),
    ("signals::drain_after_a_reload_has_an_end", "drain_has_an_end shows how TLS ends"),
    ("signals::drain_of_orphans_has_an_end", "drain_has_an_end shows how TLS ends"),
    ("signals::reload_of_the_bound_on_connections", "connections are counted before TLS begins"),
];

fn main() -> ExitCode {
    over_tls::run(&[("signals", TESTS)], &over_tls::FEW, PLAIN_ONLY)
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

/// Asks on one connection after another, and is served on each until there is nobody to connect to; says how
/// often.
fn come_anew(address: SocketAddr) -> usize {
    let mut count = 0;
    while let Ok(stream) = connect(address) {
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

/// Every client is answered whatever it asks, until an answer says that the connection ends with it; then it
/// does, in good order.
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
    for limit in ["1", "inf"] {
        let mut server = Setup::new(variant).argument(format!("--accept-limit={limit}")).start();
        server.stop_all();
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
    eventually("the listener is closed", || connect(server.address).is_err());
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
    // One of them is on its way when the server begins to end; what is behind the reply that says close is
    // not answered.
    other.send(request("GET", "/large.bin", &[]).repeat(2));
    let (replies, end) = other.replies_until_end();
    assert_eq!(replies.len(), 1);
    assert!(replies[0].closes() && replies[0].body == large());
    assert_eq!(end, Broken::Closed);
    // By now idle connections may be closed, but this one is not idle: its request was there before the reply
    // was over.
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

/// However many wait to be accepted, and don't take what they ask for: who is not served when the time is
/// over isn't begun with.
fn drain_of_a_crowd_has_an_end(variant: &Variant) {
    let setup = Setup::new(variant).file("big.bin", pattern(6, BIG));
    let mut server = setup.config("drain_timeout = \"300 ms\"\n[tcp]\nsend_buffer = \"64 KiB\"").start();
    let mut crowd: Vec<_> = (0..500).map(|_| Client::connect_narrow(server.address)).collect();
    for client in &mut crowd {
        client.ask("GET", "/big.bin", &[]);
    }
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0), "nobody was killed");
    let cut_off = server.stderr().iter().filter(|line| line.contains("cut off")).count();
    assert!((1..100).contains(&cut_off), "by each worker once: {cut_off}");
}

/// Workers from before a reload have been told of another timeout.
fn drain_after_a_reload_has_an_end(variant: &Variant) {
    let (mut server, mut slow) = with_a_slow_client(variant, "drain_timeout = \"60 s\"");
    server.rewrite_config("drain_timeout = \"300 ms\"");
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("settings reloaded"));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0), "nobody was killed");
    let end = slow.try_reply();
    assert!(matches!(end, Err(Broken::Reset | Broken::CutShort(_))), "{end:?}");
}

/// Workers whose supervisor is gone let the port go as soon, whatever they are about.
fn drain_of_orphans_has_an_end(variant: &Variant) {
    let (server, mut slow) = with_a_slow_client(variant, "drain_timeout = \"300 ms\"");
    let workers = server.workers();
    server.signal(Signal::KILL);
    eventually("all workers have ended", || {
        workers.iter().all(|&pid| matches!(state(pid), None | Some('Z')))
    });
    assert!(connect(server.address).is_err());
    let end = slow.try_reply();
    assert!(matches!(end, Err(Broken::Reset | Broken::CutShort(_))), "{end:?}");
}

/// Workers of the program before know nothing of the new one but its signals, and hear these while they send.
fn drain_after_an_upgrade_has_an_end(variant: &Variant) {
    let setup = Setup::new(variant).file("big.bin", pattern(6, BIG));
    let (mut server, _) =
        from_a_file(setup.config("drain_timeout = \"300 ms\"\n[tcp]\nsend_buffer = \"64 KiB\""));
    let mut slow = Client::connect_narrow(server.address);
    slow.ask("GET", "/big.bin", &[]);
    let beginning = slow.read_raw(1000).expect("a beginning");
    slow.unread(beginning);
    server.signal(Signal::USR2);
    eventually("it says again where it listens", || {
        server.stderr().iter().filter(|line| line.starts_with("status on ")).count() == 2
    });
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0), "nobody was killed");
    let end = slow.try_reply();
    assert!(matches!(end, Err(Broken::Reset | Broken::CutShort(_))), "{end:?}");
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

/// However often it is told, a drain ends when its time is over.
fn signals_again_do_not_put_off_the_end(variant: &Variant) {
    let (mut server, _slow) = with_a_slow_client(variant, "drain_timeout = \"300 ms\"");
    // A worker that does not hear is killed in the end.
    for pid in server.workers() {
        kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::STOP)
            .expect("the worker is there");
    }
    server.signal(Signal::TERM);
    eventually("the server has ended", || {
        if !server.has_ended() {
            server.signal(Signal::TERM);
            sleep_ms(100);
        }
        server.has_ended()
    });
    assert_eq!(server.exit_code(), Some(1));
}

/// A worker ends when the supervisor says so; else its place would be empty, and what it shares with others
/// disturbed.
fn signals_to_workers_change_nothing(variant: &Variant) {
    let server = Server::start(variant);
    let workers = server.workers();
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").text(), HELLO);
    for signal in [Signal::TERM, Signal::USR2, Signal::HUP, Signal::INT] {
        for &pid in &workers {
            kill_process(Pid::from_raw(pid as i32).expect("a process"), signal).expect("the worker is there");
        }
        sleep_ms(200);
        for _ in 0..10 {
            assert_eq!(server.get("/hello.txt").text(), HELLO, "after {signal:?}");
        }
    }
    assert_eq!(client.get("/hello.txt").text(), HELLO);
    assert_eq!(server.workers(), workers);
    server.wait_for_line(|line| line.contains("a signal to a worker changes nothing"));
}

fn signals_to_the_status_process_change_nothing(variant: &Variant) {
    let server = Server::start(variant);
    let workers = server.workers();
    let status =
        children(server.pid()).into_iter().find(|pid| !workers.contains(pid)).expect("a status process");
    for signal in [Signal::TERM, Signal::USR2] {
        kill_process(Pid::from_raw(status as i32).expect("a process"), signal).expect("it is there");
        sleep_ms(100);
        assert_eq!(server.status_page("/health"), (200, "ok\n".to_owned()));
    }
}

/// As with a socket unit of systemd's: the socket outlives the service, and clients that come meanwhile wait.
fn a_listener_handed_over_serves_a_successor(variant: &Variant) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    for _ in 0..2 {
        let setup = Setup::new(variant);
        let command = setup.command_with(&listener);
        let mut server = setup.start_as(command);
        let (address, stop) = (server.address, Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        // Whoever comes to the one is served, be it by the next.
        let newcomers = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let stream = TcpStream::connect_timeout(&address, TIMEOUT).expect("somebody listens");
                let mut client = Client::over(stream);
                client.ask("GET", "/hello.txt", &[("Connection", "close")]);
                assert_eq!(client.reply().text(), HELLO);
                sleep_ms(1);
            }
        });
        sleep_ms(100);
        server.signal(Signal::TERM);
        assert_eq!(server.exit_code(), Some(0));
        let setup = Setup::new(variant);
        let command = setup.command_with(&listener);
        let server = setup.start_as(command);
        sleep_ms(100);
        stop.store(true, Ordering::Relaxed);
        newcomers.join().expect("everybody is served");
        drop(server);
    }
}

/// Orphans free the addresses at once, those for status requests too, and see their clients to the end.
fn a_successor_can_start_when_the_supervisor_was_killed(variant: &Variant) {
    let (server, mut slow) = with_a_slow_client(variant, "");
    let setup = Setup::new(variant)
        .in_place_of(&server)
        .argument(format!("--status=unix:{}", server.directory().join("status").display()));
    server.signal(Signal::KILL);
    let mut successor = None;
    eventually("a successor listens", || {
        let mut child = setup.command().spawn().expect("sluice starts");
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        stderr.read_line(&mut said).expect("it says something");
        if said.starts_with("listening on ") {
            successor = Some((child, stderr));
            return true;
        }
        assert_eq!(child.wait().expect("a child can be waited for").code(), Some(1), "{said}");
        false
    });
    let (mut child, _stderr) = successor.expect("a successor");
    for _ in 0..20 {
        assert_eq!(one(server.address, request("GET", "/hello.txt", &[])).text(), HELLO);
    }
    assert!(slow.reply().body == pattern(6, BIG), "an orphan's client gets its reply");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the successor is there");
    assert_eq!(child.wait().expect("a child can be waited for").code(), Some(0));
}

/// Programs that a worker could be made to execute have no more privileges than it has.
fn nobody_gains_privileges(variant: &Variant) {
    let server = Server::start(variant);
    for pid in children(server.pid()) {
        eventually("it has forgone new privileges", || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line == "NoNewPrivs:\t1")
        });
    }
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
    let several = "listing = 3\n[limits]\nrequest_line = \"1 XB\"";
    for (wrong, mistakes) in [("listing = 3", 1), (several, 2), ("nonsense", 1)] {
        server.rewrite_config(wrong);
        let said = server.stderr().len();
        server.signal(Signal::HUP);
        let is_told =
            |line: &&String| line.contains("not reloaded: ") && line.matches("sluice.toml:").count() == 1;
        eventually("each mistake is told in a line", || {
            server.stderr().iter().skip(said).filter(is_told).count() == mistakes
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

/// What counts against a user's limit of processes.
fn threads_of(user: u32) -> u64 {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let own = processes.filter(|process| process.metadata().is_ok_and(|process| process.uid() == user));
    own.map(|process| fs::read_dir(process.path().join("task")).map_or(0, Iterator::count) as u64).sum()
}

/// One that nobody else is, be it in this process or in another of these tests.
fn a_user() -> u32 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    100_000 + std::process::id() % 100_000 * 100 + GIVEN.fetch_add(1, Ordering::Relaxed)
}

/// An address that is to go stays when the workers that would do without it can't be had, and answers as
/// before.
fn reload_that_finds_no_process(variant: &Variant) {
    let (first, second) = (free_address(), free_address());
    let setup = Setup::new(variant).config(&format!("listen = [\"{first}\", \"{second}\"]"));
    // Root has no limit of processes, and other users' limits count all of theirs.
    let root = rustix::process::getuid().is_root();
    let user = if root { a_user() } else { rustix::process::getuid().as_raw() };
    let mut command = setup.command();
    if root {
        // Some kernels take filters of sockets from those alone who administrate the network.
        let (usual, capability) = (command, ["--inh-caps=+net_admin", "--ambient-caps=+net_admin"]);
        command = Command::new("setpriv");
        command.arg(format!("--reuid={user}")).arg("--clear-groups").args(capability);
        command.arg(usual.get_program()).args(usual.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
        chown(setup.directory(), Some(user), None).expect("root may");
    }
    let mut server = setup.start_as(command);
    let allow = |processes: u64| {
        let (pid, limit) = (format!("--pid={}", server.pid()), format!("--nproc={processes}:"));
        let status = Command::new("prlimit").args([pid, limit]).uid(user).status().expect("prlimit runs");
        assert!(status.success(), "a user may lower the limit of a process of their own");
    };
    // All but one of the workers can be had.
    allow(threads_of(user) + server.workers().len() as u64 - 1);
    server.rewrite_config(&format!("listen = \"{second}\""));
    server.signal(Signal::HUP);
    server.wait_for_line(|line| {
        line.contains("not reloaded: cannot start a worker") && line.contains("TasksMax")
    });
    sleep_ms(300);
    allow(threads_of(user) + 1000);
    let answers = |address| one(address, request("GET", "/hello.txt", &[])).text() == HELLO;
    assert!(answers(first) && answers(second));
    server.rewrite_config(&format!("listen = [\"{first}\", \"{second}\"]\nlisting = true"));
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("settings reloaded"));
    for _ in 0..20 {
        assert!(answers(first) && answers(second));
    }
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// Those that are on their way out take no more clients than they may have.
fn reload_of_the_bound_on_connections(variant: &Variant) {
    if variant.serves_one_at_a_time() {
        // They have no more clients than workers in any case.
        return;
    }
    let (server, _busy) = with_a_slow_client(variant, "max_connections = 4");
    let address = server.address;
    let _others: Vec<Client> = (0..40)
        .map(|_| {
            let mut client = Client::connect_narrow(address);
            client.ask("GET", "/big.bin", &[]);
            client
        })
        .collect();
    server.rewrite_config("max_connections = 2");
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("settings reloaded"));
    sleep_ms(300);
    let open = server.count("connections_opened") - server.count("connections_closed");
    // Of either generation, and what the number does not divide evenly by workers.
    assert!(open <= 4 + 2 + 4, "{open} connections");
}

/// What can't be run, or does not take the settings, is not run.
fn upgrade_to_what_does_not_work(variant: &Variant) {
    let (mut server, program) = from_a_file(Setup::new(variant));
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
    let lines = |path: &Path| fs::read_to_string(path).map_or(0, |text| text.lines().count());
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

/// Whoever has the port, be it another server of the same kind.
fn port_in_use(variant: &Variant) {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let server = Server::start(variant);
    for address in [taken.local_addr().expect("an address"), server.address] {
        let output = Setup::new(variant).argument(format!("--listen={address}")).output();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(&address.to_string()) && told.to_lowercase().contains("in use"), "{told}");
        assert!(told.contains(&format!("`ss -ltnp 'sport = :{}'`", address.port())), "{told}");
        assert!(!told.contains("listening on"), "{told}");
    }
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

/// What a server runs by is fine, be its addresses in use: by itself.
fn checked_while_it_runs(variant: &Variant) {
    let setup = Setup::new(variant);
    let path = setup.directory().join("socket");
    let server =
        setup.argument("--listen=127.0.0.1:0").argument(format!("--listen=unix:{}", path.display())).start();
    let check = |listen: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.arg("check").arg(server.root()).arg("--config").arg(server.directory().join("sluice.toml"));
        let output = command.arg("--quiet").args(listen).output().expect("sluice runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // Root is told that it is root.
        let told =
            told.lines().filter(|line| !line.contains(" user: not set")).collect::<Vec<_>>().join("\n");
        (output.status.code(), told)
    };
    let own = [format!("--listen={}", server.address), format!("--listen=unix:{}", path.display())];
    assert_eq!(check(&own), (Some(0), String::new()));
    let other = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let other = format!("--listen={}", other.local_addr().expect("an address"));
    let (code, told) = check(&[own[0].clone(), other.clone()]);
    assert!(code == Some(2) && told.contains("in use"), "{told}");
    let (code, told) = check(&[other]);
    assert!(code == Some(0) && told.starts_with("sluice: warning: ") && told.contains("in use"), "{told}");
    assert!(told.contains("the server at `status` does not list this address"), "{told}");
}

/// In a chroot, as containers of old have it: it serves, heals, reloads, upgrades and ends.
fn without_proc(variant: &Variant) {
    let setup = Setup::new(variant);
    let program = setup.directory().join("sluice");
    replace(&program, sluice());
    let usual = setup.command();
    let without = |program: &Path| {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\" \"$@\""]).arg(program);
        command
    };
    if !without(Path::new("true")).status().is_ok_and(|status| status.success()) {
        harness::skip("a server without /proc: nothing can be mounted over it");
        return;
    }
    let mut command = without(&program);
    command.args(usual.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = setup.start_as(command);
    let workers = server.workers();
    let first = Pid::from_raw(workers[0] as i32).expect("a process");
    kill_process(first, Signal::KILL).expect("the worker is there");
    eventually("another has taken its place", || {
        let now = server.workers();
        now.len() == workers.len() && now[0] != workers[0] && now[0] != 0
    });
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("settings reloaded"));
    server.signal(Signal::USR2);
    eventually("it says again where it listens", || {
        server.stderr().iter().filter(|line| line.starts_with("status on ")).count() == 2
    });
    for _ in 0..5 {
        assert_eq!(server.get("/hello.txt").text(), HELLO);
    }
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
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
