//! Clients that are lent to an application (pass-fd), which does with them what it likes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};

use rustix::net::sockopt;
use rustix::process::Signal;

use harness::client::{Broken, post, request};
use harness::guest::{self, Asked, Connection};
use harness::server::{Server, Setup};
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{eventually, scripted, sleep_ms};

pub(super) const TESTS: &[Test] = tests![
    Each: one_after_the_other, clients_that_leave;
    Drivers:
        large_replies,
        an_application_that_dies,
        an_application_that_stalls,
        claims_that_are_not_true,
        sockets_that_are_changed,
        slow_clients;
    Three:
        those_that_do_not_know_it,
        those_that_learn_it,
        given_back_untouched,
        a_client_at_a_unix_socket,
        more_under_way_than_the_kernel_allows,
        requests_for_others,
        a_copy_is_of_no_use_after_the_end,
        a_connection_is_asked_again_at_once;
    One: a_connection_is_asked_for_another_at_once;
];

fn site(
    variant: &Variant,
    more: &str,
    serve: impl Fn(Asked) -> Option<Connection> + Send + Sync + 'static,
) -> Server {
    scripted::guest_site(variant, "pass-fd", more, serve)
}

/// What is left when nothing is under way: descriptors that are no files'.
pub(super) struct Level<'a> {
    server: &'a Server,
    descriptors: usize,
}

impl<'a> Level<'a> {
    pub(super) fn of(server: &'a Server) -> Self {
        server.warm_up();
        let mut level = Self { server, descriptors: usize::MAX };
        // Those who have warmed it up leave.
        eventually("it is level", || {
            sleep_ms(100);
            let now = level.now();
            std::mem::replace(&mut level.descriptors, now) == now
        });
        level
    }

    fn now(&self) -> usize {
        self.server.descriptors() - self.server.count("file_table_descriptors") as usize
    }

    /// All workers have been started again, so each has a copy of the eventfd by which the supervisor speaks
    /// to the status process: that was not there yet when the first were forked.
    pub(super) fn with_other_workers(self) -> Self {
        Self { descriptors: self.descriptors + self.server.workers().len(), ..self }
    }

    #[track_caller]
    pub(super) fn is_kept(&self) {
        let mut now = 0;
        eventually("nothing is left", || {
            now = self.now();
            now <= self.descriptors
        });
    }
}

