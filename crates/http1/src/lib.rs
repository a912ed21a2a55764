//! Sans-IO HTTP/1.1 (RFC 9110, RFC 9112) for both roles.
//!
//! Nothing here owns a socket, reads a clock, opens a file or starts a thread: bytes and ticks come in as
//! arguments, events and segments go out as values. That is why one implementation serves an event loop, a
//! pipeline of stages, a coroutine and a completion ring alike.
//!
//! Data flows through the server role like this: the driver lends what arrived to [`Connection::receive`],
//! which answers with a [`Step`]; a [`Step::Request`] carries a [`Head`] borrowed from that input, which the
//! service turns at once into a [`Plan`]; [`Connection::respond`] takes the plan, [`Connection::output`]
//! lends its bytes as [`Segment`]s, and [`Connection::sent`] hears how far they got. A reply that is sent
//! while it is made is an [`OpenReply`] beside the connection.

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
