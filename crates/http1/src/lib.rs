//! A sans-IO implementation of HTTP/1.1 (RFC 9110, RFC 9112) for servers and clients.
//!
//! Nothing here owns a socket, reads a clock, opens a file or starts a thread. Bytes and ticks come in as
//! arguments. Events and segments go out as values. So one implementation serves an event loop, a
//! pipeline of stages, a coroutine and a completion ring alike.
//!
//! In the server role, data flows like this:
//!
//! 1. The driver passes the received bytes to [`Connection::receive`], which returns a [`Step`].
//! 2. A [`Step::Request`] carries a [`Head`], borrowed from those bytes. The service turns it into a
//!    [`Plan`] at once.
//! 3. [`Connection::respond`] takes the plan, and [`Connection::output`] returns its bytes as
//!    [`Segment`]s.
//! 4. The driver reports to [`Connection::sent`] how many bytes it has sent.
//!
//! A reply that is sent while it is generated is an [`OpenReply`], which is separate from the connection.

pub mod chunked;
pub mod client;
pub mod coding;
pub mod conditional;
mod connection;
pub mod date;
mod error;
mod fields;
mod head;
mod limits;
pub mod media;
mod method;
mod open_reply;
mod plan;
pub mod range;
mod stamp;
mod status;
mod syntax;
mod tick;

pub use connection::{Connection, End, Ended, Step, Timeout, TimerKind, Wants};
pub use error::{ErrorKind, ProtocolError};
pub use fields::{Field, Fields};
pub use head::{Head, Terms, Version, host_and_port, host_name};
pub use limits::{Limits, Timeouts};
pub use method::Method;
pub use open_reply::{OpenReply, Run};
pub use plan::{Plan, Segment, Sheet};
pub use stamp::Stamp;
pub use status::Status;
pub use tick::Tick;
