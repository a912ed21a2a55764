//! Shared memory in which somebody has written what he should not have: nothing crashes for good, and all
//! files are served.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use rustix::process::Signal;

use super::{FILES, content, kill, start, status_process};
use harness::client::{Broken, Client};
use harness::server::{Server, children};
use harness::{Random, eventually, sleep_ms};

const PAGE: usize = 4096;

/// The small areas of shared memory: buckets, slots, sums, pins, locks, and the words between supervisor and
/// workers. The large ones are the bytes of files, and the record of who owns which descriptor.
fn small_areas(pid: u32) -> Vec<(usize, usize)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the process is there");
    let mut areas = Vec::new();
    for line in maps.lines().filter(|line| line.contains("/dev/zero (deleted)")) {
        let (range, _) = line.split_once(' ').expect("a range");
        let (from, to) = range.split_once('-').expect("a range");
        let number = |hex| usize::from_str_radix(hex, 16).expect("a number");
        areas.push((number(from), number(to) - number(from)));
    }
    areas.retain(|&(_, length)| length <= 4 * PAGE);
    areas
}

/// Words of the areas become what a mistake might write.
fn scribble(pid: u32, random: &mut Random, one_in: usize) {
    let memory = File::options().write(true).open(format!("/proc/{pid}/mem")).expect("it can be written to");
    for (from, length) in small_areas(pid) {
        for at in (0..length).step_by(4) {
            if random.below(one_in) != 0 {
                continue;
            }
            let word: u32 = match random.below(4) {
                0 => random.below(100) as u32,
                1 => u32::MAX,
                2 => 0x4141_4141,
                _ => random.below(1 << 30) as u32,
            };
            memory.write_all_at(&word.to_le_bytes(), (from + at) as u64).expect("it is there");
        }
    }
}

/// Whether a file is answered for, and rightly so. That connections break for a moment is to be expected.
fn is_served(server: &Server, file: usize) -> bool {
    let mut client = Client::connect(server.address);
    client.ask("GET", &format!("/many/{file}.bin"), &[]);
    match client.try_reply() {
        Ok(reply) => {
            assert!(reply.status != 200 || reply.body == content(file), "{file} is another file's");
            reply.status == 200
        }
        Err(Broken::Closed | Broken::Reset | Broken::CutShort(_)) => false,
        Err(broken) => panic!("{file}: {broken:?}"),
    }
}

fn serves_all(server: &Server) {
    // For each worker something, as it says anew then what it has pinned.
    let mut clients: Vec<Client> = (0..60).map(|_| server.connect()).collect();
    for client in &mut clients {
        let _ = client.try_send(b"GET /many/0.bin HTTP/1.1\r\nHost: x\r\n\r\n") && client.try_reply().is_ok();
    }
    drop(clients);
    for file in 0..FILES {
        eventually(&format!("{file} is served"), || is_served(server, file));
    }
}

fn garbage(seed: u64, one_in: usize) {
    let mut server = start();
    server.warm_up();
    serves_all(&server);
    let mut random = Random(seed);
    for round in 0..6 {
        let status = status_process(&server);
        let workers: Vec<u32> = children(server.pid()).into_iter().filter(|&pid| pid != status).collect();
        scribble(workers[0], &mut random, one_in);
        for file in 0..20 {
            eventually(&format!("{file} is served in round {round}"), || is_served(&server, file));
        }
        // Somebody has to be buried as well.
        if round % 2 == 1 {
            kill(workers[0]);
        }
        serves_all(&server);
        eventually("all workers are there", || children(server.pid()).len() == 3 + 1);
        assert!(!server.has_ended());
    }
    // Whatever has been made of the workers, they go on.
    let before = children(server.pid());
    sleep_ms(1_500);
    assert_eq!(children(server.pid()), before, "{:#?}", server.stderr());
    server.signal(Signal::HUP);
    eventually("others serve", || children(server.pid()).iter().all(|pid| !before.contains(pid)));
    serves_all(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_little_garbage_everywhere() {
    garbage(1, 200);
}

#[test]
fn much_garbage_everywhere() {
    garbage(2, 4);
}
