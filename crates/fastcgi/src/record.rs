//! Encodes and decodes records: a header of eight bytes, content, and padding (FastCGI 1.0, section 3.3).

use std::ops::Range;

use crate::Error;

/// Bytes of a record's header.
pub const HEADER_LENGTH: usize = 8;
/// Most bytes of a record's content.
pub const MOST_CONTENT: usize = 0xffff;
/// The request id of management records, which belong to no request.
pub const NO_REQUEST: u16 = 0;

const VERSION: u8 = 1;
/// The flag of a request after which the connection is kept (section 5.1).
const KEEP_CONNECTION: u8 = 1;

/// The types of records (section 8), and our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request begins. From the web server.
    BeginRequest = 1,
    /// Gives up a request. From the web server.
    AbortRequest = 2,
    /// A request is over. From the application.
    EndRequest = 3,
    /// A part of the stream of parameters. From the web server.
    Params = 4,
    /// A part of the request's body. From the web server.
    Stdin = 5,
    /// A part of the reply. From the application.
    Stdout = 6,
    /// A part of the text for the error log. From the application.
    Stderr = 7,
    /// A part of a filter's second stream. From the web server.
    Data = 8,
    /// A query for values of the application. From the web server.
    GetValues = 9,
    /// The answer to the query. From the application.
    GetValuesResult = 10,
    /// The type of a management record was not understood. From the application.
    UnknownType = 11,
    /// A client's descriptor is passed ([`transport`](crate::transport)). From the web server.
    Lend = 128,
    /// A client is returned. From the application.
    Return = 129,
    /// Memory is shared. From the web server.
    Area = 130,
    /// A piece of the reply is in shared memory. From the application.
    Filled = 131,
    /// A chunk of shared memory is free again. From the web server.
    Free = 132,
    /// The application waits for the next request. From the application.
    Waits = 133,
}

impl Kind {
    /// The type with that number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::BeginRequest,
            2 => Self::AbortRequest,
            3 => Self::EndRequest,
            4 => Self::Params,
            5 => Self::Stdin,
            6 => Self::Stdout,
            7 => Self::Stderr,
            8 => Self::Data,
            9 => Self::GetValues,
            10 => Self::GetValuesResult,
            11 => Self::UnknownType,
            128 => Self::Lend,
            129 => Self::Return,
            130 => Self::Area,
            131 => Self::Filled,
            132 => Self::Free,
            133 => Self::Waits,
            _ => return None,
        })
    }
}

/// The role of an application (section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Role {
    /// It answers requests, as CGI programs do.
    Responder = 1,
    /// It decides whether a request is allowed.
    Authorizer = 2,
    /// It changes a file on its way to the client.
    Filter = 3,
}

/// How a request ended, as far as the protocol is concerned (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProtocolStatus {
    /// It was served.
    RequestComplete = 0,
    /// The connection has another request in progress, and the application cannot handle two.
    CantMultiplex = 1,
    /// The application has run out of a resource.
    Overloaded = 2,
    /// The application does not know the role.
    UnknownRole = 3,
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its type, a [`Kind`]'s number or another.
    pub kind: u8,
    /// The id of its request.
    pub request: u16,
    /// Bytes of content.
    pub length: u16,
    /// Bytes of padding after the content.
    pub padding: u8,
}

impl Header {
    /// The header in wire format.
    pub fn encode(self) -> [u8; HEADER_LENGTH] {
        let [request, length] = [self.request, self.length].map(u16::to_be_bytes);
        [VERSION, self.kind, request[0], request[1], length[0], length[1], self.padding, 0]
    }

    fn decode(bytes: [u8; HEADER_LENGTH]) -> Result<Self, Error> {
        let [version, kind, request_high, request_low, length_high, length_low, padding, _] = bytes;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let request = u16::from_be_bytes([request_high, request_low]);
        Ok(Self { kind, request, length: u16::from_be_bytes([length_high, length_low]), padding })
    }
}

