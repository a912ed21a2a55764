//! Status codes (RFC 9110 section 15) and their status lines.

/// A three-digit status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub u16);

/// The registered codes (RFC 9110 section 16.2), and the well-known 418. Each has its status line with
/// the reason phrase.
const KNOWN: &[(u16, &str)] = &[
    (100, "HTTP/1.1 100 Continue\r\n"),
    (101, "HTTP/1.1 101 Switching Protocols\r\n"),
    (102, "HTTP/1.1 102 Processing\r\n"),
    (103, "HTTP/1.1 103 Early Hints\r\n"),
    (200, "HTTP/1.1 200 OK\r\n"),
    (201, "HTTP/1.1 201 Created\r\n"),
    (202, "HTTP/1.1 202 Accepted\r\n"),
    (203, "HTTP/1.1 203 Non-Authoritative Information\r\n"),
    (204, "HTTP/1.1 204 No Content\r\n"),
    (205, "HTTP/1.1 205 Reset Content\r\n"),
    (206, "HTTP/1.1 206 Partial Content\r\n"),
    (207, "HTTP/1.1 207 Multi-Status\r\n"),
    (208, "HTTP/1.1 208 Already Reported\r\n"),
    (226, "HTTP/1.1 226 IM Used\r\n"),
    (300, "HTTP/1.1 300 Multiple Choices\r\n"),
    (301, "HTTP/1.1 301 Moved Permanently\r\n"),
    (302, "HTTP/1.1 302 Found\r\n"),
    (303, "HTTP/1.1 303 See Other\r\n"),
    (304, "HTTP/1.1 304 Not Modified\r\n"),
    (305, "HTTP/1.1 305 Use Proxy\r\n"),
    (307, "HTTP/1.1 307 Temporary Redirect\r\n"),
    (308, "HTTP/1.1 308 Permanent Redirect\r\n"),
    (400, "HTTP/1.1 400 Bad Request\r\n"),
    (401, "HTTP/1.1 401 Unauthorized\r\n"),
    (402, "HTTP/1.1 402 Payment Required\r\n"),
    (403, "HTTP/1.1 403 Forbidden\r\n"),
    (404, "HTTP/1.1 404 Not Found\r\n"),
    (405, "HTTP/1.1 405 Method Not Allowed\r\n"),
    (406, "HTTP/1.1 406 Not Acceptable\r\n"),
    (407, "HTTP/1.1 407 Proxy Authentication Required\r\n"),
    (408, "HTTP/1.1 408 Request Timeout\r\n"),
    (409, "HTTP/1.1 409 Conflict\r\n"),
    (410, "HTTP/1.1 410 Gone\r\n"),
    (411, "HTTP/1.1 411 Length Required\r\n"),
    (412, "HTTP/1.1 412 Precondition Failed\r\n"),
    (413, "HTTP/1.1 413 Content Too Large\r\n"),
    (414, "HTTP/1.1 414 URI Too Long\r\n"),
    (415, "HTTP/1.1 415 Unsupported Media Type\r\n"),
    (416, "HTTP/1.1 416 Range Not Satisfiable\r\n"),
    (417, "HTTP/1.1 417 Expectation Failed\r\n"),
    (418, "HTTP/1.1 418 I'm a teapot\r\n"),
    (421, "HTTP/1.1 421 Misdirected Request\r\n"),
    (422, "HTTP/1.1 422 Unprocessable Content\r\n"),
    (423, "HTTP/1.1 423 Locked\r\n"),
    (424, "HTTP/1.1 424 Failed Dependency\r\n"),
    (425, "HTTP/1.1 425 Too Early\r\n"),
    (426, "HTTP/1.1 426 Upgrade Required\r\n"),
    (428, "HTTP/1.1 428 Precondition Required\r\n"),
    (429, "HTTP/1.1 429 Too Many Requests\r\n"),
    (431, "HTTP/1.1 431 Request Header Fields Too Large\r\n"),
    (451, "HTTP/1.1 451 Unavailable For Legal Reasons\r\n"),
    (500, "HTTP/1.1 500 Internal Server Error\r\n"),
    (501, "HTTP/1.1 501 Not Implemented\r\n"),
    (502, "HTTP/1.1 502 Bad Gateway\r\n"),
    (503, "HTTP/1.1 503 Service Unavailable\r\n"),
    (504, "HTTP/1.1 504 Gateway Timeout\r\n"),
    (505, "HTTP/1.1 505 HTTP Version Not Supported\r\n"),
    (506, "HTTP/1.1 506 Variant Also Negotiates\r\n"),
    (507, "HTTP/1.1 507 Insufficient Storage\r\n"),
    (508, "HTTP/1.1 508 Loop Detected\r\n"),
    (510, "HTTP/1.1 510 Not Extended\r\n"),
    (511, "HTTP/1.1 511 Network Authentication Required\r\n"),
];

