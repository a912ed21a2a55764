//! Why an application has not answered, and what its client is told.

use std::io;

use fastcgi::zero_copy::MOST_FILES;
use http1::Status;

use crate::config::ListenAddress;

/// Why an application has not answered.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No server of the pool can be connected to, the last that was tried for this reason.
    #[error("no server can be connected to; {0}: {1}")]
    Unreachable(ListenAddress, io::Error),
    /// The queues of all servers' Unix sockets are full, or there are no descriptors.
    #[error("no server has accepted the request in time")]
    Busy,
    /// A server ends the connection before its reply, or in it.
    #[error("the application has closed the connection before the end of its reply")]
    Closed,
    /// The connection to a server broke.
    #[error("the connection to the application broke: {0}")]
    Broken(io::Error),
    /// A server breaks the protocol, or refuses the request.
    #[error(transparent)]
    Protocol(#[from] fastcgi::Error),
    /// A server makes use of a transport that it was not asked for.
    #[error("the application uses a transport that it was not asked for")]
    Unasked,
    /// A server ends a request and keeps the client that it was lent.
    #[error("the application has ended the request and has not given the client back")]
    NotReturned,
    /// A server sends a reply although it has the client.
    #[error("the application has the client, and sends a reply here as well")]
    TwoReplies,
    /// A server gives a client back with a status or counts that can't be.
    #[error("the application gives the client back and says what can't be")]
    Senseless,
    /// A server does not say how much it has sent.
    #[error("the application says that it has sent {said} bytes to the client, which has got {found}")]
    Miscounted {
        /// What it says.
        said: u64,
        /// What the client's socket says.
        found: u64,
    },
    /// A server gives a client back in the middle of its reply.
    #[error("the application has sent the client a part of the reply")]
    Unfinished,
    /// A server says to have filled a part of its shared memory that it has not or that there is not.
    #[error("the application says that it has filled chunk {chunk} of its memory with {length} bytes")]
    Chunk {
        /// Which.
        chunk: u16,
        /// With how many bytes.
        length: u32,
    },
    /// What a server has written into its memory can't be read.
    #[error("the memory that is shared with the application can't be read: {0}")]
    Area(io::Error),
    /// What a server says is no reply.
    #[error(transparent)]
    Reply(#[from] fastcgi::response::Malformed),
    /// A reply is shorter than it said.
    #[error("the reply is shorter than its Content-Length")]
    Short,
    /// A server says and takes nothing for too long, or takes too long in all.
    #[error("the application has not answered in time")]
    TimedOut,
    /// It names a file to be sent that is none of its pool's.
    #[error("{0}, which is below none of the pool's send_files")]
    NotToBeSent(String),
    /// It says where files are named, and can't be understood.
    #[error(
        "the reply has the X-ZeroCopy {0:?}, where POSITION/LENGTH[/FROM[/COUNT]] are allowed, in order, \
             up to {MOST_FILES} of them, with colons between"
    )]
    Places(String),
    /// It ends before all files are named.
    #[error("the reply ends before the last file name that its X-ZeroCopy tells of")]
    NoName,
    /// It names files in a body of more than so many bytes.
    #[error("the reply names files in a body of more than {0} bytes")]
    TooMuchBeside(usize),
    /// A parameter is too long.
    #[error(transparent)]
    Parameter(#[from] fastcgi::TooLong),
    /// The path holds a line break, which names no script.
    #[error("a line break in the path")]
    LineBreak,
    /// As many wait for the application as may.
    #[error("too many requests wait for the application")]
    Full,
    /// It has waited for as long as it may.
    #[error("the application has had no time for the request")]
    Late,
    /// The request's body can't be kept.
    #[error("the body can't be spooled: {0}")]
    Spool(io::Error),
    /// What of a reply is for later can't be kept.
    #[error("the reply can't be spooled: {0}")]
    Spill(io::Error),
    /// The request that was put by can't be read again, which would be a fault of ours.
    #[error("the request can't be read again")]
    Unreadable,
    /// There is no such pool (any more).
    #[error("there is no such pool")]
    NoPool,
}

impl Failure {
    /// The status that tells the client.
    pub fn status(&self) -> Status {
        match self {
            Self::Protocol(fastcgi::Error::Refused(_))
            | Self::Busy
            | Self::Full
            | Self::Late
            | Self::Spool(_) => Status::SERVICE_UNAVAILABLE,
            Self::Unreachable(..)
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
