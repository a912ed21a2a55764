//! Makes an entry from a path: opens the file, makes its header lines, and reads its body if it is small.
//!
//! # Validators
//!
//! The entity tag is made of the size and the modification time to the nanosecond. The inode number is
//! not part of it. So replicas that were copied with their times (rsync -t, cp -p) have the same tag.
//!
//! A time without a fraction of a second was not made by writing: archives, reproducible builds and old
//! file systems set whole seconds. Two builds of a page often have the same second and the same length.
//! The tag of such a file also contains the time of the last status change, which no program can set.
//! That tag is right, but differs between replicas.
//!
//! A file that was changed a moment ago may change again within the same tick of the clock that stamps
//! files. Then time and size stay the same. As long as that is possible, the tag is weak, and different
//! from the tag that the file will have afterwards. So a client that was given the weak tag treats its
//! copy as current only for that moment. The file is loaded again at the next request after that.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use http1::Status;
use http1::coding::{Coding, CodingSet};
use http1::date::format_http_date;
use sys::file::{FileKind, FileStat, FileTime, Symlinks};

use super::ends::Ends;
use super::entry::{ACCEPT_RANGES, Entry, Facts, Lines, Marks};
use super::judged::Bar;
use super::may_block::{MayBlock, WouldBlock};
use super::outdated::Outdated;
use super::path::Path;
use super::root::Root;
use super::routes::Routes;
use super::rules::Rules;
use super::scripts::Scripts;
use super::types::Types;
use crate::config::FileSettings;

/// How often to read a file that changes during the read. After that, its body is sent from the file.
const READ_ATTEMPTS: u32 = 2;

/// Twice the longest tick of a kernel's clock (HZ=100).
const TICK_MS: u64 = 20;

/// The tick of file systems that store whole seconds. FAT has the longest.
const COARSE_TICK_MS: u64 = 2_000;

/// The end of the tag of a file that may change once more without a trace in its times.
const UNSETTLED: &str = "-unsettled";

/// How long header lines with a date are kept.
const DATED_MS: u64 = 1_000;

/// How long a small file is sent from the file, if its body could not be read without waiting. After that
/// it is usually in memory, since it has been sent.
const ABSENT_MS: u64 = 1_000;

/// Opens files below the document root and makes entries from them.
#[derive(Debug)]
pub(super) struct Loader {
    pub(super) root: Root,
    pub(super) symlinks: Symlinks,
    pub(super) dotfiles: bool,
    /// Which files are run and not sent.
    pub(super) scripts: Scripts,
    /// What to do for some paths. There may be thousands of routes.
    pub(super) routes: Arc<Routes>,
    types: Types,
    /// The operator's header fields.
    pub(super) rules: Rules,
    precompressed: bool,
    outdated: Outdated,
    small_file: u64,
    /// Whether entries keep their header lines.
    header_cache: bool,
    /// How long an entry is trusted.
    pub(super) validity_ms: u64,
}

/// What is at a path.
pub(super) enum Opened {
    File(OwnedFd, FileStat),
    Directory(OwnedFd),
    /// A pipe or device.
    Other,
}

/// The moment of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// Monotonic.
    pub(super) ms: u64,
    /// Since the Unix epoch.
    pub(super) unix_secs: u64,
}

/// How a file is loaded.
pub(super) struct Load<'a> {
    /// The path of the file that the client sees. It decides type and rules.
    pub(super) path: &'a [u8],
    /// The coding of the file to load, if that file is a sibling of the one at `path`.
    pub(super) coding: Option<Coding>,
    /// Which siblings exist.
    pub(super) siblings: CodingSet,
    /// The number of the index name that the file was found by.
    pub(super) index: Option<usize>,
}

