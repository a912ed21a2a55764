//! Checks across keys, and against the system: directories, files, users, CPUs.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::address::{ListenAddress, Occupied};
use super::error::{Place, Problem};
use super::names::{Named as _, no_ring};
use super::settings::{
    AccessLogSettings, Architecture, CopiesBy, ErrorLog, Events, LogTarget, PairFiles, PoolRule, Sends,
    Settings, Stages, Transport, Wake,
};
use super::typed::{Entry, Item, Table, Value, nth, of_key, of_site};
use super::values::addresses;

/// Most workers of all copies together.
const MOST_PROCESSES: usize = 1024;
/// Most threads of one pipeline.
const MOST_THREADS: usize = 4096;

/// What is wrong with settings whose values are each valid.
pub(super) fn problems(settings: &Settings, typed: &Table) -> Vec<Problem> {
    let mut checks = Checks { typed, problems: Vec::new() };
    check_root(&mut checks, &settings.files.root);
    check_accounts(&mut checks, ("user", &settings.user), ("group", &settings.group));
    if settings.group.is_some() && settings.user.is_none() {
        checks.problem("group", "contradiction: a group needs a user; set user as well");
    }
    let (clients, status) = (&settings.unix_sockets, &settings.status_socket);
    let (owner, group) = ("unix_sockets.owner", "unix_sockets.group");
    check_accounts(&mut checks, (owner, &clients.owner), (group, &clients.group));
    let (owner, group) = ("status_socket.owner", "status_socket.group");
    check_accounts(&mut checks, (owner, &status.owner), (group, &status.group));
    if let Some(cpus) = &settings.cpus {
        check_cpus(&mut checks, "cpus", cpus);
    }
    for cpus in &settings.placement.cpus {
        check_cpus(&mut checks, "placement.cpus", cpus);
    }
    check_addresses(&mut checks, settings);
    check_logs(&mut checks, settings);
    check_pools(&mut checks, settings);
    check_hosts(&mut checks, settings);
    check_tls(&mut checks, settings);
    check_processes(&mut checks, settings);
    if settings.limits.request_line > settings.limits.header_size {
        let why = "must not be larger than limits.header_size, of which it is a part";
        checks.problem("limits.request_line", format!("contradiction: {why}"));
    }
    let mechanism = settings.event.mechanism;
    let epoll = matches!(mechanism, Events::Epoll | Events::EpollLevel);
    if !epoll && settings.event.wake != Wake::All && checks.has("wake") {
        let name = mechanism.name();
        let why = format!("contradiction: {name} wakes all waiting processes; allowed with it: all");
        checks.problem("wake", why);
    }
    checks.problems
}

struct Checks<'a> {
    typed: &'a Table,
    problems: Vec<Problem>,
}

impl Checks<'_> {
    /// Adds a problem with a key whose own value is valid.
    fn problem(&mut self, key: &str, what: impl Into<String>) {
        let (table, in_table) = key.split_once('.').unwrap_or((key, ""));
        let what = what.into();
        self.problems.push(match self.typed.get(table).map(|entry| &entry.item) {
            Some(item) if in_table.is_empty() => item.problem(what),
            Some(item) => item.problem_of(in_table, what),
            None => Problem { place: Place::Default, key: key.to_owned(), typed: String::new(), what },
        });
    }

    /// Adds a problem with an item. Without an item, the problem belongs to the list at the top of the
    /// file.
    fn problem_in(&mut self, item: Option<&Item>, list: &str, what: impl Into<String>) {
        match item {
            Some(item) => self.problems.push(item.problem(what)),
            None => self.problem(list, what),
        }
    }

    /// Whether this key was typed at the top of the file.
    fn has(&self, key: &str) -> bool {
        self.typed.contains_key(key)
    }
}

