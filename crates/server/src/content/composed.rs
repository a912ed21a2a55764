//! Replies that an application composes from its own bytes and files that it names among them
//! (`X-ZeroCopy`). The files are looked up like those that are [named](super::named) instead of a whole
//! reply.
//!
//! All lookups come before anything is sent. So the length is known, and a missing file is an error like
//! any other. Conditions and ranges are the application's business, as in anything it generates.

use std::ops::Range;

use http1::{Head, Plan, Sheet, Stamp, Status};

use super::Content;
use super::find::Obstacle;
use super::load::Now;
use super::lookup::{Lookup, Resolved};
use super::may_block::MayBlock;
use super::numbers::SiteNumber;
use super::path::Path;
use super::prefetch::Prefetched;
use super::request::{Asking, Request};
use super::table::Pin;

/// A composed reply.
#[derive(Debug)]
pub struct Composed {
    /// The site of the client's request. Its error pages are used.
    pub asked: SiteNumber,
    /// The application's status.
    pub status: Status,
    /// The application's reason phrase, if it sent one.
    pub reason: Option<Box<[u8]>>,
    /// Lines of the application's head, each with its line end.
    pub lines: Vec<u8>,
    /// The body that the application sent.
    pub body: Vec<u8>,
    /// The parts of the composed body.
    pub parts: Vec<Part>,
    /// Whether the parts are the whole body. An application may leave the body out of its reply to HEAD.
    pub is_whole: bool,
}

/// A part of a reply's body.
#[derive(Debug)]
pub enum Part {
    /// A range of bytes of the body that the application sent.
    Bytes(Range<usize>),
    /// A part of a file.
    File {
        /// The directory, by its number among all sites.
        directory: SiteNumber,
        /// The path below the directory.
        path: Box<[u8]>,
        /// Bytes to skip at the beginning of the file.
        from: u64,
        /// Bytes of the file to send, if not all that follow.
        count: Option<u64>,
    },
}

/// A part that was found.
enum Found<'a> {
    Bytes(&'a [u8]),
    /// A range of a pinned file, by offset and length.
    File(Pin, u64, u64),
}

impl Content {
    /// Decides the composed reply, or an error reply.
    ///
    /// # Errors
    ///
    /// A lookup must come first, as for [`answer`](Self::answer).
    pub fn answer_with_parts(
        &mut self,
        composed: &Composed,
        head: &Head<'_>,
        (prefetched, may_block): (Option<&Prefetched>, MayBlock),
        now_ms: u64,
        sheet: Sheet<Pin>,
        stamp: &Stamp,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        let now = Now { ms: now_ms, unix_secs: stamp.unix_secs() };
        let asking = Asking::new(composed.asked, now, (prefetched, may_block));
        let mut found = Vec::with_capacity(composed.parts.len());
        let obstacle = composed.parts.iter().find_map(|part| match self.find_part(composed, part, asking) {
            Ok(part) => {
                found.push(part);
                None
            }
            Err(obstacle) => Some(obstacle),
        });
        let plan = match obstacle {
            None => Ok(self.put_together(composed, found, head, sheet, stamp)),
            Some(obstacle) => {
                for part in found {
                    if let Found::File(pin, ..) = part {
                        self.table.unpin(pin);
                    }
                }
                self.answer_obstacle(obstacle, &Request { head, asking, stamp }, sheet)
            }
        };
        self.table.let_go();
        plan
    }

    fn find_part<'a>(
        &mut self,
        composed: &'a Composed,
        part: &Part,
        asking: Asking<'_>,
    ) -> Result<Found<'a>, Obstacle> {
        let (directory, path, from, count) = match part {
            Part::Bytes(range) => return Ok(Found::Bytes(&composed.body[range.clone()])),
            Part::File { directory, path, from, count } => (*directory, Path::known(path), *from, *count),
        };
        let asking = Asking { site: directory, ..asking };
        let mut found = self.find(path, asking)?;
        // The application means the file as it is now, not as it was when the table opened it.
        if let Resolved::Entry(place) = found
            && asking.prefetched.and_then(|had| had.find(path.bytes(), asking.plain())).is_none()
            && !self.is_intact(place)
        {
            self.table.forget(place);
            found = self.find(path, asking)?;
        }
        let Resolved::Entry(place) = found else { return Err(Obstacle::Refused(Status::NOT_FOUND)) };
        let behind = self.table.entry(place).size().checked_sub(from);
        match behind.filter(|behind| count.is_none_or(|count| count <= *behind)) {
            Some(behind) => Ok(Found::File(self.table.pin(place), from, count.unwrap_or(behind))),
            // The file is shorter than the application says.
            None => Err(Obstacle::Refused(Status::BAD_GATEWAY)),
        }
    }

    fn put_together(
        &mut self,
        composed: &Composed,
        found: Vec<Found<'_>>,
        head: &Head<'_>,
        sheet: Sheet<Pin>,
        stamp: &Stamp,
    ) -> Plan<Pin> {
        let length = |part: &Found<'_>| match part {
            Found::Bytes(bytes) => bytes.len() as u64,
            Found::File(_, _, length) => *length,
        };
        let total: u64 = found.iter().map(length).sum();
        let mut plan =
            Plan::with_reason(sheet, (composed.status, composed.reason.as_deref()), head.terms, stamp);
        plan.bytes(&composed.lines);
        if composed.is_whole && !composed.status.is_bodiless() {
            plan.field("Content-Length", itoa::Buffer::new().format(total).as_bytes());
        }
        plan.bytes(b"\r\n");
        plan.end_of_head();
        for part in found {
            match part {
                Found::Bytes(bytes) => plan.bytes(bytes),
                Found::File(pin, from, length) => {
                    let entry = self.table.entry(pin.0);
                    if entry.is_in_memory() {
                        let from = entry.marks.body + from as u32;
                        plan.memory_of(pin, from..from + length as u32);
                    } else {
                        plan.file_of(pin, from, length);
                    }
                }
            }
        }
        plan
    }
}
