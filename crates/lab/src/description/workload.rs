//! What clients request: files on the disk, and sessions for them. `sluicelab` makes both, and keeps them
//! for later runs.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use base16ct::lower::encode_string as hex;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use sha2::{Digest as _, Sha256};
use workload::specweb99::{PRESETS, Preset};
use workload::wsesslog;

use crate::description::kinds::{Kind, MINE, PATHS};
use crate::programs::interrupt;
use crate::servers::spec::words;

/// A workload as users type it: `one-packet`, `specweb99: directories=78 sessions=50000`, `one-packet:
/// idle=4000`, `support-modified: replaced=0.4`, `mine: root=./public sessions=./log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    kind: String,
    /// The number of directories, for `SPECweb99` and Support.
    directories: u32,
    /// The number of sessions that are drawn.
    sessions: u32,
    /// The number of idle clients: connected, but without requests. Some event mechanisms look at each of
    /// them in every get-events phase (Banga and Mogul 1998).
    pub idle: u32,
    /// More options for `sluicelab sessions`, as typed: `replaced=0.4`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
    /// The user's own files, and the sessions that request them.
    own: Option<(PathBuf, PathBuf)>,
    /// The user's own files, and the requested paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<Paths>,
}

/// Requested files below a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Paths {
    /// The root of the files. `None`: only servers that are already running have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Each may have a weight behind it, as in a list for `sluicelab load --urls`.
    pub paths: Vec<String>,
    /// `None`: the default of `sluicelab load`.
    pub requests_per_connection: Option<u32>,
}

/// The default number of directories of files.
const DIRECTORIES: u32 = 10;

/// The default number of sessions.
const SESSIONS: u32 = 20_000;

/// The default number of requests on a connection, as in `sluicelab load`: at a rate, and in a closed loop.
const PER_CONNECTION: (u32, u32) = (1, 1_000);

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
            if said.iter().any(|(other, _)| *other == name) && !key.repeats() {
                return refused(format!("{name} is set twice"));
            }
            said.push((key.name, value.to_owned()));
        }
        let value = |name: &str| said.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        if let Some(missing) = kind.required.iter().find(|name| value(name).is_none()) {
            return refused(format!("{} needs {missing}; allowed: {}", kind.name, kind.allowed()));
        }
        let number = |name: &str, usual| value(name).and_then(|value| value.parse().ok()).unwrap_or(usual);
        let is_that = |preset: &&Preset| value("preset").is_some_and(|name| preset.name == name);
        let preset = PRESETS.iter().find(is_that);
        if preset.is_some() && value("directories").is_some() {
            return refused("preset sets the number of directories; allowed: one of the two".to_owned());
        }
        let is_mine = kind.name == MINE;
        let path = |name: &str| value(name).filter(|_| is_mine).map(PathBuf::from);
        let is_option = |name: &str| {
            !["directories", "idle", "path", "preset", REQUESTS, "root", "sessions"].contains(&name)
        };
        let options = said.iter().filter(|(name, _)| is_option(name));
        Ok(Self {
            kind: kind.name.to_owned(),
            directories: preset.map_or(number("directories", DIRECTORIES), |preset| preset.directories),
            sessions: number("sessions", SESSIONS),
            idle: number("idle", 0),
            options: options.map(|(name, value)| format!("{name}={value}")).collect(),
            own: path("root").zip(path("sessions")),
            paths: (kind.name == PATHS).then(|| Paths {
                root: value("root").map(PathBuf::from),
                paths: said
                    .iter()
                    .filter(|(name, _)| *name == "path")
                    .map(|(_, path)| path.clone())
                    .collect(),
                requests_per_connection: value(REQUESTS).and_then(|value| value.parse().ok()),
            }),
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
        let Self { kind, idle, options, own, paths, .. } = self;
        match (own, paths) {
            (Some((root, _)), _) => write!(f, "{}", root.display())?,
            (_, Some(paths)) => paths.fmt(f)?,
            _ => f.write_str(kind)?,
        }
        options.iter().try_for_each(|option| write!(f, " {option}"))?;
        if *idle > 0 { write!(f, " beside {idle} idle clients") } else { Ok(()) }
    }
}

