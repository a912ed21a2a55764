//! TLS on one connection.
//!
//! Records come from the socket into room that all connections of a thread share. rustls decrypts them, and
//! what they contain goes to the room where plain bytes would have been received. Nothing decrypted stays
//! behind in rustls. An idle connection holds rustls's state and its room for one record, up to 18 KiB.

use std::fmt;
use std::io::{self, IoSlice, Read as _, Write};
use std::mem;
use std::os::fd::OwnedFd;

use rustls::{ClientConnection, ProtocolVersion};
use sys::socket::{self, Slice};

use super::names::{Version, cipher_name, group_name};
use super::reasons::{failure, told};
use crate::received::Received;
use crate::record::{Agreed, Established, Handshake, HandshakeKind, Nanos};

/// Bytes of records received at a time: two of the largest.
pub(crate) const RECORDS: usize = 32 << 10;
/// The most that a record contains (RFC 8446 section 5.1).
const MAX_CONTENT: usize = 1 << 14;
/// The largest record: its head, its content, and what TLS 1.2 may add (RFC 5246 section 6.2.3).
const MAX_RECORD: usize = 5 + MAX_CONTENT + 2048;
/// The most that is decrypted at a time: what is received, behind a part of a record.
pub(crate) const MOST_DECRYPTED: usize = RECORDS + MAX_RECORD;

/// TLS on one connection.
pub(crate) struct Tls {
    state: ClientConnection,
    /// Bytes of a request that are encrypted, and may not all be with the kernel yet.
    sealed: usize,
    established: Option<Established>,
    end: Option<End>,
    /// The run ends before it does.
    cut_off: bool,
}

/// Why nothing more is received.
#[derive(Debug)]
enum End {
    /// The server said so (`close_notify`).
    Closed,
    /// The server closed the connection without a word: what came may lack its end (RFC 8446 section 6.1).
    Cut,
    /// TLS failed, for this reason.
    Failed(String),
}

impl Tls {
    /// A handshake that begins.
    pub(super) fn new(state: ClientConnection) -> Self {
        Self { state, sealed: 0, established: None, end: None, cut_off: false }
    }

    /// How it was established, once it is.
    pub(crate) fn established(&self) -> Option<Established> {
        self.established
    }

    /// Notes that the handshake is over, if it is. True only the first time.
    pub(crate) fn note_established(&mut self, now: Nanos) -> bool {
        if self.established.is_some() || self.state.is_handshaking() {
            return false;
        }
        let kind = match self.state.handshake_kind() {
            Some(rustls::HandshakeKind::Resumed) => HandshakeKind::Resumed,
            Some(rustls::HandshakeKind::FullWithHelloRetryRequest) => HandshakeKind::FullAfterRetry,
            Some(rustls::HandshakeKind::Full) | None => HandshakeKind::Full,
        };
        let is_new = self.state.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let version = if is_new { Version::V13 } else { Version::V12 };
        let cipher = self.state.negotiated_cipher_suite();
        let group = self.state.negotiated_key_exchange_group();
        let agreed = Agreed {
            version: version.name(),
            cipher: cipher.map_or("unknown", |cipher| cipher_name(cipher.suite())),
            group: group.map(|group| group_name(group.name())),
        };
        self.established = Some(Established { at: now, kind, agreed });
        true
    }

