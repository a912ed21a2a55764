//! Pools: the applications that answer some of the routes.

use std::ops::RangeInclusive;
use std::path::{Component, PathBuf};
use std::time::Duration;

use super::address::ListenAddress;
use super::checks::wrong_with_root;
use super::error::Problem;
use super::key::{Field, Key, each, is_empty_list, missing, one, optional, pairs, read_each};
use super::names::Named;
use super::server_address::{ServerAddress, ServerName};
use super::settings::{Application, PoolRule, Protocol, Transport};
use super::typed::{Item, Table};
use super::values::{
    Kind, addresses, count, flag, one_of, pair, path_from_root, quoted, size, text, time, unless_off, up_to,
};

/// Bounds of the timeouts for a pool's servers.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(24);

/// Bounds of shared memory. The area must have several chunks, and their number must fit in two bytes.
const AREA: RangeInclusive<u64> = 256 << 10..=1 << 30;

/// The keys of a pool.
pub(super) const KEYS: &[Key<PoolRule>] = &[
    Key::of("pools", "name", |rule| one(&mut rule.name, name())),
    Key::of("pools", "servers", |rule| {
        let written = each(&mut rule.servers, server()).written;
        let read = |item: &_| read_each(item, servers).map(|several| rule.servers = several.concat());
        Field { written, read: Box::new(read) }
    }),
    Key::of("pools", "protocol", |rule| one(&mut rule.protocol, one_of())),
    Key::of("pools", "host", |rule| optional(&mut rule.host, authority())),
    Key::of("pools", "strip_prefix", |rule| optional(&mut rule.strip_prefix, prefix())),
    Key::of("pools", "add_prefix", |rule| optional(&mut rule.add_prefix, prefix())),
    Key::of("pools", "rewrite_replies", |rule| one(&mut rule.rewrite_replies, flag())),
    Key::of("pools", "children", |rule| optional(&mut rule.children, up_to(PoolRule::MOST_AT_ONCE))),
    Key::of("pools", "queue", |rule| one(&mut rule.queue, count(0..=PoolRule::MOST_AT_ONCE.into()))),
    Key::of("pools", "queue_timeout", |rule| one(&mut rule.queue_timeout, time(TIMEOUT))),
    Key::of("pools", "queue_delay", |rule| one(&mut rule.queue_delay, unless_off(time(TIMEOUT)))),
    Key::of("pools", "fair", |rule| one(&mut rule.fair, flag())),
    Key::of("pools", "connect_timeout", |rule| one(&mut rule.connect_timeout, time(TIMEOUT))),
    Key::of("pools", "timeout", |rule| one(&mut rule.timeout, time(TIMEOUT))),
    Key::of("pools", "total_timeout", |rule| optional(&mut rule.total_timeout, time(TIMEOUT))),
    Key::of("pools", "uploads", |rule| one(&mut rule.uploads, one_of())),
    Key::of("pools", "upgrades", |rule| one(&mut rule.upgrades, count(0..=PoolRule::MOST_UPGRADES.into()))),
    Key::of("pools", "upgrade_timeout", |rule| one(&mut rule.upgrade_timeout, time(TIMEOUT))),
    Key::of("pools", "transport", |rule| one(&mut rule.transport, one_of())),
    Key::of("pools", "area", |rule| one(&mut rule.area, size(AREA))),
    Key::of("pools", "area_send", |rule| one(&mut rule.area_send, one_of())),
    Key::of("pools", "keep", |rule| optional(&mut rule.keep, count(0..=PoolRule::MOST_AT_ONCE.into()))),
    Key::of("pools", "keep_timeout", |rule| one(&mut rule.keep_timeout, time(TIMEOUT))),
    Key::of("pools", "params", |rule| {
        let written = rule.params.iter().map(|(name, value)| pair(name, value));
        let written = format!("{{ {} }}", written.collect::<Vec<_>>().join(", "));
        let written = Some(written).filter(|_| !rule.params.is_empty());
        Field { written, ..pairs(&mut rule.params, param) }
    }),
    Key::of("pools", "trace", |rule| one(&mut rule.trace, flag())),
    Key::of("pools", "send_files", |rule| {
        let pair = |(prefix, path): &(String, PathBuf)| {
            format!("{} = {}", quoted(prefix), quoted(&path.display().to_string()))
        };
        let written = rule.send_files.iter().map(pair).collect::<Vec<_>>().join(", ");
        let written = Some(format!("{{ {written} }}")).filter(|_| !rule.send_files.is_empty());
        Field { written, ..pairs(&mut rule.send_files, send_from) }
    }),
];

