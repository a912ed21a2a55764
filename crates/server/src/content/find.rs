//! From a path to its entry: what the table has, if it was looked at lately, or else what is looked up in the
//! file system; and of several codings the one that the client likes best.

use http1::coding::{self, Coding};
use http1::{Field, Status};

use super::Content;
use super::entry::{Entry, Facts};
use super::listing::Form;
use super::lookup::{Admitted, Cached, Lookup, LookupResult, Original, Resolved};
use super::numbers::Elsewhere;
use super::path::Path;
use super::request::{Asking, Request};
use super::routes::LeadsTo;
use super::table::{Place, Variant};

/// Why a path led to nothing that lies ready.
pub(super) enum Obstacle {
    /// It is no name yet, and has to be decoded.
    NotPlain,
    Refused(Status),
    /// To a file whose header lines are to be made for the reply.
    Bare(Place),
    /// It has a route that leads to no file.
    Elsewhere(Elsewhere),
    /// Somebody has to look who may wait.
    Lookup(Box<Lookup<'static>>),
}

impl Content {
    /// The file to answer with, in the coding that the client likes best.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    pub(super) fn select(&mut self, path: Path<'_>, request: &Request<'_>) -> Result<Resolved, Obstacle> {
        let found = if path.is_directory() && self.site(request.asking).listing {
            self.find_directory(path, request)?
        } else {
            self.find(path, request.asking)?
        };
        match found {
            Resolved::Entry(place) if !self.table.entry(place).is_plain => {
                self.negotiate(place, path, request)
            }
            found => Ok(found),
        }
    }

    /// Another one than that, which is not what it was.
    #[cold]
    pub(super) fn select_anew(
        &mut self,
        place: Place,
        path: Path<'_>,
        request: &Request<'_>,
    ) -> Result<Resolved, Obstacle> {
        self.table.forget(place);
        self.select(path, request)
    }

