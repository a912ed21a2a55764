//! A connection from a web server: receives and sends bytes, and interprets the records.
//!
//! ```text
//! receive --> protocol.receive --> step: body, request, abort, answers to be sent, chunks, descriptor
//! ```
//!
//! Calls block, because the applications that use them do. The body of a request is read from where it was
//! received. A call that must receive something else behind the body (the end of a wait for a client, or for
//! a chunk) first copies the body to [held](Incoming::held), up to a limit.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fastcgi::record::{self, ProtocolStatus};
use fastcgi::transport::{self, Lent};
use fastcgi::{Application, Asked, Begun, Transports, values};
use sys::event::Interest;
use sys::socket::{self, Slice};

use crate::area::{Area, Chunk};

/// A connection, which has one request at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    is_unix: bool,
    admits: Transports,
    protocol: Application,
    input: Box<[u8]>,
    /// The part of `input` that is not interpreted yet.
    unread: Range<usize>,
    /// Descriptors that were received, until their record is complete.
    passed: Vec<OwnedFd>,
    /// The passed descriptor of the request's client, until [`Connection::take_client`] takes it.
    lent: Option<OwnedFd>,
    area: Option<Area>,
    streams: [Incoming; 2],
    is_aborted: bool,
    waits: Waits,
    /// Records to be sent before anything else is sent or awaited.
    pub(crate) out: Vec<u8>,
}

/// The input streams of a request, besides its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Its body.
    Stdin = 0,
    /// The file that a filter is to change.
    Data = 1,
}

/// The state of an input stream.
#[derive(Debug, Default)]
struct Incoming {
    /// The next bytes of it, where they were received.
    part: Range<usize>,
    /// The bytes before them, which were copied out of `input`, and how many of these are consumed.
    held: Vec<u8>,
    used: usize,
    has_ended: bool,
}

/// State of the report to the web server that the application waits for its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Not told: it has not asked for transports.
    Untold,
    /// It has been told, or that was not needed yet.
    Told,
    /// It is to be told as soon as the application waits.
    Due,
}

/// The next thing in the received bytes.
enum Step {
    /// All received bytes have been interpreted.
    NeedInput,
    /// The parameters of a request.
    Request,
    /// A part of a stream, where it was received.
    Part(Source, Range<usize>),
    /// Something that the caller need not act on.
    Done,
}

/// Bytes received at a time.
const INPUT: usize = 16 << 10;
/// Most bytes of a request's parameters.
const MOST_PARAMS: usize = 1 << 20;
/// Most bytes of a request's streams that are held while a call waits for something else.
const MOST_HELD: usize = 64 << 10;
/// If more bytes of answers than this wait to be sent, nothing is received until some are gone.
const MOST_OWED: usize = 64 << 10;
/// Most descriptors that wait for their records: a client's and a memory file.
const MOST_WAITING: usize = 2;
/// How long a web server may take to close a connection that has been ended, whatever it still sends.
const LINGER: Duration = Duration::from_secs(2);

impl Connection {
    /// Wraps an accepted connection. Only Unix sockets pass descriptors; on other sockets the library only
    /// reports when it waits.
    pub(crate) fn new(socket: OwnedFd, is_unix: bool, admits: Transports) -> Self {
        if !is_unix {
            // Replies are sent in few pieces. The last one should not wait for an acknowledgement.
            let _ = socket::send_without_delay(&socket);
        }
        Self {
            socket,
            is_unix,
            admits: if is_unix {
                admits
            } else {
                Transports { waits: admits.waits, ..Transports::default() }
            },
            protocol: Application::new(MOST_PARAMS),
            input: vec![0; INPUT].into_boxed_slice(),
            unread: 0..0,
            passed: Vec::new(),
            lent: None,
            area: None,
            streams: Default::default(),
            is_aborted: false,
            waits: Waits::Untold,
            out: Vec::new(),
        }
    }

