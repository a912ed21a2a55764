//! Files that one worker serves apart from the shared table. Such a file is opened for one reply, no
//! other worker knows it, and it is closed with its last pin.
//!
//! This is for when the table cannot be locked in time, as a worker may have been stopped while it holds
//! a lock.

use sys::descriptors::Ledger;

use super::super::entry::Entry;
use super::super::table::{Full, Place};

/// The entries of one worker that are not in the table.
#[derive(Debug)]
pub(super) struct Apart {
    entries: Vec<Option<Pinned>>,
    free: Vec<Place>,
    ledger: Ledger,
    owner: u32,
}

#[derive(Debug)]
struct Pinned {
    entry: Entry,
    pins: u32,
}

/// The bit that distinguishes places of these entries from places in the table.
const APART: Place = 1 << 31;

/// Whether the place is of an entry that is not in the table.
#[inline]
pub(in crate::content) fn is_apart(place: Place) -> bool {
    place & APART != 0
}

impl Apart {
    /// Without entries. Descriptors are recorded as this owner's.
    pub(super) fn new(ledger: Ledger, owner: u32) -> Self {
        Self { entries: Vec::new(), free: Vec::new(), ledger, owner }
    }

    /// Adds an entry, with one pin, if there are fewer than `most`.
    pub(super) fn insert(&mut self, entry: Entry, most: u32) -> Result<Place, Full> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.entries.len() < most.min(APART) as usize => {
                self.entries.push(None);
                (self.entries.len() - 1) as Place
            }
            None => return Err(Full),
        };
        if let Some(file) = &entry.file {
            self.ledger.own(file, self.owner);
        }
        self.entries[number as usize] = Some(Pinned { entry, pins: 1 });
        Ok(APART | number)
    }

    pub(super) fn entry(&self, place: Place) -> &Entry {
        &self.entries[(place & !APART) as usize].as_ref().expect(PINNED).entry
    }

    pub(super) fn pin(&mut self, place: Place) {
        self.entries[(place & !APART) as usize].as_mut().expect(PINNED).pins += 1;
    }

    pub(super) fn unpin(&mut self, place: Place) {
        let number = place & !APART;
        let place = &mut self.entries[number as usize];
        let pinned = place.as_mut().expect(PINNED);
        pinned.pins -= 1;
        if pinned.pins == 0 {
            leave(self.ledger, &pinned.entry);
            *place = None;
            self.free.push(number);
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.entries.iter().flatten().for_each(|pinned| leave(self.ledger, &pinned.entry));
    }
}

fn leave(ledger: Ledger, entry: &Entry) {
    if let Some(file) = &entry.file {
        ledger.leave(file);
    }
}

/// The worker alone counts these pins.
const PINNED: &str = "an entry apart is there for as long as it is pinned";
