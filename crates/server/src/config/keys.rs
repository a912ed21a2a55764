//! Reading keys out of a table: each is asked for once, by name, with its default and what it may be.
//! Whatever nobody asked for is an unknown key. Problems are gathered, not returned, so that all of them are
//! told at once.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{Place, Problem};
use super::names::Named;
use super::typed::{Entry, Item, Table, Value};
use super::units;

/// What has been learnt so far about all tables.
#[derive(Debug, Default)]
pub(super) struct Reading {
    problems: Vec<Problem>,
    /// The keys asked for, by table.
    known: BTreeMap<&'static str, Vec<&'static str>>,
    /// Tables, keys and places nobody asked for.
    unknown: Vec<(&'static str, String, Place)>,
}

/// Keys of the design that this build lacks.
const NOT_BUILT: [&str; 4] = ["pipeline", "user_threads", "gateway", "fastcgi"];

impl Reading {
    /// All problems, those of the file first and in its order.
    pub(super) fn problems(mut self) -> Vec<Problem> {
        for (table, key, place) in std::mem::take(&mut self.unknown) {
            let what = self.unknown_key(table, &key);
            self.problems.push(Problem { place, key: full_name(table, &key), typed: String::new(), what });
        }
        self.problems.sort_by(|a, b| a.place.cmp(&b.place));
        self.problems
    }

    /// The keys that were asked for.
    pub(super) fn keys(&self) -> Vec<String> {
        let full = |(table, keys): (&&str, &Vec<&str>)| -> Vec<String> {
            keys.iter().map(|key| full_name(table, key)).collect()
        };
        self.known.iter().flat_map(full).collect()
    }

    fn unknown_key(&self, table: &'static str, key: &str) -> String {
        if table.is_empty() && NOT_BUILT.contains(&key) {
            return "this build does not have it yet".to_owned();
        }
        let elsewhere = self.known.iter().find(|(other, keys)| **other != table && keys.contains(&key));
        match elsewhere {
            Some((&"", _)) => "this key belongs to the top of the file, before the first [table]".to_owned(),
            Some((other, _)) => format!("this key belongs to [{other}]"),
            None => {
                let mut allowed = self.known.get(table).cloned().unwrap_or_default();
                allowed.sort_unstable();
                let meant = allowed.iter().max_by(|a, b| likeness(a, key).total_cmp(&likeness(b, key)));
                let meant = meant.filter(|name| likeness(name, key) >= ALIKE);
                let hint = meant.map_or(String::new(), |name| format!(", did you mean {name}?"));
                format!("unknown key{hint}; allowed: {}", allowed.join(", "))
            }
        }
    }
}

/// From which likeness on one name may have been meant for the other: a letter or two apart.
const ALIKE: f64 = 0.85;

/// How alike two names are, from 0 to 1.
fn likeness(a: &str, b: &str) -> f64 {
    strsim::jaro_winkler(a, b)
}

/// A table being read.
pub(super) struct Keys<'a> {
    reading: &'a mut Reading,
    /// The table's name, `""` for the top.
    name: &'static str,
    /// Where it begins.
    place: Place,
    /// `None` if it was not typed: every key has its default.
    table: Option<&'a Table>,
}

impl<'a> Keys<'a> {
    /// Begins with the top of the file.
    pub(super) fn top(reading: &'a mut Reading, table: &'a Table) -> Self {
        Self { reading, name: "", place: Place::Default, table: Some(table) }
    }

    /// The value of `key`, or its default, which also stands in for a wrong value: that has become a problem.
    pub(super) fn take<T>(
        &mut self,
        key: &'static str,
        default: T,
        parse: impl Fn(&Item) -> Result<T, String>,
    ) -> T {
        self.take_opt(key, parse).unwrap_or(default)
    }

