//! The generator's figures, held against what the server itself counted: a rate is how many replies ended in
//! the measured time, whatever they took, and whatever the server's setting; a time is known of every call
//! that was issued in it.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use load::engine::{self, Keep};
use load::measures::Measures;
use load::record::Outcome;
use load::run::{Load, Run};
use load::schedule::{Arrivals, Rate, Schedule};
use socket2::{Domain, Socket, Type};
use sys::clock;
use workload::session::{Builder, Request};

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// When each reply was given to the kernel, while its client was still there.
#[derive(Clone, Default)]
struct Judge(Arc<Mutex<Vec<u64>>>);

impl Judge {
    fn count(&self, window: Range<u64>) -> f64 {
        self.0.lock().unwrap().iter().filter(|at| window.contains(at)).count() as f64
    }

    /// Answers, unless the client has gone: whoever gave up gets no reply.
    fn answer(&self, mut client: &TcpStream) {
        client.set_nonblocking(true).unwrap();
        let gone = client.peek(&mut [0; 1]).is_ok_and(|count| count == 0);
        if !gone && client.write_all(REPLY).is_ok() {
            self.0.lock().unwrap().push(clock::monotonic_ns());
        }
    }
}

fn listen(backlog: i32) -> (Socket, SocketAddr) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(backlog).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    (listener, address)
}

fn read_request(mut client: &TcpStream) -> bool {
    matches!(client.read(&mut [0; 4096]), Ok(1..))
}

/// Answers each request so long after it has read it, however many there are. Until `quiet`, if that comes:
/// no replies from then on.
fn patient_server(delay: Duration, quiet: Option<Instant>) -> (SocketAddr, Judge) {
    let (listener, address) = listen(1024);
    let judge = Judge::default();
    let (to_answer, answers): (Sender<(Instant, TcpStream)>, Receiver<_>) = mpsc::channel();
    let clock = judge.clone();
    thread::spawn(move || {
        let mut unanswered = Vec::new();
        for (at, client) in answers {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if quiet.is_some_and(|quiet| Instant::now() >= quiet) {
                unanswered.push(client);
            } else {
                clock.answer(&client);
            }
        }
    });
    thread::spawn(move || {
        loop {
            let client = TcpStream::from(listener.accept().unwrap().0);
            if read_request(&client) {
                let _ = to_answer.send((Instant::now() + delay, client));
            }
        }
    });
    (address, judge)
}

/// Takes in up to `limit` connections at a time, and then answers each of them after so long: more come than
/// it can answer.
fn busy_server(limit: usize, each: Duration) -> (SocketAddr, Judge) {
    let (listener, address) = listen(64);
    let judge = Judge::default();
    let clock = judge.clone();
    thread::spawn(move || {
        loop {
            let mut accepted = vec![TcpStream::from(listener.accept().unwrap().0)];
            listener.set_nonblocking(true).unwrap();
            while accepted.len() < limit
                && let Ok((client, _)) = listener.accept()
            {
                accepted.push(client.into());
            }
            listener.set_nonblocking(false).unwrap();
            for client in accepted {
                thread::sleep(each);
                client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                if read_request(&client) {
                    clock.answer(&client);
                }
            }
        }
    });
    (address, judge)
}

/// Plays single requests; the window in the monotonic clock's time.
fn play(
    server: SocketAddr,
    rate: f64,
    warm_up: Duration,
    duration: Duration,
    patience: Duration,
) -> (Measures, Range<u64>) {
    let mut log = Builder::new();
    log.call(Request { uri: "/".into(), ..Request::default() });
    let load = Load::Arriving {
        schedule: Schedule::drawn(Rate::constant(rate).unwrap(), Arrivals::Fixed, 1),
        count: None,
        kept: None,
    };
    let run = Run { duration: Some(duration), ..support::run(log.finish(), server, load, patience) };
    let running = engine::start(run, Keep { warm_up, ..Keep::default() }).unwrap();
    // Whoever is interrupted between the two looks sees a beginning that is too late.
    let look = || clock::monotonic_ns() - running.progress().elapsed.as_nanos() as u64;
    let began = (0..100).map(|_| look()).min().unwrap();
    let ns = |time: Duration| time.as_nanos() as u64;
    (running.finish().unwrap().measures, began + ns(warm_up)..began + ns(duration))
}

fn assert_within_a_percent(what: &str, reported: u64, counted: f64) {
    // A reply that is on its way at either end of the window is of one side here, and of the other there.
    let allowed = (counted * 0.01).max(2.0);
    assert!((reported as f64 - counted).abs() <= allowed, "{what}: reported {reported}, counted {counted}");
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_slow_server_answers_as_many_as_a_fast_one() {
    let (server, judge) = patient_server(1500 * MS, None);
    let (measures, window) = play(server, 200.0, 2000 * MS, 4500 * MS, 5000 * MS);
    assert_within_a_percent("slow", measures.flow.replies(), judge.count(window));
    // Fixed arrivals: 500 in two and a half seconds, and each of them is answered in the end.
    assert!((470..=501).contains(&measures.cohort.issued), "{}", measures.cohort.issued);
    assert_eq!(measures.cohort.outcomes.of(Outcome::Reply), measures.cohort.issued);
    assert!(measures.cohort.reply_times.histogram().min() >= 1_495_000);
}

#[test]
fn overload_is_counted_alike_at_each_accept_limit() {
    for limit in [1, 10, usize::MAX] {
        let (server, judge) = busy_server(limit, 2 * MS);
        let (measures, window) = play(server, 1500.0, 1000 * MS, 4000 * MS, 700 * MS);
        let counted = judge.count(window);
        assert!(
            measures.cohort.outcomes.timeouts() > measures.cohort.issued / 3,
            "{:?}",
            measures.cohort.outcomes
        );
        assert_within_a_percent(&format!("limit {limit}"), measures.flow.replies(), counted);
        let outcomes = measures.cohort.outcomes;
        assert_eq!(outcomes.of(Outcome::Unfinished), 0, "all of what was issued is known: {outcomes:?}");
    }
}

/// A server that answers no more for the rest of the run has let half of its clients wait for as long as they
/// could.
#[test]
fn a_stall_at_the_end_is_seen() {
    let (server, judge) = patient_server(Duration::ZERO, Some(Instant::now() + 2000 * MS));
    let (measures, window) = play(server, 200.0, Duration::ZERO, 4000 * MS, 1000 * MS);
    assert_within_a_percent("stalled", measures.flow.replies(), judge.count(window));
    let waits = &measures.cohort.waits;
    assert_eq!(waits.times.count(), measures.cohort.issued);
    assert!(waits.bounds.abs_diff(400) < 40, "{}", waits.bounds);
    let p99 = waits.times.percentile_ms(99.0);
    assert!(p99 >= 999.0 && waits.is_bound(p99), "{p99}");
    // Replies alone tell nothing of it.
    assert!(measures.cohort.reply_times.percentile_ms(99.0) < 999.0);
}
