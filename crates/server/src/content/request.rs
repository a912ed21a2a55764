//! One request for files.

use http1::coding::Coding;
use http1::{Field, Head, Stamp};

use super::load::Now;
use super::lookup::{Lookup, Original};
use super::may_block::MayBlock;
use super::numbers::SiteNumber;
use super::path::Path;
use super::prefetch::Prefetched;
use super::table::Variant;

/// A request, and what its reply needs in addition to the file.
pub(super) struct Request<'a> {
    pub(super) head: &'a Head<'a>,
    pub(super) asking: Asking<'a>,
    pub(super) stamp: &'a Stamp,
}

impl Request<'_> {
    /// Whether the request asks for a part of a file that was not looked up for this request.
    #[inline]
    pub(super) fn wants_part_unseen(&self, path: Path<'_>) -> bool {
        let seen = |had: &Prefetched| had.find(path.bytes(), self.asking.plain()).is_some();
        self.head.fields.any_of(&[Field::Range]) && !self.asking.prefetched.is_some_and(seen)
    }
}

/// How a request looks for files.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    /// The site that the request is for.
    pub(super) site: SiteNumber,
    pub(super) now: Now,
    /// The results of lookups for the request, if any were made or tried.
    pub(super) prefetched: Option<&'a Prefetched>,
    pub(super) may_block: MayBlock,
    /// Whether the site's owner names the files. No route refuses them then.
    pub(super) as_owner: bool,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        site: SiteNumber,
        now: Now,
        (prefetched, may_block): (Option<&'a Prefetched>, MayBlock),
    ) -> Self {
        Self { site, now, prefetched, may_block, as_owner: false }
    }

    /// The lookup of a path for this request.
    pub(super) fn lookup<'p>(&self, path: &'p [u8], sibling: Option<Original>) -> Lookup<'p> {
        Lookup { as_owner: self.as_owner, ..Lookup::new(self.site, path, sibling) }
    }

    /// A file itself, in no coding.
    #[inline]
    pub(super) fn plain(&self) -> Variant {
        self.variant(None)
    }

    /// A file in that coding.
    #[inline]
    pub(super) fn variant(&self, coding: Option<Coding>) -> Variant {
        Variant::new(self.site, coding).of_owner(self.as_owner)
    }
}
