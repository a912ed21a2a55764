//! Files that an application names instead of sending a body (`X-Sendfile`, `X-Accel-Redirect`). They are
//! looked up like all other files, below a directory that the pool may send from. They are sent with the
//! application's header fields, in ranges and under conditions if the client asks for these.

use http1::{Head, Method, Plan, Sheet, Stamp, Status};

use super::Content;
use super::composed::Composed;
use super::find::Obstacle;
use super::load::Now;
use super::lookup::{Lookup, Resolved};
use super::may_block::MayBlock;
use super::numbers::SiteNumber;
use super::path::Path;
use super::prefetch::Prefetched;
use super::reply::{self, Verdict};
use super::request::{Asking, Request};
use super::table::{Pin, Place};

/// What is sent instead of an application's reply.
#[derive(Debug)]
pub enum Named {
    /// A file.
    File(NamedFile),
    /// The application's bytes, with files among them.
    Parts(Composed),
}

/// A file that an application has named.
#[derive(Debug)]
pub struct NamedFile {
    /// The site of the client's request. Its error pages are used.
    pub asked: SiteNumber,
    /// The directory, by its number among all sites.
    pub directory: SiteNumber,
    /// The path below the directory. It begins with a slash and has no dot segments.
    pub path: Box<[u8]>,
    /// The application's status. If it is not 200, the file is sent whole.
    pub status: Status,
    /// The application's reason phrase, if it sent one.
    pub reason: Option<Box<[u8]>>,
    /// Lines of the application's head about the content, each with its line end. They go with the file.
    pub content_lines: Vec<u8>,
    /// All other lines, which go with 304 as well.
    pub lines: Vec<u8>,
    /// Whether Content-Type is among the content lines.
    pub has_type: bool,
}

impl NamedFile {
    /// The path of a target, without escapes, dot segments and query. `None`: it has none.
    pub fn decoded(target: &[u8]) -> Option<Vec<u8>> {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let mut decoded = Vec::new();
        Path::decode(path, true, &mut decoded).ok()?;
        Some(decoded)
    }

    /// The path unchanged, if it can be written in no other way. `None`: it can.
    pub fn literal(path: &[u8]) -> Option<Vec<u8>> {
        let is_name = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..") && !segment.contains(&0);
        let inner = path.strip_prefix(b"/")?;
        inner.split(|byte| *byte == b'/').all(is_name).then(|| path.to_vec())
    }

    /// Whether the client's conditions and ranges apply to the file.
    fn is_judged(&self, head: &Head<'_>) -> bool {
        self.status == Status::OK && matches!(head.method, Method::Get | Method::Head)
    }
}

impl Content {
    /// Decides the reply with a named file, or an error reply.
    ///
    /// # Errors
    ///
    /// A lookup must come first, as for [`answer`](Self::answer).
    pub fn answer_with_file(
        &mut self,
        file: &NamedFile,
        head: &Head<'_>,
        (prefetched, may_block): (Option<&Prefetched>, MayBlock),
        now_ms: u64,
        sheet: Sheet<Pin>,
        stamp: &Stamp,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        let now = Now { ms: now_ms, unix_secs: stamp.unix_secs() };
        let request = |site| Request { head, asking: Asking::new(site, now, (prefetched, may_block)), stamp };
        let (there, asked) = (request(file.directory), request(file.asked));
        let plan = match self.find_named(file, &there) {
            Ok(place) => self.reply_with_file(file, place, (&there, &asked), sheet),
            Err(obstacle) => self.answer_obstacle(obstacle, &asked, sheet),
        };
        self.table.let_go();
        plan
    }

    /// The reply if a named file cannot be sent.
    pub(super) fn answer_obstacle(
        &mut self,
        obstacle: Obstacle,
        asked: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        match obstacle {
            Obstacle::Lookup(lookup) => Err(lookup),
            Obstacle::Refused(status) => self.refuse(status, asked, sheet),
            _ => self.refuse(Status::NOT_FOUND, asked, sheet),
        }
    }

    fn find_named(&mut self, file: &NamedFile, request: &Request<'_>) -> Result<Place, Obstacle> {
        let path = Path::known(&file.path);
        let mut found = self.select_file(path, request)?;
        // As for any other file: a part must not consist of bytes that are gone.
        if let Resolved::Entry(place) = found
            && file.is_judged(request.head)
            && request.wants_part_unseen(path)
            && !self.is_intact(place)
        {
            self.table.forget(place);
            found = self.select_file(path, request)?;
        }
        match found {
            Resolved::Entry(place) => Ok(place),
            Resolved::NoSlash | Resolved::Script(_) | Resolved::Barred(_) => {
                Err(Obstacle::Refused(Status::NOT_FOUND))
            }
        }
    }

    /// The file at a path, in the coding that the client prefers.
    fn select_file(&mut self, path: Path<'_>, request: &Request<'_>) -> Result<Resolved, Obstacle> {
        match self.select(path, request) {
            Err(Obstacle::Bare(place)) => Ok(Resolved::Entry(place)),
            found => found,
        }
    }

    /// The reply with a file that was found for the request `there`. Error replies belong to the site of
    /// `asked`.
    fn reply_with_file(
        &mut self,
        file: &NamedFile,
        place: Place,
        (there, asked): (&Request<'_>, &Request<'_>),
        sheet: Sheet<Pin>,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        let (head, stamp) = (there.head, there.stamp);
        // Conditions and ranges apply to GET and HEAD only (RFC 9110 sections 13.1 and 14.2).
        let lines = self.lines(place, there.asking.site, there.asking.now);
        let verdict = if file.is_judged(head) {
            reply::judge_with(there, &mut self.table, (place, lines.as_ref()), self.max_ranges)
        } else {
            Verdict::Whole
        };
        let (status, part) = match verdict {
            Verdict::PreconditionFailed => return self.refuse(Status::PRECONDITION_FAILED, asked, sheet),
            Verdict::Unsatisfiable(size) => return self.refuse_range(size, asked, sheet),
            Verdict::NotModified => (Status::NOT_MODIFIED, None),
            Verdict::Part(range) => (Status::PARTIAL_CONTENT, Some(range)),
            // Several ranges may be answered with the whole file (RFC 9110 section 14.2).
            Verdict::Whole | Verdict::Parts(_) => (file.status, None),
        };
        let reason = file.reason.as_deref().filter(|_| status == file.status);
        let mut plan = Plan::with_reason(sheet, (status, reason), head.terms, stamp);
        plan.pin(self.table.pin(place));
        let entry = self.table.entry(place);
        let size = entry.size();
        plan.bytes(&file.lines);
        if status == Status::NOT_MODIFIED {
            reply::lines(&mut plan, entry, lines.as_ref(), |marks| marks.validators..marks.body);
            plan.end_of_head();
            return Ok(plan);
        }
        if let Some(range) = part {
            reply::content_range(&mut plan, range, size);
        }
        let length = part.map_or(size, |range| range.len);
        plan.field("Content-Length", itoa::Buffer::new().format(length).as_bytes());
        plan.bytes(&file.content_lines);
        reply::lines(&mut plan, entry, lines.as_ref(), |marks| {
            if file.has_type { marks.coding..marks.body } else { marks.media_type..marks.body }
        });
        plan.end_of_head();
        match part {
            Some(range) => reply::piece(&mut plan, entry, range),
            None if entry.is_in_memory() => plan.memory(entry.marks.body..entry.memory_len),
            None => plan.file(0, size),
        }
        Ok(plan)
    }
}
