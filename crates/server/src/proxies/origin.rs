//! The origin that a proxy received a request for: scheme, host and port.
//!
//! If several proxies state it, the nearest one counts. In a list, that is the last member. In
//! `Forwarded`, it is the last element that states the value, if trusted proxies added it and all
//! elements after it. So nothing is used that stands before the statement of an untrusted proxy. If both
//! fields state a value and disagree, neither is used.

use std::net::IpAddr;

use http1::{Field, Fields, host_and_port};

use super::forwarded::{elements, members, node, parameter};
use super::header::Announced;

/// The fields that state the origin.
pub(super) const FIELDS: [Field; 4] =
    [Field::Forwarded, Field::XForwardedProto, Field::XForwardedHost, Field::XForwardedPort];

/// The accepted parts of a request's origin. `None` means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Whether the scheme is `https`. Otherwise it is `http`.
    pub is_https: Option<bool>,
    /// The host, with its port if that was stated.
    pub host: Option<Box<[u8]>>,
    /// The port.
    pub port: Option<u16>,
}

impl Origin {
    /// The origin from the fields of a trusted proxy. `trusts` says whether another address is trusted.
    pub(super) fn told(fields: Fields<'_>, trusts: &dyn Fn(IpAddr) -> bool) -> Self {
        let last = |field| members(fields, field).last();
        let forwarded = |name: &[u8]| nearest(elements(fields), name, trusts);
        let scheme = agreed([forwarded(b"proto"), last(Field::XForwardedProto)], scheme);
        let host = agreed([forwarded(b"host"), last(Field::XForwardedHost)], host);
        let port = last(Field::XForwardedPort).and_then(port);
        Self { is_https: scheme, host: host.map(Into::into), port }
    }

    /// The origin from a connection's header.
    pub(super) fn announced(announced: &Announced) -> Self {
        let port = Some(announced.port).filter(|port| *port != 0);
        Self { is_https: announced.is_tls, host: None, port }
    }

    /// The name of the scheme, if it is known.
    pub fn scheme(&self) -> Option<&'static str> {
        self.is_https.map(|is_https| if is_https { "https" } else { "http" })
    }

    /// The port of a request to an authority. `None`: no source states it.
    pub fn port_of(&self, authority: &[u8]) -> Option<u16> {
        let written = || host_and_port(authority)?.1;
        let default = || self.is_https.map(|is_https| if is_https { 443 } else { 80 });
        let is_told = self.host.is_some() || self.is_https.is_some();
        self.port.or_else(|| written().filter(|_| is_told)).or_else(default)
    }

    /// Whether no part is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The value of the fields, if all that are present agree.
fn agreed<'a, T: PartialEq>(
    fields: [Option<&'a [u8]>; 2],
    read: impl Fn(&'a [u8]) -> Option<T>,
) -> Option<T> {
    let mut told = fields.into_iter().flatten();
    let first = read(told.next()?)?;
    told.all(|other| read(other).as_ref() == Some(&first)).then_some(first)
}

/// The value from the nearest proxy that states it.
fn nearest<'a>(
    elements: impl Iterator<Item = &'a [u8]>,
    name: &[u8],
    trusts: &dyn Fn(IpAddr) -> bool,
) -> Option<&'a [u8]> {
    // The `for` parameter of the next element names the proxy that added an element.
    elements.fold(None, |told, element| {
        let by_one_who_is_trusted = parameter(element, b"for").and_then(node).is_some_and(trusts);
        parameter(element, name).or_else(|| told.filter(|_| by_one_who_is_trusted))
    })
}

fn scheme(text: &[u8]) -> Option<bool> {
    [(&b"https"[..], true), (b"http", false)]
        .into_iter()
        .find_map(|(name, is_https)| text.eq_ignore_ascii_case(name).then_some(is_https))
}

fn host(text: &[u8]) -> Option<&[u8]> {
    host_and_port(text).map(|_| text)
}

