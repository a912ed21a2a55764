//! Directory listings: a page of what a directory holds at a moment, which is good for as long as a file in the table is.
//!
//! Only what a request could get is listed: no hidden names, no pipes or devices, no symbolic links that the policy
//! would not follow. What it takes to make one is bounded, whatever the directory: names that are read, names that are looked at
//! more closely and shown, and bytes of the page. Names are put into their order before the first of them are taken.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use askama::Template;
use http1::date::format_http_date;
use percent_encoding::{PercentEncode, percent_encode};
use sys::file::{DirectoryEntry, FileKind, FileStat};

use super::ESCAPED;
use super::load::Loader;
use super::look::Patience;
use super::path::Path;

/// Most names that are read: a directory of so many takes some 20 ms.
const READ: usize = 1 << 16;
/// Most names in a listing: looking at each takes a system call or two, and somebody waits meanwhile.
const SHOWN: usize = 4096;
/// Most bytes of a page.
pub(super) const LARGEST: usize = 1 << 20;
/// What is left of them for all but the rows: the path is there twice, and escaped it is five times as long at most.
const FRAME: usize = 64 << 10;
/// Bytes that are written to it at a time.
const WRITTEN: usize = 64 << 10;

#[derive(Template)]
#[template(path = "listing.html")]
struct Listing<'a> {
    path: &'a str,
    rows: &'a [Row],
    cut: Option<Cut>,
}

/// What is said where not all names are shown.
struct Cut {
    shown: usize,
    names: usize,
    /// Not all names have been read.
    or_more: bool,
}

struct Row {
    name: OsString,
    stat: FileStat,
}

/// The page that links to all that a directory holds, as a file in memory.
pub(super) fn page(
    loader: &Loader,
    path: Path<'_>,
    directory: &OwnedFd,
    dotfiles: bool,
) -> io::Result<OwnedFd> {
    let mut first = First::default();
    let mut or_more = false;
    for (read, entry) in sys::file::list(directory)?.enumerate() {
        or_more = read == READ;
        if or_more {
            break;
        }
        let entry = entry?;
        if dotfiles || !entry.name.as_bytes().starts_with(b".") {
            first.add(entry);
        }
    }
    let (entries, names) = first.take();
    let row = |name: OsString| {
        let stat = stat(loader, path, directory, name.as_bytes())?;
        (stat.kind != FileKind::Other).then_some(Row { name, stat })
    };
    let mut rows: Vec<Row> = entries.into_iter().filter_map(|entry| row(entry.name)).collect();
    // A link to a directory is seen to be one only now.
    rows.sort_by_key(|row| !row.is_directory());
    let fitting = fitting(&rows);
    let is_cut = names > SHOWN || or_more || fitting < rows.len();
    rows.truncate(fitting);
    let cut = is_cut.then_some(Cut { shown: fitting, names, or_more });
    let listing = Listing { path: &printable(path.bytes()), rows: &rows, cut };
    sys::file::sealed_in_memory(|file| {
        let mut writer = BufWriter::with_capacity(WRITTEN, file);
        listing.write_into(&mut writer)?;
        writer.flush()
    })
}

/// The first names of a directory, directories before files, and how many there are.
#[derive(Default)]
struct First {
    /// Up to twice as many as are wanted.
    entries: Vec<DirectoryEntry>,
    names: usize,
}

impl First {
    fn add(&mut self, entry: DirectoryEntry) {
        self.names += 1;
        self.entries.push(entry);
        if self.entries.len() == 2 * SHOWN {
            self.cut();
        }
    }

    /// In their order.
    fn take(mut self) -> (Vec<DirectoryEntry>, usize) {
        self.cut();
        self.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        (self.entries, self.names)
    }

    fn cut(&mut self) {
        if self.entries.len() > SHOWN {
            self.entries.select_nth_unstable_by(SHOWN, |a, b| {
                let is_directory = |entry: &DirectoryEntry| entry.kind == Some(FileKind::Directory);
                is_directory(b).cmp(&is_directory(a)).then_with(|| a.name.cmp(&b.name))
            });
            self.entries.truncate(SHOWN);
        }
    }
}

/// What a request for that name would get.
fn stat(loader: &Loader, path: Path<'_>, directory: &OwnedFd, name: &[u8]) -> Option<FileStat> {
    match sys::file::stat_in(directory, name).ok()? {
        // Perhaps a link.
        FileStat { kind: FileKind::Other, .. } => {
            loader.stat(Path::known(&[path.bytes(), name].concat()), Patience::Unlimited).ok()
        }
        stat => Some(stat),
    }
}

