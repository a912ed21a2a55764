//! The head of a request: parsed, checked, and borrowed from the input.
//!
//! [`parse`] reads a head in one pass and notes the few fields that the server acts on. The tests compare
//! it with `httparse`, which costs more. The parser refuses everything that could make two parties
//! disagree on where a message ends (request smuggling, RFC 9112 section 11.2).

#![expect(clippy::inline_always, reason = "counted: calls here move the head of every request about")]

use core::net::Ipv6Addr;

use crate::fields::{Field, Fields, is_name};
use crate::{ErrorKind, Method, syntax};

/// A request's head. It borrows from the input; use it before the next call.
#[derive(Debug)]
pub struct Head<'a> {
    /// The request's method.
    pub method: Method<'a>,
    /// The request target as it was sent.
    pub target: &'a [u8],
    /// The path, still percent-encoded. It begins with `/`, or is exactly `*` (for OPTIONS, and for
    /// CONNECT, which has no path).
    pub path: &'a [u8],
    /// Whether the path contains a percent sign.
    pub is_encoded: bool,
    /// The fields that a content service uses.
    pub fields: Fields<'a>,
    /// What the reply must respect.
    pub terms: Terms,
}

impl<'a> Head<'a> {
    /// Reads a head again that was stored when it was announced. Takes the bytes that were consumed with
    /// it, and its terms of that time. `None`: these bytes contain no head.
    pub fn again(consumed: &'a [u8], terms: Terms) -> Option<Self> {
        let mut bytes = consumed;
        // Empty lines before a request are consumed with it (RFC 9112 section 2.2).
        while let Some(rest) = bytes.strip_prefix(b"\r\n") {
            bytes = rest;
        }
        parse_again(bytes).ok().map(|parsed| Self { terms, ..parsed.head })
    }

    /// The query: what follows the first `?` of the target.
    pub fn query(&self) -> Option<&'a [u8]> {
        let mark = memchr::memchr(b'?', self.target)?;
        Some(&self.target[mark + 1..])
    }

    /// The requested authority: from the target, if it has one, else from Host, which may be empty.
    pub fn host(&self) -> Option<&'a [u8]> {
        match self.method {
            Method::Connect => Some(self.target),
            _ => match strip_scheme(self.target) {
                Some(after_scheme) => Some(split_authority(after_scheme).0),
                None => self.fields.host(),
            },
        }
    }

    /// The [host](Self::host) without its port.
    pub fn host_name(&self) -> Option<&'a [u8]> {
        self.host().map(host_name)
    }
}

/// The host of an authority, without its port (RFC 3986 section 3.2). An IPv6 address keeps its brackets.
pub fn host_name(authority: &[u8]) -> &[u8] {
    let address_ends = memchr::memchr(b']', authority).unwrap_or(0);
    let colon = memchr::memchr(b':', &authority[address_ends..]);
    colon.map_or(authority, |colon| &authority[..address_ends + colon])
}

/// An authority's host, and its port if it has one. `None`: it is no authority, or the port is out of
/// range.
pub fn host_and_port(authority: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let port = match authority_port(authority)? {
        b"" => None,
        digits => Some(str::from_utf8(digits).ok()?.parse().ok()?),
    };
    Some((host_name(authority), port))
}

/// HTTP versions that this server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: closes by default.
    Http10,
    /// HTTP/1.1: persists by default. A later minor version counts as 1.1 for a recipient that does not
    /// know it (RFC 9110 section 2.5).
    Http11,
}

impl Version {
    /// The version as in a request line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

/// What a reply must respect, whatever its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The client's version.
    pub version: Version,
    /// Whether the connection stays open after the reply.
    pub persistent: bool,
    /// Whether the reply may have content (not for HEAD).
    pub body: bool,
}

impl Terms {
    /// These terms, but the connection closes after the reply.
    pub fn closing(self) -> Self {
        Self { persistent: false, ..self }
    }

