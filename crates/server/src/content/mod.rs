//! The document root as a service: it turns a request's head into the plan of its reply.
//!
//! ```text
//! Head -- path --> name -- table --> entry -- reply --> Plan
//!                            |         ^
//!                            `- look --'     (a miss, or an entry that was not looked at for a while)
//! ```
//!
//! - `path` makes one name of all the ways to write a path, and refuses those that name no file.
//! - `table` holds open files under these names; `entry` is what it holds of each, and `ends` tells whether
//!   one has only grown.
//! - `look` finds what a name stands for, and is all that may have to wait for a disk; `root` is the
//!   directory that it starts from, and `load` opens a file and makes an entry, with `types` and `rules` for
//!   its header lines; `outdated` tells of siblings that were not made anew with their file.
//! - `refusals` tells the operator why there is none.
//! - `reply` decides between whole, part and 304, and lays out the plan.
//! - `listing` and `error_page` make the pages that are no files.
//!
//! Whoever must not wait answers [without patience](Patience::None), or with less than
//! [all](Patience::Unlimited), may get a [`Look`] in place of a plan, has a [`Looker`] look in another thread
//! or at another time, [admits](Content::admit) what it saw, and answers again.
//!
//! Everything is read-only and for GET and HEAD; other methods are refused here. Misses are not remembered:
//! the kernel keeps names that don't exist itself (the dentry cache), and a table of them could be filled by
//! anybody.

mod ends;
mod entry;
mod error_page;
mod fetch;
mod listing;
mod load;
mod look;
mod outdated;
mod path;
mod refusals;
mod reply;
mod root;
mod rules;
mod shared_table;
mod table;
mod tables;
mod types;

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use http1::coding::{self, Coding};
use http1::{Field, Head, Method, Plan, Stamp, Status};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};
use sys::file::{FileKind, FileStat};
use sys::socket::Slice;

use self::entry::Facts;
use self::error_page::ErrorPages;
pub use self::fetch::Fetch;
use self::listing::Form;
use self::load::Now;
use self::look::{Known, Original};
pub use self::look::{Look, Looked, Looker, Patience, Seen};
use self::path::Path;
use self::reply::Verdict;
pub use self::shared_table::SharedFiles;
use self::shared_table::SharedTable;
use self::table::{Bounds, Place, Table};
pub use self::table::{Pin, TableCounts, TableSize};
use self::tables::Tables;
use crate::common::Common;
use crate::config::FileSettings;

/// What is allowed on files.
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// How long clients are asked to wait when there is no room for another file, in seconds.
const RETRY_AFTER: &[u8] = b"1";

/// What may stand in a path as it is (RFC 3986 section 3.3). Colons are left out, which would make a scheme
/// of what is before them.
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
    looker: Arc<Looker>,
    /// How often the root had become another directory when the table was last cleared of what was below the
    /// one before.
    root_changes: u32,
    dotfiles: bool,
    listing: bool,
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
    asking: Asking<'a>,
    stamp: &'a Stamp,
}

/// How a request asks for files.
#[derive(Clone, Copy)]
struct Asking<'a> {
    now: Now,
    /// What has been looked at for it.
    looked: &'a Looked,
    patience: Patience,
}

/// What a path led to.
#[derive(Clone, Debug)]
pub enum Found {
    /// A file, whose entry is of use until the table next changes.
    Entry(Place),
    /// A directory that was asked for without its slash.
    NoSlash,
}

/// Why a path led to nothing.
enum Obstacle {
    Refused(Status),
    /// Somebody has to look who may wait.
    Look(Box<Look<'static>>),
}

impl Content {
    /// What is below the root that `looker` has open. `open_files` is how many files are kept open at most,
    /// and `max_ranges` the most ranges answered in one reply.
    pub fn new(looker: Arc<Looker>, settings: &FileSettings, open_files: u32, max_ranges: u16) -> Self {
        Self::with(Tables::Own(Table::new(bounds(settings, open_files))), looker, settings, max_ranges)
    }