/// Pools must have different names, and routes must lead to existing pools.
fn check_pools(checks: &mut Checks<'_>, settings: &Settings) {
    let typed = checks.typed;
    let names: Vec<_> = settings.all_pools().map(|pool| pool.name.clone()).collect();
    let mut known = HashSet::new();
    // The PHP pools come first. They come from distinct settings, so their names differ.
    let typed_pools = names.len() - settings.pools.len();
    for (at, name) in names.iter().enumerate() {
        if !known.insert(name) {
            let item = at.checked_sub(typed_pools).and_then(|at| nth(typed, "pools", at));
            let item = item.map(|item| of_key(item, "name"));
            checks.problem_in(item, "pools", format!("two pools have the name {name:?}"));
        }
    }
    let of_sites = (0..).zip(&settings.sites).map(|(at, site)| (Some(at), "sites", &site.files));
    for (site, list, files) in std::iter::once((None, "routes", &settings.files)).chain(of_sites) {
        let routes = of_site(typed, site);
        let item = |at, key| Some(of_key(nth(routes?, "routes", at)?, key));
        for (at, route) in files.routes.iter().enumerate() {
            if let Some(missing) = route.pool.as_ref().filter(|pool| !known.contains(pool)) {
                let what = format!("there is no pool {missing:?} for a route; allowed: {}", listed(&names));
                checks.problem_in(item(at, "pool"), list, what);
            }
            // Keys of routes to pools that speak the other protocol.
            let (protocol, of_other) = if route.is_proxied {
                let keys = [("scripts", route.scripts.is_some()), ("program", route.program.is_some())];
                ("fastcgi", keys.to_vec())
            } else {
                ("http", vec![("files_first", route.files_first && route.pool.is_some())])
            };
            for (key, _) in of_other.into_iter().filter(|(_, is_said)| *is_said) {
                let what = format!("allowed: with a pool that has protocol = {protocol:?}");
                checks.problem_in(item(at, key), list, what);
            }
        }
        let fallback = files.routes.iter().position(|route| route.fallback.is_some());
        let behind = files.routes.iter().enumerate().skip(fallback.unwrap_or(files.routes.len()));
        let mut refusing = behind.filter(|(_, route)| route.status.is_some() || route.redirect.is_some());
        if files.php.is_some()
            && let Some((at, route)) = refusing.next()
        {
            let path = route.path.as_ref().map_or("any path", |path| path.text());
            let why = "follows one with a fallback, and PHP scripts are run before that: move it up";
            let what = format!("contradiction: the route for {path} {why}");
            checks.problem_in(item(at, "path"), list, what);
        }
    }
    let shares = settings.pools.iter().filter(|pool| pool.transport == Transport::SharedMemory);
    for pool in shares.filter(|pool| pool.area > settings.gateway_memory) {
        let (area, name) = (units::print_size(pool.area), &pool.name);
        let why = format!("contradiction: the shared-memory area of the pool {name:?} does not fit");
        checks.problem("gateway.memory", format!("{why}; allowed: at least its area, {area}"));
    }
    check_send_files(checks, settings);
    if !names.is_empty() && !settings.spool.is_dir() {
        let spool = settings.spool.display();
        checks.problem("gateway.spool", format!("{spool} is no directory; allowed: one for large bodies"));
    }
}

/// No URL may reach the files that an application decides about.
fn check_send_files(checks: &mut Checks<'_>, settings: &Settings) {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let sites = settings.sites.iter().map(|site| &site.files.root);
    let roots: HashSet<_> =
        std::iter::once(&settings.files.root).chain(sites).map(|root| real(root)).collect();
    let typed = checks.typed;
    let directories =
        |pool: &PoolRule| pool.send_files.iter().map(|(_, path)| real(path)).collect::<Vec<_>>();
    let of_pools = settings.pools.iter().map(directories).enumerate();
    for (at, directory) in
        of_pools.flat_map(|(at, all)| all.into_iter().map(move |directory| (at, directory)))
    {
        if let Some(root) = directory.ancestors().find(|above| roots.contains(*above)) {
            let (directory, root) = (directory.display(), root.display());
            let why = format!("contradiction: send_files has {directory}, which is below the root {root}");
            let item = nth(typed, "pools", at).map(|item| of_key(item, "send_files"));
            checks.problem_in(item, "pools", format!("{why}: any client can fetch what is there"));
        }
    }
}

/// The names to choose from; if there are many, only the first ones.
fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    match names.len() {
        0 => "there are none".to_owned(),
        1..=MOST => names.join(", "),
        all => format!("{} and {} more", names[..MOST].join(", "), all - MOST),
    }
}

