//! How the values of keys are written in TOML.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use super::units;

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
pub(super) fn pair(key: &str, text: &str) -> String {
    let bare = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let key = if bare && !key.is_empty() { key.to_owned() } else { self::text(key) };
    format!("{key} = {}", self::text(text))
}
