//! Records that extend FastCGI, so that replies can take a shorter way:
//!
//! - The web server passes a client's socket to the application (*pass-fd*).
//! - A piece of the reply is in memory that both ends share (*shared memory*).
//! - The application waits for its next request.
//!
//! The first two are from Yeung's thesis (2010, sections 2.2.3 and 3.2); the record formats are our own.
//!
//! The records use types from 128 on, which FastCGI does not define. A web server sends them only to an
//! application that has announced them. When a connection is up, the web server asks for the value of
//! [`QUESTION`] with `GET_VALUES` (FastCGI 1.0, section 4.1). An application that supports no transport
//! leaves it out of its answer.
//!
//! ```text
//! web server                                        application
//!
//! GET_VALUES: SLUICE_TRANSPORTS                 ->
//!                                               <-  GET_VALUES_RESULT: "pass-fd shared-memory waits"
//! AREA (with a sealed memory file)              ->                                   | once, shared memory
//!
//! BEGIN_REQUEST, LEND (with the client), PARAMS, STDIN ->                            | pass-fd
//!                                               <-  RETURN, END_REQUEST              |
//!
//! BEGIN_REQUEST, PARAMS, STDIN                  ->                                   | shared memory
//!                                               <-  FILLED, FILLED, ... END_REQUEST  |
//! FREE, FREE, ...                               ->                                   |
//!
//!                                               <-  WAITS                            | between requests
//! ```
//!
//! **Pass-fd.** `LEND` comes after `BEGIN_REQUEST` and before the parameters end. The client's socket goes
//! with one of its bytes (`SCM_RIGHTS`, unix(7)). Until `RETURN` the application owns the client, and sends
//! the whole HTTP reply. It closes its descriptor before it sends `RETURN`. If the web server must see the
//! reply, the application does not use the client: it sends `RETURN` with nothing sent, before its first
//! `STDOUT`.
//!
//! **Shared memory.** `AREA` has the size of the memory file and of the chunks that it is divided into. At
//! first all chunks belong to the application. `FILLED` stands for a `STDOUT` record whose content is the
//! beginning of a chunk. From then on the chunk belongs to the web server, until `FREE` gives it back, even
//! over several requests. A reply may mix `FILLED` and `STDOUT`.
//!
//! **Between requests.** An application may continue to work after it has ended a reply, and FastCGI has no
//! record for the moment when it reads the next request. An application that has named `waits` among its
//! transports sends `WAITS` then, on a connection that has had a request. A web server need not wait for
//! that.
//!
//! Numbers are in network byte order.

use crate::record::{self, Header, Kind, NO_REQUEST};

/// The value that a web server asks an application for: the [names](Transports::names) of its transports.
pub const QUESTION: &[u8] = b"SLUICE_TRANSPORTS";

/// Most bytes of the server name in [`lend`].
pub const MOST_NAME: usize = 255;

/// Transports that an application supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transports {
    /// It accepts passed descriptors of clients.
    pub pass_fd: bool,
    /// It writes into shared memory.
    pub shared_memory: bool,
    /// It reports when it waits for another request.
    pub waits: bool,
}

/// The terms on which a client's descriptor is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent<'a> {
    /// The client uses HTTP/1.1, not 1.0, so it understands chunks.
    pub is_http11: bool,
    /// The connection may go on after the reply.
    pub is_persistent: bool,
    /// The reply has a body (not for HEAD).
    pub has_body: bool,
    /// The value of the reply's Server field; empty: no such field. At most [`MOST_NAME`] bytes.
    pub server: &'a [u8],
}

/// The result when a client is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The reply's status, 200 to 599; 0 if nothing was sent.
    pub status: u16,
    /// All of the reply was sent.
    pub is_whole: bool,
    /// The reply tells the client that the connection stays open.
    pub is_persistent: bool,
    /// Bytes of body sent, without framing.
    pub body: u64,
    /// Bytes sent in all.
    pub sent: u64,
}

/// The shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The number of chunks.
    pub chunks: u16,
    /// Bytes of a chunk.
    pub chunk_size: u32,
}

/// A piece of the reply in shared memory. It is not validated: the receiver must check it against the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// The number of the chunk, from 0 on.
    pub chunk: u16,
    /// Bytes from its beginning on.
    pub length: u32,
}

const HTTP11: u8 = 1;
const PERSISTENT: u8 = 2;
const BODY: u8 = 4;
const WHOLE: u8 = 1;

/// Bytes of the record that frees a chunk.
pub const FREE_RECORD: usize = record::HEADER_LENGTH + FREE_LENGTH;

/// Bytes of the contents of these records.
pub(crate) const RETURN_LENGTH: usize = 20;
pub(crate) const FILLED_LENGTH: usize = 8;
pub(crate) const AREA_LENGTH: usize = 8;
pub(crate) const FREE_LENGTH: usize = 8;

impl Transports {
    /// Parses names separated by spaces. Unknown names are ignored.
    pub fn named(names: &[u8]) -> Self {
        let has = |wanted: &[u8]| names.split(|byte| *byte == b' ').any(|name| name == wanted);
        Self { pass_fd: has(b"pass-fd"), shared_memory: has(b"shared-memory"), waits: has(b"waits") }
    }

    /// The names, separated by spaces.
    pub fn names(self) -> String {
        let all = [(self.pass_fd, "pass-fd"), (self.shared_memory, "shared-memory"), (self.waits, "waits")];
        let known: Vec<_> = all.iter().filter(|(is_known, _)| *is_known).map(|(_, name)| *name).collect();
        known.join(" ")
    }
}

