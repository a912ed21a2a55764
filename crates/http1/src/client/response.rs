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
    /// The reason phrase after it, if there is one.
    pub reason: Option<&'a [u8]>,
    /// The server's version.
    pub version: Version,
    /// How the body that follows is delimited.
    pub body: BodyLength,
    /// Whether the server keeps the connection open after this reply.
    pub keep_alive: bool,
    /// The Connection field names other fields.
    names_fields: bool,
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

    /// The length that the head announces. The reply to HEAD has no body of that length, nor has a 304.
    pub fn announced_length(&self) -> Option<u64> {
        self.field("content-length").and_then(parse_length)
    }

    /// Whether the Connection field names this field, which then is for the next recipient only (RFC 9110
    /// section 7.6.1).
    pub fn is_for_connection(&self, name: &[u8]) -> bool {
        if !self.names_fields {
            return false;
        }
        let lines = self.fields().filter(|(field, _)| field.eq_ignore_ascii_case(b"connection"));
        let mut options = lines.flat_map(|(_, value)| value.split(|&b| b == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name))
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
            reason: response.reason.filter(|reason| !reason.is_empty()).map(str::as_bytes),
            version,
            body,
            keep_alive: persistent && body != BodyLength::UntilClose,
            names_fields: seen.names_fields,
            fields: &input[status_line..input.len() - 2],
        })
    }
}

/// What the fields say about the message itself.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the fields")]
struct Seen {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    /// The Connection field has other options than these.
    names_fields: bool,
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
                let [close, keep_alive] =
                    [&b"close"[..], b"keep-alive"].map(|known| option.eq_ignore_ascii_case(known));
                self.close |= close;
                self.keep_alive |= keep_alive;
                self.names_fields |= !close && !keep_alive;
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
