//! The controllers where writers have something to wait for: sends block, and clients take their time.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use harness::client::Client;
use harness::eventually;
use harness::server::Server;
use harness::site::{HELLO, large};
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    One: writers_come_and_go, admission_slows_down_and_lets_everybody_in, a_drain_lets_all_out,
         a_killed_pipeline_is_there_again;
];

const STEERED: Variant = Variant {
    name: "steered",
    options: &[
        "--architecture=pipeline",
        "--workers=1",
        "--writers=4",
        "--controllers",
        "--send=blocking",
        "--small-file=0",
    ],
};

/// Clients that have asked for a large file and do not read.
fn slow_clients(server: &Server) -> Vec<Client> {
    let mut clients: Vec<_> = (0..12).map(|_| server.connect_narrow()).collect();
    for client in &mut clients {
        client.ask("GET", "/large.bin", &[]);
    }
    clients
}

fn writers(server: &Server) -> u64 {
    server.count("stage_threads/write")
}

/// The process with the stages.
fn pipeline(server: &Server) -> u32 {
    server.status()["workers"][0]["pid"].as_u64().expect("a number") as u32
}

/// How often a thread of it has waited for something, if there is one.
fn waits(pid: u32, thread: &str) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let paths = tasks.map(|task| task.expect("a thread").path());
    let path = paths.into_iter().find(|path| read(&path.join("comm")).trim() == thread)?;
    let status = read(&path.join("status"));
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Some(count.expect("a count").trim().parse().expect("a number"))
}

fn writers_come_and_go(_: &Variant) {
    let server = Server::start(&STEERED);
    eventually("one writer is in use", || writers(&server) == 1);
    let pid = pipeline(&server);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    assert!(
        waits(pid, "write-0").is_some() && waits(pid, "write-1").is_none(),
        "who is not needed comes later"
    );
    let mut clients = slow_clients(&server);
    eventually("all writers wait for clients", || writers(&server) == 4);
    eventually("the last writer has something to do", || waits(pid, "write-3") > Some(2));
    let large = large();
    for client in &mut clients {
        assert!(client.reply().body == large, "the whole file");
    }
    eventually("one writer is enough", || writers(&server) == 1);
    assert!(waits(pid, "write-3").is_some(), "who has come stays");
    assert!(server.count("stage_threads_changed/write") >= 4);
    assert_eq!(server.count("stage_threads/read"), 1);
    assert_eq!(server.count("stage_batch_limit"), 64);
}

fn admission_slows_down_and_lets_everybody_in(_: &Variant) {
    let server = Server::start(&STEERED);
    assert_eq!(server.count("admission_rate"), 0, "there is no bound");
    let mut clients = slow_clients(&server);
    eventually("writers wait", || writers(&server) > 1);
    for client in &mut clients {
        assert_eq!(client.reply().status, 200);
    }
    eventually("replies are late", || server.count("admission_replies/late") >= 12);
    eventually("there is a bound", || server.count("admission_rate") >= 10);
    assert!(server.count("admission_rate_changed") >= 1);
    let changed = server.count("admission_rate_changed");
    eventually("there is room for more than may come in", || {
        let mut clients: Vec<_> = (0..5).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/hello.txt").text(), HELLO);
        }
        server.count("admission_rate_changed") > changed
    });
    assert!(server.count("admission_replies/timely") > 0);
}

fn a_drain_lets_all_out(_: &Variant) {
    let mut server = Server::start(&STEERED);
    let mut clients = slow_clients(&server);
    eventually("writers wait", || writers(&server) > 1);
    server.signal(Signal::TERM);
    let large = large();
    for client in &mut clients {
        assert!(client.reply().body == large, "the whole file");
    }
    // Idle connections go last.
    clients.iter_mut().for_each(Client::expect_close);
    assert_eq!(server.exit_code(), Some(0));
}

fn a_killed_pipeline_is_there_again(_: &Variant) {
    let server = Server::start(&STEERED);
    let clients = slow_clients(&server);
    eventually("writers wait", || writers(&server) > 1);
    let before = pipeline(&server);
    let pid = Pid::from_raw(before as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("the process is there");
    eventually("there is another", || ![0, before].contains(&pipeline(&server)));
    // Whoever was in the accept queue is with the other one now.
    drop(clients);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    eventually("one writer is in use", || writers(&server) == 1);
}
