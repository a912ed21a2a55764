//! One lookup of one name: in `/etc/hosts`, and then at a name server, as hosts(5) and resolv.conf(5) say.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rsdns::clients::ClientConfig;
use rsdns::clients::std::Client;
use rsdns::message::RCode;
use rsdns::records::data::{A, Aaaa, RData};
use rsdns::records::{Class, RecordSet};

/// What a lookup has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The addresses, in ascending order, without duplicates.
    pub(super) addresses: Vec<IpAddr>,
    /// How long they may be used.
    pub(super) lifetime: Duration,
}

/// Why a lookup has found nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotFound {
    /// The name has no address. That is known.
    #[error("there is no such name, or it has no address")]
    NoSuchName,
    /// It could not be found out.
    #[error("no name server has answered: {0}")]
    NoAnswer(String),
}

/// How long what `/etc/hosts` says may be used. It has no times.
const OF_HOSTS: Duration = Duration::from_secs(5);
/// How long one name server may take for one question, and after what time the question is sent once more.
const PATIENCE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_secs(1);
/// Most bytes of an answer.
const LONGEST: usize = 16 << 10;
/// The port of name servers in `/etc/resolv.conf` (RFC 1035 section 4.2).
const PORT: u16 = 53;

/// Looks a name up. It asks `servers`, or those of `/etc/resolv.conf` if there are none.
pub(super) fn look_up(host: &str, servers: &[SocketAddr]) -> Result<Found, NotFound> {
    // A system without the file has no such names.
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let addresses = in_hosts(&hosts, host);
    if !addresses.is_empty() {
        return Ok(Found { addresses, lifetime: OF_HOSTS });
    }
    let resolv = fs::read("/etc/resolv.conf").unwrap_or_default();
    // Lines with mistakes are skipped, as others do.
    let (resolv, _) = resolv_conf::Config::parse_with_errors(&resolv);
    let of_file: Vec<_>;
    let servers = if servers.is_empty() {
        let local = resolv.get_nameservers_or_local();
        of_file = local.into_iter().map(|ip| SocketAddr::new(ip.into(), PORT)).collect();
        &of_file
    } else {
        servers
    };
    let mut outcome = Err(NotFound::NoSuchName);
    for name in spellings(host, &resolv) {
        outcome = ask_each(&name, servers);
        if !matches!(outcome, Err(NotFound::NoSuchName)) {
            break;
        }
    }
    outcome
}

/// The addresses that a file as in hosts(5) has for a name.
fn in_hosts(hosts: &str, host: &str) -> Vec<IpAddr> {
    let host = host.trim_end_matches('.');
    let address = |line: &str| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
    };
    hosts.lines().filter_map(address).collect::<BTreeSet<IpAddr>>().into_iter().collect()
}

/// The names to ask for, in this order (resolv.conf(5), `search` and `ndots`).
fn spellings(host: &str, resolv: &resolv_conf::Config) -> Vec<String> {
    if host.ends_with('.') {
        return vec![host.to_owned()];
    }
    let is_long = host.bytes().filter(|byte| *byte == b'.').count() >= resolv.ndots as usize;
    let searched = resolv.get_last_search_or_domain().filter(|domain| *domain != ".");
    let mut names: Vec<_> = searched.map(|domain| format!("{host}.{}", domain.trim_matches('.'))).collect();
    names.insert(if is_long { 0 } else { names.len() }, host.to_owned());
    names
}

/// Asks name servers until one knows.
fn ask_each(name: &str, servers: &[SocketAddr]) -> Result<Found, NotFound> {
    let mut outcome = Err(NotFound::NoAnswer("there is none".to_owned()));
    for &server in servers {
        outcome = ask(name, server);
        if !matches!(outcome, Err(NotFound::NoAnswer(_))) {
            break;
        }
    }
    outcome
}

/// Asks one name server for the addresses of both kinds.
fn ask(name: &str, server: SocketAddr) -> Result<Found, NotFound> {
    let no_answer = |error: rsdns::Error| NotFound::NoAnswer(format!("{server}: {error}"));
    let config = ClientConfig::with_nameserver(server)
        .set_buffer_size(LONGEST)
        .set_query_lifetime(PATIENCE)
        .set_query_timeout(Some(AGAIN));
    let mut client = Client::new(config).map_err(no_answer)?;
    let v4 = client.query_rrset::<A>(name, Class::IN);
    let v4 = found(v4, |data| data.address.into()).map_err(no_answer)?;
    let v6 = client.query_rrset::<Aaaa>(name, Class::IN);
    let v6 = found(v6, |data| data.address.into());
    match (v4, v6) {
        // Some name servers have no answer to questions for IPv6.
        (Some(one), Ok(None) | Err(_)) | (None, Ok(Some(one))) => Ok(one),
        (Some(one), Ok(Some(other))) => Ok(Found {
            addresses: one.addresses.into_iter().chain(other.addresses).collect(),
            lifetime: one.lifetime.min(other.lifetime),
        }),
        (None, Ok(None)) => Err(NotFound::NoSuchName),
        (None, Err(error)) => Err(no_answer(error)),
    }
}

/// What the answer for one kind of addresses says. `None`: there are none.
fn found<D: RData>(
    answer: rsdns::Result<RecordSet<D>>,
    address: impl Fn(D) -> IpAddr,
) -> rsdns::Result<Option<Found>> {
    match answer {
        Ok(set) => {
            let addresses: BTreeSet<_> = set.rdata.into_iter().map(address).collect();
            let lifetime = Duration::from_secs(set.ttl.into());
            Ok(Some(Found { addresses: addresses.into_iter().collect(), lifetime }))
        }
        Err(rsdns::Error::NoAnswer | rsdns::Error::BadResponseCode(RCode::NXDOMAIN)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_hosts_is_read_as_the_system_reads_it() {
        let hosts = "127.0.0.1 localhost\n# 10.0.0.1 app\n10.0.0.2\tdb App # app2\n::5 app\nno address\n\n";
        let expected: [IpAddr; 2] = ["10.0.0.2".parse().expect("v4"), "::5".parse().expect("v6")];
        assert_eq!(in_hosts(hosts, "app"), expected);
        assert_eq!(in_hosts(hosts, "app."), expected);
        for none in ["app2", "other", ""] {
            assert!(in_hosts(hosts, none).is_empty(), "{none}");
        }
    }

    #[test]
    fn search_domains_are_tried_as_the_system_tries_them() {
        let resolv = |text: &str| resolv_conf::Config::parse_with_errors(text.as_bytes()).0;
        let searched = resolv("search a.example b.example.\noptions ndots:2");
        assert_eq!(spellings("app", &searched), ["app.a.example", "app.b.example", "app"]);
        assert_eq!(spellings("app.x", &searched), ["app.x.a.example", "app.x.b.example", "app.x"]);
        assert_eq!(spellings("app.x.y", &searched), ["app.x.y", "app.x.y.a.example", "app.x.y.b.example"]);
        assert_eq!(spellings("app.", &searched), ["app."]);
        assert_eq!(spellings("app", &resolv("nameserver 192.0.2.1")), ["app"]);
    }
}
