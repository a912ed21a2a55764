//! Answers by routes: to requests for paths that lead elsewhere, for files that are not there, and with
//! methods that are not for files.

use http1::{Plan, Sheet, Status};

use super::find::Obstacle;
use super::lookup::Resolved;
use super::path::Path;
use super::request::Request;
use super::routes::{Elsewhere, Instead, Routes};
use super::table::{Pin, Place};
use super::{Answer, Content};
use crate::config::FileSettings;

/// Which route answers requests for a target (a path with or without a query), and how, for people.
pub fn explain(settings: &FileSettings, target: &str) -> String {
    let (raw, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut decoded = Vec::new();
    match Path::decode(raw.as_bytes(), settings.dotfiles, &mut decoded) {
        Ok(path) => Routes::new(&settings.routes).explain(path.bytes(), query.map(str::as_bytes)),
        Err(refusal) => format!("{}: {}", refusal.status().0, refusal.text()),
    }
}

impl Content {
    /// Answers a request whose path has a route that leads to no file.
    fn follow(
        &mut self,
        elsewhere: Elsewhere,
        path: Path<'_>,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Answer {
        match self.routes.answer(elsewhere, path.bytes(), request.head.query()) {
            Instead::Redirect(status, location) => {
                let mut plan = Plan::new(sheet, status, request.head.terms, request.stamp);
                plan.field("Location", location.as_bytes());
                self.default_page(&mut plan, Some(request.head.path));
                Ok(plan)
            }
            Instead::Refuse(status) => self.refuse(status, request, sheet),
        }
    }

    /// The file that is sent where a path led to none, with the sheet for the reply; or the answer without
    /// one.
    #[cold]
    pub(super) fn find_instead(
        &mut self,
        found: Result<Resolved, Obstacle>,
        path: Path<'_>,
        request: &Request<'_>,
        sheet: Sheet<Pin>,
    ) -> Result<(Place, Sheet<Pin>), Answer> {
        let status = match found {
            Ok(Resolved::Entry(place)) => return Ok((place, sheet)),
            Ok(Resolved::NoSlash) => return Err(Ok(self.redirect(path, request, sheet))),
            Err(Obstacle::NotPlain) => return Err(self.serve_decoded(request, sheet)),
            Err(Obstacle::Elsewhere(route)) => return Err(self.follow(route, path, request, sheet)),
            Err(Obstacle::Lookup(lookup)) => return Err(Err(lookup)),
            Err(Obstacle::Refused(status)) => status,
        };
        if status == Status::NOT_FOUND
            && let Some(fallback) = self.routes.fallback(path.bytes())
        {
            match self.select(Path::known(&fallback), request) {
                Ok(Resolved::Entry(place)) => return Ok((place, sheet)),
                Err(Obstacle::Lookup(lookup)) => return Err(Err(lookup)),
                _ => {}
            }
        }
        Err(self.refuse(status, request, sheet))
    }

    /// Answers a request with a method that is not for files.
    #[cold]
    pub(super) fn serve_other_method(&mut self, request: &Request<'_>, sheet: Sheet<Pin>) -> Answer {
        let mut scratch = std::mem::take(&mut self.scratch);
        let path = Path::decode(request.head.path, self.dotfiles, &mut scratch);
        let elsewhere = path.as_ref().ok().and_then(|path| self.routes.elsewhere(path.bytes()));
        let answer = match (path, elsewhere) {
            (Ok(path), Some(elsewhere)) => self.follow(elsewhere, path, request, sheet),
            _ => self.refuse(Status::METHOD_NOT_ALLOWED, request, sheet),
        };
        self.scratch = scratch;
        answer
    }
}
