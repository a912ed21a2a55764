//! Requests at a fixed rate over connections that are kept: they are due whatever the server does, and those
//! that wait in the queue for it have waited since they were due.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use load::engine::{self, Keep};
use load::measures::{Measures, Times};
use load::output::Output;
use load::record::Outcome;
use load::run::{Class, Load, Run};
use load::schedule::{Arrivals, Rate, Schedule};
use workload::session::{Builder, Request};

const MS: Duration = Duration::from_millis(1);
const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// How a server treats the requests of its connections, of which each has a thread.
#[derive(Clone, Copy)]
enum Manner {
    /// Each reply takes so long.
    Takes(Duration),
    /// All at once, but from the first moment on it stands still until the second.
    Stalls(Instant, Instant),
    /// It closes a connection so long after a reply.
    Leaves(Duration),
}

/// A server, and how many connections it has had.
fn serve(manner: Manner) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = Arc::clone(&count);
    thread::spawn(move || {
        for client in listener.incoming() {
            accepted.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || converse(client.unwrap(), manner));
        }
    });
    (address, count)
}

fn converse(mut client: TcpStream, manner: Manner) {
    while client.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
        match manner {
            Manner::Takes(time) => thread::sleep(time),
            Manner::Stalls(from, to) if Instant::now() > from => {
                thread::sleep(to.saturating_duration_since(Instant::now()));
            }
            Manner::Stalls(..) | Manner::Leaves(_) => {}
        }
        if client.write_all(REPLY).is_err() {
            return;
        }
        if let Manner::Leaves(after) = manner {
            return thread::sleep(after);
        }
    }
}

/// Plays so many requests per second over so many connections.
fn play(server: SocketAddr, rate: f64, connections: u32, duration: Duration, timeout: Duration) -> Measures {
    watch(server, rate, connections, duration, timeout).0
}

/// When a call was due and over, since the run began.
struct Moments {
    due: Duration,
    ended: Duration,
}

struct Watched {
    calls: Vec<Moments>,
    /// The run began at a moment between these two.
    began: (Instant, Instant),
}

/// As `play`, with each call's times. They are of the clock that the servers here read.
fn watch(
    server: SocketAddr,
    rate: f64,
    connections: u32,
    duration: Duration,
    timeout: Duration,
) -> (Measures, Watched) {
    let mut log = Builder::new();
    log.call(Request { uri: "/".into(), ..Request::default() });
    let schedule = Schedule::drawn(Rate::constant(rate).unwrap(), Arrivals::Fixed, 1);
    let load = Load::Arriving { schedule, count: None, kept: Some(connections) };
    let run = Run { duration: Some(duration), ..support::run(log.finish(), server, load, timeout) };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.csv");
    let keep = Keep { calls: Some(Output::open(&path).unwrap()), ..Keep::default() };
    let running = engine::start(run, keep).unwrap();
    // The clock is read before and after the run tells how old it is, so both bounds always hold.
    let samples = (0..100).map(|_| {
        let before = Instant::now();
        let elapsed = running.progress().elapsed;
        (before.checked_sub(elapsed).unwrap(), Instant::now().checked_sub(elapsed).unwrap())
    });
    let began = samples.reduce(|best, sample| (best.0.max(sample.0), best.1.min(sample.1))).unwrap();
    let measures = running.finish().unwrap().measures;
    let text = std::fs::read_to_string(path).unwrap();
    let (names, lines) = text.split_once('\n').unwrap();
    let [due, ended] =
        ["intended", "ended"].map(|name| names.split(',').position(|found| found == name).unwrap());
    let moments = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let at = |place: usize| Duration::from_nanos(fields[place].parse().unwrap());
        Moments { due: at(due), ended: at(ended) }
    };
    (measures, Watched { calls: lines.lines().map(moments).collect(), began })
}

fn part_above(times: &Times, ms: f64) -> f64 {
    times.count_above_ms(ms) as f64 / times.count() as f64
}

/// Two classes over their own connections, and a third that opens one for each request: one at a rate and one
/// in a closed loop keep theirs.
#[test]
fn classes_keep_their_own_connections() {
    let (server, connections) = serve(Manner::Takes(MS));
    let mut log = Builder::new();
    log.call(Request { uri: "/".into(), ..Request::default() });
    let arriving = |kept| Load::Arriving {
        schedule: Schedule::drawn(Rate::constant(200.0).unwrap(), Arrivals::Fixed, 1),
        count: Some(40),
        kept,
    };
    let closed = Load::Closed { connections: 2, count: Some(60), kept: true };
    let run = support::run(log.finish(), server, arriving(Some(4)), 5000 * MS);
    let class = |name: &str, load| Class { name: name.to_owned(), load, ..run.classes[0].clone() };
    let classes =
        vec![class("paced", arriving(Some(4))), class("loop", closed), class("each", arriving(None))];
    let cpus = vec![run.cpus[0]; 2];
    let running = engine::start(Run { classes, cpus, ..run }, Keep::default()).unwrap();
    let measures = running.finish().unwrap().measures;
    let replies: Vec<u64> =
        measures.cohort.by_class.each().map(|of| of.outcomes.of(Outcome::Reply)).collect();
    assert_eq!(replies, [40, 60, 40]);
    assert_eq!(connections.load(Ordering::Relaxed), 4 + 2 + 40);
}

