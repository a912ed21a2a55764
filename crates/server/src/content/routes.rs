//! What is done with requests for some paths, other than to send the file of that name.
//!
//! The table of open files is asked before the routes are: a path that leads elsewhere never gets into it, so
//! a file that is in it costs nothing more where there are routes. Whatever is looked up asks them first,
//! also pages of errors and fallbacks.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use http1::Status;

use super::call::Call;
use super::escape;
use super::patterns::Patterns;
use super::scripts::script_length;
use super::table::SiteNumber;
use crate::config::{FileSettings, Part, Pattern, RouteRule, Target, literal_prefix};

/// All routes of a site, in their order; the first that matches is taken.
#[derive(Debug)]
pub(super) struct Routes {
    all: Vec<Route>,
    paths: Patterns,
    site: SiteNumber,
    /// The document root, by its name.
    root: Arc<[u8]>,
}

#[derive(Debug)]
struct Route {
    /// Which paths, for people.
    path: Box<str>,
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
    /// The scripts with this ending, for a pool to run; where there is no such script, this file.
    Scripts {
        pool: Arc<str>,
        ending: Box<[u8]>,
        fallback: Option<Arc<[u8]>>,
    },
    /// A pool, for all of them.
    Program {
        pool: Arc<str>,
        file: Box<[u8]>,
    },
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeadsTo<'a> {
    /// What this path names below the root: a file, or a script with the rest of the path behind it.
    File(&'a [u8]),
    /// Something else.
    Elsewhere(Elsewhere),
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
    /// Whatever an application answers.
    Call(Box<Call>),
}

/// The status of a redirect that has none of its own: nobody is to remember it.
const FOUND: Status = Status(302);

impl Routes {
    pub(super) fn new(site: SiteNumber, settings: &FileSettings) -> Self {
        let rules: Vec<_> = settings.all_routes().collect();
        let mut all: Vec<_> = rules.iter().map(|rule| Route::new(rule)).collect();
        // For paths that would take too long to match.
        all.push(Route {
            path: "too many wildcards".into(),
            literal: 0,
            action: Action::Refuse(Status::URI_TOO_LONG),
        });
        let paths = Patterns::new(rules.iter().map(|rule| (rule.path.as_ref(), rule.ignore_case)));
        Self { all, paths, site, root: settings.root.as_os_str().as_bytes().into() }
    }

