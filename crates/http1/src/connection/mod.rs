//! The server's side of one connection, as a state machine without IO.
//!
//! Reading and writing are two enums. [`Connection::receive`] changes the first, [`Connection::sent`] the
//! second. Whatever concerns both (is this exchange over, what comes next) is decided in one place,
//! [`Connection::turn`]. Only this state outlives a call: no socket, clock, buffer or callback. So a
//! connection is `Send`. It can move between threads, be kept on a coroutine's stack, or be named by a
//! slab handle between the stages of a pipeline.
//!
//! Timers are lazy. A deadline is stored when something begins. The driver keeps one wake-up per
//! connection. When it fires, the driver calls [`Connection::deadline`] again. Rates (of a body, of a
//! client that reads) are checked only then.

mod scan;

use std::ops::Range;

use crate::chunked::{ChunkDecoder, Chunked};
use crate::error::{ErrorKind, ProtocolError};
use crate::head::{self, Expectation, Framing, Head, Parsed, Terms, Version};
use crate::limits::{Limits, Timeouts};
use crate::plan::{Plan, Reply, Segment, Segments, Sheet};
use crate::{Status, Tick};
use scan::Scan;

/// The result of [`Connection::receive`].
#[derive(Debug)]
pub enum Step<'a> {
    /// The input has nothing more to process: keep what was not consumed, and call again with more.
    NeedInput,
    /// A reply is in progress. Keep the input for later, and do not read more.
    Paused,
    /// A request. Answer it with [`Connection::respond`].
    Request(Head<'a>),
    /// A request that was read, but is refused as a protocol violation would be. Answer it with
    /// [`Connection::respond`] on the terms of [`Connection::error_terms`], which ends the connection.
    Refused(Head<'a>, ProtocolError),
    /// A piece of the request's body: this range of the input. Only a caller that [invited the
    /// body](Connection::invite_body) needs it.
    Body(Range<usize>),
    /// The request's body is complete. Not returned for requests without a body.
    EndOfRequest,
    /// Nothing more will be read as HTTP. [`Connection::wants`] tells how to end.
    Closed,
}

/// What the connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// More input.
    pub read: bool,
    /// To send [`Connection::output`].
    pub write: bool,
    /// To end, and in which way.
    pub end: End,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not yet.
    Open,
    /// Shut down writing, call [`Connection::write_side_shut`], and read on until the client closes.
    /// Closing with unread bytes would reset the connection and could destroy the reply in transit (RFC
    /// 9112 section 9.6).
    ShutDown,
    /// Close.
    Close,
    /// Reset: a promise cannot be kept, and the client must notice.
    Reset,
}

/// The timers of a connection, one of which decides its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// The head of a request must be complete.
    Header,
    /// The body of a request must have made progress.
    Body,
    /// The reply must have made progress.
    Write,
    /// The next request must have begun.
    Idle,
    /// The client must have closed.
    Linger,
}

/// The result of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The deadline has moved: call [`Connection::deadline`].
    NotYet,
    /// The client gets an error: send this one with [`Connection::respond`].
    Answer(TimerKind, ProtocolError),
    /// The connection ends: see [`Connection::wants`].
    Ended(TimerKind),
}

/// The remains of a reply that is over: see [`Connection::release`].
#[derive(Debug)]
pub struct Ended<P> {
    /// The sheet that the plan was written on.
    pub sheet: Sheet<P>,
    /// The plan's pin.
    pub pin: Option<P>,
    /// The reply's status.
    pub status: Status,
    /// Bytes of body sent, without framing.
    pub body_sent: u64,
    /// Whether all of it was sent.
    pub complete: bool,
}

/// The state of one connection in the server's role.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts about the client and the server, in any combination"
)]
pub struct Connection<P> {
    reading: Reading,
    writing: Writing,
    /// The reply in progress, or one that is over and must be released.
    reply: Option<Reply<P>>,
    ending: Ending,
    /// Requests announced so far.
    requests: u32,
    /// When the client must have sent what reading waits for.
    read_deadline: Tick,
    /// When the reply must have made progress.
    write_deadline: Tick,
    /// Bytes of the reply sent when `write_deadline` was set.
    write_mark: u64,
    /// Since when the server keeps the client waiting, if it does.
    stalled: Option<Tick>,
    /// The client has shut down its side, so no more input will come.
    eof: bool,
    /// The current exchange is the last one.
    last: bool,
    /// The client announced that it sends nothing after this request, so there is no need to linger.
    client_closes: bool,
    /// The next request will be the last.
    draining: bool,
    /// The current or failed request is HEAD, which is never answered with content.
    is_head: bool,
}

