//! The application's end of a connection from a web server.
//!
//! One request at a time, as every known web server asks: who begins another meanwhile is told that this is
//! not possible. Answers are written with the functions of [`record`].

use std::ops::Range;

use crate::params::Pairs;
use crate::record::{self, Fixed, Header, Kind, NO_REQUEST, Part, Reader};
use crate::transport::{self, Area, Lent, Transports};
use crate::{Error, Role};

/// The state of one connection from a web server.
#[derive(Debug)]
pub struct Application {
    reader: Reader,
    request: Option<Begun>,
    /// The parameters of the request, as far as they have come.
    params: Vec<u8>,
    has_params: bool,
    most_params: usize,
    /// The names that a management record asks for.
    asked: Vec<u8>,
    /// The terms on which a client is lent.
    lent: Vec<u8>,
    content: Content,
}

/// What a request begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The number that everything about it bears.
    pub request: u16,
    /// What the application is to be.
    pub role: Role,
    /// Whether the web server wants to use the connection again.
    pub keeps: bool,
}

/// What the content of the record under way is.
#[derive(Debug, Default)]
enum Content {
    /// Nothing that anybody wants.
    #[default]
    Other,
    Begin(u16, Fixed<8>),
    Abort,
    Params,
    EndOfParams,
    Stdin,
    EndOfStdin,
    Data,
    EndOfData,
    Values,
    Lend,
    Area(Fixed<{ transport::AREA_LENGTH }>),
    Free(Fixed<{ transport::FREE_LENGTH }>),
    Unknown(u8),
}

/// What a web server asks, a step at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing more can be made of the input, all of which is used up.
    NeedInput,
    /// A request begins.
    Begin(Begun),
    /// A request begins in a role that there is none of, or while another is under way: to be ended at once
    /// with this status, and the number after it.
    Refuse(record::ProtocolStatus, u16),
    /// The [parameters](Application::params) are complete.
    Params,
    /// This range of the input is a part of the body.
    Stdin(Range<usize>),
    /// The body is complete.
    EndOfStdin,
    /// This range of the input is a part of a filter's second stream.
    Data(Range<usize>),
    /// That stream is complete.
    EndOfData,
    /// The request is to be given up. It still is to be ended.
    Abort,
    /// Values are asked for (section 4.1), of [these names](Application::asked).
    Values,
    /// The client is lent, on [these terms](Application::lent). Its socket has come by now.
    Lend,
    /// The memory is shared whose file has come by now. It is another than that before, if there was one.
    Area(Area),
    /// The chunk of shared memory of that number is the application's again.
    Free(u16),
    /// A management record that is not known: to be answered with [`record::unknown_type`].
    Unknown(u8),
}

/// Most bytes of a question for values: names of three are known, of 14 bytes each at most.
const MOST_VALUES: u16 = 1024;

impl Application {
    /// A connection whose requests may have so many bytes of parameters.
    pub fn new(most_params: usize) -> Self {
        let (reader, content) = (Reader::default(), Content::Other);
        let (params, asked, lent) = (Vec::new(), Vec::new(), Vec::new());
        Self { reader, request: None, params, has_params: false, most_params, asked, lent, content }
    }

    /// The request under way.
    pub fn request(&self) -> Option<Begun> {
        self.request
    }

