//! Lookups in the file system: the question that the [resolvers](super::Resolvers) are asked, and its
//! answer, before and after the table has it.

use std::borrow::Cow;

use http1::Status;
use http1::coding::{Coding, CodingSet};
use sys::file::FileStat;

use super::entry::{Entry, Facts};
use super::numbers::{Elsewhere, SiteNumber};
use super::table::{Place, Variant};

/// What to look up, by its name in the table. The name of a listing includes its form.
#[derive(Clone, Debug)]
pub struct Lookup<'a> {
    /// The site that the path belongs to.
    pub(super) site: SiteNumber,
    pub(super) path: Cow<'a, [u8]>,
    /// Whether the site's owner names the path. No route refuses such a path.
    pub(super) as_owner: bool,
    /// Set to look up a coded form of the file at that path, not the file itself.
    pub(super) sibling: Option<Original>,
    /// What the table has under that name, if that stays right as long as the file stays the same.
    pub(super) cached: Option<Cached>,
    /// Whether this lookup may also answer requests that arrive while it is under way.
    pub(super) sharable: bool,
    /// The lookup failed for lack of descriptors, and some have been closed since.
    pub(super) again: bool,
}

/// The file whose coded form is looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Original {
    pub(super) coding: Coding,
    pub(super) stat: FileStat,
    pub(super) index: Option<usize>,
}

/// What the table's entry was made of. A lookup that finds the same loads nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cached {
    pub(super) stat: FileStat,
    pub(super) index: Option<usize>,
    pub(super) siblings: CodingSet,
}

/// What a lookup found in the file system.
#[derive(Debug)]
pub enum LookupResult {
    /// The table's entry is still right. It may be trusted until then, in monotonic milliseconds.
    Unchanged(u64),
    /// A file, or a listing. It is open even if its body is in memory, in case the table has no room for
    /// the body.
    File(Box<Entry>),
    /// A directory that was requested without its slash.
    NoSlash,
    /// A script, which an application runs and no client is sent: the file at that path, or in that
    /// directory the file with the index name of this number.
    Script(Option<usize>),
    /// A file that a route refuses to clients.
    Barred(Elsewhere),
    /// Nothing that may be sent.
    Refused(Status),
    /// There are no descriptors left.
    Exhausted,
}

/// What a name stands for. An entry is given by its place in the table, which is valid until the table
/// next changes, or by a pin.
#[derive(Clone, Debug)]
pub enum Resolved<E = Place> {
    /// A file or a listing.
    Entry(E),
    /// A directory that was requested without its slash.
    NoSlash,
    /// A script, which an application runs: the file at that path, or in that directory the file with the
    /// index name of this number.
    Script(Option<usize>),
    /// A file that a route refuses to clients.
    Barred(Elsewhere),
}

/// The result of a lookup once the table has it: what the name stands for, or the status of its refusal.
pub type Admitted = Result<Resolved, Status>;

impl Lookup<'_> {
    /// The lookup of a site's path, or of a coded form of the file at it.
    pub(super) fn new(site: SiteNumber, path: &[u8], sibling: Option<Original>) -> Lookup<'_> {
        let path = Cow::Borrowed(path);
        Lookup { site, path, as_owner: false, sibling, cached: None, sharable: false, again: false }
    }

    pub(super) fn coding(&self) -> Option<Coding> {
        self.sibling.map(|original| original.coding)
    }

    pub(super) fn variant(&self) -> Variant {
        Variant::new(self.site, self.coding()).of_owner(self.as_owner)
    }

    /// The site that it is for.
    pub fn site(&self) -> SiteNumber {
        self.site
    }

    /// The path to look up.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The lookup in a form that another thread can take.
    pub(super) fn into_owned(self) -> Lookup<'static> {
        Lookup { path: Cow::Owned(self.path.into_owned()), ..self }
    }

    /// The site, and the first directory on the path below the site's root. It may be on another file
    /// system. Empty for the root itself.
    pub fn top_directory(&self) -> (SiteNumber, &[u8]) {
        let path = self.path.strip_prefix(b"/").unwrap_or(&self.path);
        (self.site, path.iter().position(|&byte| byte == b'/').map_or(&[], |end| &path[..end]))
    }

    /// The name that identical lookups have in common, if one can stand for all of them.
    pub fn shared_name(&self) -> Option<(Box<[u8]>, Variant)> {
        self.sharable.then(|| (self.path.as_ref().into(), self.variant()))
    }
}

impl Cached {
    /// What an entry was made of, if the entry stays right as long as that stays the same.
    pub(super) fn of(entry: &Facts) -> Option<Self> {
        let Facts { stat, index, siblings, lasting, .. } = *entry;
        lasting.then_some(Self { stat, index, siblings })
    }
}

impl LookupResult {
    /// The result, trusted no longer than until `most_ms`, in monotonic milliseconds.
    pub(super) fn trusted_until(mut self, most_ms: u64) -> Self {
        match &mut self {
            Self::Unchanged(until_ms) => *until_ms = most_ms.min(*until_ms),
            Self::File(entry) => {
                entry.facts.trusted_until_ms = most_ms.min(entry.facts.trusted_until_ms);
            }
            Self::NoSlash | Self::Script(_) | Self::Barred(_) | Self::Refused(_) | Self::Exhausted => {}
        }
        self
    }
}
