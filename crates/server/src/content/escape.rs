//! Percent escapes in references that the server makes (RFC 3986).

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, PercentEncode, percent_encode};

/// What a path segment may not contain unescaped (RFC 3986 section 3.3). Colons are added, as the text
/// before a colon could be taken for a scheme.
const OUTSIDE_NAMES: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// What no query may contain unescaped (RFC 3986 section 3.4). Percent signs are not escaped, so existing
/// escapes stay as they are. Bytes beyond ASCII are always escaped.
const OUTSIDE_QUERIES: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The name of a file, escaped for a reference.
pub(super) fn name(name: &[u8]) -> PercentEncode<'_> {
    percent_encode(name, OUTSIDE_NAMES)
}

/// A decoded path, escaped for a reference.
pub(super) fn path(path: &[u8]) -> PercentEncode<'_> {
    const OUTSIDE_PATHS: &AsciiSet = &OUTSIDE_NAMES.remove(b'/');
    percent_encode(path, OUTSIDE_PATHS)
}

/// A query, with the escapes that it should have had.
pub(super) fn query(query: &[u8]) -> PercentEncode<'_> {
    percent_encode(query, OUTSIDE_QUERIES)
}
