//! Why content cannot answer a request itself: what must be done first, or instead.

use http1::Sheet;

use super::call::Call;
use super::lookup::Lookup;
use super::table::Pin;

/// Why a request has no answer yet.
#[derive(Debug)]
pub enum Detour {
    /// This must be looked up first, and that may take longer than the caller may block.
    Lookup(Box<Lookup<'static>>),
    /// An application must answer. Holds the sheet for the plan.
    Call(Box<Call>, Sheet<Pin>),
}

impl From<Box<Lookup<'static>>> for Detour {
    fn from(lookup: Box<Lookup<'static>>) -> Self {
        Self::Lookup(lookup)
    }
}
