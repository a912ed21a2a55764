//! A reload whose workers fail at a step of their start changes nothing. The steps are those that
//! `crates/server/src/faults.rs` lets a test choose.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use harness::client::{Client, one, request};
use harness::server::{Server, Setup, children};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};
use harness::{eventually, free_address, sleep_ms};
use rustix::process::{Pid, Signal, kill_process};

const TESTS: &[Test] = tests![
    Each:
        a_start_that_fails_changes_nothing,
        a_start_that_hangs_holds_up_nothing;
    Three:
        an_end_during_a_trial,
        one_that_hangs_after_others_have_served,
        one_that_hangs_beside_one_that_dies;
    One:
        a_start_that_takes_too_long,
        systemd_hears_of_reloads;
];

fn main() -> ExitCode {
    harness::variant::run(&[("reload_trial", TESTS)])
}

/// Steps of a worker's start, and how it fails there.
const FAILURES: [&str; 8] = [
    "begin abort",
    "logs exit",
    "content panic",
    "services abort",
    "architecture exit",
    "loop abort",
    // Others serve already, or are about to.
    "content abort once",
    "loop panic once",
];

/// A server that can be told to fail, and two addresses of it.
struct Tried {
    server: Server,
    fault: PathBuf,
    stays: SocketAddr,
    goes: SocketAddr,
}

impl Tried {
    fn start(variant: &Variant) -> Self {
        let (stays, goes) = (free_address(), free_address());
        let setup = Setup::new(variant).config(&format!("listen = [\"{stays}\", \"{goes}\"]"));
        let fault = setup.directory().join("fault");
        let mut command = setup.command();
        command.env("SLUICE_TEST_FAULT", &fault);
        let server = setup.start_as(command);
        // None of the first generation is to fail.
        server.warm_up();
        Self { server, fault, stays, goes }
    }

    /// Settings without one address and with another, which show in every reply.
    fn change(&self, comes: SocketAddr) {
        let stays = self.stays;
        let text = format!("listen = [\"{stays}\", \"{comes}\"]\n[[headers]]\nset = {{ X-New = \"yes\" }}\n");
        self.server.rewrite_config(&text);
    }

    fn order(&self, fault: &str) {
        let fresh = self.fault.with_extension("fresh");
        fs::write(&fresh, fault).expect("a file");
        fs::rename(fresh, &self.fault).expect("a file can be moved");
    }

    fn said(&self, what: &str) -> usize {
        self.server.stderr().iter().filter(|line| line.contains(what)).count()
    }

    fn reload(&self, expected: &str) {
        let before = self.said(expected);
        self.server.signal(Signal::HUP);
        eventually(expected, || self.said(expected) > before);
    }

    /// All is as it was at the start.
    fn serves_as_before(&self, would_come: SocketAddr) {
        eventually("what came is closed", || TcpStream::connect(would_come).is_err());
        for address in [self.stays, self.goes] {
            eventually("the settings of before hold", || {
                let reply = one(address, request("GET", "/hello.txt", &[]));
                assert_eq!(reply.text(), HELLO);
                reply.field("X-New").is_none()
            });
        }
    }
}

/// A client that asks again and again, on one connection after the other, until it is told to stop; says how
/// often it was answered. It panics if it is not.
fn keep_coming(address: SocketAddr, stop: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut answered = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut client = Client::connect(address);
            for _ in 0..3 {
                let reply = client.get("/hello.txt");
                assert!(reply.status == 200 && reply.text() == HELLO);
                answered += 1;
                if reply.closes() {
                    break;
                }
            }
            sleep_ms(1);
        }
        answered
    })
}

