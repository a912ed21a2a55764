//! Why a reply can't be read.

use thiserror::Error;

use crate::chunked::ChunkError;

/// Why a connection can't go on. It sticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// The server closed before the first byte of a reply that was awaited. Where the request is idempotent
    /// and the connection had been used before, it can be sent again on another one (RFC 9112 section 9.3.1).
    #[error("connection closed before the reply")]
    NoReply,
    /// The server closed in the middle of a reply.
    #[error("reply cut short")]
    CutShort,
    /// Not a response's head by the grammar of RFC 9112, line ends included.
    #[error("malformed response head")]
    Malformed,
    /// More than [`MAX_HEAD_BYTES`](super::MAX_HEAD_BYTES) of head.
    #[error("response head too large")]
    HeadTooLarge,
    /// Length and transfer coding contradict one another, are repeated, unreadable, or not understood (RFC
    /// 9112 section 6.3): where the reply ends is unknown.
    #[error("conflicting or unreadable message framing")]
    Framing,
    /// The chunked coding of the body is broken.
    #[error("{0}")]
    Chunk(#[from] ChunkError),
    /// Bytes that belong to no reply: no request was sent, or the last reply was complete.
    #[error("bytes that belong to no reply")]
    Unexpected,
    /// The server switched protocols (101) without having been asked to.
    #[error("unexpected switch of protocols")]
    Switched,
}
