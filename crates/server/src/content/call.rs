//! What content answers where it has none of its own: who is to be called instead.

use std::sync::Arc;

use http1::Sheet;

use super::lookup::Lookup;
use super::table::{Pin, SiteNumber};

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

/// A request for an application, in the words of RFC 3875 section 4.1. Paths are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The site that is asked, whose pages tell of errors.
    pub site: SiteNumber,
    /// The name of the pool that the application is in.
    pub pool: Arc<str>,
    /// `SCRIPT_FILENAME`: the file of the script or program, absolute.
    pub file: Box<[u8]>,
    /// `SCRIPT_NAME`: the part of the path that leads to it.
    pub name: Box<[u8]>,
    /// `PATH_INFO`: the rest of the path.
    pub info: Box<[u8]>,
    /// `DOCUMENT_ROOT`: the directory that is served.
    pub root: Arc<[u8]>,
}
