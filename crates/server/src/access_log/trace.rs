//! The field `traceparent` (W3C Trace Context, section 3.2), which connects the requests that several
//! servers handle for one original request.

/// The version, trace, parent and flags of a value, if it is well-formed. Additions of later versions are
/// removed.
pub(super) fn well_formed(value: &[u8]) -> Option<&[u8]> {
    const LENGTH: usize = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00".len();
    let (parent, more) = value.split_at_checked(LENGTH)?;
    let is_part = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_set = |part: &[u8]| is_part(part) && part.iter().any(|&byte| byte != b'0');
    let mut parts = parent.split(|&byte| byte == b'-');
    let mut next = |length: usize| parts.next().filter(|part| part.len() == length);
    let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
    let is_whole = match version {
        b"ff" => false,
        b"00" => more.is_empty(),
        _ => more.first().is_none_or(|&byte| byte == b'-'),
    };
    (is_whole && is_part(version) && is_set(trace) && is_set(span) && is_part(flags)).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_the_standard_has_is_well_formed() {
        assert_eq!(well_formed(GOOD.as_bytes()), Some(GOOD.as_bytes()));
        let later = GOOD.replacen("00", "cc", 1);
        for more in ["", "-", "-what-comes-later \""] {
            assert_eq!(well_formed(format!("{later}{more}").as_bytes()), Some(later.as_bytes()));
        }
    }

    #[test]
    fn anything_else_is_not() {
        for (from, to) in [
            ("00-", "ff-"),
            ("00-", "0-"),
            ("00-", "0G-"),
            ("00-4bf9", "004bf9"),
            ("4bf92f", "4BF92F"),
            ("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            ("00f067aa0ba902b7", "0000000000000000"),
            ("-00f0", "00-f0"),
            ("-01", ""),
            ("-01", "-0g"),
            ("-01", "-01-more"),
            ("-01", "-01 "),
            ("-01", "-001"),
        ] {
            let bad = GOOD.replacen(from, to, 1);
            assert_ne!(bad, GOOD);
            assert_eq!(well_formed(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(well_formed(b""), None);
    }
}
