//! The servers that are compared: ours, the ceiling, nginx, lighttpd.
//!
//! Each runs with a generated configuration on a loopback address of its own, so that sockets in `TIME_WAIT`
//! of one don't get into another's way.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Error, Result};

use crate::site::Case;
use lab::launcher::{Place, Server, announced};
use lab::servers::Ground;
use lab::spec::Spec;

/// What is needed to start any server.
pub(crate) struct Environment<'a> {
    /// The root of the files.
    pub(crate) site: &'a Path,
    /// Where configuration, logs and results of tools go.
    pub(crate) scratch: &'a Path,
    /// The CPU that servers are pinned to.
    pub(crate) cpu: usize,
    /// How many connections servers are told to have room for.
    pub(crate) capacity: usize,
    /// Words before the server's own command line, such as valgrind's.
    pub(crate) wrapper: Vec<String>,
}

/// A server and the settings that it runs with.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The server that parses nothing, replying as one case demands.
    Ceiling {
        executable: PathBuf,
        /// As its `--variant` has it.
        variant: &'static str,
        case: Case,
        send_buffer: Option<usize>,
        defer_accept: bool,
        /// 0 for an event loop.
        workers: usize,
    },
    /// Ours.
    Sluice {
        executable: PathBuf,
        /// `None`: with patience and room for the measurement, and all else as it comes but for accepts.
        config: Option<PathBuf>,
        defer_accept: bool,
    },
    /// Another server with its settings, as the lab starts it.
    Peer(&'static str),
}

/// Starts the server and waits until it accepts connections.
pub(crate) fn start(kind: &Kind, environment: &Environment<'_>) -> Result<Server> {
    let wanted = unused_address(kind)?;
    let directory = environment.scratch.join(format!("server-{}", wanted.ip()));
    fs::create_dir_all(&directory)?;
    let words = command_line(kind, wanted, environment, &directory)?;
    let place =
        Place { cpus: &[environment.cpu], wrapper: &environment.wrapper, log: &directory.join("stderr") };
    Server::start(&words, place, |said| {
        let address = if wanted.port() == 0 { *announced(said).first()? } else { wanted };
        TcpStream::connect(address).ok().map(|_| address)
    })
}

/// A loopback address that no server of this run has had, with a port that is free now; port 0 where the
/// server says which one it got.
fn unused_address(kind: &Kind) -> Result<SocketAddr> {
    static LAST: AtomicU8 = AtomicU8::new(1);
    let address = Ipv4Addr::new(127, 0, 1, LAST.fetch_add(1, Ordering::Relaxed));
    Ok(match kind {
        Kind::Ceiling { .. } | Kind::Sluice { .. } => SocketAddr::from((address, 0)),
        Kind::Peer(_) => TcpListener::bind((address, 0))?.local_addr()?,
    })
}

fn command_line(
    kind: &Kind,
    address: SocketAddr,
    environment: &Environment<'_>,
    directory: &Path,
) -> Result<Vec<String>> {
    let site = environment.site;
    let words = match kind {
        Kind::Ceiling { executable, variant, case, send_buffer, defer_accept, workers } => {
            let mut words = vec![
                executable.display().to_string(),
                format!("--listen={address}"),
                format!("--body={}", case.body_bytes),
                format!("--variant={variant}"),
                format!("--file={}", case.file(site).display()),
            ];
            words.extend(send_buffer.map(|bytes| format!("--send-buffer={bytes}")));
            words.extend(defer_accept.then(|| "--defer-accept".to_owned()));
            words.push(format!("--workers={workers}"));
            words.extend(case.close.then(|| "--close".to_owned()));
            words
        }
        Kind::Sluice { executable, config, defer_accept } => {
            let generate =
                || generated(directory, "sluice.toml", &sluice_config(environment.capacity, *defer_accept));
            let config = config.clone().map_or_else(generate, Ok)?;
            vec![
                executable.display().to_string(),
                "serve".to_owned(),
                site.display().to_string(),
                format!("--config={}", config.display()),
                format!("--listen={address}"),
            ]
        }
        Kind::Peer(text) => {
            let spec: Spec = text.parse().map_err(Error::msg)?;
            let ground = Ground {
                root: site,
                listen: &[address],
                directory,
                sockets: directory,
                cpus: 1,
                capacity: environment.capacity,
                sluice: Path::new(""),
                application: None,
                over_tcp: None,
                programs: directory,
                besim: None,
            };
            lab::servers::parts(&spec, &ground)?.pop().context("a server of no programs")?.words
        }
    };
    Ok(words)
}

fn generated(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn sluice_config(capacity: usize, defer_accept: bool) -> String {
    let tcp = if defer_accept { "\n[tcp]\ndefer_accept = \"5 s\"\n" } else { "" };
    format!(
        "architecture = \"sped\"\nmax_connections = {capacity}\naccess_log = \"off\"\n\n\
         [timeouts]\nidle = \"1 h\"\nheader = \"1 h\"\nwrite = \"1 h\"\n{tcp}"
    )
}