    /// The value of a key without a default.
    pub(super) fn take_opt<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&Item) -> Result<T, String>,
    ) -> Option<T> {
        let item = self.item(key)?;
        parse(item).map_err(|what| self.blame(key, item, what)).ok()
    }

    /// The values of a key that takes several; one alone needs no brackets.
    pub(super) fn take_list<T>(
        &mut self,
        key: &'static str,
        default: Vec<T>,
        parse: impl Fn(&Item) -> Result<T, String>,
    ) -> Vec<T> {
        let Some(item) = self.item(key) else { return default };
        let items = match &item.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(item),
        };
        let one = |item| parse(item).map_err(|what| self.blame(key, item, what)).ok();
        let parsed: Vec<T> = items.iter().filter_map(one).collect();
        if parsed.len() == items.len() { parsed } else { default }
    }

    /// The table of that name.
    pub(super) fn table(&mut self, key: &'static str) -> Keys<'_> {
        let table = self.sub_table(key);
        let place = self.table.and_then(|table| table.get(key)).map(|entry| entry.item.place.clone());
        Keys { reading: self.reading, name: key, place: place.unwrap_or(Place::Default), table }
    }

    /// One of [`tables`](Self::tables), whose keys go by the name of all.
    pub(super) fn one_table(&mut self, key: &'static str, (table, place): (&'a Table, &Place)) -> Keys<'_> {
        Keys { reading: self.reading, name: key, place: place.clone(), table: Some(table) }
    }

    /// The tables of that name (`[[key]]`).
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<(&'a Table, &'a Place)> {
        let Some(item) = self.item(key) else { return Vec::new() };
        let Value::List(items) = &item.value else {
            self.blame(key, item, format!("must be a list of tables, each under [[{key}]]"));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            match &item.value {
                Value::Table(table) => tables.push((table, &item.place)),
                _ => self.blame(key, item, format!("must be a table under [[{key}]]")),
            }
        }
        tables
    }

    /// Every key and value of a table whose keys are the operator's own: `parse` makes a pair of both.
    pub(super) fn take_map<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str, &Item) -> Result<T, String>,
    ) -> Vec<T> {
        let Some(table) = self.sub_table(key) else { return Vec::new() };
        let full = full_name(self.name, key);
        let mut parsed = Vec::new();
        for (own, Entry { item, .. }) in table {
            match parse(own, item) {
                Ok(value) => parsed.push(value),
                Err(what) => self.reading.problems.push(Problem {
                    place: item.place.clone(),
                    key: format!("{full}.{own}"),
                    typed: item.typed.clone(),
                    what,
                }),
            }
        }
        parsed
    }

    /// Notes a problem with a key whose value was fine on its own.
    pub(super) fn problem(&mut self, key: &'static str, what: impl Into<String>) {
        match self.table.and_then(|table| table.get(key)) {
            Some(Entry { item, .. }) => self.blame(key, item, what.into()),
            None => self.reading.problems.push(Problem {
                place: self.place.clone(),
                key: full_name(self.name, key),
                typed: String::new(),
                what: what.into(),
            }),
        }
    }

    /// Whether a key was typed.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Ends the reading of this table: whatever is left is unknown.
    pub(super) fn end(self) {
        let known = self.reading.known.entry(self.name).or_default();
        for (key, entry) in self.table.into_iter().flatten() {
            if !known.contains(&key.as_str()) {
                self.reading.unknown.push((self.name, key.clone(), entry.key_place.clone()));
            }
        }
    }

    fn item(&mut self, key: &'static str) -> Option<&'a Item> {
        let known = self.reading.known.entry(self.name).or_default();
        if !known.contains(&key) {
            known.push(key);
        }
        self.table?.get(key).map(|entry| &entry.item)
    }

    fn sub_table(&mut self, key: &'static str) -> Option<&'a Table> {
        let item = self.item(key)?;
        let Value::Table(table) = &item.value else {
            self.blame(key, item, format!("must be a table, [{}]", full_name(self.name, key)));
            return None;
        };
        Some(table)
    }

    fn blame(&mut self, key: &str, item: &Item, what: String) {
        let key = full_name(self.name, key);
        self.reading.problems.push(Problem {
            place: item.place.clone(),
            key,
            typed: item.typed.clone(),
            what,
        });
    }
}

fn full_name(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

/// Any text.
pub(super) fn text(item: &Item) -> Result<String, String> {
    match &item.value {
        Value::Text(text) => Ok(text.clone()),
        _ => Err("must be text in quotes".to_owned()),
    }
}

/// `true` or `false`.
pub(super) fn flag(item: &Item) -> Result<bool, String> {
    match &item.value {
        Value::Flag(flag) => Ok(*flag),
        // The command line knows only text.
        Value::Text(text) if text == "true" => Ok(true),
        Value::Text(text) if text == "false" => Ok(false),
        _ => Err("allowed: true, false".to_owned()),
    }
}

/// One of the names of `T`.
pub(super) fn one_of<T: Named>(item: &Item) -> Result<T, String> {
    T::parse(&text(item).unwrap_or_default())
}

/// A whole number within bounds.
pub(super) fn count<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&Item) -> Result<T, String> {
    move |item| {
        let number = match &item.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) => units::parse_number(text),
            _ => None,
        };
        let allowed = || format!("allowed: a whole number from {} to {}", range.start(), range.end());
        number
            .filter(|number| range.contains(number))
            .and_then(|number| number.try_into().ok())
            .ok_or_else(allowed)
    }
}

