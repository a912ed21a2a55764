//! A reply whose body is still being generated while it is sent, for example by an application.
//!
//! It is a state machine without IO, separate from the [`Connection`](crate::Connection) whose client it
//! answers. The code that generates such a reply has the client's socket for that time. When the reply is
//! over, that code [returns](crate::Connection::returned) the client.
//!
//! The head is complete when the reply is [opened](crate::Plan::open). The body is
//! [supplied](OpenReply::supply) in parts, and framed as the client's version requires. Supplied bytes
//! wait here until they are sent. The supplier checks how much is [`left`](OpenReply::left), and pauses
//! while that is much. A part of a body may [be elsewhere](OpenReply::supply_elsewhere), in memory that
//! only the supplier knows. Then this module keeps its range, not its bytes.
//!
//! The client's time runs only while there is something for the client to take. It must take that at the
//! rate [`Timeouts::write_rate`].

use std::collections::VecDeque;
use std::ops::Range;

use crate::limits::{Limits, Timeouts};
use crate::plan::{Plan, Sheet};
use crate::{Status, Tick, Version};

/// A reply that is sent while it is generated. `P` is the server's pin on an open-file-table entry; this
/// reply has none.
#[derive(Debug)]
pub struct OpenReply<P> {
    sheet: Sheet<P>,
    status: Status,
    is_persistent: bool,
    frame: Frame,
    is_finished: bool,
    /// Bytes of the sheet that have been sent.
    gone: usize,
    /// The unsent parts that are elsewhere, in order, and their total bytes.
    elsewhere: VecDeque<Elsewhere>,
    left_elsewhere: u64,
    /// Bytes of body supplied, and total bytes sent.
    body: u64,
    sent: u64,
    period: Option<Period>,
}

/// A part of the body that is elsewhere.
#[derive(Debug)]
struct Elsewhere {
    /// How much of the sheet comes before it.
    behind: usize,
    /// Its range there.
    range: Range<u64>,
}

/// A run of bytes to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run<'a> {
    /// The reply's own bytes.
    Own(&'a [u8]),
    /// A part that is elsewhere: the range that was supplied, or the rest of it.
    Elsewhere(Range<u64>),
}

/// What tells the client where the body ends (RFC 9112 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// A length. This much is still to be supplied.
    Length(u64),
    /// The last chunk.
    Chunked,
    /// The end of the connection.
    Close,
    /// There is no body: supplied bytes are dropped.
    Nothing,
}

/// A period in which the client must take a minimum of bytes.
#[derive(Clone, Copy, Debug)]
struct Period {
    ends: Tick,
    /// Bytes sent when it began.
    mark: u64,
}

/// What comes after the last chunk: no trailer fields.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// The end of a line, and of a chunk's data.
const LINE_END: &[u8] = b"\r\n";
/// Moves unsent bytes to the front once this many sent bytes are before them.
const WORTH_MOVING: usize = 32 << 10;

impl<P> Plan<P> {
    /// Completes the head of a reply whose body is still being generated. `length` is the length of the
    /// body, if known. Without a length, the plan's terms must be [those for
    /// that](crate::Terms::of_unknown_length). If the request's method or the status allows no body,
    /// supplied bytes are dropped.
    pub fn open(mut self, length: Option<u64>, limits: &Limits, now: Tick) -> OpenReply<P> {
        let (status, terms) = (self.0.status, self.0.terms);
        debug_assert!(length.is_some() || terms == terms.of_unknown_length());
        let frame = match length {
            Some(length) => {
                if !status.is_bodiless() {
                    self.field("Content-Length", itoa::Buffer::new().format(length).as_bytes());
                }
                Frame::Length(length)
            }
            None if terms.version == Version::Http10 => Frame::Close,
            None => {
                if terms.body {
                    self.field("Transfer-Encoding", b"chunked");
                }
                Frame::Chunked
            }
        };
        self.bytes(LINE_END);
        self.begin(if terms.body { frame } else { Frame::Nothing }, limits, now)
    }
}

impl<P> Plan<P> {
    /// Completes the head of a reply that switches to another protocol, which the plan's Upgrade field names
    /// (101, RFC 9110 section 7.8). What is supplied then belongs to that protocol, and is sent as it is. The
    /// connection ends with it. The plan's terms must be persistent, so that its head does not say so.
    pub fn switch(mut self, limits: &Limits, now: Tick) -> OpenReply<P> {
        debug_assert!(self.0.status == Status::SWITCHING_PROTOCOLS && self.0.terms.persistent);
        self.field("Connection", b"upgrade");
        self.bytes(LINE_END);
        OpenReply { is_persistent: false, ..self.begin(Frame::Close, limits, now) }
    }

