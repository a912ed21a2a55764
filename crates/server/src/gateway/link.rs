//! A connection to one server of a pool, for one request, or for several in succession. Its bytes are sent
//! and received by calls, or by a ring (`by_ring`). What is spoken over it is FastCGI or HTTP.

mod by_ring;

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fastcgi::record::{self, HEADER_LENGTH, Kind};
use fastcgi::transport::{self, Lent, Transports};
use fastcgi::{Output, Params, Role, TooLong, WebServer};
use http1::Method;
use http1::client::{Connection, PipelineFull};
use sys::socket::{self, Slice};
use sys::tcp_info;

use self::by_ring::ByRing;
use super::area::Area;
use super::http_request::{AfterReply, BodyLength};
use super::lent_connection::Lendable;
use super::server_id::ServerId;
use super::spool::Spool;
use crate::registration::Registration;

/// A connection to a server, and the request that it is for.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the socket, a byte each")]
pub struct Link {
    socket: OwnedFd,
    /// What the socket is registered for with its watcher.
    pub registration: Registration,
    /// The name that the socket is registered by, or was. 0: it never was.
    pub watched_as: u64,
    pub(super) speaks: Speaks,
    /// The pool's server.
    pub(super) server: ServerId,
    /// The request's number in FastCGI. 0: no request has begun, as far as the server knows.
    request: u16,
    /// Bytes to be sent before the body in `lent`, and how many of them are sent.
    out: Vec<u8>,
    gone: usize,
    /// How many bytes of the body in memory come next. In FastCGI they are the content of the last record.
    /// They are sent from where they are.
    lent: usize,
    /// All of the request is in `out`, and all of it is sent.
    is_said: bool,
    is_sent: bool,
    /// The descriptor that goes along with the next byte.
    passes: Passes,
    pub(super) setup: Setup,
    /// The transports that the server supports, as far as it was asked.
    pub(super) knows: Transports,
    /// The memory that is shared with the server, if there is any.
    pub(super) area: Option<Box<Area>>,
    /// The socket may have input, or room: set by events, cleared by finding none.
    pub(super) readable: bool,
    writable: bool,
    hung_up: bool,
    /// The server is asked to leave the connection open.
    keeps: bool,
    /// The body of an HTTP request is passed on as it comes.
    upload: Option<BodyLength>,
    /// The connection is joined with a client's: there is no request any more, and its output has no end.
    is_joined: bool,
    /// There was a request before this one.
    pub(super) is_reused: bool,
    /// Since then the server has reported that it waits for the next request.
    waits: bool,
    /// The server has sent something since the request began.
    pub(super) has_heard: bool,
    /// The socket is a Unix socket, over which descriptors may come.
    is_local: bool,
    /// What a ring does for the connection, if there is a ring.
    ring: Option<Box<ByRing>>,
}

/// What is spoken over a connection.
#[derive(Debug)]
pub(super) enum Speaks {
    FastCgi(WebServer),
    Http(Box<Http>),
}

/// A connection over which HTTP is spoken.
#[derive(Debug, Default)]
pub(super) struct Http {
    pub(super) connection: Connection,
    /// The last reply is over, and the server takes another request.
    pub(super) is_free: bool,
}

/// How far a connection is from taking a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// The connection is not up yet.
    Connecting,
    /// The connection is up, and the server is asked for its transports.
    Negotiating,
    /// The connection can take a request.
    Ready,
}

/// A descriptor that is passed along with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    Nothing,
    /// The client's socket.
    Client,
    /// The shared memory's file.
    Area,
}

/// The state of a connection that has been kept.
pub(super) enum Readiness {
    /// The server waits for a request.
    Waits,
    /// The server does not wait for a request yet, or that is not known.
    Busy,
    /// The server has closed the connection, or sends something that makes no sense.
    Gone,
}

