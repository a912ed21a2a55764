//! Errors that a client can make, and the status for each.

use crate::Status;

/// A violation of the protocol or of a limit. It is final: nothing more on that connection is read as
/// HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct ProtocolError {
    /// What was wrong.
    pub kind: ErrorKind,
}

impl ProtocolError {
    /// The status for the client.
    pub fn status(self) -> Status {
        self.kind.status()
    }
}

impl From<ErrorKind> for ProtocolError {
    fn from(kind: ErrorKind) -> Self {
        Self { kind }
    }
}

/// The kinds of violation, each with the rule that it violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum ErrorKind {
    /// RFC 9112 section 3.
    #[error("malformed request line")]
    RequestLine,
    /// Longer than the limit (RFC 9112 section 3).
    #[error("request line too long")]
    RequestLineTooLong,
    /// A method with a name over the limit: see [`Method::MAX_LENGTH`](crate::Method::MAX_LENGTH).
    #[error("unknown method")]
    UnknownMethod,
    /// RFC 9112 section 3.2.
    #[error("malformed request target")]
    Target,
    /// A major version other than 1 (RFC 9110 section 2.5).
    #[error("unsupported HTTP version")]
    Version,
    /// Bad name, space before the colon, folded line, control character (RFC 9112 section 5).
    #[error("malformed header field")]
    Field,
    /// A line that ends in a single line feed or a single carriage return (RFC 9112 section 2.2).
    #[error("bare line feed or carriage return")]
    BareLineEnd,
    /// More field lines than the limit allows.
    #[error("too many header fields")]
    TooManyFields,
    /// A head larger than the limit.
    #[error("request head too large")]
    HeadTooLarge,
    /// Missing, repeated or malformed Host (RFC 9112 section 3.2).
    #[error("missing, repeated or malformed Host")]
    Host,
    /// Repeated or not a number (RFC 9112 section 6.3).
    #[error("repeated or malformed Content-Length")]
    ContentLength,
    /// Transfer-Encoding together with Content-Length, in HTTP/1.0, or without `chunked` as the last
    /// coding (RFC 9112 sections 6.1, 6.3).
    #[error("conflicting message framing")]
    Framing,
    /// Another transfer coding before `chunked` (RFC 9112 section 6.1).
    #[error("unknown transfer coding")]
    TransferCoding,
    /// RFC 9112 section 7.1.
    #[error("malformed chunked body")]
    Chunk,
    /// A body larger than the limit.
    #[error("request body too large")]
    BodyTooLarge,
    /// An expectation other than 100-continue (RFC 9110 section 10.1.1).
    #[error("unknown expectation")]
    Expectation,
    /// The client closed in the middle of a request.
    #[error("request cut short")]
    CutShort,
    /// The head did not arrive in time.
    #[error("request head took too long")]
    HeaderTimeout,
    /// The body arrived below the minimum rate.
    #[error("request body took too long")]
    BodyTimeout,
}

impl ErrorKind {
    /// All kinds, in the order of their discriminants, for tables of counters.
    pub const ALL: [Self; 19] = [
        Self::RequestLine,
        Self::RequestLineTooLong,
        Self::UnknownMethod,
        Self::Target,
        Self::Version,
        Self::Field,
        Self::BareLineEnd,
        Self::TooManyFields,
        Self::HeadTooLarge,
        Self::Host,
        Self::ContentLength,
        Self::Framing,
        Self::TransferCoding,
        Self::Chunk,
        Self::BodyTooLarge,
        Self::Expectation,
        Self::CutShort,
        Self::HeaderTimeout,
        Self::BodyTimeout,
    ];

    /// The status for the client.
    pub fn status(self) -> Status {
        match self {
            Self::RequestLine
            | Self::Target
            | Self::Field
            | Self::BareLineEnd
            | Self::Host
            | Self::ContentLength
            | Self::Framing
            | Self::Chunk
            | Self::CutShort => Status::BAD_REQUEST,
            Self::RequestLineTooLong => Status::URI_TOO_LONG,
            Self::UnknownMethod | Self::TransferCoding => Status::NOT_IMPLEMENTED,
            Self::Version => Status::VERSION_NOT_SUPPORTED,
            Self::TooManyFields | Self::HeadTooLarge => Status::HEADER_FIELDS_TOO_LARGE,
            Self::BodyTooLarge => Status::CONTENT_TOO_LARGE,
            Self::Expectation => Status::EXPECTATION_FAILED,
            Self::HeaderTimeout | Self::BodyTimeout => Status::REQUEST_TIMEOUT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_listed_in_order() {
        for (i, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, i);
            assert!(kind.status().0 >= 400);
        }
    }
}
