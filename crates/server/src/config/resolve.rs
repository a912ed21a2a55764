//! Turns what was typed into [`Settings`]: reads every key, derives the defaults that depend on other
//! keys, and checks the result. It collects all problems and reports them together.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::address::ListenAddress;
use super::checks;
use super::error::Problem;
use super::headers;
use super::key::{self, Key};
use super::keys::KEYS;
use super::pools;
use super::routes;
use super::settings::{Architecture, Protocol, Settings, Stages, usable_cpus};
use super::sites::{self, SITES};
use super::typed::{Entry, Table, Value};

/// Reads all keys. `current` is the root if none is set. Returns every problem, including those with what
/// the settings point to: directories, files, CPUs.
pub(super) fn resolve(table: &Table, current: PathBuf) -> Result<Settings, Vec<Problem>> {
    let (settings, mut problems) = read_keys(table, current);
    problems.extend(checks::problems(&settings, table));
    if problems.is_empty() {
        return Ok(settings);
    }
    // Problems in the file come first, in the file's order.
    problems.sort_by(|a, b| a.place.cmp(&b.place));
    Err(problems)
}

/// Reads all keys, and returns what is wrong with single values, which leave their defaults.
pub(super) fn read_keys(table: &Table, current: PathBuf) -> (Settings, Vec<Problem>) {
    let mut settings = Settings::new(current);
    // These defaults depend on other keys.
    (settings.workers, settings.copies) = (0, 0);
    let mut problems = Vec::new();
    for keys in KEYS.chunk_by(|a, b| a.table == b.table) {
        let name = keys[0].table;
        problems.extend(match table.get(name).map(|entry| &entry.item) {
            _ if name.is_empty() => of_table(keys, table, &mut settings),
            None => Vec::new(),
            Some(item) => match &item.value {
                Value::Table(table) => of_table(keys, table, &mut settings),
                _ => vec![item.problem(format!("must be a table, [{name}]"))],
            },
        });
    }
    problems.extend(key::read(&[SITES], table, &mut settings));
    problems.extend(unknown_keys_of_rules(&["headers", "routes", "pools", "sites"], table));
    settle(&mut settings);
    settle_routes(&mut settings);
    settle_tls(&mut settings, table);
    if !table.contains_key("root") && settings.files.needs_no_root() {
        settings.files.root = PathBuf::new();
    }
    let limits = table.get("limits").map(|entry| &entry.item.value);
    let is_said = matches!(limits, Some(Value::Table(limits)) if limits.contains_key("body"));
    if !is_said && settings.all_pools().next().is_some() {
        settings.limits.body = BODY_FOR_APPLICATIONS;
    }
    (settings, problems)
}

/// Reads the keys of one table and returns what is wrong with it.
fn of_table(keys: &[Key], table: &Table, settings: &mut Settings) -> Vec<Problem> {
    let mut problems = key::read(keys, table, settings);
    problems.extend(unknown_keys(keys[0].table, table));
    problems
}

/// Unknown keys in the tables of these lists. For sites, this includes the tables in the lists of each
/// site.
fn unknown_keys_of_rules(lists: &[&str], typed: &Table) -> Vec<Problem> {
    let mut problems = Vec::new();
    for name in lists {
        let Some(Value::List(rules)) = typed.get(*name).map(|entry| &entry.item.value) else { continue };
        for rule in rules {
            if let Value::Table(rule) = &rule.value {
                problems.extend(unknown_keys(name, rule));
                if *name == "sites" {
                    problems.extend(unknown_keys_of_rules(&["headers", "routes"], rule));
                }
            }
        }
    }
    problems
}

/// Unknown keys of one table.
fn unknown_keys(table: &str, typed: &Table) -> Vec<Problem> {
    let known: HashSet<_> = all_keys().filter(|(other, _)| *other == table).map(|(_, key)| key).collect();
    let unknown = typed.iter().filter(|(key, _)| !known.contains(key.as_str()));
    let problem = |(key, entry): (&String, &Entry)| {
        let (place, typed) = (entry.key_place.clone(), String::new());
        Problem { place, key: entry.item.key.clone(), typed, what: unknown_key(table, key) }
    };
    unknown.map(problem).collect()
}

