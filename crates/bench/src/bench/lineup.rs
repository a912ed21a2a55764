//! Who takes part, and with which settings: of each peer those that might be its best in the case at hand.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::servers::{CeilingVariant, Kind, NginxSettings, SluiceConfig};
use crate::site::{CASES, Case};

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
    Sluice,
    Nginx,
    Lighttpd,
}

/// A server with the name that the tables give it.
pub(crate) type Named = (String, Kind);

/// Bodies up to this size are sent from memory by every server that does so at all.
const SMALL_BODY_BYTES: usize = 16 << 10;

/// As it comes.
pub(crate) const NGINX: NginxSettings =
    NginxSettings { sendfile: true, tcp_nopush: false, multi_accept: false, deferred: false, limit_rate: 0 };

impl Lineup {
    /// The ceilings of a case, in the ways in which a server could reply to it.
    pub(crate) fn ceilings(&self, case: &Case, send_buffer: Option<usize>) -> Result<Vec<Named>> {
        use CeilingVariant::{Memory, Push, Sendfile};
        let settings: &[_] = match case {
            Case { close: true, .. } => {
                &[("memory", Memory, false), ("memory, deferred accept", Memory, true)]
            }
            Case { body_bytes: ..=SMALL_BODY_BYTES, .. } => {
                &[("memory", Memory, false), ("sendfile", Sendfile, false)]
            }
            _ => &[("memory", Memory, false), ("sendfile", Sendfile, false), ("push, sendfile", Push, false)],
        };
        let executable = self.ceiling()?;
        let named = settings.iter().map(|(name, variant, defer_accept)| {
            let kind = Kind::Ceiling {
                executable: executable.clone(),
                variant: *variant,
                case: case.clone(),
                send_buffer,
                defer_accept: *defer_accept,
            };
            (format!("ceiling, {name}"), kind)
        });
        Ok(named.collect())
    }

    /// All others for a case.
    pub(crate) fn servers(&self, case: &Case) -> Result<Vec<Named>> {
        let mut named = Vec::new();
        for who in &self.servers {
            match who {
                Who::Ceiling => {}
                Who::Sluice => named.extend(self.sluice(case.close)?),
                Who::Nginx => named.extend(nginx(case)),
                Who::Lighttpd => named.extend(lighttpd(case)),
            }
        }
        Ok(named)
    }

    /// Each server once, for measurements that its settings for speed don't change.
    pub(crate) fn one_of_each(&self) -> Result<Vec<Named>> {
        let mut named = Vec::new();
        for who in &self.servers {
            match who {
                Who::Ceiling => named.extend(self.ceilings(&CASES[0], None)?.into_iter().take(1)),
                Who::Sluice => named.extend(self.sluice(false)?),
                Who::Nginx => named.push(("nginx".to_owned(), Kind::Nginx(NGINX))),
                Who::Lighttpd => named.extend(lighttpd(&CASES[0]).into_iter().take(1)),
            }
        }
        Ok(named)
    }

    /// The first executable of ours, with a generated configuration.
    pub(crate) fn ours(&self) -> Result<Kind> {
        let named = self.sluice(false)?.into_iter().next();
        named.map(|(_, kind)| kind).context("no sluice is named")
    }

    /// The first executable of ours, if ours takes part.
    pub(crate) fn first_sluice(&self) -> Option<&Path> {
        self.sluice
            .first()
            .map(PathBuf::as_path)
            .filter(|path| self.servers.contains(&Who::Sluice) && path.is_file())
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
            let executable = path
                .canonicalize()
                .with_context(|| format!("no sluice at {} (cargo build --release)", path.display()))?;
            let name = match self.sluice.len() {
                1 => "sluice".to_owned(),
                _ => format!("sluice, {}", path.display()),
            };
            if self.sluice_config.is_empty() {
                let generated = |defer_accept| Kind::Sluice {
                    executable: executable.clone(),
                    config: SluiceConfig::Generated { defer_accept },
                };
                named.push((name.clone(), generated(false)));
                if short_connections {
                    named.push((format!("{name}, defer_accept"), generated(true)));
                }
            }
            for config in &self.sluice_config {
                let file = config.canonicalize().with_context(|| format!("no file {}", config.display()))?;
                let name = match self.sluice_config.len() {
                    1 => name.clone(),
                    _ => format!("{name}, {}", config.display()),
                };
                let config = SluiceConfig::File(file);
                named.push((name, Kind::Sluice { executable: executable.clone(), config }));
            }
        }
        Ok(named)
    }
}

fn nginx(case: &Case) -> Vec<Named> {
    let nopush = NginxSettings { tcp_nopush: true, ..NGINX };
    let no_sendfile = NginxSettings { sendfile: false, ..NGINX };
    let deferred = |settings| NginxSettings { deferred: true, ..settings };
    let settings: &[_] = if case.close {
        &[
            ("nginx", NGINX),
            ("nginx, tcp_nopush", nopush),
            ("nginx, deferred", deferred(NGINX)),
            ("nginx, deferred, tcp_nopush", deferred(nopush)),
            ("nginx, deferred, sendfile off", deferred(no_sendfile)),
            (
                "nginx, deferred, tcp_nopush, multi_accept",
                NginxSettings { multi_accept: true, ..deferred(nopush) },
            ),
        ]
    } else {
        &[("nginx", NGINX), ("nginx, tcp_nopush", nopush), ("nginx, sendfile off", no_sendfile)]
    };
    settings.iter().map(|(name, settings)| ((*name).to_owned(), Kind::Nginx(*settings))).collect()
}

fn lighttpd(case: &Case) -> Vec<Named> {
    let settings: &[_] = if case.close {
        &[("lighttpd", "sendfile", false), ("lighttpd, defer-accept", "sendfile", true)]
    } else {
        &[("lighttpd", "sendfile", false), ("lighttpd, writev", "writev", false)]
    };
    let named = settings
        .iter()
        .map(|&(name, backend, defer_accept)| (name.to_owned(), Kind::Lighttpd { backend, defer_accept }));
    named.collect()
}
