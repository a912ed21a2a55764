//! The document root as a service: it turns a request's head into the plan of its reply.
//!
//! ```text
//! Head -- path --> name -- table --> entry -- reply --> Plan
//!                            |         ^
//!                            `- load --'     (a miss, or an entry that was not looked at for a while)
//! ```
//!
//! - `path` makes one name of all the ways to write a path, and refuses those that name no file.
//! - `table` holds open files under these names; `entry` is what it holds of each.
//! - `load` opens a file and makes an entry, with `types` and `rules` for its header lines.
//! - `reply` decides between whole, part and 304, and lays out the plan.
//! - `listing` and `error_page` make the pages that are no files.
//!
//! Everything is read-only and for GET and HEAD; other methods are refused here. Misses are not remembered: the kernel
//! keeps names that don't exist itself (the dentry cache), and a table of them could be filled by anybody.

mod entry;
mod error_page;
mod listing;
mod load;
mod path;
mod reply;
mod rules;
mod shared_table;
mod table;
mod tables;
mod types;

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use http1::coding::{self, Coding, CodingSet};
use http1::{Field, Head, Method, Plan, Stamp, Status};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sys::file::{FileStat, OpenFailure};
use sys::socket::Slice;

use self::error_page::ErrorPages;
use self::load::{Load, Loader, Now, Opened};
use self::path::Path;
use self::reply::Verdict;
pub use self::shared_table::SharedFiles;
use self::shared_table::SharedTable;
use self::table::{Bounds, Full, Place, Table};
pub use self::table::{Pin, TableCounts, TableSize};
use self::tables::Tables;
use crate::config::FileSettings;

/// What is allowed on files.
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// How long clients are asked to wait when there is no room for another file, in seconds.
const RETRY_AFTER: &[u8] = b"1";

/// What may stand in a path as it is (RFC 3986 section 3.3). Colons are left out, which would make a scheme of what
/// is before them.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The files below one directory, as one worker serves them.
#[derive(Debug)]
pub struct Content {
    table: Tables,
    loader: Loader,
    index: Vec<String>,
    listing: bool,
    dotfiles: bool,
    max_ranges: usize,
    error_pages: ErrorPages,
    /// Where paths are decoded.
    scratch: Vec<u8>,
}

/// Why files can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The document root can't be opened.
    #[error("can't open the directory {path}: {source}")]
    Root {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A request, and what its reply takes beside the file.
struct Request<'a> {
    head: &'a Head<'a>,
    now: Now,
    stamp: &'a Stamp,
}

/// What a path led to.
enum Found {
    Entry(Place),
    /// A directory that was asked for without its slash.
    NoSlash,
    /// A directory without an index file, which may be listed.
    Listable(OwnedFd),
}

impl Content {
    /// Opens the document root. `max_ranges` is the most ranges answered in one reply.
    ///
    /// # Errors
    ///
    /// The directory can't be opened.
    pub fn new(settings: &FileSettings, max_ranges: u16) -> Result<Self, ContentError> {
        Self::with(Tables::Own(Table::new(bounds(settings))), settings, max_ranges)
    }

    /// The same, with a table that several workers share, of whom this is the one at `place`.
    ///
    /// # Errors
    ///
    /// The directory can't be opened.
    pub fn sharing(
        files: &SharedFiles,
        place: usize,
        settings: &FileSettings,
        max_ranges: u16,
    ) -> Result<Self, ContentError> {
        let table = SharedTable::new(files.clone(), place);
        Self::with(Tables::Shared(Box::new(table)), settings, max_ranges)
    }

    fn with(table: Tables, settings: &FileSettings, max_ranges: u16) -> Result<Self, ContentError> {
        Ok(Self {
            table,
            loader: loader(settings)?,
            index: settings.index.clone(),
            listing: settings.listing,
            dotfiles: settings.dotfiles,
            max_ranges: max_ranges.into(),
            error_pages: ErrorPages::new(settings),
            scratch: Vec::new(),
        })
    }

    /// Decides the reply to a request. `now_ms` is monotonic; `own` is a buffer for the plan to build in.
    pub fn answer(
        &mut self,
        head: &Head<'_>,
        now_ms: u64,
        unix_secs: u64,
        own: Vec<u8>,
        stamp: &Stamp,
    ) -> Plan<Pin> {
        let request = Request { head, now: Now { ms: now_ms, unix_secs }, stamp };
        let plan = self.decide(&request, own);
        self.table.let_go();
        plan
    }

