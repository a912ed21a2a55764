//! Directory listings. A listing is a page of a directory's contents at a moment. It is valid as long as
//! a file in the table is.
//!
//! Only what a request could get is listed: no hidden names, no pipes or devices, no symbolic links that
//! the policy would not follow, nothing that [routes refuse](Loader::is_shown).
//!
//! The work for one listing is bounded, however large the directory: the names that are read, the names
//! that are checked and shown, and the bytes of the page. The names are sorted, and the first of them are
//! selected. Only for selected names are files checked: the target of a link, an index file, the original
//! of a sibling.

mod form;
mod json;
mod made;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use askama::Template;
use percent_encoding::PercentEncode;
use sys::file::{DirectoryEntry, FileKind, FileStat};

pub(super) use self::form::Form;
use self::form::{Format, Order, Sort};
pub(super) use self::made::{Made, Request};
use super::escape;
use super::load::Loader;
use super::may_block::MayBlock;
use super::path::Path;
use crate::dates::rfc3339;

/// The most names that are read. Reading that many takes some 20 ms, plus the time to match each with the
/// routes. No more names can be shown.
const READ: usize = 1 << 16;
/// Bytes of a page for each name that it may show.
const FOR_EACH: usize = 256;
/// Room in the page for everything except the rows: the escaped path, at most five times as long, and the
/// links to the directories above.
const FRAME: usize = 64 << 10;
/// Bytes that are written to the page at a time.
const WRITTEN: usize = 64 << 10;
/// The most directories above that are linked to, in addition to the root.
const ABOVE: usize = 16;

/// The most bytes of a page that shows at most `names` names.
pub(super) fn largest(names: u32) -> usize {
    (names as usize * FOR_EACH).max(2 * FRAME)
}

/// Which names are listed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    /// Also those that begin with a dot.
    pub(super) dotfiles: bool,
    /// The most names to list.
    pub(super) most: u32,
}

#[derive(Template)]
#[template(path = "listing.html")]
struct Page<'a> {
    path: &'a str,
    steps: &'a [Step],
    columns: &'a [Column],
    rows: &'a Rows,
}

/// A directory on the path to the listed one.
struct Step {
    name: String,
    /// The reference to it; empty for the listed directory.
    href: String,
}

struct Column {
    title: &'static str,
    /// The listing sorted by this column, or in reverse if it already is.
    href: String,
    /// For `aria-sort`; empty if the listing is not sorted by this column.
    sorted: &'static str,
}

/// The rows of a listing.
struct Rows {
    shown: Vec<Row>,
    /// How many names there are, among those that were read and not found to be refused.
    names: usize,
    /// Whether some names that could be shown are not.
    is_cut: bool,
    /// Whether some names were not read.
    or_more: bool,
}

struct Row {
    name: OsString,
    stat: FileStat,
}

/// The page that links to everything in a directory, as a file in memory.
pub(super) fn page(
    loader: &Loader,
    index: &[String],
    path: Path<'_>,
    form: Form,
    directory: &OwnedFd,
    listed: Listed,
) -> io::Result<OwnedFd> {
    let rows = rows(loader, index, path, form, directory, listed)?;
    sys::file::sealed_in_memory(|file| {
        let mut writer = BufWriter::with_capacity(WRITTEN, file);
        match form.format {
            Format::Html => write_html(path.bytes(), form, &rows, &mut writer)?,
            Format::Json => json::write(path.bytes(), &rows, &mut writer)?,
        }
        writer.flush()
    })
}

fn rows(
    loader: &Loader,
    index: &[String],
    path: Path<'_>,
    form: Form,
    directory: &OwnedFd,
    listed: Listed,
) -> io::Result<Rows> {
    let other = loader.other_path(path, directory)?;
    // The requested path, and the path at the real location of the directory. The target of a link has
    // another path.
    let paths = |name: &OsString, kind: FileKind, is_link: bool| {
        let slash = if kind == FileKind::Directory { &b"/"[..] } else { b"" };
        let of = |directory: &[u8]| [directory, name.as_bytes(), slash].concat();
        (of(path.bytes()), other.as_deref().filter(|_| !is_link).map(of))
    };
    let may_be_shown = |name: &OsString, kind: FileKind| {
        let (path, other) = paths(name, kind, false);
        // A link is checked once its target is known.
        kind == FileKind::Other || loader.may_be_shown(&path, other.as_deref())
    };
    let mut first = First::new(listed.most as usize, form.takes_from_the_end());
    let mut or_more = false;
    for (read, entry) in sys::file::list(directory)?.enumerate() {
        or_more = read == READ;
        if or_more {
            break;
        }
        let entry = entry?;
        let is_shown = listed.dotfiles || !entry.name.as_bytes().starts_with(b".");
        if is_shown && entry.kind.is_none_or(|kind| may_be_shown(&entry.name, kind)) {
            first.add(entry);
        }
    }
    let (entries, names) = first.take();
    let (taken, more) = (entries.len(), names > entries.len() || or_more);
    let row = |entry: DirectoryEntry| {
        let DirectoryEntry { name, kind } = entry;
        let (stat, is_link) = stat(loader, path, directory, name.as_bytes())?;
        let (path, other) = paths(&name, stat.kind, is_link);
        let is_shown = stat.kind != FileKind::Other
            && (kind == Some(stat.kind) || loader.may_be_shown(&path, other.as_deref()))
            && loader.is_shown(&path, other.as_deref(), index);
        is_shown.then_some(Row { name, stat })
    };
    let mut shown: Vec<Row> = entries.into_iter().filter_map(row).collect();
    let names = names - (taken - shown.len());
    // Only now is a link to a directory known to be one.
    shown.sort_by(|a, b| form.compare(a, b));
    let fitting = fitting(&shown, form.format, largest(listed.most) - FRAME);
    let is_cut = more || fitting < shown.len();
    shown.truncate(fitting);
    Ok(Rows { shown, names, is_cut, or_more })
}

