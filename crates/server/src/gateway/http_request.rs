//! The head of a request to an application that speaks HTTP (RFC 9110 section 7.6, RFC 9112 section 3).
//!
//! The client's fields are passed on, except those about the connection with this server, and those by which
//! a client could pose as a proxy. In their place the server writes what it believes of proxies.

use std::borrow::Cow;
use std::net::IpAddr;

use http1::Head;
use itoa::Buffer;
use sys::socket::PeerAddress;

use super::asker::Asker;
use super::params::is_passed_on;
use super::upgrade;
use crate::config::{PoolRule, Uploads};
use crate::ip_text::IpText;
use crate::proxies::AsksFor;

/// What requests to a pool have of its settings.
#[derive(Debug)]
pub struct HttpTerms {
    /// The value of Host. `None`: the client's.
    host: Option<Box<str>>,
    /// The beginning of paths that is left out, and what is put in its place. Neither ends in a slash.
    strip: Box<str>,
    prefix: Box<str>,
    /// Paths in replies are turned back.
    pub(super) rewrites: bool,
    /// Bodies are passed on as they come.
    pub(super) streams_uploads: bool,
}

impl HttpTerms {
    /// The terms of a pool with these settings.
    pub fn of(rule: &PoolRule) -> Self {
        let part = |path: &Option<String>| path.as_deref().unwrap_or_default().trim_end_matches('/').into();
        Self {
            host: rule.host.as_deref().map(Into::into),
            strip: part(&rule.strip_prefix),
            prefix: part(&rule.add_prefix),
            rewrites: rule.rewrite_replies,
            streams_uploads: rule.uploads == Uploads::Stream,
        }
    }

    /// The value that a field of a reply has for the client. `host`: what the request's Host was.
    pub(super) fn for_client<'a>(&self, name: &[u8], value: &'a [u8], host: &[u8]) -> Cow<'a, [u8]> {
        let at = match () {
            () if [&b"location"[..], b"content-location"].iter().any(|of| name.eq_ignore_ascii_case(of)) => {
                path_of_url(value, host)
            }
            () if name.eq_ignore_ascii_case(b"set-cookie") => path_of_cookie(value),
            () => None,
        };
        let Some((before, path)) = at.map(|at| value.split_at(at)) else { return value.into() };
        match path.strip_prefix(self.prefix.as_bytes()) {
            Some(rest) if rest.first().is_none_or(|byte| b"/?#;".contains(byte)) => {
                let is_root = self.strip.is_empty() && !rest.starts_with(b"/");
                [before, self.strip.as_bytes(), if is_root { b"/" } else { b"" }, rest].concat().into()
            }
            _ => value.into(),
        }
    }

    /// The Host of a request with this head.
    pub(super) fn host<'a>(&'a self, head: &Head<'a>, asker: &'a Asker) -> &'a [u8] {
        let own = self.host.as_ref().map(|host| host.as_bytes());
        own.or(authority(head, asker)).unwrap_or(b"localhost")
    }
}

/// What the request says of the connection after its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterReply {
    /// It stays open for another request.
    Stays,
    /// It ends.
    Ends,
    /// The server may switch to one of the protocols that the client [offers](upgrade::offered).
    Switches,
}

/// How many bytes the body of a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// So many. Most often none.
    Known(u64),
    /// It ends with its last chunk.
    Unknown,
}

