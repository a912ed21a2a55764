//! Who the client is where somebody connects in its place.
//!
//! Each proxy adds whom it has seen to `X-Forwarded-For`, or to `Forwarded` (RFC 7239), behind what it was
//! told. So the last address is as good as who connects here, and each before it as good as the one behind.
//! The chain is walked from its end for as long as those on it are trusted; the first who is not is the
//! client. What stands before that one anybody could have written.
//!
//! Proxies of TCP begin each connection with a [header] instead, at the addresses where that is agreed upon.

pub mod header;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http1::{Field, Fields};
use sys::socket::PeerAddress;

use crate::config::{CopiesBy, ListenAddress, Settings, TrustedProxy};

/// Those who are believed, and where connections begin with a header.
#[derive(Debug, Default)]
pub struct Proxies {
    trusted: Vec<TrustedProxy>,
    announcing: Vec<ListenAddress>,
}

impl Proxies {
    /// As the settings have it.
    pub fn new(settings: &Settings) -> Self {
        let mut announcing = settings.proxy_protocol.clone();
        if settings.copies_by == CopiesBy::Port {
            // Those of copies come in the order of what they were made of.
            let copies = settings.addresses_of_copies().unwrap_or_default();
            let made = copies.iter().flat_map(|addresses| settings.listen.iter().zip(addresses));
            let announced = made.filter(|(first, _)| settings.proxy_protocol.contains(first));
            announcing.extend(announced.map(|(_, address)| address.clone()));
        }
        Self { trusted: settings.trusted_proxies.clone(), announcing }
    }

    /// Whether connections that come to an address begin with a [header].
    pub fn announce_at(&self, address: &ListenAddress) -> bool {
        self.announcing.contains(address)
    }

    /// For whom somebody asks. `None`: for itself, as far as is known. The port is not known, and 0. Where
    /// both fields are there and don't agree, neither is believed.
    pub fn client(&self, peer: &PeerAddress, fields: Fields<'_>) -> Option<PeerAddress> {
        if !self.speaks_for_others(peer) || !fields.any_of(&[Field::Forwarded, Field::XForwardedFor]) {
            return None;
        }
        let elements = || fields.all(Field::Forwarded).flat_map(|value| unquoted(value, b','));
        let forwarded = || self.first(elements().map(for_of));
        // Quotes mean nothing here: one that a client begins with must not hide what proxies add.
        let addresses =
            || fields.all(Field::XForwardedFor).flat_map(|value| value.split(|byte| *byte == b','));
        let listed = || self.first(addresses().map(|address| node(address.trim_ascii())));
        let client = match [Field::Forwarded, Field::XForwardedFor].map(|field| fields.any_of(&[field])) {
            [true, true] => forwarded().filter(|client| Some(*client) == listed()),
            [true, false] => forwarded(),
            _ => listed(),
        };
        client.map(|client| PeerAddress::Inet(SocketAddr::new(client, 0)))
    }

    /// Whether the word of whoever connects is taken.
    pub fn speaks_for_others(&self, peer: &PeerAddress) -> bool {
        match peer {
            PeerAddress::Inet(address) => self.trusts(address.ip()),
            PeerAddress::Unix => self.trusted.contains(&TrustedProxy::Unix),
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        let is_in = |proxy: &TrustedProxy| matches!(proxy, TrustedProxy::Network(of) if of.contains(address));
        self.trusted.iter().any(is_in)
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

/// The parts between separators that are not in quoted strings (RFC 7239 section 4), without blanks around.
fn unquoted(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = value.split(move |&byte| {
        let is_escaped = std::mem::take(&mut escaped);
        match byte {
            _ if is_escaped => {}
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            byte => return byte == separator && !quoted,
        }
        false
    });
    parts.map(<[u8]>::trim_ascii)
}

/// Whom an element is for.
fn for_of(element: &[u8]) -> Option<IpAddr> {
    let mut pairs = unquoted(element, b';').filter_map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        Some((&pair[..at], &pair[at + 1..]))
    });
    let (_, value) = pairs.find(|(name, _)| name.eq_ignore_ascii_case(b"for"))?;
    let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    node(quoted.unwrap_or(value))
}

/// An address, with a port or not. Names that were made up, and `unknown`, are none.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok()?;
    let is_port = |port: &str| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let address = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, behind) = bracketed.split_once(']')?;
        let ends = behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port);
        address.parse::<Ipv6Addr>().ok().filter(|_| ends)?.into()
    } else if let Ok(address) = text.parse::<IpAddr>() {
        address
    } else {
        let (address, port) = text.split_once(':')?;
        address.parse::<Ipv4Addr>().ok().filter(|_| is_port(port))?.into()
    };
    Some(address.to_canonical())
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
        let client = proxies("['10.0.0.0/8', '2001:db8::/32']").client(&peer("10.0.0.1"), fields)?;
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
            ("Forwarded: for=192.0.2.1\nX-Forwarded-For: 192.0.2.1", Some("192.0.2.1")),
            ("Forwarded: for=192.0.2.1\nX-Forwarded-For: 192.0.2.2", None),
            ("Referer: 192.0.2.1", None),
        ] {
            assert_eq!(client(fields).as_deref(), expected, "{fields}");
        }
    }

    #[test]
    fn nobody_else_is_believed() {
        let fields = Fields::new(b"X-Forwarded-For: 192.0.2.1\r\n");
        let is_believed = |list, peer: &PeerAddress| proxies(list).client(peer, fields).is_some();
        assert!(!is_believed("[]", &peer("10.0.0.1")));
        assert!(!is_believed("['10.0.0.0/8']", &peer("11.0.0.1")));
        assert!(is_believed("'10.0.0.0/8'", &peer("::ffff:10.0.0.1")));
        assert!(
            !is_believed("['10.0.0.0/8']", &PeerAddress::Unix) && is_believed("'unix'", &PeerAddress::Unix)
        );
        assert!(!is_believed("'unix'", &peer("10.0.0.1")));
    }
}
