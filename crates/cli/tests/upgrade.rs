//! The process becomes another program, and its clients notice nothing; and an upgrade that can't serve
//! leaves what serves, whatever is wrong with it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::client::{Client, one, request};
use harness::program::{from_a_file, replace, sluice};
use harness::server::{Server, Setup, children};
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};
use rustix::process::{Pid, Signal, geteuid, kill_process};

const TESTS: &[Test] = tests![
    Each:
        twice_under_load,
        a_trial_that_hangs,
        signals_to_everybody,
        new_workers_that_die,
        a_reload_meanwhile,
        a_log_that_is_roots;
    One:
        programs_that_cannot_serve,
        settings_that_change_on_the_way,
        a_log_that_cannot_be_opened,
        a_user_that_is_new;
];

const BIG: usize = 4 << 20;

/// Every way in which processes share descriptors, wait, and have threads.
const VARIANTS: &[Variant] = &[
    Variant { name: "symped", options: &["--architecture=symped", "--workers=2"] },
    Variant { name: "shared_symped", options: &["--architecture=shared-symped", "--workers=2"] },
    Variant { name: "n_copy", options: &["--architecture=n-copy", "--copies=2"] },
    Variant { name: "processes", options: &["--architecture=processes", "--workers=4"] },
    Variant { name: "threads", options: &["--architecture=threads", "--workers=4"] },
];

fn main() -> ExitCode {
    harness::variant::run_for(VARIANTS, &[("upgrade", TESTS)])
}

/// Those who served before serve, and their status is told.
#[track_caller]
fn goes_on(server: &mut Server, workers: &[u32]) {
    assert!(!server.has_ended());
    for _ in 0..5 {
        assert_eq!(server.get("/hello.txt").text(), HELLO);
    }
    assert_eq!(server.workers(), workers);
}

#[track_caller]
fn wait_for_refusals(server: &Server, count: usize, why: &str) {
    eventually("the upgrade is refused", || {
        let said = server.stderr();
        said.iter().filter(|line| line.contains("not upgraded")).count() == count
    });
    let said = server.stderr();
    let last = said.iter().rfind(|line| line.contains("not upgraded")).expect("a line");
    assert!(last.contains(why), "{last}");
}

#[track_caller]
fn is_upgraded(server: &Server, before: &[u32]) {
    eventually("it says again where it listens", || {
        server.stderr().iter().filter(|line| line.starts_with("status on ")).count() == 2
    });
    eventually("the old workers have ended", || {
        let now = children(server.pid());
        before.iter().all(|pid| !now.contains(pid))
    });
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

/// While clients come and go, the process becomes another program, twice: with its id, without a refused
/// connection, and without harm to a reply under way.
fn twice_under_load(variant: &Variant) {
    let setup = Setup::new(variant).file("big.bin", pattern(6, BIG));
    let (mut server, program) = from_a_file(setup);
    let mut slow = Client::connect_narrow(server.address);
    slow.ask("GET", "/big.bin", &[]);
    let beginning = slow.read_raw(1000).expect("a beginning");
    slow.unread(beginning);
    let address = server.address;
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut replies = 0;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(one(address, request("GET", "/hello.txt", &[])).text(), HELLO);
                    replies += 1;
                    sleep_ms(1);
                }
                replies
            })
        })
        .collect();
    for times in 0..2 {
        let before = server.workers();
        replace(&program, sluice());
        let running = || fs::read_link(format!("/proc/{}/exe", server.pid())).expect("a process");
        assert_ne!(running(), program, "its file is gone");
        server.signal(Signal::USR2);
        eventually("it runs the new file", || running() == program);
        eventually("it says again where it listens", || {
            server.stderr().iter().filter(|line| line.starts_with("status on ")).count() == times + 2
        });
        assert!(server.workers().iter().all(|pid| !before.contains(pid)), "the workers are others");
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.join().expect("every connection was served") > 0);
    }
    let body = slow.reply().body;
    assert!(body == pattern(6, BIG), "{} bytes", body.len());
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0), "the workers of all three have ended");
}