/// Writes the head of a request with a body of this length.
pub fn write(
    out: &mut Vec<u8>,
    head: &Head<'_>,
    asker: &Asker,
    (body, afterwards): (BodyLength, AfterReply),
    terms: &HttpTerms,
) {
    put(out, &[head.method.name().as_bytes(), b" "]);
    write_target(out, head, terms);
    put(out, &[b" HTTP/1.1\r\nHost: ", terms.host(head, asker), b"\r\n"]);
    let fields: Vec<_> = head.fields.pairs().collect();
    let is = |name: &[u8], other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let lines = fields.iter().filter(|(field, _)| is(field, "connection"));
    let options = lines.flat_map(|(_, value)| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    // Nearly always there are none that name a field.
    let naming: Vec<_> = options.filter(|option| !is(option, "keep-alive") && !is(option, "close")).collect();
    let named = |name: &[u8]| naming.iter().any(|option| option.eq_ignore_ascii_case(name));
    for (name, value) in &fields {
        // The body has come, and the client was told to send it.
        if is_passed_on(name) && !is(name, "expect") && !named(name) {
            field(out, name, value);
        }
    }
    let announces = |(name, _): &(&[u8], &[u8])| is(name, "content-length") || is(name, "transfer-encoding");
    match body {
        BodyLength::Known(body) if body > 0 || fields.iter().any(announces) => {
            field(out, b"Content-Length", Buffer::new().format(body).as_bytes());
        }
        BodyLength::Known(_) => {}
        BodyLength::Unknown => field(out, b"Transfer-Encoding", b"chunked"),
    }
    match afterwards {
        AfterReply::Stays => {}
        AfterReply::Ends => field(out, b"Connection", b"close"),
        AfterReply::Switches => write_offer(out, head),
    }
    write_told(out, asker, authority(head, asker));
    out.extend_from_slice(b"\r\n");
}

/// Writes what the client offers to switch to, if it offers anything.
fn write_offer(out: &mut Vec<u8>, head: &Head<'_>) {
    let mut offered = upgrade::offered(head);
    let Some(first) = offered.next() else { return };
    put(out, &[b"Connection: upgrade\r\nUpgrade: ", first]);
    offered.for_each(|protocol| put(out, &[b", ", protocol]));
    out.extend_from_slice(b"\r\n");
}

/// The authority that the client has asked.
fn authority<'a>(head: &Head<'a>, asker: &'a Asker) -> Option<&'a [u8]> {
    asker.origin.host.as_deref().or(head.host()).filter(|host| !host.is_empty())
}

/// Where the path of a URL begins that has no authority, or this one.
fn path_of_url(url: &[u8], host: &[u8]) -> Option<usize> {
    if url.starts_with(b"/") && !url.starts_with(b"//") {
        return Some(0);
    }
    let behind = [&b"http://"[..], b"https://", b"//"].iter().find_map(|start| url.strip_prefix(*start))?;
    let is_own = behind.get(..host.len()).is_some_and(|of| of.eq_ignore_ascii_case(host));
    (is_own && behind[host.len()..].starts_with(b"/")).then_some(url.len() - behind.len() + host.len())
}

/// Where the value of a cookie's Path begins (RFC 6265 section 5.2.4). Of several, the last counts.
fn path_of_cookie(cookie: &[u8]) -> Option<usize> {
    let (mut at, mut found) = (0, None);
    for (number, attribute) in cookie.split(|byte| *byte == b';').enumerate() {
        let start = attribute.trim_ascii_start();
        if number > 0 && start.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"path=")) {
            found = Some(at + attribute.len() - start.len() + 5);
        }
        at += attribute.len() + 1;
    }
    found
}

/// Writes the target in origin form, whatever form the client has used. `OPTIONS *` stays so.
fn write_target(out: &mut Vec<u8>, head: &Head<'_>, terms: &HttpTerms) {
    if head.target == b"*" {
        return out.push(b'*');
    }
    // Only a path that was decoded to something below the prefix has the route, so the prefix is a whole
    // number of its parts.
    let path = head.path;
    let rest = match path.strip_prefix(terms.strip.as_bytes()) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => rest,
        _ => path,
    };
    put(out, &[terms.prefix.as_bytes(), rest]);
    if terms.prefix.is_empty() && rest.is_empty() {
        out.push(b'/');
    }
    if let Some(query) = head.query() {
        put(out, &[b"?", query]);
    }
}

