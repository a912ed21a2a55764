//! The byte classes of HTTP's grammar that several modules ask for.

/// A byte of a token, such as a field name (RFC 9110 section 5.6.2).
pub(crate) fn is_token(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'z' | b'|' | b'~')
        || byte.is_ascii_digit()
        || byte.is_ascii_uppercase()
}

/// A byte that field values and quoted strings may hold: HTAB, SP, VCHAR, obs-text (RFC 9110 section 5.5).
pub(crate) fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}