    /// The number of its descriptor.
    pub(crate) fn number(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// The request under way.
    pub(crate) fn request(&self) -> Option<Begun> {
        self.protocol.request()
    }

    /// Its parameters.
    pub(crate) fn params(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.protocol.params().flatten()
    }

    /// Takes the client's passed descriptor for the request, and its terms.
    pub(crate) fn take_client(&mut self) -> Option<(OwnedFd, Lent<'_>)> {
        let client = self.lent.take()?;
        Some((client, self.protocol.lent()?))
    }

    /// Whether the web server has given up the request.
    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// The memory for replies, if they go through shared memory.
    pub(crate) fn area(&mut self) -> Option<&mut Area> {
        self.area.as_mut()
    }

    /// Waits for a request.
    ///
    /// # Errors
    ///
    /// The web server is gone (`UnexpectedEof`), which may happen between requests, or it breaks the
    /// protocol. A signal (`Interrupted`) changes nothing.
    pub(crate) fn await_request(&mut self) -> io::Result<()> {
        loop {
            match self.step()? {
                Step::Request => return self.flush(),
                Step::NeedInput => {
                    if self.waits == Waits::Due {
                        transport::waits(&mut self.out);
                        self.waits = Waits::Told;
                    }
                    self.flush()?;
                    self.receive()?;
                }
                Step::Part(..) | Step::Done if self.is_aborted => self.refuse_aborted(),
                Step::Part(..) | Step::Done => {}
            }
        }
    }

    /// Ends a request that the web server gave up before its parameters were complete.
    fn refuse_aborted(&mut self) {
        let Some(begun) = self.request() else { return };
        if self.lent.take().is_some() {
            transport::give_back(&mut self.out, begun.request, UNTOUCHED);
        }
        record::end_request(&mut self.out, begun.request, 0, ProtocolStatus::RequestComplete);
        self.end();
    }

    /// Returns the available bytes of a stream, and waits for more if there are none. Empty: the stream has
    /// ended.
    ///
    /// # Errors
    ///
    /// The web server has given up the request (`ConnectionAborted`), or is gone.
    pub(crate) fn fill(&mut self, source: Source) -> io::Result<&[u8]> {
        while self.streams[source as usize].is_empty() {
            if self.streams[source as usize].has_ended {
                return Ok(&[]);
            }
            match self.step()? {
                Step::Part(of, range) => {
                    self.streams[of as usize].part = range;
                    if of != source {
                        self.hold_all()?;
                    }
                }
                Step::NeedInput => {
                    self.flush()?;
                    uninterrupted(|| self.receive())?;
                }
                Step::Request | Step::Done => {}
            }
            if self.is_aborted {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        let Incoming { part, held, used, .. } = &self.streams[source as usize];
        Ok(if *used < held.len() { &held[*used..] } else { &self.input[part.clone()] })
    }

    /// Consumes that many bytes of a stream, at most the available ones.
    pub(crate) fn consume(&mut self, source: Source, count: usize) {
        let Incoming { part, held, used, .. } = &mut self.streams[source as usize];
        if *used < held.len() {
            *used = held.len().min(*used + count);
        } else {
            part.start = part.end.min(part.start + count);
        }
    }

    /// Whether all of a stream was read.
    pub(crate) fn is_read(&self, source: Source) -> bool {
        let stream = &self.streams[source as usize];
        stream.has_ended && stream.is_empty()
    }

    /// Takes a free chunk of shared memory, or waits for one. `None`: there will be none, because the unread
    /// body of the request blocks the connection.
    pub(crate) fn await_chunk(&mut self) -> io::Result<Option<Chunk>> {
        loop {
            let Some(area) = &mut self.area else { return Ok(None) };
            if let Some(chunk) = area.take() {
                return Ok(Some(chunk));
            }
            if self.is_aborted {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if !self.has_room() {
                return Ok(None);
            }
            self.hold_all()?;
            if self.unread.is_empty() {
                self.flush()?;
                uninterrupted(|| self.receive())?;
            }
            self.look()?;
        }
    }

    /// Waits until the client is ready for `what`, or has an error.
    ///
    /// # Errors
    ///
    /// The web server has given up the request (`ConnectionAborted`), or is gone itself.
    pub(crate) fn await_client(&mut self, client: BorrowedFd<'_>, what: Interest) -> io::Result<()> {
        loop {
            let owes_much = self.out.len() > MOST_OWED;
            let has_room = self.has_room() && !owes_much;
            if has_room && !self.unread.is_empty() {
                self.hold_all()?;
                self.look()?;
            }
            if self.is_aborted {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let interest = Interest { readable: has_room, writable: owes_much, ..Interest::NONE };
            let watched = [(self.socket.as_fd(), interest), (client, what)];
            let [ours, theirs] = uninterrupted(|| sys::poll::wait_for(watched, None))?;
            if ours.writable && owes_much {
                self.send_owed()?;
            }
            if ours.readable && has_room {
                self.hold_all()?;
                match self.receive_at_once() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => other?,
                }
                // A web server that sends without end must not keep the client waiting.
                self.look()?;
                if self.is_aborted {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            } else if ours.hang_up || ours.error {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if theirs.writable || theirs.hang_up || theirs.error {
                return Ok(());
            }
        }
    }

    /// Whether the web server is still connected, as far as a non-blocking check can tell.
    pub(crate) fn is_up(&self) -> bool {
        !socket::has_hung_up(&self.socket)
    }

    /// Sends the waiting records, and the slices after them.
    ///
    /// # Errors
    ///
    /// The web server is gone.
    pub(crate) fn send(&mut self, slices: &[Slice<'_>]) -> io::Result<()> {
        let mut all = Vec::with_capacity(1 + slices.len());
        all.push(Slice::new(&self.out));
        all.extend_from_slice(slices);
        let sent = self.send_all(&mut all);
        self.out.clear();
        sent
    }

    /// Sends the waiting records.
    ///
    /// # Errors
    ///
    /// The web server is gone.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() { Ok(()) } else { self.send(&[]) }
    }

    /// Sends as much of the waiting records as there is room for.
    fn send_owed(&mut self) -> io::Result<()> {
        match socket::send_at_once(&self.socket, &self.out) {
            Ok(count) => drop(self.out.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Ends the request and drops everything received for it.
    pub(crate) fn end(&mut self) {
        self.protocol.end();
        self.streams = Default::default();
        (self.lent, self.is_aborted) = (None, false);
        if self.waits == Waits::Told {
            self.waits = Waits::Due;
        }
    }

    /// Shuts down sending, for all processes that have the descriptor.
    pub(crate) fn shut_down(&self) {
        let _ = socket::shutdown_write(&self.socket);
    }

    /// Closes the connection. A web server on another machine may still be sending. A reset in answer to that
    /// could overtake data that the web server has not read yet, so the input is drained first.
    pub(crate) fn close(mut self) {
        if self.is_unix || socket::shutdown_write(&self.socket).is_err() {
            return;
        }
        let until = Instant::now() + LINGER;
        for _ in 0..MOST_PARAMS / INPUT {
            let left = until.saturating_duration_since(Instant::now()).as_millis() as u32;
            let ready = sys::poll::wait_for([(self.socket.as_fd(), Interest::READABLE)], Some(left));
            if !ready.is_ok_and(|[ready]| ready.readable) || !matches!(self.receive_at_once(), Ok(())) {
                return;
            }
        }
    }

    /// Sends all slices.
    fn send_all(&self, slices: &mut [Slice<'_>]) -> io::Result<()> {
        let mut left = slices;
        loop {
            left = skip_empty(left);
            if left.is_empty() {
                return Ok(());
            }
            match socket::send_slices(&self.socket, &left[..left.len().min(MOST_SLICES)]) {
                Ok(count) => advance(left, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The application made the socket non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sys::poll::wait_for([(self.socket.as_fd(), Interest::WRITABLE)], None)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for more bytes. All earlier ones must have been interpreted and consumed.
    fn receive(&mut self) -> io::Result<()> {
        let count = match socket::recv_with_waiting(&self.socket, &mut self.input, &mut self.passed) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sys::poll::wait_for([(self.socket.as_fd(), Interest::READABLE)], None)?;
                return Ok(());
            }
            other => other?,
        };
        self.received(count)
    }

    /// Receives like [`Connection::receive`], but does not block.
    fn receive_at_once(&mut self) -> io::Result<()> {
        let count = socket::recv_with(&self.socket, &mut self.input, &mut self.passed)?;
        self.received(count)
    }

    fn received(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.passed.len() > MOST_WAITING {
            return Err(breach("descriptors that no record announces"));
        }
        self.unread = 0..count;
        Ok(())
    }

    /// Interprets all received bytes, and holds those of the request's streams.
    fn look(&mut self) -> io::Result<()> {
        loop {
            match self.step()? {
                Step::NeedInput => return Ok(()),
                Step::Part(of, range) => {
                    self.streams[of as usize].part = range;
                    self.hold_all()?;
                }
                Step::Request | Step::Done => {}
            }
        }
    }

    /// Copies the streams' bytes out of `input`, to make room for the next ones.
    fn hold_all(&mut self) -> io::Result<()> {
        for stream in &mut self.streams {
            if stream.used == stream.held.len() {
                stream.held.clear();
                stream.used = 0;
            }
            stream.held.extend_from_slice(&self.input[stream.part.clone()]);
            stream.part = 0..0;
            if stream.held.len() > MOST_HELD + INPUT {
                return Err(breach("more of one stream than fits in memory before another has ended"));
            }
        }
        Ok(())
    }

    /// Whether the streams' bytes can be copied out of `input`.
    fn has_room(&self) -> bool {
        self.streams.iter().all(|stream| stream.held.len() + stream.part.len() <= MOST_HELD)
    }

    /// Interprets the next thing in the received bytes.
    fn step(&mut self) -> io::Result<Step> {
        let from = self.unread.start;
        let received = self.protocol.receive(&self.input[self.unread.clone()]);
        let (used, asked) = received.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.unread.start += used;
        let here = |range: Range<usize>| from + range.start..from + range.end;
        match asked {
            Asked::NeedInput => return Ok(Step::NeedInput),
            Asked::Begin(_) => {
                self.streams = Default::default();
                self.is_aborted = false;
            }
            Asked::Refuse(status, request) => record::end_request(&mut self.out, request, 0, status),
            Asked::Params => return Ok(Step::Request),
            Asked::Stdin(range) => return Ok(Step::Part(Source::Stdin, here(range))),
            Asked::EndOfStdin => self.streams[Source::Stdin as usize].has_ended = true,
            Asked::Data(range) => return Ok(Step::Part(Source::Data, here(range))),
            Asked::EndOfData => self.streams[Source::Data as usize].has_ended = true,
            Asked::Abort => self.is_aborted = true,
            Asked::Values => {
                values(&mut self.out, self.protocol.asked(), (1, 1), self.admits);
                let is_for_transports = |(name, _): (&[u8], _)| name == transport::QUESTION;
                if self.waits == Waits::Untold
                    && self.admits.waits
                    && self.protocol.asked().flatten().any(is_for_transports)
                {
                    self.waits = Waits::Told;
                }
            }
            Asked::Lend => self.lent = Some(self.take_passed()?),
            Asked::Area(_) if self.area.is_some() && self.request().is_some() => {
                return Err(breach("another shared-memory area while one is in use"));
            }
            Asked::Area(area) => {
                let file = self.take_passed()?;
                self.area = match Area::new(file, area) {
                    Ok(area) => Some(area),
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                    }
                    // There is no memory. Replies work without the area.
                    Err(_) => None,
                };
            }
            Asked::Free(number) => {
                // If an area could not be mapped, no chunk of it was used.
                self.area.as_mut().ok_or_else(|| breach("a chunk without an area"))?.give_back(number)?;
            }
            Asked::Unknown(kind) => record::unknown_type(&mut self.out, kind),
        }
        Ok(Step::Done)
    }

    /// Takes the descriptor that belongs to the complete record.
    fn take_passed(&mut self) -> io::Result<OwnedFd> {
        if self.passed.is_empty() {
            return Err(breach("a record that lacks its descriptor"));
        }
        Ok(self.passed.remove(0))
    }
}

impl Incoming {
    /// Whether all bytes have been consumed.
    fn is_empty(&self) -> bool {
        self.used == self.held.len() && self.part.is_empty()
    }
}

/// How a passed descriptor is returned when nothing was sent on it.
pub(crate) const UNTOUCHED: transport::Returned =
    transport::Returned { status: 0, is_whole: false, is_persistent: false, body: 0, sent: 0 };

/// Most slices of a send (`IOV_MAX`).
pub(crate) const MOST_SLICES: usize = 1_024;

/// Skips leading slices that are empty.
pub(crate) fn skip_empty<'a, 'b>(mut slices: &'a mut [Slice<'b>]) -> &'a mut [Slice<'b>] {
    while slices.first().is_some_and(Slice::is_empty) {
        slices = &mut slices[1..];
    }
    slices
}

/// Removes that many bytes from the front of the slices.
pub(crate) fn advance(slices: &mut [Slice<'_>], mut count: usize) {
    for slice in slices {
        let gone = count.min(slice.len());
        slice.advance(gone);
        count -= gone;
        if count == 0 {
            return;
        }
    }
}

/// Repeats the call when a signal interrupts it.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn breach(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