    /// The reply whose head is complete.
    fn begin(self, frame: Frame, limits: &Limits, now: Tick) -> OpenReply<P> {
        OpenReply {
            status: self.0.status,
            is_persistent: self.0.terms.persistent,
            frame,
            is_finished: false,
            gone: 0,
            elsewhere: VecDeque::new(),
            left_elsewhere: 0,
            body: 0,
            sent: 0,
            period: Some(Period { ends: now.after(limits.timeouts.write), mark: 0 }),
            sheet: Sheet(self.0),
        }
    }
}

impl<P> OpenReply<P> {
    /// Adds to the body. Returns how many of the bytes belong to it: no more than its promised length.
    pub fn supply(&mut self, limits: &Limits, now: Tick, bytes: &[u8]) -> usize {
        let taken = match self.take(bytes.len() as u64) {
            Some(taken) => taken as usize,
            None => return bytes.len(),
        };
        if taken > 0 {
            let is_chunk = self.frame == Frame::Chunked;
            let own = self.room(limits, now);
            if is_chunk {
                begin_chunk(own, taken as u64);
            }
            own.extend_from_slice(&bytes[..taken]);
            if is_chunk {
                own.extend_from_slice(LINE_END);
            }
        }
        taken
    }

    /// The buffer that more of the body may be received into, behind what is there, and how many bytes at
    /// most. Then report them as [`received`](Self::received). `None`: the body is framed, or complete.
    pub fn room_for_body(&mut self) -> Option<(&mut Vec<u8>, u64)> {
        match self.frame {
            Frame::Length(left @ 1..) => Some((self.tidied(), left)),
            _ => None,
        }
    }

    /// Counts `count` bytes that were received into the [room](Self::room_for_body) for them.
    pub fn received(&mut self, limits: &Limits, now: Tick, count: usize) {
        if count > 0 && self.left() == count as u64 {
            self.begin_period(limits, now);
        }
        self.take(count as u64);
    }

    /// Like [`supply`](Self::supply), for bytes that are elsewhere. They must stay unchanged there until
    /// they are [sent](Self::left_elsewhere).
    pub fn supply_elsewhere(&mut self, limits: &Limits, now: Tick, range: Range<u64>) -> u64 {
        let length = range.end - range.start;
        let Some(taken) = self.take(length) else { return length };
        if taken > 0 {
            let is_chunk = self.frame == Frame::Chunked;
            let own = self.room(limits, now);
            if is_chunk {
                begin_chunk(own, taken);
            }
            let behind = own.len();
            if is_chunk {
                own.extend_from_slice(LINE_END);
            }
            self.elsewhere.push_back(Elsewhere { behind, range: range.start..range.start + taken });
            self.left_elsewhere += taken;
        }
        taken
    }

    /// How many of `length` more bytes belong to the body. `None`: none must be sent.
    fn take(&mut self, length: u64) -> Option<u64> {
        let taken = match &mut self.frame {
            Frame::Nothing => return None,
            Frame::Length(left) => {
                let taken = length.min(*left);
                *left -= taken;
                taken
            }
            Frame::Chunked | Frame::Close => length,
        };
        self.body += taken;
        Some(taken)
    }

    /// Declares that the body is complete. Returns whether it is as promised. If not, the client must
    /// notice, so the connection must be reset.
    pub fn finish(&mut self, limits: &Limits, now: Tick) -> bool {
        self.is_finished = true;
        match self.frame {
            Frame::Length(left) => left == 0,
            Frame::Chunked => {
                self.room(limits, now).extend_from_slice(LAST_CHUNK);
                true
            }
            Frame::Close | Frame::Nothing => true,
        }
    }

    /// What to send next, up to the first part that is elsewhere.
    pub fn unsent(&self) -> &[u8] {
        let end = self.elsewhere.front().map_or(self.sheet.0.own.len(), |next| next.behind);
        &self.sheet.0.own[self.gone..end]
    }