    /// The same, with a table that several workers share.
    pub fn sharing(
        looker: Arc<Looker>,
        (common, files): (&Common, SharedFiles),
        settings: &FileSettings,
        max_ranges: u16,
    ) -> Self {
        let table = SharedTable::new(common, files);
        Self::with(Tables::Shared(Box::new(table)), looker, settings, max_ranges)
    }

    fn with(table: Tables, looker: Arc<Looker>, settings: &FileSettings, max_ranges: u16) -> Self {
        Self {
            table,
            root_changes: looker.root_changes(),
            looker,
            dotfiles: settings.dotfiles,
            listing: settings.listing,
            max_ranges: max_ranges.into(),
            error_pages: ErrorPages::new(settings),
            scratch: Vec::new(),
        }
    }

    /// What looks at files in place of whoever answers.
    pub fn looker(&self) -> Arc<Looker> {
        Arc::clone(&self.looker)
    }

    /// Decides the reply to a request. `now_ms` is monotonic; `own` is a buffer for the plan to build in.
    ///
    /// # Errors
    ///
    /// A look that must be had first and that there is no patience for. [Keep](Self::keep) what is found with
    /// what has been `looked` at, and answer again.
    pub fn answer(
        &mut self,
        head: &Head<'_>,
        (looked, patience): (&Looked, Patience),
        now_ms: u64,
        own: Vec<u8>,
        stamp: &Stamp,
    ) -> Result<Plan<Pin>, Box<Look<'static>>> {
        let now = Now { ms: now_ms, unix_secs: stamp.unix_secs() };
        let request = Request { head, asking: Asking { now, looked, patience }, stamp };
        let plan = self.decide(&request, own);
        self.table.let_go();
        plan
    }

    /// What was [admitted](Self::admit) is not used any more, but for what is [kept](Self::keep).
    pub fn let_go(&mut self) {
        self.table.let_go();
    }

    #[inline]
    fn decide(&mut self, request: &Request<'_>, own: Vec<u8>) -> Result<Plan<Pin>, Box<Look<'static>>> {
        let Request { head, stamp, .. } = *request;
        match head.method {
            Method::Get | Method::Head => {}
            Method::Options => {
                let mut plan = Plan::new(own, Status::NO_CONTENT, head.terms, stamp);
                plan.field("Allow", ALLOW);
                self.add_fields(&mut plan, Some(head.path), None);
                plan.bytes(b"\r\n");
                plan.end_of_head();
                return Ok(plan);
            }
            _ => return self.refuse(Status::METHOD_NOT_ALLOWED, request, own),
        }
        match Path::plain(head.path) {
            Some(path) => self.serve(path, request, own),
            None => self.serve_decoded(request, own),
        }
    }

    /// A part of the memory of a pinned entry. `None`: it is shared, and has been spoilt since.
    #[inline]
    pub fn memory(&self, pin: &Pin, range: Range<u32>) -> Option<Slice<'_>> {
        self.table.memory(pin.0, range)
    }

