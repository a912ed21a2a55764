//! Explains for people how the server answers requests for a path, and by which route. Needs no running
//! server.

use std::sync::Arc;

use http1::host_name;

use super::call::Call;
use super::encoded::{Encoded, Takes};
use super::lookup::{Lookup, LookupResult};
use super::numbers::Elsewhere;
use super::path::{Path, Refusal};
use super::resolver::Resolver;
use super::routes::{Action, Instead, LeadsTo, NO_ROUTES, Routes};
use super::rules::Rules;
use super::sites::Hosts;
use super::types::Types;
use crate::config::{FileSettings, Settings, SiteSettings};
use crate::plain::Plain;

/// Which site and which of its routes answer requests for a URL, and how. Also takes a target of the
/// default site (a path with or without a query). Reads the files below the root, if it can.
pub fn explain(settings: &Settings, url: &str) -> String {
    let (authority, target) = split(url);
    let sites = settings.all_sites();
    let number = Hosts::new(&sites).of(host_name(authority.as_bytes()));
    let SiteSettings { hosts, files, .. } = &sites[usize::from(number)];
    let (raw, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let raw = if raw.is_empty() { "/" } else { raw };
    let mut decoded = Vec::new();
    let answer = match Path::decode(raw.as_bytes(), files.dotfiles, &mut decoded) {
        Ok(path) => {
            let routes = Arc::new(Routes::new(number, files));
            let resolver = Resolver::new(files, Arc::clone(&routes), Rules::default()).ok();
            let answer = routes.explain(path.bytes(), query.map(str::as_bytes), resolver.as_ref());
            match answer {
                Explained::File(answer) if !path.bytes().ends_with(b"/") => {
                    format!("{}\n{}", Plain(&answer), Plain(&sent_as(files, path)))
                }
                Explained::File(answer) | Explained::Other(answer) => Plain(&answer).to_string(),
            }
        }
        Err(refusal) => {
            let answer = Routes::new(number, files).explain_no_name(raw.as_bytes(), refusal, files.dotfiles);
            Plain(&answer).to_string()
        }
    };
    let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    let root = files.root.to_string_lossy();
    let root = if root.is_empty() { "no root".to_owned() } else { format!("root {}", Plain(&root)) };
    match (settings.sites.len(), number) {
        (0, _) => answer,
        (_, 0) => format!("the default site, {root}\n{answer}"),
        _ => format!("site {number} ({}), {root}\n{answer}", hosts.join(", ")),
    }
}

/// A URL's authority, and its target. A target alone has no authority. A URL within a target is part of
/// the target's path or query.
fn split(url: &str) -> (&str, &str) {
    match url.split_once("://") {
        Some((scheme, behind)) if !scheme.contains(['/', '?']) => {
            behind.split_at(behind.find(['/', '?']).unwrap_or(behind.len()))
        }
        _ => ("", url),
    }
}

/// How a path is answered.
enum Explained {
    /// With the file at that path, if it exists.
    File(String),
    /// With something else.
    Other(String),
}

/// The header fields that are sent with the file at a path.
fn sent_as(files: &FileSettings, path: Path<'_>) -> String {
    let types = Types::new(files);
    let coding = types.stored_coding(path.bytes());
    let coding = coding.map(|coding| format!(", Content-Encoding: {}", coding.token()));
    format!("its Content-Type: {}{}", types.of(path.bytes()), coding.unwrap_or_default())
}

impl Routes {
    fn explain(&self, path: &[u8], query: Option<&[u8]>, resolver: Option<&Resolver>) -> Explained {
        let number = self.number(path);
        let file = match self.leads_to(path, false) {
            LeadsTo::Elsewhere(route) if Some(route.0) == number => {
                let instead = self.instead(route, path, query);
                return Explained::Other(format!("{}: {instead}", self.name(route.0)));
            }
            LeadsTo::Elsewhere(route) => {
                return Explained::Other(self.explain_other(route, "the script in front of PATH_INFO"));
            }
            LeadsTo::File(file) => file,
        };
        let found = resolver.map(|resolver| (resolver, resolver.look_up(&Lookup::new(0, file, None))));
        match &found {
            Some((_, LookupResult::Barred(route))) => {
                return Explained::Other(self.explain_other(*route, "what this leads to"));
            }
            Some((resolver, LookupResult::Script(Some(index)))) => {
                let index = resolver.index_name(*index);
                return Explained::Other(match self.run(path, index, false) {
                    Ok(call) => {
                        let runner = self.number(&[path, index].concat());
                        let name = runner.map_or("no route".to_owned(), |number| self.name(number));
                        format!("{name}: {}", told(&call))
                    }
                    Err(route) => self.explain_other(route, "the index file"),
                });
            }
            _ => {}
        }
        let file = String::from_utf8_lossy(path);
        let Some(number) = number else {
            return Explained::File(format!("no route matches: the file {file}"));
        };
        let done = match &self.all[number].action {
            Action::File(Some(fallback)) => {
                format!("the file {file}, or if there is none {}", String::from_utf8_lossy(fallback))
            }
            Action::FilesFirst(pool) => format!("the file {file}, or if there is none the pool {pool}"),
            Action::Scripts { pool, .. } => {
                let done = match self.run(path, b"", false) {
                    Ok(call) => told(&call),
                    Err(_) => format!("a script, by the pool {pool}"),
                };
                return Explained::Other(format!("{}: {done}", self.name(number)));
            }
            _ => format!("the file {file}"),
        };
        Explained::File(format!("{}: {done}", self.name(number)))
    }

    /// What happens with a path that is no name of a file.
    fn explain_no_name(&self, raw: &[u8], refusal: Refusal, dotfiles: bool) -> String {
        let read = if self.may_take(refusal) { Encoded::read(raw) } else { Err(refusal) };
        let taken = read.and_then(|encoded| {
            let takes = self.take(&encoded, refusal, dotfiles)?;
            self.explain_encoded(&encoded.path, &takes).ok_or(refusal)
        });
        taken.unwrap_or_else(|refusal| format!("{}: {}", refusal.status().0, refusal.text()))
    }

    /// What happens with a path that is no name of a file, by the route that takes it.
    fn explain_encoded(&self, path: &[u8], takes: &Takes<'_>) -> Option<String> {
        let fallback = self.fallback(path);
        let fallback = fallback.iter().map(|file| String::from_utf8_lossy(file)).next();
        let done = match takes {
            Takes::Elsewhere(route) => self.instead(*route, path, None),
            Takes::Script(_) => told(&*self.run(path, b"", false).ok()?),
            Takes::Fallback => format!("the file {}, as no file has a slash in its name", fallback?),
        };
        Some(format!("{}: {done}", self.name(self.number(path)?)))
    }

    /// The answer because of a route that applies to `what`, not to the path itself.
    fn explain_other(&self, route: Elsewhere, what: &str) -> String {
        format!("{}, which {what} has: {}", self.name(route.0), self.instead(route, b"/", None))
    }

    fn instead(&self, route: Elsewhere, path: &[u8], query: Option<&[u8]>) -> String {
        match self.answer(route, path, query) {
            Instead::Call(call) => {
                let [name, info] = [&call.name, &call.info].map(|part| String::from_utf8_lossy(part));
                format!("the pool {}, SCRIPT_NAME {name:?}, PATH_INFO {info:?}", call.pool)
            }
            Instead::Redirect(status, location) => format!("{} to {location}", status.0),
            Instead::Refuse(status) => format!("{} {}", status.0, status.reason()),
        }
    }

    /// The name of a route, numbered from 1.
    fn name(&self, number: usize) -> String {
        let path = &self.all[number].path;
        let is_none = number >= self.all.len() - NO_ROUTES.len();
        if is_none { format!("no route ({path})") } else { format!("route {} ({path})", number + 1) }
    }
}

/// Describes the script that is run.
fn told(call: &Call) -> String {
    let [name, info] = [&call.name, &call.info].map(|part| String::from_utf8_lossy(part));
    let info = if info.is_empty() { String::new() } else { format!(" with PATH_INFO {info}") };
    format!("the script {name}{info}, if there is one, by the pool {}", call.pool)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn targets_have_no_authority() {
        for (url, authority, target) in [
            ("http://a.example/x?y", "a.example", "/x?y"),
            ("http://a.example:1?u=http://b/", "a.example:1", "?u=http://b/"),
            ("https://a.example", "a.example", ""),
            ("/x", "", "/x"),
            ("/go?u=http://x.example/", "", "/go?u=http://x.example/"),
            ("/go/http://x.example/", "", "/go/http://x.example/"),
            ("?u=http://x.example/", "", "?u=http://x.example/"),
        ] {
            assert_eq!(split(url), (authority, target), "{url}");
        }
    }
}