/// No host may belong to two sites.
fn check_hosts(checks: &mut Checks<'_>, settings: &Settings) {
    if settings.number_of_sites() > usize::from(u16::MAX) {
        checks.problem("sites", format!("at most {} sites, and directories of send_files", u16::MAX));
    }
    let (typed, mut known) = (checks.typed, HashSet::new());
    for (number, site) in settings.sites.iter().enumerate() {
        for (at, host) in site.hosts.iter().enumerate() {
            if !known.insert(host) {
                let item = of_site(typed, Some(number)).and_then(|site| nth(site, "hosts", at));
                checks.problem_in(item, "sites", format!("contradiction: {host} is listed twice in hosts"));
            }
        }
    }
}

/// The least stack of a user-level thread that may compute a handshake. Measured with all kinds of keys and
/// groups, up to RSA of 4096 bits and X25519MLKEM768, it takes 20 to 32 KiB.
const STACK_FOR_TLS: u64 = 64 << 10;

/// TLS needs a certificate and its key, and a certificate needs an address where TLS is spoken.
fn check_tls(checks: &mut Checks<'_>, settings: &Settings) {
    let typed = checks.typed;
    let tls = &settings.tls;
    let of_sites = (0..).zip(&settings.sites).map(|(at, site)| (Some(at), &site.pair));
    let mut are_there = tls.self_signed;
    for (site, pair) in std::iter::once((None, &tls.pair)).chain(of_sites) {
        let (has, lacks) = match (&pair.certificate, &pair.key) {
            (Some(_), Some(_)) => {
                are_there = true;
                continue;
            }
            (None, None) => continue,
            (Some(_), None) => ("certificate", "key"),
            (None, Some(_)) => ("key", "certificate"),
        };
        let item = of_site(typed, site).and_then(|table| table.get(has)).map(|entry| &entry.item);
        checks.problem_in(item, has, format!("contradiction: a {has} needs a {lacks}; set {lacks} as well"));
    }
    if tls.self_signed && tls.pair != PairFiles::default() {
        let why = "contradiction: there is a certificate; leave out one of the two";
        checks.problem("tls_self_signed", why);
    }
    if !tls.listen.is_empty() && !are_there {
        let what = "TLS needs a certificate; set certificate and key, or for tests tls_self_signed";
        checks.problem("listen_tls", what);
    }
    if !tls.listen.is_empty() && settings.user_threads.stack < STACK_FOR_TLS {
        let least = units::print_size(STACK_FOR_TLS);
        let what =
            format!("a TLS handshake takes up to 32 KiB of it; allowed with listen_tls: at least {least}");
        checks.problem("user_threads.stack", what);
    }
    if tls.listen.is_empty() {
        for key in ["certificate", "redirect_to_https", "hsts"] {
            let is_set = match key {
                "certificate" => tls.pair.certificate.is_some(),
                "hsts" => tls.hsts.is_some(),
                _ => tls.redirect,
            };
            if is_set {
                let what = "contradiction: no address speaks TLS; set listen_tls, such as \":443\"";
                checks.problem(key, what);
            }
        }
    }
}

/// A configured user or group must exist.
fn check_accounts(
    checks: &mut Checks<'_>,
    (user_key, user): (&str, &Option<String>),
    (group_key, group): (&str, &Option<String>),
) {
    if let Some(Err(error)) = user.as_deref().map(sys::process::user_id) {
        checks.problem(user_key, error.to_string());
    }
    if let Some(Err(error)) = group.as_deref().map(sys::process::group_id) {
        checks.problem(group_key, error.to_string());
    }
}

fn check_cpus(checks: &mut Checks<'_>, key: &str, cpus: &[usize]) {
    if let Ok(allowed) = sys::process::allowed_cpus()
        && let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu))
    {
        let allowed = units::print_cpus(&allowed);
        checks.problem(key, format!("CPU {cpu} is not available; allowed here: {allowed}"));
    }
}

