//! One connection of a client: its socket, and the calls that are on it. [TLS](crate::tls) may be between.
//!
//! It sends what it is given and says what came; what follows from that is the [session](crate::session)'s
//! decision.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use http1::client::{self, ReplyError};
use sys::{client as socket_client, socket};

use crate::received::Received;
use crate::record::{Call, ConnectionEnd, Nanos, Outcome};
use crate::request::Prepared;
use crate::tls::Tls;
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

    /// Begins again, to be sent on another connection.
    pub(crate) fn send_again(&mut self, deadline: Nanos) {
        let Call { request, session, position, intended, issued, is_handshake, .. } = self.call;
        let resent = self.call.resent + u32::from(self.call.sent.is_some());
        let call = Call { resent, is_handshake, ..Call::new(request, session, position, intended, issued) };
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
    /// TLS, from when the connection is up, if its target speaks it.
    pub(crate) tls: Option<Box<Tls>>,
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
            tls: None,
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

    /// Whether calls can be sent: it is up, and TLS is established if it is spoken.
    pub(crate) fn is_ready(&self) -> bool {
        self.connected.is_some() && self.tls.as_ref().is_none_or(|tls| tls.established().is_some())
    }

    /// What it comes to when the client's patience is at its end.
    pub(crate) fn timeout(&self) -> Outcome {
        match self.connected {
            None => Outcome::ConnectTimeout,
            Some(_) if self.is_ready() => Outcome::ReplyTimeout,
            Some(_) => Outcome::TlsTimeout,
        }
    }

    /// Notes that TLS is established, if it is. True only the first time.
    pub(crate) fn note_established(&mut self, now: Nanos) -> bool {
        self.tls.as_mut().is_some_and(|tls| tls.note_established(now))
    }

    /// Sends what TLS itself has for the server, as far as there is room.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        match self.tls.as_mut().map(|tls| tls.push(&self.socket)) {
            Some(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
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
    ) -> io::Result<()> {
        while let Some(Flight { call, .. }) = flights.get_mut(self.sent) {
            let request = &requests[call.request as usize];
            if call.send_started.is_none() {
                // There are never more in flight than it can await.
                let method = if request.is_head { http1::Method::Head } else { http1::Method::Get };
                let _ = self.http.sent_request(method);
                call.send_started = Some(now);
            }
            let rest = &request.bytes[self.sent_bytes..];
            let sent = match &mut self.tls {
                None => socket::send(&self.socket, rest).inspect(|count| call.request_bytes += *count as u32),
                Some(tls) => tls.seal(rest).and_then(|sealed| {
                    // The server may see them from now on, whatever comes of sending them.
                    call.request_bytes += sealed as u32;
                    tls.flush(&self.socket)
                }),
            };
            match sent {
                Ok(count) => self.sent_bytes += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.sent_bytes < request.bytes.len() {
                match self.tls {
                    // The kernel had no more room.
                    None => return Ok(()),
                    // A record has no more.
                    Some(_) => continue,
                }
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
    /// there are then. Records of TLS go through `records`.
    pub(crate) fn receive(
        &mut self,
        room: &mut [u8],
        most: usize,
        records: &mut [u8],
    ) -> io::Result<Received> {
        let before = self.rest.len();
        let room = &mut room[..before + most];
        room[..before].copy_from_slice(&self.rest);
        self.rest.clear();
        let received = match &mut self.tls {
            None => socket::recv(&self.socket, &mut room[before..]).map(|count| Received {
                count,
                end: count == 0,
                drained: count < most,
            }),
            Some(tls) => tls.receive(&self.socket, records, &mut room[before..]),
        };
        match received {
            Ok(Received { count, end, drained }) => {
                Ok(Received { count: before + count, end, drained: drained && !self.hung_up })
            }
            Err(error) => {
                self.rest.extend_from_slice(&room[..before]);
                Err(error)
            }
        }
    }

    /// Whether the connection's end is no end of the reply that is being received: the end is all that could
    /// tell its length, and the server did not vouch for it (RFC 9112 section 9.8).
    pub(crate) fn is_truncated(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_cut()) && self.http.skip_body_hint() == u64::MAX
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

    /// The end of the run is what ends it.
    pub(crate) fn cut_off(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.cut_off();
        }
    }

    /// Ends it, except that its socket stays open.
    pub(crate) fn end(&mut self, now: Nanos) -> ConnectionEnd {
        let handshake = self.tls.as_mut().map(|tls| tls.close(&self.socket));
        let Self { started, connected, replies, lost, .. } = *self;
        ConnectionEnd { started, connected, handshake, ended: now, replies, lost }
    }
}

/// What a failed system call on a connection comes to.
pub(crate) fn outcome_of(error: &io::Error) -> Outcome {
    use io::ErrorKind as Kind;
    match error.kind() {
        // The latter two are a Unix socket's that is not there, or whose queue is full.
        Kind::ConnectionRefused | Kind::NotFound | Kind::WouldBlock => Outcome::Refused,
        Kind::TimedOut => Outcome::ConnectTimeout,
        Kind::InvalidData => Outcome::TlsError,
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