/// Room for the records and parameters that most requests begin with, which a connection keeps for the next.
const PARAMS: usize = 1 << 10;
/// A body up to this size is copied, rather than sent from where it is.
const SMALL: usize = 4 << 10;
/// Most bytes of a body that are copied behind the records to be sent.
const STDIN: usize = 32 << 10;
/// Most bytes of records about free chunks that are sent at a time.
const MOST_TOLD: usize = 4 << 10;
/// Charge at least this many bytes of the quantum (`share`) for each call that sends or receives. An
/// endless series of small calls must end the turn as well.
const LEAST_COST: usize = 4 << 10;
/// While so many bytes of a streamed body are not sent, the link takes no more of it.
const MOST_UNSENT: usize = 16 << 10;
/// Records of a body in memory that are sent along with the one before. They are as much as a Unix socket
/// takes at once.
const GATHER: usize = 4;
/// Most bytes of a body in one record: the largest length that the record can hold, in whole words.
const MOST_LENT: usize = 65_528;

impl Link {
    /// A new connection over `socket`, which is a Unix socket if `is_local`.
    pub(super) fn new(
        (socket, is_local): (OwnedFd, bool),
        speaks: Speaks,
        server: ServerId,
        is_up: bool,
        keeps: bool,
    ) -> Self {
        Self {
            socket,
            is_local,
            registration: Registration::None,
            watched_as: 0,
            speaks,
            server,
            request: 0,
            out: Vec::new(),
            gone: 0,
            lent: 0,
            // There is no request yet.
            is_said: true,
            is_sent: true,
            passes: Passes::Nothing,
            setup: if is_up { Setup::Ready } else { Setup::Connecting },
            knows: Transports::default(),
            area: None,
            readable: false,
            writable: is_up,
            hung_up: false,
            keeps,
            upload: None,
            is_joined: false,
            is_reused: false,
            waits: false,
            has_heard: false,
            ring: None,
        }
    }

    /// From now on a ring moves its bytes.
    pub(super) fn use_ring(&mut self) {
        self.ring = Some(Box::default());
    }

    /// Records an event.
    pub fn note(&mut self, readable: bool, writable: bool, hung_up: bool) {
        // What a ring receives or sends, it finishes by itself.
        self.readable |= (readable || hung_up) && !self.is_receiving();
        self.writable |= (writable || hung_up) && !self.is_sending();
        self.hung_up |= hung_up;
    }

    /// Whether the result of connecting is available.
    pub(super) fn has_connected(&self) -> bool {
        self.writable
    }

    /// Asks the server for its transports, once the connection is up.
    pub(super) fn negotiate(&mut self) {
        transport::question(&mut self.out);
        if self.setup != Setup::Connecting {
            self.setup = Setup::Negotiating;
        }
    }

    /// The connection has come up.
    pub(super) fn is_up(&mut self) {
        self.setup = if self.has_unsent() { Setup::Negotiating } else { Setup::Ready };
    }