    #[inline]
    fn decide(&mut self, request: &Request<'_>, own: Vec<u8>) -> Plan<Pin> {
        let Request { head, stamp, .. } = *request;
        match head.method {
            Method::Get | Method::Head => {}
            Method::Options => {
                let mut plan = Plan::new(own, Status::NO_CONTENT, head.terms, stamp);
                plan.field("Allow", ALLOW);
                plan.bytes(b"\r\n");
                plan.end_of_head();
                return plan;
            }
            _ => return self.refuse(Status::METHOD_NOT_ALLOWED, request, own),
        }
        match Path::plain(head.path) {
            Some(path) => self.serve(path, request, own),
            None => self.serve_decoded(request, own),
        }
    }

    /// A part of the memory of a pinned entry.
    #[inline]
    pub fn memory(&self, pin: &Pin, range: Range<u32>) -> Slice<'_> {
        self.table.memory(pin.0, range)
    }

    /// The file of a pinned entry of which a plan sends a file range.
    ///
    /// # Panics
    ///
    /// The entry's body is in memory; no plan has a file range of such an entry.
    #[inline]
    pub fn file(&self, pin: &Pin) -> BorrowedFd<'_> {
        self.table.file(pin.0).expect("only bodies that are not in memory are sent from files")
    }

    /// Whether a pinned file still is what was promised: not truncated, extended or written to since it was opened.
    /// A file that was removed or replaced under its name is intact, as its bytes are still there.
    pub fn intact(&self, pin: &Pin) -> bool {
        self.is_intact(pin.0)
    }

    /// Takes a pin back when its reply is over.
    #[inline]
    pub fn unpin(&mut self, pin: Pin) {
        self.table.unpin(pin);
    }

    /// The document root, as it is kept open.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.loader.root()
    }

    /// What the open-file table has done so far.
    pub fn table_counts(&self) -> TableCounts {
        self.table.counted()
    }

    /// What the open-file table holds now.
    pub fn table_size(&self) -> TableSize {
        self.table.size()
    }

    /// What the open-file table takes beside what it [holds](Self::table_size): places, names and paths.
    pub fn table_structure_bytes(&self) -> u64 {
        self.table.structure_bytes()
    }

    /// Whether an entry's body is what it was when the entry was made.
    fn is_intact(&self, place: Place) -> bool {
        let is_file_intact =
            |file| sys::file::stat(file).is_ok_and(|now| load::is_intact(&self.table.stat(place), &now));
        self.table.file(place).is_none_or(is_file_intact)
    }

    #[cold]
    fn serve_decoded(&mut self, request: &Request<'_>, own: Vec<u8>) -> Plan<Pin> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let plan = match Path::decode(request.head.path, self.dotfiles, &mut scratch) {
            Ok(path) => self.serve(path, request, own),
            Err(refusal) => self.refuse(refusal.status(), request, own),
        };
        self.scratch = scratch;
        plan
    }

    fn serve(&mut self, path: Path<'_>, request: &Request<'_>, own: Vec<u8>) -> Plan<Pin> {
        let mut found = self.select(path, request);
        // A part is joined to what the client has by the tag alone, which must not be of bytes that are no more.
        if request.head.fields.any_of(&[Field::Range])
            && let Ok(Found::Entry(place)) = found
            && !self.is_intact(place)
        {
            self.table.forget(place);
            found = self.select(path, request);
        }
        match found {
            Ok(Found::Entry(place)) => self.reply(place, request, own),
            Ok(Found::NoSlash) => redirect(path, request, own),
            Ok(Found::Listable(directory)) => self.list(path, &directory, request, own),
            Err(status) => self.refuse(status, request, own),
        }
    }

    #[inline]
    fn reply(&mut self, place: Place, request: &Request<'_>, own: Vec<u8>) -> Plan<Pin> {
        let table = &mut self.table;
        match reply::judge(request, table, place, self.max_ranges) {
            Verdict::Whole => reply::whole(table, place, request, own),
            Verdict::NotModified => reply::not_modified(table, place, request, own),
            Verdict::PreconditionFailed => self.refuse(Status::PRECONDITION_FAILED, request, own),
            Verdict::Part(range) => reply::part(table, place, range, request, own),
            Verdict::Parts(ranges) => reply::parts(table, place, &ranges, request, own),
            Verdict::Unsatisfiable(size) => {
                let range = format!("bytes */{size}");
                let status = Status::RANGE_NOT_SATISFIABLE;
                self.refuse_with(status, Some(("Content-Range", range.as_bytes())), request, own)
            }
        }
    }

    /// The file to answer with, in the coding that the client likes best.
    #[inline]
    fn select(&mut self, path: Path<'_>, request: &Request<'_>) -> Result<Found, Status> {
        let found = self.find(path, request.now)?;
        Ok(match found {
            Found::Entry(place) => Found::Entry(self.negotiate(place, path, request)),
            other => other,
        })
    }

    /// The file that a path names, from the table if it is there and was looked at lately.
    #[inline]
    fn find(&mut self, path: Path<'_>, now: Now) -> Result<Found, Status> {
        match self.table.find(path.bytes(), None) {
            Some(place) if now.ms < self.table.entry(place).trusted_until_ms => {
                self.table.counts().hits += 1;
                Ok(Found::Entry(place))
            }
            _ => self.look(path, now),
        }
    }

    /// Looks for a file where it should be, and forgets what the table has under its name if it is gone. Where there
    /// is no room to look, what the table has is as good as it was.
    #[cold]
    fn look(&mut self, path: Path<'_>, now: Now) -> Result<Found, Status> {
        // Others may be about to look at the very file: one does, and the others see what it has found.
        let known = self.table.find(path.bytes(), None);
        let claim = known.and_then(|known| self.table.claim(known));
        if claim.is_some()
            && let Some(place) = self.table.find(path.bytes(), None)
            && now.ms < self.table.entry(place).trusted_until_ms
        {
            self.table.counts().hits += 1;
            return Ok(Found::Entry(place));
        }
        self.table.counts().misses += 1;
        let found = self.look_for(path, now);
        match (&found, self.table.find(path.bytes(), None)) {
            (Err(Status::SERVICE_UNAVAILABLE), Some(known)) => return Ok(Found::Entry(known)),
            (Ok(Found::NoSlash | Found::Listable(_)) | Err(_), Some(gone)) => self.table.forget(gone),
            _ => {}
        }
        found
    }

    fn look_for(&mut self, path: Path<'_>, now: Now) -> Result<Found, Status> {
        if !path.is_directory() {
            return match self.open(path)? {
                Opened::File(file, stat) => self.enter(path, path, None, (file, stat), now),
                Opened::Directory(_) => Ok(Found::NoSlash),
                Opened::Other => Err(Status::FORBIDDEN),
            };
        }
        for index in 0..self.index.len() {
            let file_path = [path.bytes(), self.index[index].as_bytes()].concat();
            match self.open(Path::known(&file_path)) {
                Ok(Opened::File(file, stat)) => {
                    return self.enter(path, Path::known(&file_path), Some(index), (file, stat), now);
                }
                Ok(_) | Err(Status::NOT_FOUND) => {}
                Err(status) => return Err(status),
            }
        }
        match self.open(path)? {
            Opened::Directory(directory) if self.listing => Ok(Found::Listable(directory)),
            _ => Err(Status::FORBIDDEN),
        }
    }

    /// Lets the table's entry stand if it is of this very file, and puts in a new one otherwise.
    fn enter(
        &mut self,
        path: Path<'_>,
        file_path: Path<'_>,
        index: Option<usize>,
        (file, stat): (OwnedFd, FileStat),
        now: Now,
    ) -> Result<Found, Status> {
        let siblings = self.loader.siblings(file_path.bytes(), &stat);
        if let Some(place) = self.table.find(path.bytes(), None) {
            let entry = self.table.entry(place);
            if entry.lasting
                && entry.index == index
                && entry.siblings == siblings
                && load::is_same(&entry.stat, &stat)
            {
                self.table.trust(place, self.loader.trusted_until_ms(now));
                return Ok(Found::Entry(place));
            }
        }
        let load = Load { path: file_path.bytes(), coding: None, siblings, index };
        self.load(path, &load, file, stat, now).map(Found::Entry)
    }

    /// The coded form of a file that the client likes best, or the file itself.
    #[inline]
    fn negotiate(&mut self, place: Place, path: Path<'_>, request: &Request<'_>) -> Place {
        let siblings = self.table.entry(place).siblings;
        if siblings.is_empty() {
            return place;
        }
        match coding::accepted(request.head.fields.all(Field::AcceptEncoding)).best(siblings) {
            Some(coding) => self.find_sibling(coding, place, path, request.now),
            None => place,
        }
    }

    fn find_sibling(&mut self, coding: Coding, original: Place, path: Path<'_>, now: Now) -> Place {
        if let Some(place) = self.table.find(path.bytes(), Some(coding))
            && now.ms < self.table.entry(place).trusted_until_ms
        {
            return place;
        }
        // The original must not make room for its own sibling.
        let pin = self.table.pin(original);
        let sibling = self.look_for_sibling(coding, original, path, now);
        self.table.unpin(pin);
        sibling.unwrap_or(original)
    }

    #[cold]
    fn look_for_sibling(
        &mut self,
        coding: Coding,
        original: Place,
        path: Path<'_>,
        now: Now,
    ) -> Result<Place, Status> {
        self.table.counts().misses += 1;
        let entry = self.table.entry(original);
        let (original_stat, index) = (entry.stat, entry.index);
        let name = index.map_or("", |index| &self.index[index]);
        let original_path = [path.bytes(), name.as_bytes()].concat();
        let file_path = [&original_path, coding.extension().as_bytes()].concat();
        let opened = self.open(Path::known(&file_path))?;
        let known = self.table.find(path.bytes(), Some(coding));
        let Opened::File(file, stat) = opened else { return Err(Status::NOT_FOUND) };
        if !load::is_current(&stat, &original_stat) {
            return Err(Status::NOT_FOUND);
        }
        if let Some(place) = known {
            let entry = self.table.entry(place);
            if entry.lasting && entry.index == index && load::is_same(&entry.stat, &stat) {
                self.table.trust(place, self.loader.trusted_until_ms(now));
                return Ok(place);
            }
        }
        let load = Load { path: &original_path, coding: Some(coding), siblings: CodingSet::EMPTY, index };
        self.load(path, &load, file, stat, now)
    }

    /// Makes an entry of an open file and puts it into the table under the name of `path`.
    fn load(
        &mut self,
        path: Path<'_>,
        load: &Load<'_>,
        file: OwnedFd,
        stat: FileStat,
        now: Now,
    ) -> Result<Place, Status> {
        // Where there is no room for another body, it is sent from the file.
        let in_memory = self.loader.is_small(stat.size) && self.table.make_room(stat.size);
        let entry = self.loader.load(load, file, stat, in_memory, now).map_err(|error| {
            tracing::error!("can't read {}: {error}", String::from_utf8_lossy(load.path));
            Status::INTERNAL_SERVER_ERROR
        })?;
        self.table.insert(path.bytes(), load.coding, entry).map_err(|Full| Status::SERVICE_UNAVAILABLE)
    }

    /// Opens a file, at the cost of another one if there are no descriptors left.
    fn open(&mut self, path: Path<'_>) -> Result<Opened, Status> {
        let mut opened = self.loader.open(path);
        if let Err(error) = &opened
            && OpenFailure::of(error) == OpenFailure::Exhausted
            && self.table.evict_descriptor().is_ok()
        {
            opened = self.loader.open(path);
        }
        opened.map_err(|error| match OpenFailure::of(&error) {
            OpenFailure::Missing => Status::NOT_FOUND,
            OpenFailure::Denied => Status::FORBIDDEN,
            OpenFailure::Exhausted => Status::SERVICE_UNAVAILABLE,
            OpenFailure::Failed => {
                tracing::error!("can't open {}: {error}", String::from_utf8_lossy(path.bytes()));
                Status::INTERNAL_SERVER_ERROR
            }
        })
    }

    /// An error that a request for a file can run into.
    #[cold]
    fn refuse(&mut self, status: Status, request: &Request<'_>, own: Vec<u8>) -> Plan<Pin> {
        let field: Option<(&str, &[u8])> = match status {
            Status::METHOD_NOT_ALLOWED => Some(("Allow", ALLOW)),
            Status::SERVICE_UNAVAILABLE => Some(("Retry-After", RETRY_AFTER)),
            _ => None,
        };
        self.refuse_with(status, field, request, own)
    }

    fn refuse_with(
        &mut self,
        status: Status,
        field: Option<(&str, &[u8])>,
        request: &Request<'_>,
        own: Vec<u8>,
    ) -> Plan<Pin> {
        self.error_with(status, field, request.head.terms, request.now, own, request.stamp)
    }
}