    /// Whether the server closed the connection without saying that this was all.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self.end, Some(End::Cut))
    }

    /// Receives records by way of `records` ([`RECORDS`] bytes), and decrypts them into `room`
    /// ([`MOST_DECRYPTED`] bytes at least). Answers that TLS itself has for the server are sent.
    ///
    /// # Errors
    ///
    /// Those of recv(2). `InvalidData`, with a reason in words: TLS has failed. What came before is told
    /// first.
    pub(crate) fn receive(
        &mut self,
        socket: &OwnedFd,
        records: &mut [u8],
        room: &mut [u8],
    ) -> io::Result<Received> {
        debug_assert!(records.len() <= RECORDS && room.len() >= MOST_DECRYPTED);
        if self.end.is_some() {
            return self.ended();
        }
        let received = socket::recv(socket, records)?;
        if received == 0 {
            self.end = Some(End::Cut);
            return self.ended();
        }
        let count = self.open(&records[..received], room);
        match self.push(socket) {
            Err(error) if count == 0 && self.end.is_none() && error.kind() != io::ErrorKind::WouldBlock => {
                return Err(error);
            }
            // The next call on the socket tells of it.
            _ => {}
        }
        if count == 0 && self.end.is_some() {
            return self.ended();
        }
        let drained = received < records.len() && self.end.is_none();
        Ok(Received { count, end: false, drained })
    }

    fn ended(&self) -> io::Result<Received> {
        match &self.end {
            Some(End::Failed(reason)) => Err(failure(reason.clone())),
            _ => Ok(Received { count: 0, end: true, drained: true }),
        }
    }

    /// Decrypts records into `room`; how many bytes that are.
    fn open(&mut self, mut records: &[u8], room: &mut [u8]) -> usize {
        let mut count = 0;
        while !records.is_empty() && self.end.is_none() {
            let understood = match self.state.read_tls(&mut records) {
                Ok(1..) => self.state.process_new_packets().map_err(|error| told(&error)),
                Ok(0) => Err("a message is too long".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            // What was decrypted before an error or an end counts. That there is nothing is no error here.
            count += self.state.reader().read(&mut room[count..]).unwrap_or(0);
            match understood {
                Ok(state) if state.peer_has_closed() => self.end = Some(End::Closed),
                Ok(_) => {}
                Err(reason) => self.end = Some(End::Failed(reason)),
            }
        }
        count
    }

    /// Encrypts the next bytes of a request, as much as a record holds; how many those are. None, while those
    /// before are not with the kernel. [`flush`](Self::flush) sends them.
    pub(crate) fn seal(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.sealed > 0 {
            return Ok(0);
        }
        let content = &bytes[..bytes.len().min(MAX_CONTENT)];
        self.sealed = self.state.writer().write(content).map_err(|error| failure(error.to_string()))?;
        Ok(self.sealed)
    }

    /// Sends all that is encrypted; how many bytes of the request that completes.
    ///
    /// # Errors
    ///
    /// Those of send(2). After `WouldBlock` it is to be called again.
    pub(crate) fn flush(&mut self, socket: &OwnedFd) -> io::Result<usize> {
        self.push(socket)?;
        Ok(mem::take(&mut self.sealed))
    }

    /// Sends what there is of records, as far as there is room.
    pub(crate) fn push(&mut self, socket: &OwnedFd) -> io::Result<()> {
        while self.state.wants_write() {
            self.state.write_tls(&mut Sender(socket))?;
        }
        Ok(())
    }

    /// The end of the run is what ends it.
    pub(crate) fn cut_off(&mut self) {
        self.cut_off = true;
    }

    /// Tells the server that nothing more comes (RFC 8446 section 6.1), if it still listens and there is
    /// room. Returns what came of the handshake.
    pub(crate) fn close(&mut self, socket: &OwnedFd) -> Handshake {
        match self.established {
            None if self.cut_off => Handshake::Unfinished,
            None => Handshake::Failed,
            Some(established) => {
                if self.end.is_none() {
                    self.state.send_close_notify();
                    // The connection is closed whatever comes of it.
                    let _ = self.push(socket);
                }
                Handshake::Done(established)
            }
        }
    }
}

impl fmt::Debug for Tls {
    /// Without keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state: _, sealed, established, end, cut_off } = self;
        let mut told = formatter.debug_struct("Tls");
        told.field("sealed", sealed)
            .field("established", established)
            .field("end", end)
            .field("cut_off", cut_off);
        told.finish_non_exhaustive()
    }
}

/// Where rustls writes records to.
struct Sender<'a>(&'a OwnedFd);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(self.0, bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match slices {
            [one] => socket::send(self.0, one),
            // The end of a handshake is in several pieces.
            several => {
                let slices: Vec<Slice<'_>> = several.iter().map(|slice| Slice::new(slice)).collect();
                socket::send_slices(self.0, &slices)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
