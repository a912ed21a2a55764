//! Bursts at a log's times, before a server that is slower than the logged one: what is late is made up for
//! by thinking.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use load::engine::{self, Keep};
use load::output::Output;
use load::run::Load;
use load::schedule::Schedule;
use workload::wsesslog;

const MS: u64 = 1_000_000;
/// How long each reply takes.
const SLOW: u64 = 150;

/// Two sessions; the second page of the first is due before the first can be there.
const SESSIONS: &[u8] = b"#@ 0\n/ think=5\n#@ 0.1\n/\n#@ 0.5\n/\n /\n\n#@ 0.2\n/\n";

fn serve(listener: &TcpListener, takes_ms: u64) {
    for client in listener.incoming() {
        let mut client = client.unwrap();
        thread::spawn(move || {
            // Requests come one by one: none is sent before the reply to the one before it.
            while client.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                thread::sleep(Duration::from_millis(takes_ms));
                client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            }
        });
    }
}

/// Session, position, and three times of each call.
fn play(server: SocketAddr, sessions: &[u8]) -> Vec<[u64; 5]> {
    let log = wsesslog::parse(sessions).unwrap();
    let times = log.arrivals().unwrap();
    let load =
        Load::Arriving { count: Some(times.len() as u64), schedule: Schedule::logged(times), kept: None };
    let mut run = support::run(log, server, load, Duration::from_secs(10));
    // The times are to go before this.
    run.classes[0].timeouts.think = Duration::from_secs(10);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.csv");
    let calls = Some(Output::open(&path).unwrap());
    engine::start(run, Keep { calls, ..Keep::default() }).unwrap().finish().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let (names, rows) = text.split_once('\n').unwrap();
    let place = |name| names.split(',').position(|found| found == name).unwrap();
    let columns = ["session", "position", "intended", "issued", "ended"].map(place);
    let row = |row: &str| columns.map(|column| row.split(',').nth(column).unwrap().parse().unwrap());
    let mut calls: Vec<[u64; 5]> = rows.lines().map(row).collect();
    calls.sort_unstable();
    calls
}

#[test]
fn a_slow_server_is_waited_for_and_made_up_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve(&listener, SLOW));
    let calls = play(address, SESSIONS);
    let places: Vec<_> = calls.iter().map(|call| (call[0], call[1])).collect();
    assert_eq!(places, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]);
    let intended: Vec<_> = calls.iter().map(|call| call[2]).collect();
    assert_eq!((intended[0], intended[4]), (0, 200 * MS));
    let ended = |call: usize| calls[call][4];
    assert!(intended[1] >= ended(0) && ended(0) >= SLOW * MS, "it waits for the reply: {calls:?}");
    assert!(intended[1] < ended(0) + 1000 * MS, "its time had passed, and nobody thinks for 5 s: {calls:?}");
    // Unless this machine stood still for 200 ms, which the generator is not to blame for.
    if ended(1) < 500 * MS {
        assert_eq!(intended[2], 500 * MS, "what was late before it does not matter");
    }
    assert!(intended[3] >= ended(2), "the rest of a burst follows its first reply: {calls:?}");
    assert!(calls.iter().all(|call| call[3] >= call[2]), "nothing goes before its time: {calls:?}");
}

/// A timer that comes to the millisecond would be 0.9 ms late for each of them.
#[test]
fn a_burst_begins_when_it_should() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve(&listener, 0));
    let bursts = (0..100).map(|burst| format!("#@ {}.{:04}\n/\n", 0, 1 + burst * 30));
    let calls = play(address, bursts.collect::<String>().as_bytes());
    assert_eq!(calls.len(), 100);
    // The first is an arrival. On a busy machine some are late, and those that wait for a late reply begin
    // with that.
    let at_their_times = calls[1..].iter().filter(|[_, _, intended, ..]| intended % MS == MS / 10);
    let least = at_their_times.map(|[_, _, intended, issued, _]| issued - intended).min();
    assert!(least.is_some_and(|late| late < MS / 2), "{least:?} ns late at best");
}
