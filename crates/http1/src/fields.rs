//! The field lines of a request that a content service uses.
//!
//! Most requests have no field that affects the reply. A head should be small, as one is read for every
//! request. So [`Fields`] only records which fields are present, and reads a value when it is needed.

use std::iter;

use memchr::memchr_iter;

use crate::syntax;

/// A field that a content service uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the field of that name (RFC 9110, or W3C Trace Context)")]
pub enum Field {
    Accept,
    AcceptEncoding,
    IfMatch,
    IfNoneMatch,
    IfModifiedSince,
    IfUnmodifiedSince,
    IfRange,
    Range,
    Referer,
    UserAgent,
    Forwarded,
    XForwardedFor,
    XForwardedHost,
    XForwardedPort,
    XForwardedProto,
    Traceparent,
}

impl Field {
    /// All of these fields.
    pub const ALL: [Self; 16] = [
        Self::Accept,
        Self::AcceptEncoding,
        Self::IfMatch,
        Self::IfNoneMatch,
        Self::IfModifiedSince,
        Self::IfUnmodifiedSince,
        Self::IfRange,
        Self::Range,
        Self::Referer,
        Self::UserAgent,
        Self::Forwarded,
        Self::XForwardedFor,
        Self::XForwardedHost,
        Self::XForwardedPort,
        Self::XForwardedProto,
        Self::Traceparent,
    ];

    /// The field's name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::AcceptEncoding => "accept-encoding",
            Self::IfMatch => "if-match",
            Self::IfNoneMatch => "if-none-match",
            Self::IfModifiedSince => "if-modified-since",
            Self::IfUnmodifiedSince => "if-unmodified-since",
            Self::IfRange => "if-range",
            Self::Range => "range",
            Self::Referer => "referer",
            Self::UserAgent => "user-agent",
            Self::Forwarded => "forwarded",
            Self::XForwardedFor => "x-forwarded-for",
            Self::XForwardedHost => "x-forwarded-host",
            Self::XForwardedPort => "x-forwarded-port",
            Self::XForwardedProto => "x-forwarded-proto",
            Self::Traceparent => "traceparent",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The field lines of a head, borrowed from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a> {
    /// Whole lines, each ending in CRLF.
    lines: &'a [u8],
    /// A bit for each field that is present.
    present: u16,
}

impl<'a> Fields<'a> {
    /// The fields of these lines. Each line must end in CRLF.
    pub fn new(lines: &'a [u8]) -> Self {
        let mut fields = Self { lines, present: 0 };
        for (name, _) in fields.pairs() {
            if let Some(field) = Field::ALL.into_iter().find(|field| is_name(name, field.name())) {
                fields.note(field);
            }
        }
        fields
    }

    /// Records that a field is in the lines.
    #[inline]
    pub(crate) fn note(&mut self, field: Field) {
        self.present |= field.bit();
    }

    /// The recorded fields, with the lines that they were found in. Pass exactly these lines.
    #[inline]
    pub(crate) fn in_lines(self, lines: &[u8]) -> Fields<'_> {
        Fields { lines, ..self }
    }

    /// Whether any of these fields is present.
    #[inline]
    pub fn any_of(self, fields: &[Field]) -> bool {
        self.present & fields.iter().fold(0, |bits, field| bits | field.bit()) != 0
    }

    /// A field's value on the first line that has it, without surrounding white space.
    pub fn get(self, field: Field) -> Option<&'a [u8]> {
        self.all(field).next()
    }

    /// The value of a field that may be sent only once. On several lines it would be a list, so it has no
    /// single value.
    pub fn sole(self, field: Field) -> Option<&'a [u8]> {
        let mut values = self.all(field);
        values.next().filter(|_| values.next().is_none())
    }

    /// A field's value on each line that has it. Together the values are one list (RFC 9110 section 5.3).
    pub fn all(self, field: Field) -> impl Iterator<Item = &'a [u8]> + Clone {
        let lines = if self.any_of(&[field]) { self.lines } else { &[] };
        Self { lines, ..self }
            .pairs()
            .filter(move |(name, _)| is_name(name, field.name()))
            .map(|(_, value)| value)
    }

    /// The value of Host, which is sent only once.
    pub(crate) fn host(self) -> Option<&'a [u8]> {
        self.pairs().find(|(name, _)| is_name(name, "host")).map(|(_, value)| value)
    }

    /// Name and value of each line, in order, without white space around the value.
    pub fn pairs(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
        let mut rest = self.lines;
        iter::from_fn(move || {
            let end = memchr_iter(b'\r', rest).find(|&at| rest.get(at + 1) == Some(&b'\n'))?;
            let (line, after) = rest.split_at(end);
            rest = &after[b"\r\n".len()..];
            let (name, value) = line.split_at(syntax::length(line, syntax::TOKEN));
            Some((name, value.get(1..).unwrap_or_default().trim_ascii()))
        })
    }
}

/// Whether a token equals `name`, which consists only of lower-case letters and hyphens. The comparison
/// sets the bit that distinguishes lower from upper case. No other byte of a token becomes a letter or
/// hyphen by that.
#[inline]
pub(crate) fn is_name(token: &[u8], name: &str) -> bool {
    token.len() == name.len()
        && token.iter().zip(name.as_bytes()).fold(0, |unlike, (a, b)| unlike | ((a | 0x20) ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_on_every_line_that_has_them() {
        let fields = Fields::new(
            b"Host: x\r\nIf-Match:\t\"a\" \r\nRange:\r\nIF-match: \"b\",\"c\"\r\nReferers: no\r\n",
        );
        let tags: Vec<_> = fields.all(Field::IfMatch).collect();
        assert_eq!(tags, [b"\"a\"".as_slice(), b"\"b\",\"c\""]);
        assert_eq!(fields.get(Field::IfMatch), Some(b"\"a\"".as_slice()));
        assert_eq!((fields.sole(Field::IfMatch), fields.sole(Field::Referer)), (None, None));
        assert_eq!(fields.sole(Field::Range), Some(b"".as_slice()));
        assert_eq!(fields.get(Field::Referer), None);
        assert!(fields.any_of(&[Field::Referer, Field::Range]) && !fields.any_of(&[Field::IfRange]));
        assert_eq!(Fields::default().get(Field::Range), None);
    }

    #[test]
    fn no_other_token_is_taken_for_a_name() {
        let mistaken: Vec<u8> = (0..=255_u8)
            .filter(|&byte| syntax::is_token(byte) && !byte.is_ascii_alphabetic() && byte != b'-')
            .filter(|&byte| (b'a'..=b'z').chain([b'-']).any(|known| byte | 0x20 == known))
            .collect();
        assert_eq!(mistaken, []);
    }
}
