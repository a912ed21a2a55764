//! What the tests of whole runs have in common.

use std::net::SocketAddr;
use std::time::Duration;

use load::run::{Class, Load, Run, Target, Timeouts};
use load::tls::Settings;
use workload::session::SessionLog;

/// Sessions played against a server on one thread, by clients that wait so long, think no longer than their
/// log says, and give up after that.
pub(crate) fn run(log: SessionLog, server: SocketAddr, load: Load, timeout: Duration) -> Run {
    Run {
        log,
        targets: vec![Target::Inet(server)],
        host: server.to_string(),
        headers: String::new(),
        classes: vec![Class {
            name: String::new(),
            load,
            sources: Vec::new(),
            handshakes_only: false,
            timeouts: Timeouts { connect: timeout, reply: timeout, think: Duration::ZERO, retries: 0 },
        }],
        duration: None,
        requests: None,
        verify: None,
        tls: Settings::default(),
        cpus: vec![*sys::process::allowed_cpus().unwrap().last().unwrap()],
        realtime: false,
    }
}