    /// These terms for a reply whose length is unknown when its head is sent. In HTTP/1.0, only the end
    /// of the connection marks the end of a body (RFC 9112 section 6.3).
    pub fn of_unknown_length(self) -> Self {
        let tells = self.version != Version::Http10 || !self.body;
        Self { persistent: self.persistent && tells, ..self }
    }
}

/// How the body of a request is framed (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// A head, and what only the connection needs from it.
pub(crate) struct Parsed<'a> {
    pub(crate) head: Head<'a>,
    pub(crate) framing: Framing,
    pub(crate) expectation: Expectation,
    pub(crate) extent: Extent,
}

/// What a client expects of the server (RFC 9110 section 10.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// Nothing, or nothing valid: an expectation in HTTP/1.0, or one of 100 (Continue) without a body.
    #[default]
    None,
    /// That the server asks for the body.
    Continue,
    /// An unknown expectation.
    Unknown,
}

/// How large a head is, for the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes of the request line, including its end.
    pub(crate) request_line: u32,
    /// Field lines, without the blank line.
    pub(crate) fields: u32,
    /// Bytes of the whole head, including the blank line.
    pub(crate) head: u32,
}

/// Parses the head at the beginning of `input`, and ignores what follows its blank line.
/// `terms.persistent` is what the client asks for.
///
/// # Errors
///
/// The first error found. For an incomplete head, the error means nothing: the rest may correct it.
/// right.
#[inline(always)]
pub(crate) fn parse(input: &[u8]) -> Result<Parsed<'_>, ErrorKind> {
    let RequestLine { method, target, path_len, is_encoded, version, mut rest } = request_line(input)?;
    let mut extent = Extent { request_line: (input.len() - rest.len()) as u32, fields: 0, head: 0 };
    let mut seen = Seen::default();
    let lines = rest;
    let mut fields = Fields::default();
    while !rest.starts_with(b"\r\n") {
        let (name, value, next) = field_line(rest)?;
        seen.note(&mut fields, name, value)?;
        extent.fields += 1;
        rest = next;
    }
    let fields = fields.in_lines(&lines[..lines.len() - rest.len()]);
    extent.head = (input.len() - rest.len() + b"\r\n".len()) as u32;

    let path = path_of(target, path_len, method)?;
    match seen.host {
        // An empty Host means that the target has no authority.
        Some(host) if !host.is_empty() && authority_port(host).is_none() => return Err(ErrorKind::Host),
        None if version == Version::Http11 => return Err(ErrorKind::Host),
        _ => {}
    }
    let framing = seen.framing(version)?;
    let persistent = match version {
        Version::Http11 => !seen.close,
        Version::Http10 => seen.keep_alive && !seen.close,
    };
    let terms = Terms { version, persistent, body: method != Method::Head };
    let head = Head { method, target, path, is_encoded, fields, terms };
    let expectation = match seen.expectation {
        Expectation::Continue if version == Version::Http10 || framing == Framing::None => Expectation::None,
        expectation => expectation,
    };
    Ok(Parsed { head, framing, expectation, extent })
}

/// Parses a head that did not arrive in one piece, or was parsed before.
#[cold]
#[inline(never)]
pub(crate) fn parse_again(input: &[u8]) -> Result<Parsed<'_>, ErrorKind> {
    parse(input)
}

/// A request line, and the input after it.
struct RequestLine<'a> {
    method: Method<'a>,
    target: &'a [u8],
    /// Bytes of the target before a question mark.
    path_len: usize,
    /// Whether these contain a percent sign.
    is_encoded: bool,
    version: Version,
    rest: &'a [u8],
}

