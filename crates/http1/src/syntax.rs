//! The byte classes of HTTP's grammar that several modules use.

/// A byte of a token, such as a field name (RFC 9110 section 5.6.2).
pub(crate) const fn is_token(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'z' | b'|' | b'~')
        || byte.is_ascii_digit()
        || byte.is_ascii_uppercase()
}

/// How many bytes at the beginning may be in a field value or a quoted string: see [`is_text`].
///
/// Checks eight bytes at a time. If a byte is below 0x20, subtracting 0x20 sets its top bit. A byte is
/// 0x7f if its XOR with 0x7f is zero. A borrow can only falsify the result for bytes after one that was
/// found correctly.
#[inline]
pub(crate) fn text_length(bytes: &[u8]) -> usize {
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = LOW << 7;
    let mut at = 0;
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let eight = u64::from_le_bytes(*eight);
        let unlike_del = eight ^ (LOW * 0x7f);
        let controls = eight.wrapping_sub(LOW * 0x20) & !eight;
        let found = (controls | (unlike_del.wrapping_sub(LOW) & !unlike_del)) & HIGH;
        at += found.trailing_zeros() as usize / 8;
        if found != 0 {
            if bytes[at] != b'\t' {
                return at;
            }
            at += 1;
        }
    }
    bytes[at..].iter().position(|&byte| !is_text(byte)).map_or(bytes.len(), |stop| at + stop)
}

/// A byte that may be in field values and quoted strings: HTAB, SP, VCHAR, obs-text (RFC 9110 section
/// 5.5).
pub(crate) fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The classes of each byte in a request line and in Host, as a set of the flags below.
static CLASSES: [u8; 256] = classes();

/// A byte of a token: see [`is_token`].
pub(crate) const TOKEN: u8 = 8;
/// May begin a request: a token, or the line end of an empty line before it (RFC 9112 section 2.2).
pub(crate) const BEGINS: u8 = 1;
/// May be in a host name unescaped: unreserved, or a sub-delimiter (RFC 3986 section 3.2.2).
pub(crate) const HOST: u8 = 2;
/// May be in a path or query: not a control, a space or the beginning of a fragment (RFC 9112 section
/// 3.2). Many such bytes should have been percent-encoded (RFC 3986). But clients send them unencoded,
/// and they cannot be mistaken for anything else.
pub(crate) const TARGET: u8 = 4;

/// May be in a path: [`TARGET`] except the question mark.
pub(crate) const PATH: u8 = 16;
/// May be in a path, and needs no decoding: [`PATH`] except the percent sign.
pub(crate) const PLAIN_PATH: u8 = 32;

/// How many bytes at the beginning are of a class. Checks eight bytes before it tests for the end of the
/// input. Half the instructions of a request used to be spent here.
#[inline]
pub(crate) fn length(bytes: &[u8], class: u8) -> usize {
    let (eights, rest) = bytes.as_chunks::<8>();
    for (number, eight) in eights.iter().enumerate() {
        if let Some(stop) = eight.iter().position(|&byte| !is(byte, class)) {
            return 8 * number + stop;
        }
    }
    let stop = rest.iter().position(|&byte| !is(byte, class)).unwrap_or(rest.len());
    bytes.len() - rest.len() + stop
}

/// Whether a byte belongs to a class.
#[inline]
pub(crate) fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut at = 0;
    while at < classes.len() {
        let byte = at as u8;
        if is_token(byte) {
            classes[at] |= TOKEN;
        }
        if is_token(byte) || byte == b'\r' {
            classes[at] |= BEGINS;
        }
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'..=b',' | b';' | b'=')
        {
            classes[at] |= HOST;
        }
        if byte > b' ' && byte != 0x7f && byte != b'#' {
            classes[at] |= match byte {
                b'?' => TARGET,
                b'%' => TARGET | PATH,
                _ => TARGET | PATH | PLAIN_PATH,
            };
        }
        at += 1;
    }
    classes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_ends_where_the_first_other_byte_is(bytes: Vec<u8>, text in "[ -~\t\u{80}-\u{ff}]{0,40}") {
            for bytes in [&bytes, &[text.as_bytes(), &bytes].concat()] {
                let expected = bytes.iter().position(|&byte| !is_text(byte)).unwrap_or(bytes.len());
                prop_assert_eq!(text_length(bytes), expected);
            }
        }

        #[test]
        fn a_class_ends_where_the_first_other_byte_is(bytes: Vec<u8>, word in "[a-z]{0,20}") {
            for bytes in [&bytes, &[word.as_bytes(), &bytes].concat()] {
                for class in [TOKEN, BEGINS, HOST, TARGET, PATH, PLAIN_PATH] {
                    let expected = bytes.iter().position(|&byte| !is(byte, class)).unwrap_or(bytes.len());
                    prop_assert_eq!(length(bytes, class), expected);
                }
            }
        }
    }
}
