//! The known kinds of workloads, and their options.

use workload::dynamic::SIZES;
use workload::specweb99::PRESETS;
use workload::urls::Urls;

use crate::near::meant;

/// A kind of workload.
#[derive(Debug)]
pub(super) struct Kind {
    /// The name that users type.
    pub(super) name: &'static str,
    /// The name of its files for `sluicelab fileset`.
    pub(super) files: &'static str,
    /// The name of its sessions for `sluicelab sessions`.
    pub(super) sessions: &'static str,
    /// The options that it may have, besides [`IDLE`].
    keys: &'static [Key],
    /// The options that it must have.
    pub(super) required: &'static [&'static str],
}

/// An option of a workload.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// A description of its values for errors.
    pub(super) values: &'static str,
    pub(super) is_allowed: fn(&str) -> bool,
}

impl Key {
    /// Whether it may be given several times.
    pub(super) fn repeats(&self) -> bool {
        self.name == PATH.name
    }
}

const fn key(name: &'static str, values: &'static str, is_allowed: fn(&str) -> bool) -> Key {
    Key { name, values, is_allowed }
}

fn is_count(value: &str, least: u64, most: u64) -> bool {
    units::parse_number(value).is_some_and(|count| (least..=most).contains(&count))
}

fn is_part(value: &str) -> bool {
    value.parse().is_ok_and(|part: f64| (0.0..=1.0).contains(&part))
}

// The ranges are those of `sluicelab fileset` and `sluicelab sessions`.
const DIRECTORIES: Key = key("directories", "1 to 1000000", |value| is_count(value, 1, 1_000_000));
/// A paper's number of directories.
const PRESET: Key = key("preset", "2004, 2007, 2012, 2004-small, 2007-small, 2012-small", |value| {
    PRESETS.iter().any(|preset| preset.name == value)
});
const OFF_TIMES: Key =
    key("off-times", "none, fixed, surge", |value| ["none", "fixed", "surge"].contains(&value));
const SESSIONS: Key = key("sessions", "1 to 10000000", |value| is_count(value, 1, 10_000_000));
const CALLS: Key = key("calls", "1 to 10000", |value| is_count(value, 1, 10_000));
const ANY_SIZE: Key = key("bytes", "a size such as 10KiB, up to 1GiB", |value| {
    units::parse_size(value).is_ok_and(|bytes| (1..=1 << 30).contains(&bytes))
});
const A_SIZE: Key = key("bytes", "32KiB, 64KiB, 128KiB, 256KiB, 512KiB, 1MiB, 2MiB, 4MiB", |value| {
    units::parse_size(value).is_ok_and(|bytes| SIZES.contains(&bytes))
});
const LENGTH: Key = key("length", "yes, no", |value| ["yes", "no"].contains(&value));
const DYNAMIC: Key = key("dynamic", "0 to 1", is_part);
const REPLACED: Key = key("replaced", "0 to 1", is_part);
const THINK: Key = key("think", "a time such as 5s", |value| units::parse_time(value).is_ok());
const ROOT: Key = key("root", "a directory", |value| !value.is_empty());
const FILE: Key = key("sessions", "a file of sessions", |value| !value.is_empty());

const PATH: Key = key("path", "a path such as /f.bin, or with a weight \"/f.bin 5\"", |value| {
    Urls::parse(value.as_bytes()).is_ok_and(|urls| urls.paths().len() == 1)
});
const PER_CONNECTION: Key =
    key("requests-per-connection", "1 to 1000000", |value| is_count(value, 1, 1_000_000));

/// How many other clients are connected: at most the number for which servers make room.
const IDLE: Key = key("idle", "0 to 20000", |value| is_count(value, 0, 20_000));

/// The user's own files and sessions.
pub(super) const MINE: &str = "mine";

/// The user's own files, by their paths.
pub(super) const PATHS: &str = "paths";

const KINDS: [Kind; 10] = [
    Kind { keys: &[CALLS], ..Kind::plain("one-packet") },
    Kind { keys: &[CALLS], ..Kind::plain("single") },
    Kind { keys: &[ANY_SIZE, CALLS], ..Kind::plain("fixed") },
    Kind { keys: &[DIRECTORIES, PRESET, SESSIONS, DYNAMIC, OFF_TIMES], ..Kind::plain("specweb99") },
    Kind { keys: &[DIRECTORIES, SESSIONS, THINK], ..Kind::plain("support") },
    Kind {
        name: "support-modified",
        keys: &[DIRECTORIES, SESSIONS, REPLACED, THINK],
        ..Kind::plain("support")
    },
    Kind { keys: &[A_SIZE, CALLS, LENGTH, SESSIONS], required: &["bytes"], ..Kind::plain("dynamic-fixed") },
    Kind {
        name: "constant",
        files: "dynamic-fixed",
        keys: &[A_SIZE, CALLS, LENGTH],
        required: &["bytes"],
        ..Kind::plain("constant")
    },
    Kind { keys: &[ROOT, FILE], required: &["root", "sessions"], ..Kind::plain(MINE) },
    Kind { keys: &[ROOT, PATH, PER_CONNECTION], required: &["path"], ..Kind::plain(PATHS) },
];

impl Kind {
    const fn plain(name: &'static str) -> Self {
        Self { name, files: name, sessions: name, keys: &[], required: &[] }
    }

    /// The kind with that name.
    pub(super) fn named(name: &str) -> Result<&'static Self, String> {
        KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let names = KINDS.each_ref().map(|kind| kind.name);
            format!("{name:?} is no workload{}; allowed: {}", meant(name, names), names.join(", "))
        })
    }

    /// The options that it may have.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.keys.iter().chain([&IDLE])
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.keys().any(|other| other.name == key)
    }

    /// The option with that name.
    pub(super) fn key(&self, name: &str) -> Result<&'static Key, String> {
        self.keys().find(|key| key.name == name).ok_or_else(|| {
            let near = meant(name, self.keys().map(|key| key.name));
            format!("{name:?} is no setting of {}{near}; allowed: {}", self.name, self.allowed())
        })
    }

    /// All its options, with the values that each may have.
    pub(super) fn allowed(&self) -> String {
        let keys: Vec<String> = self.keys().map(|key| format!("{}= ({})", key.name, key.values)).collect();
        keys.join(", ")
    }
}
