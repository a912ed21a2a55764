//! The generator's figures, held against what the server itself saw. A rate is how many replies ended in the
//! measured time, however long each took. A time is known of every call that was issued in the measured time.
//!
//! Server and generator are in one process and read one clock. Each call asks for a path of its own, so the
//! server's record and the generator's record of a call are compared with each other, and not two counts over
//! two windows. A busy machine makes calls late. It does not make the two records disagree.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use load::engine::{self, Keep, Running};
use load::measures::Measures;
use load::output::Output;
use load::record::Outcome;
use load::run::{Load, Run};
use load::schedule::{Arrivals, Rate, Schedule};
use socket2::{Domain, Socket, Type};
use sys::clock;
use workload::session::{Builder, Request};

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// What the server saw of a call, in the monotonic clock's time.
#[derive(Clone, Copy)]
struct Answer {
    /// When it had read the request.
    read: u64,
    /// When it was about to give the reply to the kernel.
    began: u64,
}

/// The server's record: the calls that it answered while their client was still there, by number.
#[derive(Clone, Default)]
struct Judge(Arc<Mutex<BTreeMap<u32, Answer>>>);

/// A request that the server has read.
struct Asked {
    call: u32,
    read: u64,
    client: TcpStream,
}

impl Judge {
    /// Answers, unless the client has gone: a client that has given up gets no reply.
    fn answer(&self, asked: &Asked) {
        let mut client = &asked.client;
        client.set_nonblocking(true).unwrap();
        let gone = client.peek(&mut [0; 1]).is_ok_and(|count| count == 0);
        let began = clock::monotonic_ns();
        if !gone && client.write_all(REPLY).is_ok() {
            let earlier = self.0.lock().unwrap().insert(asked.call, Answer { read: asked.read, began });
            assert!(earlier.is_none(), "call {} came twice", asked.call);
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

/// The call's number is its path.
fn read_request(mut client: TcpStream) -> Option<Asked> {
    let mut bytes = [0; 4096];
    let count = client.read(&mut bytes).ok().filter(|count| *count > 0)?;
    let read = clock::monotonic_ns();
    let head = std::str::from_utf8(&bytes[..count]).unwrap();
    let path = head.strip_prefix("GET /").and_then(|rest| rest.split(' ').next());
    Some(Asked { call: path.unwrap().parse().unwrap(), read, client })
}

/// Answers each request so long after it has read it, however many there are. Until `quiet`, if that comes:
/// no replies from then on.
fn delaying_server(delay: Duration, quiet: Option<Instant>) -> (SocketAddr, Judge) {
    let (listener, address) = listen(1024);
    let judge = Judge::default();
    let (to_answer, answers): (Sender<(Instant, Asked)>, Receiver<_>) = mpsc::channel();
    let recorder = judge.clone();
    thread::spawn(move || {
        let mut unanswered = Vec::new();
        for (at, asked) in answers {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if quiet.is_some_and(|quiet| Instant::now() >= quiet) {
                unanswered.push(asked);
            } else {
                recorder.answer(&asked);
            }
        }
    });
    thread::spawn(move || {
        loop {
            if let Some(asked) = read_request(listener.accept().unwrap().0.into()) {
                let _ = to_answer.send((Instant::now() + delay, asked));
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
    let recorder = judge.clone();
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
                if let Some(asked) = read_request(client) {
                    recorder.answer(&asked);
                }
            }
        }
    });
    (address, judge)
}

/// A call in the generator's record. Times are since the run began.
#[derive(Debug)]
struct Row {
    call: u32,
    intended: u64,
    issued: u64,
    ended: u64,
    is_reply: bool,
    is_timeout: bool,
    /// Issued after the measured time, and cut off by the end of the run.
    is_cut_off: bool,
}

/// What the generator reports of a run, and its record of each call.
struct Played {
    measures: Measures,
    rows: Vec<Row>,
    window: Range<u64>,
    /// The run began at a moment between these two, in the monotonic clock's time.
    began: (u64, u64),
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Between which moments of the monotonic clock a run began. The generator keeps its own moment to itself and
/// tells how long ago it was. One clock is read before and after it tells, so both bounds always hold.
fn began(running: &Running) -> (u64, u64) {
    let bounds = (0..100).map(|_| {
        let before = clock::monotonic_ns();
        let elapsed = ns(running.progress().elapsed);
        (before - elapsed, clock::monotonic_ns() - elapsed)
    });
    bounds.fold((0, u64::MAX), |best, (from, to)| (best.0.max(from), best.1.min(to)))
}

/// More calls than any of the runs here issues.
const CALLS: u32 = 10_000;

/// Plays single requests, each for its own path.
fn play(server: SocketAddr, rate: f64, warm_up: Duration, duration: Duration, timeout: Duration) -> Played {
    let mut log = Builder::new();
    for call in 0..CALLS {
        log.call(Request { uri: format!("/{call}").into(), ..Request::default() });
        log.end_of_session();
    }
    let load = Load::Arriving {
        schedule: Schedule::drawn(Rate::constant(rate).unwrap(), Arrivals::Fixed, 1),
        count: None,
        kept: None,
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.csv");
    let keep = Keep { warm_up, calls: Some(Output::open(&path).unwrap()), ..Keep::default() };
    let run = Run { duration: Some(duration), ..support::run(log.finish(), server, load, timeout) };
    let running = engine::start(run, keep).unwrap();
    let began = began(&running);
    let measures = running.finish().unwrap().measures;
    let rows = rows(&std::fs::read_to_string(path).unwrap());
    Played { measures, rows, window: ns(warm_up)..ns(duration), began }
}

fn rows(text: &str) -> Vec<Row> {
    let (names, lines) = text.split_once('\n').unwrap();
    let place = |name| names.split(',').position(|found| found == name).unwrap();
    let [request, intended, issued, ended, outcome] =
        ["request", "intended", "issued", "ended", "outcome"].map(place);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |place: usize| fields[place].parse().unwrap();
        Row {
            call: fields[request].parse().unwrap(),
            intended: number(intended),
            issued: number(issued),
            ended: number(ended),
            is_reply: fields[outcome] == Outcome::Reply.name(),
            is_timeout: fields[outcome].ends_with("_timeout"),
            is_cut_off: fields[outcome] == Outcome::Unfinished.name(),
        }
    };
    lines.lines().map(row).collect()
}

impl Played {
    fn count(&self, is_one: impl Fn(&Row) -> bool) -> u64 {
        self.rows.iter().filter(|row| is_one(row)).count() as u64
    }

    /// Holds what the generator says of each call against what the server saw of it, and the figures against
    /// the calls.
    fn is_judged(&self, what: &str, judge: &Judge) {
        let answers = judge.0.lock().unwrap();
        let calls: BTreeSet<u32> = self.rows.iter().map(|row| row.call).collect();
        assert_eq!(calls.len(), self.rows.len(), "{what}: each call is on record once");
        assert!(answers.keys().all(|call| calls.contains(call)), "{what}: the server saw a call that is not");
        for row in &self.rows {
            let answer = answers.get(&row.call);
            if row.is_reply {
                let answer = answer.unwrap_or_else(|| panic!("{what}: nobody answered {row:?}"));
                assert!(self.began.0 + row.issued <= answer.read, "{what}: read before {row:?} was issued");
                assert!(answer.began <= self.began.1 + row.ended, "{what}: {row:?} ended before its reply");
            } else {
                // A reply, and the end of the client's timeout or of the run, can cross each other.
                let can_cross = row.is_timeout || row.is_cut_off;
                assert!(answer.is_none() || can_cross, "{what}: {row:?} was answered");
            }
            assert!(!row.is_cut_off || row.issued >= self.window.end, "{what}: {row:?} counts");
        }
        let is_in = |time| self.window.contains(&time);
        let (flow, cohort) = (&self.measures.flow, &self.measures.cohort);
        assert_eq!(flow.replies(), self.count(|row| row.is_reply && is_in(row.ended)), "{what}: replies");
        assert_eq!(cohort.issued, self.count(|row| is_in(row.issued)), "{what}: issued");
        let of_cohort = self.count(|row| is_in(row.issued) && row.is_reply);
        assert_eq!(cohort.outcomes.of(Outcome::Reply), of_cohort, "{what}: the cohort's replies");
        let timeouts = self.count(|row| is_in(row.issued) && row.is_timeout);
        assert_eq!(cohort.outcomes.timeouts(), timeouts, "{what}: the cohort's timeouts");
    }

    /// Fixed arrivals are due at equal distances, whenever they are issued.
    fn is_due_evenly(&self, step: Duration) {
        let mut due: Vec<u64> = self.rows.iter().map(|row| row.intended).collect();
        due.sort_unstable();
        let due_at = |place: usize| ns(step) * (place as u64);
        let first = due[0] / ns(step);
        assert!(first <= 1, "the first is due at {}", due[0]);
        for (place, due) in due.iter().enumerate() {
            assert!(due.abs_diff(due_at(place + first as usize)) <= 1000, "call {place} is due at {due}");
        }
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_slow_server_answers_as_many_as_a_fast_one() {
    let (server, judge) = delaying_server(1500 * MS, None);
    // The first reply comes after the warm-up: fewer calls end in the measured time than are issued in it.
    let played = play(server, 200.0, 1000 * MS, 3500 * MS, 5000 * MS);
    played.is_judged("slow", &judge);
    assert!(played.measures.flow.replies() < played.measures.cohort.issued, "500 ms without a reply");
    played.is_due_evenly(5 * MS);
    let cohort = &played.measures.cohort;
    assert_eq!(cohort.outcomes.of(Outcome::Reply), cohort.issued);
    assert_eq!(cohort.reply_times.count(), cohort.issued);
    // In microseconds, to three digits.
    assert!(cohort.reply_times.histogram().min() >= 1_499_000);
}

#[test]
fn overload_is_counted_alike_at_each_accept_limit() {
    for limit in [1, 10, usize::MAX] {
        let (server, judge) = busy_server(limit, 2 * MS);
        let played = play(server, 1500.0, 1000 * MS, 4000 * MS, 700 * MS);
        played.is_judged(&format!("limit {limit}"), &judge);
        let cohort = &played.measures.cohort;
        let outcomes = cohort.outcomes;
        assert!(outcomes.timeouts() > cohort.issued / 3, "{outcomes:?}");
        assert_eq!(outcomes.of(Outcome::Unfinished), 0, "all of what was issued is known: {outcomes:?}");
    }
}

/// A server stops answering before the run is over. Half of its clients have then waited for as long as they
/// could.
#[test]
fn a_stall_at_the_end_is_seen() {
    let (server, judge) = delaying_server(Duration::ZERO, Some(Instant::now() + 2000 * MS));
    let played = play(server, 200.0, Duration::ZERO, 4000 * MS, 1000 * MS);
    played.is_judged("stalled", &judge);
    let cohort = &played.measures.cohort;
    let waits = &cohort.waits;
    assert_eq!(waits.count(), cohort.issued);
    assert_eq!(waits.bounds(), cohort.issued - cohort.outcomes.of(Outcome::Reply));
    let p99 = waits.percentile(99.0).unwrap();
    assert!(p99.ms >= 999.0 && p99.is_bound, "{p99:?}");
    // Replies alone tell nothing of it.
    assert!(cohort.reply_times.percentile_ms(99.0) < 999.0);
}
