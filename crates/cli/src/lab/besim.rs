//! `sluicelab besim`: the back-end simulator that the pages of the Support workload query over HTTP.
//! docs/besim.md has its protocol; the crate `workload` computes the answers.
//!
//! A few threads serve one connection after the other. An answer takes microseconds, and the pages close
//! their connections, so no client waits for long. A connection that is silent for a second is closed.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use workload::besim::{Answer, answer};

use super::{BadInput, tell};

/// The options of the simulator.
#[derive(Args)]
pub(crate) struct Options {
    /// Where to listen; port 0 picks a free port, which is printed
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,

    /// Number of connections served at a time
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
}

/// How long a client may be silent.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Longest head of a request.
const HEAD: u64 = 8 << 10;

/// Serves for as long as the process lives.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let listener = TcpListener::bind(options.listen)
        .map_err(|error| BadInput(format!("--listen {}: {error}", options.listen)))?;
    tell(&format!("listening on http://{}/ (besim)", listener.local_addr()?));
    thread::scope(|scope| {
        for _ in 1..options.threads {
            thread::Builder::new()
                .spawn_scoped(scope, || attend(&listener))
                .context("cannot start a thread")?;
        }
        attend(&listener);
        Ok(ExitCode::SUCCESS)
    })
}

/// Serves one connection after the other.
fn attend(listener: &TcpListener) {
    for client in listener.incoming() {
        match client {
            // A client that disconnects is no error.
            Ok(client) => drop(serve(client)),
            // There may be no descriptors for a while.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn serve(client: TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(TIMEOUT))?;
    client.set_write_timeout(Some(TIMEOUT))?;
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client);
    while let Some(request) = read(&mut reader)? {
        let (status, keeps, text) = match request {
            Request::Get { target, keeps } => {
                let Answer { status, text } = answer(&target);
                (status, keeps, text)
            }
            Request::Other => (400, false, "not understood; allowed: HTTP GET without a body\n".to_owned()),
        };
        let reason = match status {
            200 => "OK",
            404 => "Not Found",
            _ => "Bad Request",
        };
        let connection = if keeps { "keep-alive" } else { "close" };
        let reply = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
             Connection: {connection}\r\n\r\n{text}",
            text.len()
        );
        reader.get_mut().write_all(reply.as_bytes())?;
        if !keeps {
            break;
        }
    }
    Ok(())
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
