//! Finds out who the client is when a proxy connects for it, and what the client requested from the proxy.
//!
//! Each proxy appends the address of its client to `X-Forwarded-For`, or to `Forwarded` (RFC 7239). So the
//! last address is as trustworthy as the peer that connects here. Each earlier address is as trustworthy as
//! the one after it. The server walks the chain from its end while its addresses are trusted; the first
//! untrusted one is the client. Anything before that address may be forged. In the same way a proxy reports
//! the requested [origin]: scheme, host and port.
//!
//! TCP proxies begin each connection with a [header] instead, at the addresses configured for that.

mod forwarded;
pub mod header;
mod networks;
pub mod origin;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use http1::{Field, Fields};
use sys::socket::PeerAddress;

use self::forwarded::{elements, members, node, parameter};
use self::header::Announced;
use self::networks::Networks;
use self::origin::Origin;
use crate::config::{ListenAddress, Settings, ToldOrigin, TrustedProxy};

/// Which client a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsksFor {
    /// For the peer itself, as far as is known.
    Itself,
    /// For a client that is not known.
    Unknown,
    /// For a client. Its port is not known, so it is 0.
    Client(IpAddr),
}

impl AsksFor {
    /// The client, if it is known.
    pub fn client(self) -> Option<PeerAddress> {
        match self {
            Self::Client(address) => Some(PeerAddress::Inet(SocketAddr::new(address, 0))),
            Self::Itself | Self::Unknown => None,
        }
    }
}

/// The trusted proxies, which of their statements are believed, and where connections begin with a header.
#[derive(Debug, Default)]
pub struct Proxies {
    networks: Networks,
    trusts_unix: bool,
    believed: Vec<ToldOrigin>,
    announcing: HashSet<ListenAddress>,
}

impl Proxies {
    /// According to the settings.
    pub fn new(settings: &Settings) -> Self {
        let announcing = settings.with_copies_of(&settings.proxy_protocol);
        let networks = settings.trusted_proxies.iter().filter_map(|proxy| match proxy {
            TrustedProxy::Network(network) => Some(network.bounds()),
            TrustedProxy::Unix => None,
        });
        Self {
            networks: Networks::new(networks),
            trusts_unix: settings.trusted_proxies.contains(&TrustedProxy::Unix),
            believed: settings.believed.clone(),
            announcing,
        }
    }

    /// Whether connections to an address begin with a [header].
    pub fn announce_at(&self, address: &ListenAddress) -> bool {
        !self.announcing.is_empty() && self.announcing.contains(address)
    }

    /// The client that a request is for. If both fields exist and disagree, neither is believed.
    pub fn asks_for(&self, peer: &PeerAddress, fields: Fields<'_>) -> AsksFor {
        if !fields.any_of(&[Field::Forwarded, Field::XForwardedFor]) || !self.speaks_for_others(peer) {
            return AsksFor::Itself;
        }
        let forwarded = || self.first(elements(fields).map(|element| node(parameter(element, b"for")?)));
        let listed = || self.first(members(fields, Field::XForwardedFor).map(node));
        let client = match [Field::Forwarded, Field::XForwardedFor].map(|field| fields.any_of(&[field])) {
            [true, true] => forwarded().filter(|client| Some(*client) == listed()),
            [true, false] => forwarded(),
            _ => listed(),
        };
        client.map_or(AsksFor::Unknown, AsksFor::Client)
    }

    /// The origin that a request was sent to, according to trusted sources: the peer, and the proxy that
    /// has announced the connection with a header. The fields come from a proxy nearer to the client. So
    /// they take precedence, as far as they are believed. No client can write the beginning of a
    /// connection.
    pub fn origin(&self, peer: &PeerAddress, announced: Option<&Announced>, fields: Fields<'_>) -> Origin {
        let mut origin = Origin::default();
        if fields.any_of(&origin::FIELDS) && self.speaks_for_others(peer) {
            origin = self.believed_of(Origin::told(fields, &|address| self.trusts(address)));
        }
        match announced {
            Some(announced) if origin.is_unknown() => Origin::announced(announced),
            _ => origin,
        }
    }

