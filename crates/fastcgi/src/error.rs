//! Errors that make a FastCGI connection unusable.

use thiserror::Error;

/// A breach of the protocol. The receiver no longer knows where the next record begins or to which request it
/// belongs, so it must close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The first byte of a record is not the version, 1.
    #[error("record of FastCGI version {0}; only version 1 is supported")]
    Version(u8),
    /// A record of a fixed size has a different size (section 5).
    #[error("record of type {kind} with {length} bytes")]
    Length {
        /// The record's type.
        kind: u8,
        /// The length of its content in bytes.
        length: u16,
    },
    /// A record that only the other end may send, or that is not allowed while no request is in progress.
    #[error("unexpected record of type {0}")]
    Misplaced(u8),
    /// The application refuses the request: any status of section 5.5 except the first.
    #[error("the application refuses the request with protocol status {0}")]
    Refused(u8),
    /// The parameters exceed the limit, or a pair extends beyond the end of its stream.
    #[error("malformed or too many parameters")]
    Params,
    /// A management record is longer than any valid one.
    #[error("management record of {0} bytes")]
    Management(u16),
}