/// Each takes the settings where it is only asked to check them.
fn programs_that_cannot_serve(variant: &Variant) {
    let (mut server, program) = from_a_file(Setup::new(variant));
    let workers = server.workers();
    let endings =
        [("kill -SEGV $$", "signal 11"), ("exit 0", "exit code 0"), ("echo oh no >&2; exit 1", "oh no")];
    for (at, (ending, why)) in endings.into_iter().enumerate() {
        replace(&program, format!("#!/bin/sh\n[ \"$1\" = check ] && exit 0\n{ending}\n"));
        server.signal(Signal::USR2);
        wait_for_refusals(&server, at + 1, why);
        goes_on(&mut server, &workers);
    }
    replace(&program, sluice());
    server.signal(Signal::USR2);
    is_upgraded(&server, &workers);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// The supervisor does what it is there for meanwhile.
fn a_trial_that_hangs(variant: &Variant) {
    let (mut server, program) = from_a_file(Setup::new(variant));
    let workers = server.workers();
    replace(&program, "#!/bin/sh\nexec sleep 60\n");
    server.signal(Signal::USR2);
    sleep_ms(50);
    kill(workers[0]);
    eventually("the worker is started again", || !server.workers().contains(&workers[0]));
    let refused = |server: &Server| server.stderr().iter().any(|line| line.contains("not upgraded"));
    assert!(!refused(&server), "it waited for the trial");
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    assert!(!refused(&server));
}

fn kill(pid: u32) {
    let _ = kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::KILL);
}

/// As `pkill -USR2 sluice` sends them.
fn signals_to_everybody(variant: &Variant) {
    let (mut server, program) = from_a_file(Setup::new(variant));
    let workers = server.workers();
    replace(&program, "#!/bin/sh\nexit 3\n");
    for count in 1..3 {
        server.signal_all(Signal::USR2);
        wait_for_refusals(&server, count, "exit code 3");
        sleep_ms(200);
        goes_on(&mut server, &workers);
    }
}

/// Whoever connects while workers are killed may meet one of them.
fn serves_somebody(server: &Server) -> bool {
    (0..5).any(|_| {
        let mut client = Client::connect(server.address);
        client.try_send(request("GET", "/hello.txt", &[]))
            && client.try_reply().is_ok_and(|reply| reply.text() == HELLO)
    })
}