/// Formats the first few of the paths.
impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.paths.len().min(3);
        f.write_str(&self.paths[..shown].join(", "))?;
        let others = self.paths.len() - shown;
        if others > 0 { write!(f, " and {others} more") } else { Ok(()) }
    }
}

impl Paths {
    /// The options as users type them, after the kind.
    fn words(&self) -> impl Iterator<Item = String> {
        let root = self.root.as_deref().map(|root| format!("root={}", word(root)));
        let paths = self.paths.iter().map(|path| format!("path={}", quoted(path)));
        let each = self.requests_per_connection.map(|count| format!("{REQUESTS}={count}"));
        root.into_iter().chain(paths).chain(each)
    }
}

/// A value as users type it, in double quotes if it has blanks.
fn quoted(value: &str) -> String {
    if value.contains(char::is_whitespace) { format!("\"{value}\"") } else { value.to_owned() }
}

fn word(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// The option for the number of requests on a connection.
const REQUESTS: &str = "requests-per-connection";

/// Files and sessions on the disk.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) root: PathBuf,
    pub(crate) sessions: PathBuf,
    /// The requested files, if these are not all below the root.
    pub(crate) asked: Option<Vec<PathBuf>>,
}

impl Prepared {
    /// The target of the first request.
    pub(crate) fn first_target(&self) -> Result<String> {
        let log = fs::read_to_string(&self.sessions)?;
        let target = log.split_whitespace().next();
        target.map(str::to_owned).with_context(|| format!("{} contains no request", self.sessions.display()))
    }
}

impl Workload {
    /// Whether no root is given, so that only servers that are already running have the files.
    pub(crate) fn has_no_root(&self) -> bool {
        self.paths.as_ref().is_some_and(|paths| paths.root.is_none())
    }

    /// Whether some requests are not for files; an application answers these.
    pub(crate) fn asks_for_no_file(&self) -> bool {
        matches!(self.kind.as_str(), "constant" | "dynamic-fixed")
            || self.options.iter().any(|option| option.starts_with("dynamic="))
    }

    /// Whether all requests are for one file.
    pub(crate) fn asks_for_one_file(&self) -> bool {
        match self.kind.as_str() {
            "one-packet" | "single" => true,
            "fixed" => self.option("bytes").is_some(),
            PATHS => self.paths.as_ref().is_some_and(|paths| paths.paths.len() == 1),
            _ => false,
        }
    }

    /// Whether the number of requests in a session is given.
    pub(crate) fn has_calls(&self) -> bool {
        let of_paths = self.paths.as_ref().and_then(|paths| paths.requests_per_connection);
        self.option("calls").is_some() || of_paths.is_some()
    }

    /// The workload with the default number of requests on a connection, if none is given: for clients at a
    /// rate, or in a closed loop.
    pub(crate) fn at(mut self, is_rate: bool) -> Self {
        if let Some(paths) = &mut self.paths {
            let usual = if is_rate { PER_CONNECTION.0 } else { PER_CONNECTION.1 };
            paths.requests_per_connection.get_or_insert(usual);
        }
        self
    }

    /// Requests for files below a root; a weight may follow each path.
    pub fn of_paths(root: Option<PathBuf>, paths: Vec<String>, requests_per_connection: Option<u32>) -> Self {
        Self {
            kind: PATHS.to_owned(),
            directories: DIRECTORIES,
            sessions: SESSIONS,
            idle: 0,
            options: Vec::new(),
            own: None,
            paths: Some(Paths { root, paths, requests_per_connection }),
        }
    }