    /// Everything that can be sent now, in order.
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let own = &self.sheet.0.own;
        let starts = std::iter::once(self.gone).chain(self.elsewhere.iter().map(|run| run.behind));
        let before = starts
            .zip(&self.elsewhere)
            .flat_map(|(from, run)| [Run::Own(&own[from..run.behind]), Run::Elsewhere(run.range.clone())]);
        let last = self.elsewhere.back().map_or(self.gone, |run| run.behind);
        before.chain([Run::Own(&own[last..])]).filter(|run| *run != Run::Own(&[]))
    }

    /// Bytes still to be sent.
    pub fn left(&self) -> u64 {
        self.own_left() as u64 + self.left_elsewhere
    }

    /// Bytes still to be sent that are here, not elsewhere.
    pub fn own_left(&self) -> usize {
        self.sheet.0.own.len() - self.gone
    }

    /// Bytes still to be sent that are elsewhere.
    pub fn left_elsewhere(&self) -> u64 {
        self.left_elsewhere
    }

    /// Records that `n` more bytes were sent.
    pub fn sent(&mut self, mut n: u64) {
        debug_assert!(n <= self.left());
        self.sent += n;
        loop {
            let own = n.min(self.unsent().len() as u64);
            self.gone += own as usize;
            n -= own;
            let Some(next) = self.elsewhere.front_mut().filter(|next| next.behind == self.gone) else {
                break;
            };
            let there = n.min(next.range.end - next.range.start);
            next.range.start += there;
            self.left_elsewhere -= there;
            n -= there;
            if next.range.start < next.range.end {
                break;
            }
            self.elsewhere.pop_front();
        }
        if self.left() == 0 {
            self.period = None;
        }
    }

    /// Whether the whole reply has been generated and sent.
    pub fn is_complete(&self) -> bool {
        self.is_finished && self.left() == 0
    }

    /// Bytes of the body that were not supplied yet, if its length was declared; 0 if there is no body.
    pub fn owed(&self) -> Option<u64> {
        match self.frame {
            Frame::Length(left) => Some(left),
            Frame::Nothing => Some(0),
            Frame::Chunked | Frame::Close => None,
        }
    }

    /// Whether anything has been sent.
    pub fn has_begun(&self) -> bool {
        self.sent > 0
    }

    /// When to check whether the client [is too slow](Self::is_too_slow), if there is something for it to
    /// take.
    pub fn deadline(&self) -> Option<Tick> {
        self.period.map(|period| period.ends)
    }

    /// Whether the client has taken less than required in a period that is over by `now`.
    pub fn is_too_slow(&mut self, limits: &Limits, now: Tick) -> bool {
        let Timeouts { write, write_rate, .. } = limits.timeouts;
        let Some(period) = &mut self.period else { return false };
        if !period.ends.reached(now) {
            return false;
        }
        let taken = self.sent - period.mark;
        *period = Period { ends: now.after(write), mark: self.sent };
        taken < Timeouts::progress(write, write_rate)
    }

    /// The reply's status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether the connection may stay open after the reply.
    pub fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// Bytes of body sent to the client. For a complete reply, that is everything supplied. For any
    /// other, it is at most what was sent, give or take the framing of its chunks.
    pub fn body_sent(&self) -> u64 {
        self.body.saturating_sub(self.left())
    }

    /// The sheet that the reply was written on.
    pub fn into_sheet(self) -> Sheet<P> {
        self.sheet
    }

    /// The buffer for more bytes. Sent bytes are removed to make room.
    fn room(&mut self, limits: &Limits, now: Tick) -> &mut Vec<u8> {
        if self.left() == 0 {
            self.begin_period(limits, now);
        }
        self.tidied()
    }

    fn begin_period(&mut self, limits: &Limits, now: Tick) {
        let ends = now.after(limits.timeouts.write);
        self.period.get_or_insert(Period { ends, mark: self.sent });
    }

    fn tidied(&mut self) -> &mut Vec<u8> {
        let own = &mut self.sheet.0.own;
        if self.gone == own.len() && self.elsewhere.is_empty() {
            own.clear();
            self.gone = 0;
        } else if self.gone >= WORTH_MOVING && self.gone >= own.len() / 2 {
            own.drain(..self.gone);
            self.elsewhere.iter_mut().for_each(|run| run.behind -= self.gone);
            self.gone = 0;
        }
        own
    }
}