    /// Receives the answer to that question. `None`: there is no answer yet.
    ///
    /// # Errors
    ///
    /// The server closes the connection, or sends something else.
    pub(super) fn hear_transports(
        &mut self,
        room: &mut [u8],
        share: &mut u64,
    ) -> io::Result<Option<Transports>> {
        let Some(count) = self.receive(room, share)? else { return Ok(None) };
        let Speaks::FastCgi(server) = &mut self.speaks else { return Err(io::ErrorKind::InvalidData.into()) };
        match server.receive(&room[..count]) {
            Ok((_, Output::NeedInput)) if count > 0 => Ok(None),
            // The answer may be padded (section 3.3).
            Ok((used, Output::Knows(knows))) if self.says_no_more(&room[used..count]) => Ok(Some(knows)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Tells the server of the memory to share, and passes its descriptor along.
    pub(super) fn share(&mut self, area: Area) {
        debug_assert!(self.passes == Passes::Nothing && self.gone == self.out.len());
        area.tell(&mut self.out);
        self.area = Some(Box::new(area));
        self.passes = Passes::Area;
    }

    /// Begins the request. `write_params` writes its parameters into a stream. If `lent` is given, the
    /// client's socket is passed along on these terms.
    pub(super) fn begin(
        &mut self,
        lent: Option<Lent<'_>>,
        write_params: impl FnOnce(&mut Params<'_>) -> Result<(), TooLong>,
    ) -> Result<(), TooLong> {
        self.begins();
        if let Speaks::FastCgi(server) = &mut self.speaks
            && self.request == 0
        {
            self.request = server.begin(&mut self.out, Role::Responder, self.keeps);
        }
        if let Some(lent) = lent {
            transport::lend(&mut self.out, self.request, lent);
            self.passes = Passes::Client;
        }
        let mut params = Params::new(&mut self.out, self.request);
        write_params(&mut params)?;
        params.finish();
        Ok(())
    }

    /// Begins an HTTP request with this method, after which this becomes of the connection. `upload`: its
    /// body is [passed](Self::pass_body) as it comes. `write_head` writes its head.
    ///
    /// # Errors
    ///
    /// The reply to another request is still to come.
    pub(super) fn begin_http(
        &mut self,
        (method, afterwards): (Method<'_>, AfterReply),
        upload: Option<BodyLength>,
        write_head: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), PipelineFull> {
        self.begins();
        self.upload = upload;
        if let Speaks::Http(http) = &mut self.speaks {
            http.connection.sent_request(method)?;
            if afterwards == AfterReply::Switches {
                http.connection.offer_upgrade();
            }
            http.is_free = false;
        }
        write_head(&mut self.out);
        Ok(())
    }

    /// Joins the connection with a client's. The request had no body.
    pub(super) fn joins(&mut self) {
        (self.is_joined, self.keeps, self.is_said) = (true, false, true);
    }

    /// Adds bytes of the client to the output of a joined connection.
    pub(super) fn pass_on(&mut self, bytes: &[u8]) {
        debug_assert!(self.is_joined);
        self.room_behind().extend_from_slice(bytes);
        self.is_sent = false;
    }

    /// The output, without what is sent.
    fn room_behind(&mut self) -> &mut Vec<u8> {
        if self.gone == self.out.len() {
            self.out.clear();
            self.gone = 0;
        }
        &mut self.out
    }

    /// Whether it takes more of a body that is passed on as it comes.
    pub(super) fn takes_body(&self) -> bool {
        self.upload.is_some() && !self.is_said && self.unsent() < MOST_UNSENT
    }

    /// Whether the server waits for more of such a body.
    pub(super) fn waits_for_body(&self) -> bool {
        self.upload.is_some() && !self.is_said && !self.has_unsent()
    }

    /// Adds a piece of such a body to the output.
    pub(super) fn pass_body(&mut self, bytes: &[u8]) {
        let is_chunked = self.upload == Some(BodyLength::Unknown);
        // An empty chunk would be the last one. A server that takes no more gets none.
        if bytes.is_empty() || self.is_said {
            return;
        }
        let out = self.room_behind();
        if is_chunked {
            // Writing to memory cannot fail.
            let _ = write!(out, "{:x}\r\n", bytes.len());
        }
        out.extend_from_slice(bytes);
        if is_chunked {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// That was all of it.
    pub(super) fn ends_body(&mut self) {
        if !std::mem::replace(&mut self.is_said, true) && self.upload == Some(BodyLength::Unknown) {
            self.room_behind().extend_from_slice(b"0\r\n\r\n");
        }
    }

    /// Bytes of the output that are not sent. Those that a ring sends count as one.
    pub(super) fn unsent(&self) -> usize {
        self.out.len() - self.gone + self.lent + usize::from(self.is_sending())
    }

    fn begins(&mut self) {
        (self.is_said, self.is_sent, self.waits) = (false, false, false);
        self.out.reserve(PARAMS);
    }

    /// Sends what there is to send, as far as the socket has room and the quantum (`share`) allows.
    /// Returns whether any part of the request was sent. Records about free chunks are no part of it. The
    /// client's socket is passed along with the record that says so.
    pub(super) fn send(
        &mut self,
        body: &mut Spool,
        client: Option<Lendable<'_>>,
        share: &mut u64,
    ) -> io::Result<bool> {
        let mut has_sent = self.has_gone_by_ring()?;
        while self.writable && *share > 0 {
            if !self.has_unsent() {
                self.out.clear();
                self.gone = 0;
                self.is_sent = self.is_said;
            }
            if let Some(area) = self.area.as_mut().filter(|_| self.lent == 0) {
                area.tell_free(&mut self.out, MOST_TOLD);
            }
            while self.out.len() < STDIN && self.lent == 0 && !self.is_said && self.upload.is_none() {
                self.say_more(body)?;
            }
            if !self.has_unsent() || self.posts(share) {
                break;
            }
            match self.send_once(body, client) {
                Ok(n) => {
                    charge(share, n);
                    has_sent |= !self.is_sent;
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.writable = false,
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.says_nothing_more(),
                    _ => return Err(error),
                },
            }
        }
        Ok(has_sent)
    }

    /// The server takes no more. It may have answered without wanting all of the body, and the answer can
    /// still be read. An earlier user of the connection may have been told of the end.
    fn says_nothing_more(&mut self) {
        self.readable = !self.is_receiving();
        self.out.clear();
        (self.gone, self.lent) = (0, 0);
        (self.is_said, self.is_sent) = (true, true);
    }

    /// Sends records, the body bytes in `lent`, and the records after them if the body is in memory.
    fn send_once(&mut self, body: &mut Spool, client: Option<Lendable<'_>>) -> io::Result<usize> {
        let records = &self.out[self.gone..];
        let (mut headers, mut slices) = ([[0; HEADER_LENGTH]; GATHER], [Slice::EMPTY; 2 + 2 * GATHER]);
        let rest = if self.lent > 0 { body.upcoming(usize::MAX) } else { &[] };
        slices[0] = Slice::new(records);
        slices[1] = Slice::new(&rest[..self.lent]);
        let (mut length, mut at, mut count) = (records.len() + self.lent, self.lent, 2);
        let has_records = matches!(self.speaks, Speaks::FastCgi(_)) && self.lent > 0;
        for header in headers.iter_mut().filter(|_| has_records) {
            // As `say_more` will write it once the bytes before are sent. An empty record is the end.
            let next = &rest[at..(at + MOST_LENT).min(rest.len())];
            *header = record::header(Kind::Stdin, self.request, next.len());
            slices[count] = Slice::new(header);
            slices[count + 1] = Slice::new(next);
            length += HEADER_LENGTH + next.len();
            (at, count) = (at + next.len(), count + 2);
            if next.is_empty() {
                break;
            }
        }
        let slices = &slices[..count];
        let passed = match self.passes {
            Passes::Nothing => None,
            Passes::Client => Some(client.ok_or(io::ErrorKind::NotConnected)?.socket),
            Passes::Area => self.area.as_ref().map(|area| area.as_fd()),
        };
        let sent = match passed {
            None if slices.len() == 2 && self.lent == 0 => socket::send(&self.socket, records)?,
            None => socket::write_vectored(&self.socket, slices)?,
            Some(passed) => socket::send_with(&self.socket, slices, passed)?,
        };
        self.passes = Passes::Nothing;
        // Fewer bytes than there were: the socket is full, and an event will report room.
        self.writable = sent == length;
        self.have_gone(sent, body)?;
        Ok(sent)
    }

    /// Counts bytes as sent, including records of the body that follow the rest.
    fn have_gone(&mut self, mut bytes: usize, body: &mut Spool) -> io::Result<()> {
        loop {
            let of_records = bytes.min(self.out.len() - self.gone);
            let of_body = (bytes - of_records).min(self.lent);
            self.gone += of_records;
            self.lent -= of_body;
            body.skip(of_body);
            bytes -= of_records + of_body;
            if bytes == 0 {
                return Ok(());
            }
            self.out.clear();
            self.gone = 0;
            if self.upload.is_some() {
                return Ok(());
            }
            self.say_more(body)?;
        }
    }

    fn say_more(&mut self, body: &mut Spool) -> io::Result<()> {
        let left = usize::try_from(body.left()).unwrap_or(usize::MAX);
        if let Speaks::Http(_) = self.speaks {
            return self.say_more_of_http(body, left);
        }
        if left == 0 {
            record::end_of_stream(&mut self.out, Kind::Stdin, self.request);
            self.is_said = true;
            return Ok(());
        }
        if left > SMALL && body.is_in_memory() {
            self.lent = left.min(MOST_LENT);
            self.out.extend_from_slice(&record::header(Kind::Stdin, self.request, self.lent));
            return Ok(());
        }
        let header = self.out.len();
        let content = header + HEADER_LENGTH;
        self.out.resize(content + left.min(STDIN), 0);
        let count = body.read(&mut self.out[content..])?;
        self.out[header..content].copy_from_slice(&record::header(Kind::Stdin, self.request, count));
        Ok(())
    }

    /// Adds the body as it is. Its head has its length.
    fn say_more_of_http(&mut self, body: &mut Spool, left: usize) -> io::Result<()> {
        if left > SMALL && body.is_in_memory() {
            self.lent = left;
        } else if left > 0 {
            let before = self.out.len();
            self.out.resize(before + left.min(STDIN), 0);
            match body.read(&mut self.out[before..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.out.truncate(before + count),
            }
        }
        self.is_said = self.lent as u64 == body.left();
        Ok(())
    }

    fn has_unsent(&self) -> bool {
        self.gone < self.out.len() || self.lent > 0 || self.is_sending()
    }

    /// Receives what the server sends, as the quantum (`share`) allows. `None`: nothing now.
    pub(super) fn receive(&mut self, room: &mut [u8], share: &mut u64) -> io::Result<Option<usize>> {
        if let Some(count) = self.take_received(room) {
            charge(share, count);
            return Ok(Some(count));
        }
        let received = if self.is_local {
            socket::recv_without(&self.socket, room)
        } else {
            socket::recv(&self.socket, room).map(|count| (count, false))
        };
        self.note_received(received, room.len(), share)
    }

    /// Takes note of what a call has received that had so much room.
    fn note_received(
        &mut self,
        received: io::Result<(usize, bool)>,
        room: usize,
        share: &mut u64,
    ) -> io::Result<Option<usize>> {
        match received {
            Ok((n, has_descriptors)) => {
                charge(share, n);
                self.readable = n == room || has_descriptors || n > 0 && self.hung_up;
                self.has_heard |= n > 0;
                Ok(Some(n))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    Ok(None)
                }
                io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Whether [`receive_behind`](Self::receive_behind) is possible. A ring receives by itself, and a Unix
    /// socket may carry descriptors.
    pub(super) fn can_receive_behind(&self) -> bool {
        self.ring.is_none() && !self.is_local
    }

    /// Receives at most `most` bytes behind what is in `room`, which has room for them, if
    /// [that is possible](Self::can_receive_behind). `None`: nothing now.
    pub(super) fn receive_behind(
        &mut self,
        room: &mut Vec<u8>,
        most: usize,
        share: &mut u64,
    ) -> io::Result<Option<usize>> {
        let received = socket::recv_behind(&self.socket, room, most);
        self.note_received(received.map(|count| (count, false)), most, share)
    }

    /// Whether the connection can be kept for another request. The last request is over, and `behind` has
    /// come after its end.
    pub(super) fn may_rest(&mut self, behind: &[u8]) -> bool {
        let is_over = self.is_said && !self.has_unsent() && self.says_no_more(behind);
        let is_idle = match &self.speaks {
            Speaks::FastCgi(server) => server.is_idle(),
            Speaks::Http(http) => http.is_free,
        };
        self.keeps && !self.hung_up && is_over && is_idle
    }

    /// Makes a connection that may rest wait for the next request. Returns whether it can be kept for
    /// that.
    pub(super) fn rest(&mut self) -> bool {
        self.out.clear();
        self.out.shrink_to(PARAMS);
        self.gone = 0;
        (self.is_reused, self.has_heard) = (true, false);
        let Speaks::FastCgi(server) = &mut self.speaks else { return !self.hung_up };
        if self.knows.waits {
            self.request = 0;
            return !self.hung_up;
        }
        let mut first = Vec::new();
        self.request = server.begin(&mut first, Role::Responder, true);
        socket::send(&self.socket, &first).is_ok_and(|sent| sent == first.len())
    }

    /// Whether the server of a resting connection certainly waits: it has reported that, or speaks HTTP,
    /// where it does so since the end of its reply.
    pub(super) fn is_awaited(&mut self, scratch: &mut [u8]) -> bool {
        let waits = match self.speaks {
            Speaks::FastCgi(_) => self.knows.waits,
            Speaks::Http(_) => true,
        };
        waits && (self.waits || matches!(self.readiness(scratch), Readiness::Waits))
    }

    /// The state of a resting connection.
    pub(super) fn readiness(&mut self, scratch: &mut [u8]) -> Readiness {
        if matches!(self.speaks, Speaks::Http(_)) && self.registration == Registration::Edge && !self.readable
        {
            // It is watched, and nothing has come.
            return Readiness::Waits;
        }
        match socket::recv(&self.socket, scratch) {
            // A connection with more input than this does not rest.
            Ok(count) if count == 0 || count == scratch.len() => return Readiness::Gone,
            Ok(count) if self.says_no_more(&scratch[..count]) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return Readiness::Gone,
        }
        if let Speaks::Http(_) = self.speaks {
            return Readiness::Waits;
        }
        if self.knows.waits {
            return if self.waits { Readiness::Waits } else { Readiness::Busy };
        }
        // The part of the first record that the server has not read.
        match tcp_info::send_queue(&self.socket) {
            Ok(0) => Readiness::Waits,
            Ok(_) => Readiness::Busy,
            Err(_) => Readiness::Gone,
        }
    }

    /// Records an event on a connection that rests. Returns whether it is over: HTTP has nothing to say
    /// between requests.
    pub(super) fn is_over_after(&mut self, readable: bool, hung_up: bool) -> bool {
        self.note(readable, false, hung_up);
        matches!(self.speaks, Speaks::Http(_)) && (readable || hung_up)
    }

    /// Whether `input` is about no request, or about one that is over. PHP ends some requests twice.
    fn says_no_more(&mut self, mut input: &[u8]) -> bool {
        let Speaks::FastCgi(server) = &mut self.speaks else { return input.is_empty() };
        loop {
            match server.receive(input) {
                Ok((_, Output::NeedInput)) => return true,
                Ok((used, Output::Waits)) => {
                    self.waits = true;
                    input = &input[used..];
                }
                _ => return false,
            }
        }
    }

    /// Asks the server to give the request up, if it can be asked at once.
    pub(super) fn abort(&mut self) {
        if !self.has_unsent()
            && self.setup == Setup::Ready
            && let Speaks::FastCgi(server) = &mut self.speaks
        {
            let mut record = Vec::new();
            server.abort(&mut record);
            // The server learns of the end in any case.
            let _ = socket::send(&self.socket, &record);
        }
    }

    /// What the connection waits for: input, and room.
    pub(super) fn waits_for(&self, wants_input: bool) -> (bool, bool) {
        let is_connecting = self.setup == Setup::Connecting;
        let owes = self.area.as_ref().is_some_and(|area| area.has_free());
        let has_more = !self.is_said && self.upload.is_none();
        let has_output = is_connecting || self.has_unsent() || has_more || owes;
        (wants_input && !is_connecting && !self.readable, has_output && !self.writable)
    }

    /// The socket, and the memory that was shared over it.
    pub(super) fn into_parts(self) -> (Retired, Option<Box<Area>>) {
        let cancels = self.has_operations().then_some(self.watched_as);
        let Self { socket, registration, watched_as, area, .. } = self;
        (Retired { socket, registration, watched_as, cancels }, area)
    }
}

/// A socket that is no longer used.
#[derive(Debug)]
pub struct Retired {
    /// The socket.
    pub socket: OwnedFd,
    /// What it is registered for with its watcher.
    pub registration: Registration,
    /// The name that it was registered by, if it ever was.
    pub watched_as: u64,
    /// The name of what a ring still receives or sends.
    pub cancels: Option<u64>,
}

/// Charges the quantum (`share`) for a call: the bytes moved, but at least `LEAST_COST`.
fn charge(share: &mut u64, bytes: usize) {
    *share = share.saturating_sub(bytes.max(LEAST_COST) as u64);
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
