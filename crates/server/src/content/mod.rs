//! The content service: it turns a request's head into the plan of its reply, from the files below the
//! document roots.
//!
//! ```text
//! Head -- path --> name -- find --> entry -- reply --> Plan
//!                           |  ^
//!                    Lookup |  | LookupResult    (a miss, or an entry that is due for a check)
//!                           v  |
//!                         resolver
//! ```
//!
//! - `path` maps all spellings of a path to one name, and refuses paths that name no file.
//! - `table` holds open files under these names. `entry` is what it holds for each file, and `ends` finds
//!   out whether a file has only grown. `shared_table` is a table that several workers share. `tables` is
//!   a table of either kind.
//! - `find` gets the entry for a name, and makes an entry from the result of a `lookup`.
//! - `sites` selects the site by the requested host. Each site has a root and its own settings.
//! - `resolver` finds the file for a name. It is the only part that may block on a disk, as far as
//!   `may_block` allows. `root` is the directory that it starts from. `load` opens a file and makes an
//!   entry, with `types` and `rules` for the header lines. `outdated` warns about precompressed siblings
//!   that are older than their file.
//! - `routes` are the operator's rules that answer some paths instead of files, or where no file is
//!   found. `follow` applies them.
//! - `judge` handles paths that lead to a file under another name: what a route refuses to a client is
//!   refused on every path that leads there. `encoded` is for paths that name no file but may belong to
//!   an application. `explain` describes for people what the server does with a path.
//! - `named` is for files that applications send by name, `composed` for replies that have such files in
//!   their bodies.
//! - `refusals` tells the operator why a file was refused.
//! - `reply` decides between the whole file, a part and 304, and lays out the plan.
//! - `listing` and `error_page` make the pages that are not files.
//!
//! A caller that must not block answers with [`MayBlock::Never`], or with anything less than
//! [`MayBlock::Always`]. That caller may get a [`Lookup`] instead of a plan. Then it does the
//! following:
//!
//! 1. It has [`Resolvers`] do the lookup, in another thread or at another time.
//! 2. It [admits](Content::admit) the result and [keeps](Content::keep) it for the request.
//! 3. It answers again.
//!
//! Everything is read-only and for GET and HEAD. Other methods are refused here, unless a route has an
//! answer for them.
//!
//! Misses are not remembered. The kernel already remembers names that do not exist (the dentry cache),
//! and any client could fill a table of them.

mod call;
mod composed;
mod detour;
mod encoded;
mod ends;
mod entry;
mod error_page;
mod escape;
mod explain;
mod fetch;
mod find;
mod follow;
mod judge;
mod judged;
mod listing;
mod load;
mod lookup;
mod may_block;
mod named;
mod numbers;
mod outdated;
mod path;
mod patterns;
mod pinned_file;
mod prefetch;
mod refusals;
mod reply;
mod request;
mod resolver;
mod root;
mod routes;
mod rules;
mod scripts;
mod shared_table;
mod sites;
mod table;
mod tables;
mod types;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use http1::{Head, Method, Plan, Sheet, Stamp, Status};
use sys::file::{FileKind, FileStat};
use sys::socket::Slice;

pub use self::call::Call;
pub use self::composed::{Composed, Part};
pub use self::detour::Detour;
use self::entry::Lines;
pub use self::explain::explain;
pub use self::fetch::Fetch;
use self::find::Obstacle;
use self::load::Now;
pub use self::lookup::{Admitted, Lookup, LookupResult, Resolved};
pub use self::may_block::MayBlock;
pub use self::named::{Named, NamedFile};
pub use self::numbers::SiteNumber;
use self::path::Path;
pub use self::pinned_file::PinnedFile;
pub use self::prefetch::Prefetched;
use self::reply::Verdict;
use self::request::{Asking, Request};
pub use self::resolver::ContentError;
pub use self::shared_table::{SharedFiles, SharedTable};
use self::sites::Site;
pub use self::sites::{Hosts, Resolvers};
use self::table::{Bounds, Place, Table};
pub use self::table::{Pin, TableCounts, TableSize, Variant};
use self::tables::Tables;
use crate::config::SiteSettings;

