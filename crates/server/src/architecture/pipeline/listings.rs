//! Directories to be listed: making a listing takes milliseconds, so a reader makes one behind each batch,
//! and has those who want it wait with itself. Those who want the same one get it together.

use std::collections::VecDeque;

use super::traveller::Boxed;
use crate::content::Lookup;
use crate::helpers::Job;
use crate::service::Service;

/// Listings to be made, in the order in which they were first asked for.
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
    /// Whether there is nothing to be done.
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Keeps one until what it waits for has been done. Nobody asks for anything but lookups where no helpers
    /// fetch parts of files; otherwise it is given back.
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

    /// Makes the next one, and lets those go on who have waited for it.
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
