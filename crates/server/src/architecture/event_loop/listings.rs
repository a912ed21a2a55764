//! The event loop without helpers, and directories: making a listing takes milliseconds, so the loop makes
//! one in a turn, behind all that is quick. Those who want the same one wait for it together.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};

use super::EventLoop;
use crate::content::{Lookup, SiteNumber};
use crate::counters::LoopPhase;
use crate::helpers::Waiter;

/// Directories to be looked at, and who waits for each.
#[derive(Debug, Default)]
pub(super) struct Listings {
    looks: VecDeque<Box<Lookup<'static>>>,
    waiters: HashMap<(SiteNumber, Box<[u8]>), Vec<Waiter>>,
}

impl Listings {
    /// Whether there is nothing to be done.
    pub(super) fn is_empty(&self) -> bool {
        self.looks.is_empty()
    }

    /// Has a directory looked at for a waiter. That will be after all who have asked by then, so one look
    /// does for them.
    pub(super) fn submit(&mut self, waiter: Waiter, look: Box<Lookup<'static>>) {
        match self.waiters.entry((look.site(), look.path().into())) {
            Entry::Occupied(waiters) => waiters.into_mut().push(waiter),
            Entry::Vacant(nobody) => {
                nobody.insert(vec![waiter]);
                self.looks.push_back(look);
            }
        }
    }

    fn next(&mut self) -> Option<(Box<Lookup<'static>>, Vec<Waiter>)> {
        let look = self.looks.pop_front()?;
        let waiters = self.waiters.remove(&(look.site(), look.path().into())).unwrap_or_default();
        Some((look, waiters))
    }
}

impl EventLoop {
    /// Makes the next listing that somebody still waits for. The accept policy is not told of the time that
    /// it takes, which does not follow from how many are accepted.
    #[inline]
    pub(super) fn make_a_listing(&mut self) {
        if !self.postponed.listings.is_empty() {
            self.make_next_listing();
        }
    }

    #[cold]
    fn make_next_listing(&mut self) {
        while let Some((mut look, waiters)) = self.postponed.listings.next() {
            if !waiters.iter().any(|&waiter| self.is_waiting(waiter)) {
                continue;
            }
            let resolvers = self.service.content.resolvers();
            let found = loop {
                let seen = resolvers.look_up(&look);
                if let Some(found) = self.service.content.admit(&mut look, seen) {
                    break found;
                }
            };
            self.wake_waiters(&waiters, Some((&look, &found)));
            self.service.content.let_go();
            self.phase_ends(LoopPhase::Work, sys::clock::monotonic_ns());
            self.measures.forget_turning();
            return;
        }
    }
}
