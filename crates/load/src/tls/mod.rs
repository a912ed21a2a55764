//! TLS between a connection's socket and its HTTP. All use of rustls is here.
//!
//! [`Settings`] are what a run asks. They are checked once, before the run, and become [`Prepared`]. Each
//! thread makes a [`Client`] of it for each target that speaks TLS. A client keeps the sessions that its
//! connections can resume, so threads share none. [`Tls`] is the state of one connection, from when TCP is
//! connected.

mod layer;
mod names;
mod reasons;
mod roots;
mod sessions;
mod settings;

pub(crate) use layer::{MOST_DECRYPTED, RECORDS, Tls};
pub use names::{Cipher, Group, Name, Version};
pub use roots::{NoRoots, Roots};
pub(crate) use settings::{Client, Prepared};
pub use settings::{Settings, Unusable};
