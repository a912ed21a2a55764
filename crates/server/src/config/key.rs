//! A key of the configuration file: its table and name, the setting that it reads and prints, and its
//! help text. `keys.rs` lists the keys; `values.rs` has the kinds of their values.

use super::error::Problem;
use super::settings::Settings;
use super::typed::{Item, Table, Value};
use super::values::Kind;

/// A key of the configuration file.
pub struct Key<T: 'static = Settings> {
    /// Its table; empty for the top of the file.
    pub(super) table: &'static str,
    /// Its name, words joined by `_`.
    pub name: &'static str,
    /// The heading for this option in the command line's help. Empty for `root`, which is an argument.
    pub heading: &'static str,
    /// The placeholder for the value in the help, such as `SIZE`. Empty if the key is not an option.
    pub value: &'static str,
    /// What it does, without a full stop.
    pub help: &'static str,
    /// The names that it accepts, if it accepts only names.
    pub names: fn() -> Vec<&'static str>,
    /// Whether it may be repeated.
    pub repeats: bool,
    /// The default in words, if a value would not explain it.
    pub(super) default: &'static str,
    /// What applies if the key has no value.
    pub(super) unset: &'static str,
    /// The setting that it reads and writes.
    pub(super) setting: fn(&mut T) -> Field<'_>,
}

impl<T> Key<T> {
    /// A key that is not a command line option.
    pub(super) const fn of(
        table: &'static str,
        name: &'static str,
        setting: fn(&mut T) -> Field<'_>,
    ) -> Self {
        let (heading, value, help, default, unset) = ("", "", "", "", "");
        Self { table, name, heading, value, help, names: Vec::new, repeats: false, default, unset, setting }
    }
}

impl Key {
    /// A key at the top of the file that is an option. The caller fills in the rest.
    pub(super) const fn under(heading: &'static str) -> Self {
        Self { heading, ..Self::of("", "", |_| Field { written: None, read: Box::new(|_| Ok(())) }) }
    }

    /// The default, as the help shows it.
    pub fn usual(&self, defaults: &Settings) -> String {
        match (self.setting)(&mut defaults.clone()).written {
            _ if !self.default.is_empty() => self.default.to_owned(),
            Some(value) => value.trim_matches(['[', '"', ']']).to_owned(),
            None => self.unset.to_owned(),
        }
    }
}

/// Reads the keys of one table and returns what is wrong with them. A wrong key leaves its default.
pub(super) fn read<T>(keys: &[Key<T>], typed: &Table, into: &mut T) -> Vec<Problem> {
    let mut problems = Vec::new();
    for key in keys {
        if let Some(entry) = typed.get(key.name)
            && let Err(wrong) = (key.setting)(into).set(&entry.item)
        {
            problems.extend(wrong);
        }
    }
    problems
}

/// Whether a key could be read. On an error, nothing has been set.
pub(super) type Read = Result<(), Vec<Problem>>;

/// A setting, borrowed for its key.
pub(super) struct Field<'a> {
    /// Its value in TOML; `None` if it has none.
    pub(super) written: Option<String>,
    /// Sets it to what was typed.
    pub(super) read: Box<dyn FnOnce(&Item) -> Read + 'a>,
}

impl Field<'_> {
    /// A key without a setting: checks only that the typed value has this kind.
    pub(super) fn without_use<T: 'static>(kind: Kind<T>) -> Self {
        Self { written: None, read: Box::new(move |item| read_one(item, &kind).map(drop)) }
    }

    /// Shows the value only if `matters` is true.
    pub(super) fn written_if(self, matters: bool) -> Self {
        Self { written: self.written.filter(|_| matters), ..self }
    }

    pub(super) fn set(self, item: &Item) -> Read {
        (self.read)(item)
    }
}

/// A setting that has one value.
pub(super) fn one<T>(field: &mut T, kind: Kind<T>) -> Field<'_> {
    let written = Some((kind.write)(field));
    Field { written, read: Box::new(move |item| read_one(item, &kind).map(|value| *field = value)) }
}

