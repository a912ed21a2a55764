//! The call of an application that answers instead of a file.

use std::sync::Arc;

use super::numbers::SiteNumber;

/// A request to an application, in the terms of RFC 3875 section 4.1. Paths are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The site of the request. Its error pages are used.
    pub site: SiteNumber,
    /// The name of the application's pool.
    pub pool: Arc<str>,
    /// `SCRIPT_FILENAME`: the absolute path of the script or program.
    pub file: Box<[u8]>,
    /// `SCRIPT_NAME`: the part of the path that leads to it.
    pub name: Box<[u8]>,
    /// `PATH_INFO`: the rest of the path.
    pub info: Box<[u8]>,
    /// `DOCUMENT_ROOT`: the directory that is served.
    pub root: Arc<[u8]>,
}
