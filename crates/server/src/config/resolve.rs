//! From what was typed to [`Settings`]: every key with its bounds, and what must hold between them.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::ListenAddress;
use super::error::Problem;
use super::headers;
use super::keys::{self, Bases, Keys, Reading};
use super::names::Named as _;
use super::settings::{
    AcceptLimit, AccessLogSettings, AmpedSettings, Architecture, ConnectionSettings, CopiesBy, ErrorLog,
    EventSettings, Events, FileSettings, Limits, LogFormat, LogTarget, Mapping, PlacementSettings, Sends,
    Settings, SocketFileSettings, Timeouts, Wake, WhenBehind, usable_cpus,
};
use super::typed::{Item, Table, Value};

/// Most workers of all copies together.
const MOST_PROCESSES: usize = 1024;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bounds of a client's timeouts: from one tick to what ticks can tell apart with ease.
const TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(24);

/// Reads all keys. Returns every problem if there is one, also with what the settings point to: directories,
/// files, CPUs.
pub(super) fn resolve(table: &Table, bases: &Bases) -> Result<Settings, Vec<Problem>> {
    let mut reading = Reading::default();
    let settings = top(Keys::top(&mut reading, table), bases);
    match reading.problems() {
        problems if problems.is_empty() => Ok(settings),
        problems => Err(problems),
    }
}

/// The names of all keys that are read when `table` is, with their tables (`limits.body`).
pub(super) fn keys_of(table: &Table) -> Vec<String> {
    let mut reading = Reading::default();
    top(Keys::top(&mut reading, table), &Bases::default());
    reading.keys()
}

fn top(mut keys: Keys<'_>, bases: &Bases) -> Settings {
    let root = keys.take("root", bases.current.clone(), path(bases));
    check_root(&mut keys, &root);
    let default = Settings::new(root);

    let (limits, requests) = limits(keys.table("limits"));
    let architecture = keys.take("architecture", default.architecture, keys::one_of);
    let mut settings = Settings {
        listen: keys.take_list("listen", vec![default.listen], addresses(bases)).concat(),
        architecture,
        workers: keys.take_opt("workers", keys::count(1..=1024)).unwrap_or(0),
        send: keys.take("send", architecture.usual_sends(), keys::one_of),
        copies: keys.take_opt("copies", keys::count(1..=1024)).unwrap_or(0),
        copies_by: keys.take("copies_by", default.copies_by, keys::one_of),
        cpus: keys.take_opt("cpus", keys::cpus),
        placement: placement(keys.table("placement")),
        user: keys.take_opt("user", account),
        group: keys.take_opt("group", account),
        drain_timeout: keys.take("drain_timeout", default.drain_timeout, drain_time),
        error_log: keys.take("error_log", default.error_log, error_log(bases)),
        log_level: keys.take("log_level", default.log_level, keys::one_of),
        status: keys.take("status", default.status, unless_off(address(bases))),
        access_log: access_log(&mut keys, bases),
        unix_sockets: socket_file(keys.table("unix_sockets"), &default.unix_sockets),
        status_socket: socket_file(keys.table("status_socket"), &default.status_socket),
        event: event(&mut keys, architecture),
        amped: amped(keys.table("amped")),
        connections: connections(&mut keys, requests),
        limits,
        timeouts: timeouts(keys.table("timeouts")),
        files: files(&mut keys, default.files),
    };
    let cpus = usable_cpus(settings.cpus.as_deref());
    if settings.copies == 0 {
        settings.copies = architecture.usual_copies(cpus);
    }
    if settings.workers == 0 {
        settings.workers = architecture.usual_workers((cpus / settings.copies).max(1));
    }
    if let Some(max) = settings.connections.max {
        // A worker has at least one.
        settings.workers = settings.workers.min(max.get().div_ceil(settings.copies));
    }
    check(&mut keys, &settings);
    check_processes(&mut keys, &settings);
    keys.end();
    settings
}

fn placement(mut keys: Keys<'_>) -> PlacementSettings {
    let placement = PlacementSettings {
        cpus: keys.take_list("cpus", Vec::new(), keys::cpus),
        mapping: keys.take("mapping", Mapping::default(), keys::one_of),
        partition: keys.take("partition", false, keys::flag),
    };
    for set in &placement.cpus {
        check_cpus(&mut keys, set);
    }
    keys.end();
    placement
}

