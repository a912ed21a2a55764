//! The header lines of every reply that change only once a second: Server and Date.

use std::io::Write;
use std::time::{Duration, SystemTime};

use crate::Status;

/// The longest server name that is allowed here, in bytes.
const LONGEST_NAME: usize = 16;

/// Room for the longest lines. All of it is copied: a copy of constant length costs less than one that
/// must first determine the length.
const ROOM: usize = Status::OK_LINE.len() + "Server: \r\n".len() + LONGEST_NAME + DATE_LINE;
const DATE_LINE: usize = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".len();

/// `Server: NAME` and `Date: ...` (RFC 9110 sections 10.2.4 and 6.6.1), formatted once per second and
/// copied into replies.
#[derive(Clone, Debug)]
pub struct Stamp {
    unix_secs: u64,
    /// The status line of nearly every reply, then these lines.
    lines: [u8; ROOM],
    date_at: usize,
    /// A line that follows them.
    more: Box<[u8]>,
}

impl Stamp {
    /// The lines for that second. Leaves out the Server line if `server` is empty or has more than 16
    /// bytes.
    pub fn new(server: &str, unix_secs: u64) -> Self {
        let server = if server.len() <= LONGEST_NAME { server } else { "" };
        let mut lines = [0; ROOM];
        let mut room = &mut lines[..];
        let server = if server.is_empty() { String::new() } else { format!("Server: {server}\r\n") };
        // There is room for the longest name, so this cannot fail.
        let _ = write!(room, "{}{server}", Status::OK_LINE);
        let date_at = ROOM - room.len();
        let mut stamp = Self { unix_secs, lines, date_at, more: Box::default() };
        stamp.write_date();
        stamp
    }

    /// With another field line, which has its line end.
    #[must_use]
    pub fn with_line(self, line: &str) -> Self {
        Self { more: line.as_bytes().into(), ..self }
    }

    /// Formats the date again if the second has changed.
    #[inline]
    pub fn update(&mut self, unix_secs: u64) {
        if unix_secs != self.unix_secs {
            self.unix_secs = unix_secs;
            self.write_date();
        }
    }

    /// The second of the Date line, since the Unix epoch.
    pub fn unix_secs(&self) -> u64 {
        self.unix_secs
    }

    /// Both lines, each with its line end.
    pub fn lines(&self) -> &[u8] {
        &self.lines[Status::OK_LINE.len()..self.end()]
    }

    /// Continues a head with all lines.
    pub(crate) fn go_on(&self, head: &mut Vec<u8>) {
        head.extend_from_slice(self.lines());
        self.add_more(head);
    }

    /// Begins a head with the status line of a 200 and these lines.
    #[inline]
    pub(crate) fn begin_ok(&self, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.lines);
        head.truncate(self.end());
        if !self.more.is_empty() {
            self.add_more(head);
        }
    }

    #[cold]
    fn add_more(&self, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.more);
    }

    fn end(&self) -> usize {
        self.date_at + DATE_LINE
    }

    #[cold]
    fn write_date(&mut self) {
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(self.unix_secs);
        // There is room, as all dates have the same length.
        let _ = write!(&mut self.lines[self.date_at..], "Date: {}\r\n", httpdate::HttpDate::from(date));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_follows_the_second() {
        let mut stamp = Stamp::new("sluice", 784_111_777);
        assert_eq!(stamp.lines(), b"Server: sluice\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
        stamp.update(784_111_778);
        assert_eq!(stamp.lines(), b"Server: sluice\r\nDate: Sun, 06 Nov 1994 08:49:38 GMT\r\n");
        assert_eq!(Stamp::new("", 0).lines(), b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
        let (mut ok, mut other) = (Vec::new(), Vec::new());
        let stamp = stamp.with_line("A: b\r\n");
        stamp.begin_ok(&mut ok);
        stamp.go_on(&mut other);
        assert!(ok.ends_with(b" GMT\r\nA: b\r\n") && other == ok[Status::OK_LINE.len()..]);
    }

    #[test]
    fn a_head_begins_with_what_there_is_and_no_more() {
        for (server, line) in [
            ("", ""),
            ("s", "Server: s\r\n"),
            ("sixteen-letters!", "Server: sixteen-letters!\r\n"),
            ("seventeen-letters", ""),
        ] {
            let mut head = Vec::new();
            Stamp::new(server, 784_111_777).begin_ok(&mut head);
            let expected = format!("HTTP/1.1 200 OK\r\n{line}Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
            assert_eq!(String::from_utf8(head).unwrap(), expected);
        }
    }
}
