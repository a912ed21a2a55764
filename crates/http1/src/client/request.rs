//! Writes requests (RFC 9112 section 3).

use thiserror::Error;

use crate::Method;
use crate::syntax::{is_text, is_token};

/// Why a request cannot be written: the server would not receive the one message that was intended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// Empty, or has white space, control characters or bytes outside ASCII.
    #[error("request target has bytes that must be percent-encoded")]
    Target,
    /// White space, control characters or bytes outside ASCII.
    #[error("host has bytes that no host name has")]
    Host,
    /// Not a token (RFC 9110 section 5.6.2).
    #[error("field name is not a token")]
    FieldName,
    /// Control characters.
    #[error("field value has control characters")]
    FieldValue,
    /// Host, Content-Length or Transfer-Encoding; these are written from the other arguments.
    #[error("field is written from the request's own parts")]
    Reserved,
}

/// Appends a request to `to`: request line, Host, the given fields in order, Content-Length if there is a
/// body, and the body. On an error, nothing is appended.
///
/// `target` is sent unchanged, in any form (RFC 9112 section 3.2). A body of `Some(b"")` is announced as
/// `Content-Length: 0`, which POST and PUT should have (RFC 9110 section 8.6).
pub fn write_request(
    to: &mut Vec<u8>,
    method: Method<'_>,
    target: &str,
    host: &str,
    fields: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Result<(), RequestError> {
    check(target, host, fields)?;
    for part in [method.name(), " ", target, " HTTP/1.1\r\nHost: ", host, "\r\n"] {
        to.extend_from_slice(part.as_bytes());
    }
    for (name, value) in fields {
        for part in [name, ": ", value, "\r\n"] {
            to.extend_from_slice(part.as_bytes());
        }
    }
    if let Some(body) = body {
        to.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    to.extend_from_slice(b"\r\n");
    to.extend_from_slice(body.unwrap_or_default());
    Ok(())
}

fn check(target: &str, host: &str, fields: &[(&str, &str)]) -> Result<(), RequestError> {
    let is_graphic = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
    if target.is_empty() || !is_graphic(target) {
        return Err(RequestError::Target);
    }
    if !is_graphic(host) {
        return Err(RequestError::Host);
    }
    for (name, value) in fields {
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(RequestError::FieldName);
        }
        if !value.bytes().all(is_text) {
            return Err(RequestError::FieldValue);
        }
        if ["host", "content-length", "transfer-encoding"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(RequestError::Reserved);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(target: &str, host: &str, fields: &[(&str, &str)]) -> Result<String, RequestError> {
        let mut to = Vec::new();
        let result = write_request(&mut to, Method::Get, target, host, fields, None);
        assert!(result.is_ok() || to.is_empty());
        result.map(|()| String::from_utf8(to).unwrap())
    }

    #[test]
    fn a_request_is_appended() {
        let mut to = b"before".to_vec();
        let fields = [("Accept", "*/*"), ("Connection", "close")];
        write_request(&mut to, Method::Post, "/a?b", "h:80", &fields, Some(b"body")).unwrap();
        let expected = "beforePOST /a?b HTTP/1.1\r\nHost: h:80\r\nAccept: */*\r\nConnection: close\r\n\
                        Content-Length: 4\r\n\r\nbody";
        assert_eq!(to, expected.as_bytes());
        assert_eq!(written("/", "", &[]).unwrap(), "GET / HTTP/1.1\r\nHost: \r\n\r\n");
    }

    #[test]
    fn nothing_can_be_smuggled_in() {
        for target in ["", "/a b", "/\r\nX: y", "/\u{e9}", "/\0"] {
            assert_eq!(written(target, "h", &[]), Err(RequestError::Target), "{target:?}");
        }
        assert_eq!(written("/", "h\r\nX: y", &[]), Err(RequestError::Host));
        for name in ["", "a b", "a:", "a\r\n", "\u{e9}"] {
            assert_eq!(written("/", "h", &[(name, "v")]), Err(RequestError::FieldName), "{name:?}");
        }
        assert_eq!(written("/", "h", &[("a", "v\r\nX: y")]), Err(RequestError::FieldValue));
        for name in ["content-length", "Transfer-Encoding", "HOST"] {
            assert_eq!(written("/", "h", &[(name, "1")]), Err(RequestError::Reserved), "{name}");
        }
    }
}
