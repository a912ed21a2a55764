//! Tests applications' replies by any transport, while everything happens that can end a reply. Clients reset
//! their connections, workers are killed, and the caller makes applications misbehave or kills them. Each
//! reply repeats its request's token from the first byte to the last, so that a byte from another reply is
//! detected. Afterwards, the server must hold what it held before.
//!
//! `SLUICE_PASSES` sets the number of requests, and `SLUICE_SEED` the random numbers.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Broken, Client};
use crate::server::Server;
use crate::{Random, eventually, sleep_ms};

/// Clients that send requests at the same time.
const CLIENTS: u64 = 6;

/// The number of requests. The default is enough to see most of what can happen.
fn rounds() -> u64 {
    from_environment("SLUICE_PASSES", 600)
}

fn from_environment(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Random numbers of one kind, from the seed.
pub fn random(kind: u64) -> Random {
    Random(from_environment("SLUICE_SEED", 7).wrapping_mul(1000) + kind)
}

/// The body of a reply for a token: the token and the position, in blocks of 16 bytes.
pub fn reply_to(token: u64) -> Vec<u8> {
    let mut body = String::new();
    for at in 0..=token % 20_000 {
        let _ = writeln!(body, "{token:08x}{at:07x}");
    }
    body.into_bytes()
}

/// Sends all these requests, while workers are killed and `meanwhile` is called repeatedly. The pool's
/// counter `used` shows that replies came by the transport.
#[track_caller]
pub fn run(server: &Server, (transport, used): (&str, &str), meanwhile: impl Fn(&mut Random) + Sync) {
    eprintln!("{transport}, SLUICE_PASSES={} SLUICE_SEED={}", rounds(), from_environment("SLUICE_SEED", 7));
    server.warm_up();
    // What the server holds once everything has happened at least once.
    crowd(server, 100, 10);
    let before = level(server);
    let is_over = AtomicBool::new(false);
    let whole = thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = random(1);
            while !is_over.load(Ordering::Relaxed) {
                sleep_ms(200 + random.below(400) as u64);
                let workers = server.workers();
                let pid = Pid::from_raw(workers[random.below(workers.len())] as i32);
                let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
            }
        });
        scope.spawn(|| {
            let mut random = random(2);
            while !is_over.load(Ordering::Relaxed) {
                meanwhile(&mut random);
                sleep_ms(20 + random.below(100) as u64);
            }
        });
        let whole = crowd(server, rounds(), 20);
        is_over.store(true, Ordering::Relaxed);
        whole
    });
    assert!(whole > rounds() / 4, "most go well: {whole}");
    assert!(server.pool_count(used) > 0, "{}", server.status()["pools"]);
    server.warm_up();
    let mut after = before;
    // Restarted workers have a copy of the status process's eventfd, which the first ones do not have.
    let workers = server.workers().len();
    eventually("it holds what it held", || {
        after = level(server);
        after.0 <= before.0 + workers && after.1 < before.1 + (16 << 20)
    });
    eprintln!("{whole} of {} whole; descriptors and bytes {before:?}, and then {after:?}", rounds());
}

/// Lets several clients send requests for `rounds` tokens together. Returns how many replies were
/// complete.
fn crowd(server: &Server, rounds: u64, kind: u64) -> u64 {
    let (next, whole) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (next, whole) = (&next, &whole);
            scope.spawn(move || {
                let (mut random, mut client) = (random(kind + number), None);
                while next.fetch_add(1, Ordering::Relaxed) < rounds {
                    let is_whole = ask(server, &mut random, &mut client);
                    whole.fetch_add(is_whole.into(), Ordering::Relaxed);
                }
            });
        }
    });
    whole.into_inner()
}

/// Requests a token, on the existing connection or on a new one. Returns whether the whole reply arrived.
fn ask(server: &Server, random: &mut Random, client: &mut Option<Client>) -> bool {
    let token = random.draw() >> 40;
    let mut connection = client.take().unwrap_or_else(|| server.connect());
    if !connection.try_send(format!("GET /app/{token} HTTP/1.1\r\nHost: x\r\n\r\n")) {
        return false;
    }
    if random.below(10) == 0 {
        sleep_ms(random.below(5) as u64);
        let _ = connection.try_reply_within(Duration::from_millis(1));
        connection.reset();
        return false;
    }
    match connection.try_reply() {
        Ok(reply) => {
            let is_its_own = reply.body == reply_to(token);
            assert!(is_its_own || reply.status >= 500, "{token}: {reply:?}");
            if !reply.closes() {
                *client = Some(connection);
            }
            is_its_own
        }
        Err(Broken::Silent | Broken::Malformed(_)) => panic!("{token}: nothing came"),
        // The part that arrived is in the client's buffer, and was correct as far as it goes.
        Err(_) => false,
    }
}

/// Descriptors and bytes of memory that a server without clients holds.
fn level(server: &Server) -> (usize, u64) {
    eventually("no connection is left", || {
        let status = server.status();
        status["total"]["connections_opened"] == status["total"]["connections_closed"]
    });
    let files = server.count("file_table_descriptors") as usize;
    (server.descriptors() - files, server.memory())
}