/// The header of a record without padding; `length` is at most [`MOST_CONTENT`].
pub fn header(kind: Kind, request: u16, length: usize) -> [u8; HEADER_LENGTH] {
    debug_assert!(length <= MOST_CONTENT);
    Header { kind: kind as u8, request, length: length as u16, padding: 0 }.encode()
}

/// Appends a part of a stream, in as many records as needed. For empty content it appends nothing, because an
/// empty record ends the stream.
pub fn stream(out: &mut Vec<u8>, kind: Kind, request: u16, content: &[u8]) {
    for part in content.chunks(MOST_CONTENT) {
        out.extend_from_slice(&header(kind, request, part.len()));
        out.extend_from_slice(part);
    }
}

/// Appends the end of a stream (section 3.3).
pub fn end_of_stream(out: &mut Vec<u8>, kind: Kind, request: u16) {
    out.extend_from_slice(&header(kind, request, 0));
}

/// Appends the beginning of a request (section 5.1). With `keeps` the connection is kept after the request;
/// otherwise the application closes it.
pub fn begin_request(out: &mut Vec<u8>, request: u16, role: Role, keeps: bool) {
    let [high, low] = (role as u16).to_be_bytes();
    out.extend_from_slice(&header(Kind::BeginRequest, request, 8));
    out.extend_from_slice(&[high, low, if keeps { KEEP_CONNECTION } else { 0 }, 0, 0, 0, 0, 0]);
}

/// Appends the record that gives up a request (section 5.4).
pub fn abort_request(out: &mut Vec<u8>, request: u16) {
    out.extend_from_slice(&header(Kind::AbortRequest, request, 0));
}

/// Appends the end of a request (section 5.5). `exit` is the exit status of a CGI program.
pub fn end_request(out: &mut Vec<u8>, request: u16, exit: u32, status: ProtocolStatus) {
    let [a, b, c, d] = exit.to_be_bytes();
    out.extend_from_slice(&header(Kind::EndRequest, request, 8));
    out.extend_from_slice(&[a, b, c, d, status as u8, 0, 0, 0]);
}

/// Appends the answer to a management record of an unknown type (section 4.2).
pub fn unknown_type(out: &mut Vec<u8>, kind: u8) {
    out.extend_from_slice(&header(Kind::UnknownType, NO_REQUEST, 8));
    out.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
}

/// Reads the body of `BEGIN_REQUEST`: the role's number, and whether to keep the connection.
pub(crate) fn read_begin(body: [u8; 8]) -> (u16, bool) {
    (u16::from_be_bytes([body[0], body[1]]), body[2] & KEEP_CONNECTION != 0)
}

/// Reads the body of `END_REQUEST`: exit status and protocol status.
pub(crate) fn read_end(body: [u8; 8]) -> (u32, u8) {
    (u32::from_be_bytes([body[0], body[1], body[2], body[3]]), body[4])
}

/// Reads records that come in pieces, without storing their content.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    header: [u8; HEADER_LENGTH],
    /// Bytes of the next header received so far.
    have: u8,
    /// Bytes of the current record that are still missing.
    content: u16,
    padding: u8,
    in_record: bool,
}

/// The result of a call to [`Reader::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of the input is consumed.
    NeedInput,
    /// A record begins.
    Record(Header),
    /// This range of the input is content of the current record; never empty.
    Content(Range<usize>),
    /// The content of the record is complete.
    End,
}

impl Reader {
    /// Reads the next part of `input` after the first `used` bytes, and advances `used`.
    pub(crate) fn next(&mut self, input: &[u8], used: &mut usize) -> Result<Part, Error> {
        if self.in_record {
            if self.content == 0 {
                self.in_record = false;
                return Ok(Part::End);
            }
            let from = *used;
            let taken = (input.len() - from).min(self.content.into());
            self.content -= taken as u16;
            *used += taken;
            return Ok(if taken == 0 { Part::NeedInput } else { Part::Content(from..*used) });
        }
        let skipped = (input.len() - *used).min(self.padding.into());
        self.padding -= skipped as u8;
        *used += skipped;
        let have = usize::from(self.have);
        let taken = (input.len() - *used).min(HEADER_LENGTH - have);
        self.header[have..have + taken].copy_from_slice(&input[*used..*used + taken]);
        self.have += taken as u8;
        *used += taken;
        if usize::from(self.have) < HEADER_LENGTH {
            return Ok(Part::NeedInput);
        }
        let header = Header::decode(self.header)?;
        self.have = 0;
        (self.content, self.padding, self.in_record) = (header.length, header.padding, true);
        Ok(Part::Record(header))
    }

