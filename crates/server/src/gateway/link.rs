//! A connection to one server of a pool, for one request, or for one after the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fastcgi::record::{self, HEADER_LENGTH, Kind};
use fastcgi::transport::{self, Lent, Transports};
use fastcgi::{Output, Params, Role, TooLong, WebServer};
use sys::socket::{self, Slice};
use sys::tcp_info;

use super::area::Area;
use super::loan::Lendable;
use super::spool::Spool;
use crate::registration::Registration;

/// A connection to a server, and the request that it is for.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the socket, a byte each")]
pub struct Link {
    socket: OwnedFd,
    /// What the socket is registered for, of whoever watches it.
    pub registration: Registration,
    /// By what name it is registered, or was.
    pub watched_as: u64,
    pub(super) protocol: WebServer,
    /// The number of the pool's server.
    pub(super) server: usize,
    /// The request's; 0 if none has begun, as far as the server was told.
    request: u16,
    /// Records to be sent, and how much of them is gone.
    out: Vec<u8>,
    gone: usize,
    /// How much of the body in memory is the content of the last of them, and is sent from there.
    lent: usize,
    /// All of the request is in `out`, and all of it is gone.
    is_said: bool,
    is_sent: bool,
    /// What goes along with the next byte.
    passes: Passes,
    pub(super) setup: Setup,
    /// The transports that the server knows, as far as it was asked.
    pub(super) knows: Transports,
    /// The memory that is shared with the server, if there is any.
    pub(super) area: Option<Box<Area>>,
    /// The socket may have input, or room: set by events, cleared by finding none.
    pub(super) readable: bool,
    writable: bool,
    hung_up: bool,
    /// The server is asked to leave it open.
    keeps: bool,
    /// There was a request before this one.
    pub(super) is_reused: bool,
    /// Since then the server has said that it waits for the next.
    waits: bool,
    /// The server has said something since the request began.
    pub(super) has_heard: bool,
}

/// How far a connection is on its way to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// It is not up yet.
    Connecting,
    /// It is up, and the server is asked what it knows.
    Negotiating,
    /// It can have a request.
    Ready,
}

/// A descriptor that goes along with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    Nothing,
    /// The client's.
    Client,
    /// The shared memory's.
    Area,
}

/// What can be done with a connection that has been kept.
pub(super) enum Readiness {
    /// The server waits for a request.
    Waits,
    /// It has not come to do so, or nobody knows.
    Busy,
    /// It has closed the connection, or says what makes no sense.
    Gone,
}

/// Room for the records and parameters that most requests begin with, which a connection keeps for the next.
const PARAMS: usize = 1 << 10;
/// A body that is copied sooner than sent from where it is.
const SMALL: usize = 4 << 10;
/// Most of a body that is put behind the records to be sent.
const STDIN: usize = 32 << 10;
/// Bytes of records about free chunks that are sent at a time.
const MOST_TOLD: usize = 4 << 10;
/// A call that sends or receives fewer bytes costs as much of the share as this many: small calls without end
/// must end the turn as well.
const LEAST_COST: usize = 4 << 10;
/// Records of a body in memory that are sent along with the one before: as much as a Unix socket takes at
/// once.
const GATHER: usize = 4;
/// Most of a body that goes into one record: what its length can say, in whole words.
const MOST_LENT: usize = 65_528;

impl Link {
    pub(super) fn new(socket: OwnedFd, server: usize, is_up: bool, keeps: bool) -> Self {
        Self {
            socket,
            registration: Registration::None,
            watched_as: 0,
            protocol: WebServer::default(),
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
            is_reused: false,
            waits: false,
            has_heard: false,
        }
    }

    /// Takes note of an event.
    pub fn note(&mut self, readable: bool, writable: bool, hung_up: bool) {
        self.readable |= readable || hung_up;
        self.writable |= writable || hung_up;
        self.hung_up |= hung_up;
    }

    /// Whether it can be known by now whether the connection is up.
    pub(super) fn has_connected(&self) -> bool {
        self.writable
    }