/// The methods that files allow.
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// The methods defined by HTTP itself that pools accept. Pools also accept any other method except
/// CONNECT and TRACE.
const ALLOW_BY_POOLS: &[u8] = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The files below the roots of all sites, for one worker.
#[derive(Debug)]
pub struct Content {
    table: Tables,
    resolvers: Arc<Resolvers>,
    /// Indexed by site number.
    sites: Vec<Site>,
    /// Set if some sites are for certain hosts only.
    hosts: Option<Hosts>,
    max_ranges: usize,
    /// Buffer for decoded paths.
    scratch: Vec<u8>,
}

/// The plan of a reply, or the detour to take first or instead.
pub type Answer = Result<Plan<Pin>, Detour>;

/// The header field that an error reply with that status has in addition.
fn field_of(status: Status) -> Option<(&'static str, &'static [u8])> {
    (status == Status::METHOD_NOT_ALLOWED).then_some(("Allow", ALLOW))
}

impl Content {
    /// Serves what is below the roots that `resolvers` have open, which are the roots of these sites.
    /// `open_files` bounds the files kept open, and `max_ranges` the ranges answered in one reply.
    pub fn new(resolvers: Arc<Resolvers>, sites: &[SiteSettings], open_files: u32, max_ranges: u16) -> Self {
        let bounds = Bounds::new(sites, open_files);
        let table = Table::new(bounds);
        let table = if bounds.keeps { Tables::Own(table) } else { Tables::Unkept(table) };
        Self::with(table, resolvers, sites, max_ranges)
    }

    /// Like [`new`](Self::new), with a file table that several workers share.
    pub fn sharing(
        resolvers: Arc<Resolvers>,
        table: SharedTable,
        sites: &[SiteSettings],
        max_ranges: u16,
    ) -> Self {
        Self::with(Tables::Shared(Box::new(table)), resolvers, sites, max_ranges)
    }

    fn with(table: Tables, resolvers: Arc<Resolvers>, sites: &[SiteSettings], max_ranges: u16) -> Self {
        Self {
            table,
            sites: (0..).zip(sites).map(|(number, site)| Site::new(number, site, &resolvers)).collect(),
            hosts: sites.iter().any(|site| !site.hosts.is_empty()).then(|| Hosts::new(sites)),
            resolvers,
            max_ranges: max_ranges.into(),
            scratch: Vec::new(),
        }
    }

    /// The resolvers that look names up, also on behalf of the worker that answers.
    pub fn resolvers(&self) -> Arc<Resolvers> {
        Arc::clone(&self.resolvers)
    }

    fn site(&self, asking: Asking<'_>) -> &Site {
        &self.sites[usize::from(asking.site)]
    }

    /// The site of a host.
    pub fn site_named(&self, host: &[u8]) -> SiteNumber {
        self.hosts.as_ref().map_or(0, |hosts| hosts.of(host))
    }

    /// The site that a request is for.
    #[inline]
    pub fn site_of(&self, head: &Head<'_>) -> SiteNumber {
        self.hosts.as_ref().map_or(0, |hosts| hosts.of(head.host_name().unwrap_or_default()))
    }

    /// Decides the reply to a request. `now_ms` is monotonic. The plan is written on `sheet`.
    ///
    /// # Errors
    ///
    /// Either a lookup must come first, for which the caller must not block: [keep](Self::keep)
    /// the result with what has been `prefetched`, and answer again. Or an application must be called.
    #[inline]
    pub fn answer(
        &mut self,
        head: &Head<'_>,
        (prefetched, may_block): (Option<&Prefetched>, MayBlock),
        now_ms: u64,
        sheet: Sheet<Pin>,
        stamp: &Stamp,
    ) -> Answer {
        let now = Now { ms: now_ms, unix_secs: stamp.unix_secs() };
        let site = self.site_of(head);
        let request = Request { head, asking: Asking::new(site, now, (prefetched, may_block)), stamp };
        let plan = self.decide(&request, sheet);
        self.table.let_go();
        plan
    }