/// Whatever step it is and however it fails: each request is answered, the log says why, and the next reload
/// is as good as any.
fn a_start_that_fails_changes_nothing(variant: &Variant) {
    let tried = Tried::start(variant);
    let (comes, stop) = (free_address(), Arc::new(AtomicBool::new(false)));
    let clients = [tried.stays, tried.stays, tried.goes].map(|address| keep_coming(address, &stop));
    let workers = tried.server.workers();
    tried.change(comes);
    for failure in FAILURES {
        tried.order(failure);
        tried.reload("settings not reloaded: worker");
        let _ = fs::remove_file(&tried.fault);
        tried.serves_as_before(comes);
        assert_eq!(tried.server.workers(), workers, "{failure}");
        // What is ordered next is not for those that leave.
        let of_old = workers.len() + 1;
        eventually("the others are gone", || children(tried.server.pid()).len() == of_old);
    }
    let [first, second, third] = clients;
    assert!(tried.said("before it served with them") == FAILURES.len());
    // Of the address that goes they would be told that it is gone.
    stop.store(true, Ordering::Relaxed);
    assert!(third.join().expect("each request is answered") > 0);
    assert!(first.join().expect("each request is answered") > 0);
    assert!(second.join().expect("each request is answered") > 0);
    let stop = Arc::new(AtomicBool::new(false));
    let client = keep_coming(tried.stays, &stop);
    tried.reload("settings reloaded");
    eventually("the address goes", || TcpStream::connect(tried.goes).is_err());
    assert_eq!(one(comes, request("GET", "/hello.txt", &[])).need("X-New"), "yes");
    eventually("the new settings hold", || tried.server.get("/hello.txt").field("X-New") == Some("yes"));
    stop.store(true, Ordering::Relaxed);
    assert!(client.join().expect("each request is answered") > 0);
}

/// The processes that have come since.
fn newcomers(server: &Server, known: &[u32]) -> Vec<u32> {
    children(server.pid()).into_iter().filter(|pid| !known.contains(pid)).collect()
}

fn kill(pids: &[u32]) {
    for &pid in pids {
        let _ = kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::KILL);
    }
}

/// While workers on trial do not get on, those that serve are started again when they die, logs are opened
/// anew, and another reload waits.
fn a_start_that_hangs_holds_up_nothing(variant: &Variant) {
    let tried = Tried::start(variant);
    let (server, comes) = (&tried.server, free_address());
    let known = server.processes();
    tried.change(comes);
    tried.order("content hang");
    server.signal(Signal::HUP);
    eventually("workers are on trial", || newcomers(server, &known).len() >= server.workers().len());
    let on_trial = newcomers(server, &known);
    // One that has not read the order yet would go on without it.
    let hangs = |pid: &u32| tried.fault.with_extension(pid.to_string()).exists();
    eventually("they hang", || on_trial.iter().all(hangs));
    let workers = server.workers();
    // That of before is started again, and does not hang.
    let _ = fs::remove_file(&tried.fault);
    kill(&workers[..1]);
    eventually("it is started again", || server.workers()[0] != workers[0]);
    server.signal(Signal::USR1);
    server.wait_for_line(|line| line.contains("logs reopened"));
    server.signal(Signal::HUP);
    sleep_ms(50);
    assert_eq!(tried.said("reloaded"), 0);
    for address in [tried.stays, tried.goes] {
        for _ in 0..10 {
            let reply = one(address, request("GET", "/hello.txt", &[]));
            assert!(reply.text() == HELLO && reply.field("X-New").is_none());
        }
    }
    kill(&on_trial);
    server.wait_for_line(|line| line.contains("settings not reloaded: worker"));
    server.wait_for_line(|line| line.contains("settings reloaded"));
    assert_eq!(one(comes, request("GET", "/hello.txt", &[])).need("X-New"), "yes");
    eventually("the address goes", || TcpStream::connect(tried.goes).is_err());
}