/// Keys that a pool lacks, and settings that contradict each other.
pub(super) fn contradictions(rule: &PoolRule, item: &Item, table: &Table) -> Vec<Problem> {
    let needed = [("name", "name = \"php\""), ("servers", "servers = \"unix:/run/php/php-fpm.sock\"")];
    let is_remote = rule.servers.iter().any(ServerAddress::is_tcp);
    let passes_to_remote = (rule.transport != Transport::Stream && is_remote).then(|| {
        let transport = rule.transport.name();
        item.problem_of("servers", format!("allowed with transport {transport}: Unix sockets (unix:PATH)"))
    });
    let has_none =
        is_empty_list(table, "servers").then(|| item.problem_of("servers", "allowed: one or more addresses"));
    let (other, theirs) = of_other_protocol(rule);
    let of_other = theirs.into_iter();
    let of_other = of_other.map(|key| item.problem_of(key, format!("allowed: with protocol = {other:?}")));
    missing("pool", &needed, item, table).chain(has_none).chain(passes_to_remote).chain(of_other).collect()
}

/// The keys that are set and that only the other protocol has, and that protocol.
fn of_other_protocol(rule: &PoolRule) -> (&'static str, Vec<&'static str>) {
    let usual = PoolRule::default();
    let of_fastcgi = [
        ("transport", rule.transport != usual.transport),
        ("area", rule.area != usual.area),
        ("area_send", rule.area_send != usual.area_send),
        ("params", rule.params != usual.params),
        ("trace", rule.trace != usual.trace),
    ];
    let of_http = [
        ("host", rule.host.is_some()),
        ("strip_prefix", rule.strip_prefix.is_some()),
        ("add_prefix", rule.add_prefix.is_some()),
        ("rewrite_replies", rule.rewrite_replies),
        ("uploads", rule.uploads != usual.uploads),
        ("upgrades", rule.upgrades != usual.upgrades),
        ("upgrade_timeout", rule.upgrade_timeout != usual.upgrade_timeout),
    ];
    let (other, keys) = match rule.protocol {
        Protocol::FastCgi => (Protocol::Http, &of_http[..]),
        Protocol::Http => (Protocol::FastCgi, &of_fastcgi[..]),
    };
    (other.name(), keys.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| *key).collect())
}

/// A host, with its port if it is not the usual one.
fn authority() -> Kind<String> {
    Kind::new(
        |host: &String| quoted(host),
        |item| {
            let host = text(item)?;
            let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
            if host.is_empty() || !host.bytes().all(is_one) {
                return Err(
                    "allowed: a host, with a port if need be, such as \"app.example:8080\"".to_owned()
                );
            }
            Ok(host)
        },
    )
}

/// The beginning of a path, as it is sent.
fn prefix() -> Kind<String> {
    Kind::new(
        |path: &String| quoted(path),
        |item| {
            let path = path_from_root(item)?;
            let is_sent = |byte: u8| byte.is_ascii_graphic() && !b"?#%\"<>\\^`{|}".contains(&byte);
            if !path.bytes().all(is_sent) {
                return Err(
                    "allowed: a path such as \"/app\", without characters that URLs encode".to_owned()
                );
            }
            Ok(path)
        },
    )
}