    /// Releases what was [admitted](Self::admit), except what is [kept](Self::keep).
    pub fn let_go(&mut self) {
        self.table.let_go();
    }

    #[inline]
    fn decide(&mut self, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        let head = request.head;
        match head.method {
            Method::Get | Method::Head => {}
            _ => return self.serve_other_method(request, sheet),
        }
        if head.is_encoded {
            return self.serve_decoded(request, sheet);
        }
        self.serve(Path::sent(head.path), request, sheet)
    }

    /// A part of the memory of a pinned entry. `None`: the entry is shared, and has been corrupted since.
    #[inline]
    pub fn memory(&self, pin: &Pin, range: Range<u32>) -> Option<Slice<'_>> {
        self.table.memory(pin.0, range)
    }

    /// The file of a pinned entry, for a plan that sends a file range. `None`: the entry is shared, and
    /// has been corrupted since.
    #[inline]
    pub fn file(&self, pin: &Pin) -> Option<BorrowedFd<'_>> {
        self.table.file(pin.0)
    }

    /// The memory of a pinned entry, for a ring. `None`: the table is shared with other workers.
    pub fn share_memory(&self, pin: &Pin) -> Option<Arc<[u8]>> {
        self.table.share_memory(pin.0)
    }

    /// The file of a pinned entry, for a helper. `None`: the body is in memory, or the table is shared with
    /// other workers.
    pub fn share_file(&self, pin: &Pin) -> Option<PinnedFile> {
        Some(PinnedFile::new(self.table.share_file(pin.0)?, self.table.stat(pin.0)))
    }

    /// What is needed to bring a window of a pinned file into memory.
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

    /// Whether a window of a pinned file was recently found in memory.
    #[inline]
    pub fn was_resident(&self, pin: &Pin, window: u64, now_ms: u64) -> bool {
        // A listing is only ever in memory.
        self.table.resident(pin.0).is_some_and(|resident| resident.has(window, now_ms))
            || self.table.stat(pin.0).kind == FileKind::Directory
    }

    /// Checks whether a window of a pinned file is in memory. If so, remembers that for a moment.
    pub fn is_resident(&self, pin: &Pin, window: u64, now_ms: u64) -> bool {
        let size = self.table.stat(pin.0).size;
        let is_resident = self.file(pin).is_none_or(|file| Fetch::is_needless(file, size, window));
        if is_resident && let Some(resident) = self.table.resident(pin.0) {
            resident.note(window, now_ms);
        }
        is_resident
    }

    /// Whether a pinned file still has the promised bytes: it was not truncated or overwritten since it
    /// was opened, though it may have been appended to. A file that was removed or replaced under its
    /// name is intact, as its bytes are still there.
    pub fn intact(&self, pin: &Pin) -> bool {
        self.is_intact(pin.0)
    }

    /// Closes half of the files that are kept open, except those that a reply uses. Call it when the
    /// descriptors have run out. Returns whether any file was closed.
    #[cold]
    pub fn close_half(&mut self) -> bool {
        self.table.close_half() > 0
    }

    /// Whether the pinned entry is in no table. Then only this worker or thread can send and unpin it.
    pub fn is_apart(pin: &Pin) -> bool {
        shared_table::is_apart(pin.0)
    }

    /// Takes a pin back when its reply is over.
    #[inline]
    pub fn unpin(&mut self, pin: Pin) {
        self.table.unpin(pin);
    }

    /// Releases shared memory that was kept for further clients. Call it when the worker accepts no more
    /// connections.
    pub fn retire(&mut self) {
        self.table.retire();
    }

    /// The open document roots.
    pub fn roots(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.resolvers.roots()
    }

    /// Counts of what the open-file table has done so far.
    pub fn table_counts(&self) -> TableCounts {
        self.table.counted()
    }

    /// What the open-file table holds now.
    pub fn table_size(&self) -> TableSize {
        self.table.size()
    }

    /// The table's memory in addition to what it [holds](Self::table_size): places, names and paths.
    pub fn table_structure_bytes(&self) -> u64 {
        self.table.structure_bytes()
    }

    /// Whether an entry's body still is what it was when the entry was made.
    fn is_intact(&self, place: Place) -> bool {
        let Some(file) = self.table.file(place) else { return true };
        let before = self.table.stat(place);
        sys::file::stat(file).is_ok_and(|now| load::is_intact(&before, &now))
            || self.table.ends(place).has_only_grown(file, &before)
    }

    #[cold]
    fn serve_decoded(&mut self, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        let mut scratch = std::mem::take(&mut self.scratch);
        let plan = match Path::decode(request.head.path, self.site(request.asking).dotfiles, &mut scratch) {
            Ok(path) => self.serve(path, request, sheet),
            Err(refusal) => self.serve_no_name(refusal, request, sheet),
        };
        self.scratch = scratch;
        plan
    }

    #[inline]
    fn serve(&mut self, path: Path<'_>, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        let mut found = self.select(path, request);
        // The client joins a part to the bytes that it has by the tag alone. So the tag must not be that
        // of bytes that are gone.
        if request.wants_part_unseen(path)
            && let Ok(Resolved::Entry(place)) | Err(Obstacle::Bare(place)) = found
            && !self.is_intact(place)
        {
            found = self.select_anew(place, path, request);
        }
        let (place, sheet) = match found {
            Ok(Resolved::Entry(place)) => (place, sheet),
            found => match self.find_instead(found, path, request, sheet) {
                Ok((place, sheet)) if self.table.entry(place).is_bare() => {
                    return self.reply_bare(place, request, sheet);
                }
                Ok(instead) => instead,
                Err(answer) => return answer,
            },
        };
        // The only call: a second one would keep the compiler from inlining it here.
        self.reply(place, request, sheet)
    }

    #[inline]
    fn reply(&mut self, place: Place, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        let table = &mut self.table;
        Ok(match reply::judge(request, table, place, self.max_ranges) {
            Verdict::Whole => reply::whole(table, (place, None), request, sheet),
            Verdict::NotModified => reply::not_modified(table, (place, None), request, sheet),
            Verdict::PreconditionFailed => self.refuse(Status::PRECONDITION_FAILED, request, sheet)?,
            Verdict::Part(range) => reply::part(table, (place, None), range, request, sheet),
            Verdict::Parts(ranges) => reply::parts(table, (place, None), &ranges, request, sheet),
            Verdict::Unsatisfiable(size) => self.refuse_range(size, request, sheet)?,
        })
    }

    /// The reply from a bare entry.
    #[inline(never)]
    fn reply_bare(&mut self, place: Place, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        let lines = self.lines(place, request.asking.site, request.asking.now);
        let (table, made) = (&mut self.table, (place, lines.as_ref()));
        Ok(match reply::judge_with(request, table, made, self.max_ranges) {
            Verdict::Whole => reply::whole(table, made, request, sheet),
            Verdict::NotModified => reply::not_modified(table, made, request, sheet),
            Verdict::PreconditionFailed => self.refuse(Status::PRECONDITION_FAILED, request, sheet)?,
            Verdict::Part(range) => reply::part(table, made, range, request, sheet),
            Verdict::Parts(ranges) => reply::parts(table, made, &ranges, request, sheet),
            Verdict::Unsatisfiable(size) => self.refuse_range(size, request, sheet)?,
        })
    }

    /// The header lines of an entry, if the entry is bare.
    fn lines(&mut self, place: Place, site: SiteNumber, now: Now) -> Option<Lines> {
        if !self.table.entry(place).is_bare() {
            return None;
        }
        let (entry, kept) = self.table.entry_and_head(place);
        let kept = &kept[..entry.marks.body as usize];
        Some(self.resolvers.of(site).loader.lines(entry, kept, now))
    }

    /// The reply to a request for a file that fails with an error.
    #[cold]
    fn refuse(
        &mut self,
        status: Status,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        self.refuse_with(status, field_of(status), request, sheet)
    }

    /// The error reply to a request for ranges of which none is within a file of that size.
    fn refuse_range(
        &mut self,
        size: u64,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        let range = format!("bytes */{size}");
        let field = Some(("Content-Range", range.as_bytes()));
        self.refuse_with(Status::RANGE_NOT_SATISFIABLE, field, request, sheet)
    }

    fn refuse_with(
        &mut self,
        status: Status,
        field: Option<(&str, &[u8])>,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        let page = self.find_error_page(status, request.asking)?;
        let mut plan = Plan::new(sheet, status, request.head.terms, request.stamp);
        if let Some((name, value)) = field {
            plan.field(name, value);
        }
        Ok(self.error_with(plan, request.asking.site, page, Some(request.head.path)))
    }

    /// 301 to the same path with a slash at its end, so that relative links in the directory's pages
    /// resolve below the directory.
    fn redirect(&self, path: Path<'_>, request: &Request<'_>, sheet: Sheet<Pin>) -> Plan<Pin> {
        // A path alone is a full reference (RFC 9110 section 10.2.2), and correct behind any proxy. It
        // begins with one slash only, so no client takes it for a reference to another host.
        let mut location = escape::path(path.bytes()).to_string();
        location.push('/');
        if let Some(query) = request.head.query() {
            location.push('?');
            location.extend(escape::query(query));
        }
        let mut plan = Plan::new(sheet, Status::MOVED_PERMANENTLY, request.head.terms, request.stamp);
        plan.field("Location", location.as_bytes());
        self.default_page(&mut plan, request.asking.site, Some(request.head.path));
        plan
    }

    /// Redirects a request to https at the same host, with the same target.
    pub fn redirect_to_https(
        &self,
        head: &Head<'_>,
        (host, port): (&[u8], u16),
        sheet: Sheet<Pin>,
        stamp: &Stamp,
    ) -> Plan<Pin> {
        const USUAL: u16 = 443;
        let host = String::from_utf8_lossy(host);
        let mut location =
            if port == USUAL { format!("https://{host}") } else { format!("https://{host}:{port}") };
        location.extend(escape::query(head.path));
        if let Some(query) = head.query() {
            location.push('?');
            location.extend(escape::query(query));
        }
        // Some clients turn a POST into a GET for 301 (RFC 9110 section 15.4.2).
        let is_read = matches!(head.method, Method::Get | Method::Head);
        let status = if is_read { Status::MOVED_PERMANENTLY } else { Status::PERMANENT_REDIRECT };
        let mut plan = Plan::new(sheet, status, head.terms, stamp);
        plan.field("Location", location.as_bytes());
        self.default_page(&mut plan, self.site_of(head), Some(head.path));
        plan
    }

    /// Adds a site's configured header fields to the head of a reply that is not a file, and
    /// `Retry-After` to a 503. `raw_path` is the path of the request, if it has been read. A path that
    /// cannot be decoded is matched undecoded.
    fn add_fields(
        &self,
        plan: &mut Plan<Pin>,
        site: SiteNumber,
        raw_path: Option<&[u8]>,
        media_type: Option<&str>,
    ) {
        let rules = &self.resolvers.of(site).loader.rules;
        let retry_after = &self.sites[usize::from(site)].retry_after;
        let is_unavailable = plan.status() == Status::SERVICE_UNAVAILABLE;
        let when = retry_after.as_deref().filter(|_| is_unavailable).unwrap_or_default();
        if rules.is_empty() {
            return plan.bytes(when);
        }
        let mut decoded = Vec::new();
        let path = raw_path
            .filter(|raw| raw.starts_with(b"/"))
            .map(|raw| Path::decode(raw, true, &mut decoded).map_or(raw, Path::bytes));
        let mut lines = Vec::new();
        if !rules.write_lines_of_no_file(plan.status(), path, media_type, &mut lines) {
            plan.bytes(when);
        }
        plan.bytes(&lines);
    }
}
