//! Lookups done for a request before it is answered. A request that cannot be answered without a lookup
//! waits for the lookup, and is then answered again with the result.
//!
//! The result is pinned for the request, so that a full table or a validity of zero cannot make the
//! request loop.

use http1::Status;

use super::Content;
use super::lookup::{Admitted, Lookup, Resolved};
use super::table::{Pin, Variant};

/// The results of lookups for one request. The request trusts them as if it had just looked up itself.
#[derive(Debug, Default)]
pub struct Prefetched {
    results: Vec<PrefetchedEntry>,
    /// No more lookups: the disk does not respond.
    pub(super) is_given_up: bool,
}

/// What a name stands for, kept for a request.
#[derive(Debug)]
struct PrefetchedEntry {
    path: Box<[u8]>,
    variant: Variant,
    kept: Result<Resolved<Pin>, Status>,
}

impl Prefetched {
    /// Makes the request be answered with what is known, without another lookup.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// What that name stands for, if it was looked up.
    pub(super) fn find(&self, path: &[u8], variant: Variant) -> Option<Admitted> {
        let entry = self.results.iter().find(|entry| *entry.path == *path && entry.variant == variant)?;
        Some(match &entry.kept {
            Ok(Resolved::Entry(pin)) => Ok(Resolved::Entry(pin.0)),
            Ok(Resolved::NoSlash) => Ok(Resolved::NoSlash),
            Ok(Resolved::Script(index)) => Ok(Resolved::Script(*index)),
            Ok(Resolved::Barred(route)) => Ok(Resolved::Barred(*route)),
            Err(status) => Err(*status),
        })
    }
}

impl Content {
    /// Keeps the result of a lookup for the request that needs it. Call this before the table changes
    /// again.
    pub fn keep(&mut self, prefetched: &mut Prefetched, lookup: &Lookup<'_>, admitted: &Admitted) {
        let kept = match admitted {
            Ok(Resolved::Entry(place)) => Ok(Resolved::Entry(self.table.pin(*place))),
            Ok(Resolved::NoSlash) => Ok(Resolved::NoSlash),
            Ok(Resolved::Script(index)) => Ok(Resolved::Script(*index)),
            Ok(Resolved::Barred(route)) => Ok(Resolved::Barred(*route)),
            Err(status) => Err(*status),
        };
        let path = lookup.path.as_ref().into();
        prefetched.results.push(PrefetchedEntry { path, variant: lookup.variant(), kept });
    }

    /// Releases what was kept for a request.
    pub fn unkeep(&mut self, prefetched: Prefetched) {
        for entry in prefetched.results {
            if let Ok(Resolved::Entry(pin)) = entry.kept {
                self.table.unpin(pin);
            }
        }
    }
}
