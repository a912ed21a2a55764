//! What the engine tells the measures: one record for each call, connection and session when it is over.
//!
//! Times are in nanoseconds of the monotonic clock since the run began, 0 at its start. They are the facts;
//! what is made of them (httperf's definitions, correction for intended starts, histograms) is the measures'
//! affair.

use std::time::Duration;

use workload::session::RequestId;

/// Nanoseconds since the run began.
pub type Nanos = u64;

/// A time as nanoseconds; the longest there is, if it is longer.
pub(crate) fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

/// One request and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which request of the log.
    pub request: RequestId,
    /// Which session of the run, counted from 0 over all threads in order of intended arrival.
    pub session: u32,
    /// Which call of its session, from 0.
    pub position: u32,
    /// Which connection carried it, counted from 0 for each thread.
    pub connection: u32,
    /// The client's port on that connection, to join this record with the server's own; 0 when it had none.
    pub client_port: u16,
    /// When it should have been issued. For a session's first call this is when the session was due to
    /// arrive, even if the generator was late or the call queued for a connection. For a burst's first call,
    /// with a log's times, it is the later of the log's time and the end of the reply before. Every other
    /// call depends on a reply: for it, this is when it was issued.
    pub intended: Nanos,
    /// When it was issued: its connection started, or, on an open connection, its turn to be sent came.
    pub issued: Nanos,
    /// When the connection that was opened for it was up; `None` when it was sent on one that was up already,
    /// or never up. With TLS, its handshake follows.
    pub connected: Option<Nanos>,
    /// When the first of its bytes was handed to the kernel. With TLS that is after the handshake.
    pub send_started: Option<Nanos>,
    /// When the last of its bytes was handed to the kernel.
    pub sent: Option<Nanos>,
    /// When the first bytes of the reply were read.
    pub first_byte: Option<Nanos>,
    /// When it was over: the reply's last byte read, or the failure noticed.
    pub ended: Nanos,
    /// The reply's status; 0 when its head did not come.
    pub status: u16,
    /// Bytes of the request that were sent; with TLS, that were encrypted to be sent.
    pub request_bytes: u32,
    /// Bytes of the reply's head that were read.
    pub head_bytes: u32,
    /// Bytes of the reply's body that were read (of its content: chunk framing is left out).
    pub body_bytes: u64,
    /// Bytes of the reply's body by its head, if it came and told.
    pub promised: Option<u64>,
    /// How often it had been sent whole over a connection that ended without a reply to it, before what is
    /// told above.
    pub resent: u32,
    /// Whether the whole reply was compared with its file.
    pub compared: bool,
    /// When its client would have given up; the end of time, if that is not known.
    pub gives_up: Nanos,
    /// Whether its client only wants a TLS handshake: no request is sent.
    pub is_handshake: bool,
    /// What came of it.
    pub outcome: Outcome,
}

impl Call {
    /// A call that is issued, of which nothing else is known yet. It counts as cut off until it is over.
    pub(crate) fn new(
        request: RequestId,
        session: u32,
        position: u32,
        intended: Nanos,
        issued: Nanos,
    ) -> Self {
        Self {
            request,
            session,
            position,
            connection: u32::MAX,
            client_port: 0,
            intended,
            issued,
            connected: None,
            send_started: None,
            sent: None,
            first_byte: None,
            ended: issued,
            status: 0,
            request_bytes: 0,
            head_bytes: 0,
            body_bytes: 0,
            promised: None,
            resent: 0,
            compared: false,
            gives_up: Nanos::MAX,
            is_handshake: false,
            outcome: Outcome::Unfinished,
        }
    }

    /// Whether a connected server did not serve it: no whole reply came, or not the right one, or one that
    /// says that the server has failed or will not (5xx).
    pub const fn is_unserved(&self) -> bool {
        self.outcome.reached_server()
            && (!matches!(self.outcome, Outcome::Reply | Outcome::Handshake) || self.status >= 500)
    }
}

/// What came of a call. Each failure has its own name; none is "other".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A whole reply, of whatever status.
    Reply,
    /// TLS was established, for a client that only wants a handshake.
    Handshake,
    /// Its connection was not up within the connect timeout.
    ConnectTimeout,
    /// Its connection was up, but TLS was not established within the connect timeout.
    TlsTimeout,
    /// Its reply was not whole within the timeout.
    ReplyTimeout,
    /// The server, or its host, refused the connection.
    Refused,
    /// No way to the host, or the host does not answer for it.
    Unreachable,
    /// TLS failed: the server sent an alert, its certificate is not valid, or what came is not TLS.
    TlsError,
    /// The server reset the connection.
    Reset,
    /// The server closed the connection before the first byte of the reply.
    Closed,
    /// The server closed the connection in the middle of the reply.
    CutShort,
    /// The reply's length is not its file's.
    WrongLength,
    /// The reply's bytes are not its file's.
    WrongBytes,
    /// The reply was not HTTP.
    Malformed,
    /// No local port was free for a connection.
    NoPort,
    /// No descriptor was free for a connection.
    NoDescriptor,
    /// Another call of the same connection failed, and this one with it.
    Abandoned,
    /// The run ended first.
    Unfinished,
}

