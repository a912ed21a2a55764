//! Parses the fields to which each proxy adds an entry.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http1::{Field, Fields};

/// The elements that the proxies have added to `Forwarded` (RFC 7239), in order. If a client opens a
/// quote and does not close it, a proxy's element becomes part of the client's text. In that case nothing
/// is returned.
pub(super) fn elements(fields: Fields<'_>) -> impl Iterator<Item = &[u8]> {
    let is_sound = fields.all(Field::Forwarded).all(Quotes::end_in);
    let lines = fields.all(Field::Forwarded).filter(move |_| is_sound);
    lines.flat_map(|value| unquoted(value, b','))
}

/// The members of a list. Quotes have no meaning here: a quote that a client opens must not hide what
/// proxies add.
pub(super) fn members(fields: Fields<'_>, field: Field) -> impl Iterator<Item = &[u8]> {
    let members = fields.all(field).flat_map(|value| value.split(|byte| *byte == b','));
    members.map(<[u8]>::trim_ascii)
}

/// The value of a parameter of an element, without its quotes.
pub(super) fn parameter<'a>(element: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut pairs = unquoted(element, b';').filter_map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        Some((&pair[..at], &pair[at + 1..]))
    });
    let (_, value) = pairs.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
    let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    Some(quoted.unwrap_or(value))
}

/// The parts between separators outside quoted strings (RFC 7239 section 4), trimmed.
fn unquoted(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut quotes = Quotes::default();
    let parts = value.split(move |&byte| quotes.are_passed(byte) && byte == separator);
    parts.map(<[u8]>::trim_ascii)
}

/// Tracks where quoted strings begin and end.
#[derive(Default)]
struct Quotes {
    is_open: bool,
    is_escaped: bool,
}

impl Quotes {
    /// Takes the next byte, and returns whether it is outside quoted strings.
    fn are_passed(&mut self, byte: u8) -> bool {
        let was_escaped = std::mem::take(&mut self.is_escaped);
        let was_open = self.is_open;
        match byte {
            _ if was_escaped => {}
            b'\\' if was_open => self.is_escaped = true,
            b'"' => self.is_open = !was_open,
            _ => {}
        }
        !was_open && !self.is_open
    }

    /// Whether each quoted string in a value is closed.
    fn end_in(value: &[u8]) -> bool {
        let mut quotes = Self::default();
        for byte in value {
            quotes.are_passed(*byte);
        }
        !quotes.is_open
    }
}

/// An address, with or without a port. Obfuscated names and `unknown` are not addresses.
pub(super) fn node(text: &[u8]) -> Option<IpAddr> {
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