/// Writes the HTML page.
fn write_html(path: &[u8], form: Form, rows: &Rows, to: &mut impl io::Write) -> io::Result<()> {
    let path = &printable(path);
    Page { path, steps: &steps(path), columns: &columns(form), rows }.write_into(to)
}

/// The path from the root down. References lead up from the listed directory, so that they are correct
/// behind any proxy.
fn steps(path: &str) -> Vec<Step> {
    let names: Vec<&str> = path.split_inclusive('/').collect();
    let last = names.len() - 1;
    let step = |(depth, name): (usize, &&str)| {
        let up = last - depth;
        (depth == 0 || up <= ABOVE).then(|| Step { name: (*name).to_owned(), href: "../".repeat(up) })
    };
    names.iter().enumerate().filter_map(step).collect()
}

fn columns(form: Form) -> [Column; 3] {
    [("Name", Sort::Name, "name"), ("Size", Sort::Size, "size"), ("Modified (UTC)", Sort::Time, "time")].map(
        |(title, sort, name)| {
            let (order, sorted) = match (form.sort == sort, form.order) {
                (true, Order::Ascending) => ("desc", "ascending"),
                (true, Order::Descending) => ("asc", "descending"),
                (false, _) => ("asc", ""),
            };
            Column { title, href: format!("?sort={name}&order={order}"), sorted }
        },
    )
}

/// The first names of a directory, directories before files, and the total number of names.
struct First {
    /// Up to twice as many entries as are wanted.
    entries: Vec<DirectoryEntry>,
    names: usize,
    most: usize,
    /// Whether to select the last names instead.
    from_the_end: bool,
}

impl First {
    fn new(most: usize, from_the_end: bool) -> Self {
        Self { entries: Vec::new(), names: 0, most, from_the_end }
    }

    fn add(&mut self, entry: DirectoryEntry) {
        self.names += 1;
        self.entries.push(entry);
        if self.entries.len() == 2 * self.most {
            self.cut();
        }
    }

    /// The selected entries, in any order, and the number of names.
    fn take(mut self) -> (Vec<DirectoryEntry>, usize) {
        self.cut();
        (self.entries, self.names)
    }

    fn cut(&mut self) {
        if self.entries.len() > self.most {
            self.entries.select_nth_unstable_by(self.most, |a, b| {
                let is_directory = |entry: &DirectoryEntry| entry.kind == Some(FileKind::Directory);
                let by_name = if self.from_the_end { b.name.cmp(&a.name) } else { a.name.cmp(&b.name) };
                is_directory(b).cmp(&is_directory(a)).then(by_name)
            });
            self.entries.truncate(self.most);
        }
    }
}

/// What a request for that name would get, and whether the name is a link to it.
fn stat(loader: &Loader, path: Path<'_>, directory: &OwnedFd, name: &[u8]) -> Option<(FileStat, bool)> {
    let own = sys::file::stat_in(directory, name).ok()?;
    if own.kind != FileKind::Other {
        return Some((own, false));
    }
    // This may be a link.
    let path = [path.bytes(), name].concat();
    match loader.stat(Path::known(&path), false, MayBlock::Always).ok()? {
        Ok(stat) => Some((stat, true)),
        // A route may answer for the link's own path, without access to the target. Then the target's
        // size and time are not shown.
        Err(_) => {
            loader.is_answered_elsewhere(&path).then_some((FileStat { kind: FileKind::Regular, ..own }, true))
        }
    }
}

/// How many rows fit.
fn fitting(rows: &[Row], format: Format, mut room: usize) -> usize {
    rows.iter()
        .take_while(|row| {
            let bytes = match format {
                Format::Html => row.html_bytes(),
                Format::Json => json::bytes(row),
            };
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        })
        .count()
}