/// Half a second of three, in which 100 requests are due: of these four are on their way, and the others wait
/// in the queue. Who looks at those four alone finds a fast server.
///
/// Server and generator read one clock. A call that is due while the server stands still ends when it goes
/// on, or later. A busy machine makes more calls wait, and none of them less.
#[test]
fn a_stall_is_felt_by_all_who_were_due_in_it() {
    let begin = Instant::now() + 1000 * MS;
    let end = begin + 500 * MS;
    let (server, connections) = serve(Manner::Stalls(begin, end));
    let (measures, watched) = watch(server, 200.0, 4, 3000 * MS, 5000 * MS);
    let cohort = &measures.cohort;
    assert_eq!(cohort.outcomes.of(Outcome::Reply), cohort.issued);
    assert_eq!(connections.load(Ordering::Relaxed), 4);
    let (earliest, latest) = watched.began;
    let is_due_in_it = |call: &&Moments| (begin + MS..end).contains(&(earliest + call.due));
    let due_in_it: Vec<&Moments> = watched.calls.iter().filter(is_due_in_it).collect();
    assert!((98..=100).contains(&due_in_it.len()), "{} were due in it", due_in_it.len());
    assert!(due_in_it.iter().all(|call| latest + call.ended >= end), "a call did not wait for its end");
    // What is reported is what the calls have waited. The histograms keep three digits.
    let counted: Vec<&Moments> = watched.calls.iter().filter(|call| call.due < 3000 * MS).collect();
    assert_eq!(cohort.issued, counted.len() as u64);
    let waited = |ms| counted.iter().filter(|call| call.ended > call.due + ms * MS).count() as u64;
    for times in [&cohort.waits.times, &cohort.corrected_times] {
        let above = times.count_above_ms(100.0);
        assert!((waited(101)..=waited(99)).contains(&above), "{above} are said to have waited");
        assert!(above >= 78, "80 are due more than 100 ms before its end, and {above} waited for longer");
        assert!(times.percentile_ms(99.0) > 400.0);
    }
    let part = part_above(&cohort.reply_times, 100.0);
    assert!(part < part_above(&cohort.waits.times, 100.0) / 2.0, "{part}: each connection had one then");
}

/// A server of 2 connections with replies of 20 ms answers 100 per second; 150 are due.
#[test]
fn a_queue_is_as_long_as_the_timeout_of_clients() {
    let (server, _) = serve(Manner::Takes(20 * MS));
    let measures = play(server, 150.0, 2, 3000 * MS, 500 * MS);
    let cohort = &measures.cohort;
    assert!((420..=451).contains(&cohort.issued), "all that were due: {}", cohort.issued);
    let (replies, gave_up) =
        (cohort.outcomes.of(Outcome::Reply), cohort.outcomes.of(Outcome::ConnectTimeout));
    assert_eq!(replies + gave_up, cohort.issued, "{:?}", cohort.outcomes);
    // The queue grows by a third of what is due, until it is 50 long; faster, where this machine is busy.
    assert!(gave_up >= 60 && replies >= 60, "{gave_up} gave up, {replies} were answered");
    assert_eq!(cohort.waits.bounds(), gave_up);
    let longest = cohort.waits.times.percentile_ms(100.0);
    assert!((495.0..1500.0).contains(&longest), "{longest} ms");
}

/// Connections that a server ends while nobody uses them are opened again, and nobody fails.
#[test]
fn connections_that_end_are_opened_again() {
    let (server, connections) = serve(Manner::Leaves(30 * MS));
    let measures = play(server, 50.0, 2, 1000 * MS, 5000 * MS);
    let cohort = &measures.cohort;
    assert_eq!(cohort.outcomes.of(Outcome::Reply), cohort.issued, "{:?}", cohort.outcomes);
    let opened = connections.load(Ordering::Relaxed) as u64;
    assert!(opened >= 10, "{opened}");
    let Measures { connections, .. } = &measures;
    // Those that are opened when the measured time is over do not count.
    let counted = opened.saturating_sub(12)..=opened + 2;
    assert!(counted.contains(&connections.tried), "{connections:?}, {opened} opened");
    assert!(connections.lost + 4 >= connections.tried, "{connections:?}");
}

/// A server that stands still answers nothing, so the times of replies tell nothing of it.
#[test]
fn what_waits_is_told_while_a_run_goes_on() {
    let begin = Instant::now();
    let (server, _) = serve(Manner::Stalls(begin, begin + 1000 * MS));
    let mut log = Builder::new();
    log.call(Request { uri: "/".into(), ..Request::default() });
    let schedule = Schedule::drawn(Rate::constant(100.0).unwrap(), Arrivals::Fixed, 1);
    let load = Load::Arriving { schedule, count: None, kept: Some(2) };
    let run = Run { duration: Some(1000 * MS), ..support::run(log.finish(), server, load, 5000 * MS) };
    let running = engine::start(run, Keep::default()).unwrap();
    let mut found = None;
    while found.is_none() && !running.is_over() {
        thread::sleep(10 * MS);
        found = Some(running.progress()).filter(|now| now.longest_wait >= 400 * MS);
    }
    // Two are on their way, and those behind them are in the queue.
    let found = found.expect("a long wait while the server stands still");
    assert!(found.waiting > 2, "{found:?}");
    running.stop();
    running.finish().unwrap();
}
