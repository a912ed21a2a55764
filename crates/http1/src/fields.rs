//! The field lines of a request that a content service looks at.
//!
//! Most requests carry none that matter to their answer, and a head that is read for every request had better
//! be small: so [`Fields`] knows which of them are there, and reads their values only when it is asked.

use std::iter;

use memchr::memchr_iter;

use crate::syntax;

/// A field that a content service looks at.
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
    /// All of them.
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

    /// Its name, in lower case.
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
    /// Whole lines, each ended by CRLF.
    lines: &'a [u8],
    /// The bits of the fields that are among them.
    present: u16,
}

impl<'a> Fields<'a> {
    /// The fields of these lines, each of them ended by CRLF.
    pub fn new(lines: &'a [u8]) -> Self {
        let mut fields = Self { lines, present: 0 };
        for (name, _) in fields.pairs() {
            if let Some(field) = Field::ALL.into_iter().find(|field| is_name(name, field.name())) {
                fields.note(field);
            }
        }
        fields
    }

    /// Takes note of a field that is in the lines.
    #[inline]
    pub(crate) fn note(&mut self, field: Field) {
        self.present |= field.bit();
    }

    /// What was noted, with the lines that it was seen in: those and no others.
    #[inline]
    pub(crate) fn in_lines(self, lines: &[u8]) -> Fields<'_> {
        Fields { lines, ..self }
    }

    /// Whether one of these is there.
    #[inline]
    pub fn any_of(self, fields: &[Field]) -> bool {
        self.present & fields.iter().fold(0, |bits, field| bits | field.bit()) != 0
    }

    /// A field's value on the first line that has it, white space around it left out.
    pub fn get(self, field: Field) -> Option<&'a [u8]> {
        self.all(field).next()
    }

    /// The value of a field that may be sent once only. On several lines it is a list, and so has no value of
    /// its kind.
    pub fn sole(self, field: Field) -> Option<&'a [u8]> {
        let mut values = self.all(field);
        values.next().filter(|_| values.next().is_none())
    }

    /// A field's value on each line that has it, which together are one list (RFC 9110 section 5.3).
    pub fn all(self, field: Field) -> impl Iterator<Item = &'a [u8]> + Clone {
        let lines = if self.any_of(&[field]) { self.lines } else { &[] };
        Self { lines, ..self }
            .pairs()
            .filter(move |(name, _)| is_name(name, field.name()))
            .map(|(_, value)| value)
    }

    /// The value of Host, which is sent once.
    pub(crate) fn host(self) -> Option<&'a [u8]> {
        self.pairs().find(|(name, _)| is_name(name, "host")).map(|(_, value)| value)
    }

    /// Name and value of each line, in order, white space around the value left out.
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

/// Whether a token is a name, of which only lower-case letters and hyphens are made. Setting the bit that
/// tells lower case from upper makes neither of any other byte that a token may hold.
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