impl Loader {
    pub(super) fn new(settings: &FileSettings, routes: Arc<Routes>, rules: Rules) -> io::Result<Self> {
        let validity_ms = settings.validity.as_millis() as u64;
        Ok(Self {
            root: Root::open(settings.root.clone(), validity_ms)?,
            symlinks: settings.symlinks,
            dotfiles: settings.dotfiles,
            scripts: Scripts::new(settings),
            routes,
            types: Types::new(settings),
            rules,
            precompressed: settings.precompressed,
            outdated: Outdated::default(),
            // A body that the table has no room for need not be read.
            small_file: u64::from(settings.small_file).min(settings.memory),
            header_cache: settings.header_cache,
            validity_ms,
        })
    }

    /// Opens what is at a path, for a client or for the site's owner.
    pub(super) fn open(
        &self,
        path: Path<'_>,
        as_owner: bool,
        may_block: MayBlock,
    ) -> io::Result<Result<Opened, Bar>> {
        let open = if may_block == MayBlock::Never {
            sys::file::open_beneath_cached
        } else {
            sys::file::open_beneath
        };
        let open = |symlinks| open(self.root.directory(), path.relative(), symlinks);
        let file = match self.follow(path, as_owner, may_block, open)? {
            Ok(file) => file,
            Err(bar) => return Ok(Err(bar)),
        };
        // The inode of an open file is in memory.
        let stat = sys::file::stat(&file)?;
        Ok(Ok(match stat.kind {
            FileKind::Regular => Opened::File(file, stat),
            FileKind::Directory => Opened::Directory(file),
            FileKind::Other => Opened::Other,
        }))
    }

    /// Returns what is at a path, without opening it.
    pub(super) fn stat(
        &self,
        path: Path<'_>,
        as_owner: bool,
        may_block: MayBlock,
    ) -> io::Result<Result<FileStat, Bar>> {
        let find = if may_block == MayBlock::Never {
            sys::file::find_beneath_cached
        } else {
            sys::file::find_beneath
        };
        let find = |symlinks| find(self.root.directory(), path.relative(), symlinks);
        Ok(match self.follow(path, as_owner, may_block, find)? {
            Ok(file) => Ok(sys::file::stat(file)?),
            Err(bar) => Err(bar),
        })
    }

    /// Opens a file. Follows symbolic links only if they lead to a file that may be served under its own
    /// name.
    fn follow(
        &self,
        path: Path<'_>,
        as_owner: bool,
        may_block: MayBlock,
        open: impl Fn(Symlinks) -> io::Result<OwnedFd>,
    ) -> io::Result<Result<OwnedFd, Bar>> {
        if self.dotfiles && self.scripts.are_none() && !self.routes.refuse_some {
            return open(self.symlinks).map(Ok);
        }
        match open(Symlinks::None) {
            Err(error) if self.symlinks != Symlinks::None && sys::file::is_link(&error) => {
                let file = open(self.symlinks)?;
                Ok(self.bar(path, &file, as_owner, may_block)?.map_or(Ok(file), Err))
            }
            result => result.map(Ok),
        }
    }

    /// The codings in which a file has siblings that are at least as new as the file.
    pub(super) fn siblings(
        &self,
        path: &[u8],
        original: &FileStat,
        as_owner: bool,
        may_block: MayBlock,
    ) -> Result<CodingSet, WouldBlock> {
        let mut set = CodingSet::EMPTY;
        let is_coding = |coding: &Coding| path.ends_with(coding.extension().as_bytes());
        if !self.precompressed
            || Coding::ALL.iter().any(is_coding)
            || self.types.stored_coding(path).is_some()
        {
            return Ok(set);
        }
        let mut sibling = path.to_vec();
        for coding in Coding::ALL {
            sibling.truncate(path.len());
            sibling.extend_from_slice(coding.extension().as_bytes());
            match self.stat(Path::known(&sibling), as_owner, may_block) {
                Ok(Ok(stat)) if is_current(&stat, original) => set = set.with(coding),
                Ok(Ok(stat)) if stat.kind == FileKind::Regular => self.outdated.tell(&sibling, original),
                Err(error) if may_block.forbade(&error) => return Err(WouldBlock),
                _ => {}
            }
        }
        Ok(set)
    }