/// Text for display. Bytes that are not text, and characters that would move the rest of the line, become
/// the replacement character.
fn printable(bytes: &[u8]) -> String {
    const DIRECTIONS: [std::ops::RangeInclusive<char>; 2] =
        ['\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    let moves = |c: char| DIRECTIONS.iter().any(|range| range.contains(&c));
    let text = String::from_utf8_lossy(bytes);
    text.replace(|c: char| c.is_control() || moves(c), "\u{fffd}")
}

impl Rows {
    /// The numbers of directories and files, as text.
    fn counts(&self) -> String {
        let counted = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {more}"),
        };
        let directories = self.shown.iter().filter(|row| row.is_directory()).count();
        let files = self.shown.len() - directories;
        format!("{}, {}", counted(directories, "directory", "directories"), counted(files, "file", "files"))
    }
}

impl Row {
    fn is_directory(&self) -> bool {
        self.stat.kind == FileKind::Directory
    }

    fn slash(&self) -> &'static str {
        if self.is_directory() { "/" } else { "" }
    }

    fn text(&self) -> String {
        printable(self.name.as_bytes())
    }

    fn href(&self) -> PercentEncode<'_> {
        escape::name(self.name.as_bytes())
    }

    fn size(&self) -> String {
        if self.is_directory() { String::new() } else { size(self.stat.size) }
    }

    fn modified(&self) -> String {
        rfc3339(u64::try_from(self.stat.mtime.secs).unwrap_or(0))
    }

    /// An upper bound for the row's bytes in the HTML page.
    fn html_bytes(&self) -> usize {
        /// Room for what surrounds name and reference, with some to spare.
        const AROUND: usize = 128;
        let escaped = |text: &str| -> usize {
            text.bytes()
                .map(|byte| if matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'') { 5 } else { 1 })
                .sum()
        };
        AROUND + escaped(&self.text()) + self.href().map(escaped).sum::<usize>()
    }
}

/// A size for display: about three digits, and the unit.
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
        let directory = FileStat { kind: FileKind::Directory, ..stat };
        let json = Form { format: Format::Json, ..Form::USUAL };
        for (most, form, stat) in [
            (4096, Form::USUAL, stat),
            (4096, json, stat),
            (4096, json, directory),
            (1, Form::USUAL, directory),
            (1 << 16, Form::USUAL, stat),
        ] {
            for name in [b"\"".as_slice(), b"a", b"'", b"\xff", b"\x01", b"\\", "\u{fc}".as_bytes()] {
                let path =
                    [b"/".as_slice(), &name.repeat(2047 / name.len()), b"/a".repeat(1023).as_slice(), b"/"]
                        .concat();
                let room = largest(most) - FRAME;
                let row = || Row { name: OsString::from_vec(name.repeat(255 / name.len())), stat };
                let mut shown: Vec<Row> = (0..most).map(|_| row()).collect();
                shown.truncate(fitting(&shown, form.format, room));
                let rows = Rows { shown, names: usize::MAX, is_cut: true, or_more: true };
                let mut page = Vec::new();
                match form.format {
                    Format::Html => write_html(&path, form, &rows, &mut page).unwrap(),
                    Format::Json => json::write(&path, &rows, &mut page).unwrap(),
                }
                assert!(page.len() <= largest(most), "{} of {name:?}", page.len());
                let is_full = rows.shown.len() == most as usize || page.len() > room - room / 4;
                assert!(is_full, "{} of {name:?}", page.len());
            }
        }
    }

    #[test]
    fn the_first_are_taken_and_directories_before_files() {
        const MOST: usize = 100;
        let entry = |name: String, kind| DirectoryEntry { name: name.into(), kind: Some(kind) };
        for from_the_end in [false, true] {
            let files = (0..9 * MOST).rev().map(|i| entry(format!("{i:06}"), FileKind::Regular));
            let directories = (0..6).map(|i| entry(format!("z{i}"), FileKind::Directory));
            let mut first = First::new(MOST, from_the_end);
            files.chain(directories).for_each(|entry| first.add(entry));
            let (entries, names) = first.take();
            let from = if from_the_end { 8 * MOST + 6 } else { 0 };
            let files = (from..from + MOST - 6).map(|i| format!("{i:06}"));
            let mut entries: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
            entries.sort_unstable();
            assert!(entries.into_iter().eq(files.chain((0..6).map(|i| format!("z{i}"))).map(OsString::from)));
            assert_eq!(names, 9 * MOST + 6);
        }
    }

    #[test]
    fn the_way_up_is_bounded() {
        let hrefs = |path: &str| -> Vec<(String, String)> {
            steps(path).into_iter().map(|step| (step.name, step.href)).collect()
        };
        let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|&(name, href)| (name.to_owned(), href.to_owned())).collect()
        };
        assert_eq!(hrefs("/"), own(&[("/", "")]));
        assert_eq!(hrefs("/a/b/"), own(&[("/", "../../"), ("a/", "../"), ("b/", "")]));
        assert_eq!(hrefs(&format!("/{}", "a/".repeat(100))).len(), 2 + ABOVE);
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
