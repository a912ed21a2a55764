//! Directories to be listed. Making a listing takes milliseconds, so a reader makes one after each batch.
//! The connections that want the listing wait with the reader. Those that want the same listing get it
//! together.

use std::collections::VecDeque;

use super::traveller::Boxed;
use crate::content::Lookup;
use crate::helpers::Job;
use crate::service::Service;

/// Listings to be made, in the order in which they were first requested.
#[derive(Debug, Default)]
pub(super) struct Listings {
    line: VecDeque<Listing>,
}

#[derive(Debug)]
struct Listing {
    look: Box<Lookup<'static>>,
    who: Vec<Boxed>,
}

impl Listings {
    /// Whether there are no listings to make.
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Keeps a connection until its job has been done. If no helpers fetch parts of files, all jobs are
    /// lookups. Any other job is refused, and the connection is returned.
    pub(super) fn put_off(&mut self, traveller: Boxed, job: Job) -> Option<Boxed> {
        let Job::Lookup(look) = job else { return Some(traveller) };
        let is_same =
            |other: &&mut Listing| (other.look.site(), other.look.path()) == (look.site(), look.path());
        match self.line.iter_mut().find(is_same) {
            Some(same) => same.who.push(traveller),
            None => self.line.push_back(Listing { look, who: vec![traveller] }),
        }
        None
    }

    /// Makes the next listing, and lets the connections that waited for it go on.
    pub(super) fn make_one(&mut self, service: &mut Service, again: &mut Vec<Boxed>) {
        let Some(Listing { mut look, who }) = self.line.pop_front() else { return };
        let resolvers = service.content.resolvers();
        let found = loop {
            let seen = resolvers.look_up(&look);
            if let Some(found) = service.content.admit(&mut look, seen) {
                break found;
            }
        };
        for mut traveller in who {
            traveller.conversation.disk_is_done(service, Some((&look, &found)));
            again.push(traveller);
        }
        service.content.let_go();
    }
}
