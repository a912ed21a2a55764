//! The line in front of a pool, which all workers share: as many go as the application has children.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::Signal;

use harness::scripted::{Asked, answer, scripted_site_with};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};

pub(super) const TESTS: &[Test] = tests![
    Each: as_many_as_it_has_children;
    Three: a_line_has_an_end, who_leaves_the_line_is_not_asked_for, workers_that_die;
];

/// Requests that are with an application now, at most at a time, and in all.
type Counts = Arc<Mutex<(usize, usize, usize)>>;

/// An application that takes that long for each request, and counts those that are with it, and the most.
fn busy(ms: u64) -> (Counts, impl Fn(Asked) + Send + Sync + 'static) {
    let counts = Counts::default();
    let counted = Arc::clone(&counts);
    let serve = move |mut asked: Asked| {
        {
            let (now, most, all) = &mut *counted.lock().expect("no panic");
            *now += 1;
            *most = (*most).max(*now);
            *all += 1;
        }
        sleep_ms(ms);
        // The next may come as soon as this one is over.
        counted.lock().expect("no panic").0 -= 1;
        asked.say(answer("X: y\n\nwell"));
    };
    (counts, serve)
}

/// Of all workers together.
fn as_many_as_it_has_children(variant: &Variant) {
    let (counts, serve) = busy(60);
    let server = scripted_site_with(variant, "children = 2", serve);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = server.connect();
                for _ in 0..3 {
                    assert_eq!(client.get("/app/x").text(), "well");
                }
            });
        }
    });
    let (now, most, all) = *counts.lock().expect("no panic");
    assert_eq!((now, most, all), (0, 2, 24));
    assert_eq!(server.pool_count("failures"), 0);
}

fn a_line_has_an_end(variant: &Variant) {
    let (_, serve) = busy(1500);
    let more = "children = 1\nqueue = 1\nqueue_timeout = '300 ms'\n\
                [[headers]]\npath = '/app/**'\nset = { Retry-After = '20', X-Of = 'app' }";
    let server = scripted_site_with(variant, more, serve);
    let mut first = server.connect();
    first.ask("GET", "/app/first", &[]);
    eventually("the first is asked for", || server.pool_count("requests") == 1);
    let mut second = server.connect();
    second.ask("GET", "/app/second", &[]);
    eventually("the second waits", || server.pool_count("requests") == 2);
    let mut third = server.connect();
    for _ in 0..2 {
        let reply = third.get("/app/third");
        assert_eq!((reply.status, reply.need("Retry-After"), reply.closes()), (503, "20", false));
    }
    let refused = third.fetch("TRACE", "/app/third", &[]);
    assert_eq!(
        (refused.status, refused.field("X-Of"), refused.field("Retry-After")),
        (405, Some("app"), None)
    );
    let reply = second.reply();
    assert_eq!((reply.status, reply.need("Retry-After"), reply.need("X-Of")), (503, "20", "app"));
    assert_eq!(second.get("/hello.txt").text(), HELLO);
    assert_eq!(first.reply().text(), "well");
    assert_eq!(second.get("/app/second").text(), "well");
    let counts = ["refused", "expired", "failures"].map(|of| server.pool_count(of));
    assert_eq!(counts, [2, 1, 3]);
}

fn who_leaves_the_line_is_not_asked_for(variant: &Variant) {
    let (asked_for, is_open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, opened) = (Arc::clone(&asked_for), Arc::clone(&is_open));
    let server = scripted_site_with(variant, "children = 1", move |mut asked| {
        counted.fetch_add(1, Ordering::Relaxed);
        eventually("the test goes on", || opened.load(Ordering::Relaxed));
        asked.say(answer("X: y\n\nwell"));
    });
    let mut clients: Vec<_> = (0..3)
        .map(|at| {
            let mut client = server.connect();
            client.ask("GET", "/app/x", &[]);
            eventually("it is read", || server.pool_count("requests") == at + 1);
            client
        })
        .collect();
    drop(clients.remove(1));
    eventually("it is noticed", || server.pool_count("clients_left") == 1);
    is_open.store(true, Ordering::Relaxed);
    for mut client in clients {
        assert_eq!(client.reply().text(), "well");
    }
    assert_eq!(asked_for.load(Ordering::Relaxed), 2);
}

/// What they have in flight is given back, or nobody would be served any more.
fn workers_that_die(variant: &Variant) {
    let (counts, serve) = busy(3000);
    let server = scripted_site_with(variant, "children = 1", move |asked: Asked| {
        if asked.params["PATH_INFO"] == "/slow" {
            return serve(asked);
        }
        let mut asked = asked;
        asked.say(answer("X: y\n\nquick"));
    });
    let mut client = server.connect();
    client.ask("GET", "/app/slow", &[]);
    eventually("it is asked for", || counts.lock().expect("no panic").0 == 1);
    for worker in server.workers() {
        let pid = rustix::process::Pid::from_raw(worker as i32).expect("a process");
        rustix::process::kill_process(pid, Signal::KILL).expect("it is ours");
    }
    assert!(client.try_reply().is_err());
    eventually("others are served", || {
        let mut client = server.connect();
        client.ask("GET", "/app/quick", &[]);
        client.try_reply().is_ok_and(|reply| reply.text() == "quick")
    });
}