    /// Asks the server what it knows, once the connection is up.
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

    /// What the server answers to that; `None`: nothing yet.
    ///
    /// # Errors
    ///
    /// It closes the connection, or says something else.
    pub(super) fn hear_transports(
        &mut self,
        room: &mut [u8],
        share: &mut u64,
    ) -> io::Result<Option<Transports>> {
        let Some(count) = self.receive(room, share)? else { return Ok(None) };
        match self.protocol.receive(&room[..count]) {
            Ok((_, Output::NeedInput)) if count > 0 => Ok(None),
            // It may be padded (section 3.3).
            Ok((used, Output::Knows(knows))) if self.says_no_more(&room[used..count]) => Ok(Some(knows)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Tells the server of memory that it is to share, which goes along.
    pub(super) fn share(&mut self, area: Area) {
        debug_assert!(self.passes == Passes::Nothing && self.gone == self.out.len());
        area.tell(&mut self.out);
        self.area = Some(Box::new(area));
        self.passes = Passes::Area;
    }

    /// Begins the request, whose parameters are written into the stream that is lent, and to which the client
    /// goes along that is lent on these terms.
    pub(super) fn begin(
        &mut self,
        lent: Option<Lent<'_>>,
        write_params: impl FnOnce(&mut Params<'_>) -> Result<(), TooLong>,
    ) -> Result<(), TooLong> {
        (self.is_said, self.is_sent, self.waits) = (false, false, false);
        self.out.reserve(PARAMS);
        if self.request == 0 {
            self.request = self.protocol.begin(&mut self.out, Role::Responder, self.keeps);
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

    /// Sends what there is to be said, as far as there is room and the share goes; says whether any of the
    /// request is gone, which chunks that are given back are none of. The client is lent if that is among it.
    pub(super) fn send(
        &mut self,
        body: &mut Spool,
        client: Option<Lendable<'_>>,
        share: &mut u64,
    ) -> io::Result<bool> {
        let mut has_sent = false;
        while self.writable && *share > 0 {
            if !self.has_unsent() {
                self.out.clear();
                self.gone = 0;
                self.is_sent = self.is_said;
            }
            if let Some(area) = self.area.as_mut().filter(|_| self.lent == 0) {
                area.tell_free(&mut self.out, MOST_TOLD);
            }
            while self.out.len() < STDIN && self.lent == 0 && !self.is_said {
                self.say_more(body)?;
            }
            if !self.has_unsent() {
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
                    // It may have answered without wanting all of the body, and that can still be read.
                    // Who was told of its end may be somebody who used the connection before.
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                        self.readable = true;
                        self.out.clear();
                        (self.gone, self.lent) = (0, 0);
                        (self.is_said, self.is_sent) = (true, true);
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(has_sent)
    }

    /// Sends records, what is lent of the body, and what follows that of a body in memory.
    fn send_once(&mut self, body: &mut Spool, client: Option<Lendable<'_>>) -> io::Result<usize> {
        let records = &self.out[self.gone..];
        let (mut headers, mut slices) = ([[0; HEADER_LENGTH]; GATHER], [Slice::EMPTY; 2 + 2 * GATHER]);
        let rest = if self.lent > 0 { body.upcoming(usize::MAX) } else { &[] };
        slices[0] = Slice::new(records);
        slices[1] = Slice::new(&rest[..self.lent]);
        let (mut length, mut at, mut count) = (records.len() + self.lent, self.lent, 2);
        for header in headers.iter_mut().filter(|_| self.lent > 0) {
            // As `say_more` will have it, once it has gone; the empty one is the end.
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
            None => socket::write_vectored(&self.socket, slices)?,
            Some(passed) => socket::send_with(&self.socket, slices, passed)?,
        };
        self.passes = Passes::Nothing;
        // Less than there was: the socket is full, and an event tells of room.
        self.writable = sent == length;
        self.have_gone(sent, body)?;
        Ok(sent)
    }

    /// So many of the bytes to be sent have gone, records of the body behind them included.
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
            self.say_more(body)?;
        }
    }

    fn say_more(&mut self, body: &mut Spool) -> io::Result<()> {
        let left = usize::try_from(body.left()).unwrap_or(usize::MAX);
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

    fn has_unsent(&self) -> bool {
        self.gone < self.out.len() || self.lent > 0
    }

    /// Receives what the server says, as its share goes; `None`: nothing now.
    pub(super) fn receive(&mut self, room: &mut [u8], share: &mut u64) -> io::Result<Option<usize>> {
        match socket::recv_without(&self.socket, room) {
            Ok((n, has_descriptors)) => {
                charge(share, n);
                self.readable = n == room.len() || has_descriptors || n > 0 && self.hung_up;
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

    /// Whether the connection can be kept for another request, now that one is over behind whose end this has
    /// come.
    pub(super) fn may_rest(&mut self, behind: &[u8]) -> bool {
        let is_over = self.is_said && !self.has_unsent() && self.says_no_more(behind);
        self.keeps && !self.hung_up && is_over && self.protocol.is_idle()
    }

    /// Has a connection wait for the next request that may rest. Says whether it can be kept for that.
    pub(super) fn rest(&mut self) -> bool {
        self.out.clear();
        self.out.shrink_to(PARAMS);
        self.gone = 0;
        (self.is_reused, self.has_heard) = (true, false);
        if self.knows.waits {
            self.request = 0;
            return !self.hung_up;
        }
        let mut first = Vec::new();
        self.request = self.protocol.begin(&mut first, Role::Responder, true);
        socket::send(&self.socket, &first).is_ok_and(|sent| sent == first.len())
    }

    /// Whether the server of one that rests has said that it waits.
    pub(super) fn is_awaited(&mut self, scratch: &mut [u8]) -> bool {
        self.knows.waits && (self.waits || matches!(self.readiness(scratch), Readiness::Waits))
    }

    /// What can be done with it that rests.
    pub(super) fn readiness(&mut self, scratch: &mut [u8]) -> Readiness {
        match socket::recv(&self.socket, scratch) {
            // What has more to say than that does not rest.
            Ok(count) if count == 0 || count == scratch.len() => return Readiness::Gone,
            Ok(count) if self.says_no_more(&scratch[..count]) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return Readiness::Gone,
        }
        if self.knows.waits {
            return if self.waits { Readiness::Waits } else { Readiness::Busy };
        }
        // What it has not read of the first record.
        match tcp_info::send_queue(&self.socket) {
            Ok(0) => Readiness::Waits,
            Ok(_) => Readiness::Busy,
            Err(_) => Readiness::Gone,
        }
    }

    /// Whether that is about no request, or about one that is over: PHP ends some twice.
    fn says_no_more(&mut self, mut input: &[u8]) -> bool {
        loop {
            match self.protocol.receive(input) {
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
        if !self.has_unsent() && self.setup == Setup::Ready {
            let mut record = Vec::new();
            self.protocol.abort(&mut record);
            // It hears of the end in any case.
            let _ = socket::send(&self.socket, &record);
        }
    }

    /// What it waits for: input, and room.
    pub(super) fn waits_for(&self, wants_input: bool) -> (bool, bool) {
        let is_connecting = self.setup == Setup::Connecting;
        let owes = self.area.as_ref().is_some_and(|area| area.has_free());
        let has_output = is_connecting || self.has_unsent() || !self.is_said || owes;
        (wants_input && !is_connecting && !self.readable, has_output && !self.writable)
    }

    /// Its socket, and the memory that was shared over it.
    pub(super) fn into_parts(self) -> ((OwnedFd, Registration), Option<Box<Area>>) {
        ((self.socket, self.registration), self.area)
    }
}

/// Has a call that has moved so many bytes cost as much of the share, and what a call itself takes.
fn charge(share: &mut u64, bytes: usize) {
    *share = share.saturating_sub(bytes.max(LEAST_COST) as u64);
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
