//! Request targets in origin-form, a path with its query (RFC 9112 section 3.2.1): which of them may be sent.

use std::fmt::Write as _;

/// Says what is wrong with a target.
///
/// # Errors
///
/// It does not begin with a slash, has a fragment, or has bytes that must be percent-encoded.
pub fn check(target: &str) -> Result<(), String> {
    if !target.starts_with('/') {
        return Err(format!("{target} is no path; allowed: a path that begins with /, such as /index.html"));
    }
    let mut rest = target.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b'#' => {
                return Err(format!(
                    "{target} has a fragment, which clients keep; leave out # and what follows"
                ));
            }
            b'%' if !is_escape(after) => {
                return Err(format!(
                    "{target} has a % without two hexadecimal digits; write % itself as %25"
                ));
            }
            _ if !is_plain(byte) && byte != b'%' => {
                // All before it is ASCII, so a character begins here; it is encoded as a whole.
                let character = target[target.len() - rest.len()..].chars().next().unwrap_or_default();
                let what = if character.is_ascii() {
                    format!("'{}'", character.escape_default())
                } else {
                    "a character beyond ASCII".to_owned()
                };
                let encoded = encode(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Err(format!("{target} has {what}, which must be percent-encoded ({encoded})"));
            }
            _ => rest = after,
        }
    }
    Ok(())
}

/// The same target as it may be sent: what must be percent-encoded is, and nothing else.
pub(crate) fn encode(target: &[u8]) -> String {
    let mut encoded = String::with_capacity(target.len());
    for (place, &byte) in target.iter().enumerate() {
        if is_plain(byte) || byte == b'%' && is_escape(&target[place + 1..]) {
            encoded.push(byte.into());
        } else {
            // Writing to a String can't fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn is_escape(after: &[u8]) -> bool {
    after.iter().take(2).filter(|byte| byte.is_ascii_hexdigit()).count() == 2
}

/// What stands for itself in a path or a query (RFC 3986 sections 3.3 and 3.4).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_paths_of_what_may_be_sent() {
        for right in ["/", "//", "/a?b?c=/d", "/%2f%C3%a4", "/-._~!$&'()*+,;=:@", "/?"] {
            assert_eq!(check(right), Ok(()), "{right}");
            assert_eq!(encode(right.as_bytes()), right);
        }
        for (wrong, told, encoded) in [
            ("", "is no path", ""),
            ("a/b", "is no path", "a/b"),
            ("?x", "is no path", "?x"),
            ("http://h/", "is no path", "http://h/"),
            ("/a#top", "has a fragment", "/a%23top"),
            ("/a b", "has ' ', which must be percent-encoded (%20)", "/a%20b"),
            ("/a?[|]", "has '[', which must be percent-encoded (%5B)", "/a?%5B%7C%5D"),
            ("/\"", "has '\\\"', which", "/%22"),
            ("/ä", "has a character beyond ASCII, which must be percent-encoded (%C3%A4)", "/%C3%A4"),
            ("/a/€/b", "percent-encoded (%E2%82%AC)", "/a/%E2%82%AC/b"),
            ("/%", "has a % without two", "/%25"),
            ("/%2", "has a % without two", "/%252"),
            ("/100%zz", "has a % without two", "/100%25zz"),
        ] {
            let error = check(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
            assert_eq!(encode(wrong.as_bytes()), encoded);
        }
    }
}