    fn believed_of(&self, mut origin: Origin) -> Origin {
        if !self.believes(ToldOrigin::Scheme) {
            origin.is_https = None;
        }
        if !self.believes(ToldOrigin::Host) {
            origin.host = None;
        }
        if !self.believes(ToldOrigin::Port) {
            origin.port = None;
        }
        origin
    }

    fn believes(&self, part: ToldOrigin) -> bool {
        self.believed.contains(&part)
    }

    /// Whether the server trusts what the peer says about other clients.
    pub fn speaks_for_others(&self, peer: &PeerAddress) -> bool {
        match peer {
            PeerAddress::Inet(address) => self.trusts(address.ip()),
            PeerAddress::Unix => self.trusts_unix,
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.contain(address)
    }

    /// The client of a chain, in which some entries may not be addresses: the last untrusted address. If
    /// there is none, the first address after the last entry that is not an address.
    fn first(&self, chain: impl Iterator<Item = Option<IpAddr>>) -> Option<IpAddr> {
        chain.fold(None, |client, place| match place {
            Some(address) if client.is_some() && self.trusts(address) => client,
            place => place,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CommandLine;

    fn proxies(list: &str) -> Proxies {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sluice.toml");
        let text = format!("root = {:?}\n[proxies]\ntrusted = {list}\n", directory.path());
        std::fs::write(&file, text).unwrap();
        let source = crate::config::Source { file: Some(file), command_line: CommandLine::default() };
        Proxies::new(&source.load().unwrap())
    }

    fn peer(address: &str) -> PeerAddress {
        PeerAddress::Inet(SocketAddr::new(address.parse().unwrap(), 4711))
    }

    /// The client according to these fields, when 10.0.0.1 connects.
    fn client(fields: &str) -> Option<String> {
        let lines = format!("{}\r\n", fields.replace('\n', "\r\n"));
        let fields = Fields::new(lines.as_bytes());
        let asks_for = proxies("['10.0.0.0/8', '2001:db8::/32']").asks_for(&peer("10.0.0.1"), fields);
        let is_for_others = fields.any_of(&[Field::Forwarded, Field::XForwardedFor]);
        assert_eq!(
            asks_for == AsksFor::Itself,
            !is_for_others,
            "nobody who is unknown is taken for the proxy"
        );
        let client = asks_for.client()?;
        let PeerAddress::Inet(address) = client else { panic!("{client:?}") };
        assert_eq!(address.port(), 0);
        Some(address.ip().to_string())
    }

    #[test]
    fn chains_are_walked_to_the_first_who_is_not_trusted() {
        for (fields, expected) in [
            ("X-Forwarded-For: 192.0.2.1", Some("192.0.2.1")),
            ("X-Forwarded-For: 1.1.1.1, 192.0.2.1", Some("192.0.2.1")),
            ("X-Forwarded-For: 1.1.1.1, 192.0.2.1 ,10.9.9.9", Some("192.0.2.1")),
            ("X-Forwarded-For: 1.1.1.1\nx-forwarded-for: 192.0.2.1, 10.9.9.9", Some("192.0.2.1")),
            ("X-Forwarded-For: 10.1.1.1, 10.2.2.2", Some("10.1.1.1")),
            ("X-Forwarded-For: 1.1.1.1, unknown", None),
            ("X-Forwarded-For: 1.1.1.1, unknown, 10.2.2.2", Some("10.2.2.2")),
            ("X-Forwarded-For: 1.1.1.1,", None),
            ("X-Forwarded-For: \"1.1.1.1, 192.0.2.1", Some("192.0.2.1")),
            ("X-Forwarded-For: 192.0.2.1:80", Some("192.0.2.1")),
            ("X-Forwarded-For: [2001:db9::1]:80, 2001:db8::5", Some("2001:db9::1")),
            ("X-Forwarded-For: ::ffff:192.0.2.1", Some("192.0.2.1")),
            ("Forwarded: for=192.0.2.1", Some("192.0.2.1")),
            ("Forwarded: by=x;FOR=\"[2001:db9::1]:4711\";proto=https, for=10.1.1.1", Some("2001:db9::1")),
            ("Forwarded: for=\"_a,b;for=1.1.1.1\", for=192.0.2.1", Some("192.0.2.1")),
            ("Forwarded: for=192.0.2.1, proto=http", None),
            ("Forwarded: for=\"1.1.1.1, for=192.0.2.1", None),
            ("Forwarded: for=1.1.1.1;x=\", for=192.0.2.1", None),
            ("Forwarded: for=1.1.1.1;x=\"\\\", for=192.0.2.1", None),
            ("Forwarded: for=1.1.1.1;x=\"\nForwarded: for=192.0.2.1", None),
            ("Forwarded: for=1.1.1.1;x=\"\\\"\", for=192.0.2.1", Some("192.0.2.1")),
            ("Forwarded: for=192.0.2.1\nX-Forwarded-For: 192.0.2.1", Some("192.0.2.1")),
            ("Forwarded: for=192.0.2.1\nX-Forwarded-For: 192.0.2.2", None),
            ("Referer: 192.0.2.1", None),
        ] {
            assert_eq!(client(fields).as_deref(), expected, "{fields}");
        }
    }

    #[test]
    fn of_the_origin_is_believed_what_the_settings_say() {
        let told = |settings: &str, peer_address: &str, lines: &str, announced: Option<Announced>| {
            let lines = format!("{}\r\n", lines.replace('\n', "\r\n"));
            let proxies = proxies(&format!("'10.0.0.0/8'\n{settings}"));
            let origin =
                proxies.origin(&peer(peer_address), announced.as_ref(), Fields::new(lines.as_bytes()));
            (origin.is_https, origin.host.is_some(), origin.port)
        };
        let all = "X-Forwarded-Proto: https\nX-Forwarded-Host: a\nX-Forwarded-Port: 8443";
        let nothing = (None, false, None);
        assert_eq!(told("", "10.0.0.1", all, None), (Some(true), false, None));
        assert_eq!(told("", "11.0.0.1", all, None), nothing);
        assert_eq!(told("believe = []", "10.0.0.1", all, None), nothing);
        assert_eq!(told("believe = 'host'", "10.0.0.1", all, None), (None, true, None));
        assert_eq!(told("believe = 'port'", "10.0.0.1", all, None), (None, false, Some(8443)));
        let client = "192.0.2.1:1".parse().unwrap();
        let announced = |is_tls| Some(Announced { client, port: 443, is_tls });
        let none = "Referer: x";
        assert_eq!(told("", "192.0.2.1", none, announced(Some(true))), (Some(true), false, Some(443)));
        assert_eq!(told("", "192.0.2.1", all, announced(None)), (None, false, Some(443)));
        // No client can write the beginning of a connection.
        let by_header = (Some(true), false, Some(443));
        assert_eq!(told("believe = []", "192.0.2.1", none, announced(Some(true))), by_header);
        // An HTTP proxy behind a TCP proxy, with fields that are believed, and without them.
        assert_eq!(told("", "10.0.0.1", all, announced(Some(false))), (Some(true), false, None));
        for fields in ["X-Forwarded-Host: a", "X-Forwarded-Port: 1", "X-Forwarded-Proto: x", "Forwarded: x"] {
            assert_eq!(told("", "10.0.0.1", fields, announced(Some(true))), by_header, "{fields}");
        }
    }

    #[test]
    fn nobody_else_is_believed() {
        let fields = Fields::new(b"X-Forwarded-For: 192.0.2.1\r\n");
        let is_believed = |list, peer: &PeerAddress| proxies(list).asks_for(peer, fields) != AsksFor::Itself;
        assert!(!is_believed("[]", &peer("10.0.0.1")));
        assert!(!is_believed("['10.0.0.0/8']", &peer("11.0.0.1")));
        assert!(is_believed("'10.0.0.0/8'", &peer("::ffff:10.0.0.1")));
        assert!(
            !is_believed("['10.0.0.0/8']", &PeerAddress::Unix) && is_believed("'unix'", &PeerAddress::Unix)
        );
        assert!(!is_believed("'unix'", &peer("10.0.0.1")));
    }
}
