//! Pools as they are configured: several servers, a reload, and mistakes.

use std::fs;
use std::sync::{Mutex, mpsc};

use rustix::process::Signal;

use harness::eventually;
use harness::scripted::{self, Asked, answer, pool};
use harness::server::Setup;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Three: several_servers, a_reload;
    One: a_pool_that_comes_again, mistakes_are_told;
];

fn several_servers(variant: &Variant) {
    let setup = Setup::new(variant);
    let named = |name: &'static str| move |mut asked: Asked| asked.say(answer(format!("X: y\n\n{name}")));
    let directory = setup.directory().to_owned();
    let first = scripted::start(&directory, "first.sock", named("first"));
    let dead = directory.join("dead.sock");
    let server = setup.config(&pool(&[&dead, &first], "")).start();
    for _ in 0..20 {
        assert_eq!(server.get("/app/x").text(), "first");
    }
    fs::remove_file(&first).expect("a socket");
    assert_eq!(server.get("/app/x").status, 502);
    let _again = scripted::start(&directory, "dead.sock", named("second"));
    for _ in 0..20 {
        assert_eq!(server.get("/app/x").text(), "second");
    }
}

/// Requests that are under way end well, and new ones go to the new pool.
fn a_reload(variant: &Variant) {
    let setup = Setup::new(variant);
    let (told, heard) = mpsc::channel();
    let told = Mutex::new(told);
    let slow = scripted::start(setup.directory(), "slow.sock", move |mut asked| {
        told.lock().expect("no panic").send(()).expect("the test waits");
        harness::sleep_ms(700);
        asked.say(answer("X: y\n\nslow"));
    });
    let new = scripted::start(setup.directory(), "new.sock", |mut asked| asked.say(answer("X: y\n\nnew")));
    let server = setup.config(&pool(&[&slow], "")).start();
    let mut client = server.connect();
    client.ask("GET", "/app/x", &[]);
    heard.recv_timeout(harness::TIMEOUT).expect("the application is asked");
    server.rewrite_config(&pool(&[&new], ""));
    server.signal(Signal::HUP);
    assert_eq!(client.reply().text(), "slow");
    eventually("new ones go elsewhere", || server.get("/app/x").text() == "new");
}

/// It goes on counting, as what monitors it expects.
fn a_pool_that_comes_again(variant: &Variant) {
    let setup = Setup::new(variant);
    let answering = scripted::start(setup.directory(), "a.sock", |mut asked| asked.say(answer("X: y\n\na")));
    let with = pool(&[&answering], "");
    let server = setup.config(&with).start();
    for _ in 0..3 {
        assert_eq!(server.get("/app/x").text(), "a");
    }
    server.rewrite_config("");
    server.signal(Signal::HUP);
    eventually("it is gone", || server.get("/app/x").status == 404);
    server.rewrite_config(&with);
    server.signal(Signal::HUP);
    let reloads = || server.stderr().iter().filter(|line| line.contains("settings reloaded")).count();
    eventually("it is told that it is there again", || reloads() == 2);
    // Processes with the settings of before may still answer for a moment.
    eventually("it is asked again", || server.get("/app/x").text() == "a");
    let requests = || server.status()["pools"][0]["requests"].as_u64();
    eventually("the status knows it again", || requests() >= Some(4));
}

fn mistakes_are_told(variant: &Variant) {
    for (config, told) in [
        ("[[pools]]\nname = 'a'", "a pool needs servers"),
        ("[[pools]]\nservers = '127.0.0.1:1'", "a pool needs name"),
        ("[[pools]]\nname = 'a b'\nservers = '127.0.0.1:1'", "pools.name = 'a b': allowed: letters"),
        ("[[pools]]\nname = 'a'\nservers = ':80'", "allowed: an address or a name, and a port, that can be"),
        ("[[pools]]\nname = 'a'\nservers = 'app'", "or \"NAME:PORT\", such as \"app.internal:3000\""),
        ("[[pools]]\nname = 'a'\nservers = 'a b:80'", "or \"NAME:PORT\""),
        ("[gateway]\nname_servers = 'ns.example'", "allowed: an IP address, with a port if it is not 53"),
        (
            "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nparams = { 'A=' = 'x' }",
            "allowed: a name without",
        ),
        (
            "[[pools]]\nname = 'a'\nservers = ['unix:/a', '127.0.0.1:1']\ntransport = 'pass-fd'",
            "pools.servers = ['unix:/a', '127.0.0.1:1']: allowed with transport pass-fd: Unix sockets",
        ),
        (
            "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\ntransport = 'shared-memory'",
            "pools.servers = '127.0.0.1:1': allowed with transport shared-memory: Unix sockets",
        ),
        ("[[pools]]\nname = 'a'\nservers = []", "pools.servers = []: allowed: one or more addresses"),
        (
            "[[pools]]\nname = 'a'\nservers = 'unix:/a'\ntransport = 'shared-memory'\narea = '64 MiB'",
            "the shared-memory area of the pool \"a\" does not fit; allowed: at least its area, 64 MiB",
        ),
        ("[[routes]]\npool = 'a'", "there is no pool \"a\" for a route; allowed: there are none"),
        ("[[routes]]\nprogram = '/x'", "it needs a pool that runs it"),
        ("[[routes]]\npool = 'a'\nstatus = 404", "a route answers with an application, or with a redirect"),
        ("[[routes]]\npool = 'a'\nscripts = 'php'", "allowed: a dot and what follows it"),
        (
            "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nsend_files = { '/a' = '/' }",
            "allowed: a path that begins and ends with a slash",
        ),
        (
            "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nsend_files = { '/a/' = '/none' }",
            "cannot serve /none",
        ),
        (
            "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nsend_files = { '/a/' = 'root' }",
            "any client can fetch what is there",
        ),
        (
            "php = '127.0.0.1:1'\n[[routes]]\nfallback = '/x'\n[[routes]]\npath = '/b'\nstatus = 403",
            "the route for /b follows one with a fallback",
        ),
        (
            "[gateway]\nspool = '/none'\n[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'",
            "/none is no directory",
        ),
    ] {
        let output = Setup::new(variant).config(config).output();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{config}: {stderr}");
        assert!(stderr.contains(told), "{config}: {stderr}");
    }
}
