//! Replies that an application has put together from bytes of its own and files that it names among them
//! (`X-ZeroCopy`). The files are looked up as those are that are [named](super::named) in place of a whole
//! reply, all of them before anything is sent: so its length is known, and what is missing is an error like
//! any other. Conditions and ranges are the application's affair, as of whatever it makes.

use std::ops::Range;

use http1::{Head, Plan, Sheet, Stamp, Status};

use super::Content;
use super::find::Obstacle;
use super::load::Now;
use super::lookup::{Lookup, Resolved};
use super::numbers::SiteNumber;
use super::path::Path;
use super::patience::Patience;
use super::prefetch::Prefetched;
use super::request::{Asking, Request};
use super::table::Pin;

/// A reply that has been put together.
#[derive(Debug)]
pub struct Composed {
    /// The site that the client has asked, whose pages tell of errors.
    pub asked: SiteNumber,
    /// The application's status, and its phrase for that, if it has one.
    pub status: Status,
    /// See there.
    pub reason: Option<Box<[u8]>>,
    /// Lines of the application's head, each with its end.
    pub lines: Vec<u8>,
    /// What it said of the body, and what that consists of.
    pub body: Vec<u8>,
    /// See [`body`](Self::body).
    pub parts: Vec<Part>,
    /// Whether these are all: whoever is asked for the head alone may leave the body out.
    pub is_whole: bool,
}

/// A part of a reply's body.
#[derive(Debug)]
pub enum Part {
    /// These bytes of what the application said.
    Bytes(Range<usize>),
    /// A part of a file.
    File {
        /// The directory, by its number among all sites, and the path below that.
        directory: SiteNumber,
        /// See there.
        path: Box<[u8]>,
        /// Bytes in front of it.
        from: u64,
        /// Bytes of it, if not all that follow.
        count: Option<u64>,
    },
}

/// A part that is there.
enum Found<'a> {
    Bytes(&'a [u8]),
    /// A range of a pinned file, by offset and length.
    File(Pin, u64, u64),
}

impl Content {
    /// Decides the reply that was put together so, or an error in its place.
    ///
    /// # Errors
    ///
    /// A lookup that must be had first, as of [`answer`](Self::answer).
    pub fn answer_with_parts(
        &mut self,
        composed: &Composed,
        head: &Head<'_>,
        (prefetched, patience): (Option<&Prefetched>, Patience),
        now_ms: u64,
        sheet: Sheet<Pin>,
        stamp: &Stamp,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        let now = Now { ms: now_ms, unix_secs: stamp.unix_secs() };
        let asking = Asking::new(composed.asked, now, (prefetched, patience));
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
        // What is meant of it is what the application has seen, and not what was there a while ago.
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
            // It is shorter than the application says.
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
