//! The header lines that every reply carries and that change only with the second: Server and Date.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use crate::Status;

/// `Server: NAME` and `Date: ...` (RFC 9110 sections 10.2.4 and 6.6.1), made once per second and copied into
/// replies.
#[derive(Clone, Debug)]
pub struct Stamp {
    unix_secs: u64,
    date_at: usize,
    /// The status line of nearly every reply, and these lines.
    lines: String,
}

impl Stamp {
    /// The lines for that second. An empty `server` leaves the Server line out.
    pub fn new(server: &str, unix_secs: u64) -> Self {
        let mut lines = String::with_capacity(128);
        lines.push_str(Status::OK_LINE);
        if !server.is_empty() {
            let _ = write!(lines, "Server: {server}\r\n");
        }
        let date_at = lines.len();
        let mut stamp = Self { unix_secs, date_at, lines };
        stamp.write_date();
        stamp
    }

    /// Remakes the date if the second has changed.
    #[inline]
    pub fn update(&mut self, unix_secs: u64) {
        if unix_secs != self.unix_secs {
            self.unix_secs = unix_secs;
            self.write_date();
        }
    }

    /// The second that the Date line names, since the Unix epoch.
    pub fn unix_secs(&self) -> u64 {
        self.unix_secs
    }

    /// Both lines, each with its line end.
    pub fn lines(&self) -> &[u8] {
        &self.lines.as_bytes()[Status::OK_LINE.len()..]
    }

    /// Both lines behind the status line of a 200, so that nearly every head begins with one copy.
    #[inline]
    pub(crate) fn ok_and_lines(&self) -> &[u8] {
        self.lines.as_bytes()
    }

    fn write_date(&mut self) {
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(self.unix_secs);
        self.lines.truncate(self.date_at);
        // Writing to a String cannot fail, and the room is kept from second to second.
        let _ = write!(self.lines, "Date: {}\r\n", httpdate::HttpDate::from(date));
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
    }
}