    /// The path of the file that a path is a precompressed sibling of, if one is there.
    pub(super) fn original<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let mut endings = Coding::ALL.iter().map(|coding| coding.extension().as_bytes());
        endings.find_map(|ending| path.strip_suffix(ending)).filter(|_| self.precompressed)
    }

    /// Until when to trust an entry that was found to be right now.
    pub(super) fn trusted_until_ms(&self, now: Now) -> u64 {
        now.ms.saturating_add(self.validity_ms)
    }

    /// Makes an entry of an open file. A small body is read, if it can be read whole and the caller
    /// may block for it. If the caller must never block, a body that is not in memory is an error.
    pub(super) fn load(
        &self,
        load: &Load<'_>,
        file: OwnedFd,
        stat: FileStat,
        may_block: MayBlock,
        now: Now,
    ) -> io::Result<Entry> {
        let (mut stat, mut is_absent) = (stat, false);
        for _ in 0..READ_ATTEMPTS {
            if stat.size > self.small_file {
                break;
            }
            let mut entry = self.entry(load, stat, stat.size as usize, now);
            let body = entry.marks.body as usize;
            let memory = Arc::get_mut(&mut entry.memory).expect("no other has what was just made");
            let complete = match read_whole(&file, &mut memory[body..], may_block) {
                Err(error) if may_block.leaves_body(&error) => {
                    is_absent = true;
                    break;
                }
                result => result?,
            };
            let after = sys::file::stat(&file)?;
            if complete && is_same(&stat, &after) {
                return Ok(Entry { file: Some(file.into()), ..entry });
            }
            stat = after;
        }
        let ends = Ends::of(&file, &mut stat, now.unix_secs)?;
        let mut entry = self.entry(load, stat, 0, now);
        entry.facts.ends = ends;
        if is_absent {
            entry.facts.lasting = false;
            entry.facts.trusted_until_ms = entry.facts.trusted_until_ms.min(now.ms.saturating_add(ABSENT_MS));
        }
        Ok(Entry { file: Some(file.into()), ..entry })
    }

    /// Makes an entry of the listing of the directory `path`, which is in a file in memory. The listing
    /// has no validators, as it counts as right for as long as it is trusted.
    pub(super) fn load_listing(
        &self,
        path: &[u8],
        media_type: &str,
        file: Arc<OwnedFd>,
        trusted_until_ms: u64,
    ) -> io::Result<Entry> {
        let stat = FileStat { kind: FileKind::Directory, ..sys::file::stat(&*file)? };
        let mut memory = Vec::new();
        let at = |memory: &Vec<u8>| memory.len() as u32;
        line(&mut memory, format_args!("Content-Length: {}", stat.size));
        let type_at = at(&memory);
        line(&mut memory, format_args!("Content-Type: {media_type}"));
        let coding = at(&memory);
        line(&mut memory, format_args!("Vary: Accept"));
        self.rules.write_lines_of_no_file(Status::OK, Some(path), Some(media_type), &mut memory);
        memory.extend_from_slice(b"\r\n");
        let body = at(&memory);
        if stat.size <= self.small_file {
            memory.resize(memory.len() + stat.size as usize, 0);
            read_whole(&file, &mut memory[body as usize..], MayBlock::Always)?;
        }
        let marks = Marks { media_type: type_at, coding, validators: coding, body, ..Marks::default() };
        let facts = Facts {
            stat,
            ends: Ends::default(),
            marks,
            memory_len: at(&memory),
            coding: None,
            siblings: CodingSet::EMPTY,
            is_plain: true,
            index: None,
            trusted_until_ms,
            lasting: false,
        };
        Ok(Entry { memory: memory.into(), file: Some(file), facts })
    }

    /// An entry with its header lines, and room for `body_len` bytes of body after them.
    fn entry(&self, load: &Load<'_>, stat: FileStat, body_len: usize, now: Now) -> Entry {
        let mut memory = Vec::with_capacity(512 + body_len);
        let unsettled_ms = unsettled_ms(stat.ctime);
        let (marks, dated) = if self.header_cache {
            self.head(load, &stat, unsettled_ms == 0, now.unix_secs, &mut memory)
        } else {
            memory.push(u8::from(unsettled_ms == 0));
            memory.extend_from_slice(load.path);
            (Marks::bare(memory.len() as u32), false)
        };
        memory.resize(memory.len() + body_len, 0);
        let longest = match (unsettled_ms, dated) {
            (1.., _) => unsettled_ms,
            (0, true) => DATED_MS,
            (0, false) => u64::MAX,
        };
        let facts = Facts {
            stat,
            ends: Ends::default(),
            marks,
            memory_len: memory.len() as u32,
            coding: load.coding,
            siblings: load.siblings,
            is_plain: load.siblings.is_empty() && self.header_cache,
            index: load.index,
            trusted_until_ms: now.ms.saturating_add(longest.min(self.validity_ms)),
            lasting: unsettled_ms == 0 && !dated,
        };
        Entry { memory: memory.into(), file: None, facts }
    }

    /// The header lines of a bare entry. They are made from what the entry keeps instead: whether the
    /// file had settled when it was opened, and its path.
    pub(super) fn lines(&self, entry: &Facts, kept: &[u8], now: Now) -> Lines {
        let (is_settled, path) = kept.split_first().map_or((false, kept), |(byte, path)| (*byte != 0, path));
        let load = Load { path, coding: entry.coding, siblings: entry.siblings, index: entry.index };
        let mut bytes = Vec::with_capacity(512);
        let (marks, _) = self.head(&load, &entry.stat, is_settled, now.unix_secs, &mut bytes);
        Lines { bytes, marks }
    }

    /// Writes the header lines. Returns where they are and whether one of them expires.
    fn head(
        &self,
        load: &Load<'_>,
        stat: &FileStat,
        is_settled: bool,
        unix_secs: u64,
        to: &mut Vec<u8>,
    ) -> (Marks, bool) {
        let at = |to: &Vec<u8>| to.len() as u32;
        let mut marks = Marks::default();
        let media_type = self.types.of(load.path);
        line(to, format_args!("Content-Length: {}", stat.size));
        marks.media_type = at(to);
        line(to, format_args!("Content-Type: {media_type}"));
        marks.coding = at(to);
        to.extend_from_slice(ACCEPT_RANGES);
        if let Some(coding) = load.coding.or_else(|| self.types.stored_coding(load.path)) {
            line(to, format_args!("Content-Encoding: {}", coding.token()));
        }
        marks.validators = at(to);
        let mut value = |name: &str, before: &str, value: &str| {
            let begin = at(to) + (name.len() + before.len()) as u32 + 2;
            line(to, format_args!("{name}: {before}{value}"));
            Some(begin..at(to) - 2)
        };
        // Strong comparison needs a strong tag from the client. The range begins at the quote, after any
        // `W/`.
        marks.etag = if is_settled {
            value("ETag", "", &entity_tag(stat, load.coding, ""))
        } else {
            value("ETag", "W/", &entity_tag(stat, load.coding, UNSETTLED))
        };
        // A date in the future is replaced by the date of the reply (RFC 9110 section 8.8.2.1), or of a
        // reply a moment ago.
        let mut is_future = false;
        if let Ok(modified) = u64::try_from(stat.mtime.secs) {
            is_future = modified > unix_secs;
            let date = format_http_date(modified.min(unix_secs));
            marks.last_modified = value("Last-Modified", "", &String::from_utf8_lossy(&date));
        }
        if load.coding.is_some() || !load.siblings.is_empty() {
            line(to, format_args!("Vary: Accept-Encoding"));
        }
        let dated = self.rules.write_lines(load.path, &media_type, unix_secs, to) || is_future;
        to.extend_from_slice(b"\r\n");
        marks.body = at(to);
        (marks, dated)
    }
}

