//! Workers that are stopped for a while, wherever they are. The others go on: nobody waits for what a stopped
//! one holds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::{FILES, SHARED, content, raise_descriptor_limit};
use harness::client::Client;
use harness::server::{Server, Setup, stop};
use harness::{Random, sleep_ms};

/// Every request looks at its file again, and names come and go, so that locks are held for most of the time.
fn start() -> Server {
    raise_descriptor_limit();
    let setup = Setup::new(&SHARED).config("[files]\nmax_open = 8\nvalidity = \"0 s\"");
    (0..FILES).fold(setup, |setup, file| setup.file(&format!("many/{file}.bin"), content(file))).start()
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).expect("a process"), signal).expect("the worker is there");
}

/// A client of this worker: nobody else can accept it.
fn client_of(server: &Server, worker: u32) -> Client {
    let others: Vec<u32> = server.workers().into_iter().filter(|&other| other != worker).collect();
    stop(&others);
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").status, 200);
    for &other in &others {
        send(other, Signal::CONT);
    }
    client
}

/// Right whatever the others do, and in time: otherwise the client gives up.
fn ask(client: &mut Client, file: usize) {
    let reply = client.get(&format!("/many/{file}.bin"));
    assert_eq!(reply.status, 200, "{file}");
    assert!(reply.body == content(file), "{file}");
}

#[test]
fn a_stopped_worker_holds_up_nobody() {
    let server = start();
    server.warm_up();
    let workers = server.workers();
    let mut bystander = client_of(&server, workers[0]);
    let busy: Vec<Client> = (0..8).map(|at| client_of(&server, workers[1 + at % 2])).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for (seed, mut client) in busy.into_iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                let mut random = Random(seed as u64);
                while !done.load(Ordering::Relaxed) {
                    ask(&mut client, random.below(16));
                }
            });
        }
        let mut random = Random(17);
        for round in 0..60 {
            sleep_ms(random.below(8) as u64);
            let victim = workers[1 + round % 2];
            stop(&[victim]);
            for file in 0..16 {
                ask(&mut bystander, file);
            }
            send(victim, Signal::CONT);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.count("restarts"), 0);
}
