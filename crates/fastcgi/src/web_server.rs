//! The web server's end of a connection to an application.
//!
//! It handles one request at a time. Requests alternate between two ids, so that late records about the last
//! request are not taken for the next. PHP, for example, ends some requests twice.

use std::ops::Range;

use crate::Error;
use crate::params::Pairs;
use crate::record::{self, Fixed, Header, Kind, NO_REQUEST, Part, ProtocolStatus, Reader, Role};
use crate::transport::{self, Filled, Returned, Transports};

/// The state of one connection to an application.
#[derive(Debug, Default)]
pub struct WebServer {
    reader: Reader,
    /// The id of the current request, or the last one; 0 before the first.
    request: u16,
    is_under_way: bool,
    content: Content,
    /// The values of the application that have been received so far.
    values: Vec<u8>,
}

/// Most bytes of an application's values.
const MOST_VALUES: u16 = 1024;

/// The content of the current record.
#[derive(Debug, Default)]
enum Content {
    /// Content to be skipped.
    #[default]
    Other,
    Stdout,
    Stderr,
    End(Fixed<8>),
    Values,
    Return(Fixed<{ transport::RETURN_LENGTH }>),
    Filled(Fixed<{ transport::FILLED_LENGTH }>),
    Waits,
}

/// The next event from an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// All of the input is consumed, and more is needed.
    NeedInput,
    /// This range of the input is a part of the reply: a CGI response.
    Stdout(Range<usize>),
    /// This range of the input is for the error log.
    Stderr(Range<usize>),
    /// The answer to a [query](transport::question): the application supports these transports.
    Knows(Transports),
    /// The application returns the client that was passed for the request.
    Returned(Returned),
    /// A part of the reply is in shared memory.
    Filled(Filled),
    /// The application waits for the next request.
    Waits,
    /// The request is over. A CGI program would have exited with `exit`.
    End {
        /// Zero for success, by convention.
        exit: u32,
    },
}

impl WebServer {
    /// Begins a request and returns its id. Its parameters and body follow, as streams with that id. The
    /// previous request must have ended, and none of its records may have been sent only in part.
    pub fn begin(&mut self, out: &mut Vec<u8>, role: Role, keeps: bool) -> u16 {
        debug_assert!(!self.is_under_way);
        self.request = if self.request == 1 { 2 } else { 1 };
        self.is_under_way = true;
        record::begin_request(out, self.request, role, keeps);
        self.request
    }

    /// Asks the application to give up the current request, if there is one. The application may continue
    /// anyway.
    pub fn abort(&mut self, out: &mut Vec<u8>) {
        if self.is_under_way {
            record::abort_request(out, self.request);
        }
    }

    /// Whether the application allows another request: no request is in progress, and no record is partly
    /// received.
    pub fn is_idle(&self) -> bool {
        !self.is_under_way && self.reader.is_between_records()
    }

    /// Interprets bytes from the application. Returns how many are consumed, and the next event. Call again
    /// with the rest until that is [`Output::NeedInput`].
    ///
    /// # Errors
    ///
    /// The application breaks the protocol or refuses the request. Close the connection.
    pub fn receive(&mut self, input: &[u8]) -> Result<(usize, Output), Error> {
        let mut used = 0;
        loop {
            match self.reader.next(input, &mut used)? {
                Part::NeedInput => return Ok((used, Output::NeedInput)),
                Part::Record(header) => self.content = self.begin_record(header)?,
                Part::Content(range) => match &mut self.content {
                    Content::Other | Content::Waits => {}
                    Content::Stdout => return Ok((used, Output::Stdout(range))),
                    Content::Stderr => return Ok((used, Output::Stderr(range))),
                    Content::End(fixed) | Content::Filled(fixed) => fixed.take(&input[range]),
                    Content::Return(fixed) => fixed.take(&input[range]),
                    Content::Values => self.values.extend_from_slice(&input[range]),
                },
                Part::End => {
                    if let Some(output) = self.end_record()? {
                        return Ok((used, output));
                    }
                }
            }
        }
    }

    /// The event of a complete record, if there is one.
    fn end_record(&mut self) -> Result<Option<Output>, Error> {
        Ok(match std::mem::take(&mut self.content) {
            Content::Other | Content::Stdout | Content::Stderr => None,
            Content::End(fixed) => {
                self.is_under_way = false;
                let (exit, status) = record::read_end(fixed.bytes());
                if status != ProtocolStatus::RequestComplete as u8 {
                    return Err(Error::Refused(status));
                }
                Some(Output::End { exit })
            }
            Content::Values => {
                let known = Pairs::of(&self.values).flatten().find(|(name, _)| *name == transport::QUESTION);
                Some(Output::Knows(
                    known.map_or_else(Transports::default, |(_, names)| Transports::named(names)),
                ))
            }
            Content::Return(fixed) => Some(Output::Returned(Returned::read(fixed.bytes()))),
            Content::Filled(fixed) => Some(Output::Filled(Filled::read(fixed.bytes()))),
            Content::Waits => Some(Output::Waits),
        })
    }

