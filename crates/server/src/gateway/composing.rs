//! A reply that names files in its body (`X-ZeroCopy`), collected until it is complete. Only then are its
//! length and the files that it may send known.
//!
//! The bytes beside the names are kept in memory, so their number is bounded. A reply whose larger part
//! is not in files should name none.

use fastcgi::response;
use fastcgi::zero_copy::{self, Place};
use http1::Status;

use super::failure::Failure;
use super::send_files::SendFiles;
use crate::content::{Composed, Part, SiteNumber};

/// A reply that names files, as far as it has come.
#[derive(Debug)]
pub(super) struct Composing {
    places: Vec<Place>,
    /// The Content-Length of the body as it comes, with the names in it.
    promised: Option<u64>,
    status: Status,
    reason: Option<Box<[u8]>>,
    /// The header lines that are for the client.
    lines: Vec<u8>,
    body: Vec<u8>,
}

/// The field with the positions of the names.
const FIELD: &str = "X-ZeroCopy";
/// Most bytes of a body with file names in it.
const MOST_BODY: usize = 256 << 10;

impl Composing {
    /// Begins to collect a reply, if its head has that field.
    ///
    /// # Errors
    ///
    /// The field cannot be understood.
    pub(super) fn new(head: &response::Head<'_>) -> Result<Option<Self>, Failure> {
        let value = match head.only(FIELD) {
            Ok(None) => return Ok(None),
            Ok(Some(value)) => value,
            Err(several) => return Err(Failure::Places(several)),
        };
        let places = zero_copy::parse(value)
            .ok_or_else(|| Failure::Places(String::from_utf8_lossy(value).chars().take(80).collect()))?;
        let mut lines = Vec::new();
        for (name, value) in head.for_client() {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
        }
        let (promised, status, reason) = (head.length, Status(head.status), head.reason.map(Into::into));
        Ok(Some(Self { places, promised, status, reason, lines, body: Vec::new() }))
    }

    /// Takes more of the body. Returns whether any of the bytes belong to it.
    ///
    /// # Errors
    ///
    /// The body is too long.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let room =
            self.promised.map_or(usize::MAX, |promised| promised as usize).saturating_sub(self.body.len());
        // Bytes beyond the promised length belong to no reply.
        let bytes = &bytes[..bytes.len().min(room)];
        if self.body.len() + bytes.len() > MOST_BODY {
            return Err(Failure::TooMuchBeside(MOST_BODY));
        }
        self.body.extend_from_slice(bytes);
        Ok(!bytes.is_empty())
    }

    /// Whether as many bytes have come as the reply has promised.
    pub(super) fn has_all_promised(&self) -> bool {
        self.promised == Some(self.body.len() as u64)
    }

    /// Bytes of the body in memory.
    pub(super) fn in_memory(&self) -> usize {
        self.body.capacity()
    }

    /// All of the reply has come. Returns what to send to the client, which has asked the site `asked`,
    /// with or without wanting a body.
    ///
    /// # Errors
    ///
    /// The reply is not as announced, or a file may not be sent.
    pub(super) fn end(
        self,
        files: &SendFiles,
        asked: SiteNumber,
        is_body_asked: bool,
    ) -> Result<Composed, Failure> {
        let Self { places, promised, status, reason, lines, body } = self;
        if body.is_empty() && !is_body_asked {
            return Ok(Composed { asked, status, reason, lines, body, parts: Vec::new(), is_whole: false });
        }
        if promised.is_some_and(|promised| promised != body.len() as u64) {
            return Err(Failure::Short);
        }
        let part = |part| -> Result<Part, Failure> {
            Ok(match part {
                zero_copy::Part::Bytes(range) => Part::Bytes(range),
                zero_copy::Part::File(name, Place { from, count, .. }) => {
                    let (directory, path) = files.literal(FIELD, &body[name])?;
                    Part::File { directory, path, from, count }
                }
            })
        };
        let parts = zero_copy::parts(&places, body.len()).ok_or(Failure::NoName)?;
        let parts = parts.into_iter().map(part).collect::<Result<_, _>>()?;
        Ok(Composed { asked, status, reason, lines, body, parts, is_whole: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PoolRule;

    fn composed(head: &str, body: &str, is_body_asked: bool) -> Result<Composed, String> {
        let send_files = [("/protected/".to_owned(), "/srv".into())].into();
        let files = SendFiles::new(&PoolRule { send_files, ..PoolRule::default() }, 7);
        let head = format!("{head}\r\n\r\n");
        let compose = || {
            let mut composing = Composing::new(&response::parse(head.as_bytes()).unwrap())?.unwrap();
            let (first, second) = body.as_bytes().split_at(body.len() / 2);
            composing.take(first)?;
            composing.take(second)?;
            composing.end(&files, 3, is_body_asked)
        };
        compose().map_err(|failure: Failure| failure.to_string())
    }

    #[test]
    fn names_are_replaced_by_files_below_the_pools_directories() {
        let head =
            "Status: 203\r\nContent-Type: text/plain\r\nX-ZeroCopy: 5/6:16/6/3/2\r\nContent-Length: 23";
        let reply = composed(head, "hello/srv/aworld/srv/b!, and what is nobody's", true).unwrap();
        assert!(reply.is_whole && reply.asked == 3 && reply.status == Status(203));
        assert_eq!(reply.lines, b"Content-Type: text/plain\r\n");
        let told = |part: &Part| match part {
            Part::Bytes(range) => String::from_utf8(reply.body[range.clone()].to_vec()).unwrap(),
            Part::File { directory, path, from, count } => {
                format!("{directory}{} {from} {count:?}", str::from_utf8(path).unwrap())
            }
        };
        let told: Vec<_> = reply.parts.iter().map(told).collect();
        assert_eq!(told, ["hello", "7/a 0 None", "world", "7/b 3 Some(2)", "!"]);
    }

    #[test]
    fn what_is_not_as_it_says_is_refused() {
        let long = "x".repeat(MOST_BODY + 1);
        for (head, body, told) in [
            ("X-ZeroCopy: 0/6x", "/srv/a", "0/6x"),
            ("X-ZeroCopy: 0/6\r\nX-ZeroCopy: 8/6", "/srv/a", "0/6, 8/6"),
            ("X-ZeroCopy: 0/7", "/srv/a", "ends before"),
            ("X-ZeroCopy: 0/6\r\nContent-Length: 7", "/srv/a", "shorter"),
            ("X-ZeroCopy: 0/6", "/etc/a", "X-ZeroCopy: /etc/a, which is below none"),
            ("X-ZeroCopy: 0/9", "/srv/../a", "below none"),
            ("X-ZeroCopy: 0/5", "srv/a", "below none"),
            ("X-ZeroCopy: 0/1", &long, "262144 bytes"),
        ] {
            let error = composed(head, body, true).unwrap_err();
            assert!(error.contains(told), "{head}: {error}");
        }
    }

    #[test]
    fn who_is_asked_for_the_head_alone_may_leave_the_body_out() {
        assert!(!composed("X-ZeroCopy: 0/6", "", false).unwrap().is_whole);
        assert!(composed("X-ZeroCopy: 0/6", "/srv/a", false).unwrap().is_whole);
        assert!(composed("X-ZeroCopy: 0/6", "", true).is_err());
    }
}
