//! A running server changes its architecture by a reload, under load. Every request is answered, and a
//! connection ends only with a reply that announced it.

use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use harness::client::{Client, request};
use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE};
use harness::variant::{self, Test, Variant, tests};
use harness::{eventually, sleep_ms};
use rustix::process::Signal;

const TOUR: &[Test] = tests![One: a_tour_through_all_architectures];

/// With `SLUICE_VARIANTS=all`: they take two minutes.
const ALL: &[Test] = tests![One: a_tour_through_all_architectures, every_ordered_pair];

/// No architecture is on its command line: the file may change it.
const PLAIN: &[Variant] = &[Variant { name: "live", options: &["--max-connections=2000"] }];

/// What the file says for each architecture.
const ARCHITECTURES: [(&str, &str); 10] = [
    ("sped", ""),
    ("symped", "workers = 2"),
    ("shared-symped", "workers = 2"),
    ("n-copy", ""),
    ("amped", "workers = 2"),
    ("user-threads", "workers = 2"),
    ("uring", "workers = 2"),
    ("pipeline", "workers = 2"),
    ("processes", "workers = 20"),
    ("threads", "workers = 20"),
];

fn main() -> ExitCode {
    variant::run_for(PLAIN, &[("live_switch", if variant::all_are_wanted() { ALL } else { TOUR })])
}

/// Clients that ask until they are told to stop, and what went wrong for them.
struct Clients {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    all: Vec<JoinHandle<Result<(), String>>>,
}

impl Clients {
    fn start(address: SocketAddr) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |number: usize| {
            let (target, size) =
                if number.is_multiple_of(4) { ("/large.bin", LARGE) } else { ("/hello.txt", HELLO.len()) };
            let (stop, answered) = (stop.clone(), answered.clone());
            thread::spawn(move || keep_asking(address, (target, size), &stop, &answered))
        };
        let all = (0..8).map(client).collect();
        Self { stop, answered, all }
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// How many requests were answered, if all were.
    #[track_caller]
    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.all {
            client.join().expect("a client").expect("no request fails");
        }
        self.answered.load(Ordering::Relaxed)
    }
}

/// Asks again and again, on a new connection after a reply that announced the end of the old one.
fn keep_asking(
    address: SocketAddr,
    (target, size): (&str, usize),
    stop: &AtomicBool,
    answered: &AtomicUsize,
) -> Result<(), String> {
    loop {
        let stream = TcpStream::connect(address).map_err(|error| format!("cannot connect: {error}"))?;
        let mut client = Client::over(stream);
        for number in 1.. {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if !client.try_send(request("GET", target, &[])) {
                return Err(format!("request {number} of a connection could not be sent"));
            }
            let reply = client.try_reply();
            let reply = reply.map_err(|broken| format!("request {number} of a connection: {broken:?}"))?;
            if reply.status != 200 || reply.body.len() != size {
                return Err(format!("{} with {} bytes", reply.status, reply.body.len()));
            }
            answered.fetch_add(1, Ordering::Relaxed);
            if reply.closes() {
                break;
            }
        }
    }
}

/// Reloads the server with another architecture, and waits until some requests were answered by it.
fn switch(server: &Server, clients: &Clients, (architecture, workers): (&str, &str), ms: u64) {
    server.rewrite_config(&format!("architecture = '{architecture}'\n{workers}\n"));
    server.signal(Signal::HUP);
    eventually("the new architecture serves", || server.status()["architecture"] == architecture);
    let before = clients.answered();
    sleep_ms(ms);
    eventually("clients are served", || clients.answered() > before + 50);
}

fn started(variant: &Variant) -> (Server, Clients) {
    let (architecture, workers) = ARCHITECTURES[0];
    let server = Setup::new(variant).config(&format!("architecture = '{architecture}'\n{workers}")).start();
    let clients = Clients::start(server.address);
    (server, clients)
}

fn a_tour_through_all_architectures(variant: &Variant) {
    let (mut server, clients) = started(variant);
    for &to in ARCHITECTURES[1..].iter().chain(&ARCHITECTURES[..1]) {
        switch(&server, &clients, to, 100);
    }
    assert!(clients.end() > 8 * 50);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// Each architecture after each other one, for a second.
fn every_ordered_pair(variant: &Variant) {
    let (server, clients) = started(variant);
    for from in ARCHITECTURES {
        for to in ARCHITECTURES.into_iter().filter(|to| *to != from) {
            switch(&server, &clients, from, 0);
            switch(&server, &clients, to, 1_000);
        }
    }
    clients.end();
}
