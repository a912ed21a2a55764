//! What is looked up for a request before it is answered: a request that can't be answered without a lookup
//! waits for that, and is then answered anew with what was found.
//!
//! What was found is pinned for the request, so that a full table or a validity of zero can't send it round
//! in circles.

use http1::Status;

use super::Content;
use super::lookup::{Admitted, Lookup, Resolved};
use super::table::{Pin, Variant};

/// What has been looked up for one request, which believes it as if it had looked itself.
#[derive(Debug, Default)]
pub struct Prefetched {
    results: Vec<PrefetchedEntry>,
    /// Nothing more will be looked up: the disk does not answer.
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
    /// Has the request answered with what there is, without another lookup.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// What that name stands for.
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
    /// Keeps for a request what came of a lookup that it asked for, before the table changes again.
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

    /// Takes back what was kept for a request.
    pub fn unkeep(&mut self, prefetched: Prefetched) {
        for entry in prefetched.results {
            if let Ok(Resolved::Entry(pin)) = entry.kept {
                self.table.unpin(pin);
            }
        }
    }
}
