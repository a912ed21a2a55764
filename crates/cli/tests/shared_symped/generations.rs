//! Reloads, one after another, while clients of the workers before are still there.

use std::collections::HashSet;

use rustix::process::Signal;

use super::{SHARED, start, status_process};
use harness::client::Client;
use harness::server::{Server, Setup, children};
use harness::{Random, eventually, sleep_ms};

const MIB: u64 = 1 << 20;
/// All files together take so much of the table, which has room for them.
const FILLING: u64 = 24 * MIB;
const LARGE: usize = 256 << 10;

fn large(file: usize) -> Vec<u8> {
    Random(file as u64).bytes(LARGE)
}

fn stocked() -> Server {
    let setup = Setup::new(&SHARED).config("small_file = \"256 KiB\"");
    let files = FILLING as usize / LARGE;
    (0..files).fold(setup, |setup, file| setup.file(&format!("large/{file}.bin"), large(file))).start()
}

/// Asks for all files, until the table of the workers of now holds them all.
fn fill(server: &Server) {
    eventually("the table is full", || {
        let mut client = server.connect();
        for file in 0..FILLING as usize / LARGE {
            assert!(client.get(&format!("/large/{file}.bin")).body == large(file), "{file}");
        }
        server.count("file_table_memory_bytes") >= FILLING
    });
}

fn reload(server: &Server) {
    let workers: HashSet<u32> = server.workers().into_iter().collect();
    server.signal(Signal::HUP);
    eventually("others serve", || server.workers().iter().all(|pid| *pid != 0 && !workers.contains(pid)));
}

/// Of shared memory, however many processes look at it: what processes forked by the test have in common
/// counts once.
fn shared_memory(server: &Server) -> u64 {
    let pids = std::iter::once(server.pid()).chain(children(server.pid()));
    let of = |pid: u32| {
        let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
        let mut shared = false;
        let mut bytes = 0;
        for line in smaps.lines() {
            if !line.starts_with(|first: char| first.is_ascii_uppercase()) {
                shared = line.contains("/dev/zero (deleted)");
            } else if let Some(rest) = line.strip_prefix("Pss:").filter(|_| shared) {
                bytes += rest.trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024;
            }
        }
        bytes
    };
    pids.map(of).sum()
}

/// A generation that has nothing left to do but wait for its idle clients to go keeps no files for them, and
/// one that has gone leaves no memory behind.
#[test]
fn memory_of_generations_is_returned() {
    let server = stocked();
    fill(&server);
    let one = shared_memory(&server);
    assert!(one >= FILLING, "{one}");
    let mut idle: Vec<Client> = Vec::new();
    for _ in 0..5 {
        for _ in 0..6 {
            let mut client = server.connect();
            assert_eq!(client.get("/hello.txt").status, 200);
            idle.push(client);
        }
        reload(&server);
        fill(&server);
    }
    // With idle clients, a generation of its own for each reload.
    eventually("those who retire keep nothing", || shared_memory(&server) < one + FILLING / 2);
    assert!(children(server.pid()).len() > 2 * 3);
    for client in &mut idle {
        assert_eq!(client.get("/hello.txt").status, 200);
    }
    drop(idle);
    eventually("they are gone", || children(server.pid()).len() == 3 + 1);
    assert!(shared_memory(&server) < one + 4 * MIB, "{one} before, {}", shared_memory(&server));
    // Into what those before have left.
    reload(&server);
    fill(&server);
    eventually("the last are gone", || children(server.pid()).len() == 3 + 1);
    assert!(shared_memory(&server) < one + 4 * MIB, "{one} before, {}", shared_memory(&server));
}

/// A status process is started with each of them, while workers open and close what they like.
#[test]
fn a_flood_of_reloads_ends_no_status_process() {
    let server = start();
    for _ in 0..60 {
        let clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        server.signal(Signal::HUP);
        sleep_ms(3);
        drop(clients);
    }
    eventually("all before are gone", || children(server.pid()).len() == 3 + 1);
    let ended: Vec<String> =
        server.stderr().into_iter().filter(|line| line.contains("status process")).collect();
    assert!(ended.is_empty(), "{ended:?}");
    assert!(status_process(&server) != 0);
}