fn socket_file(mut keys: Keys<'_>, default: &SocketFileSettings) -> SocketFileSettings {
    let file = SocketFileSettings {
        mode: keys.take("mode", default.mode, mode),
        owner: keys.take_opt("owner", account),
        group: keys.take_opt("group", account),
    };
    check_accounts(&mut keys, ("owner", file.owner.as_deref()), file.group.as_deref());
    keys.end();
    file
}

/// A user and a group, if there are to be any, must be there.
fn check_accounts(keys: &mut Keys<'_>, (user_key, user): (&'static str, Option<&str>), group: Option<&str>) {
    if let Some(Err(error)) = user.map(sys::process::user_id) {
        keys.problem(user_key, error.to_string());
    }
    if let Some(Err(error)) = group.map(sys::process::group_id) {
        keys.problem("group", error.to_string());
    }
}

fn event(keys: &mut Keys<'_>, architecture: Architecture) -> EventSettings {
    let default = EventSettings::default();
    let mechanism = keys.take("events", default.mechanism, keys::one_of);
    let accept_limit = keys.take("accept_limit", default.accept_limit, accept_limit);
    let coalesce = keys.take("coalesce", default.coalesce, keys::one_of);

    let epoll = matches!(mechanism, Events::Epoll | Events::EpollLevel);
    let wake = keys.take("wake", if epoll { architecture.usual_wake() } else { Wake::All }, keys::one_of);
    if !epoll && wake != Wake::All {
        let why = format!("contradiction: {} wakes all who wait; allowed with it: all", mechanism.name());
        keys.problem("wake", why);
    }

    let mut table = keys.table("event");
    let work_phase_skips_new = table.take("work_phase_skips_new", default.work_phase_skips_new, keys::flag);
    let quantum = table.take("quantum", default.quantum, keys::size(4 * KIB..=GIB));
    let hold = Duration::from_millis(10)..=Duration::from_hours(1);
    let send_hold = table.take("send_hold", default.send_hold, keys::time(hold));
    table.end();
    EventSettings { mechanism, wake, accept_limit, work_phase_skips_new, quantum, coalesce, send_hold }
}

fn amped(mut keys: Keys<'_>) -> AmpedSettings {
    let default = AmpedSettings::default();
    let helpers = keys.take("helpers", default.helpers, helper_count);
    let disk_timeout = keys.take("disk_timeout", default.disk_timeout, keys::time(TIMEOUT));
    keys.end();
    AmpedSettings { helpers, disk_timeout }
}

fn connections(keys: &mut Keys<'_>, requests: NonZeroU32) -> ConnectionSettings {
    let default = ConnectionSettings::default();
    let backlog = keys.take("backlog", default.backlog, keys::count(1..=i32::MAX as u64));
    let max = keys.take_opt("max_connections", positive).and_then(|max| NonZeroUsize::try_from(max).ok());

    let mut tcp = keys.table("tcp");
    let nodelay = tcp.take("nodelay", default.nodelay, keys::flag);
    let send_buffer = tcp.take_opt("send_buffer", keys::size(4 * KIB..=GIB));
    let defer_accept =
        tcp.take_opt("defer_accept", keys::time(Duration::from_secs(1)..=Duration::from_mins(1)));
    tcp.end();
    ConnectionSettings { backlog, max, requests, send_buffer, defer_accept, nodelay }
}

/// The limits of one request, and the number of requests on a connection.
fn limits(mut keys: Keys<'_>) -> (Limits, NonZeroU32) {
    let requests = ConnectionSettings::default().requests;
    let requests = keys.take("requests_per_connection", requests, positive);
    let default = Limits::default();
    let limits = Limits {
        request_line: keys.take("request_line", default.request_line, keys::size(256..=MIB)),
        header_size: keys.take("header_size", default.header_size, keys::size(KIB..=MIB)),
        header_count: keys.take(
            "header_count",
            default.header_count,
            keys::count(1..=u64::from(http1::Limits::MAX_FIELDS)),
        ),
        body: keys.take("body", default.body, keys::size(0..=1024 * GIB)),
        ranges: keys.take("ranges", default.ranges, keys::count(1..=http1::range::MAX_RANGES as u64)),
    };
    if limits.request_line > limits.header_size {
        keys.problem(
            "request_line",
            "contradiction: must not be larger than limits.header_size, of which it is a part",
        );
    }
    keys.end();
    (limits, requests)
}

