//! Directory listings in an event loop without helpers. Making a listing takes milliseconds, so the loop
//! makes one in a turn, after all quick work. Connections that want the same listing wait for it together.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};

use super::EventLoop;
use crate::content::{Lookup, SiteNumber};
use crate::counters::LoopPhase;
use crate::helpers::Waiter;

/// Directories to be read, and the connections that wait for each.
#[derive(Debug, Default)]
pub(super) struct Listings {
    looks: VecDeque<Box<Lookup<'static>>>,
    waiters: HashMap<(SiteNumber, Box<[u8]>), Vec<Waiter>>,
}

impl Listings {
    /// Whether there are no listings to make.
    pub(super) fn is_empty(&self) -> bool {
        self.looks.is_empty()
    }

    /// Queues the reading of a directory for a waiter. One reading is enough for all connections that have
    /// requested it by then.
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
    /// Makes the next listing that a connection still waits for. The accept policy does not learn of the
    /// time that this takes, because it does not depend on how many connections are accepted.
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
