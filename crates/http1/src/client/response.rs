//! The head of a response, and how its body is delimited (RFC 9112 sections 4 and 6.3).

use std::mem::MaybeUninit;

use super::error::ReplyError;
use crate::head::parse_length;
use crate::{Status, Version};

/// Number of field lines that need no allocation.
const FEW_FIELDS: usize = 64;

/// A response's head. It borrows from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    /// The reply's status.
    pub status: Status,
    /// The server's version.
    pub version: Version,
    /// How the body that follows is delimited.
    pub body: BodyLength,
    /// Whether the server keeps the connection open after this reply.
    pub keep_alive: bool,
    /// The field lines, each with its CRLF.
    fields: &'a [u8],
}

/// How a body is delimited (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// This many bytes; 0 if the method or the status allows no body.
    Bytes(u64),
    /// By the chunked transfer coding.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

impl<'a> ResponseHead<'a> {
    /// The value of the first field line of that name, without surrounding white space.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.fields().find(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// All field lines in order, as name and value, without white space around the value.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        // The lines were checked when the head was parsed: each has a colon, and no carriage return inside.
        self.fields.split(|&b| b == b'\n').filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// Parses a complete head, including its blank line. `to_head`: the request was HEAD.
    pub(super) fn parse(input: &'a [u8], to_head: bool) -> Result<Self, ReplyError> {
        let (mut few, mut many) = ([const { MaybeUninit::uninit() }; FEW_FIELDS], Vec::new());
        // No limit on lines here, as the bytes are limited.
        let lines = memchr::memchr_iter(b'\n', input).count();
        let room = if lines <= FEW_FIELDS {
            &mut few[..]
        } else {
            many.resize_with(lines, MaybeUninit::uninit);
            &mut many[..]
        };
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        match config.parse_response_with_uninit_headers(&mut response, input, room) {
            Ok(httparse::Status::Complete(length)) if length == input.len() => {}
            Ok(_) | Err(_) => return Err(ReplyError::Malformed),
        }
        let version = if response.version == Some(0) { Version::Http10 } else { Version::Http11 };
        // Codes above 599 are for applications. A client treats them as 5xx (RFC 9110 section 15).
        let status = response.code.filter(|code| (100..1000).contains(code)).ok_or(ReplyError::Malformed)?;

        let mut seen = Seen::default();
        for field in response.headers.iter() {
            seen.note(field.name, field.value)?;
        }
        let bodiless = to_head || matches!(status, 100..200 | 204 | 304);
        let body = match seen.body_length(version)? {
            _ if bodiless => BodyLength::Bytes(0),
            length => length,
        };
        let persistent = match version {
            Version::Http11 => !seen.close,
            Version::Http10 => seen.keep_alive && !seen.close,
        };
        // A parsed head has a status line that ends in CRLF, and ends in a blank line.
        let status_line = memchr::memchr(b'\n', input).map_or(input.len(), |at| at + 1);
        Ok(Self {
            status: Status(status),
            version,
            body,
            keep_alive: persistent && body != BodyLength::UntilClose,
            fields: &input[status_line..input.len() - 2],
        })
    }
}

/// What the fields say about the message itself.
#[derive(Default)]
struct Seen {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Seen {
    fn note(&mut self, name: &str, value: &[u8]) -> Result<(), ReplyError> {
        if name.eq_ignore_ascii_case("content-length") {
            let length = parse_length(value.trim_ascii()).ok_or(ReplyError::Framing)?;
            if self.length.replace(length).is_some() {
                return Err(ReplyError::Framing);
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // The client offered only chunked. Not all recipients understand any other coding, or two
            // lines, in the same way.
            if self.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(ReplyError::Framing);
            }
            self.chunked = true;
        } else if name.eq_ignore_ascii_case("connection") {
            for option in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }

    /// The delimitation by the fields alone; method and status may override it.
    fn body_length(&self, version: Version) -> Result<BodyLength, ReplyError> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(ReplyError::Framing),
            (true, None) if version == Version::Http10 => Err(ReplyError::Framing),
            (true, None) => Ok(BodyLength::Chunked),
            (false, Some(length)) => Ok(BodyLength::Bytes(length)),
            (false, None) => Ok(BodyLength::UntilClose),
        }
    }
}
