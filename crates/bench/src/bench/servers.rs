//! Starts servers as the lab knows them ([`lab::servers::spec`]), each on a loopback address of its own, so
//! that sockets in `TIME_WAIT` of one don't get into another's way.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Error, Result, ensure};

use lab::programs::launcher::{Place, Server};
use lab::servers::spec::{Kind, Spec};
use lab::servers::{self, Ground};

/// What is needed to start any server.
#[derive(Clone, Copy)]
pub(crate) struct Environment<'a> {
    /// The root of the files.
    pub(crate) site: &'a Path,
    /// Where configuration, logs and results of tools go.
    pub(crate) scratch: &'a Path,
    /// Our server, where a spec names no other build.
    pub(crate) sluice: &'a Path,
    /// The CPU that servers are pinned to.
    pub(crate) cpu: usize,
    /// How many connections servers are told to have room for.
    pub(crate) capacity: usize,
    /// Words before the server's own command line, such as valgrind's.
    pub(crate) wrapper: &'a [String],
}

/// Settings in addition to those of the lab. Ours has timeouts as long as the lab gives its peers. nginx has
/// no master process: tools like valgrind follow one process more easily, and its one worker does the same
/// work.
fn usual(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Sluice => &[
            "--architecture=sped",
            "timeouts.idle=\"1 h\"",
            "timeouts.header=\"1 h\"",
            "timeouts.write=\"1 h\"",
        ],
        Kind::Nginx => &["master_process=off"],
        _ => &[],
    }
}

/// A server by its text.
pub(crate) fn spec(text: &str) -> Result<Spec> {
    text.parse().map_err(Error::msg)
}

/// Starts the server and waits until it accepts connections.
pub(crate) fn start(spec: &Spec, environment: Environment<'_>) -> Result<Server> {
    static LAST: AtomicU8 = AtomicU8::new(1);
    let host = Ipv4Addr::new(127, 0, 1, LAST.fetch_add(1, Ordering::Relaxed));
    let address = TcpListener::bind((host, 0))?.local_addr()?;
    let listen = [address];
    let directory = environment.scratch.join(format!("server-{host}"));
    fs::create_dir_all(&directory)?;
    let Environment { site, sluice, capacity, .. } = environment;
    let ground = Ground { capacity, ..Ground::plain(site, &listen, &directory, sluice) };
    let mut parts = servers::parts(&with_usual(spec), &ground)?;
    let mut words = parts.pop().context("a server of no programs")?.words;
    ensure!(parts.is_empty(), "{} is several programs; allowed here: servers of one", spec.name);
    // Whoever tells the status of ours would be one process more.
    words.retain(|word| !word.starts_with("--status="));
    let log = directory.join("stderr");
    let place = Place { cpus: &[environment.cpu], wrapper: environment.wrapper, log: &log };
    Server::start(&words, place, |_| TcpStream::connect(address).ok().map(|_| address))
}

/// With those [`usual`] settings that it does not have itself, as an option or as a line.
fn with_usual(spec: &Spec) -> Spec {
    let name = |setting: &str| setting.split('=').next().unwrap_or_default().trim_matches('-').to_owned();
    let mut spec = spec.clone();
    for setting in usual(spec.kind) {
        if !spec.settings.iter().any(|own| name(own) == name(setting)) {
            spec.settings.push((*setting).to_owned());
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_settings_stand_back() {
        let settings = |text: &str| with_usual(&spec(text).unwrap()).settings;
        assert_eq!(settings("nginx: sendfile=off"), ["sendfile=off", "master_process=off"]);
        assert_eq!(settings("nginx: master_process=on"), ["master_process=on"]);
        let ours = settings("sluice: architecture=\"amped\" timeouts.idle=\"5 s\"");
        assert_eq!(ours.len(), 4, "{ours:?}");
    }
}
