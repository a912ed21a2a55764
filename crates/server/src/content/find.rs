//! Gets the entry for a path. The table's entry is used if its file was checked recently; otherwise the
//! file is looked up in the file system. If the file exists in several codings, the client's preferred
//! one is chosen.

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

/// Why no entry is ready for a path.
pub(super) enum Obstacle {
    /// The path is no name yet, and must be decoded.
    NotPlain,
    Refused(Status),
    /// A file whose header lines must be made for the reply.
    Bare(Place),
    /// A route that leads to no file.
    Elsewhere(Elsewhere),
    /// A caller that may wait must do this lookup.
    Lookup(Box<Lookup<'static>>),
}

impl Content {
    /// The file to answer with, in the coding that the client prefers.
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

    /// Selects again, after the file of that entry has turned out to be changed.
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

    /// The file that a path names. The table's entry is used if it was checked recently.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 2% more instructions")]
    pub(super) fn find(&mut self, path: Path<'_>, asking: Asking<'_>) -> Result<Resolved, Obstacle> {
        match self.table.find(path.bytes(), asking.plain()) {
            Some(place) if asking.now.ms < self.table.entry(place).trusted_until_ms => {
                // A request that is answered again was counted the first time.
                self.table.counts().hits += u64::from(asking.prefetched.is_none());
                Ok(Resolved::Entry(place))
            }
            _ if path.is_plain() => self.find_anew(path, asking),
            _ => Err(Obstacle::NotPlain),
        }
    }

    /// What to answer for a directory that may be listed: its index file, or its listing in the requested
    /// form.
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

    /// What a path leads to if the table has no current entry for it.
    #[cold]
    fn find_anew(&mut self, path: Path<'_>, asking: Asking<'_>) -> Result<Resolved, Obstacle> {
        match self.site(asking).routes.leads_to(path.bytes(), asking.as_owner) {
            LeadsTo::Elsewhere(route) => Err(Obstacle::Elsewhere(route)),
            LeadsTo::File(file) => self.look_up(asking.lookup(file, None), asking),
        }
    }

    /// The same request, made by the site's owner for a file that the settings name. Routes refuse only
    /// clients.
    pub(super) fn as_owner<'a>(&self, asking: Asking<'a>) -> Asking<'a> {
        Asking { as_owner: self.site(asking).routes.are_some(), ..asking }
    }

    /// Looks a file up in the file system, unless that has been done for this request.
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
            // If no lookup is possible, the table's old entry is still the best answer.
            let held = self.table.find(&lookup.path, lookup.variant());
            return held.map(Resolved::Entry).ok_or(Obstacle::Refused(Status::SERVICE_UNAVAILABLE));
        }
        // Not while the request holds a file whose sibling is looked up.
        if lookup.sibling.is_none() {
            self.leave_old_root(asking);
        }
        let mut held = self.table.find(&lookup.path, lookup.variant());
        // Other workers may be about to check the same file. Then one does, and the others see its
        // result.
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
                self.resolvers.of(asking.site).look_up_within(&lookup, asking.may_block, asking.now)
            else {
                return Err(Obstacle::Lookup(Box::new(lookup.into_owned())));
            };
            if let Some(found) = self.admit(&mut lookup, result) {
                return found.map_err(Obstacle::Refused);
            }
        }
    }

    /// When a site's root has become another directory, drops the entries from the old root. No client
    /// can request those files any more, and they would stay open for long. They are outdated; what other
    /// workers have found below the new root is not.
    fn leave_old_root(&mut self, asking: Asking<'_>) {
        let changes = self.resolvers.of(asking.site).loader.root.changes();
        let known = &mut self.sites[usize::from(asking.site)].root_changes;
        if std::mem::replace(known, changes) != changes {
            self.table.forget_outdated(asking.now.ms);
        }
    }

    /// The coded form of a file that the client prefers, or the file itself.
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
        // The original must not be evicted to make room for its own sibling.
        let pin = self.table.pin(original);
        let sibling = self.look_up(lookup, asking);
        self.table.unpin(pin);
        match sibling {
            Ok(Resolved::Entry(place)) => Ok(place),
            Err(Obstacle::Lookup(lookup)) => Err(Obstacle::Lookup(lookup)),
            Ok(_) | Err(_) => Ok(original),
        }
    }

    /// Puts the result of a lookup into the table. `None`: look up again, with the changed `lookup`.
    pub fn admit(&mut self, lookup: &mut Lookup<'_>, result: LookupResult) -> Option<Admitted> {
        let (path, variant) = (&*lookup.path, lookup.variant());
        let found = match result {
            LookupResult::Unchanged(until_ms) => match self.table.find(path, variant) {
                Some(place) if Cached::of(self.table.entry(place)) == lookup.cached => {
                    self.table.trust(place, until_ms);
                    Ok(Resolved::Entry(place))
                }
                // The entry has left the table meanwhile.
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
            // The entry of a sibling that is gone does no harm: no request will look for it.
            (found, Some(_)) if lookup.sibling.is_some() => found,
            // If there is no room for a lookup, the table's old entry is still the best answer.
            (Err(Status::SERVICE_UNAVAILABLE), Some(known)) => Ok(Resolved::Entry(known)),
            (found, Some(gone)) => {
                self.table.forget(gone);
                found
            }
        })
    }

    /// Puts an entry into the table. If there is no room for its body, the body is sent from the file. A
    /// listing must have room, as it takes memory even then.
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
