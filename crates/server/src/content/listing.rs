//! Directory listings: a page made for each request, of what the directory holds at that moment.
//!
//! Only what a request could get is listed: no hidden names, no pipes or devices, no symbolic links that the policy
//! would not follow.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use askama::Template;
use http1::date::format_http_date;
use percent_encoding::percent_encode;
use sys::file::{FileKind, FileStat};

use super::ESCAPED;
use super::load::Loader;
use super::look::Patience;
use super::path::Path;

/// Most names in a listing: looking at each takes a system call or two, and somebody waits meanwhile.
const LONGEST: usize = 4096;

#[derive(Template)]
#[template(path = "listing.html")]
struct Listing<'a> {
    path: &'a str,
    rows: Vec<Row>,
    /// Names there are more of than the page shows.
    cut_at: Option<usize>,
}

struct Row {
    name: String,
    href: String,
    size: String,
    modified: String,
    is_directory: bool,
}

/// The page that links to all that a directory holds.
pub(super) fn page(
    loader: &Loader,
    path: Path<'_>,
    directory: &OwnedFd,
    dotfiles: bool,
) -> io::Result<String> {
    let mut names = sys::file::list(directory, LONGEST + 1)?;
    let cut_at = (names.len() > LONGEST).then_some(LONGEST);
    names.truncate(LONGEST);
    let mut rows: Vec<Row> = names
        .iter()
        .map(|entry| entry.name.as_bytes())
        .filter(|name| dotfiles || !name.starts_with(b"."))
        .filter_map(|name| {
            let stat = loader.stat(Path::known(&[path.bytes(), name].concat()), Patience::Unlimited).ok()?;
            Row::new(name, &stat)
        })
        .collect();
    rows.sort_by(|a, b| b.is_directory.cmp(&a.is_directory).then_with(|| a.name.cmp(&b.name)));
    let path = &String::from_utf8_lossy(path.bytes());
    Listing { path, rows, cut_at }.render().map_err(io::Error::other)
}

impl Row {
    fn new(name: &[u8], stat: &FileStat) -> Option<Self> {
        let is_directory = match stat.kind {
            FileKind::Regular => false,
            FileKind::Directory => true,
            FileKind::Other => return None,
        };
        let slash = if is_directory { "/" } else { "" };
        let modified = format_http_date(u64::try_from(stat.mtime.secs).unwrap_or(0));
        Some(Self {
            name: format!("{}{slash}", String::from_utf8_lossy(name)),
            href: format!("{}{slash}", percent_encode(name, ESCAPED)),
            size: if is_directory { String::new() } else { size(stat.size) },
            modified: String::from_utf8_lossy(&modified).into_owned(),
            is_directory,
        })
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
}