/// Writes the line before a chunk's data (RFC 9112 section 7.1).
fn begin_chunk(own: &mut Vec<u8>, length: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = (u64::BITS - length.leading_zeros()).div_ceil(4);
    own.extend((0..digits).rev().map(|at| DIGITS[(length >> (at * 4) & 15) as usize]));
    own.extend_from_slice(LINE_END);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::{ChunkDecoder, Chunked};
    use crate::{Stamp, Terms};

    const TERMS: Terms = Terms { version: Version::Http11, persistent: true, body: true };

    fn open(terms: Terms, status: Status, length: Option<u64>) -> OpenReply<()> {
        let plan = Plan::new(Sheet::default(), status, terms, &Stamp::new("", 0));
        plan.open(length, &Limits::default(), Tick::from_ms(0))
    }

    fn supply(reply: &mut OpenReply<()>, bytes: &[u8]) -> usize {
        reply.supply(&Limits::default(), Tick::from_ms(0), bytes)
    }

    fn finish(reply: &mut OpenReply<()>) -> bool {
        reply.finish(&Limits::default(), Tick::from_ms(0))
    }

    /// Sends at most `step` bytes, and returns them.
    fn send(reply: &mut OpenReply<()>, step: usize) -> Vec<u8> {
        let sent = reply.unsent()[..reply.unsent().len().min(step)].to_vec();
        reply.sent(sent.len() as u64);
        sent
    }

    fn unchunked(mut coded: &[u8]) -> Vec<u8> {
        let (mut decoder, mut data) = (ChunkDecoder::new(), Vec::new());
        loop {
            let (used, step) = decoder.decode(coded).unwrap();
            match step {
                Chunked::Data(range) => data.extend_from_slice(&coded[range]),
                Chunked::End => return data,
                Chunked::NeedInput => panic!("it goes on"),
            }
            coded = &coded[used..];
        }
    }

    #[test]
    fn the_end_of_the_body_is_told_as_the_client_understands() {
        let told = |terms: Terms, status, length| {
            let reply = open(terms, status, length);
            let stamp = Stamp::new("", 0);
            let text = String::from_utf8(reply.unsent().to_vec()).unwrap();
            let fields = text.split_once("\r\n").unwrap().1;
            let fields = fields.replace(str::from_utf8(stamp.lines()).unwrap(), "");
            (fields.strip_suffix("\r\n").unwrap().to_owned(), reply.frame)
        };
        let old = Terms { version: Version::Http10, ..TERMS };
        let head = Terms { body: false, ..TERMS };
        for (found, fields, frame) in [
            (told(TERMS, Status::OK, Some(5)), "Content-Length: 5\r\n", Frame::Length(5)),
            (told(TERMS, Status::OK, None), "Transfer-Encoding: chunked\r\n", Frame::Chunked),
            (told(old.of_unknown_length(), Status::OK, None), "Connection: close\r\n", Frame::Close),
            (
                told(old, Status::OK, Some(5)),
                "Connection: keep-alive\r\nContent-Length: 5\r\n",
                Frame::Length(5),
            ),
            (told(head, Status::OK, Some(5)), "Content-Length: 5\r\n", Frame::Nothing),
            (told(head, Status::OK, None), "", Frame::Nothing),
            (told(TERMS, Status::NO_CONTENT, None), "", Frame::Nothing),
            (told(TERMS, Status::NOT_MODIFIED, Some(5)), "", Frame::Nothing),
        ] {
            assert_eq!(found, (fields.to_owned(), frame));
        }
    }

    #[test]
    fn a_switch_is_followed_by_bytes_as_they_are() {
        let stamp = Stamp::new("", 0);
        let mut plan = Plan::<()>::new(Sheet::default(), Status::SWITCHING_PROTOCOLS, TERMS, &stamp);
        plan.field("Upgrade", b"a");
        let mut reply = plan.switch(&Limits::default(), Tick::from_ms(0));
        assert_eq!(supply(&mut reply, b"xyz"), 3);
        assert!(finish(&mut reply) && !reply.is_persistent());
        let text = String::from_utf8(reply.unsent().to_vec()).unwrap();
        assert!(text.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{text}");
        assert!(text.ends_with("Upgrade: a\r\nConnection: upgrade\r\n\r\nxyz"), "{text}");
    }

    #[test]
    fn a_body_grows_while_it_is_sent_and_takes_no_more_room_than_is_unsent() {
        for step in [1, 2, 3, 5, 7, 1000] {
            for length in [None, Some(100_000)] {
                let mut reply = open(TERMS, Status::OK, length);
                let (mut given, mut got) = (Vec::new(), Vec::new());
                for n in 0_u32..10_000 {
                    let data = n.to_le_bytes().repeat(3)[..10].to_vec();
                    assert_eq!(supply(&mut reply, &data), 10);
                    given.extend_from_slice(&data);
                    while reply.unsent().len() > 200 {
                        got.extend(send(&mut reply, step));
                        assert!(!reply.is_complete());
                    }
                    assert!(reply.sheet.0.own.len() < WORTH_MOVING + 500, "sent bytes go");
                }
                assert!(finish(&mut reply));
                while !reply.is_complete() {
                    got.extend(send(&mut reply, step));
                }
                assert_eq!(reply.body_sent(), 100_000);
                let body = memchr::memmem::find(&got, b"\r\n\r\n").unwrap() + 4;
                let body = if length.is_some() { got[body..].to_vec() } else { unchunked(&got[body..]) };
                assert!(body == given);
            }
        }
    }

    #[test]
    fn a_body_can_be_received_where_it_is_sent_from() {
        let (limits, later) = (Limits::default(), Tick::from_ms(60_000));
        let mut reply = open(TERMS, Status::OK, Some(10));
        send(&mut reply, usize::MAX);
        let (room, most) = reply.room_for_body().unwrap();
        assert_eq!((room.len(), most), (0, 10));
        assert_eq!(reply.deadline(), None, "nothing has come");
        for piece in [&b"1234567"[..], b"890"] {
            reply.room_for_body().unwrap().0.extend_from_slice(piece);
            reply.received(&limits, later, piece.len());
        }
        assert_eq!((reply.unsent(), reply.owed()), (&b"1234567890"[..], Some(0)));
        assert_eq!(reply.deadline(), Some(later.after(limits.timeouts.write)));
        assert!(reply.room_for_body().is_none() && finish(&mut reply));
        send(&mut reply, usize::MAX);
        assert!(reply.is_complete() && reply.body_sent() == 10);
        assert!(open(TERMS, Status::OK, None).room_for_body().is_none(), "each chunk has a line before it");
        assert!(open(TERMS, Status::NO_CONTENT, Some(3)).room_for_body().is_none());
    }

    #[test]
    fn a_body_is_neither_longer_nor_shorter_than_promised() {
        let mut long = open(TERMS, Status::OK, Some(3));
        let taken = [supply(&mut long, b"12"), supply(&mut long, b"34"), supply(&mut long, b"5")];
        assert_eq!(taken, [2, 1, 0]);
        assert!(finish(&mut long));
        let mut short = open(TERMS, Status::OK, Some(3));
        supply(&mut short, b"12");
        assert!(!finish(&mut short));
        let mut to_head = open(Terms { body: false, ..TERMS }, Status::OK, Some(3));
        let head = to_head.unsent().len();
        assert_eq!(supply(&mut to_head, b"123456"), 6, "it is dropped");
        assert!(finish(&mut to_head));
        assert_eq!(to_head.unsent().len(), head);
    }

    #[test]
    fn the_clients_time_runs_while_there_is_something_to_take() {
        let limits = Limits::default();
        let Timeouts { write, write_rate, .. } = limits.timeouts;
        let enough = Timeouts::progress(write, write_rate) as usize;
        let begin = Tick::from_ms(0);
        let mut reply = open(TERMS, Status::OK, None);
        assert_eq!(reply.deadline(), Some(begin.after(write)));
        send(&mut reply, usize::MAX);
        assert_eq!(reply.deadline(), None, "it waits for the server");
        let later = begin.after(10 * write);
        assert!(!reply.is_too_slow(&limits, later));
        reply.supply(&limits, later, &vec![b'x'; 3 * enough]);
        assert_eq!(reply.deadline(), Some(later.after(write)));
        send(&mut reply, enough);
        assert!(!reply.is_too_slow(&limits, later.after(write - 1)));
        assert!(!reply.is_too_slow(&limits, later.after(write)), "it has taken enough");
        send(&mut reply, enough - 1);
        assert_eq!(reply.deadline(), Some(later.after(2 * write)));
        assert!(reply.is_too_slow(&limits, later.after(2 * write)), "a byte less is not");
    }

    #[test]
    fn a_sheet_forgets_the_reply_before() {
        let mut first = open(TERMS, Status::OK, None);
        supply(&mut first, &[b'x'; 100]);
        let plan = Plan::new(first.into_sheet(), Status::OK, TERMS, &Stamp::new("", 0));
        let reply = plan.open(Some(0), &Limits::default(), Tick::from_ms(0));
        assert!(!reply.unsent().contains(&b'x'));
    }
}