#[expect(missing_docs, reason = "each constant is the registered name of its code")]
impl Status {
    pub const SWITCHING_PROTOCOLS: Self = Self(101);
    pub const OK: Self = Self(200);
    pub const NO_CONTENT: Self = Self(204);
    pub const PARTIAL_CONTENT: Self = Self(206);
    pub const MOVED_PERMANENTLY: Self = Self(301);
    pub const NOT_MODIFIED: Self = Self(304);
    pub const PERMANENT_REDIRECT: Self = Self(308);
    pub const BAD_REQUEST: Self = Self(400);
    pub const FORBIDDEN: Self = Self(403);
    pub const NOT_FOUND: Self = Self(404);
    pub const METHOD_NOT_ALLOWED: Self = Self(405);
    pub const REQUEST_TIMEOUT: Self = Self(408);
    pub const PRECONDITION_FAILED: Self = Self(412);
    pub const CONTENT_TOO_LARGE: Self = Self(413);
    pub const URI_TOO_LONG: Self = Self(414);
    pub const RANGE_NOT_SATISFIABLE: Self = Self(416);
    pub const EXPECTATION_FAILED: Self = Self(417);
    pub const MISDIRECTED_REQUEST: Self = Self(421);
    pub const HEADER_FIELDS_TOO_LARGE: Self = Self(431);
    pub const INTERNAL_SERVER_ERROR: Self = Self(500);
    pub const NOT_IMPLEMENTED: Self = Self(501);
    pub const BAD_GATEWAY: Self = Self(502);
    pub const SERVICE_UNAVAILABLE: Self = Self(503);
    pub const GATEWAY_TIMEOUT: Self = Self(504);
    pub const VERSION_NOT_SUPPORTED: Self = Self(505);

    /// The codes that this server sends, in ascending order.
    pub const SENT: [Self; 24] = [
        Self::OK,
        Self::NO_CONTENT,
        Self::PARTIAL_CONTENT,
        Self::MOVED_PERMANENTLY,
        Self::NOT_MODIFIED,
        Self::PERMANENT_REDIRECT,
        Self::BAD_REQUEST,
        Self::FORBIDDEN,
        Self::NOT_FOUND,
        Self::METHOD_NOT_ALLOWED,
        Self::REQUEST_TIMEOUT,
        Self::PRECONDITION_FAILED,
        Self::CONTENT_TOO_LARGE,
        Self::URI_TOO_LONG,
        Self::RANGE_NOT_SATISFIABLE,
        Self::EXPECTATION_FAILED,
        Self::MISDIRECTED_REQUEST,
        Self::HEADER_FIELDS_TOO_LARGE,
        Self::INTERNAL_SERVER_ERROR,
        Self::NOT_IMPLEMENTED,
        Self::BAD_GATEWAY,
        Self::SERVICE_UNAVAILABLE,
        Self::GATEWAY_TIMEOUT,
        Self::VERSION_NOT_SUPPORTED,
    ];
}

impl Status {
    /// The status line of a 200, including its line end.
    pub(crate) const OK_LINE: &str = "HTTP/1.1 200 OK\r\n";

    /// The reason phrase; empty for unknown codes.
    pub fn reason(self) -> &'static str {
        self.known_line().map_or("", |line| &line["HTTP/1.1 200 ".len()..line.len() - 2])
    }

    /// Whether a reply with this status has no content, whatever the method (RFC 9110 sections 15.3.5 and
    /// 15.4.5).
    pub fn is_bodiless(self) -> bool {
        matches!(self.0, 204 | 304) || self.0 < 200
    }

    /// Appends the status line, including its line end.
    pub(crate) fn write_line(self, to: &mut Vec<u8>) {
        if let Some(line) = self.known_line() {
            to.extend_from_slice(line.as_bytes());
        } else {
            to.extend_from_slice(format!("HTTP/1.1 {} \r\n", self.0).as_bytes());
        }
    }

    /// Appends the status line with an application's reason phrase, including its line end.
    pub(crate) fn write_line_with(self, reason: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(format!("HTTP/1.1 {} ", self.0).as_bytes());
        to.extend_from_slice(reason);
        to.extend_from_slice(b"\r\n");
    }

    fn known_line(self) -> Option<&'static str> {
        KNOWN.binary_search_by_key(&self.0, |(code, _)| *code).ok().map(|i| KNOWN[i].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_and_well_formed() {
        assert!(KNOWN.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (code, line) in KNOWN {
            assert!(line.starts_with(&format!("HTTP/1.1 {code} ")) && line.ends_with("\r\n"), "{line}");
        }
        assert_eq!(Status::NOT_FOUND.reason(), "Not Found");
        for code in [201, 202, 205, 207, 401, 418, 423, 451, 507] {
            assert_ne!(Status(code).reason(), "", "{code}");
        }
        assert_eq!(Status::OK.known_line(), Some(Status::OK_LINE));
        assert_eq!(Status(299).reason(), "");
    }

    #[test]
    fn unknown_codes_still_make_a_status_line() {
        let mut line = Vec::new();
        Status(299).write_line(&mut line);
        assert_eq!(line, b"HTTP/1.1 299 \r\n");
    }
}
