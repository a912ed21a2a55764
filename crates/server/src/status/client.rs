//! Asks a running server for its status, for `sluice status`.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use http1::client::{self, Event, ReplyError};
use http1::{Method, Status};
use results::status::Snapshot;

use super::stream::Stream;
use super::{json, text};
use crate::config::StatusAddress;

/// The status could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No server listens there.
    #[error(
        "no status from {address}: {source}\nthe server must be told to serve it there: `sluice serve \
         --status {address}`, or `status = \"{address}\"` in its file"
    )]
    Nobody {
        /// The address that was asked.
        address: StatusAddress,
        /// The error.
        source: io::Error,
    },
    /// The answer did not come, or did not end.
    #[error("no status from {address}: {source}")]
    Io {
        /// The address that was asked.
        address: StatusAddress,
        /// The error.
        source: io::Error,
    },
    /// The answer is not HTTP, or is incomplete.
    #[error("{address} is no status endpoint: {source}")]
    Reply {
        /// The address that was asked.
        address: StatusAddress,
        /// What is wrong with the answer.
        source: ReplyError,
    },
    /// The server refused.
    #[error("{address} is no status endpoint: it answered {} {}", status.0, status.reason())]
    Refused {
        /// The address that was asked.
        address: StatusAddress,
        /// The status of the answer.
        status: Status,
    },
    /// The answer is not a snapshot.
    #[error("{address}: {source}")]
    Read {
        /// The address that was asked.
        address: StatusAddress,
        /// What is wrong with the answer.
        source: json::ReadError,
    },
}

/// The format in which the status is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// How long an answer may take. The server's own census takes up to 100 ms.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest accepted answer. Every status is shorter.
const LONGEST: u64 = 16 << 20;

/// Fetches the status as the server writes it.
///
/// # Errors
///
/// See [`FetchError`].
pub fn fetch(address: &StatusAddress, form: Form) -> Result<String, FetchError> {
    let path = match form {
        Form::Text => "/",
        Form::Json => "/json",
    };
    let address = || address.clone();
    let answer = exchange(&address(), path).map_err(|source| match source.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            FetchError::Nobody { address: address(), source }
        }
        _ => FetchError::Io { address: address(), source },
    })?;
    let reply = read_reply(&answer).map_err(|source| FetchError::Reply { address: address(), source })?;
    match reply {
        (Status::OK, body) => Ok(String::from_utf8_lossy(&body).into_owned()),
        (status, _) => Err(FetchError::Refused { address: address(), status }),
    }
}

/// Fetches the status as a [`Snapshot`], for further processing.
///
/// # Errors
///
/// See [`FetchError`].
pub fn snapshot(address: &StatusAddress) -> Result<Snapshot, FetchError> {
    let answer = fetch(address, Form::Json)?;
    json::read(answer.as_bytes()).map_err(|source| FetchError::Read { address: address.clone(), source })
}

/// Fetches the status repeatedly, to show what happens in between.
#[derive(Debug)]
pub struct Watch {
    address: StatusAddress,
    earlier: Option<Snapshot>,
}

impl Watch {
    /// Watches the server whose status endpoint is at `address`.
    pub fn new(address: StatusAddress) -> Self {
        Self { address, earlier: None }
    }

    /// The status as text. From the second call on, it includes rates per second since the previous call.
    ///
    /// # Errors
    ///
    /// See [`FetchError`].
    pub fn refresh(&mut self) -> Result<String, FetchError> {
        let snapshot = snapshot(&self.address)?;
        // If another process now serves this address, its counters started again from zero.
        let earlier =
            self.earlier.take().filter(|earlier| earlier.started_unix_ms == snapshot.started_unix_ms);
        let text = text::render(&snapshot, earlier.as_ref());
        self.earlier = Some(snapshot);
        Ok(text)
    }
}

/// Sends a request in one piece, and receives until the server closes.
fn exchange(address: &StatusAddress, path: &str) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    // The endpoint always answers for `localhost`. Its own address may be a wildcard, for which it does
    // not answer.
    let host = "localhost";
    client::write_request(&mut request, Method::Get, path, host, &[("Connection", "close")], None)
        .map_err(io::Error::other)?;
    let mut stream = Stream::connect(address, TIMEOUT)?;
    stream.write_all(&request)?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The status and the body of the single reply.
fn read_reply(mut answer: &[u8]) -> Result<(Status, Vec<u8>), ReplyError> {
    let mut connection = client::Connection::new();
    connection.sent_request(Method::Get).map_err(|_| ReplyError::Unexpected)?;
    let (mut status, mut body) = (Status::INTERNAL_SERVER_ERROR, Vec::new());
    loop {
        let (used, event) = connection.receive(answer, true)?;
        match event {
            Event::Interim(_) => {}
            Event::Head(head) => status = head.status,
            Event::Body(range) => body.extend_from_slice(&answer[range]),
            Event::EndOfReply { .. } => return Ok((status, body)),
            Event::NeedInput | Event::Closed => return Err(ReplyError::CutShort),
        }
        answer = &answer[used..];
    }
}
