//! Parses the head of a CGI response (RFC 3875 section 6), with which an application's reply begins.

use std::ops::Range;

use memchr::{memchr, memchr_iter};
use thiserror::Error;

/// Searches for the end of a head that comes in pieces, and reads each byte once.
#[derive(Debug, Default)]
pub struct Scan {
    /// Bytes in which every line end has been found.
    scanned: usize,
}

/// A head. Field values are bytes, trimmed of white space around them.
#[derive(Debug)]
pub struct Head<'a> {
    /// 200 to 599.
    pub status: u16,
    /// The reason phrase after it, if there is one.
    pub reason: Option<&'a [u8]>,
    /// The length of the body, if the head has it.
    pub length: Option<u64>,
    fields: Vec<httparse::Header<'a>>,
}

/// An invalid head.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// It is longer than this many bytes.
    #[error("the head of the application's reply is longer than {0} bytes")]
    TooLong(usize),
    /// It has a line that is not a field.
    #[error("the head of the application's reply has a line that is no field: {0}")]
    Field(String),
    /// Its status is not a number from 200 to 599, or there are several.
    #[error("the application's reply has the status {0:?}, where one from 200 to 599 is allowed")]
    Status(String),
    /// Its length is not a number, or there are several.
    #[error("the application's reply has the Content-Length {0:?}")]
    Length(String),
    /// It ends before its head does.
    #[error("the application's reply ends within its head")]
    CutShort,
}

impl Scan {
    /// The length of the head including the blank line, once it is complete. `input` starts with its first
    /// byte and has at least the bytes of the last call. Lines end with CRLF or LF.
    ///
    /// # Errors
    ///
    /// It is longer than `most` bytes.
    pub fn find_end(&mut self, input: &[u8], most: usize) -> Result<Option<usize>, Malformed> {
        // A head without fields ends at once.
        let at_once = match input {
            _ if self.scanned > 1 => None,
            [b'\n', ..] => Some(1),
            [b'\r', b'\n', ..] => Some(2),
            _ => None,
        };
        let end = loop {
            if at_once.is_some() {
                break at_once;
            }
            let Some(found) = memchr(b'\n', &input[self.scanned..]) else {
                self.scanned = input.len();
                break None;
            };
            let line_feed = self.scanned + found;
            match &input[line_feed + 1..] {
                [b'\n', ..] => break Some(line_feed + 2),
                [b'\r', b'\n', ..] => break Some(line_feed + 3),
                // The line end may come in two pieces.
                [] | [b'\r'] => {
                    self.scanned = line_feed;
                    break None;
                }
                _ => self.scanned = line_feed + 1,
            }
        };
        match end {
            Some(end) if end <= most => Ok(Some(end)),
            None if input.len() < most => Ok(None),
            _ => Err(Malformed::TooLong(most)),
        }
    }
}

/// Parses a whole head including the blank line, which may be all of it. The number of fields is not limited:
/// the caller limits the bytes. A Location without a Status makes the status 302. This includes a Location
/// that is a path, which RFC 3875 section 6.2.2 would have the server answer itself.
///
/// # Errors
///
/// The head is not valid for a client.
pub fn parse(head: &[u8]) -> Result<Head<'_>, Malformed> {
    let mut fields = vec![httparse::EMPTY_HEADER; memchr_iter(b'\n', head).count()];
    let count = match httparse::parse_headers(head, &mut fields) {
        Ok(httparse::Status::Complete((end, found))) if end == head.len() => found.len(),
        Ok(httparse::Status::Complete(_)) => return Err(Malformed::Field("an empty line".to_owned())),
        Ok(httparse::Status::Partial) => return Err(Malformed::CutShort),
        Err(error) => return Err(Malformed::Field(error.to_string())),
    };
    fields.truncate(count);
    let mut head = Head { status: 200, reason: None, length: None, fields };
    let status = head.only("Status").map_err(Malformed::Status)?;
    let length = head.only("Content-Length").map_err(Malformed::Length)?;
    head.status = match status {
        None if head.field("Location").is_some() => 302,
        None => 200,
        Some(status) => {
            let code = status.get(..3).and_then(digits);
            let ends = status.get(3).is_none_or(|byte| *byte == b' ');
            match code {
                Some(code @ 200..=599) if ends => {
                    let reason = status[3..].trim_ascii();
                    head.reason = Some(reason).filter(|reason| !reason.is_empty());
                    code as u16
                }
                _ => return Err(Malformed::Status(lossy(status))),
            }
        }
    };
    head.length = match length {
        None => None,
        Some(length) => Some(digits(length).ok_or_else(|| Malformed::Length(lossy(length)))?),
    };
    Ok(head)
}

