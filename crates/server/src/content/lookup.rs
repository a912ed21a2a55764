//! What is looked up in the file system, and what comes of it: the question that the
//! [resolvers](super::Resolvers) is asked, and its answer before and after that is in the table.

use std::borrow::Cow;

use http1::Status;
use http1::coding::{Coding, CodingSet};
use sys::file::FileStat;

use super::entry::{Entry, Facts};
use super::numbers::{Elsewhere, SiteNumber};
use super::table::{Place, Variant};

/// What to look up, by the name that it has in the table. A listing's says its form as well.
#[derive(Clone, Debug)]
pub struct Lookup<'a> {
    /// The site that the path is of.
    pub(super) site: SiteNumber,
    pub(super) path: Cow<'a, [u8]>,
    /// Whether the site's owner names it, to whom no route refuses anything.
    pub(super) as_owner: bool,
    /// Not the file of that path, but a coded form of it.
    pub(super) sibling: Option<Original>,
    /// What the table has under that name, if it stays right for as long as the file stays the same.
    pub(super) cached: Option<Cached>,
    /// Whether requests that come while it is under way may be answered by it.
    pub(super) sharable: bool,
    /// It failed for want of descriptors, and some have been closed.
    pub(super) again: bool,
}

/// The file that a coded form is looked up of.
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

/// What a lookup has found in the file system.
#[derive(Debug)]
pub enum LookupResult {
    /// What the table has, to be believed until then, in monotonic milliseconds.
    Unchanged(u64),
    /// A file, or a listing. It is open even if its body is in memory, in case there is no room for that.
    File(Box<Entry>),
    /// A directory that was asked for without its slash.
    NoSlash,
    /// A script, which applications run and nobody is sent: the one of that path, or in that directory the
    /// index name of this number.
    Script(Option<usize>),
    /// Something that a route refuses to clients.
    Barred(Elsewhere),
    /// Nothing that may be sent.
    Refused(Status),
    /// There are no descriptors left.
    Exhausted,
}

/// What a name stands for. Its entry is told by its place in the table, which is of use until the table next
/// changes, or by a pin.
#[derive(Clone, Debug)]
pub enum Resolved<E = Place> {
    /// A file or a listing.
    Entry(E),
    /// A directory that was asked for without its slash.
    NoSlash,
    /// A script, which applications run: the one of that path, or in that directory the index name of this
    /// number.
    Script(Option<usize>),
    /// Something that a route refuses to clients.
    Barred(Elsewhere),
}

/// What came of a lookup once the table has it: what the name stands for, or the status of its refusal.
pub type Admitted = Result<Resolved, Status>;

impl Lookup<'_> {
    /// The lookup of a site's path, or of a coded form of what it names.
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

    /// The path that is looked up.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The lookup as it can be given to somebody else.
    pub(super) fn into_owned(self) -> Lookup<'static> {
        Lookup { path: Cow::Owned(self.path.into_owned()), ..self }
    }

    /// The site, and the directory below its root that it goes into, which may be another file system; empty
    /// for the root itself.
    pub fn top_directory(&self) -> (SiteNumber, &[u8]) {
        let path = self.path.strip_prefix(b"/").unwrap_or(&self.path);
        (self.site, path.iter().position(|&byte| byte == b'/').map_or(&[], |end| &path[..end]))
    }

    /// The name that lookups of one thing have in common, if one can stand for all of them.
    pub fn shared_name(&self) -> Option<(Box<[u8]>, Variant)> {
        self.sharable.then(|| (self.path.as_ref().into(), self.variant()))
    }
}

impl Cached {
    /// What an entry was made of, if it stays right for as long as that stays the same.
    pub(super) fn of(entry: &Facts) -> Option<Self> {
        let Facts { stat, index, siblings, lasting, .. } = *entry;
        lasting.then_some(Self { stat, index, siblings })
    }
}

impl LookupResult {
    /// Believed for no longer than that, in monotonic milliseconds.
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
