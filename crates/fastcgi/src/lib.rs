//! Sans-IO FastCGI 1.0 (the specification of 29 April 1996), for both ends.
//!
//! Nothing here owns a socket, spawns a process or keeps a pool: bytes come in as arguments, what they mean
//! goes out as values, and what is to be sent is appended to a buffer of the caller's.
//!
//! A web server encodes a request's [`Params`], and hands what the application answers to a [`WebServer`],
//! which tells its output ([`Output`]) piece by piece: ranges of the input, so that nothing is copied. The
//! beginning of that output is a CGI response, whose head [`response::parse`] reads. An application hands
//! what it is asked to an [`Application`], and writes records with [`record`]'s functions. Where both know
//! more than FastCGI does, a reply can take another way than through the connection: see [`transport`]; or it
//! names files for the web server to send: see [`zero_copy`].

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
