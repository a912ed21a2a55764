//! Asking a running server for its status, for `sluice status`.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use super::snapshot::Snapshot;
use super::stream::Stream;
use super::{json, text};
use crate::config::StatusAddress;

/// The status could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Nobody there, or an answer that does not come or end.
    #[error("no status from {address}: {source}")]
    Io {
        /// Who was asked.
        address: StatusAddress,
        /// What happened.
        source: io::Error,
    },
    /// Something else answers there.
    #[error("{address} is no status endpoint of a sluice: it answered {answer}")]
    Other {
        /// Who was asked.
        address: StatusAddress,
        /// The first line of what came.
        answer: String,
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
    let answer =
        exchange(address, path).map_err(|source| FetchError::Io { address: address.clone(), source })?;
    let head_end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    match head_end {
        Some(end) if answer.starts_with(b"HTTP/1.1 200 ") => {
            Ok(String::from_utf8_lossy(&answer[end + 4..]).into_owned())
        }
        _ => {
            let line = answer.split(|&b| b == b'\r' || b == b'\n').next().unwrap_or_default();
            let line = line[..line.len().min(80)].escape_ascii();
            Err(FetchError::Other { address: address.clone(), answer: format!("`{line}`") })
        }
    }
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
        let answer = fetch(&self.address, Form::Json)?;
        let snapshot = json::read(answer.as_bytes())
            .map_err(|source| FetchError::Read { address: self.address.clone(), source })?;
        // Another process at the same address started to count anew.
        let earlier =
            self.earlier.take().filter(|earlier| earlier.started_unix_ms == snapshot.started_unix_ms);
        let text = text::render(&snapshot, earlier.as_ref());
        self.earlier = Some(snapshot);
        Ok(text)
    }
}

fn exchange(address: &StatusAddress, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = Stream::connect(address, PATIENCE)?;
    // In one piece: whoever answers to its beginning alone and closes would reset the connection at the next.
    let request = format!("GET {path} HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(answer)
}
