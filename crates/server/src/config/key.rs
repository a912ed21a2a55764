//! A key of the file: where it stands, how it is read into the settings and printed from them, and how people
//! are told about it. The keys that there are stand in `keys.rs`.

use super::error::Problem;
use super::settings::Settings;
use super::typed::{Item, Table};
use super::values::Read;

/// A key of the file.
pub struct Key<T: 'static = Settings> {
    /// Its table; empty for the top of the file.
    pub(super) table: &'static str,
    /// Its name, words joined by `_`.
    pub name: &'static str,
    /// The heading under which people find it among the options of the command line; empty for `root`, which
    /// is an argument.
    pub heading: &'static str,
    /// What they are to put there, such as `SIZE`; empty if the key is no option.
    pub value: &'static str,
    /// What it does, without a full stop.
    pub help: &'static str,
    /// The names that it takes, if it takes nothing else.
    pub names: fn() -> Vec<&'static str>,
    /// Whether it may be repeated.
    pub repeats: bool,
    /// The default in words, where a value would not tell all.
    pub(super) default: &'static str,
    /// What holds where it has no value.
    pub(super) unset: &'static str,
    pub(super) read: fn(&mut T, &Item) -> Read,
    pub(super) print: fn(&T) -> Option<String>,
}

impl<T> Key<T> {
    pub(super) const NONE: Self = Self {
        table: "",
        name: "",
        heading: "",
        value: "",
        help: "",
        names: Vec::new,
        repeats: false,
        default: "",
        unset: "",
        read: |_, _| Ok(()),
        print: |_| None,
    };

    /// A key of a table, to be completed.
    pub(super) const fn of(table: &'static str) -> Self {
        Self { table, ..Self::NONE }
    }
}

impl Key {
    /// A key at the top of the file that is an option, to be completed.
    pub(super) const fn under(heading: &'static str) -> Self {
        Self { heading, ..Self::NONE }
    }

    /// Its default, for people.
    pub fn usual(&self, defaults: &Settings) -> String {
        match (self.print)(defaults) {
            _ if !self.default.is_empty() => self.default.to_owned(),
            Some(value) => value.trim_matches(['[', '"', ']']).to_owned(),
            None => self.unset.to_owned(),
        }
    }
}

/// Reads keys of one table, and gives what is wrong with them. A key that is wrong leaves the default.
pub(super) fn read<T>(keys: &[Key<T>], typed: &Table, into: &mut T) -> Vec<Problem> {
    let mut problems = Vec::new();
    for key in keys {
        if let Some(entry) = typed.get(key.name)
            && let Err(wrong) = (key.read)(into, &entry.item)
        {
            problems.extend(wrong);
        }
    }
    problems
}
