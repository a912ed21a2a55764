//! What makes a FastCGI connection useless.

use thiserror::Error;

/// A breach of the protocol. Where the next record begins, or whose it is, is not known any more: the
/// connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The first byte of a record is not the version's, 1.
    #[error("record of FastCGI version {0}, where only 1 is known")]
    Version(u8),
    /// A record of a fixed size has another (section 5).
    #[error("record of type {kind} with {length} bytes")]
    Length {
        /// The record's type.
        kind: u8,
        /// The length of its content in bytes.
        length: u16,
    },
    /// A record that only the other end may send, or none at all while no request is under way.
    #[error("record of type {0} where it has no place")]
    Misplaced(u8),
    /// The application refuses the request: section 5.5's statuses but for the first.
    #[error("the application refuses the request with protocol status {0}")]
    Refused(u8),
    /// Parameters are more than the limit, or a pair of them ends behind its stream.
    #[error("malformed or too many parameters")]
    Params,
    /// A management record says more than any does.
    #[error("management record of {0} bytes")]
    Management(u16),
}