/// Keep-alive, pipelined requests, bodies, HEAD, and files of the same site between them.
fn one_after_the_other(variant: &Variant) {
    for keep in ["", "keep = 1"] {
        let server = site(variant, keep, |asked: Asked| {
            let body = format!("{} {}", asked.params["PATH_INFO"], asked.body.len());
            asked.serve(body.as_bytes())
        });
        let mut client = server.connect();
        for _ in 0..5 {
            assert_eq!(client.get("/app/x").text(), "/x 0");
            assert_eq!(client.get("/hello.txt").text(), HELLO);
            client.send(post("/app/y", &vec![b'x'; 100_000]));
            assert_eq!(client.reply().text(), "/y 100000");
            assert_eq!(client.fetch("HEAD", "/app/z", &[]).need("Content-Length"), "4");
            let two = [request("GET", "/app/1", &[]), request("GET", "/hello.txt", &[])].concat();
            client.send([two, request("GET", "/app/2", &[])].concat());
            assert_eq!(client.reply().text(), "/1 0");
            assert_eq!(client.reply().text(), HELLO);
            assert_eq!(client.reply().text(), "/2 0");
        }
        client.send("GET /app/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert_eq!(client.reply().text(), "/last 0");
        client.expect_close();
        let pool = server.status()["pools"][0].clone();
        assert_eq!(
            (&pool["passed"], &pool["fell_back"], &pool["failures"]),
            (&26.into(), &0.into(), &0.into())
        );
    }
}

/// An application that says that it waits is asked over the same connection in the turn in which it has.
fn a_connection_is_asked_again_at_once(variant: &Variant) {
    let server = site(variant, "keep = 1", |asked: Asked| {
        let before = asked.before.to_string();
        asked.serve(before.as_bytes())
    });
    let mut client = server.connect();
    client.send(request("GET", "/app/x", &[]).repeat(3));
    for before in ["0", "1", "2"] {
        // One that serves one client at a time keeps none.
        let before = if variant.serves_one_at_a_time() { "0" } else { before };
        assert_eq!(client.reply().text(), before);
    }
}

/// The same for another client than the one for which the connection is watched.
fn a_connection_is_asked_for_another_at_once(variant: &Variant) {
    let ((here, has_come), (go_on, is_told)) = (mpsc::channel(), mpsc::channel());
    let is_told = Mutex::new(is_told);
    let server = site(variant, "keep = 1", move |asked: Asked| {
        let (before, is_held) = (asked.before.to_string(), asked.params["PATH_INFO"] == "/held");
        if is_held {
            here.send(()).expect("somebody waits");
            is_told.lock().expect("nobody panics with it").recv().expect("somebody tells");
        }
        let next = asked.serve(before.as_bytes());
        if is_held {
            here.send(()).expect("somebody waits");
        }
        next
    });
    let (mut one, mut other) = (server.connect(), server.connect());
    assert_eq!(other.get("/hello.txt").text(), HELLO, "it is accepted");
    one.ask("GET", "/app/held", &[]);
    has_come.recv().expect("it is asked");
    // Both come to the server in the same turn: that the application is done, and who asks next.
    server.stop_all();
    go_on.send(()).expect("it waits");
    has_come.recv().expect("it has answered");
    other.ask("GET", "/app/x", &[]);
    server.signal_all(Signal::CONT);
    assert_eq!((one.reply().text().as_str(), other.reply().text().as_str()), ("0", "1"));
    // The server hears of it, too.
    eventually("the other's request is over", || server.pool_count("in_flight") == 0);
    assert_eq!(one.get("/app/x").text(), "2");
}

/// The server has no part in them, and the client takes its time.
fn large_replies(variant: &Variant) {
    const SIZE: usize = 20 << 20;
    let content = pattern(9, SIZE);
    let sent = content.clone();
    let server = site(variant, "", move |asked: Asked| asked.serve(&sent));
    let before = server.count("bytes_sent");
    let mut client = server.connect();
    for _ in 0..2 {
        client.ask("GET", "/app/x", &[]);
        sleep_ms(300);
        assert!(client.reply().body == content);
        assert_eq!(client.get("/hello.txt").text(), HELLO);
    }
    eventually("it is counted", || server.count("bytes_sent") - before > 2 * SIZE as u64);
    assert_eq!(server.pool_count("passed"), 2);
}

/// Before it has written a byte its client is told so; in the midst of a reply the client notices.
fn an_application_that_dies(variant: &Variant) {
    let keep = "keep = 1\nkeep_timeout = '500 ms'";
    let server = site(variant, keep, |mut asked: Asked| match &*asked.params["QUERY_STRING"] {
        "at-once" => None,
        "begun" => {
            let lent = asked.lent.as_mut()?;
            let head = lent.head("Content-Length: 10\r\n");
            lent.write(format!("{head}begun").as_bytes());
            sleep_ms(50);
            None
        }
        _ => asked.serve(b"well"),
    });
    let level = Level::of(&server);
    for round in 0..3 {
        let mut client = server.connect();
        assert_eq!(client.get("/app/x").text(), "well");
        client.send(post("/app/x?at-once", b""));
        let reply = client.reply();
        assert_eq!((reply.status, reply.closes()), (502, true));
        client.expect_close();
        let mut client = server.connect();
        assert_eq!(client.get("/app/x").text(), "well");
        client.ask("GET", "/app/x?begun", &[]);
        assert_eq!(client.try_reply(), Err(Broken::Reset));
        assert_eq!(server.pool_count("failures"), 2 * (round + 1));
    }
    level.is_kept();
}

/// One that has the client and does nothing, or stops in the midst of a reply: it may wake up, so nobody else
/// says anything to the client.
fn an_application_that_stalls(variant: &Variant) {
    let (told, over) = mpsc::channel();
    let told = Mutex::new(told);
    let server = site(variant, "timeout = '300 ms'", move |mut asked: Asked| {
        let lent = asked.lent.as_mut()?;
        if asked.params["QUERY_STRING"] == "begun" {
            let head = lent.head("Content-Length: 10\r\n");
            lent.write(format!("{head}begun").as_bytes());
        }
        // Until its client is ended, which it notices.
        while asked.connection.record().is_ok() {}
        let is_of_use = asked.lent.as_mut()?.write(b"late") && asked.lent.as_mut()?.write(b"late");
        told.lock().expect("no panic").send(is_of_use).expect("the test waits");
        None
    });
    let level = Level::of(&server);
    for target in ["/app/x", "/app/x?begun"] {
        let mut client = server.connect();
        client.ask("GET", target, &[]);
        assert_eq!(client.try_reply(), Err(Broken::Reset), "{target}");
        assert_eq!(over.recv_timeout(harness::TIMEOUT), Ok(false), "its copy is of no use");
    }
    level.is_kept();
}

/// Whoever says other than what the socket tells has its client reset; and so has one that keeps it.
fn claims_that_are_not_true(variant: &Variant) {
    let server = site(variant, "", |mut asked: Asked| {
        let what = asked.params["QUERY_STRING"].clone();
        let lent = asked.lent.as_mut()?;
        let reply = lent.head("Content-Length: 4\r\n") + "well";
        let sent = reply.len() as u64;
        if what != "nothing" {
            lent.write(reply.as_bytes());
        }
        match &*what {
            "true" | "nothing" => asked.give_back(200, 3, 4, sent),
            "more" => asked.give_back(200, 3, 4, sent + 1),
            "less" => asked.give_back(200, 3, 4, sent - 1),
            "untouched" => asked.give_back(0, 0, 0, 0),
            "status" => asked.give_back(101, 3, 4, sent),
            "body" => asked.give_back(200, 3, sent + 1, sent),
            "part" => asked.give_back(200, 2, 4, sent),
            "kept" => {
                asked.say(&[(3, &[0; 8])]);
                Some(asked.connection)
            }
            "twice" => {
                let content = guest::returned(200, 3, 4, sent);
                asked.say(&[(guest::RETURN, &content), (guest::RETURN, &content)]);
                Some(asked.connection)
            }
            "also-here" => asked.answer("X: y\n\nwell"),
            other => panic!("{other}"),
        }
    });
    let level = Level::of(&server);
    let lies =
        ["more", "less", "untouched", "nothing", "status", "body", "part", "kept", "twice", "also-here"];
    for what in lies {
        let mut client = server.connect();
        assert_eq!(client.get("/app/x?true").text(), "well");
        client.ask("GET", &format!("/app/x?{what}"), &[]);
        // Some have got a whole reply by then, and others are reset.
        let is_sent = client.try_send(request("GET", "/hello.txt", &[]));
        let (replies, end) = client.replies_until_end();
        let is_reset = matches!(end, Broken::Reset) || !is_sent;
        assert!(is_reset && replies.len() <= 1, "{what}: {replies:?} {end:?}");
        assert!(replies.iter().all(|reply| reply.text() == "well"), "{what}: {replies:?}");
    }
    assert_eq!(server.pool_count("failures"), lies.len() as u64);
    assert_eq!(server.get("/app/x?true").text(), "well");
    level.is_kept();
}

/// What an application may do to the socket is undone, or ends the connection.
fn sockets_that_are_changed(variant: &Variant) {
    let server = site(variant, "", |asked: Asked| {
        let client = &asked.lent.as_ref()?.client;
        match &*asked.params["QUERY_STRING"] {
            "blocks" => client.set_nonblocking(false).expect("a flag"),
            "does-not" => client.set_nonblocking(true).expect("a flag"),
            "cork" => sockopt::set_tcp_cork(client, true).expect("an option"),
            "linger" => {
                let time = Some(std::time::Duration::from_mins(10));
                socket2::SockRef::from(client).set_linger(time).expect("an option");
            }
            "filter" => sys::socket::refuse_new_handshakes(client).expect("an option"),
            "locked" => {
                sys::socket::refuse_new_handshakes(client).expect("an option");
                sys::socket::lock_filter(client).expect("an option");
            }
            _ => {}
        }
        asked.serve(b"well")
    });
    let level = Level::of(&server);
    let mut client = server.connect();
    for what in ["blocks", "does-not", "cork", "linger", "filter", "none"] {
        assert_eq!(client.get(&format!("/app/x?{what}")).text(), "well", "{what}");
        // A server that waits in a call for one client serves nobody else meanwhile.
        assert_eq!(client.get("/hello.txt").text(), HELLO, "{what}");
        assert_eq!(server.get("/hello.txt").text(), HELLO, "{what}");
    }
    assert_eq!(client.get("/app/x?locked").text(), "well");
    client.expect_close();
    drop(client);
    level.is_kept();
}

/// One that leaves, or shuts down its side, ends it all; the application's copy is of no use from then on.
fn clients_that_leave(variant: &Variant) {
    let (tell, heard) = mpsc::channel();
    let tell = Mutex::new(tell);
    let server = site(variant, "", move |mut asked: Asked| {
        let told = tell.lock().expect("no panic").clone();
        told.send("asked").expect("the test waits");
        let lent = asked.lent.as_mut()?;
        if asked.params["QUERY_STRING"] == "begun" {
            let begin = lent.head("Content-Length: 1000000000\r\n");
            lent.write(begin.as_bytes());
            let piece = vec![b'x'; 100_000];
            while lent.write(&piece) {}
        }
        while asked.connection.record().is_ok() {}
        let is_of_use = asked.lent.as_mut()?.write(b"late") && asked.lent.as_mut()?.write(b"late");
        told.send(if is_of_use { "of use" } else { "of no use" }).expect("the test waits");
        None
    });
    let level = Level::of(&server);
    for target in ["/app/x", "/app/x?begun"] {
        for how in ["leaves", "resets", "half-closes"] {
            let mut client = server.connect();
            client.ask("GET", target, &[]);
            assert_eq!(heard.recv_timeout(harness::TIMEOUT), Ok("asked"));
            match how {
                "leaves" => drop(client),
                "resets" => client.reset(),
                _ => {
                    client.half_close();
                    while client.read_raw(100_000).is_ok_and(|bytes| !bytes.is_empty()) {}
                }
            }
            assert_eq!(heard.recv_timeout(harness::TIMEOUT), Ok("of no use"), "{target} {how}");
        }
    }
    eventually("they are counted", || server.pool_count("clients_left") == 6);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    level.is_kept();
}

/// An application is not late whose client is slow, and a client that takes too little is reset.
fn slow_clients(variant: &Variant) {
    const SIZE: usize = 8 << 20;
    let config = "[timeouts]\nwrite = '1 s'\nwrite_min_rate = 20000\n";
    let setup = Setup::new(variant);
    let socket =
        guest::start(setup.directory(), "app.sock", "pass-fd", |asked| asked.serve(&vec![b'x'; SIZE]));
    let pool = scripted::pool(&[&socket], "transport = 'pass-fd'\ntimeout = '500 ms'\n");
    let server = setup.config(&format!("{pool}{config}")).start();
    let level = Level::of(&server);
    let mut slow = server.connect_narrow();
    slow.ask("GET", "/app/x", &[]);
    let mut taken = 0;
    for _ in 0..40 {
        sleep_ms(50);
        taken += slow.read_raw(4_000).expect("it goes on").len();
    }
    // Faster now.
    while taken < SIZE {
        taken += slow.read_raw((SIZE - taken).min(100_000)).expect("it goes on").len();
    }
    let mut stalled = server.connect_narrow();
    stalled.ask("GET", "/app/x", &[]);
    eventually("it is reset", || server.count("timeouts/write") == 1);
    let end = std::iter::repeat_with(|| stalled.read_raw(100_000))
        .find(|read| read.as_ref().is_ok_and(Vec::is_empty) || read.is_err());
    assert_eq!(end, Some(Err(Broken::Reset)));
    assert_eq!(server.pool_count("failures"), 0);
    drop(slow);
    level.is_kept();
}

/// They are asked once, and then left alone with it for a while.
fn those_that_do_not_know_it(variant: &Variant) {
    for how in ["another", "closes", "nothing", "garbage", "silence"] {
        let asked = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&asked);
        let setup = Setup::new(variant);
        let path = setup.directory().join("app.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || {
                    let first = scripted::read_or_question(stream.expect("a connection"), |stream| {
                        *counted.lock().expect("no panic") += 1;
                        let answer = match how {
                            "another" => guest::record(10, 0, b"\x11\x06SLUICE_TRANSPORTSpigeon"),
                            "nothing" => guest::record(10, 0, b""),
                            "garbage" => b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
                            _ => Vec::new(),
                        };
                        let _ = stream.write_all(&answer);
                        how != "closes" && how != "garbage"
                    });
                    if let Some(mut asked) = first {
                        asked.say(scripted::answer("X: y\n\nwell"));
                    }
                });
            }
        });
        let server = setup.config(&scripted::pool(&[&path], "transport = 'pass-fd'")).start();
        let mut client = server.connect();
        for _ in 0..10 {
            assert_eq!(client.get("/app/x").text(), "well", "{how}");
        }
        let asked = *asked.lock().expect("no panic");
        assert_eq!(asked, 1, "{how}: once by the worker that this client has");
        let pool = server.status()["pools"][0].clone();
        assert_eq!(
            (&pool["passed"], &pool["fell_back"], &pool["failures"]),
            (&0.into(), &10.into(), &0.into())
        );
    }
}