/// Name, value, and the input after the line.
type FieldLine<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// Reads a request line (RFC 9112 section 3). Single spaces separate its three parts.
#[inline(always)]
fn request_line(input: &[u8]) -> Result<RequestLine<'_>, ErrorKind> {
    let (method, rest) = match input.strip_prefix(b"GET ") {
        Some(rest) => (Some(Method::Get), rest),
        None => any_method(input)?,
    };
    let plain_len = syntax::length(rest, syntax::PLAIN_PATH);
    let is_encoded = rest.get(plain_len) == Some(&b'%');
    let path_len =
        if is_encoded { plain_len + syntax::length(&rest[plain_len..], syntax::PATH) } else { plain_len };
    let end = match rest.get(path_len) {
        Some(b'?') => path_len + syntax::length(&rest[path_len..], syntax::TARGET),
        _ => path_len,
    };
    let (target, rest) = rest.split_at(end);
    match rest.first() {
        Some(b' ') if !target.is_empty() => {}
        Some(b'#' | 0x7f) => return Err(ErrorKind::Target),
        _ => return Err(ErrorKind::RequestLine),
    }
    let (version, rest) = match rest.strip_prefix(b" HTTP/1.1\r\n") {
        Some(rest) => (Version::Http11, rest),
        None => other_version(input, rest)?,
    };
    let method = method.ok_or(ErrorKind::UnknownMethod)?;
    Ok(RequestLine { method, target, path_len, is_encoded, version, rest })
}

/// Reads any other version that is known here or equivalent to a known one. Also returns the input after
/// its line end.
fn other_version<'a>(input: &[u8], rest: &'a [u8]) -> Result<(Version, &'a [u8]), ErrorKind> {
    match rest.split_first_chunk() {
        Some((b" HTTP/1.0\r\n", rest)) => Ok((Version::Http10, rest)),
        Some(([b' ', b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9', b'\r', b'\n'], rest)) => {
            Ok((Version::Http11, rest))
        }
        _ => Err(version_error(input)),
    }
}

/// Reads a method (`None` if its name is too long). Also returns the input after the space.
fn any_method(input: &[u8]) -> Result<(Option<Method<'_>>, &[u8]), ErrorKind> {
    let (name, rest) = input.split_at(syntax::length(input, syntax::TOKEN));
    let Some((b' ', rest)) = rest.split_first() else { return Err(ErrorKind::RequestLine) };
    Ok((Method::from_name(name), rest))
}

/// Reads name and value of a field line (RFC 9112 section 5), and returns the input after it. Refuses a
/// space before the colon, folded lines, which begin with a space and so have no name, and control
/// characters in the value.
#[inline(always)]
fn field_line(input: &[u8]) -> Result<FieldLine<'_>, ErrorKind> {
    let (name, rest) = input.split_at(syntax::length(input, syntax::TOKEN));
    let Some((b':', rest)) = rest.split_first() else { return Err(ErrorKind::Field) };
    if name.is_empty() {
        return Err(ErrorKind::Field);
    }
    let (value, rest) = rest.split_at(syntax::text_length(rest));
    let Some(rest) = rest.strip_prefix(b"\r\n") else { return Err(ErrorKind::Field) };
    Ok((name, trimmed(value), rest))
}

/// A value without the white space around it. Nearly every value has one space before it, and no more.
#[inline]
fn trimmed(value: &[u8]) -> &[u8] {
    let value = value.strip_prefix(b" ").unwrap_or(value);
    match value {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => value.trim_ascii(),
        _ => value,
    }
}

/// What the fields say about the message itself, rather than about the requested resource.
#[derive(Default)]
struct Seen<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
    codings: Option<Codings>,
    close: bool,
    keep_alive: bool,
    expectation: Expectation,
}

/// The transfer codings of a message, in the order in which they were applied. Only `chunked` is known
/// here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Codings {
    Chunked,
    Unknown,
    UnknownThenChunked,
}

impl Codings {
    /// Adds the codings of one line; several lines are one list (RFC 9110 section 5.3). If `chunked`
    /// comes twice or not last, the end of the message is in doubt (RFC 9112 section 6.1). Empty list
    /// members are refused as well, as other parsers may read them differently.
    fn add(before: Option<Self>, line: &[u8]) -> Result<Self, ErrorKind> {
        let add = |before, coding: &[u8]| match (before, coding.trim_ascii()) {
            (_, b"") | (Some(Self::Chunked | Self::UnknownThenChunked), _) => Err(ErrorKind::Framing),
            (None, coding) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Some(Self::Chunked)),
            (Some(Self::Unknown), coding) if coding.eq_ignore_ascii_case(b"chunked") => {
                Ok(Some(Self::UnknownThenChunked))
            }
            _ => Ok(Some(Self::Unknown)),
        };
        line.split(|&b| b == b',').try_fold(before, add)?.ok_or(ErrorKind::Framing)
    }
}