/// A setting whose value is optional.
pub(super) fn optional<T>(field: &mut Option<T>, kind: Kind<T>) -> Field<'_> {
    let written = field.as_ref().map(&kind.write);
    Field { written, read: Box::new(move |item| read_one(item, &kind).map(|value| *field = Some(value))) }
}

/// A setting that has several values. A single value needs no brackets.
pub(super) fn each<T>(field: &mut Vec<T>, kind: Kind<T>) -> Field<'_> {
    let written = format!("[{}]", field.iter().map(&kind.write).collect::<Vec<_>>().join(", "));
    let read = move |item: &Item| read_each(item, &kind.read).map(|values| *field = values);
    Field { written: Some(written), read: Box::new(read) }
}

/// A list of tables with these keys. `begin` makes the initial value of each. This does not print them.
pub(super) fn rules<'a, T>(
    field: &'a mut Vec<T>,
    begin: impl Fn() -> T + 'a,
    keys: &'static [Key<T>],
    contradictions: fn(&T, &Item, &Table) -> Vec<Problem>,
) -> Field<'a> {
    let read_all = move |item: &Item| {
        let Value::List(items) = &item.value else {
            return Err(vec![item.problem(format!("must be a list of tables, each under [[{}]]", item.key))]);
        };
        let mut problems = Vec::new();
        for one in items {
            let mut rule = begin();
            if let Value::Table(table) = &one.value {
                problems.extend(read(keys, table, &mut rule));
                problems.extend(contradictions(&rule, one, table));
            } else {
                problems.push(one.problem(format!("must be a table under [[{}]]", item.key)));
            }
            field.push(rule);
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    };
    Field { written: None, read: Box::new(read_all) }
}

/// Reports the required keys that a list's item lacks, each with an example.
pub(super) fn missing(
    what: &str,
    needed: &[(&str, &str)],
    item: &Item,
    table: &Table,
) -> impl Iterator<Item = Problem> {
    let missing = needed.iter().filter(|(key, _)| !table.contains_key(*key));
    missing.map(move |(key, example)| item.problem(format!("a {what} needs {key}, such as {example}")))
}

/// Whether a key of a table has an empty list. Lists with other faults have already been reported.
pub(super) fn is_empty_list(table: &Table, key: &str) -> bool {
    matches!(table.get(key).map(|entry| &entry.item.value), Some(Value::List(items)) if items.is_empty())
}

/// A table whose keys the operator chooses. This does not print it.
pub(super) fn pairs<'a, T, C: FromIterator<T>>(
    field: &'a mut C,
    read: impl Fn(&str, &Item) -> Result<T, String> + 'a,
) -> Field<'a> {
    let read_all = move |item: &Item| {
        let Value::Table(table) = &item.value else {
            return Err(vec![item.problem(format!("must be a table, [{}]", item.key))]);
        };
        all(table.iter().map(|(key, entry)| (&entry.item, read(key, &entry.item)))).map(|all| *field = all)
    };
    Field { written: None, read: Box::new(read_all) }
}

fn read_one<T>(item: &Item, kind: &Kind<T>) -> Result<T, Vec<Problem>> {
    (kind.read)(item).map_err(|what| vec![item.problem(what)])
}

/// Applies `read` to each item of a list.
pub(super) fn read_each<T>(
    item: &Item,
    read: impl Fn(&Item) -> Result<T, String>,
) -> Result<Vec<T>, Vec<Problem>> {
    let items = match &item.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(item),
    };
    all(items.iter().map(|item| (item, read(item))))
}

/// All values, or the problems of all wrong ones.
fn all<'a, T, C: FromIterator<T>>(
    read: impl Iterator<Item = (&'a Item, Result<T, String>)>,
) -> Result<C, Vec<Problem>> {
    let mut problems = Vec::new();
    let right = read.filter_map(|(item, value)| value.map_err(|what| problems.push(item.problem(what))).ok());
    let values = right.collect();
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}