fn timeouts(mut keys: Keys<'_>) -> Timeouts {
    let default = Timeouts::default();
    let rate = || keys::size(0..=GIB);
    let timeouts = Timeouts {
        header: keys.take("header", default.header, keys::time(TIMEOUT)),
        body: keys.take("body", default.body, keys::time(TIMEOUT)),
        body_min_rate: keys.take("body_min_rate", default.body_min_rate, rate()),
        write: keys.take("write", default.write, keys::time(TIMEOUT)),
        write_min_rate: keys.take("write_min_rate", default.write_min_rate, rate()),
        idle: keys.take("idle", default.idle, keys::time(TIMEOUT)),
        linger: keys.take("linger", default.linger, keys::time(TIMEOUT)),
    };
    keys.end();
    timeouts
}

fn files(keys: &mut Keys<'_>, default: FileSettings) -> FileSettings {
    let listing = keys.take("listing", default.listing, keys::flag);
    let small_file = keys.take("small_file", default.small_file, keys::size(0..=16 * MIB));
    let types = keys.take_map("types", headers::media_type_of_extension).into_iter().collect();
    let root = default.root.clone();
    let error_pages = keys.take_map("error_pages", |status, item| error_page(&root, status, item));
    let headers = keys.tables("headers");
    let headers = headers.into_iter().map(|rule| headers::rule(keys.one_table("headers", rule))).collect();

    let mut table = keys.table("files");
    let files = FileSettings {
        root: default.root,
        index: table.take_list("index", default.index, file_name),
        listing,
        listing_names: table.take("listing_names", default.listing_names, keys::count(1..=1 << 16)),
        dotfiles: table.take("dotfiles", default.dotfiles, keys::flag),
        symlinks: table.take("symlinks", default.symlinks, keys::one_of),
        precompressed: table.take("precompressed", default.precompressed, keys::flag),
        small_file,
        validity: table.take(
            "validity",
            default.validity,
            keys::time(Duration::ZERO..=Duration::from_hours(1)),
        ),
        max_open: table.take("max_open", default.max_open, positive),
        memory: table.take("memory", default.memory, keys::size(0..=1024 * GIB)),
        types,
        charset: table.take("charset", default.charset, unless_off(charset)),
        error_pages: error_pages.into_iter().collect(),
        headers,
    };
    table.end();
    files
}

fn access_log(keys: &mut Keys<'_>, bases: &Bases) -> Option<AccessLogSettings> {
    let target = keys.take("access_log", Some(LogTarget::Terminal), unless_off(target(bases)));
    let is_terminal = target == Some(LogTarget::Terminal);
    let usual_format = if is_terminal { LogFormat::Short } else { LogFormat::Combined };
    let format = keys.take("log_format", usual_format, keys::one_of);
    let when_full = keys.take("log_when_full", WhenBehind::default(), keys::one_of);
    // Who stops a terminal means to read it, and not to stop the server.
    let when_full = if is_terminal { WhenBehind::Drop } else { when_full };
    target.map(|target| AccessLogSettings { target, format, when_full })
}

fn check_cpus(keys: &mut Keys<'_>, cpus: &[usize]) {
    if let Ok(allowed) = sys::process::allowed_cpus()
        && let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu))
    {
        let allowed = super::units::cpus(&allowed);
        keys.problem("cpus", format!("CPU {cpu} is not available; allowed here: {allowed}"));
    }
}

/// What must hold between the numbers of processes and of what is dealt out to them.
fn check_processes(keys: &mut Keys<'_>, settings: &Settings) {
    let Settings { architecture, workers, copies, copies_by, listen, placement, .. } = settings;
    if matches!(architecture, Architecture::Sped | Architecture::NCopy) && *workers != 1 {
        let name = architecture.name();
        keys.problem("workers", format!("contradiction: {name} is a single process; allowed with it: 1"));
    }
    if !architecture.is_event_driven() {
        check_pool(keys, settings);
    }
    if copies * workers > MOST_PROCESSES {
        keys.problem(
            "copies",
            format!("at most {MOST_PROCESSES} processes; {copies} copies of {workers} workers are more"),
        );
    }
    if let Err(why) = settings.addresses_of_copies() {
        keys.problem("copies", why);
    }
    let addresses = if *copies_by == CopiesBy::Address { listen.len() / copies } else { listen.len() };
    let workers = settings.layout().processes;
    if placement.partition && addresses % workers != 0 {
        let why = format!("{addresses} addresses can't be dealt out evenly to {workers} workers");
        keys.problem("workers", format!("contradiction: {why}, as placement.partition demands"));
    }
}