    /// The file that a path names, from the table if it is there and was looked at lately.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    pub(super) fn find(&mut self, path: Path<'_>, asking: Asking<'_>) -> Result<Resolved, Obstacle> {
        match self.table.find(path.bytes(), asking.plain()) {
            Some(place) if asking.now.ms < self.table.entry(place).trusted_until_ms => {
                // A request that is answered again has been counted.
                self.table.counts().hits += u64::from(asking.prefetched.is_none());
                Ok(Resolved::Entry(place))
            }
            _ if path.is_plain() => self.find_anew(path, asking),
            _ => Err(Obstacle::NotPlain),
        }
    }

    /// What a directory is answered with that may be listed: its index file, or the form of its listing that
    /// is asked for.
    #[cold]
    fn find_directory(&mut self, path: Path<'_>, request: &Request<'_>) -> Result<Resolved, Obstacle> {
        if !path.is_plain() {
            return Err(Obstacle::NotPlain);
        }
        let asking = request.asking;
        match self.site(asking).routes.leads_to(path.bytes(), asking.as_owner) {
            LeadsTo::Elsewhere(route) => return Err(Obstacle::Elsewhere(route)),
            LeadsTo::File(file) if file.len() < path.bytes().len() => {
                return self.look_up(asking.lookup(file, None), asking);
            }
            LeadsTo::File(_) => {}
        }
        let form = Form::asked_for(request.head);
        let known = self.table.find(path.bytes(), asking.plain()).map(|place| self.table.entry(place));
        let has_index = |entry: &Facts| !entry.is_listing() && asking.now.ms < entry.trusted_until_ms;
        if form == Form::USUAL || known.is_some_and(has_index) {
            return self.find(path, asking);
        }
        let name = form.name(path.bytes());
        self.find(Path::known(&name), asking)
    }

    /// What a path leads to that the table does not have as it is now.
    #[cold]
    fn find_anew(&mut self, path: Path<'_>, asking: Asking<'_>) -> Result<Resolved, Obstacle> {
        match self.site(asking).routes.leads_to(path.bytes(), asking.as_owner) {
            LeadsTo::Elsewhere(route) => Err(Obstacle::Elsewhere(route)),
            LeadsTo::File(file) => self.look_up(asking.lookup(file, None), asking),
        }
    }

    /// The same request, as the site's owner asks for what the settings name: its routes are about clients.
    pub(super) fn as_owner<'a>(&self, asking: Asking<'a>) -> Asking<'a> {
        Asking { as_owner: self.site(asking).routes.are_some(), ..asking }
    }

    /// Looks a file up where it should be, if that has not been done for this request.
    #[cold]
    pub(super) fn look_up(
        &mut self,
        mut lookup: Lookup<'_>,
        asking: Asking<'_>,
    ) -> Result<Resolved, Obstacle> {
        if let Some(found) = asking.prefetched.and_then(|had| had.find(&lookup.path, lookup.variant())) {
            if let Ok(Resolved::Entry(place)) = found
                && !self.table.hold(place)
            {
                return Err(Obstacle::Refused(Status::SERVICE_UNAVAILABLE));
            }
            return found.map_err(Obstacle::Refused);
        }
        if asking.prefetched.is_some_and(|had| had.is_given_up) {
            // Where nobody can look, what the table has is as good as it was.
            let held = self.table.find(&lookup.path, lookup.variant());
            return held.map(Resolved::Entry).ok_or(Obstacle::Refused(Status::SERVICE_UNAVAILABLE));
        }
        // Not while a file is at hand whose sibling is looked for.
        if lookup.sibling.is_none() {
            self.leave_old_root(asking);
        }
        let mut held = self.table.find(&lookup.path, lookup.variant());
        // Others may be about to look at the very file: one does, and the others see what it has found.
        let claim = held.and_then(|place| self.table.claim(place));
        if claim.is_some() {
            held = self.table.find(&lookup.path, lookup.variant());
            if let Some(place) = held
                && asking.now.ms < self.table.entry(place).trusted_until_ms
            {
                self.table.counts().hits += 1;
                return Ok(Resolved::Entry(place));
            }
        }
        self.table.counts().misses += 1;
        lookup.cached = held.and_then(|place| Cached::of(self.table.entry(place)));
        let validity_ms = self.resolvers.of(asking.site).loader.validity_ms;
        lookup.sharable = validity_ms > 0 && self.table.keeps();
        loop {
            let Ok(result) =
                self.resolvers.of(asking.site).look_up_within(&lookup, asking.patience, asking.now)
            else {
                return Err(Obstacle::Lookup(Box::new(lookup.into_owned())));
            };
            if let Some(found) = self.admit(&mut lookup, result) {
                return found.map_err(Obstacle::Refused);
            }
        }
    }

    /// When a site's root has become another directory, drops what was found below the one before: files that
    /// nobody can ask for any more would stay open for long. It is out of date; what others have found below
    /// the new one is not.
    fn leave_old_root(&mut self, asking: Asking<'_>) {
        let changes = self.resolvers.of(asking.site).loader.root.changes();
        let known = &mut self.sites[usize::from(asking.site)].root_changes;
        if std::mem::replace(known, changes) != changes {
            self.table.forget_outdated(asking.now.ms);
        }
    }

    /// The coded form of a file that the client likes best, or the file itself.
    fn negotiate(
        &mut self,
        place: Place,
        path: Path<'_>,
        request: &Request<'_>,
    ) -> Result<Resolved, Obstacle> {
        let siblings = self.table.entry(place).siblings;
        let best = || coding::accepted(request.head.fields.all(Field::AcceptEncoding)).best(siblings);
        let place = match (!siblings.is_empty()).then(best).flatten() {
            Some(coding) => self.find_sibling(coding, place, path, request.asking)?,
            None => place,
        };
        if self.table.entry(place).is_bare() {
            Err(Obstacle::Bare(place))
        } else {
            Ok(Resolved::Entry(place))
        }
    }

    fn find_sibling(
        &mut self,
        coding: Coding,
        original: Place,
        path: Path<'_>,
        asking: Asking<'_>,
    ) -> Result<Place, Obstacle> {
        if let Some(place) = self.table.find(path.bytes(), asking.variant(Some(coding)))
            && asking.now.ms < self.table.entry(place).trusted_until_ms
        {
            return Ok(place);
        }
        let entry = self.table.entry(original);
        let original_facts = Original { coding, stat: entry.stat, index: entry.index };
        let lookup = asking.lookup(path.bytes(), Some(original_facts));
        // The original must not make room for its own sibling.
        let pin = self.table.pin(original);
        let sibling = self.look_up(lookup, asking);
        self.table.unpin(pin);
        match sibling {
            Ok(Resolved::Entry(place)) => Ok(place),
            Err(Obstacle::Lookup(lookup)) => Err(Obstacle::Lookup(lookup)),
            Ok(_) | Err(_) => Ok(original),
        }
    }

    /// Takes in what a lookup has found. `None`: look up again, as the lookup then says.
    pub fn admit(&mut self, lookup: &mut Lookup<'_>, result: LookupResult) -> Option<Admitted> {
        let (path, variant) = (&*lookup.path, lookup.variant());
        let found = match result {
            LookupResult::Unchanged(until_ms) => match self.table.find(path, variant) {
                Some(place) if Cached::of(self.table.entry(place)) == lookup.cached => {
                    self.table.trust(place, until_ms);
                    Ok(Resolved::Entry(place))
                }
                // It has gone from the table meanwhile.
                _ => {
                    lookup.cached = None;
                    return None;
                }
            },
            LookupResult::File(entry) => self.enter(path, variant, *entry).map(Resolved::Entry),
            LookupResult::NoSlash => Ok(Resolved::NoSlash),
            LookupResult::Script(index) => Ok(Resolved::Script(index)),
            LookupResult::Barred(route) => Ok(Resolved::Barred(route)),
            LookupResult::Exhausted if !lookup.again && self.table.close_half() > 0 => {
                lookup.again = true;
                return None;
            }
            LookupResult::Exhausted => Err(Status::SERVICE_UNAVAILABLE),
            LookupResult::Refused(status) => Err(status),
        };
        if matches!(found, Ok(Resolved::Entry(_))) {
            return Some(found);
        }
        Some(match (found, self.table.find(path, variant)) {
            (found, None) => found,
            // A sibling that is gone does no harm where it is: nobody will ask for it.
            (found, Some(_)) if lookup.sibling.is_some() => found,
            // Where there is no room to look, what the table has is as good as it was.
            (Err(Status::SERVICE_UNAVAILABLE), Some(known)) => Ok(Resolved::Entry(known)),
            (found, Some(gone)) => {
                self.table.forget(gone);
                found
            }
        })
    }

    /// Puts an entry into the table. Where there is no room for its body, that is sent from the file; for a
    /// listing's there must be room, which takes memory even so.
    fn enter(&mut self, path: &[u8], variant: Variant, mut entry: Entry) -> Result<Place, Status> {
        let body = entry.body_in_memory();
        if entry.is_in_memory() && self.table.make_room(body) {
            entry.file = None;
        } else {
            entry.drop_body();
        }
        self.table.insert(path, variant, entry).map_err(|_| Status::SERVICE_UNAVAILABLE)
    }
}
