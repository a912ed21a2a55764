//! Who the client is where somebody connects in its place, and what it has asked for there.
//!
//! Each proxy adds whom it has seen to `X-Forwarded-For`, or to `Forwarded` (RFC 7239), behind what it was
//! told. So the last address is as good as who connects here, and each before it as good as the one behind.
//! The chain is walked from its end for as long as those on it are trusted; the first who is not is the
//! client. What stands before that one anybody could have written. In the same way a proxy tells the
//! [origin] that was asked: its scheme, host and port.
//!
//! Proxies of TCP begin each connection with a [header] instead, at the addresses where that is agreed upon.

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
use crate::config::{CopiesBy, ListenAddress, Settings, ToldOrigin, TrustedProxy};

/// For whom somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsksFor {
    /// For itself, as far as is known.
    Itself,
    /// For somebody of whom it is not known who that is.
    Unknown,
    /// For a client. The port is not known, and 0.
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

/// Those who are believed, what of them, and where connections begin with a header.
#[derive(Debug, Default)]
pub struct Proxies {
    networks: Networks,
    trusts_unix: bool,
    believed: Vec<ToldOrigin>,
    announcing: HashSet<ListenAddress>,
}

impl Proxies {
    /// As the settings have it.
    pub fn new(settings: &Settings) -> Self {
        let mut announcing: HashSet<_> = settings.proxy_protocol.iter().cloned().collect();
        if settings.copies_by == CopiesBy::Port && !announcing.is_empty() {
            // Those of copies come in the order of what they were made of.
            let copies = settings.addresses_of_copies().unwrap_or_default();
            let made = copies.iter().flat_map(|addresses| settings.listen.iter().zip(addresses));
            let announced = made.filter(|(first, _)| announcing.contains(first));
            let announced: Vec<_> = announced.map(|(_, address)| address.clone()).collect();
            announcing.extend(announced);
        }
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

    /// Whether connections that come to an address begin with a [header].
    pub fn announce_at(&self, address: &ListenAddress) -> bool {
        !self.announcing.is_empty() && self.announcing.contains(address)
    }

    /// For whom somebody asks. Where both fields are there and don't agree, neither is believed.
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

    /// What a request was sent to, by those who are believed: whoever connects, and who has announced the
    /// connection. The fields are the word of whoever stands nearer to the client, and go first, as far as
    /// they are believed. No client can write what a connection begins with.
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

    /// Whether the word of whoever connects is taken.
    pub fn speaks_for_others(&self, peer: &PeerAddress) -> bool {
        match peer {
            PeerAddress::Inet(address) => self.trusts(address.ip()),
            PeerAddress::Unix => self.trusts_unix,
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.contain(address)
    }

    /// The client of a chain, of whose places some may be no address: the last that is not trusted, or else
    /// the first behind what is no address.
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

    /// The client by these fields, whom 10.0.0.1 connects for.
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
        // No client can write what a connection begins with.
        let by_header = (Some(true), false, Some(443));
        assert_eq!(told("believe = []", "192.0.2.1", none, announced(Some(true))), by_header);
        // A proxy behind one of TCP, which has told what is believed, or has not.
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