/// The name of a pool.
pub(super) fn name() -> Kind<String> {
    Kind::new(
        |name: &String| quoted(name),
        |item| {
            let name = text(item)?;
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_part) {
                return Err("allowed: letters, digits, hyphens, underscores and dots".to_owned());
            }
            Ok(name)
        },
    )
}

/// The ending of the scripts' names.
pub(super) fn ending() -> Kind<String> {
    Kind::new(
        |ending: &String| quoted(ending),
        |item| {
            let ending = text(item)?;
            let is_ending = ending.strip_prefix('.').is_some_and(|rest| !rest.is_empty());
            if !is_ending || ending.contains(['/', '\0']) {
                return Err("allowed: a dot and what follows it, such as \".php\"".to_owned());
            }
            Ok(ending)
        },
    )
}

/// An application at one address, whose pool has this name.
pub(super) fn application(pool: &'static str) -> Kind<Application> {
    Kind::new(
        |application: &Application| (server().write)(&application.server),
        move |item| Ok(Application { pool: pool.to_owned(), server: servers(item)?.swap_remove(0) }),
    )
}

/// Where one server listens. If the text stands for several addresses, it is the first.
fn server() -> Kind<ServerAddress> {
    let write = |server: &ServerAddress| quoted(&server.to_string());
    Kind::new(write, |item| Ok(servers(item)?.swap_remove(0)))
}

fn servers(item: &Item) -> Result<Vec<ServerAddress>, String> {
    let typed = text(item).unwrap_or_default();
    if typed.starts_with("https://") {
        return Err("there is no TLS to applications; allowed: an address and port such as 127.0.0.1:3000, \
                    where the application or a proxy for it speaks without TLS, or unix:PATH"
            .to_owned());
    }
    if let Some(rest) = typed.strip_prefix("http://") {
        let address = rest.trim_end_matches('/');
        return Err(format!("allowed: an address without a scheme, here \"{address}\"; or unix:PATH"));
    }
    if let Some(name) = ServerName::parse(&typed) {
        return Ok(vec![ServerAddress::Named(name)]);
    }
    let servers =
        addresses(item).map_err(|what| format!("{what}; or \"NAME:PORT\", such as \"app.internal:3000\""))?;
    let can_be_connected_to = |server: &ListenAddress| match server {
        ListenAddress::Tcp(address) => address.port() != 0 && !address.ip().is_unspecified(),
        ListenAddress::Unix(_) => true,
    };
    if servers.iter().all(can_be_connected_to) {
        return Ok(servers.into_iter().map(ServerAddress::At).collect());
    }
    Err("allowed: an address or a name, and a port, that can be connected to; or unix:PATH".to_owned())
}

fn send_from(prefix: &str, item: &Item) -> Result<(String, PathBuf), String> {
    let directory = item.absolute(&text(item)?)?;
    let has_odd_parts = prefix.contains("//") || prefix.split('/').any(|part| matches!(part, "." | ".."));
    if !prefix.starts_with('/') || !prefix.ends_with('/') || has_odd_parts {
        return Err("allowed: a path that begins and ends with a slash, such as \"/protected/\"".to_owned());
    }
    match wrong_with_root(&directory) {
        Some(wrong) => Err(wrong),
        // Applications send names that contain no `..`, so the directory must contain none either.
        None if directory.components().any(|part| part == Component::ParentDir) => {
            let real = directory.canonicalize().map_err(|error| error.to_string())?;
            Ok((prefix.to_owned(), real))
        }
        None => Ok((prefix.to_owned(), directory)),
    }
}

fn param(name: &str, item: &Item) -> Result<(String, String), String> {
    let value = text(item)?;
    if name.is_empty() || name.contains(['\0', '=']) || value.contains('\0') {
        return Err("allowed: a name without \"=\", and text".to_owned());
    }
    Ok((name.to_owned(), value))
}