/// They are asked again after a while, however busy the connections are that were made meanwhile.
fn those_that_learn_it(variant: &Variant) {
    let setup = Setup::new(variant);
    let knows = |number| if number == 0 { "" } else { "pass-fd waits" };
    let socket = guest::start_learning(setup.directory(), "app.sock", knows, |asked| asked.serve(b"lent"));
    let server = setup.config(&scripted::pool(&[&socket], "transport = 'pass-fd'\nkeep = 1")).start();
    let mut client = server.connect();
    assert_eq!(client.get("/app/x").text(), "by the stream");
    eventually("a reply comes by pass-fd", || client.get("/app/x").text() == "lent");
    eventually("it is counted", || server.pool_count("passed") > 0);
    assert_eq!(server.pool_count("failures"), 0);
}

/// The server sees the reply then, on the same connections.
fn given_back_untouched(variant: &Variant) {
    let server = site(variant, "keep = 1", |mut asked: Asked| {
        asked.lent = None;
        asked.say(&[(guest::RETURN, &guest::returned(0, 0, 0, 0))]);
        asked.answer("X: y\n\nseen")
    });
    let mut client = server.connect();
    for _ in 0..5 {
        let reply = client.get("/app/x");
        assert_eq!((reply.text(), reply.field("X")), ("seen".to_owned(), Some("y")));
        assert_eq!(client.get("/hello.txt").text(), HELLO);
    }
    let pool = server.status()["pools"][0].clone();
    assert_eq!((&pool["passed"], &pool["fell_back"], &pool["failures"]), (&0.into(), &5.into(), &0.into()));
}