    /// The workload as users type it.
    pub fn typed(&self) -> String {
        let Self { kind, directories, sessions, idle, options, own, paths } = self;
        let mut words = vec![format!("{kind}:")];
        match (own, paths) {
            (Some((root, sessions)), _) => {
                words.extend([format!("root={}", word(root)), format!("sessions={}", word(sessions))]);
            }
            (None, Some(paths)) => words.extend(paths.words()),
            (None, None) => {
                let has = |key| Kind::named(kind).is_ok_and(|kind| kind.has(key));
                let numbers = [("directories", directories, DIRECTORIES), ("sessions", sessions, SESSIONS)];
                let set = numbers.iter().filter(|(key, number, usual)| *number != usual && has(key));
                words.extend(set.map(|(key, number, _)| format!("{key}={number}")));
                words.extend(options.iter().cloned());
            }
        }
        words.extend((*idle > 0).then(|| format!("idle={idle}")));
        words.join(" ").trim_end_matches(':').to_owned()
    }

    /// The workload with absolute paths.
    pub fn anywhere(mut self) -> Self {
        let own = self.own.iter_mut().flat_map(|(root, sessions)| [root, sessions]);
        for path in own.chain(self.paths.iter_mut().filter_map(|paths| paths.root.as_mut())) {
            // A missing path stays as it is; the error then shows it as typed.
            if let Ok(there) = path.canonicalize() {
                *path = there;
            }
        }
        self
    }

