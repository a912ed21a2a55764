//! Names of applications, such as `app.internal`, and the addresses that they have now.
//!
//! One process of the server looks all names up, and again when the time to live of an answer is over. It
//! writes the [`Addresses`] of each name into memory that all processes share. A worker looks there before it
//! chooses a server, which costs one load as long as nothing has changed. So no worker ever waits for a name
//! server, and a name server has as few questions from a server with a hundred workers as from one with one.

mod addresses;
mod lookup;
mod watch;

pub use self::addresses::{Addresses, MOST_ADDRESSES};
pub use self::watch::{Watch, Watched};
