//! Why an application has not answered, and the status that its client gets.

use std::io;

use fastcgi::zero_copy::MOST_FILES;
use http1::Status;
use http1::client::ReplyError;

use crate::config::ListenAddress;

/// Why an application has not answered.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No server of the pool can be connected to. The address and the error are of the last one tried.
    #[error("no server can be connected to; {0}: {1}")]
    Unreachable(ListenAddress, io::Error),
    /// The pool has only names, which have no address now.
    #[error("no address is known for {0}")]
    NoAddress(String),
    /// The queues of all servers' Unix sockets are full, or there are no descriptors.
    #[error("no server has accepted the request in time")]
    Busy,
    /// A server closes the connection before its reply or within it.
    #[error("the application has closed the connection before the end of its reply")]
    Closed,
    /// The connection to a server broke.
    #[error("the connection to the application broke: {0}")]
    Broken(io::Error),
    /// A server breaks the protocol, or refuses the request.
    #[error(transparent)]
    Protocol(#[from] fastcgi::Error),
    /// A server uses a transport that it was not asked for.
    #[error("the application uses a transport that was not offered to it")]
    Unasked,
    /// A server ends a request, but keeps the client's socket that was passed to it.
    #[error("the application has ended the request without returning the client's connection")]
    NotReturned,
    /// A server sends a reply here although it has the client's socket.
    #[error("the application has the client's connection, and sends a reply to the server as well")]
    TwoReplies,
    /// A server gives a client's socket back with an impossible status or impossible counts.
    #[error("the application returns the client's connection with impossible figures")]
    Senseless,
    /// A server's count of the bytes it has sent is wrong.
    #[error("the application reports {said} bytes sent to the client, whose connection has taken {found}")]
    Miscounted {
        /// The server's count.
        said: u64,
        /// The count of the client's socket.
        found: u64,
    },
    /// A server gives a client's socket back in the middle of its reply.
    #[error("the application has sent the client only a part of the reply")]
    Unfinished,
    /// A server reports a chunk of its shared memory as filled that does not exist or that it does not
    /// own.
    #[error("the application reports an invalid chunk of shared memory: chunk {chunk} with {length} bytes")]
    Chunk {
        /// The chunk's number.
        chunk: u16,
        /// The reported length in bytes.
        length: u32,
    },
    /// The shared memory that a server has written to cannot be read.
    #[error("the memory that is shared with the application can't be read: {0}")]
    Area(io::Error),
    /// A server's reply is malformed.
    #[error(transparent)]
    Reply(#[from] fastcgi::response::Malformed),
    /// A server's reply is not HTTP/1.1 or 1.0.
    #[error("the application's reply is not as HTTP has it: {0}")]
    Http(ReplyError),
    /// A server switches to a protocol that the request has not offered.
    #[error("the application switches to a protocol that was not offered to it")]
    NotOffered,
    /// As many connections to the pool are upgraded as may be.
    #[error("too many connections to the application are upgraded (the pool's upgrades)")]
    TooManyUpgrades,
    /// A reply is shorter than its announced length.
    #[error("the reply is shorter than its Content-Length")]
    Short,
    /// A server neither sends nor takes anything for too long, or takes too long in total.
    #[error("the application has not answered in time")]
    TimedOut,
    /// The reply names a file to be sent that is not in the pool's directories.
    #[error("{0}, which is below none of the pool's send_files")]
    NotToBeSent(String),
    /// The reply's field for the places of file names cannot be understood.
    #[error(
        "the reply has the X-ZeroCopy {0:?}, where POSITION/LENGTH[/FROM[/COUNT]] are allowed, in order, \
             up to {MOST_FILES} of them, with colons between"
    )]
    Places(String),
    /// The reply ends before all files are named.
    #[error("the reply ends before the last file name that its X-ZeroCopy announces")]
    NoName,
    /// The reply names files in a body of more than this many bytes.
    #[error("the reply names files in a body of more than {0} bytes")]
    TooMuchBeside(usize),
    /// A parameter is too long.
    #[error(transparent)]
    Parameter(#[from] fastcgi::TooLong),
    /// The path contains a line break, so it names no script.
    #[error("a line break in the path")]
    LineBreak,
    /// The pool's queue is full.
    #[error("too many requests wait for the application")]
    Full,
    /// The request has waited in the queue for as long as it may.
    #[error("the application could not start the request in time")]
    Late,
    /// The request's body cannot be spooled.
    #[error("the body can't be spooled: {0}")]
    Spool(io::Error),
    /// The part of a reply that is for later cannot be spooled.
    #[error("the reply can't be spooled: {0}")]
    Spill(io::Error),
    /// The saved request cannot be read again, which is a bug in this server.
    #[error("the request can't be read again")]
    Unreadable,
    /// The pool does not exist (any more).
    #[error("there is no such pool")]
    NoPool,
}

impl Failure {
    /// The status for the client.
    pub fn status(&self) -> Status {
        match self {
            Self::Protocol(fastcgi::Error::Refused(_))
            | Self::Busy
            | Self::Full
            | Self::Late
            | Self::TooManyUpgrades
            | Self::Spool(_) => Status::SERVICE_UNAVAILABLE,
            Self::Unreachable(..)
            | Self::NoAddress(_)
            | Self::Closed
            | Self::Broken(_)
            | Self::Protocol(_)
            | Self::Unasked
            | Self::NotReturned
            | Self::TwoReplies
            | Self::Senseless
            | Self::Miscounted { .. }
            | Self::Unfinished
            | Self::Chunk { .. }
            | Self::Area(_)
            | Self::NotToBeSent(_)
            | Self::Places(_)
            | Self::NoName
            | Self::TooMuchBeside(_)
            | Self::Reply(_)
            | Self::Http(_)
            | Self::NotOffered
            | Self::Short
            | Self::Spill(_)
            | Self::NoPool => Status::BAD_GATEWAY,
            Self::TimedOut => Status::GATEWAY_TIMEOUT,
            Self::Parameter(_) => Status::HEADER_FIELDS_TOO_LARGE,
            Self::LineBreak => Status::NOT_FOUND,
            Self::Unreadable => Status::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<ReplyError> for Failure {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::NoReply | ReplyError::CutShort => Self::Closed,
            error => Self::Http(error),
        }
    }
}