impl<'a> Seen<'a> {
    /// Notes one field. Field names are case-insensitive. For most lengths, at most one name has that
    /// length.
    #[inline(always)]
    fn note(&mut self, fields: &mut Fields<'_>, name: &[u8], value: &'a [u8]) -> Result<(), ErrorKind> {
        let is = |known: &str| is_name(name, known);
        match name.len() {
            4 if is("host") => set_once(&mut self.host, value, ErrorKind::Host)?,
            6 if is("accept") => fields.note(Field::Accept),
            10 if is("user-agent") => fields.note(Field::UserAgent),
            10 if is("connection") => self.connection(value),
            15 if is("accept-encoding") => fields.note(Field::AcceptEncoding),
            _ => self.note_other(fields, name, value)?,
        }
        Ok(())
    }

    /// Notes a field that few requests have.
    #[inline(never)]
    fn note_other(&mut self, fields: &mut Fields<'_>, name: &[u8], value: &[u8]) -> Result<(), ErrorKind> {
        let is = |known: &str| is_name(name, known);
        match name.len() {
            5 if is("range") => fields.note(Field::Range),
            6 if is("expect") => self.expect(value),
            7 if is("referer") => fields.note(Field::Referer),
            8 if is("if-match") => fields.note(Field::IfMatch),
            8 if is("if-range") => fields.note(Field::IfRange),
            9 if is("forwarded") => fields.note(Field::Forwarded),
            11 if is("traceparent") => fields.note(Field::Traceparent),
            13 if is("if-none-match") => fields.note(Field::IfNoneMatch),
            14 if is("content-length") => {
                let length = parse_length(value).ok_or(ErrorKind::ContentLength)?;
                set_once(&mut self.length, length, ErrorKind::ContentLength)?;
            }
            15 if is("x-forwarded-for") => fields.note(Field::XForwardedFor),
            16 if is("x-forwarded-host") => fields.note(Field::XForwardedHost),
            16 if is("x-forwarded-port") => fields.note(Field::XForwardedPort),
            17 if is("x-forwarded-proto") => fields.note(Field::XForwardedProto),
            17 if is("if-modified-since") => fields.note(Field::IfModifiedSince),
            17 if is("transfer-encoding") => {
                self.codings = Some(Codings::add(self.codings, value)?);
            }
            19 if is("if-unmodified-since") => fields.note(Field::IfUnmodifiedSince),
            _ => {}
        }
        Ok(())
    }

    fn expect(&mut self, value: &[u8]) {
        for member in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
            self.expectation = match (self.expectation, member) {
                // Empty list members mean nothing (RFC 9110 section 5.6.1.2).
                (before, b"") => before,
                (Expectation::Unknown, _) => Expectation::Unknown,
                (_, member) if member.eq_ignore_ascii_case(b"100-continue") => Expectation::Continue,
                _ => Expectation::Unknown,
            };
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn framing(&self, version: Version) -> Result<Framing, ErrorKind> {
        match (self.codings, self.length) {
            (None, None | Some(0)) => Ok(Framing::None),
            (None, Some(length)) => Ok(Framing::Length(length)),
            (Some(_), None) if version == Version::Http10 => Err(ErrorKind::Framing),
            (Some(Codings::Chunked), None) => Ok(Framing::Chunked),
            (Some(Codings::UnknownThenChunked), None) => Err(ErrorKind::TransferCoding),
            // The end of the message cannot be determined (RFC 9112 section 6.3).
            (Some(_), Some(_)) | (Some(Codings::Unknown), None) => Err(ErrorKind::Framing),
        }
    }
}

fn set_once<T>(slot: &mut Option<T>, value: T, repeated: ErrorKind) -> Result<(), ErrorKind> {
    if slot.replace(value).is_some() { Err(repeated) } else { Ok(()) }
}

/// A Content-Length value: digits and nothing else, no list (RFC 9110 section 8.6).
pub(crate) fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 {
        return None;
    }
    value.iter().try_fold(0_u64, |n, b| b.is_ascii_digit().then(|| n * 10 + u64::from(b - b'0')))
}

