//! Routes: what the server does with requests for some paths, other than sending the file of that name.
//!
//! A request asks the table of open files before the routes. A path that a route answers never gets into
//! the table, so routes add no cost for a file that is in the table. Lookups in the file system come
//! after the routes. If a request leads to a file under another name, `judge.rs` checks that file after
//! the lookup.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use http1::Status;

use super::call::Call;
use super::escape;
use super::judged::Index;
use super::numbers::{Elsewhere, SiteNumber};
use super::patterns::Patterns;
use super::scripts::script_length;
use crate::config::{FileSettings, Part, Pattern, RouteRule, Target, literal_prefix};

/// All routes of a site, in their order. The first that matches applies.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) all: Vec<Route>,
    paths: Patterns,
    /// Whether any route refuses requests.
    pub(super) refuse_some: bool,
    /// Whether any route takes paths with encoded slashes.
    pub(super) take_encoded_slashes: bool,
    /// Whether any route refuses requests, or has a program answer them instead of a file.
    pub(super) lead_elsewhere: bool,
    site: SiteNumber,
    /// The path of the document root.
    root: Arc<[u8]>,
}

#[derive(Debug)]
pub(super) struct Route {
    /// The pattern, for messages.
    pub(super) path: Box<str>,
    /// Length of the path prefix before the first wildcard, in bytes.
    literal: usize,
    pub(super) encoded_slashes: bool,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    /// Send the file, or if it does not exist, this one.
    File(Option<Arc<[u8]>>),
    Redirect(Status, Target),
    Refuse(Status),
    /// A pool runs the scripts with this ending. If the script does not exist, the fallback is sent.
    Scripts {
        pool: Arc<str>,
        ending: Box<[u8]>,
        fallback: Option<Arc<[u8]>>,
    },
    /// A program of a pool answers all requests, or an application that speaks HTTP, which has no file.
    Program {
        pool: Arc<str>,
        file: Box<[u8]>,
    },
    /// Send the file, or if it does not exist, a pool's application answers.
    FilesFirst(Arc<str>),
}

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeadsTo<'a> {
    /// To this path below the root: a file, or a script without the rest of the requested path.
    File(&'a [u8]),
    /// To a route's answer.
    Elsewhere(Elsewhere),
}

/// What to answer instead of a file.
#[derive(Debug)]
pub(super) enum Instead {
    /// A redirect to this Location.
    Redirect(Status, String),
    Refuse(Status),
    /// The answer of an application.
    Call(Box<Call>),
}

/// Refusals after all routes: for paths that take too long to match, and for scripts that no pool runs.
pub(super) const NO_ROUTES: [(&str, Status); 2] =
    [("too many wildcards", Status::URI_TOO_LONG), ("no pool runs it", Status::NOT_FOUND)];

/// The status of a redirect that sets none. Clients must not remember it.
const FOUND: Status = Status(302);

impl Routes {
    pub(super) fn new(site: SiteNumber, settings: &FileSettings) -> Self {
        let rules: Vec<_> = settings.all_routes().collect();
        let mut all: Vec<_> = rules.iter().map(|rule| Route::new(rule)).collect();
        let refuse_some = all.iter().any(|route| matches!(route.action, Action::Refuse(_)));
        let is_program = |route: &Route| matches!(route.action, Action::Program { .. });
        let lead_elsewhere = refuse_some || all.iter().any(is_program);
        all.extend(NO_ROUTES.map(|(path, status)| Route {
            path: path.into(),
            literal: 0,
            encoded_slashes: false,
            action: Action::Refuse(status),
        }));
        let paths = Patterns::new(rules.iter().map(|rule| (rule.path.as_ref(), rule.ignore_case)));
        let root = settings.root.as_os_str().as_bytes().into();
        let take_encoded_slashes = all.iter().any(|route| route.encoded_slashes);
        Self { all, paths, refuse_some, take_encoded_slashes, lead_elsewhere, site, root }
    }

