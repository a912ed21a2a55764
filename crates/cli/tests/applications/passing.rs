//! Clients that are lent, and memory that is shared, while service ends, starts anew or breaks: whatever
//! comes in between, nobody gets another's bytes and nothing is left.

use std::sync::{Mutex, mpsc};

use rustix::process::{Pid, Signal, kill_process};

use super::lent::Level;
use harness::client::{Broken, Client};
use harness::guest::{self, Asked, Connection};
use harness::server::{Server, Setup};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};
use harness::{Random, eventually, passes, scripted, sleep_ms};

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
    assert_eq!(heard.recv_timeout(harness::TIMEOUT), Ok(None));
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
    assert_eq!(heard.recv_timeout(harness::TIMEOUT), Ok(None));
    server.signal(Signal::TERM);
    assert_eq!(client.try_reply(), Err(Broken::Reset));
    assert_eq!(heard.recv_timeout(harness::TIMEOUT), Ok(Some(false)), "its copy is of no use");
    server.exit_code();
}

/// So does a worker that a reload or an upgrade replaces.
fn service_goes_on_meanwhile(variant: &Variant) {
    for signal in [Signal::HUP, Signal::USR2] {
        let (server, heard, go) = waiting_site(variant, "");
        let before = server.workers();
        let mut client = server.connect();
        client.ask("GET", "/app/x", &[]);
        assert_eq!(heard.recv_timeout(harness::TIMEOUT), Ok(None));
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
    let level = Level::of(&server);
    for _ in 0..3 {
        let before = server.workers();
        let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.ask("GET", "/app/x?never", &[]);
            assert_eq!(heard.recv_timeout(harness::TIMEOUT), Ok(None));
        }
        for worker in &before {
            let pid = Pid::from_raw(*worker as i32).expect("a process");
            kill_process(pid, Signal::KILL).expect("the process is there");
        }
        for client in &mut clients {
            assert!(heard.recv_timeout(harness::TIMEOUT).is_ok_and(|end| end.is_some()));
            while client.read_raw(1).is_ok_and(|bytes| !bytes.is_empty()) {}
        }
        eventually("workers are back", || {
            let workers = server.workers();
            workers.len() == before.len()
                && workers.iter().all(|worker| *worker != 0 && !before.contains(worker))
        });
    }
    server.warm_up();
    level.with_other_workers().is_kept();
}

/// Does at random what it should, or not.
fn misbehave(mut asked: Asked, random: &Mutex<Random>) -> Option<Connection> {
    let token: u64 = asked.params["PATH_INFO"][1..].parse().expect("a number");
    let (how, cut) = {
        let mut random = random.lock().expect("no panic");
        (random.below(12), random.below(200_000))
    };
    let body = passes::reply_to(token);
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
        let random = Mutex::new(passes::random(0));
        let setup = Setup::new(variant);
        let serve = move |asked| misbehave(asked, &random);
        let socket = guest::start(setup.directory(), "app.sock", transport, serve);
        let more = format!("transport = '{transport}'\nchildren = 20\nkeep = 2\narea = '256 KiB'\n{more}");
        let server = setup.config(&scripted::pool(&[&socket], &more)).start();
        let used = if transport == "pass-fd" { "passed" } else { "shared" };
        passes::run(&server, (transport, used), |_| {});
    }
}