/// How many rows there is room for.
fn fitting(rows: &[Row]) -> usize {
    let mut room = LARGEST - FRAME;
    rows.iter()
        .take_while(|row| {
            let bytes = row.bytes();
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        })
        .count()
}

/// Text for people: whatever is none, or would move the rest of the line, is shown as the character that stands for such.
fn printable(bytes: &[u8]) -> String {
    const DIRECTIONS: [std::ops::RangeInclusive<char>; 2] =
        ['\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    let moves = |c: char| DIRECTIONS.iter().any(|range| range.contains(&c));
    let text = String::from_utf8_lossy(bytes);
    text.replace(|c: char| c.is_control() || moves(c), "\u{fffd}")
}

impl Row {
    fn is_directory(&self) -> bool {
        self.stat.kind == FileKind::Directory
    }

    fn slash(&self) -> &'static str {
        if self.is_directory() { "/" } else { "" }
    }

    fn name(&self) -> String {
        printable(self.name.as_bytes())
    }

    fn href(&self) -> PercentEncode<'_> {
        percent_encode(self.name.as_bytes(), ESCAPED)
    }

    fn size(&self) -> String {
        if self.is_directory() { String::new() } else { size(self.stat.size) }
    }

    fn modified(&self) -> String {
        let date = format_http_date(u64::try_from(self.stat.mtime.secs).unwrap_or(0));
        String::from_utf8_lossy(&date).into_owned()
    }

    /// No fewer bytes than it takes in the page.
    fn bytes(&self) -> usize {
        /// What is around name and reference, with some to spare.
        const AROUND: usize = 100;
        let escaped = |text: &str| -> usize {
            text.bytes()
                .map(|byte| if matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'') { 5 } else { 1 })
                .sum()
        };
        AROUND + escaped(&self.name()) + self.href().map(escaped).sum::<usize>()
    }
}

/// A size for people: three digits or so, and the unit.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = bytes.ilog2() / 10;
    let unit = UNITS[power as usize - 1];
    let number = bytes as f64 / (1_u64 << (10 * power)) as f64;
    if number < 10.0 { format!("{number:.1} {unit}") } else { format!("{number:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 << 10, "10 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
    #[test]
    fn no_page_is_larger_than_it_may_be() {
        let stat = sys::file::stat(std::fs::File::open("Cargo.toml").unwrap()).unwrap();
        let path = "/&".repeat(2047) + "/";
        for name in [b"\"".as_slice(), b"a", b"'", b"\xff", b"\n"] {
            let row = || Row { name: OsString::from_vec(name.repeat(255)), stat };
            let mut rows: Vec<Row> = (0..SHOWN).map(|_| row()).collect();
            rows.truncate(fitting(&rows));
            let names = usize::MAX;
            let cut = Some(Cut { shown: names, names, or_more: true });
            let page = Listing { path: &path, rows: &rows, cut }.render().unwrap();
            assert!(page.len() <= LARGEST, "{} of {name:?}", page.len());
            assert!(page.len() > LARGEST - 2 * FRAME || rows.len() == SHOWN, "{} of {name:?}", page.len());
        }
    }

    #[test]
    fn the_first_are_taken_in_order_and_directories_before_files() {
        let entry = |name: String, kind| DirectoryEntry { name: name.into(), kind: Some(kind) };
        let files = (0..9 * SHOWN).rev().map(|i| entry(format!("{i:06}"), FileKind::Regular));
        let directories = (0..6).map(|i| entry(format!("z{i}"), FileKind::Directory));
        let mut first = First::default();
        files.chain(directories).for_each(|entry| first.add(entry));
        let (entries, names) = first.take();
        let expected = (0..SHOWN - 6).map(|i| format!("{i:06}")).chain((0..6).map(|i| format!("z{i}")));
        assert!(entries.into_iter().map(|entry| entry.name).eq(expected.map(OsString::from)));
        assert_eq!(names, 9 * SHOWN + 6);
    }

    #[test]
    fn control_characters_are_not_printed() {
        assert_eq!(
            printable(b"a\n\x1b[31m\x7f\xc2\x85b\xffc"),
            "a\u{fffd}\u{fffd}[31m\u{fffd}\u{fffd}b\u{fffd}c"
        );
        assert_eq!(printable("cod\u{202e}txt.exe \u{fc}".as_bytes()), "cod\u{fffd}txt.exe \u{fc}");
    }
}
