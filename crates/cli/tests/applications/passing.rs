//! Clients that are lent, and memory that is shared, while service ends, starts anew or breaks: whatever
//! comes in between, nobody gets another's bytes and nothing is left.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::client::{Broken, Client};
use crate::support::guest::{self, Asked, Connection};
use crate::support::server::{Server, Setup};
use crate::support::site::HELLO;
use crate::support::variant::{Test, Variant, tests};
use crate::support::{self, Random, eventually, scripted, sleep_ms};

pub(super) const TESTS: &[Test] = tests![
    Each: service_ends_meanwhile;
    Three: service_goes_on_meanwhile, a_worker_is_killed_meanwhile, all_that_can_happen;
];

/// An application that tells when it has the client, and sends the reply when it is told, or never.
fn waiting_site(variant: &Variant, top: &str) -> (Server, mpsc::Receiver<Option<bool>>, mpsc::Sender<()>) {
    let (tell, heard) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    let (tell, may_go) = (Mutex::new(tell), Mutex::new(may_go));
    let setup = Setup::new(variant);
    let socket = guest::start(setup.directory(), "app.sock", "pass-fd", move |mut asked| {
        let told = tell.lock().expect("no panic").clone();
        told.send(None).expect("the test waits");
        if asked.params["QUERY_STRING"] == "never" {
            while asked.connection.record().is_ok() {}
            let lent = asked.lent.as_mut()?;
            let is_of_use = lent.write(b"late") && lent.write(b"late");
            // As a library does whose server is gone.
            let _ = lent.client.shutdown(std::net::Shutdown::Both);
            told.send(Some(is_of_use)).expect("the test waits");
            return None;
        }
        may_go.lock().expect("no panic").recv().expect("the test tells");
        asked.serve(&vec![b'x'; 1_000_000])
    });
    let pool = scripted::pool(&[&socket], "transport = 'pass-fd'");
    (setup.config(&format!("{top}\n{pool}")).start(), heard, go)
}

/// A stop waits for a client that is lent, for as long as it waits for others.
fn service_ends_meanwhile(variant: &Variant) {
    let (mut server, heard, go) = waiting_site(variant, "");
    let mut client = server.connect();
    client.ask("GET", "/app/x", &[]);
    assert_eq!(heard.recv_timeout(support::PATIENCE), Ok(None));
    server.signal(Signal::TERM);
    sleep_ms(200);
    go.send(()).expect("it waits");
    assert_eq!(client.reply().body.len(), 1_000_000);
    client.expect_close();
    drop(client);
    assert_eq!(server.exit_code(), Some(0));

    let (mut server, heard, _go) = waiting_site(variant, "drain_timeout = '300 ms'");
    let mut client = server.connect();
    client.ask("GET", "/app/x?never", &[]);
    assert_eq!(heard.recv_timeout(support::PATIENCE), Ok(None));
    server.signal(Signal::TERM);
    assert_eq!(client.try_reply(), Err(Broken::Reset));
    assert_eq!(heard.recv_timeout(support::PATIENCE), Ok(Some(false)), "its copy is of no use");
    server.exit_code();
}

/// So does a worker that a reload or an upgrade replaces.
fn service_goes_on_meanwhile(variant: &Variant) {
    for signal in [Signal::HUP, Signal::USR2] {
        let (server, heard, go) = waiting_site(variant, "");
        let before = server.workers();
        let mut client = server.connect();
        client.ask("GET", "/app/x", &[]);
        assert_eq!(heard.recv_timeout(support::PATIENCE), Ok(None));
        server.signal(signal);
        eventually("others serve", || {
            let (code, _) = server.status_page("/json");
            code == 200 && server.workers().iter().all(|worker| !before.contains(worker))
        });
        assert_eq!(server.get("/hello.txt").text(), HELLO);
        go.send(()).expect("it waits");
        assert_eq!(client.reply().body.len(), 1_000_000);
        // It was promised that the connection goes on, and so it does until it says that it ends.
        eventually("the connection's end is announced", || {
            let reply = client.get("/hello.txt");
            assert_eq!(reply.text(), HELLO);
            reply.closes()
        });
        if signal == Signal::USR2 {
            // The new program is nobody's child here.
            let _ = kill_process(successor(&server), Signal::TERM);
        }
    }
}

fn successor(server: &Server) -> Pid {
    let pid = server.status()["pid"].as_u64().expect("a process") as i32;
    Pid::from_raw(pid).expect("a process")
}

/// The application notices, and its client's connection ends; nothing is left of it anywhere.
fn a_worker_is_killed_meanwhile(variant: &Variant) {
    let (server, heard, _go) = waiting_site(variant, "");
    server.warm_up();
    let level = server.descriptors() - server.count("file_table_descriptors") as usize;
    for _ in 0..3 {
        let before = server.workers();
        let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.ask("GET", "/app/x?never", &[]);
            assert_eq!(heard.recv_timeout(support::PATIENCE), Ok(None));
        }
        for worker in &before {
            let pid = Pid::from_raw(*worker as i32).expect("a process");
            kill_process(pid, Signal::KILL).expect("the process is there");
        }
        for client in &mut clients {
            assert!(heard.recv_timeout(support::PATIENCE).is_ok_and(|end| end.is_some()));
            while client.read_raw(1).is_ok_and(|bytes| !bytes.is_empty()) {}
        }
        eventually("workers are back", || {
            let workers = server.workers();
            workers.len() == before.len()
                && workers.iter().all(|worker| *worker != 0 && !before.contains(worker))
        });
    }
    server.warm_up();
    eventually("nothing is left", || {
        let files = server.count("file_table_descriptors") as usize;
        server.descriptors() - files <= level + 1
    });
}

