//! The listing as JSON, for programs.

use std::io;

use serde::Serialize;
use serde::ser::Serializer;

use super::{Row, Rows};

/// The fields of the listing, in this order.
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

/// Writes the listing. Names that are not text contain U+FFFD; their references still lead to the files.
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

/// An upper bound for an entry's bytes.
pub(super) fn bytes(row: &Row) -> usize {
    /// Room for what surrounds name and reference, with some to spare.
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