    fn option(&self, name: &str) -> Option<&str> {
        let pairs = self.options.iter().filter_map(|option| option.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Checks that the user's files exist. If replies are computed, paths need no files.
    ///
    /// # Errors
    /// The missing file, or its mistake.
    pub(crate) fn check_files(&self, is_computed: bool) -> Result<(), String> {
        if let Some(Paths { root, paths, .. }) = &self.paths {
            let Some(root) = root else { return Ok(()) };
            if !root.is_dir() {
                return Err(format!("root={}: there is no such directory", root.display()));
            }
            let mut files = paths.iter().map(|path| (path, below(root, path)));
            let missing = files.find(|(_, file)| !is_computed && !file.is_file());
            return missing.map_or(Ok(()), |(path, file)| {
                Err(format!("path={}: there is no file {}", quoted(path), file.display()))
            });
        }
        let Some((root, sessions)) = &self.own else { return Ok(()) };
        if !root.is_dir() {
            return Err(format!("root={}: there is no such directory", root.display()));
        }
        let name = sessions.display();
        let text = fs::read(sessions).map_err(|error| format!("sessions={name}: {error}"))?;
        let log = wsesslog::parse(&text).map_err(|mistake| format!("sessions={name}: {mistake}"))?;
        if log.is_empty() {
            return Err(format!("sessions={name}: the file contains no session"));
        }
        Ok(())
    }

    /// Makes the missing files and sessions in the directory `data`, and keeps them there.
    pub(crate) fn prepare(&self, sluicelab: &Path, data: &Path) -> Result<Prepared> {
        let Self { kind, directories, sessions, options, own, .. } = self;
        if let Some((root, sessions)) = own {
            let there = |path: &Path| path.canonicalize().with_context(|| format!("no {}", path.display()));
            return Ok(Prepared { root: there(root)?, sessions: there(sessions)?, asked: None });
        }
        if let Some(paths) = &self.paths {
            return self.prepare_paths(paths, sluicelab, data);
        }
        let known = Kind::named(kind).map_err(anyhow::Error::msg)?;
        let has_directories = known.has("directories");
        let numbered = |kind: &str| {
            if has_directories { format!("{kind}-{directories}") } else { kind.to_owned() }
        };
        // A file set of one size: `fixed` allows any size.
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
        // Absolute paths, because servers and generators start in other directories.
        Ok(Prepared { root: root.canonicalize()?, sessions: file.canonicalize()?, asked: None })
    }
}

impl Workload {
    fn prepare_paths(&self, paths: &Paths, sluicelab: &Path, data: &Path) -> Result<Prepared> {
        let Paths { root, paths, requests_per_connection } = paths;
        let calls = requests_per_connection.unwrap_or(PER_CONNECTION.0);
        fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
        let hash = hex(&Sha256::digest(format!("{calls} {}", paths.join("\n"))));
        let file = data.join(format!("{PATHS}-{}.sessions", &hash[..16]));
        if !file.is_file() {
            let mut write = Command::new(sluicelab);
            write.args(["sessions", PATHS, &format!("--{REQUESTS}={calls}"), "--out"]).arg(&file);
            write.args(paths.iter().map(|path| format!("--path={path}")));
            made("sessions", self, &mut write)?;
        }
        let sessions = file.canonicalize()?;
        // Without a root, no files can be read.
        let Some(root) = root else {
            return Ok(Prepared { root: data.to_owned(), sessions, asked: Some(Vec::new()) });
        };
        let root = root.canonicalize()?;
        let asked = paths.iter().map(|path| below(&root, path)).filter(|file| file.is_file()).collect();
        Ok(Prepared { root, sessions, asked: Some(asked) })
    }
}

/// The file that a server sends for a path. The path loses its weight and query, and is decoded; a
/// directory gets its index file.
fn below(root: &Path, path: &str) -> PathBuf {
    let path = path.split([' ', '?']).next().unwrap_or_default();
    let mut path = percent_decode_str(path.trim_start_matches('/')).decode_utf8_lossy().into_owned();
    if path.is_empty() || path.ends_with('/') {
        path.push_str("index.html");
    }
    root.join(path)
}

/// Runs a `sluicelab` command that makes something for a workload. An error quotes the command's message,
/// not its command line.
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
        let paper: Workload = "specweb99: preset=2007 off-times=surge".parse().unwrap();
        assert_eq!((paper.directories, paper.to_string().as_str()), (680, "specweb99 off-times=surge"));
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
    fn what_is_typed_is_read_again() {
        for text in [
            "one-packet",
            "specweb99: directories=78 sessions=50000 dynamic=0.3 idle=4",
            "specweb99: directories=680 off-times=fixed",
            "mine: root=/srv sessions=\"/my log\"",
            "paths: root=/srv path=/a requests-per-connection=3 idle=7",
        ] {
            let workload: Workload = text.parse().unwrap();
            assert_eq!((workload.typed().as_str(), workload.typed().parse()), (text, Ok(workload)));
        }
    }

    #[test]
    fn paths_have_weights_and_are_read_as_they_are_written() {
        let text =
            "paths: root=\"/srv/my site\" path=\"/f.bin 5\" path=/a%20b.html requests-per-connection=7";
        let workload: Workload = text.parse().unwrap();
        assert_eq!(workload.to_string(), "/f.bin 5, /a%20b.html");
        assert_eq!(workload.typed(), text);
        assert!(workload.has_calls() && !workload.asks_for_one_file());
        let one: Workload = "paths: root=/srv path=/f.bin".parse().unwrap();
        assert!(one.asks_for_one_file() && !one.has_calls());
        let each = |is_rate| one.clone().at(is_rate).paths.unwrap().requests_per_connection;
        assert_eq!((each(true), each(false)), (Some(1), Some(1_000)));
        let many: Workload = "paths: root=/ path=/a path=/b path=/c path=/d path=/e".parse().unwrap();
        assert_eq!(many.to_string(), "/a, /b, /c and 2 more");
        assert_eq!(below(Path::new("/srv"), "/a%20b/?x=1 5"), Path::new("/srv/a b/index.html"));
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
            ("specweb99: preset=2008", "preset=2008 is not allowed; allowed: 2004, 2007, 2012, 2004-small"),
            ("specweb99: preset=2007 directories=3", "preset sets the number of directories; allowed:"),
            ("specweb99: off-times=3s", "off-times=3s is not allowed; allowed: none, fixed, surge"),
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