impl Outcome {
    /// All of them, in the order in which people should read them.
    pub const ALL: [Self; 18] = [
        Self::Reply,
        Self::Handshake,
        Self::ConnectTimeout,
        Self::TlsTimeout,
        Self::ReplyTimeout,
        Self::Refused,
        Self::Unreachable,
        Self::TlsError,
        Self::Reset,
        Self::Closed,
        Self::CutShort,
        Self::WrongLength,
        Self::WrongBytes,
        Self::Malformed,
        Self::NoPort,
        Self::NoDescriptor,
        Self::Abandoned,
        Self::Unfinished,
    ];

    /// For programs and people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::Handshake => "handshake",
            Self::ConnectTimeout => "connect_timeout",
            Self::TlsTimeout => "tls_timeout",
            Self::ReplyTimeout => "reply_timeout",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::TlsError => "tls_error",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::CutShort => "cut_short",
            Self::WrongLength => "wrong_length",
            Self::WrongBytes => "wrong_bytes",
            Self::Malformed => "malformed",
            Self::NoPort => "no_port",
            Self::NoDescriptor => "no_descriptor",
            Self::Abandoned => "abandoned",
            Self::Unfinished => "unfinished",
        }
    }

    /// What happened, in a sentence's end.
    pub(crate) const fn told(self) -> &'static str {
        match self {
            Self::Reply => "answered",
            Self::Handshake => "TLS established",
            Self::ConnectTimeout => "no connection in time",
            Self::TlsTimeout => "no TLS handshake in time",
            Self::ReplyTimeout => "no whole reply in time",
            Self::Refused => "connection refused",
            Self::Unreachable => "host unreachable",
            Self::TlsError => "TLS failed",
            Self::Reset => "connection reset",
            Self::Closed => "connection closed before the reply",
            Self::CutShort => "reply cut short",
            Self::WrongLength => "reply of another length than its file",
            Self::WrongBytes => "reply with other bytes than its file",
            Self::Malformed => "reply malformed",
            Self::NoPort => "no local port free",
            Self::NoDescriptor => "no descriptor free",
            Self::Abandoned => "failed with another call of its connection",
            Self::Unfinished => "cut off by the end of the run",
        }
    }

    /// Whether a server was connected, and could serve the call or not.
    pub const fn reached_server(self) -> bool {
        !matches!(
            self,
            Self::ConnectTimeout
                | Self::Refused
                | Self::Unreachable
                | Self::NoPort
                | Self::NoDescriptor
                | Self::Abandoned
                | Self::Unfinished
        )
    }

    /// Whether the client gave up, while connecting or while waiting for the reply.
    pub const fn is_timeout(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::TlsTimeout | Self::ReplyTimeout)
    }

    /// Whether it is a failure by itself: not a reply or a handshake, not cut off by the end of the run, and
    /// not down with another call.
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::Reply | Self::Handshake | Self::Abandoned | Self::Unfinished)
    }
}

/// One connection, when it is closed or could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionEnd {
    /// When connecting began.
    pub started: Nanos,
    /// When it was up: TCP's handshake was over. With TLS its own handshake follows.
    pub connected: Option<Nanos>,
    /// What came of the TLS handshake; none if there was none.
    pub handshake: Option<Handshake>,
    /// When it was over.
    pub ended: Nanos,
    /// Whole replies that came over it.
    pub replies: u32,
    /// The server ended it, and its session went on over another.
    pub lost: bool,
}

/// What came of a connection's TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// TLS was established.
    Done(Established),
    /// It failed, whatever way, or its client gave up.
    Failed,
    /// The run ended first.
    Unfinished,
}

/// An established TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Established {
    /// When: the last message of the server's handshake had been read and verified.
    pub at: Nanos,
    /// How.
    pub kind: HandshakeKind,
    /// What both ends agreed on.
    pub agreed: Agreed,
}

/// What both ends of a TLS connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The version: `1.2` or `1.3`.
    pub version: &'static str,
    /// The cipher suite, by its name at IANA.
    pub cipher: &'static str,
    /// The key-exchange group; none if no keys were exchanged, as when TLS 1.2 resumes a session.
    pub group: Option<&'static str>,
}

/// How a TLS connection was established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// With the server's certificate.
    Full,
    /// The same, after the server asked for another `ClientHello`.
    FullAfterRetry,
    /// With the keys of an earlier session.
    Resumed,
}

/// One session, when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    /// When it was due to arrive.
    pub intended: Nanos,
    /// When it did arrive.
    pub started: Nanos,
    /// When it was over.
    pub ended: Nanos,
    /// Whole replies that it got.
    pub replies: u32,
    /// How many connections it opened.
    pub connections: u32,
    /// How it ended.
    pub outcome: SessionOutcome,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionOutcome {
    /// Every call was answered.
    Completed,
    /// A call failed, and the session with it.
    Failed,
    /// The run ended first.
    Unfinished,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_stand_in_their_order() {
        for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
    }
}
