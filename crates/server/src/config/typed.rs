//! What the operator typed: the TOML file and the command line as one tree of values. Each value knows
//! its place.
//!
//! Nothing is interpreted here. A command line option is the key of the same name at the top of the file,
//! and replaces that key.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Place, Problem};

/// Longest value that an error repeats, in characters.
const SHOWN: usize = 60;

/// The command line's options: keys of the file's top, each with its values as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    options: Vec<(&'static str, Vec<String>)>,
}

impl CommandLine {
    /// Adds an option that was given (`values` is not empty), under its key in the file, such as
    /// `accept_limit` for `--accept-limit`.
    pub fn set(&mut self, key: &'static str, values: Vec<String>) {
        if !values.is_empty() {
            self.options.push((key, values));
        }
    }
}

/// A table and its keys.
pub(super) type Table = BTreeMap<String, Entry>;

/// A key of a table.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key_place: Place,
    pub(super) item: Item,
}

/// A value and its place.
#[derive(Debug)]
pub(super) struct Item {
    /// The key of this value, with its tables (`limits.body`).
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) place: Place,
    /// The value as it was typed, for error messages.
    pub(super) typed: String,
}

impl Item {
    /// A problem with this value.
    pub(super) fn problem(&self, what: impl Into<String>) -> Problem {
        let (place, key, typed) = (self.place.clone(), self.key.clone(), self.typed.clone());
        Problem { place, key, typed, what: what.into() }
    }

    /// A problem with a key of this table. The key need not have been typed.
    pub(super) fn problem_of(&self, key: &str, what: impl Into<String>) -> Problem {
        match &self.value {
            Value::Table(table) if table.contains_key(key) => table[key].item.problem(what),
            _ => Problem { key: format!("{}.{key}", self.key), typed: String::new(), ..self.problem(what) },
        }
    }

    /// Makes a typed path absolute. In the file, paths start from the file's directory. On the command
    /// line, they start from the current directory.
    pub(super) fn absolute(&self, path: &str) -> Result<PathBuf, String> {
        if path.is_empty() || path.contains('\0') {
            return Err("must be a path: not empty, without NUL".to_owned());
        }
        let path = match &self.place {
            Place::File { path: file, .. } => file.with_file_name("").join(path),
            Place::Option(_) | Place::Default => PathBuf::from(path),
        };
        std::path::absolute(path).map_err(|error| error.to_string())
    }
}

/// A value.
#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Flag(bool),
    List(Vec<Item>),
    Table(Table),
    /// A kind of value that no key takes.
    Other,
}

/// The value of a key in a table, or else the table.
pub(super) fn of_key<'a>(item: &'a Item, key: &str) -> &'a Item {
    match &item.value {
        Value::Table(table) => table.get(key).map_or(item, |entry| &entry.item),
        _ => item,
    }
}

/// An item of a list, by its number. A single item needs no brackets.
pub(super) fn nth<'a>(table: &'a Table, list: &str, number: usize) -> Option<&'a Item> {
    let item = &table.get(list)?.item;
    if let Value::List(items) = &item.value { items.get(number) } else { Some(item) }
}

/// The table of a site. Without a number, the top of the file.
pub(super) fn of_site(typed: &Table, number: Option<usize>) -> Option<&Table> {
    match number {
        None => Some(typed),
        Some(number) => match &nth(typed, "sites", number)?.value {
            Value::Table(table) => Some(table),
            _ => None,
        },
    }
}

/// Parses the text of the file `path`, then lays the command line over it.
pub(super) fn read(path: &Path, text: &str, command_line: &CommandLine) -> Result<Table, Vec<Problem>> {
    let file = File::new(path, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.iter().map(|error| file.problem(error)).collect());
    }
    let mut table = file.table("", document.into_inner());
    for (key, values) in &command_line.options {
        table.insert((*key).to_owned(), entry_of_option(key, values));
    }
    Ok(table)
}

