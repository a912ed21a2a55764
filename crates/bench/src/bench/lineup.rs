//! Who takes part, and with which settings: of each peer those that might be its best in the case at hand.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::servers::Kind;
use crate::site::{CASES, Case};
use lab::launcher::program;

/// The servers to be measured, as the command line names them.
#[derive(Debug, Args)]
pub(crate) struct Lineup {
    /// Which servers take part (in `compare` the ceiling always does)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sluice,nginx,lighttpd")]
    servers: Vec<Who>,
    /// The executable of ours; give it twice or more to compare builds
    #[arg(long, value_name = "FILE", default_value = "target/release/sluice")]
    sluice: Vec<PathBuf>,
    /// The configuration that ours runs with, rather than a generated one; give it twice or more to compare
    /// settings
    #[arg(long, value_name = "FILE")]
    sluice_config: Vec<PathBuf>,
    /// The ceiling server [default: beside this program]
    #[arg(long, value_name = "FILE")]
    ceiling: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    Ceiling,
    /// The ceiling with a process for each connection
    CeilingProcesses,
    Sluice,
    Nginx,
    Lighttpd,
}

/// A server with the name that the tables give it.
pub(crate) type Named = (String, Kind);

/// Bodies up to this size are sent from memory by every server that does so at all.
const SMALL_BODY_BYTES: usize = 16 << 10;

/// Processes of the ceiling that has some: a few more than wrk has connections.
const PROCESSES: usize = 80;

/// As it comes, but one process: a worker of its master does the same work, and tools like valgrind follow
/// one process more easily.
pub(crate) const NGINX: Kind = Kind::Peer("nginx: master_process=off");

impl Lineup {
    /// The ceilings of a case, in the ways in which a server could reply to it.
    pub(crate) fn ceilings(&self, case: &Case, send_buffer: Option<usize>) -> Result<Vec<Named>> {
        let (memory, sendfile) = (("memory", "memory", false), ("sendfile", "sendfile", false));
        let settings: &[_] = match case {
            Case { close: true, .. } => &[memory, ("memory, deferred accept", "memory", true)],
            Case { body_bytes: ..=SMALL_BODY_BYTES, .. } => &[memory, sendfile],
            _ => &[memory, sendfile, ("push, sendfile", "push", false)],
        };
        let executable = self.ceiling()?;
        let named = settings.iter().map(|(name, variant, defer_accept)| {
            let kind = Kind::Ceiling {
                executable: executable.clone(),
                variant,
                case: case.clone(),
                send_buffer,
                defer_accept: *defer_accept,
                workers: 0,
            };
            (format!("ceiling, {name}"), kind)
        });
        Ok(named.collect())
    }

    /// The ceiling of servers that have a process for each connection.
    fn ceiling_of_processes(&self, case: &Case) -> Result<Vec<Named>> {
        let kind = Kind::Ceiling {
            executable: self.ceiling()?,
            variant: "memory",
            case: case.clone(),
            send_buffer: None,
            defer_accept: false,
            workers: PROCESSES,
        };
        Ok(vec![(format!("ceiling, {PROCESSES} processes"), kind)])
    }

    /// All others for a case.
    pub(crate) fn servers(&self, case: &Case) -> Result<Vec<Named>> {
        let others = self.servers.iter().filter(|who| **who != Who::Ceiling);
        Ok(others.map(|who| self.of(*who, case)).collect::<Result<Vec<_>>>()?.concat())
    }

    /// Each server once, for measurements that its settings for speed don't change: with the first of them,
    /// but every build and configuration of ours.
    pub(crate) fn one_of_each(&self) -> Result<Vec<Named>> {
        let mut named = Vec::new();
        for &who in &self.servers {
            let all = self.of(who, &CASES[0])?;
            let count = if who == Who::Sluice { all.len() } else { 1 };
            named.extend(all.into_iter().take(count));
        }
        Ok(named)
    }

