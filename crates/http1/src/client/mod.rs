//! The client's side of HTTP/1.1, sans IO: what a load generator or a test needs to talk to a server.
//!
//! [`write_request`] appends requests to a buffer, and each is reported to [`Connection`]. The connection
//! is passed what the server sends, and returns what it is: a [`ResponseHead`], a piece of body, the end
//! of a reply. It is as strict as the server role, because a client that measures servers must notice a
//! reply with a wrong length.
//!
//! CONNECT is not supported: there is no tunnel to switch to.

mod connection;
mod error;
mod request;
mod response;

pub use connection::{Connection, Event, MAX_HEAD_BYTES, MAX_PIPELINED, PipelineFull};
pub use error::ReplyError;
pub use request::{RequestError, write_request};
pub use response::{BodyLength, ResponseHead};