/// Whether a file is what it was, as far as can be determined without reading it.
pub(super) fn is_same(before: &FileStat, now: &FileStat) -> bool {
    before == now
}

/// Whether a file that is being sent still has the promised bytes. If the status change time differs, but
/// so does the number of names, the bytes are the same: that happens when another file replaces this one.
pub(super) fn is_intact(before: &FileStat, now: &FileStat) -> bool {
    let same_file = before.inode == now.inode && before.device == now.device;
    let same_bytes = before.size == now.size && before.mtime == now.mtime;
    same_file && same_bytes && (before.ctime == now.ctime || before.links != now.links)
}

/// Whether a file can be sent as the coded form of another.
pub(super) fn is_current(sibling: &FileStat, original: &FileStat) -> bool {
    sibling.kind == FileKind::Regular && !is_before(sibling.mtime, original.mtime)
}

/// Whether a time is before another, as far as both are known. A program that copies a time may copy only
/// part of it: brotli(1) keeps whole seconds, and programs that use utimes(2) keep microseconds.
fn is_before(time: FileTime, other: FileTime) -> bool {
    let unit = unit_nanos(time).max(unit_nanos(other));
    (time.secs, time.nanos / unit) < (other.secs, other.nanos / unit)
}

/// The decimal unit of a time, in nanoseconds, as far as its trailing zeros show.
fn unit_nanos(time: FileTime) -> u32 {
    let mut units = (0..=9).rev().map(|zeros| 10_u32.pow(zeros));
    units.find(|unit| time.nanos.is_multiple_of(*unit)).unwrap_or(1)
}

