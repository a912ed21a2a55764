//! The reply to one request: what will be sent, in order, as pieces of three kinds.
//!
//! A service builds a [`Plan`] while the request is still available. After that, the request's bytes are
//! no longer needed. A piece is one of these:
//!
//! - the reply's *own* bytes,
//! - a range of memory that is *pinned* in the server's open-file table,
//! - a range of a pinned file.
//!
//! A reply from several files has one pin for each such piece, instead of a single pin. [`Reply`] is a
//! plan while it is sent. It remembers its position, returns the rest as [`Segment`]s, and accepts
//! partial sends.
//!
//! All of this is written on a [`Sheet`], which the driver lends until the reply is over. So a plan moves
//! between functions by pointer, a connection without a reply reserves no memory for one, and a driver
//! that reuses a sheet allocates nothing.

use std::ops::Range;

use crate::{Stamp, Status, Terms, Version};

/// Room for the own bytes of a reply with a file. Other replies enlarge the buffer once.
const OWN_BYTES: usize = 192;

/// The reusable buffer that a plan is written on. `P` is the server's pin on an open-file-table entry; it
/// is opaque here.
#[derive(Debug)]
pub struct Sheet<P>(pub(crate) Box<Content<P>>);

/// A decided reply. `P` is the server's pin on an open-file-table entry; it is opaque here.
#[derive(Debug)]
pub struct Plan<P>(pub(crate) Box<Content<P>>);

/// The contents of a sheet.
#[derive(Debug)]
pub(crate) struct Content<P> {
    pub(crate) own: Vec<u8>,
    pin: Option<P>,
    pieces: Vec<Piece>,
    /// Used if there is no single pin: the pins of pieces from several entries, with the pieces' numbers,
    /// in order. A pin without a piece has the number of the next piece.
    several: Vec<(u32, P)>,
    /// Bytes of the whole reply, and of its head.
    len: u64,
    head_len: u32,
    pub(crate) status: Status,
    pub(crate) terms: Terms,
    in_body: bool,
}

/// Where a run of a reply's bytes comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Own { from: u32, to: u32 },
    Memory { from: u32, to: u32 },
    File { offset: u64, len: u64 },
}

impl Piece {
    fn len(&self) -> u64 {
        match *self {
            Self::Own { from, to } | Self::Memory { from, to } => u64::from(to - from),
            Self::File { len, .. } => len,
        }
    }

    /// The unsent rest of a piece: of a reply's own bytes, or of the entry with that pin.
    #[inline]
    fn segment<'a, P>(self, own: &'a [u8], pin: impl FnOnce() -> &'a P, gone: u64) -> Segment<'a, P> {
        match self {
            Self::Own { from, to } => Segment::Own(&own[from as usize + gone as usize..to as usize]),
            Self::Memory { from, to } => Segment::Memory(pin(), from + gone as u32..to),
            Self::File { offset, len } => Segment::File(pin(), offset + gone, len - gone),
        }
    }
}

impl<P> Sheet<P> {
    /// Heap memory of the sheet's buffers, in bytes: for a reply's own bytes, and for its list of pieces.
    pub fn capacity(&self) -> usize {
        self.0.own.capacity() + self.0.pieces.capacity() * size_of::<Piece>()
    }

    /// Takes the pins of a reply from several entries, once the reply is over.
    pub fn take_several(&mut self) -> impl Iterator<Item = P> {
        std::mem::take(&mut self.0.several).into_iter().map(|(_, pin)| pin)
    }
}

impl<P> Default for Sheet<P> {
    /// A new sheet.
    fn default() -> Self {
        Self(Box::new(Content {
            own: Vec::with_capacity(OWN_BYTES),
            pin: None,
            pieces: Vec::with_capacity(3),
            several: Vec::new(),
            len: 0,
            head_len: 0,
            status: Status::OK,
            terms: Terms { version: Version::Http11, persistent: false, body: false },
            in_body: false,
        }))
    }
}

impl<P> Plan<P> {
    /// Starts a reply: writes the status line, the stamp's lines, and Connection if the client needs it.
    /// The driver gets the sheet back when the reply is released.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 1% more instructions")]
    pub fn new(Sheet(mut content): Sheet<P>, status: Status, terms: Terms, stamp: &Stamp) -> Self {
        content.own.clear();
        if status == Status::OK {
            stamp.begin_ok(&mut content.own);
        } else {
            status.write_line(&mut content.own);
            stamp.go_on(&mut content.own);
        }
        Self::begun(content, status, terms)
    }

