//! Answers by routes: for paths that do not lead to a file, for missing files, and for methods that files
//! do not allow.

use std::sync::Arc;

use http1::{Method, Plan, Sheet, Status};

use super::encoded::{Encoded, Takes};
use super::find::Obstacle;
use super::lookup::Resolved;
use super::numbers::Elsewhere;
use super::path::{Path, Refusal};
use super::request::Request;
use super::routes::{Instead, LeadsTo};
use super::table::{Pin, Place};
use super::{ALLOW, Answer, Content, Detour};

impl Content {
    /// Answers a request whose path has a route that leads to no file.
    fn follow(
        &mut self,
        elsewhere: Elsewhere,
        path: Path<'_>,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Answer {
        match self.site(request.asking).routes.answer(elsewhere, path.bytes(), request.head.query()) {
            Instead::Redirect(status, location) => {
                let mut plan = Plan::new(sheet, status, request.head.terms, request.stamp);
                plan.field("Location", location.as_bytes());
                self.default_page(&mut plan, request.asking.site, Some(request.head.path));
                Ok(plan)
            }
            Instead::Refuse(status) => Ok(self.refuse(status, request, sheet)?),
            Instead::Call(call) => Err(Detour::Call(call, sheet)),
        }
    }

    /// The file to send if the path led to none, with the sheet for the reply. Otherwise the answer
    /// without a file.
    #[cold]
    pub(super) fn find_instead(
        &mut self,
        found: Result<Resolved, Obstacle>,
        path: Path<'_>,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Result<(Place, Sheet<Pin>), Answer> {
        let status = match found {
            Ok(Resolved::Entry(place)) | Err(Obstacle::Bare(place)) => return Ok((place, sheet)),
            Ok(Resolved::NoSlash) => return Err(Ok(self.redirect(path, request, sheet))),
            Ok(Resolved::Script(index)) => return Err(self.run(path, index, request, sheet)),
            Ok(Resolved::Barred(route)) | Err(Obstacle::Elsewhere(route)) => {
                return Err(self.follow(route, path, request, sheet));
            }
            Err(Obstacle::NotPlain) => return Err(self.serve_decoded(request, sheet)),
            Err(Obstacle::Lookup(lookup)) => return Err(Err(lookup.into())),
            Err(Obstacle::Refused(status)) => status,
        };
        let is_no_file = status == Status::NOT_FOUND || status == Status::FORBIDDEN && path.is_directory();
        if is_no_file && let Some(route) = self.site(request.asking).routes.behind_files(path.bytes()) {
            return Err(self.follow(route, path, request, sheet));
        }
        if status == Status::NOT_FOUND
            && let Some(fallback) = self.site(request.asking).routes.fallback(path.bytes())
        {
            let request = &Request { asking: self.as_owner(request.asking), ..*request };
            match self.select(Path::known(&fallback), request) {
                Ok(Resolved::Entry(place)) | Err(Obstacle::Bare(place)) => return Ok((place, sheet)),
                Ok(Resolved::Script(index)) => {
                    return Err(self.run(Path::known(&fallback), index, request, sheet));
                }
                Err(Obstacle::Lookup(lookup)) => return Err(Err(lookup.into())),
                _ => {}
            }
        }
        Err(self.refuse(status, request, sheet).map_err(Detour::from))
    }

    /// Answers a request with a method other than GET and HEAD.
    #[cold]
    pub(super) fn serve_other_method(&mut self, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        let mut scratch = std::mem::take(&mut self.scratch);
        let path = Path::decode(request.head.path, self.site(request.asking).dotfiles, &mut scratch);
        let answer = match path {
            Ok(path) => self.serve_other_method_at(path, request, sheet),
            Err(refusal) => self.serve_no_name(refusal, request, sheet),
        };
        self.scratch = scratch;
        answer
    }

    fn serve_other_method_at(&mut self, path: Path<'_>, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        if let LeadsTo::Elsewhere(elsewhere) =
            self.site(request.asking).routes.leads_to(path.bytes(), request.asking.as_owner)
        {
            return self.follow(elsewhere, path, request, sheet);
        }
        if let Some(route) = self.site(request.asking).routes.behind_files(path.bytes()) {
            return self.follow(route, path, request, sheet);
        }
        if !self.site(request.asking).routes.have_applications() {
            return self.answer_other_method(request, sheet);
        }
        let found = self.select(path, request);
        match self.find_instead(found, path, request, sheet) {
            Ok((_, sheet)) => self.answer_other_method(request, sheet),
            Err(answer) => answer,
        }
    }