fn port(text: &[u8]) -> Option<u16> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok()?.parse().ok().filter(|port| is_number && *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &str) -> (Option<bool>, Option<String>, Option<u16>) {
        let lines = format!("{}\r\n", lines.replace('\n', "\r\n"));
        let trusts = |address: IpAddr| address.to_string().starts_with("10.");
        let origin = Origin::told(Fields::new(lines.as_bytes()), &trusts);
        (origin.is_https, origin.host.map(|host| String::from_utf8(host.into()).unwrap()), origin.port)
    }

    #[test]
    fn the_nearest_word_counts() {
        let is_https = |lines: &str| told(lines).0;
        for (lines, expected) in [
            ("X-Forwarded-Proto: https", Some(true)),
            ("x-forwarded-proto: HTTPS", Some(true)),
            ("X-Forwarded-Proto: http", Some(false)),
            ("X-Forwarded-Proto: https, http", Some(false)),
            ("X-Forwarded-Proto: http\nX-Forwarded-Proto: https", Some(true)),
            ("X-Forwarded-Proto: https,", None),
            ("X-Forwarded-Proto: wss", None),
            ("Forwarded: for=1.1.1.1;proto=https", Some(true)),
            ("Forwarded: proto=\"https\";for=1.1.1.1", Some(true)),
            // The last proxy does not state it. The one before is trusted in the first case, and not in
            // the others.
            ("Forwarded: for=1.1.1.1;proto=https, for=10.0.0.2", Some(true)),
            ("Forwarded: for=1.1.1.1;proto=https, for=192.0.2.1", None),
            ("Forwarded: for=1.1.1.1;proto=https, for=unknown", None),
            ("Forwarded: for=1.1.1.1;proto=https, for=10.0.0.2;proto=http", Some(false)),
            ("Forwarded: for=\"_a;proto=https\"", None),
            ("Forwarded: proto=https;x=\", for=192.0.2.1;proto=http", None),
            ("Forwarded: proto=https\nX-Forwarded-Proto: https", Some(true)),
            ("Forwarded: proto=https\nX-Forwarded-Proto: http", None),
            ("Forwarded: for=1.1.1.1\nX-Forwarded-Proto: https", Some(true)),
            ("Referer: https", None),
        ] {
            assert_eq!(is_https(lines), expected, "{lines}");
        }
    }

    #[test]
    fn hosts_and_ports_are_what_they_should_be() {
        let host = |lines: &str| told(lines).1;
        assert_eq!(host("X-Forwarded-Host: evil, a.example:8443").as_deref(), Some("a.example:8443"));
        assert_eq!(host("Forwarded: host=\"[2001:db8::1]:8\"").as_deref(), Some("[2001:db8::1]:8"));
        for other in ["a b", "a/b", "", "u@h", "a:b", "a:99999", "::1", "a\"b"] {
            assert_eq!(host(&format!("X-Forwarded-Host: {other}")), None, "{other}");
        }
        for (port, expected) in [
            ("8443", Some(8443)),
            ("0", None),
            ("+8", None),
            ("65536", None),
            ("", None),
            ("80, 443", Some(443)),
        ] {
            assert_eq!(told(&format!("X-Forwarded-Port: {port}")).2, expected, "{port}");
        }
    }

    #[test]
    fn a_port_is_told_by_the_best_that_there_is() {
        let of = |is_https, host: Option<&str>, port, authority: &str| {
            let authority = host.unwrap_or(authority).as_bytes();
            Origin { is_https, host: host.map(|host| host.as_bytes().into()), port }.port_of(authority)
        };
        assert_eq!(of(None, None, None, "a:1"), None);
        assert_eq!(of(Some(true), None, None, "a"), Some(443));
        assert_eq!(of(Some(false), None, None, "a"), Some(80));
        assert_eq!(of(Some(true), None, None, "a:1"), Some(1));
        assert_eq!(of(Some(true), Some("b:2"), None, "a:1"), Some(2));
        assert_eq!(of(Some(true), Some("b"), None, "a:1"), Some(443));
        assert_eq!(of(Some(true), Some("b:2"), Some(3), "a:1"), Some(3));
        assert_eq!(of(None, None, Some(3), ""), Some(3));
    }
}