    /// The parameters of the request, once they are complete.
    pub fn params(&self) -> Pairs<'_> {
        Pairs::of(&self.params)
    }

    /// The names of values that are asked for, each with an empty value.
    pub fn asked(&self) -> Pairs<'_> {
        Pairs::of(&self.asked)
    }

    /// The terms on which the client of the request under way is lent, if it is.
    pub fn lent(&self) -> Option<Lent<'_>> {
        Lent::read(&self.lent)
    }

    /// The request under way has been answered and ended.
    pub fn end(&mut self) {
        self.request = None;
        self.forget_params();
        // What is still to come of the record under way is nobody's.
        self.content = Content::Other;
    }

    fn forget_params(&mut self) {
        self.lent.clear();
        self.params.clear();
        self.has_params = false;
    }

    /// Takes what the web server sent, and says how much of it is used up and what it means. Call again with
    /// the rest until it is [`Asked::NeedInput`].
    ///
    /// # Errors
    ///
    /// The web server breaks the protocol; the connection is to be closed.
    pub fn receive(&mut self, input: &[u8]) -> Result<(usize, Asked), Error> {
        let mut used = 0;
        loop {
            match self.reader.next(input, &mut used)? {
                Part::NeedInput => return Ok((used, Asked::NeedInput)),
                Part::Record(header) => self.content = self.begin_record(header)?,
                Part::Content(range) => match &mut self.content {
                    Content::Begin(_, fixed) | Content::Area(fixed) | Content::Free(fixed) => {
                        fixed.take(&input[range]);
                    }
                    Content::Params if self.params.len() + range.len() > self.most_params => {
                        return Err(Error::Params);
                    }
                    Content::Params => self.params.extend_from_slice(&input[range]),
                    Content::Values => self.asked.extend_from_slice(&input[range]),
                    Content::Lend => self.lent.extend_from_slice(&input[range]),
                    Content::Stdin => return Ok((used, Asked::Stdin(range))),
                    Content::Data => return Ok((used, Asked::Data(range))),
                    _ => {}
                },
                Part::End => {
                    if let Some(asked) = self.end_record()? {
                        return Ok((used, asked));
                    }
                }
            }
        }
    }

    /// What a record's content will be.
    fn begin_record(&mut self, header: Header) -> Result<Content, Error> {
        let Header { kind, request, length, .. } = header;
        let known = Kind::from_number(kind);
        if request == NO_REQUEST {
            return match known {
                Some(Kind::GetValues) if length > MOST_VALUES => Err(Error::Management(length)),
                Some(Kind::GetValues) => {
                    self.asked.clear();
                    Ok(Content::Values)
                }
                Some(Kind::Area) => Ok(Content::Area(Fixed::begin(header)?)),
                Some(Kind::Free) => Ok(Content::Free(Fixed::begin(header)?)),
                _ => Ok(Content::Unknown(kind)),
            };
        }
        if known == Some(Kind::BeginRequest) {
            return Ok(Content::Begin(request, Fixed::begin(header)?));
        }
        let is_ours = self.request.is_some_and(|begun| begun.request == request);
        Ok(match known {
            // Something about a request that is over, or was never begun: section 3.3 has it ignored.
            Some(Kind::AbortRequest | Kind::Params | Kind::Stdin | Kind::Data) if !is_ours => Content::Other,
            Some(Kind::AbortRequest) => Content::Abort,
            // Whose client it is nobody knows.
            Some(Kind::Lend) if !is_ours || self.has_params || self.lent().is_some() => {
                return Err(Error::Misplaced(kind));
            }
            Some(Kind::Lend) if !(1..=1 + transport::MOST_NAME).contains(&length.into()) => {
                return Err(Error::Length { kind, length });
            }
            Some(Kind::Lend) => Content::Lend,
            Some(Kind::Params) if self.has_params => return Err(Error::Misplaced(kind)),
            Some(Kind::Params) if length == 0 => Content::EndOfParams,
            Some(Kind::Params) => Content::Params,
            Some(Kind::Stdin) if length == 0 => Content::EndOfStdin,
            Some(Kind::Stdin) => Content::Stdin,
            Some(Kind::Data) if length == 0 => Content::EndOfData,
            Some(Kind::Data) => Content::Data,
            _ => return Err(Error::Misplaced(kind)),
        })
    }

    /// What a record has come to that is complete.
    fn end_record(&mut self) -> Result<Option<Asked>, Error> {
        Ok(match std::mem::take(&mut self.content) {
            Content::Other | Content::Params | Content::Stdin | Content::Data => None,
            Content::Begin(request, fixed) => Some(self.begin(request, fixed.bytes())),
            Content::Abort => Some(Asked::Abort),
            Content::EndOfParams if self.params().any(|pair| pair.is_err()) => return Err(Error::Params),
            Content::EndOfParams => {
                self.has_params = true;
                Some(Asked::Params)
            }
            Content::EndOfStdin => Some(Asked::EndOfStdin),
            Content::EndOfData => Some(Asked::EndOfData),
            Content::Values if self.asked().any(|pair| pair.is_err()) => return Err(Error::Params),
            Content::Values => Some(Asked::Values),
            Content::Lend => Some(Asked::Lend),
            Content::Area(fixed) => Some(Asked::Area(Area::read(fixed.bytes()))),
            Content::Free(fixed) => Some(Asked::Free(transport::read_free(fixed.bytes()))),
            Content::Unknown(kind) => Some(Asked::Unknown(kind)),
        })
    }

    fn begin(&mut self, request: u16, body: [u8; 8]) -> Asked {
        let (role, keeps) = record::read_begin(body);
        if self.request.is_some() {
            return Asked::Refuse(record::ProtocolStatus::CantMultiplex, request);
        }
        let role = match role {
            1 => Role::Responder,
            2 => Role::Authorizer,
            3 => Role::Filter,
            _ => return Asked::Refuse(record::ProtocolStatus::UnknownRole, request),
        };
        let begun = Begun { request, role, keeps };
        self.request = Some(begun);
        self.forget_params();
        Asked::Begin(begun)
    }
}

/// Appends the answer to a question for values (section 4.1): those that are known, multiplexing denied.
/// `connections` and `requests` are what the application can have at a time, `transports` which it knows.
pub fn values(
    out: &mut Vec<u8>,
    asked: Pairs<'_>,
    (connections, requests): (u32, u32),
    transports: Transports,
) {
    let known = |name: &[u8]| match name {
        b"FCGI_MAX_CONNS" => Some(connections.to_string()),
        b"FCGI_MAX_REQS" => Some(requests.to_string()),
        b"FCGI_MPXS_CONNS" => Some("0".to_owned()),
        transport::QUESTION => Some(transports.names()).filter(|names| !names.is_empty()),
        _ => None,
    };
    let mut content = Vec::new();
    for (name, _) in asked.flatten() {
        if let Some(value) = known(name) {
            content.extend_from_slice(&[name.len() as u8, value.len() as u8]);
            content.extend_from_slice(name);
            content.extend_from_slice(value.as_bytes());
        }
    }
    out.extend_from_slice(&record::header(Kind::GetValuesResult, NO_REQUEST, content.len()));
    out.extend_from_slice(&content);
}