    /// Starts a reply with an application's reason phrase, if there is one. The phrase must not contain a
    /// line end.
    pub fn with_reason(
        Sheet(mut content): Sheet<P>,
        (status, reason): (Status, Option<&[u8]>),
        terms: Terms,
        stamp: &Stamp,
    ) -> Self {
        let Some(reason) = reason else { return Self::new(Sheet(content), status, terms, stamp) };
        debug_assert!(!reason.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
        content.own.clear();
        status.write_line_with(reason, &mut content.own);
        stamp.go_on(&mut content.own);
        Self::begun(content, status, terms)
    }

    /// A plan whose status line and stamp's lines are already written.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 1% more instructions")]
    fn begun(mut content: Box<Content<P>>, status: Status, terms: Terms) -> Self {
        let Content { own, pieces, .. } = &mut *content;
        pieces.clear();
        if !terms.persistent {
            own.extend_from_slice(b"Connection: close\r\n");
        } else if terms.version == Version::Http10 {
            own.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        let head_len = own.len() as u32;
        pieces.push(Piece::Own { from: 0, to: head_len });
        content.len = head_len.into();
        content.head_len = head_len;
        content.status = status;
        content.terms = Terms { body: terms.body && !status.is_bodiless(), ..terms };
        content.in_body = false;
        Self(content)
    }

    /// Adds a header line. The value must not contain a line end.
    pub fn field(&mut self, name: &str, value: &[u8]) {
        debug_assert!(!self.0.in_body && !value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
        self.bytes(name.as_bytes());
        self.bytes(b": ");
        self.bytes(value);
        self.bytes(b"\r\n");
    }

    /// Adds own bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.takes(bytes.len() as u64) {
            let from = self.0.own.len() as u32;
            self.0.own.extend_from_slice(bytes);
            let to = self.0.own.len() as u32;
            match self.0.pieces.last_mut() {
                Some(Piece::Own { to: end, .. }) => *end = to,
                _ => self.0.pieces.push(Piece::Own { from, to }),
            }
        }
    }

    /// Sets the table entry that [`memory`](Self::memory) and [`file`](Self::file) take their bytes from.
    /// Call it once.
    #[inline]
    pub fn pin(&mut self, pin: P) {
        debug_assert!(self.0.pin.is_none());
        self.0.pin = Some(pin);
    }

    /// Adds a range of the pinned entry's memory: header lines before [`end_of_head`](Self::end_of_head),
    /// body after.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: known to be head or body, half of it goes away")]
    pub fn memory(&mut self, range: Range<u32>) {
        let Range { start: from, end: to } = range;
        if self.takes(u64::from(to - from)) {
            match self.0.pieces.last_mut() {
                Some(Piece::Memory { to: end, .. }) if *end == from => *end = to,
                _ => self.0.pieces.push(Piece::Memory { from, to }),
            }
        }
    }

    /// Adds a range of the pinned entry's file.
    pub fn file(&mut self, offset: u64, len: u64) {
        if self.takes(len) {
            self.0.pieces.push(Piece::File { offset, len });
        }
    }

    /// Adds a range of an entry's memory to the body of a reply from several entries, with a pin on that
    /// entry.
    pub fn memory_of(&mut self, pin: P, Range { start: from, end: to }: Range<u32>) {
        self.one_of_several(pin);
        if self.takes(u64::from(to - from)) {
            self.0.pieces.push(Piece::Memory { from, to });
        }
    }

    /// Adds a range of an entry's file to the body of a reply from several entries, with a pin on that
    /// entry.
    pub fn file_of(&mut self, pin: P, offset: u64, len: u64) {
        self.one_of_several(pin);
        self.file(offset, len);
    }

    fn one_of_several(&mut self, pin: P) {
        debug_assert!(self.0.in_body && self.0.pin.is_none());
        let next = self.0.pieces.len() as u32;
        self.0.several.push((next, pin));
    }

    /// Declares that the head is complete, including its blank line. If the request's method or the
    /// status allows no body, a body added later is dropped, so callers need not check.
    pub fn end_of_head(&mut self) {
        self.0.in_body = true;
    }

    /// Completes the reply with a short text: Content-Type, Content-Length, blank line and the text itself.
    pub fn text(&mut self, content_type: &str, body: &[u8]) {
        self.field("Content-Type", content_type.as_bytes());
        if !self.0.status.is_bodiless() {
            self.field("Content-Length", itoa::Buffer::new().format(body.len()).as_bytes());
        }
        self.bytes(b"\r\n");
        self.end_of_head();
        self.bytes(body);
    }

    /// The reply's status.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// Whether the connection may stay open after the reply.
    pub(crate) fn persistent(&self) -> bool {
        self.0.terms.persistent
    }

    /// Counts `len` bytes, unless they belong to a body that is not allowed. Returns whether there is
    /// anything to send.
    #[inline]
    fn takes(&mut self, len: u64) -> bool {
        let content = &mut *self.0;
        if !content.in_body {
            content.head_len += len as u32;
        } else if !content.terms.body {
            return false;
        }
        content.len += len;
        len > 0
    }
}

/// A run of bytes to send next, borrowed until the call of [`sent`](crate::Connection::sent).
#[derive(Debug)]
pub enum Segment<'a, P> {
    /// The reply's own bytes.
    Own(&'a [u8]),
    /// A range of the pinned entry's memory.
    Memory(&'a P, Range<u32>),
    /// A range of the pinned entry's file: offset and length, in bytes.
    File(&'a P, u64, u64),
}

/// A plan that is being sent.
#[derive(Debug)]
pub(crate) struct Reply<P> {
    plan: Box<Content<P>>,
    /// The piece being sent, and how much of it has been sent.
    piece: u32,
    piece_sent: u64,
    /// Total bytes sent.
    pub(crate) sent: u64,
}

impl<P> Reply<P> {
    #[inline]
    pub(crate) fn new(Plan(plan): Plan<P>) -> Self {
        Self { plan, piece: 0, piece_sent: 0, sent: 0 }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.sent == self.plan.len
    }

    /// The pins of the whole reply, sent or not.
    pub(crate) fn pins(&self) -> impl Iterator<Item = &P> {
        self.plan.pin.iter().chain(self.plan.several.iter().map(|(_, pin)| pin))
    }

    /// Whether the reply has a pin for each of its pieces, instead of one pin.
    #[inline]
    pub(crate) fn is_of_several(&self) -> bool {
        !self.plan.several.is_empty()
    }

    /// The unsent rest of a reply from several entries.
    pub(crate) fn segments_of_several(&self) -> impl Iterator<Item = Segment<'_, P>> {
        let Content { own, pieces, several, .. } = &*self.plan;
        let left = pieces.iter().enumerate().skip(self.piece as usize);
        left.map(move |(number, piece)| {
            let pin = || {
                let found = several.iter().rfind(|(of, _)| *of as usize == number);
                found.map(|(_, pin)| pin).expect("a piece of memory or of a file has a pin")
            };
            piece.segment(own, pin, if number == self.piece as usize { self.piece_sent } else { 0 })
        })
    }

    /// The unsent rest of a reply from one entry or none.
    pub(crate) fn segments(&self) -> Segments<'_, P> {
        let pieces = &self.plan.pieces[self.piece as usize..];
        Segments { plan: Some(&self.plan), pieces: pieces.iter(), gone: self.piece_sent }
    }

    /// Advances by `n` sent bytes.
    #[inline]
    pub(crate) fn advance(&mut self, mut n: u64) {
        self.sent += n;
        if self.is_complete() {
            return;
        }
        while let Some(piece) = self.plan.pieces.get(self.piece as usize) {
            let left = piece.len() - self.piece_sent;
            if n < left {
                self.piece_sent += n;
                return;
            }
            n -= left;
            self.piece += 1;
            self.piece_sent = 0;
        }
        debug_assert_eq!(n, 0, "more was sent than was lent");
    }

    /// Bytes of body sent so far.
    pub(crate) fn body_sent(&self) -> u64 {
        self.sent.saturating_sub(u64::from(self.plan.head_len))
    }

    pub(crate) fn status(&self) -> Status {
        self.plan.status
    }

    /// Sheet and pin of a reply that is over.
    pub(crate) fn into_parts(mut self) -> (Sheet<P>, Option<P>) {
        let pin = self.plan.pin.take();
        (Sheet(self.plan), pin)
    }
}

/// The segments of a reply that are still to be sent, in order.
#[derive(Debug)]
pub(crate) struct Segments<'a, P> {
    plan: Option<&'a Content<P>>,
    pieces: std::slice::Iter<'a, Piece>,
    /// How much of the next piece has been sent.
    gone: u64,
}