/// How many requests: as many as the environment says, or enough to see most of what can happen.
fn rounds() -> u64 {
    std::env::var("SLUICE_PASSES").ok().and_then(|passes| passes.parse().ok()).unwrap_or(600)
}

/// Bytes that say whose they are, 16 at a time.
fn tokens(token: u64, count: u64) -> Vec<u8> {
    (0..count).flat_map(|at| format!("{token:08x}{at:07x}\n").into_bytes()).collect()
}

/// Does at random what it should, or not.
fn misbehave(mut asked: Asked, random: &Mutex<Random>) -> Option<Connection> {
    let token: u64 = asked.params["PATH_INFO"][1..].parse().expect("a number");
    let (how, cut) = {
        let mut random = random.lock().expect("no panic");
        (random.below(12), random.below(200_000))
    };
    let body = tokens(token, 1 + token % 20_000);
    let Some(lent) = &mut asked.lent else {
        let response = [format!("Content-Length: {}\n\n", body.len()).into_bytes(), body].concat();
        return match how {
            0 => None,
            1 => {
                let cut = cut % response.len();
                for piece in response[..cut].chunks(30_000) {
                    asked.fill(piece);
                }
                None
            }
            _ => asked.share(&response, 10_000),
        };
    };
    match how {
        0 => None,
        1 => {
            let reply =
                [lent.head(&format!("Content-Length: {}\r\n", body.len())).into_bytes(), body].concat();
            lent.write(&reply[..cut % reply.len()]);
            None
        }
        2 => {
            let reply =
                [lent.head(&format!("Content-Length: {}\r\n", body.len())).into_bytes(), body].concat();
            lent.write(&reply);
            asked.give_back(200, 3, 4, 5)
        }
        _ => asked.serve(&body),
    }
}

/// Applications die at random points, clients leave at random points, workers are killed at random points.
fn all_that_can_happen(variant: &Variant) {
    for (transport, more) in
        [("pass-fd", ""), ("shared-memory", ""), ("shared-memory", "area_send = 'sendfile'")]
    {
        let random = Mutex::new(Random(7));
        let setup = Setup::new(variant);
        let serve = move |asked| misbehave(asked, &random);
        let socket = guest::start(setup.directory(), "app.sock", transport, serve);
        let more = format!("transport = '{transport}'\nchildren = 20\nkeep = 2\narea = '256 KiB'\n{more}");
        let server = setup.config(&scripted::pool(&[&socket], &more)).start();
        server.warm_up();
        let ask = |token: u64, random: &mut Random, client: &mut Option<Client>| {
            let mut connection = client.take().unwrap_or_else(|| server.connect());
            if !connection.try_send(format!("GET /app/{token} HTTP/1.1\r\nHost: x\r\n\r\n")) {
                return false;
            }
            if random.below(10) == 0 {
                sleep_ms(random.below(5) as u64);
                let _ = connection.try_reply_within(std::time::Duration::from_millis(1));
                connection.reset();
                return false;
            }
            match connection.try_reply() {
                Ok(reply) => {
                    let is_its_own = reply.body == tokens(token, 1 + token % 20_000);
                    assert!(is_its_own || reply.status >= 500, "{transport} {token}: {reply:?}");
                    if !reply.closes() {
                        *client = Some(connection);
                    }
                    is_its_own
                }
                Err(Broken::Silent | Broken::Malformed(_)) => panic!("{transport} {token}: nothing came"),
                // What came of it is in its buffer, and was its own as far as it goes.
                Err(_) => false,
            }
        };
        let (next, whole, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let crowd = |rounds: u64| {
            thread::scope(|scope| {
                for number in 0..6 {
                    let (ask, next, whole) = (&ask, &next, &whole);
                    scope.spawn(move || {
                        let (mut random, mut client) = (Random(number), None);
                        while next.fetch_add(1, Ordering::Relaxed) < rounds {
                            let token = random.next() >> 40;
                            whole.fetch_add(ask(token, &mut random, &mut client).into(), Ordering::Relaxed);
                        }
                    });
                }
            });
        };
        // As much as it holds when all has happened once.
        crowd(100);
        next.store(0, Ordering::Relaxed);
        let before = level(&server);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(99);
                while !is_over.load(Ordering::Relaxed) {
                    sleep_ms(200 + random.below(400) as u64);
                    let workers = server.workers();
                    let pid = Pid::from_raw(workers[random.below(workers.len())] as i32);
                    let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
                }
            });
            crowd(rounds());
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(whole.load(Ordering::Relaxed) > rounds() / 4, "most go well: {whole:?}");
        let used = server.pool_count(if transport == "pass-fd" { "passed" } else { "shared" });
        assert!(used > 0, "{}", server.status()["pools"]);
        server.warm_up();
        eventually("all is as before", || {
            let after = level(&server);
            after.0 <= before.0 + 2 && after.1 < before.1 + (16 << 20)
        });
    }
}

/// Descriptors and bytes of memory of a server without clients.
fn level(server: &Server) -> (usize, u64) {
    eventually("no connection is left", || {
        let status = server.status();
        status["total"]["connections_opened"] == status["total"]["connections_closed"]
    });
    let files = server.count("file_table_descriptors") as usize;
    (server.descriptors() - files, server.memory())
}