    fn of(&self, who: Who, case: &Case) -> Result<Vec<Named>> {
        match who {
            Who::Ceiling => self.ceilings(case, None),
            Who::CeilingProcesses => self.ceiling_of_processes(case),
            Who::Sluice => self.sluice(case.close),
            Who::Nginx => Ok(nginx(case)),
            Who::Lighttpd => Ok(lighttpd(case)),
        }
    }

    /// The first executable of ours, with a generated configuration.
    pub(crate) fn ours(&self) -> Result<Kind> {
        let named = self.sluice(false)?.into_iter().next();
        named.map(|(_, kind)| kind).context("no sluice is named")
    }

    /// The first executable of ours, if ours takes part.
    pub(crate) fn first_sluice(&self) -> Option<&Path> {
        let first = self.sluice.first().map(PathBuf::as_path);
        first.filter(|path| self.servers.contains(&Who::Sluice) && path.is_file())
    }

    fn ceiling(&self) -> Result<PathBuf> {
        let path = match &self.ceiling {
            Some(path) => {
                path.canonicalize().with_context(|| format!("no ceiling server at {}", path.display()))?
            }
            None => std::env::current_exe()?.with_file_name("ceiling"),
        };
        ensure!(path.is_file(), "no ceiling server at {} (cargo build --release -p bench)", path.display());
        Ok(path)
    }

    /// Every executable with every configuration, named by what distinguishes it; with the generated one also
    /// with accepts deferred where connections are short.
    fn sluice(&self, short_connections: bool) -> Result<Vec<Named>> {
        let mut named = Vec::new();
        for path in &self.sluice {
            let executable = program("sluice", path)?;
            let name = match self.sluice.len() {
                1 => "sluice".to_owned(),
                _ => format!("sluice, {}", path.display()),
            };
            let kind =
                |config, defer_accept| Kind::Sluice { executable: executable.clone(), config, defer_accept };
            if self.sluice_config.is_empty() {
                named.push((name.clone(), kind(None, false)));
                if short_connections {
                    named.push((format!("{name}, defer_accept"), kind(None, true)));
                }
            }
            for config in &self.sluice_config {
                let file = config.canonicalize().with_context(|| format!("no file {}", config.display()))?;
                let name = match self.sluice_config.len() {
                    1 => name.clone(),
                    _ => format!("{name}, {}", config.display()),
                };
                named.push((name, kind(Some(file), false)));
            }
        }
        Ok(named)
    }
}

fn nginx(case: &Case) -> Vec<Named> {
    let others: &[_] = if case.close {
        &[
            ("nginx, tcp_nopush", "nginx: master_process=off tcp_nopush=on"),
            ("nginx, deferred", "nginx: master_process=off listen=deferred"),
            ("nginx, deferred, tcp_nopush", "nginx: master_process=off listen=deferred tcp_nopush=on"),
            ("nginx, deferred, sendfile off", "nginx: master_process=off listen=deferred sendfile=off"),
            (
                "nginx, deferred, tcp_nopush, multi_accept",
                "nginx: master_process=off listen=deferred tcp_nopush=on multi_accept=on",
            ),
        ]
    } else {
        &[
            ("nginx, tcp_nopush", "nginx: master_process=off tcp_nopush=on"),
            ("nginx, sendfile off", "nginx: master_process=off sendfile=off"),
        ]
    };
    let others = others.iter().map(|&(name, text)| (name.to_owned(), Kind::Peer(text)));
    [("nginx".to_owned(), NGINX)].into_iter().chain(others).collect()
}

fn lighttpd(case: &Case) -> Vec<Named> {
    let other = if case.close {
        ("lighttpd, defer-accept", "lighttpd: server.defer-accept=1")
    } else {
        ("lighttpd, writev", "lighttpd: server.network-backend=writev")
    };
    [("lighttpd", "lighttpd"), other].map(|(name, text)| (name.to_owned(), Kind::Peer(text))).into()
}