/// The path of a target in origin, absolute, authority or asterisk form (RFC 9112 section 3.2).
#[inline]
fn path_of<'a>(target: &'a [u8], path_len: usize, method: Method<'_>) -> Result<&'a [u8], ErrorKind> {
    let path = &target[..path_len];
    match path.first() {
        _ if method == Method::Connect => path_of_authority(target),
        Some(b'/') => Ok(path),
        Some(b'*') if target.len() == 1 && method == Method::Options => Ok(path),
        _ => path_of_absolute(path),
    }
}

/// The path for CONNECT, which has none. Its target is a host and a port, and both are required.
#[cold]
fn path_of_authority(target: &[u8]) -> Result<&[u8], ErrorKind> {
    authority_port(target).filter(|port| !port.is_empty()).map(|_| &b"*"[..]).ok_or(ErrorKind::Target)
}

#[cold]
fn path_of_absolute(target: &[u8]) -> Result<&[u8], ErrorKind> {
    let (authority, path) = split_authority(strip_scheme(target).ok_or(ErrorKind::Target)?);
    authority_port(authority).ok_or(ErrorKind::Target)?;
    Ok(if path.is_empty() { b"/" } else { path })
}

/// The authority after the scheme of an absolute-form target, and what follows it.
fn split_authority(after_scheme: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr2(b'/', b'?', after_scheme).unwrap_or(after_scheme.len());
    after_scheme.split_at(end)
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
    })
}

/// The port of an authority, which is a host with an optional port (RFC 9110 section 7.2). Empty if there
/// is no port. `None`: not an authority.
#[inline(always)]
fn authority_port(authority: &[u8]) -> Option<&[u8]> {
    let mut host = syntax::length(authority, syntax::HOST);
    if !matches!(authority.get(host), None | Some(b':')) {
        host = unusual_host_length(authority)?;
    }
    let (host, after) = authority.split_at(host);
    let port = if after.is_empty() { after } else { after.strip_prefix(b":")? };
    (!host.is_empty() && port.iter().all(u8::is_ascii_digit)).then_some(port)
}

/// The length of a host that has escapes or is an IPv6 address in brackets (RFC 3986 section 3.2.2).
#[cold]
fn unusual_host_length(authority: &[u8]) -> Option<usize> {
    if let [b'[', address @ ..] = authority {
        let length = memchr::memchr(b']', address)?;
        // No zone is allowed, as a zone has a meaning on the client's machine only.
        let address = std::str::from_utf8(&address[..length]).ok()?;
        return address.parse::<Ipv6Addr>().is_ok().then_some(length + b"[]".len());
    }
    let mut at = 0;
    while let Some(&byte) = authority.get(at) {
        match byte {
            b'%' if authority.get(at + 1..at + 3)?.iter().all(u8::is_ascii_hexdigit) => at += 3,
            byte if syntax::is(byte, syntax::HOST) => at += 1,
            _ => break,
        }
    }
    Some(at)
}