    /// Whether there are any routes.
    pub(super) fn are_some(&self) -> bool {
        self.all.len() > NO_ROUTES.len()
    }

    /// Where a path leads that a client has requested, or that the site's owner names. No route keeps the
    /// owner from the file.
    pub(super) fn leads_to<'a>(&self, path: &'a [u8], as_owner: bool) -> LeadsTo<'a> {
        let number = if as_owner { self.runner_for_owner(path) } else { self.number(path) };
        let Some(number) = number else { return LeadsTo::File(path) };
        let script = match &self.all[number].action {
            Action::File(_) | Action::FilesFirst(_) => return LeadsTo::File(path),
            Action::Scripts { ending, .. } => &path[..script_length(path, ending).unwrap_or(path.len())],
            _ => return LeadsTo::Elsewhere(Elsewhere(number)),
        };
        let is_asked_for = as_owner || script.len() == path.len();
        match if is_asked_for { Ok(number) } else { self.runner(script) } {
            Ok(_) => LeadsTo::File(script),
            Err(instead) => LeadsTo::Elsewhere(instead),
        }
    }

    /// Whether this route refuses requests.
    pub(super) fn refuses(&self, Elsewhere(number): Elsewhere) -> bool {
        matches!(self.all[number].action, Action::Refuse(_))
    }

    /// The refusal of a script that no pool runs.
    pub(super) fn not_run(&self) -> Elsewhere {
        Elsewhere(self.all.len() - 1)
    }

    /// Whether requests may have methods other than those for files.
    pub(super) fn have_applications(&self) -> bool {
        self.all.iter().any(|route| match route.action {
            Action::Scripts { .. } | Action::Program { .. } | Action::FilesFirst(_) => true,
            Action::File(_) | Action::Redirect(..) | Action::Refuse(_) => false,
        })
    }

    /// How to run the script at the beginning of a path, or the index file `index` in a directory. The
    /// script gets the rest of the path.
    ///
    /// # Errors
    ///
    /// The route that answers instead.
    pub(super) fn run(&self, path: &[u8], index: &[u8], as_owner: bool) -> Result<Box<Call>, Elsewhere> {
        let whole = [path, index].concat();
        let number = if as_owner {
            self.runner_for_owner(&whole).ok_or(self.not_run())?
        } else if index.is_empty() {
            self.runner_of_request(path)?
        } else if let Index::Called(route) = self.judge_index(&whole, false)
            && let Instead::Call(call) = self.answer(route, &whole, None)
        {
            return Ok(call);
        } else {
            self.runner(&whole)?
        };
        let Action::Scripts { pool, ending, .. } = &self.all[number].action else {
            return Err(self.not_run());
        };
        let length = script_length(&whole, ending).ok_or(self.not_run())?;
        let (name, info) = whole.split_at(length);
        let file = [&self.root, name].concat().into();
        let (pool, root) = (Arc::clone(pool), Arc::clone(&self.root));
        Ok(Box::new(Call { site: self.site, pool, file, name: name.into(), info: info.into(), root }))
    }

    /// The route that runs the script at the beginning of a request's path: the first that matches path
    /// or script.
    fn runner_of_request(&self, path: &[u8]) -> Result<usize, Elsewhere> {
        let number = self.number(path).ok_or(self.not_run())?;
        let Action::Scripts { ending, .. } = &self.all[number].action else { return Err(self.not_run()) };
        let script = &path[..script_length(path, ending).unwrap_or(path.len())];
        if script.len() == path.len() { Ok(number) } else { Ok(self.runner(script)?.min(number)) }
    }

    /// The route that runs the script at the beginning of a path that the site's owner names.
    fn runner_for_owner(&self, path: &[u8]) -> Option<usize> {
        let runs = |number: &usize| {
            let route = &self.all[*number];
            matches!(route.action, Action::Scripts { .. }) && route.takes(path)
        };
        self.matching(path).into_iter().find(runs)
    }

    /// What this route answers.
    pub(super) fn answer(&self, Elsewhere(number): Elsewhere, path: &[u8], query: Option<&[u8]>) -> Instead {
        let route = &self.all[number];
        match &route.action {
            Action::Redirect(status, target) => {
                Instead::Redirect(*status, location(target, path, route.literal, query))
            }
            Action::Refuse(status) => Instead::Refuse(*status),
            Action::Program { pool, file } => {
                Instead::Call(Box::new(self.program(pool, file, path, route.literal)))
            }
            Action::FilesFirst(pool) => Instead::Call(Box::new(self.program(pool, b"", path, route.literal))),
            // These actions never get here.
            Action::File(_) | Action::Scripts { .. } => Instead::Refuse(Status::NOT_FOUND),
        }
    }

    /// The call of a program that answers all requests of a route. `literal` is the length of the path prefix
    /// before the first wildcard.
    fn program(&self, pool: &Arc<str>, file: &[u8], path: &[u8], literal: usize) -> Call {
        let (name, info) = path.split_at(mounted_at(path, literal));
        Call {
            site: self.site,
            pool: Arc::clone(pool),
            file: file.into(),
            name: name.into(),
            info: info.into(),
            root: Arc::clone(&self.root),
        }
    }

    /// The route whose application answers if there is no file at that path, or with other methods than those
    /// for files.
    pub(super) fn behind_files(&self, path: &[u8]) -> Option<Elsewhere> {
        let number = self.number(path)?;
        matches!(self.all[number].action, Action::FilesFirst(_)).then_some(Elsewhere(number))
    }

    /// The file to send if there is none at that path.
    pub(super) fn fallback(&self, path: &[u8]) -> Option<Arc<[u8]>> {
        match &self.all[self.number(path)?].action {
            Action::File(fallback) | Action::Scripts { fallback, .. } => fallback.clone(),
            _ => None,
        }
    }

    /// The first route that matches a path.
    pub(super) fn number(&self, path: &[u8]) -> Option<usize> {
        self.matching(path).into_iter().find(|number| self.all[*number].takes(path))
    }

    /// The routes whose pattern matches a path.
    pub(super) fn matching(&self, path: &[u8]) -> Vec<usize> {
        let matches = self.paths.of_path(path);
        if matches.is_all { matches.numbers } else { vec![self.all.len() - NO_ROUTES.len()] }
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
                    (Some(pool), ..) if rule.is_proxied && rule.files_first => {
                        Action::FilesFirst(pool.into())
                    }
                    (Some(pool), ..) if rule.is_proxied => {
                        Action::Program { pool: pool.into(), file: Box::default() }
                    }
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
        let literal = literal_prefix(pattern).unwrap_or(pattern).len();
        Self { path, literal, encoded_slashes: rule.encoded_slashes, action }
    }

    /// Whether the route takes a path that its pattern matches.
    pub(super) fn takes(&self, path: &[u8]) -> bool {
        match &self.action {
            Action::Scripts { ending, .. } => script_length(path, ending).is_some(),
            _ => true,
        }
    }
}

/// Where in the path a program is mounted. `literal` is the length of the path prefix before the first
/// wildcard of the route. `SCRIPT_NAME` ends there, and `PATH_INFO` begins with the slash after it (RFC
/// 3875 section 4.1).
fn mounted_at(path: &[u8], literal: usize) -> usize {
    let literal = literal.min(path.len());
    match path[..literal].iter().rposition(|byte| *byte == b'/') {
        Some(slash) if literal < path.len() || path.ends_with(b"/") => slash,
        _ => literal,
    }
}

/// Where a redirect leads. `literal` is the length of the path prefix before the first wildcard.
fn location(target: &Target, path: &[u8], literal: usize, query: Option<&[u8]>) -> String {
    let mut location = String::new();
    for part in target.parts() {
        match part {
            Part::Text(text) => location.push_str(text),
            // Merge two slashes into one: at the beginning, two slashes would name another host.
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
