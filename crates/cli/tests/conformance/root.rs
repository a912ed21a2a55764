//! The document root, whose name leads to another directory while clients ask for its files: generators make
//! it anew, deployments switch a link.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use harness::client::Client;
use harness::server::{Server, Setup};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};

pub(crate) const TESTS: &[Test] = tests![
    Three: made_anew, link_switched, missing_for_a_while;
];

const NEW: &str = "of the new root\n";
const LARGE: usize = 50_000;

/// What is found is believed for so long.
const VALIDITY_MS: u64 = 20;

fn setup(variant: &Variant) -> Setup {
    Setup::new(variant).config(&format!("[files]\nvalidity = \"{VALIDITY_MS} ms\""))
}

/// A site of the same names with other content, and without `large.bin`.
fn make_new(directory: &Path) {
    fs::create_dir(directory).expect("a directory");
    fs::write(directory.join("hello.txt"), NEW).expect("a file");
    fs::write(directory.join("other.bin"), vec![b'n'; LARGE]).expect("a file");
}

/// Has clients ask all the time while the root becomes another, and every worker serve that afterwards.
fn asked_while(server: &Server, change: impl FnOnce()) {
    server.warm_up();
    assert_eq!(server.get("/large.bin").status, 200);
    let done = Arc::new(AtomicBool::new(false));
    let askers: Vec<_> = (0..4)
        .map(|_| {
            let (address, done) = (server.address, Arc::clone(&done));
            thread::spawn(move || {
                let mut client = Client::connect(address);
                while !done.load(Ordering::Relaxed) {
                    let reply = client.get("/hello.txt");
                    let (status, text) = (reply.status, reply.text());
                    // Between the one and the other there may be none, or one that has yet to be written.
                    assert!(status == 404 || [HELLO, NEW, ""].contains(&text.as_str()), "{status} {text}");
                    if reply.closes() || client.get("/large.bin").closes() {
                        client = Client::connect(address);
                    }
                }
            })
        })
        .collect();
    sleep_ms(50);
    change();
    sleep_ms(2 * VALIDITY_MS);
    is_new(server);
    done.store(true, Ordering::Relaxed);
    for asker in askers {
        asker.join().expect("it was answered to the end");
    }
}

/// Whoever serves, serves the new root.
fn is_new(server: &Server) {
    let mut clients: Vec<Client> = (0..30).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ask("GET", "/hello.txt", &[]);
        client.ask("GET", "/large.bin", &[]);
        client.ask("GET", "/other.bin", &[("Connection", "close")]);
    }
    for client in &mut clients {
        assert_eq!(client.reply().text(), NEW);
        assert_eq!((client.reply().status, client.reply().body.len()), (404, LARGE));
    }
}

fn made_anew(variant: &Variant) {
    let server = setup(variant).start();
    asked_while(&server, || {
        fs::remove_dir_all(server.root()).expect("it can be removed");
        make_new(&server.root());
    });
}

/// A worker that is started afterwards serves the same as the others.
fn link_switched(variant: &Variant) {
    let setup = setup(variant);
    let (root, directory) = (setup.root(), setup.directory().to_owned());
    fs::rename(&root, directory.join("release-1")).expect("a new name");
    symlink("release-1", &root).expect("a link");
    let server = setup.start();
    asked_while(&server, || {
        make_new(&directory.join("release-2"));
        symlink("release-2", directory.join("next")).expect("a link");
        fs::rename(directory.join("next"), &root).expect("it takes the other's place");
    });
    let worker = server.workers()[0];
    kill_process(Pid::from_raw(worker.cast_signed()).expect("a process"), Signal::KILL).expect("it lives");
    eventually("there is another in its place", || {
        let workers = server.workers();
        !workers.contains(&worker) && !workers.contains(&0)
    });
    is_new(&server);
}

/// The old root is served until there is a new one, and that is said once.
fn missing_for_a_while(variant: &Variant) {
    let server = setup(variant).start();
    server.warm_up();
    let elsewhere = server.directory().join("elsewhere");
    fs::rename(server.root(), &elsewhere).expect("a new name");
    for _ in 0..5 {
        sleep_ms(2 * VALIDITY_MS);
        server.warm_up();
    }
    fs::rename(&elsewhere, server.root()).expect("its name again");
    sleep_ms(2 * VALIDITY_MS);
    let line = server.wait_for_line(|line| line.contains("can't open the document root "));
    assert!(line.contains("No such file or directory"), "{line}");
    eventually("every worker has noticed that it is back", || {
        server.warm_up();
        let said = |what: &str| server.stderr().iter().filter(|line| line.contains(what)).count();
        let (missing, back) = (said("can't open the document root"), said("can be opened again"));
        assert!(missing <= server.workers().len(), "each says it once");
        missing == back
    });
}