/// Writes what the server knows of the client, in the fields that applications read most often, and in the
/// standard's own (RFC 7239).
fn write_told(out: &mut Vec<u8>, asker: &Asker, authority: Option<&[u8]>) {
    let client = match (asker.asks_for, &asker.client) {
        (AsksFor::Client(client), _) => Some(client.to_canonical()),
        (AsksFor::Itself, PeerAddress::Inet(address)) => Some(address.ip().to_canonical()),
        _ => None,
    };
    let text = client.map(IpText::of);
    let text = text.as_ref().map_or(&b"unknown"[..], IpText::as_bytes);
    let is_https = asker.origin.is_https.unwrap_or(asker.secured.is_some());
    let scheme: &[u8] = if is_https { b"https" } else { b"http" };
    field(out, b"X-Forwarded-For", text);
    field(out, b"X-Forwarded-Proto", scheme);
    if let Some(authority) = authority {
        field(out, b"X-Forwarded-Host", authority);
    }
    let quoted: [&[u8]; 2] = match client {
        Some(IpAddr::V6(_)) => [b"\"[", b"]\""],
        _ => [b"", b""],
    };
    put(out, &[b"Forwarded: for=", quoted[0], text, quoted[1], b";proto=", scheme]);
    if let Some(authority) = authority {
        put(out, &[b";host=\"", authority, b"\""]);
    }
    out.extend_from_slice(b"\r\n");
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    put(out, &[name, b": ", value, b"\r\n"]);
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use http1::{Terms, Version};

    use super::*;
    use crate::proxies::origin::Origin;

    const NONE: BodyLength = BodyLength::Known(0);
    const TERMS: Terms = Terms { version: Version::Http11, persistent: true, body: true };

    fn terms(strip: &str, add: &str) -> HttpTerms {
        let path = |path: &str| Some(path.to_owned()).filter(|path| !path.is_empty());
        HttpTerms::of(&PoolRule {
            strip_prefix: path(strip),
            add_prefix: path(add),
            rewrite_replies: true,
            ..PoolRule::default()
        })
    }

    fn asker(client: &str) -> Asker {
        let client = client.parse().map_or(PeerAddress::Unix, PeerAddress::Inet);
        Asker { client, asks_for: AsksFor::Itself, origin: Origin::default(), secured: None, local: None }
    }

    fn written(request: &str, client: &str, body: BodyLength, afterwards: AfterReply) -> String {
        let head = Head::again(request.as_bytes(), TERMS).unwrap();
        let mut out = Vec::new();
        write(&mut out, &head, &asker(client), (body, afterwards), &terms("/a", "/b/"));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_is_written() {
        assert_eq!(
            written(
                "GET /a/x?y HTTP/1.1\r\nHost: h:1\r\nA: b\r\n\r\n",
                "[::ffff:192.0.2.7]:1",
                NONE,
                AfterReply::Stays
            ),
            "GET /b/x?y HTTP/1.1\r\nHost: h:1\r\nA: b\r\nX-Forwarded-For: 192.0.2.7\r\n\
             X-Forwarded-Proto: http\r\nX-Forwarded-Host: h:1\r\n\
             Forwarded: for=192.0.2.7;proto=http;host=\"h:1\"\r\n\r\n"
        );
        assert_eq!(
            written(
                "OPTIONS * HTTP/1.1\r\nHost: \r\nContent-Length: 0\r\n\r\n",
                "[2001:db8::1]:1",
                NONE,
                AfterReply::Ends
            ),
            "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\
             X-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: http\r\n\
             Forwarded: for=\"[2001:db8::1]\";proto=http\r\n\r\n"
        );
        let none = written("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "unix", NONE, AfterReply::Switches);
        assert!(!none.contains("pgrade") && none.find("\r\n\r\n") == Some(none.len() - 4), "{none}");
        let unknown = written("GET /a HTTP/1.1\r\nHost: h\r\n\r\n", "unix", NONE, AfterReply::Stays);
        assert!(unknown.contains("for=unknown;"));
        let offer =
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: a, upgrade\r\nUpgrade: b/1, h2c\r\nUpgrade: c\r\n\r\n";
        let offer = written(offer, "unix", NONE, AfterReply::Switches);
        assert!(offer.contains("Host: h\r\nConnection: upgrade\r\nUpgrade: b/1, c\r\nX-"), "{offer}");
    }

    #[test]
    fn a_body_has_a_length_or_chunks() {
        for (length, field) in
            [(BodyLength::Known(7), "Content-Length: 7"), (BodyLength::Unknown, "Transfer-Encoding: chunked")]
        {
            for typed in ["Content-Length: 9", "Transfer-Encoding: chunked", "A: b"] {
                let request = format!("POST / HTTP/1.1\r\nHost: h\r\n{typed}\r\n\r\n");
                let written = written(&request, "unix", length, AfterReply::Stays);
                let about = ["Content-Length", "Transfer-Encoding"];
                let lines = written.lines().filter(|line| about.iter().any(|name| line.starts_with(name)));
                assert_eq!(lines.collect::<Vec<_>>(), [field], "{typed}");
            }
        }
    }

    #[test]
    fn paths_are_turned_back() {
        for (strip, add, name, value, expected) in [
            ("/a", "/b", "Location", "/b/x", "/a/x"),
            ("/a", "/b", "location", "http://H/b?x", "http://H/a?x"),
            ("/a", "/b", "Location", "https://h/b", "https://h/a"),
            ("/a", "/b", "Location", "//h/b/", "//h/a/"),
            ("/a", "/b", "Location", "//b/b/", "//b/b/"),
            ("/a", "/b", "Location", "http://h.example/b", "http://h.example/b"),
            ("/a", "/b", "Location", "b/x", "b/x"),
            ("/a", "", "Location", "/x", "/a/x"),
            ("", "/b", "Location", "/b", "/"),
            ("", "/b", "Location", "/b?x", "/?x"),
            ("/a", "/b", "Set-Cookie", "Path=/b/; Path=/c; PATH=/b", "Path=/b/; Path=/c; PATH=/a"),
            ("/a", "/b", "Set-Cookie", "path=/b", "path=/b"),
            ("/a", "/b", "Link", "/b", "/b"),
        ] {
            let told = terms(strip, add);
            let told = told.for_client(name.as_bytes(), value.as_bytes(), b"h");
            assert_eq!(str::from_utf8(&told).unwrap(), expected, "{name}: {value}");
        }
    }
}