/// How input is interpreted.
#[derive(Debug)]
enum Reading {
    /// As a head that has begun or will begin.
    Head(Scan),
    /// As the body of the current request.
    Body(Body),
    /// Not at all: the request is complete, but its reply is not.
    Waiting,
    /// Never again.
    Over,
}

/// A body that is being received.
#[derive(Debug)]
struct Body {
    framing: BodyFraming,
    /// Bytes of data so far, without chunk framing.
    data: u64,
    /// Bytes received since the deadline was set, including framing.
    progress: u64,
    /// Set if the client waits for an invitation to send the body: whether the connection may stay open
    /// after an invitation.
    awaits_invitation: Option<bool>,
}

#[derive(Debug)]
enum BodyFraming {
    Length(u64),
    Chunked(ChunkDecoder),
}

/// What there is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    /// There is no request and no reply.
    Idle,
    /// A request (or an error) that has not been answered.
    Due,
    /// The reply is being sent.
    Reply,
    /// The whole reply has been sent, and must be released.
    Complete,
    /// The rest of the reply will not be sent, and the reply must be released.
    BrokenOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Open,
    ShutDown,
    /// Writing is to be shut down, but something must be said before that, for which the client has to make
    /// room by its deadline.
    LastWords,
    Draining,
    Close,
    /// As `Close`, with something that could not be sent.
    Broken,
    Reset,
}

impl<P> Connection<P> {
    /// A connection that was accepted at `now`.
    pub fn new(now: Tick, limits: &Limits) -> Self {
        Self {
            reading: Reading::Head(Scan::default()),
            writing: Writing::Idle,
            reply: None,
            ending: Ending::Open,
            requests: 0,
            read_deadline: now.after(limits.timeouts.header),
            write_deadline: now,
            write_mark: 0,
            stalled: None,
            eof: false,
            last: false,
            client_closes: false,
            draining: false,
            is_head: false,
        }
    }

    /// From `now` on the client can send its first request: what came before on the connection, such as a
    /// handshake of TLS, is over. The head has its whole time from now.
    pub fn can_begin(&mut self, limits: &Limits, now: Tick) {
        self.read_deadline = now.after(limits.timeouts.header);
    }

