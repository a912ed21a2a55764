//! Processes of an application that are killed while they have clients that are lent, or memory that is
//! shared, with our library in them.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;

use crate::libraries;
use harness::server::Setup;
use harness::variant::{Test, Variant, tests};
use harness::{passes, scripted};

pub(super) const TESTS: &[Test] = tests![Three: processes_are_killed];

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

/// Those that a pool asks at a time, which are fewer than there are: some wait on connections that are kept.
const ASKED: usize = 8;
const PROCESSES: usize = 16;

/// The processes of an application, each of which is replaced when it is killed.
struct Processes {
    program: PathBuf,
    library: PathBuf,
    listener: UnixListener,
    children: Mutex<Vec<Child>>,
}

impl Processes {
    fn start(directory: &Path, program: PathBuf) -> Self {
        let listener = UnixListener::bind(directory.join("app.sock")).expect("a socket");
        let library = libraries::ours(directory);
        let this = Self { program, library, listener, children: Mutex::default() };
        let children = (0..PROCESSES).map(|_| this.another()).collect();
        *this.children.lock().expect("no panic") = children;
        this
    }

    fn another(&self) -> Child {
        let socket = OwnedFd::from(self.listener.try_clone().expect("a descriptor"));
        let mut command = Command::new(&self.program);
        command.env("LD_LIBRARY_PATH", &self.library).stdin(socket);
        command.spawn().expect("the program runs")
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
    for transport in ["pass-fd", "shared-memory"] {
        let setup = Setup::new(variant);
        let program = libraries::compile(&setup, IN_C);
        let processes = Processes::start(setup.directory(), program);
        let socket = setup.directory().join("app.sock");
        let more = format!("transport = '{transport}'\nchildren = {ASKED}\nkeep = 2\narea = '256 KiB'");
        let server = setup.config(&scripted::pool(&[&socket], &more)).start();
        passes::run(&server, transport, |random| processes.kill(random.below(PROCESSES)));
    }
}