/// A well-formed HTTP version other than 1.x is 505. Anything else in its place is a malformed line.
fn version_error(input: &[u8]) -> ErrorKind {
    let line = &input[..memchr::memchr(b'\r', input).unwrap_or(input.len())];
    match line.rsplit(|&b| b == b' ').next() {
        // The version is known, so the error is in the spaces before it.
        Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9']) => ErrorKind::RequestLine,
        Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor])
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            ErrorKind::Version
        }
        _ => ErrorKind::RequestLine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Result<Parsed<'_>, ErrorKind> {
        parse(head.as_bytes())
    }

    fn error(head: &str) -> ErrorKind {
        parsed(head).err().unwrap_or_else(|| panic!("accepted {head:?}"))
    }

    #[test]
    fn targets_in_every_form() {
        let head = parsed("GET /a/b?c?d HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().head;
        assert_eq!((head.path, head.query()), (&b"/a/b"[..], Some(&b"c?d"[..])));
        let head = parsed("GET HTTP://user.example:80?q HTTP/1.1\r\nHost: other\r\n\r\n").unwrap().head;
        assert_eq!((head.path, head.query()), (&b"/"[..], Some(&b"q"[..])));
        assert_eq!(head.host(), Some(&b"user.example:80"[..]));
        assert_eq!(parsed("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n").unwrap().head.path, b"*");
        for bad in [
            "*",
            "a",
            "http://u@h/",
            "http:///",
            "/a#b",
            "ftp://x/",
            "/a\x7fb",
            "http://x:8a/",
            "http://:80/",
        ] {
            let head = format!("GET {bad} HTTP/1.1\r\nHost: x\r\n\r\n");
            let kind = error(&head);
            assert!(matches!(kind, ErrorKind::Target | ErrorKind::RequestLine), "{bad}: {kind}");
        }
    }

    #[test]
    fn bytes_that_should_have_been_encoded_are_taken_as_they_are() {
        let head = parsed("GET /\u{e4}|<x>?\"\u{e9}` HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().head;
        assert_eq!((head.path, head.query()), ("/\u{e4}|<x>".as_bytes(), Some("\"\u{e9}`".as_bytes())));
        assert_eq!(parse(b"GET /\xff\x80 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().head.path, b"/\xff\x80");
    }

    #[test]
    fn authorities_are_a_host_and_maybe_a_port() {
        for (authority, port) in [
            ("x", ""),
            ("x:", ""),
            ("x:80", "80"),
            ("a-b.c_~!$&'()*+,;=9", ""),
            ("a%C3%bcb%20:1", "1"),
            ("[::1]", ""),
            ("[1:2:3:4:5:6:127.0.0.1]:8080", "8080"),
            ("127.0.0.1:65535", "65535"),
        ] {
            assert_eq!(authority_port(authority.as_bytes()), Some(port.as_bytes()), "{authority}");
        }
        for other in [
            "",
            ":",
            ":80",
            "a:8x",
            "a:80:80",
            "a:-1",
            "a: 1",
            "[",
            "[]",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "[zz]",
            "[1.2.3.4]",
            "[::1%lo]",
            "[::1%25lo]",
            "[::1]]",
            "[v1.x]",
            "::1",
            "a[::1]",
            "%",
            "a%4",
            "a%zz",
            "a%4:1",
            "a@b",
            "a/b",
            "a b",
            "a\\b",
            "\u{e4}",
            "a?b",
            "a\"",
        ] {
            assert_eq!(authority_port(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_head_that_was_put_by_is_read_again_on_its_old_terms() {
        let bytes = b"\r\n\r\nGET /a?b HTTP/1.1\r\nHost: x\r\nRange: bytes=1-\r\n\r\n";
        let first = parse(&bytes[4..]).unwrap().head;
        let again = Head::again(bytes, first.terms.closing()).unwrap();
        assert_eq!(
            (again.path, again.query(), again.terms),
            (first.path, first.query(), first.terms.closing())
        );
        assert_eq!(again.fields.get(Field::Range), Some(&b"bytes=1-"[..]));
        assert!(Head::again(b"GET /a", first.terms).is_none());
    }

    proptest::proptest! {
        #[test]
        fn authorities_by_the_grammar_are_taken_and_no_others(
            name in "([a-z0-9._~!$&'()*+,;=-]|%[0-9a-fA-F]{2}){1,9}",
            port in "(:[0-9]{0,5})?",
            at in proptest::prelude::any::<proptest::sample::Index>(),
            byte in "[/?#@\\\\<>\"{}|^` \\[\\]\u{7f}\u{e4}]",
        ) {
            let authority = format!("{name}{port}");
            let digits = port.trim_start_matches(':').as_bytes();
            proptest::prop_assert_eq!(authority_port(authority.as_bytes()), Some(digits));
            let (before, after) = authority.split_at(at.index(authority.len() + 1));
            let other = format!("{before}{byte}{after}");
            proptest::prop_assert_eq!(authority_port(other.as_bytes()), None);
        }

        /// Whatever this parser accepts, httparse accepts too and reads the same way.
        #[test]
        fn agrees_with_httparse(
            pieces in proptest::collection::vec(proptest::sample::select(&[
                "GET", "OPTIONS", " ", "  ", "/", "/a?b", "http://h/", "*", " HTTP/1.1", " HTTP/1.0", "\r\n",
                "\r", "\t", "Host: x", "Host:", "A: b", "a :b", ": ", "Range: bytes=0-", "\0", "\u{e9}", "#",
                "\x7f", ",", "X:y",
            ][..]), 0..14),
        ) {
            let text = format!("GET / HTTP/1.1\r\n{}\r\n\r\n", pieces.concat());
            for text in [text, format!("{}\r\n\r\n", pieces.concat())] {
                let end = text.find("\r\n\r\n").unwrap() + 4;
                let Ok(ours) = parsed(&text[..end]) else { continue };
                let mut fields = [httparse::EMPTY_HEADER; 64];
                let mut theirs = httparse::Request::new(&mut fields);
                let status = theirs.parse(&text.as_bytes()[..end]);
                proptest::prop_assert_eq!(status, Ok(httparse::Status::Complete(end)));
                proptest::prop_assert_eq!(theirs.method, Some(ours.head.method.name()));
                proptest::prop_assert_eq!(theirs.path.unwrap().as_bytes(), ours.head.target);
                let range = theirs.headers.iter().find(|field| field.name.eq_ignore_ascii_case("range"));
                proptest::prop_assert_eq!(range.map(|field| field.value), ours.head.fields.get(Field::Range));
            }
        }
    }

    #[test]
    fn host_is_required_once_and_checked() {
        assert_eq!(error("GET / HTTP/1.1\r\n\r\n"), ErrorKind::Host);
        assert_eq!(error("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), ErrorKind::Host);
        assert_eq!(error("GET / HTTP/1.0\r\nHost: a/b\r\n\r\n"), ErrorKind::Host);
        assert_eq!(error("GET http://x/ HTTP/1.1\r\nHost: a:b\r\n\r\n"), ErrorKind::Host);
        for target in ["a", "a:", ":80", "a:8x", "/", "*"] {
            assert_eq!(
                error(&format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n")),
                ErrorKind::Target,
                "{target}"
            );
        }
        assert!(parsed("CONNECT [::1]:443 HTTP/1.1\r\nHost:\r\n\r\n").is_ok());
        assert!(parsed("GET / HTTP/1.0\r\n\r\n").is_ok());
    }

    #[test]
    fn hosts_are_told_without_their_port() {
        for (authority, name) in
            [("a", "a"), ("a:1", "a"), ("[::1]", "[::1]"), ("[::1]:8", "[::1]"), ("a:", "a"), ("", "")]
        {
            let text = format!("GET / HTTP/1.1\r\nHost: {authority}\r\n\r\n");
            let terms = Terms { version: Version::Http11, persistent: true, body: true };
            let head = Head::again(text.as_bytes(), terms).unwrap();
            assert_eq!(head.host_name(), Some(name.as_bytes()));
        }
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        let post = |fields: &str| format!("POST / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
        for (fields, kind) in [
            ("Content-Length: 1\r\nContent-Length: 1", ErrorKind::ContentLength),
            ("Content-Length: 1, 1", ErrorKind::ContentLength),
            ("Content-Length: +1", ErrorKind::ContentLength),
            ("Content-Length:", ErrorKind::ContentLength),
            ("Content-Length: 99999999999999999999", ErrorKind::ContentLength),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked", ErrorKind::Framing),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", ErrorKind::Framing),
            ("Transfer-Encoding: chunked, chunked", ErrorKind::Framing),
            ("Transfer-Encoding: chunked, gzip", ErrorKind::Framing),
            ("Transfer-Encoding:", ErrorKind::Framing),
            ("Transfer-Encoding: gzip, chunked", ErrorKind::TransferCoding),
            ("Transfer-Encoding: gzip\r\nX: y\r\nTransfer-Encoding: chunked", ErrorKind::TransferCoding),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: deflate, chunked", ErrorKind::TransferCoding),
            ("Transfer-Encoding: gzip, chunked\r\nTransfer-Encoding: chunked", ErrorKind::Framing),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", ErrorKind::Framing),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding:", ErrorKind::Framing),
            ("Transfer-Encoding: ,chunked", ErrorKind::Framing),
            ("Transfer-Encoding: chunked,", ErrorKind::Framing),
            ("Transfer-Encoding: gzip, deflate", ErrorKind::Framing),
            ("Transfer-Encoding: xchunked", ErrorKind::Framing),
            ("Content-Length: 0\r\nTransfer-Encoding: chunked", ErrorKind::Framing),
            ("Transfer-Encoding : chunked", ErrorKind::Field),
            ("X: a\r\n b", ErrorKind::Field),
            ("X: a\rb", ErrorKind::Field),
            ("X: a\0b", ErrorKind::Field),
            (": a", ErrorKind::Field),
        ] {
            assert_eq!(error(&post(fields)), kind, "{fields}");
        }
        assert_eq!(parsed(&post("Transfer-Encoding: Chunked")).unwrap().framing, Framing::Chunked);
        assert_eq!(parsed(&post("content-length: 10")).unwrap().framing, Framing::Length(10));
        assert_eq!(parsed(&post("content-length: 00")).unwrap().framing, Framing::None);
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(error(old), ErrorKind::Framing);
    }

    #[test]
    fn versions_and_methods() {
        assert_eq!(error("GET / HTTP/2.0\r\n\r\n"), ErrorKind::Version);
        for minor in 2..=9 {
            let head = format!("GET / HTTP/1.{minor}\r\nHost: x\r\n\r\n");
            assert_eq!(parsed(&head).unwrap().head.terms.version, Version::Http11);
        }
        assert_eq!(error("GET / HTTP/1.2\r\n\r\n"), ErrorKind::Host);
        assert_eq!(error("GET /  HTTP/1.2\r\nHost: x\r\n\r\n"), ErrorKind::RequestLine);
        assert_eq!(error("GET / HTTP/1.10\r\nHost: x\r\n\r\n"), ErrorKind::RequestLine);
        assert_eq!(error("GET / HTTPS/1.1\r\n\r\n"), ErrorKind::RequestLine);
        assert_eq!(error("GET /\r\n\r\n"), ErrorKind::RequestLine);
        assert_eq!(error("GET /  HTTP/1.1\r\n\r\n"), ErrorKind::RequestLine);
        assert_eq!(error("GET / x HTTP/1.1\r\n\r\n"), ErrorKind::RequestLine);
        for name in ["get", "PROPFIND", "M-SEARCH", &"A".repeat(Method::MAX_LENGTH)] {
            let head = format!("{name} / HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(parsed(&head).unwrap().head.method, Method::Other(name));
        }
        let name = "A".repeat(Method::MAX_LENGTH + 1);
        assert_eq!(error(&format!("{name} / HTTP/1.1\r\nHost: x\r\n\r\n")), ErrorKind::UnknownMethod);
        assert_eq!(error("A(B / HTTP/1.1\r\nHost: x\r\n\r\n"), ErrorKind::RequestLine);
    }

    #[test]
    fn persistence_by_version_and_option() {
        let persistent = |head: &str| parsed(head).unwrap().head.terms.persistent;
        assert!(persistent("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(!persistent("GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n"));
        assert!(!persistent("GET / HTTP/1.0\r\n\r\n"));
        assert!(persistent("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }
}
