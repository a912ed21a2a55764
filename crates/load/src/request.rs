//! Requests as bytes, each different one made once before the run.

use std::io::Write as _;
use std::time::Duration;

use workload::fields;
use workload::session::{Method, Request, SessionLog};

/// A request that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Head and body.
    pub(crate) bytes: Box<[u8]>,
    /// What its reply's length depends on.
    pub(crate) is_head: bool,
    /// Whether it may be sent again after a connection ended without its reply.
    pub(crate) is_idempotent: bool,
    /// How long its whole reply may take; `None` leaves it to the run.
    pub(crate) timeout: Option<Duration>,
}

/// All requests of a log, in its order, for a server that is called `host`.
pub(crate) fn prepare(log: &SessionLog, host: &str, headers: &str) -> Vec<Prepared> {
    log.requests().iter().map(|request| one(request, host, headers)).collect()
}

fn one(request: &Request, host: &str, headers: &str) -> Prepared {
    let Request { method, uri, contents, timeout, .. } = request;
    let mut bytes = Vec::new();
    // Writing to a vector can't fail.
    let _ = write!(bytes, "{} {uri} HTTP/1.1\r\n", method.name());
    let (host, agent) = (format!("Host: {host}"), "User-Agent: sluicelab".to_owned());
    for line in merged(&[host, agent], headers, &request.headers) {
        let _ = write!(bytes, "{line}\r\n");
    }
    let length = contents.as_ref().map(|contents| contents.len());
    if let Some(length) = length.or(method.expects_contents().then_some(0)) {
        let _ = write!(bytes, "Content-Length: {length}\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(contents.as_deref().unwrap_or_default());
    let is_idempotent =
        http1::Method::from_name(method.name().as_bytes()).is_some_and(http1::Method::is_idempotent);
    Prepared { bytes: bytes.into(), is_head: *method == Method::HEAD, is_idempotent, timeout: *timeout }
}

/// Ours, the run's lines and the request's own, in this order. Of a field that may stand once only, the last
/// stands in the place of the first: servers refuse two Host lines (RFC 9112 section 3.2).
fn merged<'a>(ours: &'a [String; 2], headers: &'a str, own: &'a str) -> Vec<&'a str> {
    let name = |line: &'a str| line.split_once(':').map_or(line, |(name, _)| name);
    let mut lines: Vec<&str> = Vec::new();
    for line in ours.iter().map(String::as_str).chain(headers.lines()).chain(own.lines()) {
        let same = |other: &&mut &'a str| name(other).eq_ignore_ascii_case(name(line));
        match lines.iter_mut().find(same).filter(|_| fields::is_single(name(line))) {
            Some(other) => *other = line,
            None => lines.push(line),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use workload::session::Builder;

    use super::*;

    #[test]
    fn requests_are_written_whole() {
        let mut log = Builder::new();
        log.call(Request { uri: "/a".into(), ..Request::default() });
        log.call(Request {
            method: Method::POST,
            uri: "/b?c".into(),
            headers: "X-A: 1\r\n".into(),
            contents: Some(b"body".as_slice().into()),
            timeout: Some(Duration::from_secs(3)),
        });
        let prepared = prepare(&log.finish(), "h:80", "Accept: */*\r\n");
        assert_eq!(
            *prepared[0].bytes,
            *b"GET /a HTTP/1.1\r\nHost: h:80\r\nUser-Agent: sluicelab\r\nAccept: */*\r\n\r\n"
        );
        let second = "POST /b?c HTTP/1.1\r\nHost: h:80\r\nUser-Agent: sluicelab\r\nAccept: */*\r\nX-A: 1\r\n\
                      Content-Length: 4\r\n\r\nbody";
        assert_eq!(*prepared[1].bytes, *second.as_bytes());
        let told = |one: &Prepared| (one.is_head, one.is_idempotent, one.timeout);
        assert_eq!(told(&prepared[0]), (false, true, None));
        assert_eq!(told(&prepared[1]), (false, false, Some(Duration::from_secs(3))));
    }

    fn head(method: &str, headers: &str, own: &str) -> String {
        let method = method.parse().unwrap();
        let request = Request { method, uri: "/".into(), headers: own.into(), ..Request::default() };
        String::from_utf8(one(&request, "h", headers).bytes.into()).unwrap()
    }

    #[test]
    fn a_line_stands_instead_of_ours_where_only_one_may() {
        assert_eq!(
            head("GET", "host: x\r\nAccept: a\r\nuser-agent: u\r\n", "Accept: b\r\nHOST: y\r\nRange: r\r\n"),
            "GET / HTTP/1.1\r\nHOST: y\r\nuser-agent: u\r\nAccept: a\r\nAccept: b\r\nRange: r\r\n\r\n"
        );
    }

    #[test]
    fn methods_that_expect_a_body_say_that_there_is_none() {
        for method in ["POST", "PUT", "PATCH"] {
            assert!(head(method, "", "").ends_with("\r\nContent-Length: 0\r\n\r\n"), "{method}");
        }
        for method in ["GET", "HEAD", "DELETE", "OPTIONS", "PROPFIND", "patch"] {
            assert!(!head(method, "", "").contains("Content-Length"), "{method}");
        }
    }
}