    /// What a path leads to.
    pub(super) fn leads_to<'a>(&self, path: &'a [u8]) -> LeadsTo<'a> {
        let Some(number) = self.number(path) else { return LeadsTo::File(path) };
        match &self.all[number].action {
            Action::File(_) => LeadsTo::File(path),
            Action::Scripts { ending, .. } => {
                LeadsTo::File(&path[..script_length(path, ending).unwrap_or(path.len())])
            }
            _ => LeadsTo::Elsewhere(Elsewhere(number)),
        }
    }

    /// Whether requests may have other methods than those for files.
    pub(super) fn have_applications(&self) -> bool {
        let is_one = |route: &Route| matches!(route.action, Action::Scripts { .. } | Action::Program { .. });
        self.all.iter().any(is_one)
    }

    /// How the script at the beginning of a path is run, the rest of which it is told. `None`: by nobody.
    pub(super) fn run(&self, path: &[u8]) -> Option<Box<Call>> {
        let Action::Scripts { pool, ending, .. } = &self.all[self.number(path)?].action else {
            return None;
        };
        let (name, info) = path.split_at(script_length(path, ending)?);
        let file = [&self.root, name].concat().into();
        let (pool, root) = (Arc::clone(pool), Arc::clone(&self.root));
        Some(Box::new(Call { site: self.site, pool, file, name: name.into(), info: info.into(), root }))
    }

    /// What is done with those whose route it is.
    pub(super) fn answer(&self, Elsewhere(number): Elsewhere, path: &[u8], query: Option<&[u8]>) -> Instead {
        let route = &self.all[number];
        match &route.action {
            Action::Redirect(status, target) => {
                Instead::Redirect(*status, location(target, path, route.literal, query))
            }
            Action::Refuse(status) => Instead::Refuse(*status),
            Action::Program { pool, file } => {
                let (name, info) = path.split_at(mounted_at(path, route.literal));
                Instead::Call(Box::new(Call {
                    site: self.site,
                    pool: Arc::clone(pool),
                    file: file.clone(),
                    name: name.into(),
                    info: info.into(),
                    root: Arc::clone(&self.root),
                }))
            }
            // They have no such route.
            Action::File(_) | Action::Scripts { .. } => Instead::Refuse(Status::NOT_FOUND),
        }
    }

    /// The file that is sent where there is none of that path.
    pub(super) fn fallback(&self, path: &[u8]) -> Option<Arc<[u8]>> {
        match &self.all[self.number(path)?].action {
            Action::File(fallback) | Action::Scripts { fallback, .. } => fallback.clone(),
            _ => None,
        }
    }

    /// What is done with a path, and by which route, for people.
    pub(super) fn explain(&self, path: &[u8], query: Option<&[u8]>) -> String {
        let file = String::from_utf8_lossy(path);
        let Some(number) = self.number(path) else { return format!("no route matches: the file {file}") };
        let route = &self.all[number];
        let done = match (&route.action, self.answer(Elsewhere(number), path, query)) {
            (Action::File(None), _) => format!("the file {file}"),
            (Action::File(Some(fallback)), _) => {
                format!("the file {file}, or if there is none {}", String::from_utf8_lossy(fallback))
            }
            (Action::Scripts { pool, .. }, _) => match self.run(path) {
                Some(call) => {
                    let [name, info] = [&call.name, &call.info].map(|part| String::from_utf8_lossy(part));
                    let info =
                        if info.is_empty() { String::new() } else { format!(" with PATH_INFO {info}") };
                    format!("the script {name}{info}, if there is one, by the pool {pool}")
                }
                None => format!("a script, by the pool {pool}"),
            },
            (_, Instead::Call(call)) => {
                let [name, info] = [&call.name, &call.info].map(|part| String::from_utf8_lossy(part));
                format!("the pool {}, SCRIPT_NAME {name:?}, PATH_INFO {info:?}", call.pool)
            }
            (_, Instead::Redirect(status, location)) => format!("{} to {location}", status.0),
            (_, Instead::Refuse(status)) => format!("{} {}", status.0, status.reason()),
        };
        format!("route {} ({}): {done}", number + 1, route.path)
    }

    /// The first route that matches a path.
    fn number(&self, path: &[u8]) -> Option<usize> {
        let matches = self.paths.of_path(path);
        if !matches.is_all {
            return Some(self.all.len() - 1);
        }
        matches.numbers.into_iter().find(|number| self.all[*number].takes(path))
    }
}

impl Route {
    fn new(rule: &RouteRule) -> Self {
        let pattern = rule.path.as_ref().map_or("", Pattern::text);
        let action = match (&rule.redirect, rule.status) {
            (Some(target), status) => Action::Redirect(status.map_or(FOUND, Status), target.clone()),
            (None, Some(status)) => Action::Refuse(Status(status)),
            (None, None) => {
                let fallback = rule.fallback.as_ref().map(|path| path.as_bytes().into());
                match (rule.pool.as_deref(), &rule.program, rule.script_ending()) {
                    (Some(pool), Some(file), _) => {
                        Action::Program { pool: pool.into(), file: file.as_os_str().as_bytes().into() }
                    }
                    (Some(pool), None, Some(ending)) => {
                        Action::Scripts { pool: pool.into(), ending: ending.as_bytes().into(), fallback }
                    }
                    _ => Action::File(fallback),
                }
            }
        };
        let path = rule.path.as_ref().map_or("any path", Pattern::text).into();
        Self { path, literal: literal_prefix(pattern).unwrap_or(pattern).len(), action }
    }

    /// Whether it takes a path that its pattern matches.
    fn takes(&self, path: &[u8]) -> bool {
        match &self.action {
            Action::Scripts { ending, .. } => script_length(path, ending).is_some(),
            _ => true,
        }
    }
}

/// Where a program is mounted whose route matches a path, the first bytes of which are before what wildcards
/// match: `SCRIPT_NAME` is up to there, `PATH_INFO` begins with the slash behind it (RFC 3875 section 4.1).
fn mounted_at(path: &[u8], literal: usize) -> usize {
    let literal = literal.min(path.len());
    match path[..literal].iter().rposition(|byte| *byte == b'/') {
        Some(slash) if literal < path.len() || path.ends_with(b"/") => slash,
        _ => literal,
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
