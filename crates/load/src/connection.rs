//! One connection of a client: its socket, and the calls that are on it.
//!
//! It sends what it is given and says what came; what follows from that is the [session](crate::session)'s
//! decision.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use http1::client::{self, ReplyError};
use sys::{client as socket_client, socket};

use crate::record::{Call, ConnectionEnd, Nanos, Outcome};
use crate::request::Prepared;
use crate::verify::Comparison;

/// A call on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// What is known of it so far. Its connection and its end are filled in when it is over.
    pub(crate) call: Call,
    /// When the client gives up.
    pub(crate) deadline: Nanos,
    /// The file that the reply is compared with.
    pub(crate) comparison: Option<Comparison>,
}

impl Flight {
    pub(crate) fn new(call: Call, deadline: Nanos) -> Self {
        Self { call, deadline, comparison: None }
    }

    /// Begins anew, to be sent again on another connection.
    pub(crate) fn send_again(&mut self, deadline: Nanos) {
        let Call { request, session, position, intended, issued, .. } = self.call;
        let resent = self.call.resent + u32::from(self.call.sent.is_some());
        let call = Call { resent, ..Call::new(request, session, position, intended, issued) };
        *self = Self::new(call, deadline);
    }

    /// Whether the server may have seen some of it.
    pub(crate) fn has_begun(&self) -> bool {
        self.call.request_bytes > 0
    }
}

/// A connection, up or coming up.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) http: client::Connection,
    /// Among those of its thread.
    pub(crate) number: u32,
    /// Its local port.
    pub(crate) port: u16,
    pub(crate) started: Nanos,
    pub(crate) connected: Option<Nanos>,
    pub(crate) replies: u32,
    /// It has brought a whole reply, be it a wrong one.
    pub(crate) served: bool,
    /// The server has ended it, before the session was over.
    pub(crate) lost: bool,
    /// The server sends no more: what is there is read to its end.
    pub(crate) hung_up: bool,
    /// Input that is not understood yet.
    pub(crate) rest: Vec<u8>,
    /// Of the calls in flight, how many have been sent whole.
    sent: usize,
    /// Bytes of the next one that have been sent.
    sent_bytes: usize,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, number: u32, started: Nanos, rest: Vec<u8>) -> Self {
        Self {
            socket,
            http: client::Connection::new(),
            number,
            port: 0,
            started,
            connected: None,
            replies: 0,
            served: false,
            lost: false,
            hung_up: false,
            rest,
            sent: 0,
            sent_bytes: 0,
        }
    }

    /// Whether calls wait to be sent.
    pub(crate) fn has_unsent(&self, flights: &VecDeque<Flight>) -> bool {
        self.sent < flights.len()
    }

    /// Whether the first of the calls has been sent to its end.
    pub(crate) fn has_sent_first(&self) -> bool {
        self.sent > 0
    }

    /// Sends calls as far as there is room.
    pub(crate) fn send(
        &mut self,
        flights: &mut VecDeque<Flight>,
        requests: &[Prepared],
        now: Nanos,
    ) -> Result<(), Outcome> {
        while let Some(Flight { call, .. }) = flights.get_mut(self.sent) {
            let request = &requests[call.request as usize];
            if call.send_started.is_none() {
                // There are never more in flight than it can await.
                let method = if request.is_head { http1::Method::Head } else { http1::Method::Get };
                let _ = self.http.sent_request(method);
                call.send_started = Some(now);
            }
            match socket::send(&self.socket, &request.bytes[self.sent_bytes..]) {
                Ok(count) => {
                    self.sent_bytes += count;
                    call.request_bytes += count as u32;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(outcome_of(&error)),
            }
            if self.sent_bytes < request.bytes.len() {
                return Ok(());
            }
            call.sent = Some(now);
            self.sent += 1;
            self.sent_bytes = 0;
        }
        Ok(())
    }

    /// The first call in flight has been answered, with what it should be or not.
    pub(crate) fn answered(&mut self, right: bool) {
        self.replies += u32::from(right);
        self.served = true;
        // One that was answered before it was sent to its end is the connection's last.
        self.sent = self.sent.saturating_sub(1);
    }

    /// Receives up to `most` bytes into `room`, behind what is not understood yet, and says how many bytes
    /// there are then.
    pub(crate) fn receive(&mut self, room: &mut [u8], most: usize) -> io::Result<Received> {
        let before = self.rest.len();
        let room = &mut room[..before + most];
        room[..before].copy_from_slice(&self.rest);
        self.rest.clear();
        let count = match socket::recv(&self.socket, &mut room[before..]) {
            Ok(count) => count,
            Err(error) => {
                self.rest.extend_from_slice(&room[..before]);
                return Err(error);
            }
        };
        let drained = count < room.len() - before && !self.hung_up;
        Ok(Received { count: before + count, end: count == 0, drained })
    }

    /// Drops up to `count` bytes of a body inside the kernel.
    pub(crate) fn discard(&mut self, count: u64) -> io::Result<Received> {
        /// More than any receive buffer holds at a time.
        const MOST: u64 = 64 << 20;
        let asked = count.min(MOST) as usize;
        let count = socket_client::discard(&self.socket, asked)?;
        self.http.skipped(count as u64);
        Ok(Received { count, end: count == 0, drained: count < asked && !self.hung_up })
    }

    pub(crate) fn end(&self, now: Nanos) -> ConnectionEnd {
        let Self { started, connected, replies, lost, .. } = *self;
        ConnectionEnd { started, connected, ended: now, replies, lost }
    }
}

/// What a receiving call brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes.
    pub(crate) count: usize,
    /// The server has closed its side.
    pub(crate) end: bool,
    /// The socket is empty: the next event tells when there is more.
    pub(crate) drained: bool,
}

/// What a failed system call on a connection comes to.
pub(crate) fn outcome_of(error: &io::Error) -> Outcome {
    use io::ErrorKind as Kind;
    match error.kind() {
        // The latter two are a Unix socket's that is not there, or whose queue is full.
        Kind::ConnectionRefused | Kind::NotFound | Kind::WouldBlock => Outcome::Refused,
        Kind::TimedOut => Outcome::ConnectTimeout,
        Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown | Kind::PermissionDenied => {
            Outcome::Unreachable
        }
        Kind::AddrNotAvailable | Kind::AddrInUse => Outcome::NoPort,
        _ if socket::is_exhaustion(error) => Outcome::NoDescriptor,
        // ECONNRESET, EPIPE, and whatever else ends an open connection.
        _ => Outcome::Reset,
    }
}

/// What a breach of the protocol comes to.
pub(crate) fn outcome_of_reply(error: ReplyError) -> Outcome {
    match error {
        ReplyError::NoReply => Outcome::Closed,
        ReplyError::CutShort => Outcome::CutShort,
        ReplyError::Malformed
        | ReplyError::HeadTooLarge
        | ReplyError::Framing
        | ReplyError::Chunk(_)
        | ReplyError::Unexpected
        | ReplyError::Switched => Outcome::Malformed,
    }
}