/// 301 to the same path with a slash at its end, so that relative links in the directory's pages lead into it.
fn redirect(path: Path<'_>, request: &Request<'_>, own: Vec<u8>) -> Plan<Pin> {
    // A path alone is a full reference (RFC 9110 section 10.2.2), and right behind any proxy. It begins with one
    // slash, so it can't be taken for another host's.
    let mut location = escaped_path(path.bytes());
    location.push('/');
    if let Some(query) = request.head.query {
        location.push('?');
        location.push_str(&String::from_utf8_lossy(query));
    }
    let mut plan = Plan::new(own, Status::MOVED_PERMANENTLY, request.head.terms, request.stamp);
    plan.field("Location", location.as_bytes());
    error_page::default_page(&mut plan);
    plan
}

/// A decoded path as it stands in a reference.
fn escaped_path(path: &[u8]) -> String {
    const ESCAPED_PATH: &AsciiSet = &ESCAPED.remove(b'/');
    percent_encode(path, ESCAPED_PATH).to_string()
}

fn bounds(settings: &FileSettings) -> Bounds {
    Bounds { entries: settings.max_open.get(), body_bytes: settings.memory }
}

fn loader(settings: &FileSettings) -> Result<Loader, ContentError> {
    Loader::new(settings).map_err(|source| ContentError::Root { path: settings.root.clone(), source })
}
