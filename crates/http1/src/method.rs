//! Request methods (RFC 9110 section 9, RFC 5789).

use crate::syntax;

/// A request's method. Methods are an open registry, not a closed list (RFC 9110 section 9.1). The
/// methods that HTTP itself defines have names here, and any other token is a method as well. Names are
/// case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'a> {
    /// Transfer the current representation.
    Get,
    /// Like GET, but without the content (RFC 9110 section 9.3.2).
    Head,
    /// Process the request's content.
    Post,
    /// Replace the representation.
    Put,
    /// Remove the resource.
    Delete,
    /// Establish a tunnel.
    Connect,
    /// Describe the options for the target.
    Options,
    /// Loop the request back.
    Trace,
    /// Modify in part (RFC 5789).
    Patch,
    /// Any other token, such as PROPFIND (RFC 4918). Made by [`from_name`](Self::from_name).
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// The longest accepted name. The longest registered name has 17 bytes.
    pub const MAX_LENGTH: usize = 64;

    /// Whether a request is known to have the same effect, however often it is sent (RFC 9110 section
    /// 9.2.2). `false` for methods not defined by HTTP itself, as only the application knows their
    /// effect.
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace)
    }

    /// The method of that name. `None`: not a token, or longer than [`MAX_LENGTH`](Self::MAX_LENGTH).
    pub fn from_name(name: &'a [u8]) -> Option<Self> {
        Some(match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => return Self::other(name),
        })
    }

    fn other(name: &'a [u8]) -> Option<Self> {
        let is_one =
            (1..=Self::MAX_LENGTH).contains(&name.len()) && name.iter().all(|&b| syntax::is_token(b));
        str::from_utf8(name).ok().filter(|_| is_one).map(Self::Other)
    }

    /// The name as it was sent.
    pub fn name(self) -> &'a str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Other(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_token_is_a_method(
            name in "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}",
            other in "[ \"(),/:;<=>?@\\[\\]{}\r\u{e9}]",
        ) {
            prop_assert_eq!(Method::from_name(name.as_bytes()).map(Method::name), Some(name.as_str()));
            let name = format!("{name}{other}");
            prop_assert_eq!(Method::from_name(name.as_bytes()), None);
        }
    }

    #[test]
    fn names_have_a_bound_and_repeating_is_for_few() {
        assert_eq!(Method::from_name(b""), None);
        assert_eq!(Method::from_name(&[b'A'; Method::MAX_LENGTH + 1]), None);
        assert_eq!(Method::from_name(b"GET"), Some(Method::Get));
        assert_eq!(Method::from_name(b"get"), Some(Method::Other("get")));
        let repeated = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
        let others = ["POST", "CONNECT", "PATCH", "PROPFIND", "LOCK", "MOVE", "get"];
        for name in repeated.iter().chain(&others) {
            let method = Method::from_name(name.as_bytes()).unwrap();
            assert_eq!(method.is_idempotent(), repeated.contains(name), "{name}");
        }
    }
}
