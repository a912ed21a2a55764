//! Asking a running server for its status, for `sluice status`.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use http1::client::{self, Event, ReplyError};
use http1::{Method, Status};
use results::status::Snapshot;

use super::stream::Stream;
use super::{json, text};
use crate::config::StatusAddress;

/// The status could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Nobody is there.
    #[error(
        "no status from {address}: {source}\na server does where it is told to: \
         `sluice serve --status {address}`, or `status = \"{address}\"` in its file"
    )]
    Nobody {
        /// Who was asked.
        address: StatusAddress,
        /// What happened.
        source: io::Error,
    },
    /// An answer that does not come or end.
    #[error("no status from {address}: {source}")]
    Io {
        /// Who was asked.
        address: StatusAddress,
        /// What happened.
        source: io::Error,
    },
    /// It does not answer in HTTP, or not to the end.
    #[error("{address} is no status endpoint: {source}")]
    Reply {
        /// Who was asked.
        address: StatusAddress,
        /// What is wrong with the answer.
        source: ReplyError,
    },
    /// It refuses.
    #[error("{address} is no status endpoint: it answered {} {}", status.0, status.reason())]
    Refused {
        /// Who was asked.
        address: StatusAddress,
        /// What it answered.
        status: Status,
    },
    /// It answered, but with something else than a snapshot.
    #[error("{address}: {source}")]
    Read {
        /// Who was asked.
        address: StatusAddress,
        /// What is wrong with it.
        source: json::ReadError,
    },
}

/// In which form the status is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// How long an answer may take: the server's own census takes up to 100 ms.
const PATIENCE: Duration = Duration::from_secs(5);

/// No status is as long as this.
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

/// Fetches the status, to be worked with.
///
/// # Errors
///
/// See [`FetchError`].
pub fn snapshot(address: &StatusAddress) -> Result<Snapshot, FetchError> {
    let answer = fetch(address, Form::Json)?;
    json::read(answer.as_bytes()).map_err(|source| FetchError::Read { address: address.clone(), source })
}

/// Fetches the status again and again, to show what happens in between.
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

    /// The status as text, from the second time on with rates per second since the time before.
    ///
    /// # Errors
    ///
    /// See [`FetchError`].
    pub fn refresh(&mut self) -> Result<String, FetchError> {
        let snapshot = snapshot(&self.address)?;
        // Another process at the same address started to count anew.
        let earlier =
            self.earlier.take().filter(|earlier| earlier.started_unix_ms == snapshot.started_unix_ms);
        let text = text::render(&snapshot, earlier.as_ref());
        self.earlier = Some(snapshot);
        Ok(text)
    }
}

/// Sends a request, all of it in one piece, and receives until the server closes.
fn exchange(address: &StatusAddress, path: &str) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    // The endpoint always answers for this one. Its own address may be a wildcard, for which it does not.
    let host = "localhost";
    client::write_request(&mut request, Method::Get, path, host, &[("Connection", "close")], None)
        .map_err(io::Error::other)?;
    let mut stream = Stream::connect(address, PATIENCE)?;
    stream.write_all(&request)?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The status and the body of the only reply.
fn read_reply(mut answer: &[u8]) -> Result<(Status, Vec<u8>), ReplyError> {
    let mut connection = client::Connection::new();
    connection.sent_request(Method::Get).map_err(|_| ReplyError::Unexpected)?;
    let (mut status, mut body) = (Status::INTERNAL_SERVER_ERROR, Vec::new());
    loop {
        let (used, event) = connection.receive(answer, true)?;
        match event {
            Event::Head(head) => status = head.status,
            Event::Body(range) => body.extend_from_slice(&answer[range]),
            Event::EndOfReply { .. } => return Ok((status, body)),
            Event::NeedInput | Event::Closed => return Err(ReplyError::CutShort),
        }
        answer = &answer[used..];
    }
}