/// The old ones serve as long as no new one lives.
fn new_workers_that_die(variant: &Variant) {
    let (mut server, program) = from_a_file(Setup::new(variant));
    server.warm_up();
    let before = server.workers();
    let known: HashSet<u32> = children(server.pid()).into_iter().collect();
    replace(&program, sluice());
    server.signal(Signal::USR2);
    server.wait_for_line(|line| line.contains("upgrading to the program"));
    let mut killed = HashSet::new();
    while killed.len() < 24 {
        for pid in children(server.pid()).into_iter().filter(|pid| !known.contains(pid)) {
            kill(pid);
            killed.insert(pid);
        }
        assert!(serves_somebody(&server) && !server.has_ended());
        let now = children(server.pid());
        assert!(before.iter().all(|pid| now.contains(pid)), "the old workers have gone");
    }
    is_upgraded(&server, &before);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// What was tried is what runs, and HUP is about what the file says after that. A script is as good a program
/// as others.
fn settings_that_change_on_the_way(variant: &Variant) {
    let (mut server, program) = from_a_file(Setup::new(variant).config("listing = true"));
    let before = server.workers();
    let [real, wait] = ["real", "wait"].map(|name| program.with_extension(name));
    replace(&real, sluice());
    fs::write(&wait, "").expect("a file");
    let script = format!(
        "#!/bin/sh\nwhile [ -z \"$SLUICE_TRIAL\" -a -e {} ]; do sleep 0.1; done\nexec {} \"$@\"\n",
        wait.display(),
        real.display()
    );
    replace(&program, script);
    server.signal(Signal::USR2);
    server.wait_for_line(|line| line.contains("upgrading to the program"));
    server.rewrite_config("listing = 3");
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    fs::remove_file(wait).expect("it was there");
    is_upgraded(&server, &before);
    assert_eq!(server.get("/bare/").status, 200);
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("not reloaded"));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// Whichever program hears of it.
fn a_reload_meanwhile(variant: &Variant) {
    let (mut server, _) = from_a_file(Setup::new(variant).config("listing = true"));
    let before = server.workers();
    server.signal(Signal::USR2);
    sleep_ms(5);
    server.rewrite_config("listing = false");
    server.signal(Signal::HUP);
    is_upgraded(&server, &before);
    eventually("the new settings hold", || (0..5).all(|_| server.get("/bare/").status >= 400));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// A server that becomes `nobody`, and a directory that only root can look into; nothing unless this is root.
fn as_nobody(variant: &Variant) -> Option<(Setup, PathBuf)> {
    if !geteuid().is_root() {
        harness::skip("an upgrade of a server that has become another user: only root can become one");
        return None;
    }
    let setup = Setup::new(variant);
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    mode(setup.directory(), 0o755);
    let logs = setup.directory().join("logs");
    fs::create_dir(&logs).expect("a directory");
    mode(&logs, 0o700);
    Some((setup, logs))
}

fn a_log_that_is_roots(variant: &Variant) {
    let Some((setup, logs)) = as_nobody(variant) else { return };
    let [log, access] = ["errors", "access"].map(|name| logs.join(name));
    let setup = setup.argument("--user=nobody").argument(format!("--error-log={}", log.display()));
    let of_site = logs.join("site");
    let site = format!(
        "[[sites]]\nhosts = 'own.example'\nroot = '{}'\naccess_log = '{}'",
        setup.root().display(),
        of_site.display()
    );
    let setup = setup.argument(format!("--access-log={}", access.display())).config(&site);
    let (mut server, program) = from_a_file(setup);
    for _ in 0..2 {
        let before = server.workers();
        replace(&program, sluice());
        server.signal(Signal::USR2);
        eventually("the workers are others", || {
            assert!(!server.has_ended());
            let now = children(server.pid());
            before.iter().all(|pid| !now.contains(pid))
        });
        for (log, host) in [(&access, "x"), (&of_site, "own.example")] {
            let lines = || fs::read_to_string(log).expect("a log").lines().count();
            let written = lines();
            eventually("a line is written", || {
                let asked = format!("GET /hello.txt HTTP/1.0\r\nHost: {host}\r\n\r\n");
                assert_eq!(server.one(asked).text(), HELLO);
                lines() > written
            });
        }
    }
    server.rewrite_config("listing = 3");
    server.signal(Signal::HUP);
    eventually("the log goes on", || fs::read_to_string(&log).expect("a log").contains("not reloaded"));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// What the new settings ask for can't be had by the user that the server runs as.
fn a_log_that_cannot_be_opened(variant: &Variant) {
    let Some((setup, logs)) = as_nobody(variant) else { return };
    let setup = setup.config("user = \"nobody\"");
    let (mut server, _) = from_a_file(setup);
    let workers = server.workers();
    for (at, key) in ["error_log", "access_log"].into_iter().enumerate() {
        let path = logs.join("other");
        server.rewrite_config(&format!("user = \"nobody\"\n{key} = \"{}\"", path.display()));
        server.signal(Signal::USR2);
        wait_for_refusals(&server, at + 1, &path.display().to_string());
        goes_on(&mut server, &workers);
    }
}

/// Privileges can't be dropped on the way: the old workers have them.
fn a_user_that_is_new(variant: &Variant) {
    let Some((setup, _)) = as_nobody(variant) else { return };
    let (mut server, _) = from_a_file(setup);
    let workers = server.workers();
    for (at, (user, why)) in
        [("nobody", "restart it"), ("no-such-user", "no-such-user")].into_iter().enumerate()
    {
        server.rewrite_config(&format!("user = \"{user}\""));
        server.signal(Signal::USR2);
        wait_for_refusals(&server, at + 1, why);
        goes_on(&mut server, &workers);
    }
}
