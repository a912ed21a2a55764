//! HTTP dates (RFC 9110 section 5.6.7) as whole seconds since the Unix epoch.
//!
//! The `httpdate` crate reads and writes the formats. This module converts to plain numbers and fixed
//! arrays, which file times and cached header lines use.

use std::io::Write;
use std::time::{Duration, SystemTime};

/// Bytes in an IMF-fixdate.
pub const HTTP_DATE_LEN: usize = 29;

/// The last second with a four-digit year: 9999-12-31 23:59:59.
const LAST_SECOND: u64 = 253_402_300_799;

/// The IMF-fixdate of a second since the Unix epoch, such as `Sun, 06 Nov 1994 08:49:37 GMT`. A second
/// after the year 9999 gives the last one of that year.
pub fn format_http_date(unix_secs: u64) -> [u8; HTTP_DATE_LEN] {
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(unix_secs.min(LAST_SECOND));
    let mut text = [b' '; HTTP_DATE_LEN];
    // The date fills the array exactly, so writing cannot fail.
    let _ = write!(&mut text[..], "{}", httpdate::HttpDate::from(date));
    text
}

/// The second of a date, since the Unix epoch. Reads the three formats that a recipient must accept
/// (IMF-fixdate, RFC 850, asctime). `None`: not a date, or a date before 1970.
///
/// A two-digit year, as in RFC 850, means 1970 to 2069. There is no clock here to determine the century.
/// This rule gives the same result as one with a clock, as long as files are dated after 1970.
pub fn parse_http_date(text: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    date.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_all_three_formats() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_http_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse_http_date(b"Thursday, 01-Jan-26 00:00:00 GMT"), Some(1_767_225_600));
    }

    #[test]
    fn refuses_what_is_not_a_date() {
        for text in [
            "",
            "0",
            "784111777",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sat, 01 Jan 0000 00:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse_http_date(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_http_date(b"Sun, 06 Nov 1994 08:49:37 GM\xff"), None);
    }

    #[test]
    fn the_ends_of_time_can_be_written() {
        assert_eq!(&format_http_date(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&format_http_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(unix_secs in 0..=LAST_SECOND) {
            prop_assert_eq!(parse_http_date(&format_http_date(unix_secs)), Some(unix_secs));
        }

        #[test]
        fn nothing_panics(text in prop::collection::vec(any::<u8>(), 0..40), at in 0usize..29, byte: u8) {
            parse_http_date(&text);
            let mut damaged = format_http_date(784_111_777);
            damaged[at] = byte;
            parse_http_date(&damaged);
        }
    }
}