/// Checks the number of processes against what is divided between them.
fn check_processes(checks: &mut Checks<'_>, settings: &Settings) {
    let Settings { architecture, workers, copies, copies_by, listen, placement, .. } = settings;
    if matches!(architecture, Architecture::Sped | Architecture::NCopy) && *workers != 1 {
        let name = architecture.name();
        checks.problem("workers", format!("contradiction: {name} is a single process; allowed with it: 1"));
    }
    if !architecture.is_event_driven() {
        check_pool(checks, settings);
    }
    if *architecture == Architecture::Pipeline {
        check_stages(checks, settings);
    }
    if *architecture == Architecture::Uring {
        check_ring(checks, settings);
    }
    if copies * workers > MOST_PROCESSES {
        checks.problem(
            "copies",
            format!("at most {MOST_PROCESSES} processes; {copies} copies of {workers} workers are more"),
        );
    }
    let (logs, processes) = (settings.access_logs().len(), copies * settings.layout().processes);
    if logs > 1 && logs * processes > MOST_PROCESSES {
        let why =
            format!("at most {MOST_PROCESSES} threads write access logs, one for each log in each process");
        checks.problem("sites", format!("{why}; {logs} logs in {processes} processes are more"));
    }
    if let Err(why) = settings.addresses_of_copies() {
        checks.problem("copies", why);
    }
    let addresses = if *copies_by == CopiesBy::Address { listen.len() / copies } else { listen.len() };
    let workers = settings.partitions();
    if placement.partition && addresses % workers != 0 {
        let why = format!("{addresses} addresses can't be divided evenly among {workers} workers");
        checks.problem("workers", format!("contradiction: {why}, as placement.partition demands"));
    }
}

/// Settings that the pipeline does not support.
fn check_stages(checks: &mut Checks<'_>, settings: &Settings) {
    if settings.event.mechanism != Events::Epoll {
        checks.problem(
            "events",
            "contradiction: the poll stages of pipeline use epoll; allowed with it: epoll",
        );
    }
    let (threads, workers) = (settings.stage_threads().all(), settings.workers);
    if threads > MOST_THREADS {
        let what =
            format!("at most {MOST_THREADS} threads in a pipeline; these of {workers} workers are more");
        checks.problem("writers", what);
    }
    if settings.pipeline.stages == Stages::Four && workers != 1 {
        let what = "contradiction: the pipeline of four stages is for one CPU; allowed with it: 1";
        checks.problem("workers", what);
    }
}

/// Settings that a ring does not support, and whether there is one.
fn check_ring(checks: &mut Checks<'_>, settings: &Settings) {
    if checks.has("events") {
        let why = "contradiction: uring is told what has completed, and asks for no events";
        checks.problem("events", format!("{why}; leave this out, or choose amped"));
    }
    if settings.send == Sends::Blocking {
        checks.problem("send", "contradiction: a ring sends for many clients; allowed with it: non-blocking");
    }
    if let Err(error) = sys::ring::probe() {
        checks.problem("architecture", no_ring(&error));
    }
    if settings.uring.registered_sockets
        && let Err(error) = sys::ring::check_registration()
    {
        checks.problem("uring.registered_sockets", error.to_string());
    }
}

/// Settings that workers with one client each do not support.
fn check_pool(checks: &mut Checks<'_>, settings: &Settings) {
    let name = settings.architecture.name();
    if checks.has("events") {
        let why = format!("contradiction: {name} has no event loop; leave this out, or choose symped");
        checks.problem("events", why);
    }
    if settings.event.wake == Wake::ReAdding {
        let why = format!("contradiction: a worker of {name} can't go to the end of the wait queue");
        checks.problem("wake", format!("{why}; allowed with it: all, exclusive"));
    }
    if settings.send == Sends::NonBlocking {
        let why = format!("contradiction: {name} waits for each client; allowed with it: blocking");
        checks.problem("send", why);
    }
}

fn check_addresses(checks: &mut Checks<'_>, settings: &Settings) {
    if settings.listen.is_empty() {
        checks.problem(
            "listen",
            "there must be an address, such as \"127.0.0.1:8080\" or \"unix:/run/sluice.sock\"",
        );
    }
    let mut known = Occupied::default();
    let plain = settings.listen.len() - settings.tls.listen.len().min(settings.listen.len());
    let typed = checks.typed;
    let without: HashSet<_> = settings.listen[..plain].iter().collect();
    let items = items_of_addresses(typed.get("listen")).take(plain);
    let items = items.chain(items_of_addresses(typed.get("listen_tls")));
    for (at, (address, item)) in settings.listen.iter().zip(items).enumerate() {
        let list = if at < plain { "listen" } else { "listen_tls" };
        // Two addresses with port 0 differ, but TLS is spoken at an address as it is written.
        let is_both = || without.get(address).copied().filter(|_| at >= plain);
        let other = known.add(address).or_else(is_both);
        if let Some(other) = other {
            let what = format!("contradiction: {other} and {address} are the same address");
            checks.problem_in(item, list, what);
        }
        if let ListenAddress::Unix(path) = address
            && let Some(what) = wrong_with_parent(path)
        {
            checks.problem_in(item, list, what);
        }
    }
    let listen: HashSet<_> = settings.listen.iter().collect();
    let protocol = match checks.typed.get("proxies").map(|proxies| &proxies.item.value) {
        Some(Value::Table(proxies)) => proxies.get("protocol"),
        _ => None,
    };
    for (address, item) in settings.proxy_protocol.iter().zip(items_of_addresses(protocol)) {
        if !listen.contains(address) {
            let what = format!("contradiction: {address} is no address of listen or listen_tls");
            checks.problem_in(item, "proxies.protocol", what);
        }
    }
    if let Some(status) = &settings.status {
        if let Some(other) = settings.listen.iter().find(|other| status.overlaps(other)) {
            let what = format!("contradiction: clients connect to {other}; status needs another address");
            checks.problem("status", what);
        }
        if let ListenAddress::Unix(path) = status {
            check_parent(checks, "status", path);
        }
    }
}

