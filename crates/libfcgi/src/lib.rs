//! The application's end of FastCGI, with two interfaces: `libfcgi.so.0`, which has the functions and
//! structures of the library of that name in distributions, and a Rust interface over the same code.
//!
//! A program written for either interface need not know how its replies travel. Any web server gets them as
//! records of the connection. If the web server is Sluicegate and its pool is configured for it, the library
//! sends replies to the client itself (*pass-fd*), or writes them into memory that both share: see
//! [`fastcgi::transport`].
//!
//! ```no_run
//! use std::io::Write;
//!
//! let listener = fcgi::Listener::inherited()?;
//! let mut session = fcgi::Session::new();
//! while let Some(mut request) = session.accept(&listener)? {
//!     let name = request.param("QUERY_STRING").map(<[u8]>::to_vec).unwrap_or_default();
//!     write!(request, "Content-Type: text/plain\n\nHello, {}!\n", String::from_utf8_lossy(&name))?;
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | what | where |
//! |---|---|
//! | sequential requests, for one thread | `session` |
//! | connections of web servers | `listener`, `connection` |
//! | the reply, and its transports | `reply`: records of the connection, `delivery`, `area` |
//! | settings from the environment | `settings` |
//! | C's functions | `abi` |

#[expect(unsafe_code, reason = "C's pointers are what they are said to be, and its names are its own")]
mod abi;
mod area;
mod connection;
mod delivery;
mod listener;
mod reply;
mod session;
mod settings;

pub use fastcgi::Role;
pub use listener::{Listener, shut_down};
pub use session::{ErrorLog, Request, Session};