/// A size in bytes within bounds.
pub(super) fn size<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&Item) -> Result<T, String> {
    move |item| {
        let allowed = || {
            let (least, most) = (units::size(*range.start()), units::size(*range.end()));
            format!("allowed: a size from {least} to {most}, such as 4096, \"16 KiB\", \"1 MB\"")
        };
        let bytes = match &item.value {
            Value::Integer(bytes) => u64::try_from(*bytes).map_err(|_| allowed())?,
            Value::Text(text) => units::parse_size(text)?,
            _ => return Err(allowed()),
        };
        Some(bytes).filter(|bytes| range.contains(bytes)).and_then(|n| n.try_into().ok()).ok_or_else(allowed)
    }
}

/// A time within bounds.
pub(super) fn time(range: RangeInclusive<Duration>) -> impl Fn(&Item) -> Result<Duration, String> {
    move |item| {
        let allowed = || {
            let (least, most) = (units::time(*range.start()), units::time(*range.end()));
            format!("allowed: a time from {least} to {most}, such as \"500 ms\", \"20 s\", \"5 min\"")
        };
        match &item.value {
            Value::Text(text) => {
                Some(units::parse_time(text)?).filter(|t| range.contains(t)).ok_or_else(allowed)
            }
            _ => Err(allowed()),
        }
    }
}

/// A list of CPUs.
pub(super) fn cpus(item: &Item) -> Result<Vec<usize>, String> {
    match &item.value {
        Value::Integer(cpu) => units::parse_cpus(&cpu.to_string()),
        Value::Text(text) => units::parse_cpus(text),
        _ => Err("allowed: numbers and ranges in quotes, such as \"0-3,8\"".to_owned()),
    }
}

/// Where relative paths start.
#[derive(Debug, Default)]
pub(super) struct Bases {
    /// The directory of the file, for what the file says.
    pub(super) file: PathBuf,
    /// The current directory, for the command line.
    pub(super) current: PathBuf,
}

impl Bases {
    /// Makes the path that stands in `item` absolute.
    pub(super) fn path(&self, item: &Item, path: &str) -> Result<PathBuf, String> {
        if path.is_empty() || path.contains('\0') {
            return Err("must be a path: not empty, without NUL".to_owned());
        }
        let base = match item.place {
            Place::File { .. } => &self.file,
            Place::Option(_) | Place::Default => &self.current,
        };
        std::path::absolute(base.join(path)).map_err(|error| error.to_string())
    }
}