/// Every key with its table. Tables also count as keys of the top.
pub(super) fn all_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    let tables = KEYS.iter().map(|key| ("", key.table)).filter(|(_, table)| !table.is_empty());
    let rules = headers::KEYS.iter().map(|key| (key.table, key.name));
    let routes = routes::KEYS.iter().map(|key| (key.table, key.name));
    let pools = pools::KEYS.iter().map(|key| (key.table, key.name));
    let sites = sites::KEYS.iter().map(|key| (key.table, key.name)).chain([(SITES.table, SITES.name)]);
    KEYS.iter()
        .map(|key| (key.table, key.name))
        .chain(tables)
        .chain(rules)
        .chain(routes)
        .chain(pools)
        .chain(sites)
}

/// Keys of the design that are not in this build.
const NOT_BUILT: [&str; 1] = ["fastcgi"];

fn unknown_key(table: &str, key: &str) -> String {
    if table.is_empty() && NOT_BUILT.contains(&key) {
        return "this build does not have it yet".to_owned();
    }
    match all_keys().find(|(_, known)| *known == key) {
        Some(("", _)) => {
            return "this key belongs to the top of the file, before the first [table]".to_owned();
        }
        Some((other, _)) => return format!("this key belongs to [{other}]"),
        None => {}
    }
    let mut allowed: Vec<_> = all_keys().filter(|(other, _)| *other == table).map(|(_, key)| key).collect();
    allowed.sort_unstable();
    allowed.dedup();
    let likeness = |name: &str| strsim::jaro_winkler(name, key);
    let meant = allowed.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let meant = meant.filter(|name| likeness(name) >= ALIKE);
    match meant {
        Some(name) => format!("unknown key, did you mean {name}?"),
        None => format!("unknown key; allowed: {}", allowed.join(", ")),
    }
}

/// The similarity (1 is identical) from which a name is suggested for another: one or two letters differ.
const ALIKE: f64 = 0.85;

/// The default for the largest body that applications receive: PHP's limit (`post_max_size`).
const BODY_FOR_APPLICATIONS: u64 = 8 << 20;

/// Where TLS is spoken if nothing is said about that, for a certificate that only tests need.
const TLS_FOR_TESTS: u16 = 8443;

/// Adds the addresses of TLS to those that clients connect to. If these are not said, there are no others.
fn settle_tls(settings: &mut Settings, table: &Table) {
    if settings.tls.self_signed && !table.contains_key("listen_tls") {
        settings.tls.listen = vec![ListenAddress::Tcp((Ipv4Addr::LOCALHOST, TLS_FOR_TESTS).into())];
    }
    if !settings.tls.listen.is_empty() && !table.contains_key("listen") {
        settings.listen.clear();
    }
    settings.listen.extend(settings.tls.listen.iter().cloned());
}

/// Marks the routes whose pools speak HTTP.
fn settle_routes(settings: &mut Settings) {
    let http = settings.pools.iter().filter(|pool| pool.protocol == Protocol::Http);
    let http: HashSet<_> = http.map(|pool| pool.name.clone()).collect();
    let sites = settings.sites.iter_mut().map(|site| &mut site.files);
    for files in std::iter::once(&mut settings.files).chain(sites) {
        for route in &mut files.routes {
            route.is_proxied = route.pool.as_ref().is_some_and(|pool| http.contains(pool));
        }
    }
}

/// Sets the default number of copies and workers.
fn settle(settings: &mut Settings) {
    let cpus = usable_cpus(settings.cpus.as_deref());
    if settings.copies == 0 {
        settings.copies = settings.architecture.usual_copies(cpus);
    }
    if settings.workers == 0 {
        settings.workers = settings.architecture.usual_workers((cpus / settings.copies).max(1));
        if settings.architecture == Architecture::Pipeline && settings.pipeline.stages == Stages::Four {
            settings.workers = 1;
        }
    }
    if let Some(max) = settings.connections.max {
        // Each worker needs at least one connection.
        settings.workers = settings.workers.min(max.get().div_ceil(settings.copies));
    }
}
