//! Errors in reading a reply.

use thiserror::Error;

use crate::chunked::ChunkError;

/// Why a connection cannot continue. The error is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// The server closed before the first byte of an expected reply. If the request is idempotent and the
    /// connection had been used before, the request can be sent again on another connection (RFC 9112
    /// section 9.3.1).
    #[error("connection closed before the reply")]
    NoReply,
    /// The server closed in the middle of a reply.
    #[error("reply cut short")]
    CutShort,
    /// Not a response head by the grammar of RFC 9112, including line ends.
    #[error("malformed response head")]
    Malformed,
    /// More than [`MAX_HEAD_BYTES`](super::MAX_HEAD_BYTES) of head.
    #[error("response head too large")]
    HeadTooLarge,
    /// Length and transfer coding contradict one another, are repeated, or cannot be parsed or understood
    /// (RFC 9112 section 6.3). So the end of the reply is unknown.
    #[error("conflicting or unreadable message framing")]
    Framing,
    /// The chunked coding of the body is broken.
    #[error("{0}")]
    Chunk(#[from] ChunkError),
    /// Bytes that belong to no reply: no request was sent, or the last reply was already complete.
    #[error("bytes that belong to no reply")]
    Unexpected,
    /// The server switched protocols (101), but the client had not asked for that.
    #[error("unexpected switch of protocols")]
    Switched,
}