/// Appends a header line. Writing to a vector cannot fail.
fn line(to: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = to.write_fmt(text);
    to.extend_from_slice(b"\r\n");
}

/// The opaque part of the entity tag, with its quotes; see the [module](self).
fn entity_tag(stat: &FileStat, coding: Option<Coding>, suffix: &str) -> String {
    let FileTime { secs, nanos } = stat.mtime;
    let coding = coding.map_or("", Coding::extension).replace('.', "-");
    let size = stat.size;
    if nanos == 0 {
        let FileTime { secs: changed, nanos: changed_nanos } = stat.ctime;
        format!("\"{secs:x}-{size:x}-{changed:x}.{changed_nanos:x}{coding}{suffix}\"")
    } else {
        format!("\"{secs:x}.{nanos:x}-{size:x}{coding}{suffix}\"")
    }
}

/// How long a change of a file could still go unnoticed; 0 if the last change is longer ago than a tick.
/// A time well in the future is settled as well: no change that happens now would get the same time.
fn unsettled_ms(changed: FileTime) -> u64 {
    let (secs, millis) = sys::clock::realtime();
    let now = Duration::new(secs, u32::from(millis) * 1_000_000);
    let changed_at = Duration::new(u64::try_from(changed.secs).unwrap_or(0), changed.nanos);
    let tick = if changed.nanos == 0 { COARSE_TICK_MS } else { TICK_MS };
    let since = now.abs_diff(changed_at).as_millis() as u64;
    (tick + 1).saturating_sub(since)
}

/// Fills `room` from the file. Returns whether the file was long enough.
fn read_whole(file: &OwnedFd, room: &mut [u8], may_block: MayBlock) -> io::Result<bool> {
    let read_at = match may_block {
        MayBlock::Always | MayBlock::ForFiles => sys::file::read_at,
        MayBlock::ForNames => sys::residency::read_at_unless_absent,
        MayBlock::Never => sys::residency::read_at_cached,
    };
    let mut filled = 0;
    while filled < room.len() {
        match read_at(file, &mut room[filled..], filled as u64) {
            Ok(0) => return Ok(false),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
