//! The byte classes of HTTP's grammar that several modules ask for.

/// A byte of a token, such as a field name (RFC 9110 section 5.6.2).
pub(crate) const fn is_token(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'z' | b'|' | b'~')
        || byte.is_ascii_digit()
        || byte.is_ascii_uppercase()
}

/// A byte that field values and quoted strings may hold: HTAB, SP, VCHAR, obs-text (RFC 9110 section 5.5).
pub(crate) fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The class of each byte in a request line and in Host, as a set of the flags below.
static CLASSES: [u8; 256] = classes();

/// A byte of a token: see [`is_token`].
pub(crate) const TOKEN: u8 = 8;
/// May begin a request: a token, or the line end of an empty line before it (RFC 9112 section 2.2).
pub(crate) const BEGINS: u8 = 1;
/// May stand in a host with a port (RFC 9110 section 7.2): no user information, no path.
pub(crate) const AUTHORITY: u8 = 2;
/// May stand in a path or query: printable, no fragment (RFC 9112 section 3.2).
pub(crate) const TARGET: u8 = 4;

/// Whether a byte is of a class.
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
            || matches!(
                byte,
                b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'
                    ..=b',' | b';' | b'=' | b'%' | b':' | b'[' | b']'
            )
        {
            classes[at] |= AUTHORITY;
        }
        if byte > b' ' && byte < 0x7f && byte != b'#' {
            classes[at] |= TARGET;
        }
        at += 1;
    }
    classes
}
