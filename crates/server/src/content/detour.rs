//! Why content has no answer of its own: what must be done first, or instead.

use http1::Sheet;

use super::call::Call;
use super::lookup::Lookup;
use super::table::Pin;

/// Why a request has no answer yet.
#[derive(Debug)]
pub enum Detour {
    /// This must be looked up first, for which there is no patience.
    Lookup(Box<Lookup<'static>>),
    /// An application is to answer. With what the plan would have been written on.
    Call(Box<Call>, Sheet<Pin>),
}

impl From<Box<Lookup<'static>>> for Detour {
    fn from(lookup: Box<Lookup<'static>>) -> Self {
        Self::Lookup(lookup)
    }
}
