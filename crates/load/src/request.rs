//! Requests as bytes, each different one made once before the run.

use std::io::Write as _;
use std::time::Duration;

use workload::session::{Request, SessionLog};

/// A request that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Head and body.
    pub(crate) bytes: Box<[u8]>,
    pub(crate) method: http1::Method<'static>,
    /// How long its whole reply may take; `None` leaves it to the run.
    pub(crate) timeout: Option<Duration>,
}

/// All requests of a log, in its order, for a server that is called `host`.
pub(crate) fn prepare(log: &SessionLog, host: &str, headers: &str) -> Vec<Prepared> {
    log.requests().iter().map(|request| one(request, host, headers)).collect()
}

/// Lines of the log come after those of the run, as they stand.
fn one(request: &Request, host: &str, headers: &str) -> Prepared {
    let method = request.method.name();
    let mut bytes = Vec::new();
    // Writing to a vector can't fail.
    let _ = write!(
        bytes,
        "{} {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: sluicelab\r\n{headers}{}",
        method, request.uri, request.headers
    );
    if let Some(contents) = &request.contents {
        let _ = write!(bytes, "Content-Length: {}\r\n", contents.len());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(request.contents.as_deref().unwrap_or_default());
    let method = http1::Method::from_name(method.as_bytes()).expect("what session files name is a token");
    Prepared { bytes: bytes.into(), method, timeout: request.timeout }
}

#[cfg(test)]
mod tests {
    use workload::session::{Builder, Method};

    use super::*;

    #[test]
    fn requests_are_written_whole() {
        let mut log = Builder::new();
        log.call(Request { uri: "/a".into(), ..Request::default() });
        log.call(Request {
            method: Method::Post,
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
        assert_eq!(
            (prepared[1].method, prepared[1].timeout),
            (http1::Method::Post, Some(Duration::from_secs(3)))
        );
    }
}
