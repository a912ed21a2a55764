//! The head of a response, and how its body is delimited (RFC 9112 sections 4 and 6.3).

use std::mem::MaybeUninit;

use super::error::ReplyError;
use crate::head::parse_length;
use crate::{Status, Version};

/// Field lines that there is room for without allocating.
const FEW_FIELDS: usize = 64;

/// A response's head. It borrows from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    /// What came of the request.
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
    /// So many bytes; 0 where the method or the status allows no body.
    Bytes(u64),
    /// By the chunked transfer coding.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

impl<'a> ResponseHead<'a> {
    /// The value of the first field line of that name, white space around it removed.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.fields().find(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// All field lines in order, as name and value, white space around the value removed.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        // The lines were checked when the head was parsed: each has a colon, and no carriage return inside.
        self.fields.split(|&b| b == b'\n').filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// Parses a complete head, blank line included, of the reply to a request that was HEAD or not.
    pub(super) fn parse(input: &'a [u8], to_head: bool) -> Result<Self, ReplyError> {
        let (mut few, mut many) = ([const { MaybeUninit::uninit() }; FEW_FIELDS], Vec::new());
        // As many as there are: bytes bound them.
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
        // Beyond 599 is for applications' own use: to clients it is a 5xx (RFC 9110 section 15).
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
        // What parsed has a status line that ends in CRLF, and ends in a blank line.
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

/// What the fields say of the message itself.
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
            // Only chunked was offered: any other coding, or two lines of it, is not understood the same by
            // all.
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

    /// What the fields alone delimit; method and status may overrule it.
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