/// Those that hang go as well, without being waited for: the new address is free, and so is the end.
fn one_that_hangs_beside_one_that_dies(variant: &Variant) {
    let mut tried = Tried::start(variant);
    let comes = free_address();
    let known = tried.server.processes();
    tried.change(comes);
    tried.order("services hang");
    tried.server.signal(Signal::HUP);
    let count = tried.server.workers().len();
    eventually("workers are on trial", || newcomers(&tried.server, &known).len() >= count);
    kill(&newcomers(&tried.server, &known)[..1]);
    tried.server.wait_for_line(|line| line.contains("settings not reloaded: worker"));
    let _ = fs::remove_file(&tried.fault);
    // Another status process may be there.
    eventually("those that hang are gone", || newcomers(&tried.server, &known).len() <= 1);
    tried.serves_as_before(comes);
    tried.reload("settings reloaded");
    assert_eq!(one(comes, request("GET", "/hello.txt", &[])).need("X-New"), "yes");
    tried.server.signal(Signal::TERM);
    assert_eq!(tried.server.exit_code(), Some(0));
}

/// A worker that has served and died is started again, and hangs: the next reload does without it.
fn one_that_hangs_after_others_have_served(variant: &Variant) {
    let mut tried = Tried::start(variant);
    let workers = tried.server.workers();
    tried.order("services hang");
    kill(&workers);
    eventually("all are started again", || {
        let again = children(tried.server.pid());
        workers.iter().all(|old| !again.contains(old)) && again.len() > workers.len()
    });
    let hanging = children(tried.server.pid());
    sleep_ms(50);
    let _ = fs::remove_file(&tried.fault);
    tried.reload("settings reloaded");
    eventually("those that hang are gone", || {
        // The status process may stay.
        children(tried.server.pid()).iter().filter(|pid| hanging.contains(pid)).count() <= 1
    });
    tried.server.signal(Signal::TERM);
    assert_eq!(tried.server.exit_code(), Some(0));
}

/// Both generations end, be it that one hangs.
fn an_end_during_a_trial(variant: &Variant) {
    for fault in ["begin hang", "loop hang once"] {
        let mut tried = Tried::start(variant);
        let known = tried.server.processes();
        tried.change(free_address());
        tried.order(fault);
        tried.server.signal(Signal::HUP);
        eventually("workers are on trial", || !newcomers(&tried.server, &known).is_empty());
        sleep_ms(50);
        tried.server.signal(Signal::TERM);
        assert_eq!(tried.server.exit_code(), Some(0));
    }
}

fn a_start_that_takes_too_long(variant: &Variant) {
    let mut tried = Tried::start(variant);
    let comes = free_address();
    tried.change(comes);
    tried.order("services hang");
    let known = tried.server.processes();
    tried.server.signal(Signal::HUP);
    sleep_ms(9_000);
    tried.server.wait_for_line(|line| line.contains("not reloaded: workers have not started to serve"));
    tried.serves_as_before(comes);
    let _ = fs::remove_file(&tried.fault);
    // Another status process may be there.
    eventually("those that hang are killed", || newcomers(&tried.server, &known).len() <= 1);
    tried.reload("settings reloaded");
    tried.server.signal(Signal::TERM);
    assert_eq!(tried.server.exit_code(), Some(0));
}

/// It waits for READY after RELOADING, whatever has come of it.
fn systemd_hears_of_reloads(variant: &Variant) {
    let setup = Setup::new(variant);
    let (fault, path) = (setup.directory().join("fault"), setup.directory().join("notify"));
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(harness::TIMEOUT)).expect("a timeout");
    let hear = || {
        let mut text = [0; 1024];
        let length = socket.recv(&mut text).expect("a message");
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let mut command = setup.command();
    command.env("SLUICE_TEST_FAULT", &fault).env("NOTIFY_SOCKET", &path);
    let server = setup.start_as(command);
    assert!(hear().contains("READY=1"));
    for failure in [None, Some("loop abort")] {
        if let Some(failure) = failure {
            fs::write(&fault, failure).expect("a file");
        }
        server.signal(Signal::HUP);
        let reloading = hear();
        assert!(reloading.contains("RELOADING=1\n") && reloading.contains("MONOTONIC_USEC="), "{reloading}");
        assert!(hear().contains("READY=1"));
    }
    // Settings that are wrong.
    server.rewrite_config("nonsense");
    server.signal(Signal::HUP);
    assert!(hear().contains("RELOADING=1"));
    assert!(hear().contains("READY=1"));
}
