//! What a server hands requests to by FastCGI: PHP-FPM, or any program that listens on a Unix socket.
//!
//! It runs where the server does and under the same bounds, and its time and memory count as the server's.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{Endpoint, Ground, Part, directories, found, write};
use crate::spec;

/// An application as it is typed: `php-fpm: workers=16 root=DIR`, `command: ./app --socket {socket}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Application {
    /// PHP-FPM, which gets all requests for `.php`.
    PhpFpm {
        /// As many requests are computed at a time.
        workers: u32,
        /// Of the scripts, if it is not that of the files.
        root: Option<PathBuf>,
        /// Directives of its pool; `{directory}` is that of the trial's files.
        settings: Vec<(String, String)>,
    },
    /// The words of a command that gets all requests below `/fcgi/`.
    Command(Vec<String>),
}

/// Among a trial's files: where an application notes how long each request took it, if it is told to.
pub(crate) const WORK: &str = "application.log";

/// What servers have to know of it.
#[derive(Debug)]
pub(super) struct Gateway {
    /// Where it listens.
    pub(super) socket: String,
    /// The root of the scripts, if it gets all requests for `.php`; `None` if it gets those below `/fcgi/`.
    pub(super) scripts: Option<String>,
    /// How many requests it serves at a time, if that is known.
    pub(super) children: Option<u32>,
}

const ALLOWED: &str = "allowed: 'php-fpm', with workers=N (1 to 4096), root=DIR of its scripts and \
    directives of its pool such as pm.max_requests=500, or any program that takes FastCGI: 'command: ./app \
    --socket {socket}'";

impl FromStr for Application {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |what: &str| Err(format!("{what:?} in application {text:?}; {ALLOWED}"));
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let words = spec::words(rest);
        match kind.trim() {
            "command" if rest.contains("{socket}") => Ok(Self::Command(words)),
            "php-fpm" => {
                let (mut workers, mut root, mut settings) = (16, None, Vec::new());
                for word in &words {
                    match word.split_once('=') {
                        Some(("workers", count)) => match count.parse() {
                            Ok(count @ 1..=4096) => workers = count,
                            _ => return refused(word),
                        },
                        Some(("root", path)) => root = Some(path.into()),
                        Some((name, value)) => settings.push((name.to_owned(), value.to_owned())),
                        None => return refused(word),
                    }
                }
                Ok(Self::PhpFpm { workers, root, settings })
            }
            other => refused(other),
        }
    }
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => write!(f, "command: {}", words.join(" ")),
            Self::PhpFpm { workers, root, settings } => {
                write!(f, "php-fpm: workers={workers}")?;
                if let Some(root) = root {
                    write!(f, " root={}", root.display())?;
                }
                settings.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Application {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Application {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where the application listens.
pub(super) fn socket(ground: &Ground<'_>) -> PathBuf {
    ground.sockets.join("application")
}

impl Application {
    /// What makes it what it is, for the hash of its bytes.
    pub(crate) fn executable(&self) -> Result<PathBuf> {
        match self {
            Self::PhpFpm { .. } => installed().context("php-fpm is not installed (Debian package php-fpm)"),
            Self::Command(words) => words
                .first()
                .and_then(|word| found(word.as_ref()))
                .with_context(|| format!("{self}: there is no such program")),
        }
    }

    /// The program as it is started.
    pub(super) fn part(&self, ground: &Ground<'_>) -> Result<Part> {
        let at = socket(ground);
        let words = match self {
            Self::Command(words) => {
                let fill = |word: &String| {
                    word.trim_matches('"')
                        .replace("{socket}", &at.display().to_string())
                        .replace("{root}", &ground.root.display().to_string())
                };
                words.iter().map(fill).collect()
            }
            Self::PhpFpm { workers, settings, .. } => {
                php_fpm(&self.executable()?, *workers, settings, ground)?
            }
        };
        Ok(Part { words, listens: vec![Endpoint::Unix(at)] })
    }

    /// What is written into the server's configuration.
    pub(super) fn gateway(&self, ground: &Ground<'_>) -> Result<Gateway> {
        let (scripts, children) = match self {
            Self::Command(_) => (None, None),
            Self::PhpFpm { root, workers, .. } => {
                let root = root.as_deref().unwrap_or(ground.root);
                let there = root.canonicalize().with_context(|| format!("no {}", root.display()))?;
                (Some(there.display().to_string()), Some(*workers))
            }
        };
        Ok(Gateway { socket: socket(ground).display().to_string(), scripts, children })
    }
}

/// Workers are all there from the start; php.ini and its extensions are the machine's.
fn php_fpm(
    program: &Path,
    workers: u32,
    settings: &[(String, String)],
    ground: &Ground<'_>,
) -> Result<Vec<String>> {
    let mut lines = vec![
        ("listen".to_owned(), socket(ground).display().to_string()),
        ("listen.backlog".to_owned(), "4096".to_owned()),
        ("pm".to_owned(), "static".to_owned()),
        ("pm.max_children".to_owned(), workers.to_string()),
    ];
    // It reads the scripts as whoever reads them here.
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        lines.extend(["user", "group"].map(|name| (name.to_owned(), "root".to_owned())));
    }
    lines.retain(|(usual, _)| settings.iter().all(|(name, _)| name != usual));
    let directory = ground.directory.display().to_string();
    lines.extend(
        settings.iter().map(|(name, value)| (name.clone(), value.replace("{directory}", &directory))),
    );
    let mut text = "[global]\nerror_log = /proc/self/fd/2\n[application]\n".to_owned();
    for (name, value) in lines {
        let _ = writeln!(text, "{name} = {value}");
    }
    let config = write(ground, "php-fpm.conf", &text)?;
    let mut words = vec![program.display().to_string(), "--nodaemonize".to_owned()];
    words.extend(is_root.then(|| "--allow-to-run-as-root".to_owned()));
    words.push(format!("--fpm-config={config}"));
    Ok(words)
}

/// Debian names its version: `php-fpm8.2`.
fn installed() -> Option<PathBuf> {
    let entries = directories().into_iter().filter_map(|path| path.read_dir().ok()).flatten().flatten();
    let is_it = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("php-fpm"))
    };
    entries.map(|entry| entry.path()).filter(is_it).max_by_key(|path| path.file_name().map(OsStr::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_php_or_a_command() {
        let php: Application = "php-fpm: workers=4 root=/srv/app pm.max_requests=9".parse().unwrap();
        let settings = vec![("pm.max_requests".to_owned(), "9".to_owned())];
        assert_eq!(php, Application::PhpFpm { workers: 4, root: Some("/srv/app".into()), settings });
        for text in ["php-fpm", "php-fpm: workers=2 root=/a b=c", "command: ./app --socket {socket}"] {
            let once: Application = text.parse().unwrap();
            assert_eq!(once.to_string().parse::<Application>().unwrap(), once);
        }
    }

    #[test]
    fn what_is_no_application_is_refused() {
        for text in ["php", "php-fpm: workers=0", "php-fpm: fast", "command: ./app", ""] {
            let error = text.parse::<Application>().unwrap_err();
            assert!(error.contains("allowed: 'php-fpm'"), "{text}: {error}");
        }
    }
}