/// What workers with one client each can't do.
fn check_pool(keys: &mut Keys<'_>, settings: &Settings) {
    let name = settings.architecture.name();
    if keys.has("events") {
        let why = format!("contradiction: {name} has no event loop; leave this out, or choose symped");
        keys.problem("events", why);
    }
    if settings.event.wake == Wake::ReAdding {
        let why = format!("contradiction: a worker of {name} can't go to the end of the line");
        keys.problem("wake", format!("{why}; allowed with it: all, exclusive"));
    }
    if settings.send == Sends::NonBlocking {
        let why = format!("contradiction: {name} waits for each client; allowed with it: blocking");
        keys.problem("send", why);
    }
}

/// What must hold between keys, and in the world.
fn check(keys: &mut Keys<'_>, settings: &Settings) {
    if settings.group.is_some() && settings.user.is_none() {
        keys.problem("group", "contradiction: a group needs a user; set user as well");
    }
    check_accounts(keys, ("user", settings.user.as_deref()), settings.group.as_deref());
    if let Some(cpus) = &settings.cpus {
        check_cpus(keys, cpus);
    }
    check_addresses(keys, settings);
    if let (ErrorLog::File(errors), Some(AccessLogSettings { target: LogTarget::File(accesses), .. })) =
        (&settings.error_log, &settings.access_log)
        && errors == accesses
    {
        keys.problem("access_log", "contradiction: this is the error_log as well; choose two files");
    }
    if let ErrorLog::File(path) = &settings.error_log {
        check_parent(keys, "error_log", path);
    }
    if let Some(AccessLogSettings { target: LogTarget::File(path), .. }) = &settings.access_log {
        check_parent(keys, "access_log", path);
    }
}

fn check_addresses(keys: &mut Keys<'_>, settings: &Settings) {
    if settings.listen.is_empty() {
        keys.problem(
            "listen",
            "there must be an address, such as \"127.0.0.1:8080\" or \"unix:/run/sluice.sock\"",
        );
    }
    for (i, address) in settings.listen.iter().enumerate() {
        if let Some(other) = settings.listen[..i].iter().find(|other| address.overlaps(other)) {
            keys.problem("listen", format!("contradiction: {other} and {address} are the same place"));
        }
        if let ListenAddress::Unix(path) = address {
            check_parent(keys, "listen", path);
        }
    }
    if let Some(status) = &settings.status {
        if let Some(other) = settings.listen.iter().find(|other| status.overlaps(other)) {
            let what =
                format!("contradiction: clients connect to {other}; the status needs an address of its own");
            keys.problem("status", what);
        }
        if let ListenAddress::Unix(path) = status {
            check_parent(keys, "status", path);
        }
    }
}

fn check_root(keys: &mut Keys<'_>, root: &Path) {
    if !keys.has("root") && root == Path::new("/") {
        keys.problem("root", "not set, and the current directory is /; say which directory to serve");
        return;
    }
    match std::fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => keys.problem("root", format!("{} is not a directory", root.display())),
        Err(error) => keys.problem("root", format!("cannot serve {}: {error}", root.display())),
    }
}

/// A file or socket that will be made needs a directory to be made in.
fn check_parent(keys: &mut Keys<'_>, key: &'static str, path: &Path) {
    if path.is_dir() {
        keys.problem(key, format!("{} is a directory", path.display()));
    } else if let Some(parent) = path.parent()
        && !parent.is_dir()
    {
        keys.problem(key, format!("there is no directory {}", parent.display()));
    }
}

fn path(bases: &Bases) -> impl Fn(&Item) -> Result<PathBuf, String> {
    |item| bases.path(item, &keys::text(item)?)
}

/// `off`, or what `parse` takes.
fn unless_off<T>(parse: impl Fn(&Item) -> Result<T, String>) -> impl Fn(&Item) -> Result<Option<T>, String> {
    move |item| match &item.value {
        Value::Text(text) if text == "off" => Ok(None),
        _ => parse(item).map(Some).map_err(|what| format!("{what}; or \"off\"")),
    }
}

