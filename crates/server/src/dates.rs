//! Formats times in forms other than HTTP's.

use std::time::{Duration, UNIX_EPOCH};

/// `2026-11-20T10:00:00Z` (RFC 3339), until the end of the year 9999.
pub fn rfc3339(unix_secs: u64) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const LAST_SECOND_OF_9999: u64 = 253_402_300_799;
    let time = UNIX_EPOCH + Duration::from_secs(unix_secs.min(LAST_SECOND_OF_9999));
    // Rearranges `Fri, 20 Nov 2026 10:00:00 GMT`.
    let date = httpdate::fmt_http_date(time);
    let (day, month, year, clock) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
    let number = MONTHS.find(month).map_or(0, |at| at / 3) + 1;
    format!("{year}-{number:02}-{day}T{clock}Z")
}

/// `2026-11-20` (RFC 3339). Times before 1970 are shown as its first day.
pub fn date(unix_secs: i64) -> String {
    let mut text = rfc3339(u64::try_from(unix_secs).unwrap_or(0));
    text.truncate("2026-11-20".len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        for (unix_secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_500_000_000, "2017-07-14T02:40:00Z"),
            (1_606_780_799, "2020-11-30T23:59:59Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(unix_secs), text);
            assert_eq!(date(unix_secs.try_into().unwrap_or(i64::MAX)), text[..10]);
        }
    }
}
