//! What clients ask for: files on the disk, and sessions for them, made by `sluicelab` and kept for the next
//! run.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::child::output;

/// A workload as it is typed: `one-packet`, `specweb99: directories=78 sessions=50000`, `one-packet:
/// idle=4000`, `mine: root=./public sessions=./log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    kind: String,
    /// Of `SPECweb99` and Support: how many directories of files there are.
    directories: u32,
    /// How many sessions are drawn.
    sessions: u32,
    /// How many other clients are connected, and ask for nothing: some event mechanisms look at each of them
    /// in every get-events phase (Banga and Mogul 1998).
    pub idle: u32,
    /// Somebody's own files, and the sessions that ask for them.
    own: Option<(PathBuf, PathBuf)>,
}

/// What `sluicelab fileset` and `sessions` know.
const KINDS: [&str; 5] = ["one-packet", "single", "fixed", "specweb99", "support"];

const ALLOWED: &str = "allowed: one-packet, single, fixed, specweb99, support, or mine: root=DIR \
    sessions=FILE; with directories=N (specweb99, support), sessions=N and idle=N";

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, settings) = text.split_once(':').unwrap_or((text, ""));
        let kind = kind.trim();
        let mut this = Self { kind: kind.to_owned(), directories: 10, sessions: 20_000, idle: 0, own: None };
        let (mut root, mut log) = (None, None);
        for word in settings.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || {
                value
                    .parse::<u32>()
                    .map_err(|_| format!("{word:?} in workload {text:?}: {key} is a number; {ALLOWED}"))
            };
            match key {
                "directories" if matches!(kind, "specweb99" | "support") => this.directories = number()?,
                "idle" => this.idle = number()?,
                "root" if kind == "mine" => root = Some(PathBuf::from(value)),
                "sessions" if kind == "mine" => log = Some(PathBuf::from(value)),
                "sessions" => this.sessions = number()?,
                _ => return Err(format!("{word:?} in workload {text:?}; {ALLOWED}")),
            }
        }
        if kind == "mine" {
            this.own = root.zip(log);
        }
        if this.own.is_none() && !KINDS.contains(&kind) {
            return Err(format!("{text:?} is no workload; {ALLOWED}"));
        }
        Ok(this)
    }
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, idle, own, .. } = self;
        match own {
            Some((root, _)) => write!(f, "{}", root.display())?,
            None => f.write_str(kind)?,
        }
        if *idle > 0 { write!(f, " beside {idle} idle clients") } else { Ok(()) }
    }
}

/// Files and sessions on the disk.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) root: PathBuf,
    pub(crate) sessions: PathBuf,
}

impl Workload {
    /// Makes what is missing of it in `data`, where such things are kept.
    pub(crate) fn prepare(&self, sluicelab: &Path, data: &Path) -> Result<Prepared> {
        let Self { kind, directories, sessions, own, .. } = self;
        if let Some((root, sessions)) = own {
            let there = |path: &Path| path.canonicalize().with_context(|| format!("no {}", path.display()));
            return Ok(Prepared { root: there(root)?, sessions: there(sessions)? });
        }
        let has_directories = matches!(kind.as_str(), "specweb99" | "support");
        let name = if has_directories { format!("{kind}-{directories}") } else { kind.clone() };
        let root = data.join(&name);
        let file = data.join(format!("{name}-{sessions}.sessions"));
        fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
        let mut fileset = Command::new(sluicelab);
        fileset.args(["fileset", kind, "--root"]).arg(&root);
        let mut draw = Command::new(sluicelab);
        draw.args(["sessions", kind, "--fileset"]).arg(&root).arg("--out").arg(&file);
        if has_directories {
            fileset.arg(format!("--directories={directories}"));
            draw.arg(format!("--count={sessions}"));
        }
        output(&mut fileset, "")?;
        if !file.is_file() {
            output(&mut draw, "")?;
        }
        // Servers and generators are started from elsewhere.
        Ok(Prepared { root: root.canonicalize()?, sessions: file.canonicalize()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_a_kind_with_settings() {
        let workload: Workload = "specweb99: directories=78 sessions=50000 idle=4000".parse().unwrap();
        assert_eq!((workload.directories, workload.sessions, workload.idle), (78, 50_000, 4_000));
        assert_eq!(workload.to_string(), "specweb99 beside 4000 idle clients");
        let own: Workload = "mine: root=/srv/www sessions=/tmp/log".parse().unwrap();
        assert_eq!(own.own, Some(("/srv/www".into(), "/tmp/log".into())));
    }

    #[test]
    fn what_is_no_workload_is_refused() {
        for text in
            ["specweb", "mine: root=/srv", "one-packet: directories=3", "specweb99: directories=x", ""]
        {
            let error = text.parse::<Workload>().unwrap_err();
            assert!(error.contains("allowed: one-packet"), "{text}: {error}");
        }
    }
}