impl<'a> Head<'a> {
    /// A head that was not read here. The fields must have names and values that HTTP allows.
    pub fn of(
        (status, reason): (u16, Option<&'a [u8]>),
        length: Option<u64>,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Self {
        let field = |(name, value)| Some(httparse::Header { name: str::from_utf8(name).ok()?, value });
        Self { status, reason, length, fields: fields.filter_map(field).collect() }
    }

    /// The first field of a name, case-insensitive.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.all().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// The fields for the client. Left out are fields that the server makes itself, fields about the
    /// connection between server and application, and fields for the server alone.
    pub fn for_client(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        const NOT: [&str; 16] = [
            "Date",
            "Server",
            "Status",
            "Content-Length",
            "Connection",
            "Keep-Alive",
            "Proxy-Connection",
            "Transfer-Encoding",
            "TE",
            "Trailer",
            "Upgrade",
            "X-Sendfile",
            "X-Accel-Redirect",
            "X-Accel-Buffering",
            "X-Accel-Expires",
            "X-ZeroCopy",
        ];
        let is_for_client =
            |field: &&httparse::Header<'_>| !NOT.iter().any(|name| field.name.eq_ignore_ascii_case(name));
        self.all().filter(is_for_client).map(|field| (field.name, field.value))
    }

    fn all(&self) -> std::slice::Iter<'_, httparse::Header<'a>> {
        self.fields.iter()
    }

    /// The one field of a name.
    ///
    /// # Errors
    ///
    /// There are several that differ: the text has two of them.
    pub fn only(&self, name: &str) -> Result<Option<&'a [u8]>, String> {
        let mut of_name = self.all().filter(|field| field.name.eq_ignore_ascii_case(name));
        let first = of_name.next().map(|field| field.value);
        match of_name.find(|other| Some(other.value) != first) {
            None => Ok(first),
            Some(other) => Err(format!("{}, {}", lossy(first.unwrap_or_default()), lossy(other.value))),
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    const SHOWN: Range<usize> = 0..40;
    String::from_utf8_lossy(bytes.get(SHOWN).unwrap_or(bytes)).into_owned()
}

/// Parses a number that consists only of digits.
fn digits(bytes: &[u8]) -> Option<u64> {
    let is_number = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(bytes).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1000;

    #[test]
    fn the_end_is_found_however_the_head_is_cut() {
        for head in
            ["\n", "\r\n", "A: b\r\n\r\n", "A: b\n\n", "A: b\r\n\n", "A: b\n\r\n", "A: b\r\nC: d\n\r\n"]
        {
            let whole = format!("{head}body\n\n");
            for step in 1..whole.len() {
                let (mut scan, mut at) = (Scan::default(), 0);
                let found = loop {
                    at = (at + step).min(whole.len());
                    if let Some(end) = scan.find_end(&whole.as_bytes()[..at], MOST).unwrap() {
                        break end;
                    }
                };
                assert_eq!(found, head.len(), "{head:?} by {step}");
            }
        }
        assert_eq!(Scan::default().find_end(&[b'x'; MOST], MOST), Err(Malformed::TooLong(MOST)));
    }

    #[test]
    fn status_and_length_are_read() {
        let head =
            parse(b"status: 404 Not Found\r\nContent-Type: text/html\nContent-Length: 12\n\n").unwrap();
        assert_eq!((head.status, head.reason, head.length), (404, Some(&b"Not Found"[..]), Some(12)));
        assert_eq!(head.for_client().collect::<Vec<_>>(), [("Content-Type", &b"text/html"[..])]);
        assert_eq!(parse(b"Location: /x\n\n").unwrap().status, 302);
        assert_eq!(parse(b"Location: /x\nStatus: 201\n\n").unwrap().status, 201);
        assert_eq!(parse(b"A: b\n\n").unwrap().status, 200);
        for (line, reason) in [("404", None), ("404 ", None), ("404  Nothing  Here ", Some("Nothing  Here"))]
        {
            let line = format!("Status: {line}\n\n");
            assert_eq!(parse(line.as_bytes()).unwrap().reason, reason.map(str::as_bytes), "{line}");
        }
    }

    #[test]
    fn a_head_may_have_any_number_of_fields() {
        for empty in ["\n", "\r\n"] {
            let head = parse(empty.as_bytes()).unwrap();
            assert_eq!((head.status, head.length, head.for_client().count()), (200, None, 0));
        }
        let many = "A: b\n".repeat(10_000) + "Content-Length: 7\n\n";
        let head = parse(many.as_bytes()).unwrap();
        assert_eq!((head.length, head.for_client().count()), (Some(7), 10_000));
    }

    #[test]
    fn what_a_client_cannot_be_told_is_refused() {
        for status in ["100", "199 x", "600", "2000", "20", "", "abc", "200, 404", "200\nStatus: 404"] {
            let head = format!("Status: {status}\n\n");
            assert!(matches!(parse(head.as_bytes()), Err(Malformed::Status(_))), "{head}");
        }
        for length in ["-1", "1x", "", "99999999999999999999", "1\nContent-Length: 2"] {
            let head = format!("Content-Length: {length}\n\n");
            assert!(matches!(parse(head.as_bytes()), Err(Malformed::Length(_))), "{head}");
        }
        for line in ["no field", "A\0: b", "A: b\0", "A : b", ": b", " A: b", "HTTP/1.1 200 OK"] {
            let head = format!("X: y\n{line}\n\n");
            assert!(matches!(parse(head.as_bytes()), Err(Malformed::Field(_))), "{head}");
        }
        assert_eq!(parse(b"A: b\n").unwrap_err(), Malformed::CutShort);
        assert!(matches!(parse(b"\nStatus: 404\n\n"), Err(Malformed::Field(_))));
    }

    #[test]
    fn fields_about_the_connection_go_no_further() {
        let head =
            parse(b"Connection: close\nTransfer-Encoding: chunked\nX-Sendfile: /a\nSet-Cookie: a=b\n\n");
        let head = head.unwrap();
        assert_eq!(head.for_client().collect::<Vec<_>>(), [("Set-Cookie", &b"a=b"[..])]);
        assert_eq!(head.field("x-sendfile"), Some(&b"/a"[..]));
    }
}