/// What came over a Unix socket is not lent, and answered by the stream.
fn a_client_at_a_unix_socket(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = guest::start(setup.directory(), "app.sock", "pass-fd", move |asked| match asked.lent {
        Some(_) => asked.serve(b"lent"),
        None => asked.answer("X: y\n\nby the stream"),
    });
    let path = setup.directory().join("listener");
    let listen = format!("--listen=unix:{}", path.display());
    let config = scripted::pool(&[&socket], "transport = 'pass-fd'\nkeep = 1");
    let server = setup.config(&config).argument("--listen=127.0.0.1:0").argument(&listen).start();
    server.wait_for_line(|line| line.starts_with("listening on ") && line.contains("listener"));
    // One that leaves with its reply counts as gone, if the server has not heard yet that it was all.
    let mut client = server.connect();
    for _ in 0..3 {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).expect("a socket");
        stream.set_read_timeout(Some(harness::TIMEOUT)).expect("a timeout");
        let asked = request("GET", "/app/x", &[("Connection", "close")]);
        stream.write_all(asked.as_bytes()).expect("it takes requests");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("text");
        assert!(reply.starts_with("HTTP/1.1 200 ") && reply.contains("by the stream"), "{reply}");
        assert_eq!(client.get("/app/x").text(), "lent");
    }
    let counts = || ["passed", "fell_back", "failures"].map(|name| server.pool_count(name));
    eventually("all are counted", || counts().iter().sum::<u64>() == 6);
    assert_eq!(counts(), [3, 3, 0]);
}