/// The option for a key. The directory is an argument without a name.
fn option_name(key: &str) -> String {
    match key {
        "root" => "DIR".to_owned(),
        _ => format!("--{}", key.replace('_', "-")),
    }
}

fn entry_of_option(key: &str, values: &[String]) -> Entry {
    let place = Place::Option(option_name(key));
    let item = |value, typed: &str| {
        let (key, place, typed) = (key.to_owned(), place.clone(), shortened(typed));
        Item { key, value, place, typed }
    };
    let text = |text: &String| item(Value::Text(text.clone()), &format!("'{text}'"));
    let item = match values {
        [only] => text(only),
        several => item(Value::List(several.iter().map(text).collect()), &several.join(" ")),
    };
    Entry { key_place: place, item }
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
    /// The position of each line's first byte.
    lines: Vec<usize>,
    /// How many characters precede each block of bytes.
    characters: Vec<usize>,
}

/// Bytes in a block. Finding a column counts at most this many bytes, however long the line is.
const BLOCK: usize = 256;

impl<'a> File<'a> {
    fn new(path: &'a Path, text: &'a str) -> Self {
        let begin_behind = text.match_indices('\n').map(|(at, _)| at + 1);
        let blocks = text.as_bytes().chunks(BLOCK).scan(0, |before, block| {
            *before += characters(block);
            Some(*before)
        });
        Self {
            path,
            text,
            lines: std::iter::once(0).chain(begin_behind).collect(),
            characters: std::iter::once(0).chain(blocks).collect(),
        }
    }

    /// Converts a TOML table; `name` is its name.
    fn table(&self, name: &str, table: DeTable<'_>) -> Table {
        let entry = |(key, value): (Spanned<Cow<'_, str>>, _)| {
            let key_place = self.place(key.span().start);
            let key = key.into_inner().into_owned();
            let full = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            (key, Entry { key_place, item: self.item(full, value) })
        };
        table.into_iter().map(entry).collect()
    }

    fn item(&self, key: String, spanned: Spanned<DeValue<'_>>) -> Item {
        let span = spanned.span();
        let typed = shortened(self.text.get(span.clone()).unwrap_or_default());
        let value = match spanned.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(integer) => Value::Integer(integer),
                Err(_) => Value::Other,
            },
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Array(items) => {
                Value::List(items.into_iter().map(|item| self.item(key.clone(), item)).collect())
            }
            DeValue::Table(table) => Value::Table(self.table(&key, table)),
            DeValue::Float(_) | DeValue::Datetime(_) => Value::Other,
        };
        Item { key, value, place: self.place(span.start), typed }
    }

    fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.lines.partition_point(|begin| *begin <= offset);
        let column = self.characters_before(offset) - self.characters_before(self.lines[line - 1]) + 1;
        Place::File { path: PathBuf::from(self.path), line, column }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        self.characters[block] + characters(&self.text.as_bytes()[block * BLOCK..offset])
    }

    fn problem(&self, error: &toml::de::Error) -> Problem {
        let offset = error.span().map_or(0, |span| span.start);
        let what = format!("not TOML: {}", error.message().replace('\n', ", "));
        Problem { place: self.place(offset), key: String::new(), typed: String::new(), what }
    }
}

/// How many UTF-8 characters begin in these bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

/// The first line, shortened if it is too long.
fn shortened(typed: &str) -> String {
    let line = typed.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if line.len() < typed.len() => format!("{line}..."),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::problems;

    #[test]
    fn places_count_lines_and_characters() {
        let far = "\u{e9}".repeat(1000);
        for text in [format!("listen = ['{far}', 5]"), format!("# {far}\nlisten = [\n'{far}',\n5,\n]\n")] {
            let told = problems(&text);
            let at = text.find('5').expect("a number");
            let line = text[..at].matches('\n').count() + 1;
            let column = text[..at].chars().rev().take_while(|c| *c != '\n').count() + 1;
            assert!(told.contains(&format!("sluice.toml:{line}:{column}: listen = 5: ")), "{told}");
        }
    }
}