impl<P> Segments<'_, P> {
    /// The segments if there is no reply.
    pub(crate) fn none() -> Self {
        Self { plan: None, pieces: [].iter(), gone: 0 }
    }
}

impl<'a, P> Iterator for Segments<'a, P> {
    type Item = Segment<'a, P>;

    #[inline]
    fn next(&mut self) -> Option<Segment<'a, P>> {
        let (plan, piece) = (self.plan?, *self.pieces.next()?);
        let gone = std::mem::take(&mut self.gone);
        let pinned = || plan.pin.as_ref().expect("a plan with memory or file pieces has a pin");
        Some(piece.segment(&plan.own, pinned, gone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { version: Version::Http11, persistent: true, body: true };

    fn head(terms: Terms) -> String {
        let mut plan = Plan::<()>::new(Sheet::default(), Status::OK, terms, &Stamp::new("", 0));
        plan.bytes(b"\r\n");
        String::from_utf8(plan.0.own).unwrap()
    }

    #[test]
    fn connection_is_said_only_where_it_is_not_the_default() {
        assert!(!head(TERMS).contains("Connection"));
        assert!(head(Terms { persistent: false, ..TERMS }).contains("Connection: close\r\n"));
        assert!(head(Terms { version: Version::Http10, ..TERMS }).contains("Connection: keep-alive\r\n"));
    }

    #[test]
    fn head_keeps_the_length_and_drops_the_body() {
        let stamp = Stamp::new("", 0);
        let mut plan = Plan::<()>::new(Sheet::default(), Status::OK, Terms { body: false, ..TERMS }, &stamp);
        plan.text("text/plain", b"hello");
        let text = String::from_utf8(plan.0.own).unwrap();
        assert!(text.ends_with("Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n"), "{text}");
    }

    #[test]
    fn adjoining_memory_is_one_piece_and_any_partial_send_resumes_in_place() {
        let stamp = Stamp::new("", 0);
        let mut plan = Plan::new(Sheet::default(), Status::OK, TERMS, &stamp);
        plan.pin(7_u8);
        plan.memory(10..20);
        plan.end_of_head();
        plan.memory(20..30);
        plan.file(5, 100);
        assert_eq!(plan.0.pieces.len(), 3);
        let mut reply = Reply::new(plan);
        let first = u64::from(reply.plan.head_len) - 10;
        let total = first + 20 + 100;
        for step in 1..=total {
            if step > 1 {
                reply.advance(1);
            }
            let left: u64 = reply
                .segments()
                .map(|segment| match segment {
                    Segment::Own(bytes) => bytes.len() as u64,
                    Segment::Memory(7, range) => u64::from(range.end - range.start),
                    Segment::File(7, offset, len) => {
                        assert_eq!(offset + len, 105);
                        len
                    }
                    other => panic!("{other:?}"),
                })
                .sum();
            assert_eq!(left, total - (step - 1));
        }
        reply.advance(1);
        assert!(reply.is_complete());
        assert_eq!(reply.body_sent(), 110);
        assert_eq!(reply.into_parts().1, Some(7));
    }

    #[test]
    fn a_reply_of_several_entries_goes_on_wherever_it_was_cut() {
        let body = |sent: u64| {
            let mut plan = Plan::new(Sheet::default(), Status::OK, TERMS, &Stamp::new("", 0));
            plan.end_of_head();
            let head = plan.0.len;
            plan.bytes(b"hello");
            plan.file_of(1_u8, 100, 3);
            plan.memory_of(2, 7..9);
            plan.file_of(3, 5, 0);
            plan.memory_of(4, 9..10);
            plan.memory_of(5, 3..3);
            plan.bytes(b"bye");
            let mut reply = Reply::new(plan);
            reply.advance(head + sent);
            let tell = |segment| match segment {
                Segment::Own(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Segment::Memory(pin, range) => format!("{pin}:{range:?}"),
                Segment::File(pin, offset, len) => format!("{pin}:{offset}+{len}"),
            };
            let left = reply.segments_of_several().map(tell).collect::<Vec<_>>().join(" ");
            let (mut sheet, pin) = reply.into_parts();
            assert_eq!(pin, None);
            assert_eq!(sheet.take_several().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
            assert_eq!(sheet.take_several().next(), None);
            left
        };
        for (sent, left) in [
            (0, "hello 1:100+3 2:7..9 4:9..10 bye"),
            (5, "1:100+3 2:7..9 4:9..10 bye"),
            (7, "1:102+1 2:7..9 4:9..10 bye"),
            (9, "2:8..9 4:9..10 bye"),
            (10, "4:9..10 bye"),
            (13, "e"),
        ] {
            assert_eq!(body(sent), left);
        }
    }
}
