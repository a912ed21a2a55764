//! What clients ask for: files on the disk, and sessions for them, made by `sluicelab` and kept for the next
//! run.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use workload::wsesslog;

use crate::description::kinds::{Kind, MINE};
use crate::programs::interrupt;
use crate::servers::spec::words;

/// A workload as it is typed: `one-packet`, `specweb99: directories=78 sessions=50000`, `one-packet:
/// idle=4000`, `support-modified: replaced=0.4`, `mine: root=./public sessions=./log`.
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
    /// What `sluicelab sessions` is told besides, as it was typed: `replaced=0.4`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
    /// Somebody's own files, and the sessions that ask for them.
    own: Option<(PathBuf, PathBuf)>,
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, settings) = text.split_once(':').unwrap_or((text, ""));
        let kind = Kind::named(kind.trim())?;
        let refused = |what: String| Err(format!("workload {text:?}: {what}"));
        let mut said: Vec<(&str, String)> = Vec::new();
        for word in words(settings) {
            let (name, value) = word.split_once('=').unwrap_or((&word, ""));
            let value = value.trim_matches('"');
            let key = match kind.key(name) {
                Ok(key) => key,
                Err(what) => return refused(what),
            };
            if !(key.is_allowed)(value) {
                return refused(format!("{name}={value} is not allowed; allowed: {}", key.values));
            }
            if said.iter().any(|(other, _)| *other == name) {
                return refused(format!("{name} is set twice"));
            }
            said.push((key.name, value.to_owned()));
        }
        let value = |name: &str| said.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        if let Some(missing) = kind.required.iter().find(|name| value(name).is_none()) {
            return refused(format!("{} needs {missing}; allowed: {}", kind.name, kind.allowed()));
        }
        let number = |name: &str, usual| value(name).and_then(|value| value.parse().ok()).unwrap_or(usual);
        let is_mine = kind.name == MINE;
        let path = |name: &str| value(name).filter(|_| is_mine).map(PathBuf::from);
        let is_option = |name: &str| !["directories", "idle", "root", "sessions"].contains(&name);
        let options = said.iter().filter(|(name, _)| is_option(name));
        Ok(Self {
            kind: kind.name.to_owned(),
            directories: number("directories", 10),
            sessions: number("sessions", 20_000),
            idle: number("idle", 0),
            options: options.map(|(name, value)| format!("{name}={value}")).collect(),
            own: path("root").zip(path("sessions")),
        })
    }
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, idle, options, own, .. } = self;
        match own {
            Some((root, _)) => write!(f, "{}", root.display())?,
            None => f.write_str(kind)?,
        }
        options.iter().try_for_each(|option| write!(f, " {option}"))?;
        if *idle > 0 { write!(f, " beside {idle} idle clients") } else { Ok(()) }
    }
}

/// Files and sessions on the disk.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) root: PathBuf,
    pub(crate) sessions: PathBuf,
}

impl Prepared {
    /// What the first request is for.
    pub(crate) fn first_target(&self) -> Result<String> {
        let log = fs::read_to_string(&self.sessions)?;
        let target = log.split_whitespace().next();
        target.map(str::to_owned).with_context(|| format!("{} asks for nothing", self.sessions.display()))
    }
}

impl Workload {
    /// Whether there are requests for what is no file, whoever answers them.
    pub(crate) fn asks_for_no_file(&self) -> bool {
        matches!(self.kind.as_str(), "constant" | "dynamic-fixed")
            || self.options.iter().any(|option| option.starts_with("dynamic="))
    }

    /// Whether all of it is for one file.
    pub(crate) fn asks_for_one_file(&self) -> bool {
        match self.kind.as_str() {
            "one-packet" | "single" => true,
            "fixed" => self.option("bytes").is_some(),
            _ => false,
        }
    }

    /// How many requests a session has, if that was said.
    pub(crate) fn calls(&self) -> Option<&str> {
        self.option("calls")
    }

