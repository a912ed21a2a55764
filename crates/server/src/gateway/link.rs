//! A connection to one server of a pool, for one request.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fastcgi::record::{self, HEADER_LENGTH, Kind};
use fastcgi::{Params, Role, TooLong, WebServer};
use sys::socket;

use super::spool::Spool;
use crate::registration::Registration;

/// A connection to a server, and the request that it is for.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the socket, a byte each")]
pub struct Link {
    socket: OwnedFd,
    /// What the socket is registered for, of whoever watches it.
    pub registration: Registration,
    pub(super) protocol: WebServer,
    /// The number of the pool's server.
    pub(super) server: usize,
    request: u16,
    /// Records to be sent, and how much of them is gone.
    out: Vec<u8>,
    gone: usize,
    /// All of the request is in `out`.
    is_said: bool,
    /// It is not up yet.
    pub(super) is_connecting: bool,
    /// The socket may have input, or room: set by events, cleared by finding none.
    pub(super) readable: bool,
    writable: bool,
    hung_up: bool,
}

/// Most of a body that goes into one record.
const STDIN: usize = 32 << 10;

impl Link {
    pub(super) fn new(socket: OwnedFd, server: usize, is_up: bool) -> Self {
        Self {
            socket,
            registration: Registration::None,
            protocol: WebServer::default(),
            server,
            request: 0,
            out: Vec::new(),
            gone: 0,
            is_said: false,
            is_connecting: !is_up,
            readable: false,
            writable: is_up,
            hung_up: false,
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

    /// Begins the request, whose parameters are written into the stream that is lent.
    pub(super) fn begin(
        &mut self,
        write_params: impl FnOnce(&mut Params<'_>) -> Result<(), TooLong>,
    ) -> Result<(), TooLong> {
        self.request = self.protocol.begin(&mut self.out, Role::Responder, false);
        let mut params = Params::new(&mut self.out, self.request);
        write_params(&mut params)?;
        params.finish();
        Ok(())
    }

    /// Sends what there is to be said, as far as there is room and the share goes; says whether any of it is
    /// gone.
    pub(super) fn send(&mut self, body: &mut Spool, share: &mut u64) -> io::Result<bool> {
        let mut has_sent = false;
        while self.writable && *share > 0 {
            if self.gone > 0 && self.gone == self.out.len() {
                self.out.clear();
                self.gone = 0;
            }
            if self.out.len() < STDIN && !self.is_said {
                self.say_more(body)?;
            }
            if self.out.is_empty() {
                break;
            }
            match socket::send(&self.socket, &self.out[self.gone..]) {
                Ok(n) => {
                    self.gone += n;
                    *share = share.saturating_sub(n as u64);
                    has_sent = true;
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => self.writable = false,
                    io::ErrorKind::Interrupted => {}
                    // It may have answered without wanting all of the body, and that can still be read.
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                        self.out.clear();
                        (self.gone, self.is_said) = (0, true);
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(has_sent)
    }

    fn say_more(&mut self, body: &mut Spool) -> io::Result<()> {
        let header = self.out.len();
        let content = header + HEADER_LENGTH;
        let most = STDIN.min(usize::try_from(body.left()).unwrap_or(usize::MAX));
        if most == 0 {
            record::end_of_stream(&mut self.out, Kind::Stdin, self.request);
            self.is_said = true;
            return Ok(());
        }
        self.out.resize(content + most, 0);
        let count = body.read(&mut self.out[content..])?;
        self.out[header..content].copy_from_slice(&record::header(Kind::Stdin, self.request, count));
        Ok(())
    }

    /// Receives what the server says; `None`: nothing now.
    pub(super) fn receive(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match socket::recv(&self.socket, room) {
            Ok(n) => {
                self.readable = n == room.len() || n > 0 && self.hung_up;
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

    /// Asks the server to give the request up, if it can be asked at once.
    pub(super) fn abort(&mut self) {
        if self.gone == self.out.len() && !self.is_connecting {
            let mut record = Vec::new();
            self.protocol.abort(&mut record);
            // It hears of the end in any case.
            let _ = socket::send(&self.socket, &record);
        }
    }

    /// What it waits for: input, and room.
    pub(super) fn waits_for(&self, wants_input: bool) -> (bool, bool) {
        let has_output = self.is_connecting || self.gone < self.out.len() || !self.is_said;
        (wants_input && !self.is_connecting && !self.readable, has_output && !self.writable)
    }

    pub(super) fn into_socket(self) -> (OwnedFd, Registration) {
        (self.socket, self.registration)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