    /// The file of a pinned entry of which a plan sends a file range. `None`: it is shared, and has been
    /// spoilt since.
    #[inline]
    pub fn file(&self, pin: &Pin) -> Option<BorrowedFd<'_>> {
        self.table.file(pin.0)
    }

    /// The way to bring a window of a pinned file into memory.
    ///
    /// # Panics
    ///
    /// The entry's body is in memory, or the table is shared with other workers.
    pub fn fetch(&self, pin: &Pin, window: u64) -> Fetch {
        let file =
            self.table.share_file(pin.0).expect("the table is a worker's own, and the body not in memory");
        let FileStat { device, inode, .. } = self.table.stat(pin.0);
        Fetch { file, device, inode, window }
    }

    /// Whether a window of a pinned file was found in memory lately.
    #[inline]
    pub fn was_resident(&self, pin: &Pin, window: u64, now_ms: u64) -> bool {
        // A listing is nowhere else.
        self.table.resident(pin.0).is_some_and(|resident| resident.has(window, now_ms))
            || self.table.stat(pin.0).kind == FileKind::Directory
    }

    /// Looks whether a window of a pinned file is in memory, and remembers for a moment that it is.
    pub fn is_resident(&self, pin: &Pin, window: u64, now_ms: u64) -> bool {
        let size = self.table.stat(pin.0).size;
        let is_resident = self.file(pin).is_none_or(|file| Fetch::is_needless(file, size, window));
        if is_resident && let Some(resident) = self.table.resident(pin.0) {
            resident.note(window, now_ms);
        }
        is_resident
    }

    /// Whether a pinned file still has what was promised: it was not truncated or written to since it was
    /// opened, but perhaps appended to. A file that was removed or replaced under its name is intact, as its
    /// bytes are still there.
    pub fn intact(&self, pin: &Pin) -> bool {
        self.is_intact(pin.0)
    }

    /// Closes half of the files that are kept open, as far as no reply uses them: descriptors ran out. Says
    /// whether there was one.
    #[cold]
    pub fn close_half(&mut self) -> bool {
        self.table.close_half() > 0
    }

    /// Takes a pin back when its reply is over.
    #[inline]
    pub fn unpin(&mut self, pin: Pin) {
        self.table.unpin(pin);
    }

    /// The worker accepts nobody any more: gives up what it has at hand for those who come, where that is
    /// shared memory.
    pub fn retire(&mut self) {
        self.table.retire();
    }

    /// The document root, as it is kept open.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.looker.root()
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
        let Some(file) = self.table.file(place) else { return true };
        let before = self.table.stat(place);
        sys::file::stat(file).is_ok_and(|now| load::is_intact(&before, &now))
            || self.table.ends(place).has_only_grown(file, &before)
    }

    #[cold]
    fn serve_decoded(
        &mut self,
        request: &Request<'_>,
        own: Vec<u8>,
    ) -> Result<Plan<Pin>, Box<Look<'static>>> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let plan = match Path::decode(request.head.path, self.dotfiles, &mut scratch) {
            Ok(path) => self.serve(path, request, own),
            Err(refusal) => {
                self.looker.refusals().tell_path(request.head.path, refusal);
                self.refuse(refusal.status(), request, own)
            }
        };
        self.scratch = scratch;
        plan
    }

    fn serve(
        &mut self,
        path: Path<'_>,
        request: &Request<'_>,
        own: Vec<u8>,
    ) -> Result<Plan<Pin>, Box<Look<'static>>> {
        let mut found = self.select(path, request);
        // A part is joined to what the client has by the tag alone, which must not be of bytes that are no
        // more.
        if request.head.fields.any_of(&[Field::Range])
            && request.asking.looked.find(path.bytes(), None).is_none()
            && let Ok(Found::Entry(place)) = found
            && !self.is_intact(place)
        {
            self.table.forget(place);
            found = self.select(path, request);
        }
        match found {
            Ok(Found::Entry(place)) => self.reply(place, request, own),
            Ok(Found::NoSlash) => Ok(self.redirect(path, request, own)),
            Err(Obstacle::Refused(status)) => self.refuse(status, request, own),
            Err(Obstacle::Look(look)) => Err(look),
        }
    }

    #[inline]
    fn reply(
        &mut self,
        place: Place,
        request: &Request<'_>,
        own: Vec<u8>,
    ) -> Result<Plan<Pin>, Box<Look<'static>>> {
        let table = &mut self.table;
        Ok(match reply::judge(request, table, place, self.max_ranges) {
            Verdict::Whole => reply::whole(table, place, request, own),
            Verdict::NotModified => reply::not_modified(table, place, request, own),
            Verdict::PreconditionFailed => return self.refuse(Status::PRECONDITION_FAILED, request, own),
            Verdict::Part(range) => reply::part(table, place, range, request, own),
            Verdict::Parts(ranges) => reply::parts(table, place, &ranges, request, own),
            Verdict::Unsatisfiable(size) => {
                let range = format!("bytes */{size}");
                let status = Status::RANGE_NOT_SATISFIABLE;
                return self.refuse_with(status, Some(("Content-Range", range.as_bytes())), request, own);
            }
        })
    }

    /// The file to answer with, in the coding that the client likes best.
    #[inline]
    fn select(&mut self, path: Path<'_>, request: &Request<'_>) -> Result<Found, Obstacle> {
        let found = if self.listing && path.is_directory() {
            self.find_directory(path, request)?
        } else {
            self.find(path, request.asking)?
        };
        Ok(match found {
            Found::Entry(place) => Found::Entry(self.negotiate(place, path, request)?),
            Found::NoSlash => Found::NoSlash,
        })
    }

    /// The file that a path names, from the table if it is there and was looked at lately.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    fn find(&mut self, path: Path<'_>, asking: Asking<'_>) -> Result<Found, Obstacle> {
        match self.table.find(path.bytes(), None) {
            Some(place) if asking.now.ms < self.table.entry(place).trusted_until_ms => {
                // A request that is answered again has been counted.
                self.table.counts().hits += u64::from(asking.looked.is_empty());
                Ok(Found::Entry(place))
            }
            _ => self.look(Look::new(path.bytes(), None), asking),
        }
    }

    /// What a directory is answered with that may be listed: its index file, or the form of its listing that
    /// is asked for.
    #[cold]
    fn find_directory(&mut self, path: Path<'_>, request: &Request<'_>) -> Result<Found, Obstacle> {
        let form = Form::asked_for(request.head);
        let known = self.table.find(path.bytes(), None).map(|place| self.table.entry(place));
        let has_index = |entry: &Facts| !entry.is_listing() && request.asking.now.ms < entry.trusted_until_ms;
        if form == Form::USUAL || known.is_some_and(has_index) {
            return self.find(path, request.asking);
        }
        let name = form.name(path.bytes());
        self.find(Path::known(&name), request.asking)
    }

    /// Looks for a file where it should be, if that has not been done for this request.
    #[cold]
    fn look(&mut self, mut look: Look<'_>, asking: Asking<'_>) -> Result<Found, Obstacle> {
        if let Some(found) = asking.looked.find(&look.path, look.coding()) {
            if let Ok(Found::Entry(place)) = found
                && !self.table.hold(place)
            {
                return Err(Obstacle::Refused(Status::SERVICE_UNAVAILABLE));
            }
            return found.map_err(Obstacle::Refused);
        }
        if asking.looked.is_given_up() {
            // Where nobody can look, what the table has is as good as it was.
            let held = self.table.find(&look.path, look.coding());
            return held.map(Found::Entry).ok_or(Obstacle::Refused(Status::SERVICE_UNAVAILABLE));
        }
        // Not while a file is at hand whose sibling is looked for.
        if look.sibling.is_none() {
            self.leave_old_root(asking.now.ms);
        }
        let mut held = self.table.find(&look.path, look.coding());
        // Others may be about to look at the very file: one does, and the others see what it has found.
        let claim = held.and_then(|place| self.table.claim(place));
        if claim.is_some() {
            held = self.table.find(&look.path, look.coding());
            if let Some(place) = held
                && asking.now.ms < self.table.entry(place).trusted_until_ms
            {
                self.table.counts().hits += 1;
                return Ok(Found::Entry(place));
            }
        }
        self.table.counts().misses += 1;
        look.known = held.and_then(|place| Known::of(self.table.entry(place)));
        look.sharable = self.looker.believes();
        loop {
            let Ok(seen) = self.looker.look_with(&look, asking.patience, asking.now) else {
                return Err(Obstacle::Look(Box::new(look.into_owned())));
            };
            if let Some(found) = self.admit(&mut look, seen) {
                return found.map_err(Obstacle::Refused);
            }
        }
    }

    /// When the root has become another directory, drops what was found below the one before: files that
    /// nobody can ask for any more would stay open for long. It is out of date; what others have found below
    /// the new one is not.
    fn leave_old_root(&mut self, now_ms: u64) {
        let changes = self.looker.root_changes();
        if std::mem::replace(&mut self.root_changes, changes) != changes {
            self.table.forget_outdated(now_ms);
        }
    }

    /// The coded form of a file that the client likes best, or the file itself.
    #[inline]
    fn negotiate(&mut self, place: Place, path: Path<'_>, request: &Request<'_>) -> Result<Place, Obstacle> {
        let siblings = self.table.entry(place).siblings;
        if siblings.is_empty() {
            return Ok(place);
        }
        match coding::accepted(request.head.fields.all(Field::AcceptEncoding)).best(siblings) {
            Some(coding) => self.find_sibling(coding, place, path, request.asking),
            None => Ok(place),
        }
    }

    fn find_sibling(
        &mut self,
        coding: Coding,
        original: Place,
        path: Path<'_>,
        asking: Asking<'_>,
    ) -> Result<Place, Obstacle> {
        if let Some(place) = self.table.find(path.bytes(), Some(coding))
            && asking.now.ms < self.table.entry(place).trusted_until_ms
        {
            return Ok(place);
        }
        let entry = self.table.entry(original);
        let look = Look::new(path.bytes(), Some(Original { coding, stat: entry.stat, index: entry.index }));
        // The original must not make room for its own sibling.
        let pin = self.table.pin(original);
        let sibling = self.look(look, asking);
        self.table.unpin(pin);
        match sibling {
            Ok(Found::Entry(place)) => Ok(place),
            Ok(_) | Err(Obstacle::Refused(_)) => Ok(original),
            Err(look) => Err(look),
        }
    }

    /// An error that a request for a file can run into.
    #[cold]
    fn refuse(
        &mut self,
        status: Status,
        request: &Request<'_>,
        own: Vec<u8>,
    ) -> Result<Plan<Pin>, Box<Look<'static>>> {
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
    ) -> Result<Plan<Pin>, Box<Look<'static>>> {
        let page = self.find_error_page(status, request.asking)?;
        let mut plan = Plan::new(own, status, request.head.terms, request.stamp);
        if let Some((name, value)) = field {
            plan.field(name, value);
        }
        Ok(self.error_with(plan, page, Some(request.head.path)))
    }

    /// 301 to the same path with a slash at its end, so that relative links in the directory's pages lead
    /// into it.
    fn redirect(&self, path: Path<'_>, request: &Request<'_>, own: Vec<u8>) -> Plan<Pin> {
        // A path alone is a full reference (RFC 9110 section 10.2.2), and right behind any proxy. It begins
        // with one slash, so it can't be taken for another host's.
        let mut location = escaped_path(path.bytes());
        location.push('/');
        if let Some(query) = request.head.query {
            location.push('?');
            location.extend(percent_encode(query, OUTSIDE_QUERIES));
        }
        let mut plan = Plan::new(own, Status::MOVED_PERMANENTLY, request.head.terms, request.stamp);
        plan.field("Location", location.as_bytes());
        self.default_page(&mut plan, Some(request.head.path));
        plan
    }

    /// Adds the operator's header fields to the head of a reply that is no file. `raw_path` is the path of
    /// the request, if it has been read; one that can't be decoded is matched as it is.
    fn add_fields(&self, plan: &mut Plan<Pin>, raw_path: Option<&[u8]>, media_type: Option<&str>) {
        let rules = self.looker.rules();
        if rules.is_empty() {
            return;
        }
        let mut decoded = Vec::new();
        let path = raw_path
            .filter(|raw| raw.starts_with(b"/"))
            .map(|raw| Path::decode(raw, self.dotfiles, &mut decoded).map_or(raw, Path::bytes));
        let mut lines = Vec::new();
        rules.write_lines_of_no_file(path, media_type, &mut lines);
        plan.bytes(&lines);
    }
}

/// What no query may hold as it is (RFC 3986 section 3.4). Nothing but percent signs is added to it, so
/// escapes stay what they are. Bytes beyond ASCII are escaped in any case.
const OUTSIDE_QUERIES: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A decoded path as it stands in a reference.
fn escaped_path(path: &[u8]) -> String {
    const ESCAPED_PATH: &AsciiSet = &ESCAPED.remove(b'/');
    percent_encode(path, ESCAPED_PATH).to_string()
}

fn bounds(settings: &FileSettings, open_files: u32) -> Bounds {
    // Where directories are listed, there is room for one listing at least.
    let least = if settings.listing { listing::largest(settings.listing_names) as u64 } else { 0 };
    Bounds { entries: settings.max_open.get(), open_files, body_bytes: settings.memory.max(least) }
}