    fn option(&self, name: &str) -> Option<&str> {
        let pairs = self.options.iter().filter_map(|option| option.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Whether the files are there that somebody has made.
    ///
    /// # Errors
    /// Which is not, or what is wrong with it.
    pub(crate) fn check_files(&self) -> Result<(), String> {
        let Some((root, sessions)) = &self.own else { return Ok(()) };
        if !root.is_dir() {
            return Err(format!("root={}: there is no such directory", root.display()));
        }
        let name = sessions.display();
        let text = fs::read(sessions).map_err(|error| format!("sessions={name}: {error}"))?;
        let log = wsesslog::parse(&text).map_err(|mistake| format!("sessions={name}: {mistake}"))?;
        if log.is_empty() {
            return Err(format!("sessions={name}: there is no session in it"));
        }
        Ok(())
    }

    /// Makes what is missing of it in `data`, where such things are kept.
    pub(crate) fn prepare(&self, sluicelab: &Path, data: &Path) -> Result<Prepared> {
        let Self { kind, directories, sessions, options, own, .. } = self;
        if let Some((root, sessions)) = own {
            let there = |path: &Path| path.canonicalize().with_context(|| format!("no {}", path.display()));
            return Ok(Prepared { root: there(root)?, sessions: there(sessions)? });
        }
        let known = Kind::named(kind).map_err(anyhow::Error::msg)?;
        let has_directories = known.has("directories");
        let numbered = |kind: &str| {
            if has_directories { format!("{kind}-{directories}") } else { kind.to_owned() }
        };
        // A set of that file alone: sizes are anybody's choice.
        let size = self.option("bytes").filter(|_| known.name == "fixed");
        let root = data.join(match size {
            Some(size) => format!("{}-bytes={size}", known.files),
            None => numbered(known.files),
        });
        let with = options.iter().fold(numbered(kind), |name, option| format!("{name}-{option}"));
        let file = data.join(format!("{with}-{sessions}.sessions"));
        fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
        let mut fileset = Command::new(sluicelab);
        fileset.args(["fileset", known.files, "--root"]).arg(&root);
        let mut draw = Command::new(sluicelab);
        draw.args(["sessions", known.sessions, "--fileset"]).arg(&root).arg("--out").arg(&file);
        draw.args(options.iter().map(|option| format!("--{option}")));
        if has_directories {
            fileset.arg(format!("--directories={directories}"));
        }
        fileset.args(size.map(|size| format!("--bytes={size}")));
        if known.has("sessions") {
            draw.arg(format!("--count={sessions}"));
        }
        made("files", self, &mut fileset)?;
        if !file.is_file() {
            made("sessions", self, &mut draw)?;
        }
        // Servers and generators are started from elsewhere.
        Ok(Prepared { root: root.canonicalize()?, sessions: file.canonicalize()? })
    }
}

/// Has `sluicelab` make something for a workload. What it says of a failure is told, not how it was called.
fn made(what: &str, workload: &Workload, command: &mut Command) -> Result<()> {
    interrupt::check()?;
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let why = told.lines().map(|line| line.trim_start_matches("sluicelab: ")).collect::<Vec<_>>();
    ensure!(output.status.success(), "cannot make {what} for {workload}: {}", why.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_a_kind_with_settings() {
        let workload: Workload = "specweb99: directories=78 sessions=50000 idle=4000".parse().unwrap();
        assert_eq!((workload.directories, workload.sessions, workload.idle), (78, 50_000, 4_000));
        assert_eq!(workload.to_string(), "specweb99 beside 4000 idle clients");
        let modified: Workload = "support-modified: directories=1 replaced=0.4".parse().unwrap();
        assert_eq!(modified.to_string(), "support-modified replaced=0.4");
        let fixed: Workload = "constant: bytes=32KiB calls=100".parse().unwrap();
        assert_eq!(fixed.to_string(), "constant bytes=32KiB calls=100");
        assert!(fixed.asks_for_no_file() && !modified.asks_for_no_file());
        let kept: Workload = "fixed: bytes=128KiB calls=100".parse().unwrap();
        assert!(kept.to_string() == "fixed bytes=128KiB calls=100" && !kept.asks_for_no_file());
        let own: Workload = "mine: root=/srv/www sessions=/tmp/log".parse().unwrap();
        assert_eq!(own.own, Some(("/srv/www".into(), "/tmp/log".into())));
    }

    #[test]
    fn what_is_refused_is_told_of_the_workload_that_was_named() {
        for (text, expected) in [
            ("spec", "\"spec\" is no workload; allowed: one-packet, single, fixed, specweb99, "),
            ("specweb9", "\"specweb9\" is no workload (is it specweb99?); allowed: one-packet, "),
            ("mine: root=/srv", "mine needs sessions; allowed: root= (a directory), sessions= (a file"),
            ("one-packet: directories=3", "\"directories\" is no setting of one-packet; allowed: calls= ("),
            ("fixed: byte=3", "\"byte\" is no setting of fixed (is it bytes?); allowed: bytes= (a size"),
            ("specweb99: directories=x", "directories=x is not allowed; allowed: 1 to 1000000"),
            ("specweb99: directories=0", "directories=0 is not allowed; allowed: 1 to 1000000"),
            ("specweb99: sessions=", "sessions= is not allowed; allowed: 1 to 10000000"),
            ("specweb99: dynamic=2", "dynamic=2 is not allowed; allowed: 0 to 1"),
            ("support: replaced=0.2", "\"replaced\" is no setting of support; allowed: directories= ("),
            ("constant: calls=3", "constant needs bytes; allowed: bytes= (32KiB, 64KiB"),
            ("constant: bytes=33KiB", "bytes=33KiB is not allowed; allowed: 32KiB, 64KiB"),
            ("dynamic-fixed: bytes=32KiB length=maybe", "length=maybe is not allowed; allowed: yes, no"),
            ("fixed: calls=1 calls=2", "calls is set twice"),
            ("", "\"\" is no workload; allowed: one-packet"),
        ] {
            let error = text.parse::<Workload>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            let kind = text.split(':').next().unwrap_or_default();
            let named = error.starts_with(&format!("workload {text:?}: ")) || !text.contains(':');
            assert!(named && (kind != "fixed" || !error.contains("specweb99")), "{text}: {error}");
        }
    }
}
