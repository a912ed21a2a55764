//! Warnings: what is allowed but is probably a mistake, or will not work as it is. Each has its place.
//!
//! The process that is going to serve runs these checks. When it has given up the privileges of the
//! start, it reaches the same files and sockets as the workers do, because it runs as the same user.

mod routes;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::FileTypeExt as _;

use http1::coding::Coding;

use super::address::ListenAddress;
use super::error::{Place, Problem};
use super::server_address::ServerAddress;
use super::settings::{FileSettings, PoolRule, Settings};
use super::typed::{Item, Table, Value, nth, of_key, of_site};

/// All warnings about these settings, in the order of the file.
pub(super) fn doubts(settings: &Settings, typed: &Table, has_file: bool) -> Vec<Problem> {
    let mut doubts = Doubts(Vec::new());
    doubts.0.extend(root_without_user(settings));
    if has_file && !typed.contains_key("root") {
        doubts.0.extend(current_directory(settings));
    }
    let of_sites = (0..).zip(&settings.sites).map(|(at, site)| (Some(at), &site.files));
    for (number, files) in std::iter::once((None, &settings.files)).chain(of_sites) {
        let site = Site { files, typed: of_site(typed, number) };
        routes::look(&site, &mut doubts);
        look_at_fallbacks(&site, &mut doubts);
        look_at_encodings(&site, &mut doubts);
        let top = &settings.files;
        for (key, own, of_top) in [("php", &files.php, &top.php), ("proxy", &files.proxy, &top.proxy)] {
            if let Some(own) = own
                && (number.is_none() || of_top.as_ref() != Some(own))
            {
                look_at_server((&own.server, site.item(key)), settings, &mut doubts);
            }
        }
    }
    let routes = settings.sites.iter().flat_map(|site| &site.files.routes).chain(&settings.files.routes);
    let named: HashSet<_> = routes.filter_map(|route| route.pool.as_deref()).collect();
    for (at, pool) in settings.pools.iter().enumerate() {
        let item = nth(typed, "pools", at);
        look_at_servers((pool, item), settings, &mut doubts);
        if !named.contains(pool.name.as_str()) {
            let what = "no route leads to this pool, so that no request comes to it; name it in [[routes]]";
            doubts.add(item.map(|item| of_key(item, "name")), what);
        }
    }
    let mut doubts = doubts.0;
    doubts.sort_by(|a, b| a.place.cmp(&b.place));
    doubts
}

/// The warnings found so far.
struct Doubts(Vec<Problem>);

impl Doubts {
    fn add(&mut self, item: Option<&Item>, what: impl Into<String>) {
        self.0.extend(item.map(|item| item.problem(what)));
    }
}

/// A site, and the table that it was typed in.
struct Site<'a> {
    files: &'a FileSettings,
    typed: Option<&'a Table>,
}

impl<'a> Site<'a> {
    fn item(&self, key: &str) -> Option<&'a Item> {
        Some(&self.typed?.get(key)?.item)
    }

    /// A key of one of the site's routes, or the route if the key was not typed.
    fn of_route(&self, at: usize, key: &str) -> Option<&'a Item> {
        Some(of_key(nth(self.typed?, "routes", at)?, key))
    }
}

fn root_without_user(settings: &Settings) -> Option<Problem> {
    let what = "not set, and root starts the server, which goes on as root: anyone who takes it over has the \
                machine; set user = \"www-data\", or start it as another user";
    let is_one = settings.user.is_none() && sys::process::is_root();
    is_one.then(|| of_default("user", what))
}

/// Warns that the current directory is served. A file is often read in a directory that its author did
/// not choose, such as `/etc/sluice`.
fn current_directory(settings: &Settings) -> Option<Problem> {
    let root = &settings.files.root;
    let what = format!(
        "not set, so that the files of {}, the current directory, are served; set root to the directory that \
         is meant, or have a route for all paths that redirects or refuses them",
        root.display()
    );
    (!root.as_os_str().is_empty()).then(|| of_default("root", what))
}

fn of_default(key: &str, what: impl Into<String>) -> Problem {
    Problem { place: Place::Default, key: key.to_owned(), typed: String::new(), what: what.into() }
}

/// Looks for endings that are set to another coding than the one they usually mean.
fn look_at_encodings(site: &Site<'_>, doubts: &mut Doubts) {
    let Some(Value::Table(typed)) = site.item("encodings").map(|item| &item.value) else { return };
    for (ending, entry) in typed {
        let last = ending.rsplit('.').next().unwrap_or_default();
        let usual = Coding::ALL.into_iter().find(|coding| coding.extension()[1..] == *last);
        let set = site.files.encodings.get(ending).copied().flatten();
        if let (Some(usual), Some(set)) = (usual, set)
            && usual != set
        {
            let what = format!(
                "{last} is the usual extension of {}, and no browser can decode that as {}",
                usual.token(),
                set.token()
            );
            doubts.add(Some(&entry.item), what);
        }
    }
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

/// Checks that an application's socket exists and that the server may connect to it, which requires write
/// permission, unix(7). This makes no connection, because that may start an application.
fn look_at_server((server, item): (&ServerAddress, Option<&Item>), settings: &Settings, doubts: &mut Doubts) {
    let ServerAddress::At(ListenAddress::Unix(path)) = server else { return };
    let (shown, user) = (path.display(), settings.user.as_deref());
    let group = settings.group.as_deref();
    // The rights of any other user are unknown.
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
