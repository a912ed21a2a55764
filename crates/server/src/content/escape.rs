//! Percent escapes in references that we make (RFC 3986).

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, PercentEncode, percent_encode};

/// What a segment of a path may not hold as it is (RFC 3986 section 3.3), and colons, which would make a
/// scheme of what is before them.
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

/// What no query may hold as it is (RFC 3986 section 3.4). Nothing but percent signs is added to it, so
/// escapes stay what they are. Bytes beyond ASCII are escaped in any case.
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

/// The name of a file, as it stands in a reference.
pub(super) fn name(name: &[u8]) -> PercentEncode<'_> {
    percent_encode(name, OUTSIDE_NAMES)
}

/// A decoded path as it stands in a reference.
pub(super) fn path(path: &[u8]) -> PercentEncode<'_> {
    const OUTSIDE_PATHS: &AsciiSet = &OUTSIDE_NAMES.remove(b'/');
    percent_encode(path, OUTSIDE_PATHS)
}

/// A query, escaped where it should have been.
pub(super) fn query(query: &[u8]) -> PercentEncode<'_> {
    percent_encode(query, OUTSIDE_QUERIES)
}
