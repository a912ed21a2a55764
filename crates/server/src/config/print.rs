//! Settings as a TOML file that yields the same settings, and how the values of keys are written there.

use std::fmt::{Display, Write as _};
use std::path::Path;
use std::time::Duration;

use super::headers;
use super::keys::{KEYS, Key};
use super::settings::Settings;
use super::units;

/// Writes all settings, with a comment where nothing is set. (A path that is not UTF-8 cannot be said in
/// TOML.)
pub(super) fn print(settings: &Settings) -> String {
    let mut page = String::new();
    for keys in KEYS.chunk_by(|a, b| a.table == b.table) {
        if !keys[0].table.is_empty() {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(page, "\n[{}]", keys[0].table);
        }
        print_keys(&mut page, keys, settings);
    }
    let files = &settings.files;
    let types = files.types.iter().map(|(extension, media_type)| pair(extension, media_type));
    print_pairs(&mut page, "types", types);
    let error_pages = files.error_pages.iter().map(|(status, file)| pair(&status.to_string(), file));
    print_pairs(&mut page, "error_pages", error_pages);
    for rule in &files.headers {
        page += "\n[[headers]]\n";
        print_keys(&mut page, headers::KEYS, rule);
    }
    page
}

fn print_keys<T>(page: &mut String, keys: &[Key<T>], settings: &T) {
    for key in keys {
        let _ = match (key.print)(settings) {
            Some(value) => writeln!(page, "{} = {value}", key.name),
            None if key.unset.is_empty() => Ok(()),
            None => writeln!(page, "# {} is not set: {}", key.name, key.unset),
        };
    }
}

fn print_pairs(page: &mut String, table: &str, pairs: impl ExactSizeIterator<Item = String>) {
    if pairs.len() > 0 {
        let _ = writeln!(page, "\n[{table}]\n{}", pairs.collect::<Vec<_>>().join("\n"));
    }
}

/// A number, or `true` and `false`.
pub(super) fn plain(value: impl Display) -> String {
    value.to_string()
}

pub(super) fn text(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

pub(super) fn path(path: &Path) -> String {
    text(&path.display().to_string())
}

pub(super) fn list(values: impl Iterator<Item = String>) -> String {
    let values: Vec<_> = values.map(|value| text(&value)).collect();
    format!("[{}]", values.join(", "))
}

/// A table in a line.
pub(super) fn table(pairs: &[(String, String)]) -> String {
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| pair(key, value)).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// A size; below a kibibyte a number, which is bytes.
pub(super) fn size(bytes: impl Into<u64>) -> String {
    let size = units::size(bytes.into());
    if size.contains(' ') { text(&size) } else { size }
}

pub(super) fn time(time: Duration) -> String {
    text(&units::time(time))
}

/// Permission bits.
pub(super) fn mode(mode: u32) -> String {
    text(&format!("0{mode:03o}"))
}

/// A key that is the operator's own, in quotes if it needs them, and its text.
fn pair(key: &str, text: &str) -> String {
    let bare = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let key = if bare && !key.is_empty() { key.to_owned() } else { self::text(key) };
    format!("{key} = {}", self::text(text))
}
