//! What is allowed, but hardly meant, or will not work as it is: warnings, each with its place.
//!
//! They are looked for by who is going to serve: once the privileges of the start are given up, the same
//! user reaches the same files and sockets.

mod routes;
#[cfg(test)]
mod tests;

use std::io;
use std::os::unix::fs::FileTypeExt as _;

use super::address::ListenAddress;
use super::error::{Place, Problem};
use super::settings::{FileSettings, PoolRule, Settings};
use super::typed::{Item, Table, Value, nth, of_key, of_site};

/// Whatever there is to be said about these settings, in the order of the file.
pub(super) fn doubts(settings: &Settings, typed: &Table) -> Vec<Problem> {
    let mut doubts = Doubts(Vec::new());
    doubts.0.extend(root_without_user(settings));
    let of_sites = (0..).zip(&settings.sites).map(|(at, site)| (Some(at), &site.files));
    for (number, files) in std::iter::once((None, &settings.files)).chain(of_sites) {
        let site = Site { files, typed: of_site(typed, number) };
        routes::look(&site, &mut doubts);
        look_at_fallbacks(&site, &mut doubts);
        if let Some(php) = &files.php
            && (number.is_none() || settings.files.php.as_ref() != Some(php))
        {
            look_at_server((&php.server, site.item("php")), settings, &mut doubts);
        }
    }
    for (at, pool) in settings.pools.iter().enumerate() {
        look_at_servers((pool, nth(typed, "pools", at)), settings, &mut doubts);
    }
    let mut doubts = doubts.0;
    doubts.sort_by(|a, b| a.place.cmp(&b.place));
    doubts
}

/// What has been found so far.
struct Doubts(Vec<Problem>);

impl Doubts {
    fn add(&mut self, item: Option<&Item>, what: impl Into<String>) {
        self.0.extend(item.map(|item| item.problem(what)));
    }
}

/// A site, and where it was typed.
struct Site<'a> {
    files: &'a FileSettings,
    typed: Option<&'a Table>,
}

impl<'a> Site<'a> {
    fn item(&self, key: &str) -> Option<&'a Item> {
        Some(&self.typed?.get(key)?.item)
    }

    /// A key of one of its routes, or that route.
    fn of_route(&self, at: usize, key: &str) -> Option<&'a Item> {
        Some(of_key(nth(self.typed?, "routes", at)?, key))
    }
}

fn root_without_user(settings: &Settings) -> Option<Problem> {
    let what = "not set, and root starts the server, which goes on as root: whoever takes it over has the \
                machine; set user = \"www-data\", or start it as another user";
    let is_one = settings.user.is_none() && sys::process::is_root();
    let problem = |what: &str| Problem {
        place: Place::Default,
        key: "user".to_owned(),
        typed: String::new(),
        what: what.to_owned(),
    };
    is_one.then(|| problem(what))
}

fn look_at_fallbacks(site: &Site<'_>, doubts: &mut Doubts) {
    let fallbacks = site.files.routes.iter().enumerate();
    for (at, fallback) in fallbacks.filter_map(|(at, route)| Some((at, route.fallback.as_deref()?))) {
        let file = site.files.root.join(fallback.trim_start_matches('/'));
        if !file.is_file() {
            let what = format!("there is no file {}, so that clients get 404", file.display());
            doubts.add(site.of_route(at, "fallback"), what);
        }
    }
}

fn look_at_servers((pool, typed): (&PoolRule, Option<&Item>), settings: &Settings, doubts: &mut Doubts) {
    let servers = typed.map(|pool| of_key(pool, "servers"));
    for (at, server) in pool.servers.iter().enumerate() {
        let item = servers.map(|item| match &item.value {
            Value::List(items) => items.get(at).unwrap_or(item),
            _ => item,
        });
        look_at_server((server, item), settings, doubts);
    }
}

/// Whether an application's socket is there, and may be connected to, which takes the right to write,
/// unix(7). Nobody connects: that may start an application.
fn look_at_server((server, item): (&ListenAddress, Option<&Item>), settings: &Settings, doubts: &mut Doubts) {
    let ListenAddress::Unix(path) = server else { return };
    let (shown, user) = (path.display(), settings.user.as_deref());
    let group = settings.group.as_deref();
    // Nobody else's rights can be told.
    let is_server = user.is_none_or(|user| sys::process::runs_as(user, group).unwrap_or(false));
    let user = user.unwrap_or("who runs this");
    let wrong = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => format!("there is no socket {shown}"),
        Err(error) if is_server => format!("{user} can't get to the socket {shown} ({error})"),
        Ok(file) if !file.file_type().is_socket() => format!("{shown} is no socket"),
        Ok(_) => match sys::socket::check_connect(path) {
            Err(error) if is_server => format!("{user} may not connect to {shown} ({error})"),
            _ => return,
        },
        Err(_) => return,
    };
    doubts.add(item, format!("{wrong}; until that is mended, clients get 502"));
}