    /// Takes input that starts at the first byte not consumed yet. Returns how much of it was consumed
    /// and what it means. `eof`: the client will send nothing more. Call again with the rest until the
    /// step is [`NeedInput`](Step::NeedInput), [`Paused`](Step::Paused) or [`Closed`](Step::Closed).
    ///
    /// # Errors
    ///
    /// A protocol violation, returned once; later calls return [`Closed`](Step::Closed). If the
    /// connection [owes an answer](Self::owes_answer), send one with [`respond`](Self::respond) on the
    /// terms of [`error_terms`](Self::error_terms). That ends the connection.
    #[inline]
    pub fn receive<'a>(
        &mut self,
        limits: &Limits,
        now: Tick,
        input: &'a [u8],
        eof: bool,
    ) -> Result<(usize, Step<'a>), ProtocolError> {
        self.eof |= eof;
        match &mut self.reading {
            // An unreleased reply leaves no room for the next one.
            Reading::Head(_) if self.writing != Writing::Idle => Ok((0, Step::Paused)),
            Reading::Head(_) => self.receive_head(limits, now, input),
            Reading::Body(_) => self.receive_body(limits, now, input),
            Reading::Waiting => Ok((0, Step::Paused)),
            Reading::Over => {
                match self.ending {
                    Ending::ShutDown | Ending::LastWords | Ending::Draining if self.eof => {
                        self.ending = Ending::Close;
                    }
                    // The client had announced that it sends nothing more, but did.
                    Ending::Close if self.client_closes && !self.eof && !input.is_empty() => {
                        self.ending = Ending::ShutDown;
                    }
                    _ => {}
                }
                Ok((input.len(), Step::Closed))
            }
        }
    }

    /// Answers the last announced request or error.
    #[inline]
    pub fn respond(&mut self, limits: &Limits, now: Tick, plan: Plan<P>) {
        debug_assert_eq!(self.writing, Writing::Due);
        self.last |= !plan.persistent();
        self.write_deadline = now.after(limits.timeouts.write);
        self.write_mark = 0;
        self.writing = Writing::Reply;
        self.reply = Some(Reply::new(plan));
    }

    /// Requests the body of the last announced request. Returns `Some` if the client waits for an interim
    /// reply of 100 (Continue), which must be sent. The value is whether the connection may stay open
    /// after the answer; the request's terms did not know that.
    pub fn invite_body(&mut self) -> Option<bool> {
        debug_assert!(self.owes_answer());
        let Reading::Body(body) = &mut self.reading else { return None };
        let is_persistent = body.awaits_invitation.take()? && !self.draining;
        self.last = !is_persistent;
        Some(is_persistent)
    }

    /// Reports that other code has sent a complete answer to the last announced request, on a socket that
    /// was lent for that: for example an [open reply](crate::OpenReply). `persistent`: the answer did not
    /// announce the end of the connection. The request's body, if any, may have been
    /// [received](Self::receive) before that or not.
    pub fn returned(&mut self, limits: &Limits, now: Tick, persistent: bool) {
        debug_assert!(self.owes_answer());
        self.last |= !persistent;
        self.writing = Writing::Idle;
        self.turn(limits, now);
    }

    /// Whether a request or an error was announced and has not been answered.
    pub fn owes_answer(&self) -> bool {
        self.writing == Writing::Due
    }

    /// The terms of an answer to an error: HTTP/1.1, closing, with content unless the request was HEAD.
    pub fn error_terms(&self) -> Terms {
        Terms { version: Version::Http11, persistent: false, body: !self.is_head }
    }

    /// What to send next, in order; empty if there is nothing. Borrowed until [`sent`](Self::sent). A
    /// reply [from several entries](Self::is_of_several) is in
    /// [`output_of_several`](Self::output_of_several).
    pub fn output(&self) -> impl Iterator<Item = Segment<'_, P>> {
        match &self.reply {
            Some(reply) if self.is_replying() => reply.segments(),
            _ => Segments::none(),
        }
    }

    /// Whether the reply comes from several entries.
    #[inline]
    pub fn is_of_several(&self) -> bool {
        self.reply.as_ref().is_some_and(Reply::is_of_several)
    }

    /// What to send next of such a reply. Separate, so that other replies need not search for their pin.
    pub fn output_of_several(&self) -> impl Iterator<Item = Segment<'_, P>> {
        self.reply.iter().filter(|_| self.is_replying()).flat_map(Reply::segments_of_several)
    }

    /// The pins of a reply that has not been [released](Self::release).
    pub fn pins(&self) -> impl Iterator<Item = &P> {
        self.reply.iter().flat_map(Reply::pins)
    }

    /// Whether to close the connection right after the current reply, because the client will send
    /// nothing more. If the client announced that but there is input, pass the input to
    /// [`receive`](Self::receive) first.
    pub fn closes_after_reply(&self) -> bool {
        self.last && (self.eof || self.client_closes) && !self.is_reading_body()
    }

    /// Whether a reply is being sent.
    #[inline]
    pub fn is_replying(&self) -> bool {
        self.writing == Writing::Reply
    }

    /// Records that `n` more bytes of the output were sent.
    #[inline]
    pub fn sent(&mut self, limits: &Limits, now: Tick, n: u64) {
        if self.writing == Writing::Reply
            && let Some(reply) = &mut self.reply
        {
            reply.advance(n);
            if reply.is_complete() {
                self.end_reply(true);
                self.turn(limits, now);
            }
        }
    }

    /// Records that nothing more can be sent to the client.
    pub fn send_failed(&mut self) {
        self.end_reply(false);
        self.client_closes = false;
        self.reading = Reading::Over;
        self.ending = Ending::Broken;
    }

    /// Resets the connection, as the reply cannot be completed (its file changed, or the server must
    /// exit).
    pub fn abort(&mut self) {
        self.end_reply(false);
        self.reading = Reading::Over;
        self.ending = Ending::Reset;
    }

    /// Whether there is a finished reply to be [released](Self::release).
    #[inline]
    pub fn has_finished_reply(&self) -> bool {
        matches!(self.writing, Writing::Complete | Writing::BrokenOff)
    }

    /// Returns what a reply held, once the reply is over and the kernel no longer uses its bytes.
    #[inline]
    pub fn release(&mut self) -> Option<Ended<P>> {
        if !self.has_finished_reply() {
            return None;
        }
        let complete = std::mem::replace(&mut self.writing, Writing::Idle) == Writing::Complete;
        let reply = self.reply.take()?;
        let (status, body_sent) = (reply.status(), reply.body_sent());
        let (sheet, pin) = reply.into_parts();
        Some(Ended { sheet, pin, status, body_sent, complete })
    }

    /// What the connection waits for, derived from its state alone.
    #[inline]
    pub fn wants(&self) -> Wants {
        Wants { read: self.wants_input(), write: self.is_replying(), end: self.wants_end() }
    }

    /// Whether the connection waits for more input.
    #[inline]
    pub fn wants_input(&self) -> bool {
        match self.reading {
            Reading::Head(_) | Reading::Body(_) => !self.eof,
            Reading::Waiting => false,
            Reading::Over => self.ending == Ending::Draining,
        }
    }

    /// Whether to end the connection, and in which way.
    #[inline]
    pub fn wants_end(&self) -> End {
        match self.ending {
            Ending::Open | Ending::Draining => End::Open,
            Ending::ShutDown | Ending::LastWords => End::ShutDown,
            Ending::Close | Ending::Broken => End::Close,
            Ending::Reset => End::Reset,
        }
    }

    /// Reports that writing has been shut down, as [`End::ShutDown`] requires.
    pub fn write_side_shut(&mut self, limits: &Limits, now: Tick) {
        self.ending = if self.eof { Ending::Close } else { Ending::Draining };
        self.read_deadline = now.after(limits.timeouts.linger);
    }

    /// Reports that something must be said before writing is shut down, and that the client has not made room
    /// for it. Its deadline runs from the first such report.
    pub fn shut_down_waits(&mut self, limits: &Limits, now: Tick) {
        if self.ending == Ending::ShutDown {
            self.ending = Ending::LastWords;
            self.read_deadline = now.after(limits.timeouts.linger);
        }
    }

    /// Whether something that was owed, or was being sent, could not be sent.
    pub fn is_broken(&self) -> bool {
        self.ending == Ending::Broken
    }

    /// Makes the next answered request the last one, and its reply announces that. A request whose head
    /// is being read counts as next. Returns whether this was not set before.
    pub fn drain(&mut self) -> bool {
        !std::mem::replace(&mut self.draining, true)
    }

    /// Closes a connection that is between requests. Returns whether it was.
    pub fn close_if_idle(&mut self) -> bool {
        let idle = self.is_idle();
        if idle {
            self.reading = Reading::Over;
            // After a reply, the client may be sending the next request. It should see an orderly end,
            // not a reset.
            self.ending = if self.requests > 0 { Ending::ShutDown } else { Ending::Close };
        }
        idle
    }

    /// Whether the connection is between requests, and no byte of the next one has arrived.
    pub fn is_idle(&self) -> bool {
        matches!(&self.reading, Reading::Head(scan) if !scan.begun()) && self.writing == Writing::Idle
    }

    /// Whether the exchange is over and only the client's close is awaited.
    pub fn is_lingering(&self) -> bool {
        matches!(self.ending, Ending::ShutDown | Ending::LastWords | Ending::Draining)
    }

    /// Whether a request's head is being received.
    pub fn is_reading_head(&self) -> bool {
        matches!(&self.reading, Reading::Head(scan) if scan.begun())
    }

    /// Whether a request's body is being received.
    pub fn is_reading_body(&self) -> bool {
        matches!(self.reading, Reading::Body(_))
    }

    /// How many bytes of the request's body are still to come, if its head declares a length (RFC 9112
    /// section 6.2). `None`: there is no body, or it is chunked.
    pub fn body_left(&self) -> Option<u64> {
        match &self.reading {
            Reading::Body(Body { framing: BodyFraming::Length(left), .. }) => Some(*left),
            _ => None,
        }
    }

    /// Requests announced so far.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// From now on the server keeps the client waiting, for a reason that is not the client's. There is
    /// no deadline until [`resume`](Self::resume).
    pub fn stall(&mut self, now: Tick) {
        self.stalled.get_or_insert(now);
    }

    /// Lets the client's time run again, with as much left as when it was stopped.
    pub fn resume(&mut self, now: Tick) {
        if let Some(since) = self.stalled.take() {
            let stopped = now.remaining(since);
            self.read_deadline = self.read_deadline.after(stopped);
            self.write_deadline = self.write_deadline.after(stopped);
        }
    }

    /// When to call [`timeout`](Self::timeout), unless the deadline moves earlier. `None`: the connection
    /// waits for the server only.
    #[inline]
    pub fn deadline(&self) -> Option<Tick> {
        if self.stalled.is_some() {
            return None;
        }
        let read = match self.reading {
            Reading::Head(_) | Reading::Body(_) => Some(self.read_deadline),
            Reading::Over if matches!(self.ending, Ending::Draining | Ending::LastWords) => {
                Some(self.read_deadline)
            }
            Reading::Waiting | Reading::Over => None,
        };
        let write = self.is_replying().then_some(self.write_deadline);
        match (read, write) {
            (Some(read), Some(write)) => Some(read.earlier(write)),
            (read, write) => read.or(write),
        }
    }

    /// Handles the deadlines that have come by `now`.
    pub fn timeout(&mut self, limits: &Limits, now: Tick) -> Timeout {
        let timeouts = &limits.timeouts;
        if self.stalled.is_some() {
            return Timeout::NotYet;
        }
        if self.writing == Writing::Reply
            && let Some(reply) = &self.reply
            && self.write_deadline.reached(now)
        {
            if reply.sent - self.write_mark < Timeouts::progress(timeouts.write, timeouts.write_rate) {
                self.abort();
                return Timeout::Ended(TimerKind::Write);
            }
            self.write_mark = reply.sent;
            self.write_deadline = now.after(timeouts.write);
        }
        if !self.read_deadline.reached(now) {
            return Timeout::NotYet;
        }
        if let Reading::Body(body) = &mut self.reading
            && body.progress >= Timeouts::progress(timeouts.body, timeouts.body_rate)
        {
            body.progress = 0;
            self.read_deadline = now.after(timeouts.body);
            return Timeout::NotYet;
        }
        self.give_up_reading()
    }

    /// Ends the wait for the client at once, as if its deadline had come: another client needs the slot.
    /// [`Timeout::NotYet`] if the connection waits for the server.
    pub fn give_up(&mut self) -> Timeout {
        if self.writing == Writing::Reply {
            self.abort();
            return Timeout::Ended(TimerKind::Write);
        }
        self.give_up_reading()
    }

    fn give_up_reading(&mut self) -> Timeout {
        match &self.reading {
            Reading::Head(scan) if scan.begun() => self.refuse(TimerKind::Header, ErrorKind::HeaderTimeout),
            Reading::Head(_) => {
                let kind = if self.requests == 0 { TimerKind::Header } else { TimerKind::Idle };
                self.reading = Reading::Over;
                self.ending = Ending::Close;
                Timeout::Ended(kind)
            }
            Reading::Body(_) => self.refuse(TimerKind::Body, ErrorKind::BodyTimeout),
            Reading::Over if matches!(self.ending, Ending::Draining | Ending::LastWords) => {
                self.ending = Ending::Close;
                Timeout::Ended(TimerKind::Linger)
            }
            Reading::Waiting | Reading::Over => Timeout::NotYet,
        }
    }

    #[inline]
    fn receive_head<'a>(
        &mut self,
        limits: &Limits,
        now: Tick,
        input: &'a [u8],
    ) -> Result<(usize, Step<'a>), ProtocolError> {
        if input.is_empty() && !self.eof {
            return Ok((0, Step::NeedInput));
        }
        let Reading::Head(scan) = &mut self.reading else { unreachable!("called in this state only") };
        let begun = scan.begun();
        // A client may send empty lines before a request (RFC 9112 section 2.2).
        let blank = if begun { 0 } else { scan::leading_blank(input) };
        // Nearly every head arrives whole. Otherwise the scanner determines whether the head is
        // incomplete or wrong.
        let mut parsed = if !begun
            && let Ok(parsed) = head::parse(&input[blank..])
            && scan::is_within(parsed.extent, limits)
        {
            parsed
        } else {
            match self.receive_part_of_head(limits, now, input, blank)? {
                Ok(parsed) => parsed,
                Err(none) => return Ok(none),
            }
        };
        let refused = self.begin_request(limits, now, &mut parsed);
        let used = blank + parsed.extent.head as usize;
        Ok(match refused {
            None => (used, Step::Request(parsed.head)),
            Some(error) => (used, Step::Refused(parsed.head, error)),
        })
    }

    /// Continues with a head that does not arrive whole, or has an error. If there is no complete head
    /// yet, returns what was consumed and the step.
    #[cold]
    fn receive_part_of_head<'a>(
        &mut self,
        limits: &Limits,
        now: Tick,
        input: &'a [u8],
        blank: usize,
    ) -> Result<Result<Parsed<'a>, (usize, Step<'a>)>, ProtocolError> {
        let Reading::Head(scan) = &mut self.reading else { unreachable!("called in this state only") };
        let (was_begun, input) = (scan.begun(), &input[blank..]);
        self.is_head = input.starts_with(b"HEAD ");
        if !was_begun && input == b"\r" && !self.eof {
            // The first half of another empty line, or an error.
            return Ok(Err((blank, Step::NeedInput)));
        }
        let end = match scan.find_end(input, limits) {
            Ok(Some(end)) => end,
            Ok(None) if self.eof => {
                if scan.begun() {
                    return Err(self.fail(ErrorKind::CutShort));
                }
                self.reading = Reading::Over;
                self.ending = Ending::Close;
                return Ok(Err((blank + input.len(), Step::Closed)));
            }
            Ok(None) => {
                if !was_begun && scan.begun() && self.requests > 0 {
                    self.read_deadline = now.after(limits.timeouts.header);
                }
                return Ok(Err((blank, Step::NeedInput)));
            }
            Err(kind) => return Err(self.fail(kind)),
        };
        match head::parse_again(&input[..end]) {
            Ok(parsed) => Ok(Ok(parsed)),
            Err(kind) => Err(self.fail(kind)),
        }
    }

    /// Handles a complete head, and decides the terms of its reply. Returns why the request is refused,
    /// if it is. Reading ends then.
    #[inline]
    fn begin_request(
        &mut self,
        limits: &Limits,
        now: Tick,
        parsed: &mut Parsed<'_>,
    ) -> Option<ProtocolError> {
        let terms = &mut parsed.head.terms;
        self.requests += 1;
        self.is_head = !terms.body;
        self.client_closes = !terms.persistent;
        match parsed.framing {
            Framing::Length(length) if length > limits.body => {
                return Some(self.fail(ErrorKind::BodyTooLarge));
            }
            _ if parsed.expectation == Expectation::Unknown => {
                return Some(self.fail(ErrorKind::Expectation));
            }
            Framing::None => self.reading = Reading::Waiting,
            Framing::Length(length) => self.begin_body(limits, now, BodyFraming::Length(length)),
            Framing::Chunked => self.begin_body(limits, now, BodyFraming::Chunked(ChunkDecoder::new())),
        }
        terms.persistent &= !self.draining && self.requests < limits.requests;
        if parsed.expectation != Expectation::None {
            self.await_invitation(terms);
        }
        self.last = !terms.persistent;
        self.writing = Writing::Due;
        None
    }

    fn begin_body(&mut self, limits: &Limits, now: Tick, framing: BodyFraming) {
        self.client_closes = false;
        self.read_deadline = now.after(limits.timeouts.body);
        self.reading = Reading::Body(Body { framing, data: 0, progress: 0, awaits_invitation: None });
    }

    /// A client that waits for 100 (Continue) gets the final status instead, unless the body [is
    /// invited](Self::invite_body). Whether the client then sends the body is unknown, so the connection
    /// ends with the reply (RFC 9110 section 10.1.1). This also applies if the body has already arrived:
    /// the result must not depend on how the network split the request.
    #[cold]
    fn await_invitation(&mut self, terms: &mut Terms) {
        let is_persistent = std::mem::replace(&mut terms.persistent, false);
        if let Reading::Body(body) = &mut self.reading {
            body.awaits_invitation = Some(is_persistent);
        }
    }

    fn receive_body<'a>(
        &mut self,
        limits: &Limits,
        now: Tick,
        input: &'a [u8],
    ) -> Result<(usize, Step<'a>), ProtocolError> {
        let Reading::Body(body) = &mut self.reading else { unreachable!("called in this state only") };
        let (consumed, step) = match body.take(limits, input) {
            Ok(taken) => taken,
            Err(kind) => return Err(self.fail(kind)),
        };
        match step {
            Step::EndOfRequest => {
                self.reading = Reading::Waiting;
                self.turn(limits, now);
            }
            Step::NeedInput if self.eof => return Err(self.fail(ErrorKind::CutShort)),
            _ => {}
        }
        Ok((consumed, step))
    }

    /// The one place where reading and writing meet. After its reply is sent, an exchange ends the
    /// connection. Or, if its request is complete too, the next exchange can begin.
    #[inline]
    fn turn(&mut self, limits: &Limits, now: Tick) {
        if !matches!(self.writing, Writing::Complete | Writing::Idle) {
            return;
        }
        if self.last {
            self.reading = Reading::Over;
            // If the client sends nothing more, no unread bytes can cause a reset. So there is no need to
            // linger.
            self.ending = if self.eof || self.client_closes { Ending::Close } else { Ending::ShutDown };
        } else if matches!(self.reading, Reading::Waiting) {
            self.reading = Reading::Head(Scan::default());
            self.read_deadline = now.after(limits.timeouts.idle);
        }
    }

    /// Ends reading after a protocol violation. If the current or failed request has not been answered,
    /// it gets an error reply. Otherwise the reply in progress is the last thing sent.
    fn fail(&mut self, kind: ErrorKind) -> ProtocolError {
        let in_head = matches!(self.reading, Reading::Head(_));
        self.reading = Reading::Over;
        self.last = true;
        self.client_closes = false;
        match self.writing {
            Writing::Idle if in_head => self.writing = Writing::Due,
            Writing::Idle | Writing::Complete | Writing::BrokenOff => self.ending = Ending::ShutDown,
            Writing::Due | Writing::Reply => {}
        }
        kind.into()
    }

    fn refuse(&mut self, timer: TimerKind, kind: ErrorKind) -> Timeout {
        let error = self.fail(kind);
        if self.owes_answer() { Timeout::Answer(timer, error) } else { Timeout::Ended(timer) }
    }

    #[inline]
    fn end_reply(&mut self, complete: bool) {
        self.writing = match self.writing {
            Writing::Reply if complete => Writing::Complete,
            Writing::Reply => Writing::BrokenOff,
            over @ (Writing::Complete | Writing::BrokenOff) => over,
            Writing::Idle | Writing::Due => Writing::Idle,
        };
    }
}

impl Body {
    /// Takes the next piece of the body from `input`. A chunk that exceeds the limit is refused once its
    /// size is known. So how much of it is received does not depend on how it arrived.
    fn take<'a>(&mut self, limits: &Limits, input: &'a [u8]) -> Result<(usize, Step<'a>), ErrorKind> {
        let (consumed, step) = match &mut self.framing {
            BodyFraming::Length(0) => (0, Step::EndOfRequest),
            BodyFraming::Length(_) if input.is_empty() => (0, Step::NeedInput),
            BodyFraming::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= taken as u64;
                (taken, Step::Body(0..taken))
            }
            BodyFraming::Chunked(decoder) => {
                let (consumed, chunked) = decoder.decode(input).map_err(|_| ErrorKind::Chunk)?;
                let step = match chunked {
                    Chunked::NeedInput => Step::NeedInput,
                    Chunked::Data(range) => {
                        self.data += range.len() as u64;
                        Step::Body(range)
                    }
                    Chunked::End => Step::EndOfRequest,
                };
                if self.data.saturating_add(decoder.data_left()) > limits.body {
                    return Err(ErrorKind::BodyTooLarge);
                }
                (consumed, step)
            }
        };
        self.progress += consumed as u64;
        Ok((consumed, step))
    }
}
