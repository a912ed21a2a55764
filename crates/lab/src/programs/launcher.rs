//! Starts a server, waits until it listens, reads its resource use, and stops it. All measurements use
//! this.
//!
//! A server runs in the foreground, as the current user, pinned to its CPUs. Its standard error goes to a
//! file. The launcher looks there for lines `listening on http://ADDR/`, and quotes the file if the server
//! does not start.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use machine::process;
use rustix::io::Errno;

use crate::programs::child::{Process, on_cpus};
use crate::programs::interrupt;

/// How long a server may take to listen (valgrind needs seconds), and to end after SIGTERM.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// The place of a server: CPUs, wrapper, log.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The CPUs to which it is pinned.
    pub cpus: &'a [usize],
    /// Words before the server's own command line, which enter a namespace or a control group, or run
    /// valgrind.
    pub wrapper: &'a [String],
    /// The file for its standard error.
    pub log: &'a Path,
}

/// A running server. Dropping it ends it; [`Server::stop`] also reports whether it ended as requested.
#[derive(Debug)]
pub struct Server {
    /// The address on which it listens.
    pub address: SocketAddr,
    process: Process,
}

impl Server {
    /// Starts the server with this command line, and waits until `listens` finds its address in the output
    /// so far.
    pub fn start(
        words: &[String],
        place: Place<'_>,
        listens: impl Fn(&str) -> Option<SocketAddr>,
    ) -> Result<Self> {
        let Place { cpus, wrapper, log } = place;
        let mut command = on_cpus(cpus);
        command.args(wrapper).args(words).stdout(Stdio::null()).stderr(File::create(log)?);
        let mut process = Process::start(&mut command)?;
        let address = interrupt::wait_for(TIMEOUT, || {
            if let Some(status) = process.ended()? {
                bail!("it ended with {status}");
            }
            Ok(listens(&fs::read_to_string(log)?))
        });
        match address.and_then(|address| address.context("it does not listen in time")) {
            Ok(address) => Ok(Self { address, process }),
            Err(error) => {
                drop(process);
                let said = fs::read_to_string(log).unwrap_or_default();
                Err(error.context(format!("{} did not start; it said: {}", words.join(" "), said.trim())))
            }
        }
    }

    /// The process that was started; all other processes of the server descend from it.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Whether the server has ended by itself.
    pub fn has_ended(&self) -> Result<bool> {
        self.process.has_ended()
    }

    /// The URL `http://ADDR` with `target`.
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// All its processes.
    pub fn processes(&self) -> Result<Vec<u32>> {
        process::tree(self.id()).context("cannot list processes")
    }

    /// Waits until the server has been idle for a moment, at most 10 s.
    pub fn settle(&self) -> Result<()> {
        let processes = self.processes()?;
        let start = Instant::now();
        loop {
            interrupt::check()?;
            let before = sum(&processes, process::cpu_time_ns)?;
            thread::sleep(Duration::from_millis(100));
            // A periodic timer may still run: a millisecond in a hundred counts as idle.
            let used = sum(&processes, process::cpu_time_ns)?.saturating_sub(before);
            if used < 1_000_000 || start.elapsed() > Duration::from_secs(10) {
                return Ok(());
            }
        }
    }

    /// Sends SIGTERM and waits for the end, so that tools around the server can write their results.
    pub fn stop(self) -> Result<()> {
        self.process.stop(TIMEOUT)
    }
}

/// The path of an executable, which must already be built.
pub fn program(name: &str, path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("no {name} at {} (cargo build --release)", path.display()))
}

/// The sum of a figure over several processes. A process that has ended since they were listed is left out,
/// but the first one must still exist.
pub fn sum(processes: &[u32], figure: impl Fn(u32) -> io::Result<u64>) -> Result<u64> {
    let mut sum = 0;
    for (number, &pid) in processes.iter().enumerate() {
        match figure(pid) {
            Err(error) if number > 0 && has_ended(&error) => {}
            figure => sum += figure.with_context(|| format!("process {pid}"))?,
        }
    }
    Ok(sum)
}

/// Whether this is the error of `/proc` for a process that no longer exists.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// The addresses on which a server has reported that it listens, from complete lines.
pub fn announced(said: &str) -> Vec<SocketAddr> {
    let whole = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let urls = whole.filter_map(|line| line.split_once("listening on http://"));
    urls.filter_map(|(_, rest)| rest.split(['/', ' ', '\n']).next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announced_address_is_read_once_its_line_is_whole() {
        assert_eq!(announced("listening on http://127.0.0.1:401"), []);
        let said = "note\nlistening on http://127.0.0.1:40113/ (sped, /srv/www)\n\
            listening on http://[::1]:1/\nlisten";
        assert_eq!(announced(said), ["127.0.0.1:40113".parse().unwrap(), "[::1]:1".parse().unwrap()]);
    }

    /// A server that is only a script.
    fn start(script: &str) -> Result<Server> {
        let directory = tempfile::tempdir()?;
        let place = Place { cpus: &[0], wrapper: &["env".to_owned()], log: &directory.path().join("stderr") };
        let words = ["sh", "-c", script].map(str::to_owned);
        Server::start(&words, place, |said| announced(said).first().copied())
    }

    #[test]
    fn a_server_is_waited_for_looked_at_and_stopped() {
        let script = "sleep 1000 & trap 'kill $!; exit 0' TERM; \
                      echo 'listening on http://127.0.0.1:7/' >&2; wait";
        let server = start(script).unwrap();
        assert_eq!(server.url("/a"), "http://127.0.0.1:7/a");
        let processes = server.processes().unwrap();
        assert_eq!((processes[0], processes.len()), (server.id(), 2));
        assert!(sum(&processes, process::open_descriptors).unwrap() >= 6);
        server.settle().unwrap();
        server.stop().unwrap();
        assert!(sum(&processes, process::cpu_time_ns).is_err());
    }

    #[test]
    fn a_server_that_does_not_start_is_quoted() {
        let error = format!("{:#}", start("echo no such file >&2; exit 3").unwrap_err());
        assert!(
            error.contains("did not start; it said: no such file: it ended with exit status: 3"),
            "{error}"
        );
    }
}