/// Sends more descriptors than its argument says to itself, says so, and has them under way until its input
/// ends.
const FILLER: &str = "
import array, socket, sys
pairs, count = [], int(sys.argv[1])
for at in range(0, count, 200):
    near, far = socket.socketpair()
    pairs.append((near, far))
    passed = array.array('i', [0] * min(200, count - at))
    near.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
print('ready', flush=True)
sys.stdin.read()
";

/// The kernel counts descriptors under way for each user: `ETOOMANYREFS`. Nothing is sent then, and the
/// request goes by the stream, until there is room again.
fn more_under_way_than_the_kernel_allows(variant: &Variant) {
    const LIMIT: u32 = 200;
    let root = rustix::process::getuid().is_root();
    // Root may have more under way, and other users' count is of all that they do.
    let user = 90_000 + std::process::id() % 100_000;
    let as_user = |command: Command| {
        let mut other = Command::new("setpriv");
        other.arg(format!("--reuid={user}")).arg("--clear-groups").arg(command.get_program());
        other.args(command.get_args()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if root { other } else { command }
    };
    let setup = Setup::new(variant).descriptor_limit(LIMIT);
    let socket = guest::start(setup.directory(), "app.sock", "pass-fd", move |asked| match asked.lent {
        Some(_) => asked.serve(b"lent"),
        None => asked.answer("X: y\n\nby the stream"),
    });
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777)).expect("a mode");
    if root {
        std::os::unix::fs::chown(setup.directory(), Some(user), None).expect("root may");
    }
    let setup = setup.config(&scripted::pool(&[&socket], "transport = 'pass-fd'"));
    let command = as_user(setup.command());
    let server = setup.start_as(command);
    let mut client = server.connect();
    assert_eq!(client.get("/app/x").text(), "lent");
    let mut filler = Command::new("/usr/bin/python3");
    filler.args(["-c", FILLER]).arg((2 * LIMIT).to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut filler = as_user(filler).spawn().expect("setpriv and python3 are there");
    let mut line = String::new();
    let output = filler.stdout.as_mut().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready\n");
    for _ in 0..3 {
        assert_eq!(client.get("/app/x").text(), "by the stream");
        assert_eq!(client.fetch("POST", "/app/x", &[("Content-Length", "0")]).text(), "by the stream");
    }
    drop(filler.stdin.take());
    filler.wait().expect("it ends");
    eventually("there is room again", || client.get("/app/x").text() == "lent");
    eventually("all are counted", || server.pool_count("passed") >= 2 && server.pool_count("fell_back") >= 6);
    assert_eq!(server.pool_count("failures"), 0);
}