/// For each address of a key, the typed item that it comes from. One item may stand for several
/// addresses. The iterator never ends.
fn items_of_addresses(typed: Option<&Entry>) -> impl Iterator<Item = Option<&Item>> {
    let items = match typed.map(|entry| &entry.item) {
        Some(Item { value: Value::List(items), .. }) => items.as_slice(),
        Some(item) => std::slice::from_ref(item),
        None => &[],
    };
    let each = |item| std::iter::repeat_n(Some(item), addresses(item).map_or(0, |all| all.len()));
    items.iter().flat_map(each).chain(std::iter::repeat(None))
}

fn check_logs(checks: &mut Checks<'_>, settings: &Settings) {
    let errors = match &settings.error_log {
        ErrorLog::File(path) => Some(path),
        ErrorLog::Stderr => None,
    };
    if let Some(path) = errors {
        check_parent(checks, "error_log", path);
    }
    let (typed, mut known) = (checks.typed, HashMap::<&LogTarget, &AccessLogSettings>::new());
    let of_sites = (0..).zip(&settings.sites).map(|(at, site)| (Some(at), &site.access_log));
    for (site, log) in std::iter::once((None, &settings.access_log)).chain(of_sites) {
        let Some(log) = log else { continue };
        let mut problem = |what: String| match site {
            None => checks.problem("access_log", what),
            Some(at) => {
                let site = nth(typed, "sites", at);
                checks.problems.extend(site.map(|site| site.problem_of("access_log", what)));
            }
        };
        if let Some(known) = known.get(&log.target) {
            // A site that sets nothing uses the common log unchanged. Problems with that log are already
            // reported.
            if *known != log {
                problem(format!(
                    "contradiction: {} is the log of another site, with another log_format or \
                     log_when_full; choose another file",
                    log.target
                ));
            }
            continue;
        }
        known.insert(&log.target, log);
        if let LogTarget::File(path) = &log.target {
            if errors == Some(path) {
                problem("contradiction: this is the error_log as well; choose two files".to_owned());
            }
            if let Some(what) = wrong_with_parent(path) {
                problem(what);
            }
        }
    }
}

fn check_root(checks: &mut Checks<'_>, root: &Path) {
    if root.as_os_str().is_empty() {
        return;
    }
    if !checks.has("root") && root == Path::new("/") {
        let what = "not set, and the current directory is /; say which directory to serve, such as \
                    root = \"/var/www\" in the file, or DIR on the command line";
        checks.problem("root", what);
        return;
    }
    if let Some(what) = wrong_with_root(root) {
        checks.problem("root", what);
    }
}

/// Why a directory cannot be served.
pub(super) fn wrong_with_root(root: &Path) -> Option<String> {
    match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(_) => Some(format!("{} is not a directory", root.display())),
        Err(error) => Some(format!("cannot serve {}: {error}", root.display())),
    }
}

fn check_parent(checks: &mut Checks<'_>, key: &str, path: &Path) {
    if let Some(what) = wrong_with_parent(path) {
        checks.problem(key, what);
    }
}

/// A file or socket that the server will create needs an existing parent directory.
fn wrong_with_parent(path: &Path) -> Option<String> {
    if path.is_dir() {
        return Some(format!("{} is a directory", path.display()));
    }
    let parent = path.parent().filter(|parent| !parent.is_dir())?;
    Some(format!("there is no directory {}", parent.display()))
}