    /// Whether no record is partly received. Missing padding does not count.
    pub(crate) fn is_between_records(&self) -> bool {
        !self.in_record && self.have == 0
    }
}

/// The content of a record of `N` bytes, which may come in pieces.
#[derive(Debug)]
pub(crate) struct Fixed<const N: usize> {
    bytes: [u8; N],
    have: u8,
}

impl<const N: usize> Fixed<N> {
    /// Begins a record with that header.
    pub(crate) fn begin(header: Header) -> Result<Self, Error> {
        match header.length {
            length if usize::from(length) == N => Ok(Self { bytes: [0; N], have: 0 }),
            length => Err(Error::Length { kind: header.kind, length }),
        }
    }

    pub(crate) fn take(&mut self, part: &[u8]) {
        let have = usize::from(self.have);
        self.bytes[have..have + part.len()].copy_from_slice(part);
        self.have += part.len() as u8;
    }

    pub(crate) fn bytes(&self) -> [u8; N] {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(mut reader: Reader, stream: &[u8], step: usize) -> Vec<Part> {
        let (mut at, mut parts, mut content) = (0, Vec::new(), 0);
        loop {
            let end = (at + step).min(stream.len());
            match reader.next(&stream[..end], &mut at).unwrap() {
                Part::NeedInput if at == stream.len() => return parts,
                Part::NeedInput => {}
                Part::Content(range) => content += range.len(),
                Part::End => parts.extend([Part::Content(0..std::mem::take(&mut content)), Part::End]),
                part @ Part::Record(_) => parts.push(part),
            }
        }
    }

    #[test]
    fn records_are_read_however_they_are_cut_and_padded() {
        let mut stream = Vec::new();
        begin_request(&mut stream, 1, Role::Responder, true);
        let padded = Header { kind: Kind::Stdin as u8, request: 0x0102, length: 3, padding: 5 };
        stream.extend_from_slice(&padded.encode());
        stream.extend_from_slice(b"abcPPPPP");
        end_of_stream(&mut stream, Kind::Stdin, 0x0102);
        let whole = parts(Reader::default(), &stream, stream.len());
        assert_eq!(whole[3..6], [Part::Record(padded), Part::Content(0..3), Part::End]);
        for step in 1..20 {
            assert_eq!(parts(Reader::default(), &stream, step), whole);
        }
    }

    #[test]
    fn another_version_is_refused() {
        assert_eq!(Reader::default().next(&[2, 1, 0, 1, 0, 0, 0, 0], &mut 0), Err(Error::Version(2)));
    }

    #[test]
    fn numbers_are_types() {
        let known = |number: &u8| matches!(number, 1..=11 | 128..=133);
        for number in 0..=255 {
            let kind = Kind::from_number(number).map(|kind| kind as u8);
            assert_eq!(kind, Some(number).filter(known));
        }
    }

    #[test]
    fn long_content_is_several_records() {
        let mut out = Vec::new();
        stream(&mut out, Kind::Stdin, 1, &vec![b'x'; MOST_CONTENT + 2]);
        assert_eq!(out.len(), MOST_CONTENT + 2 + 2 * HEADER_LENGTH);
        assert_eq!(out[..8], [1, 5, 0, 1, 0xff, 0xff, 0, 0]);
        assert_eq!(out[HEADER_LENGTH + MOST_CONTENT..][..8], [1, 5, 0, 1, 0, 2, 0, 0]);
        stream(&mut out, Kind::Stdin, 1, b"");
        assert_eq!(out.len(), MOST_CONTENT + 2 + 2 * HEADER_LENGTH, "an empty one would end the stream");
    }
}