/// Appends the query for an application's transports, padded to eight bytes as the specification advises
/// (section 3.3). Without padding the library of most applications (libfcgi 2.4) waits for more after the
/// content, and never answers.
pub fn question(out: &mut Vec<u8>) {
    let length = QUESTION.len() + 2;
    let padding = length.next_multiple_of(8) - length;
    let header = Header {
        kind: Kind::GetValues as u8,
        request: NO_REQUEST,
        length: length as u16,
        padding: padding as u8,
    };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(&[QUESTION.len() as u8, 0]);
    out.extend_from_slice(QUESTION);
    out.extend_from_slice(&[0; 8][..padding]);
}

/// Appends the record that passes a client. The caller must send the client's socket with it.
pub fn lend(out: &mut Vec<u8>, request: u16, lent: Lent<'_>) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags =
        flag(lent.is_http11, HTTP11) | flag(lent.is_persistent, PERSISTENT) | flag(lent.has_body, BODY);
    let server = &lent.server[..lent.server.len().min(MOST_NAME)];
    out.extend_from_slice(&record::header(Kind::Lend, request, 1 + server.len()));
    out.push(flags);
    out.extend_from_slice(server);
}

impl<'a> Lent<'a> {
    /// Reads a record's content.
    pub(crate) fn read(content: &'a [u8]) -> Option<Self> {
        let (&flags, server) = content.split_first()?;
        let has = |flag| flags & flag != 0;
        Some(Self { is_http11: has(HTTP11), is_persistent: has(PERSISTENT), has_body: has(BODY), server })
    }
}

/// Appends the record that returns a client.
pub fn give_back(out: &mut Vec<u8>, request: u16, returned: Returned) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(returned.is_whole, WHOLE) | flag(returned.is_persistent, PERSISTENT);
    out.extend_from_slice(&record::header(Kind::Return, request, RETURN_LENGTH));
    out.extend_from_slice(&returned.status.to_be_bytes());
    out.extend_from_slice(&[flags, 0]);
    out.extend_from_slice(&returned.body.to_be_bytes());
    out.extend_from_slice(&returned.sent.to_be_bytes());
}

impl Returned {
    /// Reads a record's content.
    pub(crate) fn read(content: [u8; RETURN_LENGTH]) -> Self {
        let [high, low, flags, _, rest @ ..] = content;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (body, sent) = rest.split_at(8);
        Self {
            status: u16::from_be_bytes([high, low]),
            is_whole: flags & WHOLE != 0,
            is_persistent: flags & PERSISTENT != 0,
            body: number(body),
            sent: number(sent),
        }
    }
}

/// Appends the record that shares memory. The caller must send the memory file with it.
pub fn area(out: &mut Vec<u8>, area: Area) {
    out.extend_from_slice(&record::header(Kind::Area, NO_REQUEST, AREA_LENGTH));
    let [a, b, c, d] = area.chunk_size.to_be_bytes();
    let [high, low] = area.chunks.to_be_bytes();
    out.extend_from_slice(&[a, b, c, d, high, low, 0, 0]);
}

impl Area {
    /// Bytes of all chunks.
    pub fn size(self) -> u64 {
        u64::from(self.chunks) * u64::from(self.chunk_size)
    }

    /// Reads a record's content.
    pub(crate) fn read([a, b, c, d, high, low, ..]: [u8; AREA_LENGTH]) -> Self {
        Self { chunk_size: u32::from_be_bytes([a, b, c, d]), chunks: u16::from_be_bytes([high, low]) }
    }
}

/// Appends the record that a chunk is filled.
pub fn filled(out: &mut Vec<u8>, request: u16, filled: Filled) {
    out.extend_from_slice(&record::header(Kind::Filled, request, FILLED_LENGTH));
    let [a, b, c, d] = filled.length.to_be_bytes();
    let [high, low] = filled.chunk.to_be_bytes();
    out.extend_from_slice(&[a, b, c, d, high, low, 0, 0]);
}

impl Filled {
    /// Reads a record's content.
    pub(crate) fn read([a, b, c, d, high, low, ..]: [u8; FILLED_LENGTH]) -> Self {
        Self { length: u32::from_be_bytes([a, b, c, d]), chunk: u16::from_be_bytes([high, low]) }
    }
}

/// Appends the record that returns a chunk to the application.
pub fn free(out: &mut Vec<u8>, chunk: u16) {
    out.extend_from_slice(&record::header(Kind::Free, NO_REQUEST, FREE_LENGTH));
    let [high, low] = chunk.to_be_bytes();
    out.extend_from_slice(&[high, low, 0, 0, 0, 0, 0, 0]);
}

/// Appends the record that the application waits for the next request.
pub fn waits(out: &mut Vec<u8>) {
    out.extend_from_slice(&record::header(Kind::Waits, NO_REQUEST, 0));
}

/// Reads the number of the free chunk from a record's content.
pub(crate) fn read_free([high, low, ..]: [u8; FREE_LENGTH]) -> u16 {
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_have_names() {
        for names in ["pass-fd shared-memory waits", "pass-fd", "shared-memory waits", ""] {
            assert_eq!(Transports::named(names.as_bytes()).names(), names);
        }
        let known = Transports { pass_fd: true, ..Transports::default() };
        assert_eq!(Transports::named(b"carrier-pigeon pass-fd"), known);
    }

    #[test]
    fn what_is_written_is_read() {
        let returned = Returned {
            status: 404,
            is_whole: true,
            is_persistent: false,
            body: 1 << 40,
            sent: (1 << 40) + 7,
        };
        let mut out = Vec::new();
        give_back(&mut out, 1, returned);
        assert_eq!(Returned::read(out[8..].try_into().unwrap()), returned);
        let lent = Lent { is_http11: true, is_persistent: false, has_body: true, server: b"sluice" };
        out.clear();
        lend(&mut out, 1, lent);
        assert_eq!(Lent::read(&out[8..]), Some(lent));
    }
}