    /// Answers a request whose path is no name of a file, but may be meant for an application.
    #[cold]
    pub(super) fn serve_no_name(
        &mut self,
        refusal: Refusal,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Answer {
        let Request { head, asking, .. } = *request;
        let (routes, dotfiles) = (Arc::clone(&self.site(asking).routes), self.site(asking).dotfiles);
        if !routes.may_take(refusal) {
            return self.refuse_path(refusal, request, sheet);
        }
        let encoded = match Encoded::read(head.path) {
            Ok(encoded) => encoded,
            Err(refusal) => return self.refuse_path(refusal, request, sheet),
        };
        let path = Path::known(&encoded.path);
        // No fallback is sent for a dotfile.
        let fallback = routes.fallback(path.bytes()).filter(|_| dotfiles || !encoded.is_hidden());
        let found = match routes.take(&encoded, refusal, dotfiles) {
            Ok(Takes::Elsewhere(route)) => return self.follow(route, path, request, sheet),
            Ok(Takes::Script(script)) => self.look_up(asking.lookup(script, None), asking),
            Ok(Takes::Fallback) => Err(Obstacle::Refused(Status::NOT_FOUND)),
            Err(refusal) => return self.refuse_path(refusal, request, sheet),
        };
        match (found, fallback) {
            (Ok(Resolved::Script(_)), _) => self.run(path, None, request, sheet),
            (Ok(Resolved::Barred(route)), _) => self.follow(route, path, request, sheet),
            (Err(Obstacle::Lookup(lookup)), _) => Err(lookup.into()),
            (Err(Obstacle::Refused(Status::NOT_FOUND)), Some(fallback)) => {
                let request = &Request { asking: self.as_owner(asking), ..*request };
                self.serve_named(Path::known(&fallback), request, sheet)
            }
            (Err(Obstacle::Refused(status)), _) => Ok(self.refuse(status, request, sheet)?),
            _ => Ok(self.refuse(Status::NOT_FOUND, request, sheet)?),
        }
    }

    /// Answers with a file or script that the site's owner names.
    fn serve_named(&mut self, path: Path<'_>, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        match request.head.method {
            Method::Get | Method::Head => self.serve(path, request, sheet),
            _ => self.serve_other_method_at(path, request, sheet),
        }
    }

    /// Answers a request whose path is no name. If the site has applications, the client gets that error
    /// with every method; otherwise the client would take the method for the problem. `OPTIONS *` and
    /// CONNECT have no path.
    fn refuse_path(&mut self, refusal: Refusal, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        let is_told = matches!(request.head.method, Method::Get | Method::Head)
            || refusal != Refusal::NotAbsolute && self.site(request.asking).routes.have_applications();
        if !is_told {
            return self.answer_other_method(request, sheet);
        }
        let resolver = self.resolvers.of(request.asking.site);
        resolver.refusals.tell_path(request.head.path, refusal);
        Ok(self.refuse(refusal.status(), request, sheet)?)
    }

    /// Answers a request with another method for something that is sent as a file.
    fn answer_other_method(&mut self, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        let Request { head, stamp, .. } = *request;
        match head.method {
            Method::Options => {}
            Method::Other(_) => return Ok(self.refuse(Status::NOT_IMPLEMENTED, request, sheet)?),
            _ => return Ok(self.refuse(Status::METHOD_NOT_ALLOWED, request, sheet)?),
        }
        let mut plan = Plan::new(sheet, Status::NO_CONTENT, head.terms, stamp);
        plan.field("Allow", ALLOW);
        self.add_fields(&mut plan, request.asking.site, Some(head.path), None);
        plan.bytes(b"\r\n");
        plan.end_of_head();
        Ok(plan)
    }

    /// Calls the application that runs the script at a path, or in a directory the index file of that
    /// number.
    fn run(
        &mut self,
        path: Path<'_>,
        index: Option<usize>,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Answer {
        let resolver = self.resolvers.of(request.asking.site);
        let index = index.map_or(&b""[..], |index| resolver.index_name(index));
        let routes = &self.site(request.asking).routes;
        match routes.run(path.bytes(), index, request.asking.as_owner) {
            Ok(call) => Err(Detour::Call(call, sheet)),
            Err(route) => self.follow(route, path, request, sheet),
        }
    }
}
