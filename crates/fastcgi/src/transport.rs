//! What records of FastCGI's own can't say: that a client's socket is lent to the application (*pass-fd*),
//! and that a piece of the reply lies in memory that both ends share (*shared memory*). Both are of Yeung's
//! thesis (2010, sections 2.2.3 and 3.2); the records are ours. And that it waits for its next request.
//!
//! Types from 128 on are used, which FastCGI gives no meaning to. They are only ever sent to an application
//! that has said that it knows them: when a connection is up, the web server asks for the value of
//! [`QUESTION`] by `GET_VALUES` (FastCGI 1.0, section 4.1), and one that knows none answers without it.
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
//! **Pass-fd.** `LEND` comes behind `BEGIN_REQUEST` and before the parameters end; the client's socket goes
//! with one of its bytes (`SCM_RIGHTS`, unix(7)). Until `RETURN` the client is the application's, which sends
//! the whole HTTP reply. It closes its descriptor before it says `RETURN`. One that does not want the client,
//! because the web server has to see the reply, says `RETURN` with nothing sent before its first `STDOUT`.
//!
//! **Shared memory.** `AREA` tells the size of the memory file and of the chunks that it is divided into. All
//! chunks are the application's at first. `FILLED` stands for a `STDOUT` record whose content is the
//! beginning of a chunk, which is the web server's from then on, until `FREE` gives it back. Chunks stay the
//! web server's from one request to the next, until they are freed. A reply may mix `FILLED` and `STDOUT`.
//!
//! **Between requests.** An application may go on working after it has ended a reply, and nothing of
//! FastCGI's tells when it comes to read the next request. One that has named `waits` with its transports
//! says `WAITS` when it does, on a connection that has had a request. A web server need not wait for that.
//!
//! Numbers are in network byte order.

use crate::record::{self, Header, Kind, NO_REQUEST};

/// What a web server asks an application: which transports it knows, by their [names](Transports::names).
pub const QUESTION: &[u8] = b"SLUICE_TRANSPORTS";

/// Most bytes of a name that [`lend`] tells.
pub const MOST_NAME: usize = 255;

/// Transports that an application knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transports {
    /// It takes clients.
    pub pass_fd: bool,
    /// It writes into memory that is shared.
    pub shared_memory: bool,
    /// It says when it waits for another request.
    pub waits: bool,
}

/// The terms on which a client is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent<'a> {
    /// The client's protocol is HTTP/1.1, and not 1.0: it understands chunks.
    pub is_http11: bool,
    /// The connection may go on after the reply.
    pub is_persistent: bool,
    /// The reply has a body (not for HEAD).
    pub has_body: bool,
    /// What the reply's Server field says; empty: there is none. At most [`MOST_NAME`] bytes.
    pub server: &'a [u8],
}

/// How a client comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The reply's status, 200 to 599; 0 if nothing was sent.
    pub status: u16,
    /// All of the reply was sent.
    pub is_whole: bool,
    /// The reply has told the client that the connection goes on.
    pub is_persistent: bool,
    /// Bytes of body sent, without framing.
    pub body: u64,
    /// Bytes sent in all.
    pub sent: u64,
}

/// Memory that is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// How many chunks there are, of how many bytes each.
    pub chunks: u16,
    /// Bytes of a chunk.
    pub chunk_size: u32,
}

/// A piece of the reply in shared memory. Nothing is known of it to be right: whoever hears of it compares it
/// with the area.
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

/// Bytes of the record that a chunk is free.
pub const FREE_RECORD: usize = record::HEADER_LENGTH + FREE_LENGTH;

/// Bytes of the contents of these records.
pub(crate) const RETURN_LENGTH: usize = 20;
pub(crate) const FILLED_LENGTH: usize = 8;
pub(crate) const AREA_LENGTH: usize = 8;
pub(crate) const FREE_LENGTH: usize = 8;

impl Transports {
    /// Those that are named, with a space between them. Other names are of transports not known here.
    pub fn named(names: &[u8]) -> Self {
        let has = |wanted: &[u8]| names.split(|byte| *byte == b' ').any(|name| name == wanted);
        Self { pass_fd: has(b"pass-fd"), shared_memory: has(b"shared-memory"), waits: has(b"waits") }
    }

    /// Their names, with a space between them.
    pub fn names(self) -> String {
        let all = [(self.pass_fd, "pass-fd"), (self.shared_memory, "shared-memory"), (self.waits, "waits")];
        let known: Vec<_> = all.iter().filter(|(is_known, _)| *is_known).map(|(_, name)| *name).collect();
        known.join(" ")
    }
}

/// Appends the question which transports an application knows, padded to eight bytes as the specification
/// advises (section 3.3): the library that most applications have (libfcgi 2.4) waits for more where a record
/// ends with its content, and never answers.
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

/// Appends the loan of a client, whose socket is to go with the record.
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
    /// As a record's content says.
    pub(crate) fn read(content: &'a [u8]) -> Option<Self> {
        let (&flags, server) = content.split_first()?;
        let has = |flag| flags & flag != 0;
        Some(Self { is_http11: has(HTTP11), is_persistent: has(PERSISTENT), has_body: has(BODY), server })
    }
}

/// Appends the return of a client.
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
    /// As a record's content says.
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

/// Appends the area, whose memory file is to go with the record.
pub fn area(out: &mut Vec<u8>, area: Area) {
    out.extend_from_slice(&record::header(Kind::Area, NO_REQUEST, AREA_LENGTH));
    let [a, b, c, d] = area.chunk_size.to_be_bytes();
    let [high, low] = area.chunks.to_be_bytes();
    out.extend_from_slice(&[a, b, c, d, high, low, 0, 0]);
}

impl Area {
    /// Bytes of it all.
    pub fn size(self) -> u64 {
        u64::from(self.chunks) * u64::from(self.chunk_size)
    }

    /// As a record's content says.
    pub(crate) fn read([a, b, c, d, high, low, ..]: [u8; AREA_LENGTH]) -> Self {
        Self { chunk_size: u32::from_be_bytes([a, b, c, d]), chunks: u16::from_be_bytes([high, low]) }
    }
}

/// Appends that a chunk is filled.
pub fn filled(out: &mut Vec<u8>, request: u16, filled: Filled) {
    out.extend_from_slice(&record::header(Kind::Filled, request, FILLED_LENGTH));
    let [a, b, c, d] = filled.length.to_be_bytes();
    let [high, low] = filled.chunk.to_be_bytes();
    out.extend_from_slice(&[a, b, c, d, high, low, 0, 0]);
}

impl Filled {
    /// As a record's content says.
    pub(crate) fn read([a, b, c, d, high, low, ..]: [u8; FILLED_LENGTH]) -> Self {
        Self { length: u32::from_be_bytes([a, b, c, d]), chunk: u16::from_be_bytes([high, low]) }
    }
}

/// Appends that a chunk is the application's again.
pub fn free(out: &mut Vec<u8>, chunk: u16) {
    out.extend_from_slice(&record::header(Kind::Free, NO_REQUEST, FREE_LENGTH));
    let [high, low] = chunk.to_be_bytes();
    out.extend_from_slice(&[high, low, 0, 0, 0, 0, 0, 0]);
}

/// Appends that the next request is waited for.
pub fn waits(out: &mut Vec<u8>) {
    out.extend_from_slice(&record::header(Kind::Waits, NO_REQUEST, 0));
}

/// Which chunk is free, as a record's content says.
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
