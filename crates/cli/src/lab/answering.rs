//! A connection on which one of the lab's own programs answers requests over HTTP: the back-end simulator, or
//! the application with a set time.

use std::borrow::Cow;
use std::io::{self, BufRead as _, BufReader, IoSlice, Read as _, Write as _};
use std::net::TcpStream;

/// Longest head of a request.
const HEAD: u64 = 8 << 10;

/// Serves a client until it ends the connection, or sends what is not understood. `answer` returns the status
/// and the body for the target of a request.
pub(super) fn serve<'a>(client: TcpStream, answer: impl Fn(&str) -> (u16, Cow<'a, [u8]>)) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client);
    while let Some(request) = read(&mut reader)? {
        let (keeps, (status, body)) = match request {
            Request::Get { target, keeps } => (keeps, answer(&target)),
            Request::Other => {
                (false, (400, b"not understood; allowed: HTTP GET without a body\n"[..].into()))
            }
        };
        write(reader.get_mut(), status, &body, keeps)?;
        if !keeps {
            break;
        }
    }
    Ok(())
}

fn write(client: &mut TcpStream, status: u16, body: &[u8], keeps: bool) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        404 => "Not Found",
        _ => "Bad Request",
    };
    let connection = if keeps { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: {connection}\r\n\r\n",
        body.len()
    );
    // In one packet, if it is short.
    let sent = client.write_vectored(&[IoSlice::new(head.as_bytes()), IoSlice::new(body)])?;
    client.write_all(head.as_bytes().get(sent..).unwrap_or_default())?;
    client.write_all(&body[sent.saturating_sub(head.len())..])
}

/// A request.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Get { target: String, keeps: bool },
    Other,
}

/// The next request; `None` where the client has closed.
fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    let mut limited = reader.take(HEAD);
    loop {
        let before = head.len();
        if limited.read_until(b'\n', &mut head)? == 0 {
            return Ok((before > 0).then_some(Request::Other));
        }
        if matches!(&head[before..], b"\r\n" | b"\n") {
            return Ok(Some(understood(&head)));
        }
    }
}

fn understood(head: &[u8]) -> Request {
    let Ok(text) = str::from_utf8(head) else { return Request::Other };
    let mut lines = text.lines();
    let words: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else { return Request::Other };
    let fields: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
    let has = |wanted: &str| fields.iter().any(|field| field.0.eq_ignore_ascii_case(wanted));
    let says = |word: &str| {
        let is_it = |field: &(&str, &str)| {
            field.0.eq_ignore_ascii_case("connection") && field.1.trim().eq_ignore_ascii_case(word)
        };
        fields.iter().any(is_it)
    };
    if method != "GET" || has("content-length") || has("transfer-encoding") {
        return Request::Other;
    }
    let keeps = match version {
        "HTTP/1.1" => !says("close"),
        "HTTP/1.0" => says("keep-alive"),
        _ => return Request::Other,
    };
    Request::Get { target: target.to_owned(), keeps }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood_or_refused() {
        let get = |keeps| Request::Get { target: "/categories".to_owned(), keeps };
        for (head, request) in [
            ("GET /categories HTTP/1.1\r\nHost: a\r\n\r\n", get(true)),
            ("GET /categories HTTP/1.1\r\nConnection: Close\r\n\r\n", get(false)),
            ("GET /categories HTTP/1.0\r\n\r\n", get(false)),
            ("GET /categories HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", get(true)),
            ("GET /categories HTTP/2\r\n\r\n", Request::Other),
            ("GET /categories HTTP/1.1\r\nContent-Length: 3\r\n\r\n", Request::Other),
            ("POST /categories HTTP/1.1\r\n\r\n", Request::Other),
            ("GET /a b HTTP/1.1\r\n\r\n", Request::Other),
            ("\r\n", Request::Other),
        ] {
            assert_eq!(understood(head.as_bytes()), request, "{head:?}");
        }
        assert_eq!(understood(b"GET /\xff HTTP/1.1\r\n\r\n"), Request::Other);
    }
}
