//! What clients ask for: files on the disk, and sessions for them, made by `sluicelab` and kept for the next
//! run.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::programs::child::output;

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

/// What there is, made by `sluicelab`.
#[derive(Debug)]
struct Kind {
    /// As it is typed.
    name: &'static str,
    /// What `sluicelab fileset` knows its files by.
    files: &'static str,
    /// What `sluicelab sessions` knows its sessions by.
    sessions: &'static str,
    /// Whether there are directories of files.
    has_directories: bool,
    /// Whether sessions are drawn, as many as one likes.
    is_drawn: bool,
    /// Options of `sluicelab sessions` that it may have, and what is allowed for each.
    options: &'static [(&'static str, Allowed)],
}

/// Whether a value is one that an option may have.
type Allowed = fn(&str) -> bool;

const PART: Allowed = |value| value.parse().is_ok_and(|part: f64| (0.0..=1.0).contains(&part));
const SIZE: Allowed = |value| units::parse_size(value).is_ok();
const COUNT: Allowed = |value| value.parse().is_ok_and(|count: u32| count > 0);
const TIME: Allowed = |value| units::parse_time(value).is_ok();
const YES: Allowed = |value| value == "yes";

const OF_REPLIES: &[(&str, Allowed)] = &[("bytes", SIZE), ("calls", COUNT), ("length", YES)];

const CALLS: &[(&str, Allowed)] = &[("calls", COUNT)];

const KINDS: [Kind; 8] = [
    Kind { options: CALLS, ..Kind::plain("one-packet") },
    Kind { options: CALLS, ..Kind::plain("single") },
    Kind { options: &[("bytes", SIZE), ("calls", COUNT)], ..Kind::plain("fixed") },
    Kind { has_directories: true, is_drawn: true, options: &[("dynamic", PART)], ..Kind::plain("specweb99") },
    Kind { has_directories: true, is_drawn: true, options: &[("think", TIME)], ..Kind::plain("support") },
    Kind {
        name: "support-modified",
        has_directories: true,
        is_drawn: true,
        options: &[("replaced", PART), ("think", TIME)],
        ..Kind::plain("support")
    },
    Kind { is_drawn: true, options: OF_REPLIES, ..Kind::plain("dynamic-fixed") },
    Kind { files: "dynamic-fixed", options: OF_REPLIES, ..Kind::plain("constant") },
];

const ALLOWED: &str = "allowed: one-packet and single with calls=N, fixed with bytes=SIZE and calls=N, \
    specweb99 with dynamic=PART (0 to 1), support with think=TIME, support-modified with replaced=PART \
    besides, dynamic-fixed and constant with bytes=SIZE, calls=N and length=yes, or mine: root=DIR \
    sessions=FILE; with directories=N (specweb99, support, support-modified), sessions=N and idle=N";

impl Kind {
    const fn plain(name: &'static str) -> Self {
        Self { name, files: name, sessions: name, has_directories: false, is_drawn: false, options: &[] }
    }

    fn of(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, settings) = text.split_once(':').unwrap_or((text, ""));
        let kind = kind.trim();
        let mut this = Self {
            kind: kind.to_owned(),
            directories: 10,
            sessions: 20_000,
            idle: 0,
            options: Vec::new(),
            own: None,
        };
        let known = Kind::of(kind);
        let option = |key: &str| {
            let options = known.map_or(&[] as &[_], |kind| kind.options);
            options.iter().find(|option| option.0 == key).map(|option| option.1)
        };
        let (mut root, mut log) = (None, None);
        for word in settings.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || {
                value
                    .parse::<u32>()
                    .map_err(|_| format!("{word:?} in workload {text:?}: {key} is a number; {ALLOWED}"))
            };
            match key {
                "directories" if known.is_some_and(|kind| kind.has_directories) => {
                    this.directories = number()?;
                }
                "idle" => this.idle = number()?,
                "root" if kind == "mine" => root = Some(PathBuf::from(value)),
                "sessions" if kind == "mine" => log = Some(PathBuf::from(value)),
                "sessions" => this.sessions = number()?,
                _ if option(key).is_some_and(|is_allowed| is_allowed(value)) => {
                    this.options.push(word.to_owned());
                }
                _ => return Err(format!("{word:?} in workload {text:?}; {ALLOWED}")),
            }
        }
        if kind == "mine" {
            this.own = root.zip(log);
        }
        if this.own.is_none() && known.is_none() {
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

    /// Makes what is missing of it in `data`, where such things are kept.
    pub(crate) fn prepare(&self, sluicelab: &Path, data: &Path) -> Result<Prepared> {
        let Self { kind, directories, sessions, options, own, .. } = self;
        if let Some((root, sessions)) = own {
            let there = |path: &Path| path.canonicalize().with_context(|| format!("no {}", path.display()));
            return Ok(Prepared { root: there(root)?, sessions: there(sessions)? });
        }
        let known = Kind::of(kind).with_context(|| format!("{kind:?} is no workload; {ALLOWED}"))?;
        let numbered = |kind: &str| {
            if known.has_directories { format!("{kind}-{directories}") } else { kind.to_owned() }
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
        if known.has_directories {
            fileset.arg(format!("--directories={directories}"));
        }
        fileset.args(size.map(|size| format!("--bytes={size}")));
        if known.is_drawn {
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
    fn what_is_no_workload_is_refused() {
        for text in [
            "specweb",
            "mine: root=/srv",
            "one-packet: directories=3",
            "specweb99: directories=x",
            "specweb99: dynamic=2",
            "support: replaced=0.2",
            "constant: bytes=many",
            "dynamic-fixed: length=no",
            "",
        ] {
            let error = text.parse::<Workload>().unwrap_err();
            assert!(error.contains("allowed: one-packet"), "{text}: {error}");
        }
    }
}