/// A connection that was lent serves that site and that pool, be it for an application or for a file.
fn requests_for_others(variant: &Variant) {
    let setup = Setup::new(variant);
    let serve = |asked: Asked| asked.serve(b"well");
    let one = guest::start(setup.directory(), "one.sock", "pass-fd", serve);
    let other = guest::start(setup.directory(), "other.sock", "pass-fd", serve);
    let root = setup.root();
    let pools = format!(
        "[[pools]]\nname = 'one'\nservers = 'unix:{}'\ntransport = 'pass-fd'\n\
         [[pools]]\nname = 'other'\nservers = 'unix:{}'\ntransport = 'pass-fd'\n\
         [[routes]]\npath = '/one/**'\npool = 'one'\nprogram = '/srv/app'\n\
         [[routes]]\npath = '/other/**'\npool = 'other'\nprogram = '/srv/app'\n\
         [[sites]]\nhosts = ['other.example']\nroot = '{}'\n",
        one.display(),
        other.display(),
        root.display(),
    );
    let server = setup.config(&pools).start();
    let get = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (path, host, status) in [
        ("/one/x", "test", 200),
        ("/hello.txt", "test", 200),
        ("/nothing", "test", 404),
        ("/other/x", "test", 421),
        ("/hello.txt", "other.example", 421),
        ("/nothing", "other.example", 421),
    ] {
        for is_pipelined in [false, true] {
            let mut client = server.connect();
            assert_eq!(client.get("/hello.txt").text(), HELLO, "nobody has it yet");
            client.send(get("/one/x", "test"));
            if !is_pipelined {
                assert_eq!(client.reply().text(), "well");
            }
            client.send(get(path, host));
            if is_pipelined {
                assert_eq!(client.reply().text(), "well");
            }
            let reply = client.reply();
            assert_eq!((reply.status, reply.closes()), (status, status == 421), "{path} {host}");
            if status == 421 {
                client.expect_close();
            } else {
                assert_eq!(client.get("/hello.txt").text(), HELLO);
            }
        }
    }
    let mut client = server.connect();
    client.send(get("/hello.txt", "other.example"));
    assert_eq!(client.reply().text(), HELLO);
    assert_eq!(client.get("/one/x").text(), "well", "one that was not lent serves all");
}

/// Who keeps the client's socket keeps nothing once the connection has ended.
fn a_copy_is_of_no_use_after_the_end(variant: &Variant) {
    let copies: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let kept = Arc::clone(&copies);
    let server = site(variant, "", move |asked: Asked| {
        let copy = asked.lent.as_ref()?.client.try_clone().expect("a copy");
        kept.lock().expect("no panic").push(copy);
        asked.serve(b"well")
    });
    let level = Level::of(&server);
    for round in 0..20 {
        let mut client = server.connect();
        if round % 2 == 0 {
            assert_eq!(client.get("/app/x").text(), "well");
            client.send("GET /hello.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            assert_eq!(client.reply().text(), HELLO);
        } else {
            client.send("GET /app/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            assert_eq!(client.reply().text(), "well");
        }
        client.expect_close();
    }
    level.is_kept();
    // New clients get the numbers that these had.
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for mut copy in copies.lock().expect("no panic").drain(..) {
        assert!(
            sys::socket::is_broken(copy.as_fd())
                || !guest::write(&mut copy, b"stray")
                || !guest::write(&mut copy, b"stray")
        );
    }
    for client in &mut clients {
        assert_eq!(client.get("/hello.txt").text(), HELLO);
    }
}
