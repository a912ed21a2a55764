//! Finds the end of a head that arrives in pieces. Looks at each byte once.

use memchr::memchr;

use crate::head::Extent;
use crate::{ErrorKind, Limits, syntax};

/// How far a head has been scanned. Positions are relative to the head's first byte.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Bytes in which every line end has been found.
    scanned: u32,
    /// Where the current line begins.
    line_start: u32,
    /// Complete lines so far.
    lines: u16,
}

impl Scan {
    /// Whether a byte of the head has been seen.
    pub(super) fn begun(&self) -> bool {
        self.scanned > 0
    }

    /// The length of the head, including its blank line, once it is complete. `input` starts with the
    /// head's first byte, and has at least the bytes of the last call.
    pub(super) fn find_end(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, ErrorKind> {
        if !self.begun() && input.first().is_some_and(|&byte| !syntax::is(byte, syntax::BEGINS)) {
            return Err(ErrorKind::RequestLine);
        }
        let mut from = self.scanned as usize;
        while let Some(found) = input.get(from..).and_then(|rest| memchr(b'\n', rest)) {
            let line_feed = from + found;
            self.check_length(line_feed + 1, limits)?;
            if line_feed == 0 || input[line_feed - 1] != b'\r' {
                return Err(ErrorKind::BareLineEnd);
            }
            if line_feed - 1 == self.line_start as usize {
                return Ok(Some(line_feed + 1));
            }
            if self.lines > limits.fields {
                return Err(ErrorKind::TooManyFields);
            }
            self.lines += 1;
            from = line_feed + 1;
            self.line_start = from as u32;
        }
        self.check_length(input.len(), limits)?;
        self.scanned = input.len() as u32;
        Ok(None)
    }

    fn check_length(&self, length: usize, limits: &Limits) -> Result<(), ErrorKind> {
        if self.lines == 0 && length > limits.request_line as usize {
            return Err(ErrorKind::RequestLineTooLong);
        }
        if length > limits.head as usize {
            return Err(ErrorKind::HeadTooLarge);
        }
        Ok(())
    }
}

/// Whether a whole head is within the limits that [`Scan::find_end`] enforces on its pieces.
pub(super) fn is_within(extent: Extent, limits: &Limits) -> bool {
    extent.request_line <= limits.request_line
        && extent.head <= limits.head
        && extent.fields <= limits.fields.into()
}

/// The length of the empty lines at the beginning of `input`.
pub(super) fn leading_blank(input: &[u8]) -> usize {
    let mut blank = 0;
    while input[blank..].starts_with(b"\r\n") {
        blank += 2;
    }
    blank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_whatever_the_cuts() {
        let head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nrest";
        for cut in 0..head.len() {
            let mut scan = Scan::default();
            let early = scan.find_end(&head[..cut], &Limits::default()).unwrap();
            let end = early.or_else(|| scan.find_end(head, &Limits::default()).unwrap());
            assert_eq!(end, Some(head.len() - 4), "cut at {cut}");
        }
    }

    #[test]
    fn limits_hold_before_the_line_is_complete() {
        let limits = Limits { request_line: 10, head: 30, fields: 1, ..Limits::default() };
        let scan = |input: &[u8]| Scan::default().find_end(input, &limits);
        assert_eq!(scan(b"GET /12345678"), Err(ErrorKind::RequestLineTooLong));
        assert_eq!(scan(b"GET /\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), Err(ErrorKind::HeadTooLarge));
        assert_eq!(scan(b"GET /\r\nA: b\r\nC: d\r\n"), Err(ErrorKind::TooManyFields));
        assert_eq!(scan(b"GET /\n"), Err(ErrorKind::BareLineEnd));
        assert_eq!(scan(b"\x16\x03\x01"), Err(ErrorKind::RequestLine));
        assert_eq!(scan(b"GET /\r\n"), Ok(None));
    }
}