    /// Determines from its header what a record contains.
    fn begin_record(&mut self, header: Header) -> Result<Content, Error> {
        let is_ours = self.is_under_way && header.request == self.request;
        match Kind::from_number(header.kind) {
            Some(Kind::Stdout) if is_ours => Ok(Content::Stdout),
            Some(Kind::Stderr) if is_ours => Ok(Content::Stderr),
            Some(Kind::EndRequest) if is_ours => Ok(Content::End(Fixed::begin(header)?)),
            Some(Kind::Return) if is_ours => Ok(Content::Return(Fixed::begin(header)?)),
            Some(Kind::Filled) if is_ours => Ok(Content::Filled(Fixed::begin(header)?)),
            // A record of a request that has ended.
            Some(Kind::Stdout | Kind::Stderr | Kind::EndRequest) if header.request != NO_REQUEST => {
                Ok(Content::Other)
            }
            Some(Kind::GetValuesResult) if header.request == NO_REQUEST && header.length > MOST_VALUES => {
                Err(Error::Management(header.length))
            }
            Some(Kind::GetValuesResult) if header.request == NO_REQUEST => {
                self.values.clear();
                Ok(Content::Values)
            }
            // It may come late, if the web server did not wait for it.
            Some(Kind::Waits) if header.request == NO_REQUEST && self.is_under_way => Ok(Content::Other),
            Some(Kind::Waits) if header.request == NO_REQUEST => Ok(Content::Waits),
            Some(Kind::UnknownType) | None if header.request == NO_REQUEST => Ok(Content::Other),
            _ => Err(Error::Misplaced(header.kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> WebServer {
        let mut web_server = WebServer::default();
        assert_eq!(web_server.begin(&mut Vec::new(), Role::Responder, true), 1);
        web_server
    }

    fn outputs(web_server: &mut WebServer, mut input: &[u8]) -> Result<Vec<String>, Error> {
        let mut told = Vec::new();
        loop {
            let (used, output) = web_server.receive(input)?;
            match output {
                Output::NeedInput => {
                    assert_eq!(used, input.len());
                    return Ok(told);
                }
                Output::Stdout(range) => told.push(String::from_utf8_lossy(&input[range]).into_owned()),
                Output::Stderr(range) => told.push(format!("!{}", String::from_utf8_lossy(&input[range]))),
                Output::End { exit } => told.push(format!("end {exit}")),
                other => told.push(format!("{other:?}")),
            }
            input = &input[used..];
        }
    }

    #[test]
    fn a_reply_is_told_and_the_connection_may_be_used_again() {
        let mut web_server = begun();
        let mut answer = Vec::new();
        record::stream(&mut answer, Kind::Stdout, 1, b"Status: 200\n\n");
        record::stream(&mut answer, Kind::Stderr, 1, b"warning");
        record::stream(&mut answer, Kind::Stdout, 1, b"body");
        record::end_of_stream(&mut answer, Kind::Stdout, 1);
        record::end_request(&mut answer, 1, 3, ProtocolStatus::RequestComplete);
        assert!(!web_server.is_idle());
        let told = outputs(&mut web_server, &answer).unwrap();
        assert_eq!(told, ["Status: 200\n\n", "!warning", "body", "end 3"]);
        assert!(web_server.is_idle());
        assert_eq!(web_server.begin(&mut Vec::new(), Role::Responder, true), 2);
    }

    #[test]
    fn a_second_end_is_not_the_next_requests() {
        let mut web_server = begun();
        let mut end = Vec::new();
        record::end_request(&mut end, 1, 0, ProtocolStatus::RequestComplete);
        assert_eq!(outputs(&mut web_server, &end).unwrap(), ["end 0"]);
        assert!(outputs(&mut web_server, &end).unwrap().is_empty());
        web_server.begin(&mut Vec::new(), Role::Responder, true);
        assert!(outputs(&mut web_server, &end).unwrap().is_empty());
        assert!(!web_server.is_idle(), "the second request is under way");
    }

    #[test]
    fn breaches_are_told() {
        let mut refused = Vec::new();
        record::end_request(&mut refused, 1, 0, ProtocolStatus::Overloaded);
        assert_eq!(outputs(&mut begun(), &refused), Err(Error::Refused(2)));
        let mut misplaced = Vec::new();
        record::stream(&mut misplaced, Kind::Stdin, 1, b"x");
        assert_eq!(outputs(&mut begun(), &misplaced), Err(Error::Misplaced(5)));
        let short = record::header(Kind::EndRequest, 1, 7);
        assert_eq!(outputs(&mut begun(), &short), Err(Error::Length { kind: 3, length: 7 }));
        assert_eq!(outputs(&mut begun(), b"HTTP/1.1 200"), Err(Error::Version(b'H')));
    }

    #[test]
    fn waits_is_said_between_requests() {
        let (mut web_server, mut records) = (begun(), Vec::new());
        record::end_request(&mut records, 1, 0, ProtocolStatus::RequestComplete);
        transport::waits(&mut records);
        assert_eq!(outputs(&mut web_server, &records).unwrap(), ["end 0", "Waits"]);
        records.clear();
        transport::waits(&mut records);
        assert!(outputs(&mut begun(), &records).unwrap().is_empty(), "of the request before");
        let of_a_request = record::header(Kind::Waits, 1, 0);
        assert_eq!(outputs(&mut begun(), &of_a_request), Err(Error::Misplaced(133)));
    }

    #[test]
    fn management_records_are_passed_over() {
        let mut records = Vec::new();
        record::unknown_type(&mut records, 77);
        records.extend_from_slice(&Header { kind: 99, request: 0, length: 0, padding: 0 }.encode());
        assert!(outputs(&mut begun(), &records).unwrap().is_empty());
    }
}