fn addresses(bases: &Bases) -> impl Fn(&Item) -> Result<Vec<ListenAddress>, String> {
    |item| ListenAddress::parse_all(&keys::text(item)?, |path| bases.path(item, path))
}

fn address(bases: &Bases) -> impl Fn(&Item) -> Result<ListenAddress, String> {
    |item| Ok(addresses(bases)(item)?.swap_remove(0))
}

fn target(bases: &Bases) -> impl Fn(&Item) -> Result<LogTarget, String> {
    |item| match keys::text(item)?.as_str() {
        "-" => Ok(LogTarget::Stdout),
        "terminal" => Ok(LogTarget::Terminal),
        path => bases.path(item, path).map(LogTarget::File),
    }
}

fn error_log(bases: &Bases) -> impl Fn(&Item) -> Result<ErrorLog, String> {
    |item| match keys::text(item)?.as_str() {
        "stderr" => Ok(ErrorLog::Stderr),
        path => bases.path(item, path).map(ErrorLog::File),
    }
}

fn accept_limit(item: &Item) -> Result<AcceptLimit, String> {
    const ALLOWED: &str = "allowed: \"inf\", \"auto\", or a whole number from 1 to 4294967295";
    match &item.value {
        Value::Text(text) if text == "inf" => Ok(AcceptLimit::Unlimited),
        Value::Text(text) if text == "auto" => Ok(AcceptLimit::Auto),
        _ => positive(item).map(AcceptLimit::Limit).map_err(|_| ALLOWED.to_owned()),
    }
}

fn positive(item: &Item) -> Result<NonZeroU32, String> {
    let number = keys::count(1..=u64::from(u32::MAX))(item)?;
    NonZeroU32::new(number).ok_or_else(|| "must not be 0".to_owned())
}

fn helper_count(item: &Item) -> Result<NonZeroU32, String> {
    keys::count::<u32>(1..=256)(item)?.try_into().map_err(|_| "must not be 0".to_owned())
}

fn drain_time(item: &Item) -> Result<Duration, String> {
    keys::time(Duration::ZERO..=Duration::from_hours(24))(item)
}

fn account(item: &Item) -> Result<String, String> {
    let name = keys::text(item)?;
    let usual = |c: char| c.is_ascii_alphanumeric() || "_-.$".contains(c);
    if name.is_empty() || !name.chars().all(usual) || name.starts_with('-') {
        return Err("allowed: a name of the system's user or group database".to_owned());
    }
    Ok(name)
}

fn file_name(item: &Item) -> Result<String, String> {
    let name = keys::text(item)?;
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err("allowed: file names, without a directory".to_owned());
    }
    Ok(name)
}

fn charset(item: &Item) -> Result<String, String> {
    let name = keys::text(item)?;
    if !headers::is_token(&name) {
        return Err("allowed: a name such as \"utf-8\"".to_owned());
    }
    Ok(name)
}

/// Permission bits, in the notation of chmod(1).
fn mode(item: &Item) -> Result<u32, String> {
    let digits = keys::text(item).unwrap_or_default();
    let is_octal =
        (3..=4).contains(&digits.len()) && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = if is_octal { u32::from_str_radix(&digits, 8).ok() } else { None };
    mode.filter(|mode| *mode <= 0o777).ok_or_else(|| {
        "allowed: permission bits in quotes, from \"000\" to \"0777\", such as \"0660\"".to_owned()
    })
}

fn error_page(root: &Path, status: &str, item: &Item) -> Result<(u16, String), String> {
    let status = super::units::parse_number(status).filter(|status| (400..=599).contains(status));
    let status = status.ok_or("the key must be a status; allowed: 400 to 599")?;
    let page = keys::text(item)?;
    let inside = page.strip_prefix('/').ok_or("allowed: a path from the root, beginning with /")?;
    if inside.split('/').any(|part| part.is_empty() || part == "." || part == "..") || page.contains('\0') {
        return Err("allowed: a path from the root without empty parts, \".\" and \"..\"".to_owned());
    }
    if !root.join(inside).is_file() {
        return Err(format!("there is no file {}", root.join(inside).display()));
    }
    Ok((status as u16, page))
}
