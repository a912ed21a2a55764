//! Requests that offer to switch to another protocol, such as WebSocket (RFC 9110 section 7.8).
//!
//! The application gets such an offer if the request has no body, as what follows it would belong to either.
//! It never gets an offer of HTTP in another version. It could take a request through that connection that no
//! route of this server has seen.

use http1::client::ResponseHead;
use http1::{Fields, Head, Version};

/// The protocols that a request offers, as far as the application gets them, in order. There are none
/// without `upgrade` in the Connection field.
pub(super) fn offered<'a>(head: &Head<'a>) -> impl Iterator<Item = &'a [u8]> + Clone {
    let fields = head.fields;
    let is_11 = head.terms.version == Version::Http11;
    let protocols = members(fields.pairs(), "upgrade");
    protocols.filter(move |protocol| is_11 && may_be_offered(protocol) && asks_for_upgrade(fields))
}

/// Whether a request has `upgrade` in its Connection field, and no body.
fn asks_for_upgrade(fields: Fields<'_>) -> bool {
    let has_body = fields.pairs().any(|(name, value)| {
        is(name, "transfer-encoding") || is(name, "content-length") && value.trim_ascii() != b"0"
    });
    !has_body && members(fields.pairs(), "connection").any(|option| is(option, "upgrade"))
}

/// The protocol that the server switches to, if it is one of those that the request has offered.
pub(super) fn chosen<'a>(reply: &ResponseHead<'a>, request: &Head<'_>) -> Option<&'a [u8]> {
    let mut named = reply.fields().filter(|(name, _)| is(name, "upgrade")).map(|(_, value)| value);
    let chosen = named.next().filter(|_| named.next().is_none())?;
    let is_offered = offered(request).any(|protocol| protocol.eq_ignore_ascii_case(chosen));
    is_offered.then_some(chosen)
}

fn may_be_offered(protocol: &[u8]) -> bool {
    let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
    let is_http = ["http", "h2", "h2c", "h3", "tls"].iter().any(|other| is(name, other));
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(byte);
    !name.is_empty() && protocol.iter().all(is_token) && !is_http
}

/// The members of a list that may be on several lines.
fn members<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    name: &'static str,
) -> impl Iterator<Item = &'a [u8]> + Clone {
    let lines = fields.filter(move |(field, _)| is(field, name));
    lines.flat_map(|(_, value)| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

fn is(name: &[u8], other: &str) -> bool {
    name.eq_ignore_ascii_case(other.as_bytes())
}

#[cfg(test)]
mod tests {
    use http1::Terms;

    use super::*;

    fn of(fields: &str) -> String {
        let terms = Terms { version: Version::Http11, persistent: true, body: true };
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let head = Head::again(request.as_bytes(), terms).unwrap();
        let all: Vec<_> = offered(&head).map(|protocol| str::from_utf8(protocol).unwrap()).collect();
        all.join(" ")
    }

    #[test]
    fn offers_are_passed_on_if_they_are_safe() {
        for (fields, expected) in [
            ("Connection: upgrade\r\nUpgrade: websocket\r\n", "websocket"),
            (
                "Connection: keep-alive, Upgrade\r\nUpgrade: a/1, WebSocket\r\nUpgrade: b\r\n",
                "a/1 WebSocket b",
            ),
            ("Upgrade: websocket\r\n", ""),
            ("Connection: close\r\nUpgrade: websocket\r\n", ""),
            ("Connection: upgrade\r\n", ""),
            ("Connection: upgrade\r\nUpgrade: h2c, HTTP/2.0, TLS/1.2, websocket\r\n", "websocket"),
            ("Connection: upgrade\r\nUpgrade: h2c\r\n", ""),
            ("Connection: upgrade\r\nUpgrade: /1, a b, \r\n", ""),
            ("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n", ""),
            ("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n", "websocket"),
            ("Connection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n", ""),
        ] {
            assert_eq!(of(fields), expected, "{fields}");
        }
    }
}
