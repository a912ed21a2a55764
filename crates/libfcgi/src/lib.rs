//! The application's end of FastCGI, in two faces: `libfcgi.so.0`, whose functions and structures are those
//! of the library of that name that distributions have, and a Rust interface over the same code.
//!
//! A program written for either need not know how its replies travel. To any web server they go in records of
//! the connection. Where the web server is Sluicegate and its pool says so, the library sends them to the
//! client itself (*pass-fd*), or writes them into memory that both share: see [`fastcgi::transport`].
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
//! | requests one after the other, for one thread | `session` |
//! | connections of web servers | `listener`, `connection` |
//! | the reply, and the ways that it goes | `reply`: records of the connection, `delivery`, `area` |
//! | what the environment says | `settings` |
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
