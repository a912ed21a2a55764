//! Processes of an application that are killed while they have clients that are lent, or memory that is
//! shared, with our library in them, or while they speak HTTP.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Mutex;

use crate::libraries;
use harness::server::Setup;
use harness::variant::{Test, Variant, tests};
use harness::{passes, scripted, sleep_ms};
use rustix::process::{Pid, Signal, kill_process};

pub(super) const TESTS: &[Test] = tests![
    Three: processes_are_killed;
    Drivers: processes_that_speak_http_are_killed;
];

/// Says the token that it is asked for, again and again, with where it stands.
const IN_C: &str = r#"
#include <fcgiapp.h>
#include <stdlib.h>

int main(void) {
    FCGX_Request request;
    FCGX_Init();
    FCGX_InitRequest(&request, 0, 0);
    while (FCGX_Accept_r(&request) == 0) {
        unsigned long token = strtoul(FCGX_GetParam("PATH_INFO", request.envp) + 1, NULL, 10);
        unsigned long count = 1 + token % 20000;
        FCGX_FPrintF(request.out, "Content-Length: %lu\r\n\r\n", 16 * count);
        for (unsigned long at = 0; at < count; at++) FCGX_FPrintF(request.out, "%08lx%07lx\n", token, at);
        FCGX_Finish_r(&request);
    }
    return 0;
}
"#;

/// The same over HTTP, on connections that are kept.
const OVER_HTTP: &str = r#"
import socket

listener = socket.socket(fileno=0)
while True:
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as lines:
        try:
            while line := lines.readline():
                token = int(line.split()[1].rsplit(b"/", 1)[1])
                while lines.readline() not in (b"", b"\r\n"):
                    pass
                body = b"".join(b"%08x%07x\n" % (token, at) for at in range(1 + token % 20000))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        except OSError:
            pass
"#;

/// Those that a pool asks at a time, which are fewer than there are: some wait on connections that are kept.
const ASKED: usize = 8;
const PROCESSES: usize = 16;

/// The processes of an application, each of which is replaced when it is killed.
struct Processes {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    listener: UnixListener,
    children: Mutex<Vec<Child>>,
}

impl Processes {
    /// Each is run by `command`, with the listener as its standard input.
    fn start(directory: &Path, command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        let listener = UnixListener::bind(directory.join("app.sock")).expect("a socket");
        let this = Self { command: Box::new(command), listener, children: Mutex::default() };
        let children = (0..PROCESSES).map(|_| this.another()).collect();
        *this.children.lock().expect("no panic") = children;
        this
    }

    fn another(&self) -> Child {
        let socket = OwnedFd::from(self.listener.try_clone().expect("a descriptor"));
        (self.command)().stdin(socket).spawn().expect("the program runs")
    }

    /// Stops one for a moment.
    fn pause(&self, number: usize, ms: u64) {
        let pid = Pid::from_child(&self.children.lock().expect("no panic")[number]);
        let _ = kill_process(pid, Signal::STOP);
        sleep_ms(ms);
        let _ = kill_process(pid, Signal::CONT);
    }

    fn kill(&self, number: usize) {
        let mut children = self.children.lock().expect("no panic");
        end(&mut children[number]);
        children[number] = self.another();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.children.get_mut().expect("no panic").iter_mut().for_each(end);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// They and workers are killed at random points, and clients reset.
fn processes_are_killed(variant: &Variant) {
    for (transport, used) in [("pass-fd", "passed"), ("shared-memory", "shared")] {
        let setup = Setup::new(variant);
        let program = libraries::compile(&setup, IN_C);
        let library = libraries::ours(setup.directory());
        let processes = Processes::start(setup.directory(), move || {
            let mut command = Command::new(&program);
            command.env("LD_LIBRARY_PATH", &library);
            command
        });
        let socket = setup.directory().join("app.sock");
        let more = format!("transport = '{transport}'\nchildren = {ASKED}\nkeep = 2\narea = '256 KiB'");
        let server = setup.config(&scripted::pool(&[&socket], &more)).start();
        passes::run(&server, (transport, used), |random| processes.kill(random.below(PROCESSES)));
    }
}

/// They are also stopped for a while. A request that was sent on a kept connection is sent again.
fn processes_that_speak_http_are_killed(variant: &Variant) {
    let setup = Setup::new(variant);
    let processes = Processes::start(setup.directory(), || {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", OVER_HTTP]);
        command
    });
    let socket = setup.directory().join("app.sock").display().to_string();
    let pool = format!("name = 'app'\nprotocol = 'http'\nservers = 'unix:{socket}'\n");
    let pool = format!("{pool}children = {ASKED}\nkeep = 2\n");
    let config = format!("[[pools]]\n{pool}[[routes]]\npath = '/app/**'\npool = 'app'\n");
    let server = setup.config(&config).start();
    passes::run(&server, ("http", "requests"), |random| {
        let number = random.below(PROCESSES);
        if random.below(3) == 0 { processes.pause(number, 50) } else { processes.kill(number) }
    });
}
