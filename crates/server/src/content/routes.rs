//! What is done with requests for some paths, other than to send the file of that name.
//!
//! The table of open files is asked before the routes are: a path that leads elsewhere never gets into it, so
//! a file that is in it costs nothing more where there are routes. Whatever is looked up asks them first,
//! also pages of errors and fallbacks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use globset::GlobMatcher;
use http1::Status;

use super::escape;
use crate::config::{Part, RouteRule, Target, literal_prefix};

/// All routes, in their order; the first that matches is taken.
#[derive(Debug)]
pub(super) struct Routes(Vec<Route>);

#[derive(Debug)]
struct Route {
    /// All paths, if there is none.
    path: Option<GlobMatcher>,
    /// Bytes of a path before what wildcards match.
    literal: usize,
    action: Action,
}

#[derive(Debug)]
enum Action {
    /// The file, or if there is none this one.
    File(Option<Arc<[u8]>>),
    Redirect(Status, Target),
    Refuse(Status),
}

/// A route by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Elsewhere(usize);

/// What is answered in place of a file.
#[derive(Debug)]
pub(super) enum Instead {
    /// That it is there, by this Location.
    Redirect(Status, String),
    Refuse(Status),
}

/// The status of a redirect that has none of its own: nobody is to remember it.
const FOUND: Status = Status(302);

impl Routes {
    pub(super) fn new(rules: &[RouteRule]) -> Self {
        Self(rules.iter().map(Route::new).collect())
    }

    /// The route of a path that leads to no file.
    pub(super) fn elsewhere(&self, path: &[u8]) -> Option<Elsewhere> {
        let number = self.number(path)?;
        (!matches!(self.0[number].action, Action::File(_))).then_some(Elsewhere(number))
    }

    /// What is done with those whose route it is.
    pub(super) fn answer(&self, Elsewhere(number): Elsewhere, path: &[u8], query: Option<&[u8]>) -> Instead {
        let route = &self.0[number];
        match &route.action {
            Action::Redirect(status, target) => {
                Instead::Redirect(*status, location(target, path, route.literal, query))
            }
            Action::Refuse(status) => Instead::Refuse(*status),
            // They have no such route.
            Action::File(_) => Instead::Refuse(Status::NOT_FOUND),
        }
    }

    /// The file that is sent where there is none of that path.
    pub(super) fn fallback(&self, path: &[u8]) -> Option<Arc<[u8]>> {
        match &self.0[self.number(path)?].action {
            Action::File(fallback) => fallback.clone(),
            _ => None,
        }
    }

    /// What is done with a path, and by which route, for people.
    pub(super) fn explain(&self, path: &[u8], query: Option<&[u8]>) -> String {
        let file = String::from_utf8_lossy(path);
        let Some(number) = self.number(path) else { return format!("no route matches: the file {file}") };
        let route = &self.0[number];
        let pattern = route.path.as_ref().map_or("any path", |path| path.glob().glob());
        let done = match (&route.action, self.answer(Elsewhere(number), path, query)) {
            (Action::File(None), _) => format!("the file {file}"),
            (Action::File(Some(fallback)), _) => {
                format!("the file {file}, or if there is none {}", String::from_utf8_lossy(fallback))
            }
            (_, Instead::Redirect(status, location)) => format!("{} to {location}", status.0),
            (_, Instead::Refuse(status)) => format!("{} {}", status.0, status.reason()),
        };
        format!("route {} ({pattern}): {done}", number + 1)
    }

    fn number(&self, path: &[u8]) -> Option<usize> {
        let path = OsStr::from_bytes(path);
        self.0.iter().position(|route| route.path.as_ref().is_none_or(|glob| glob.is_match(path)))
    }
}

impl Route {
    fn new(rule: &RouteRule) -> Self {
        let pattern = rule.path.as_ref().map_or("", |glob| glob.glob());
        let action = match (&rule.redirect, rule.status) {
            (Some(target), status) => Action::Redirect(status.map_or(FOUND, Status), target.clone()),
            (None, Some(status)) => Action::Refuse(Status(status)),
            (None, None) => Action::File(rule.fallback.as_ref().map(|path| path.as_bytes().into())),
        };
        let path = rule.path.as_ref().map(globset::Glob::compile_matcher);
        Self { path, literal: literal_prefix(pattern).unwrap_or(pattern).len(), action }
    }
}

/// Where a redirect leads. `literal` bytes of the path are before what wildcards match.
fn location(target: &Target, path: &[u8], literal: usize, query: Option<&[u8]>) -> String {
    let mut location = String::new();
    for part in target.parts() {
        match part {
            Part::Text(text) => location.push_str(text),
            // One slash is enough where two would meet; at the beginning they would name another host.
            Part::Path | Part::Rest => {
                let captured =
                    if *part == Part::Path { path } else { path.get(literal..).unwrap_or_default() };
                let captured = match captured {
                    [b'/', behind @ ..] if location.ends_with('/') => behind,
                    captured => captured,
                };
                location.extend(escape::path(captured));
            }
        }
    }
    if let Some(query) = query.filter(|_| !target.has_query()) {
        location.push('?');
        location.extend(escape::query(query));
    }
    location
}
