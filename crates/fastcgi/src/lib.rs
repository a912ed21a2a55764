//! A sans-IO implementation of FastCGI 1.0 (the specification of 29 April 1996), for web servers and
//! applications.
//!
//! Nothing here owns a socket, spawns a process or keeps a pool. Received bytes are arguments, and their
//! meaning is returned as values. Bytes to be sent are appended to the caller's buffer.
//!
//! A web server encodes a request's [`Params`], and passes the application's answer to a [`WebServer`]. That
//! returns the output ([`Output`]) piece by piece, as ranges of the input, so that nothing is copied. The
//! output begins with the head of a CGI response, which [`response::parse`] reads. An application passes the
//! bytes that it receives to an [`Application`], and writes records with the functions of [`record`].
//!
//! If both ends support more than FastCGI, a reply need not go through the connection: see [`transport`]. A
//! reply can also name files for the web server to send: see [`zero_copy`].

mod application;
mod error;
mod params;
pub mod record;
pub mod response;
pub mod transport;
mod web_server;
pub mod zero_copy;

pub use application::{Application, Asked, Begun, values};
pub use error::Error;
pub use params::{Malformed, Pairs, Params, TooLong};
pub use record::{Kind, ProtocolStatus, Role};
pub use transport::Transports;
pub use web_server::{Output, WebServer};
