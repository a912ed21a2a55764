//! The document roots as a service: it turns a request's head into the plan of its reply.
//!
//! ```text
//! Head -- path --> name -- find --> entry -- reply --> Plan
//!                           |  ^
//!                    Lookup |  | LookupResult    (a miss, or an entry that was not looked at for a while)
//!                           v  |
//!                         resolver
//! ```
//!
//! - `path` makes one name of all the ways to write a path, and refuses those that name no file.
//! - `table` holds open files under these names; `entry` is what it holds of each, and `ends` tells whether
//!   one has only grown. `shared_table` is one for several workers, and `tables` one of the two.
//! - `find` goes from a name to its entry, and makes one from what a `lookup` finds.
//! - `sites` are told by the host that is asked; each has a root, and what is said of it.
//! - `resolver` finds what a name stands for, and is all that may have to wait for a disk, as far as
//!   `patience` allows; `root` is the directory that it starts from, and `load` opens a file and makes an
//!   entry, with `types` and `rules` for its header lines; `outdated` tells of siblings that were not made
//!   anew with their file.
//! - `routes` are what is done with some paths in place of that, or where it finds nothing; `follow` does it.
//! - `judge` is for what a path leads to by another name: what routes refuse clients is refused by every path
//!   that leads there. `encoded` are paths that name no file and may be an application's. `explain` says for
//!   people what is done.
//! - `named` is for files that applications send by their name, `composed` for replies with such files in
//!   their bodies.
//! - `refusals` tells the operator why there is none.
//! - `reply` decides between whole, part and 304, and lays out the plan.
//! - `listing` and `error_page` make the pages that are no files.
//!
//! Whoever must not wait answers [without patience](Patience::None), or with less than
//! [all](Patience::Unlimited), may get a [`Lookup`] in place of a plan, has [`Resolvers`] look in another
//! thread or at another time, [admits](Content::admit) what it found, [keeps](Content::keep) that for the
//! request, and answers again.
//!
//! Everything is read-only and for GET and HEAD; other methods are refused here, unless a route has an answer
//! for them. Misses are not remembered:
//! the kernel keeps names that don't exist itself (the dentry cache), and a table of them could be filled by
//! anybody.

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
mod named;
mod numbers;
mod outdated;
mod path;
mod patience;
mod patterns;
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
pub use self::named::{Named, NamedFile};
pub use self::numbers::SiteNumber;
use self::path::Path;
pub use self::patience::Patience;
pub use self::prefetch::Prefetched;
use self::reply::Verdict;
use self::request::{Asking, Request};
pub use self::resolver::ContentError;
pub use self::shared_table::{SharedFiles, SharedTable};
pub use self::sites::Resolvers;
use self::sites::{Hosts, Site};
use self::table::{Bounds, Place, Table};
pub use self::table::{Pin, TableCounts, TableSize, Variant};
use self::tables::Tables;
use crate::config::SiteSettings;

/// What is allowed on files.
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// What pools take of the methods that HTTP itself has. They take any other but CONNECT and TRACE as well.
const ALLOW_BY_POOLS: &[u8] = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The files below the roots of all sites, as one worker serves them.
#[derive(Debug)]
pub struct Content {
    table: Tables,
    resolvers: Arc<Resolvers>,
    /// By their number.
    sites: Vec<Site>,
    /// If there are sites for some hosts.
    hosts: Option<Hosts>,
    max_ranges: usize,
    /// Where paths are decoded.
    scratch: Vec<u8>,
}

/// The plan of a reply, or what must be done first, or instead.
pub type Answer = Result<Plan<Pin>, Detour>;

/// What an error of that status has among its fields.
fn field_of(status: Status) -> Option<(&'static str, &'static [u8])> {
    (status == Status::METHOD_NOT_ALLOWED).then_some(("Allow", ALLOW))
}

impl Content {
    /// What is below the roots that `resolvers` have open, those of these sites. `open_files` is how many
    /// files are kept open at most, and `max_ranges` the most ranges answered in one reply.
    pub fn new(resolvers: Arc<Resolvers>, sites: &[SiteSettings], open_files: u32, max_ranges: u16) -> Self {
        let bounds = Bounds::new(sites, open_files);
        let table = Table::new(bounds);
        let table = if bounds.keeps { Tables::Own(table) } else { Tables::Unkept(table) };
        Self::with(table, resolvers, sites, max_ranges)
    }

    /// The same, with a table of files that several workers share.
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

    /// What looks names up, also in place of whoever answers.
    pub fn resolvers(&self) -> Arc<Resolvers> {
        Arc::clone(&self.resolvers)
    }

    fn site(&self, asking: Asking<'_>) -> &Site {
        &self.sites[usize::from(asking.site)]
    }

    /// The site that a request is for.
    #[inline]
    pub fn site_of(&self, head: &Head<'_>) -> SiteNumber {
        self.hosts.as_ref().map_or(0, |hosts| hosts.of(head.host_name().unwrap_or_default()))
    }

    /// Decides the reply to a request. `now_ms` is monotonic; `sheet` is for the plan to be written on.
    ///
    /// # Errors
    ///
    /// A lookup that must be had first and that there is no patience for: [keep](Self::keep) what it finds
    /// with what has been `prefetched`, and answer again. Or an application that is to be called.
    #[inline]
    pub fn answer(
        &mut self,
        head: &Head<'_>,
        (prefetched, patience): (Option<&Prefetched>, Patience),
        now_ms: u64,
        sheet: Sheet<Pin>,
        stamp: &Stamp,
    ) -> Answer {
        let now = Now { ms: now_ms, unix_secs: stamp.unix_secs() };
        let site = self.site_of(head);
        let request = Request { head, asking: Asking::new(site, now, (prefetched, patience)), stamp };
        let plan = self.decide(&request, sheet);
        self.table.let_go();
        plan
    }

    /// What was [admitted](Self::admit) is not used any more, but for what is [kept](Self::keep).
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

    /// Whether what is pinned is in no table, so that only this worker, or thread, can send and unpin it.
    pub fn is_apart(pin: &Pin) -> bool {
        shared_table::is_apart(pin.0)
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

    /// The document roots, as they are kept open.
    pub fn roots(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.resolvers.roots()
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
        // A part is joined to what the client has by the tag alone, which must not be of bytes that are no
        // more.
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
        // The one call: a second keeps it from being made part of this.
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

    /// The reply with a bare entry.
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

    /// The header lines of an entry, if it is bare.
    fn lines(&mut self, place: Place, site: SiteNumber, now: Now) -> Option<Lines> {
        if !self.table.entry(place).is_bare() {
            return None;
        }
        let (entry, kept) = self.table.entry_and_head(place);
        let kept = &kept[..entry.marks.body as usize];
        Some(self.resolvers.of(site).loader.lines(entry, kept, now))
    }

    /// An error that a request for a file can run into.
    #[cold]
    fn refuse(
        &mut self,
        status: Status,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        self.refuse_with(status, field_of(status), request, sheet)
    }

    /// The error of a request for ranges of which none is in a file of that size.
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

    /// 301 to the same path with a slash at its end, so that relative links in the directory's pages lead
    /// into it.
    fn redirect(&self, path: Path<'_>, request: &Request<'_>, sheet: Sheet<Pin>) -> Plan<Pin> {
        // A path alone is a full reference (RFC 9110 section 10.2.2), and right behind any proxy. It begins
        // with one slash, so it can't be taken for another host's.
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

    /// Adds the operator's header fields of a site to the head of a reply that is no file, and when to
    /// ask again. `raw_path` is the path of the request, if it has been read; one that can't be decoded is
    /// matched as it is.
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
