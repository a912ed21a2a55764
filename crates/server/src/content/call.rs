//! What an application is called with that is to answer in place of a file.

use std::sync::Arc;

use super::numbers::SiteNumber;

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
