//! The listing for programs.

use std::io;

use serde::Serialize;
use serde::ser::Serializer;

use super::{Row, Rows};

/// What is in it, in this order.
#[derive(Serialize)]
struct Listing<'a> {
    path: &'a str,
    names: usize,
    complete: bool,
    entries: &'a [Row],
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    href: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    modified: &'a str,
}

/// Writes it. Names that are no text have U+FFFD in them; the references lead to them all the same.
pub(super) fn write(path: &[u8], rows: &Rows, to: &mut impl io::Write) -> io::Result<()> {
    let path = &String::from_utf8_lossy(path);
    let listing = Listing { path, names: rows.names, complete: !rows.is_cut, entries: &rows.shown };
    serde_json::to_writer(&mut *to, &listing)?;
    to.write_all(b"\n")
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, size) =
            if self.is_directory() { ("directory", None) } else { ("file", Some(self.stat.size)) };
        let name = &self.name.to_string_lossy();
        let href = &format!("{}{}", self.href(), self.slash());
        Entry { name, href, kind, size, modified: &self.modified() }.serialize(serializer)
    }
}

/// No fewer bytes than an entry takes.
pub(super) fn bytes(row: &Row) -> usize {
    /// What is around name and reference, with some to spare.
    const AROUND: usize = 128;
    let name = row.name.to_string_lossy();
    let escaped: usize = name
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' => 2,
            0..=31 => 6,
            _ => 1,
        })
        .sum();
    AROUND + escaped + row.href().map(str::len).sum::<usize>()
}
