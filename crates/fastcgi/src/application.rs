//! The application's end of a connection from a web server.
//!
//! It handles one request at a time, which is all that any known web server uses. If a web server begins
//! another meanwhile, the application refuses it. The functions of [`record`] write the answers.

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
    /// The parameters of the request that have been received so far.
    params: Vec<u8>,
    has_params: bool,
    most_params: usize,
    /// The names that a management record asks for.
    asked: Vec<u8>,
    /// The terms on which a client's descriptor is passed.
    lent: Vec<u8>,
    content: Content,
}

/// What a request begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The request id in all records of this request.
    pub request: u16,
    /// The role of the application.
    pub role: Role,
    /// Whether the web server wants to use the connection again.
    pub keeps: bool,
}

/// The content of the current record.
#[derive(Debug, Default)]
enum Content {
    /// Content to be skipped.
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

/// The next event from a web server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All of the input is consumed, and more is needed.
    NeedInput,
    /// A request begins.
    Begin(Begun),
    /// A request begins in an unknown role, or while another is in progress. The caller must end it at once
    /// with this status and request id.
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
    /// The web server gives up the request. The caller must still end it.
    Abort,
    /// The web server asks for values (section 4.1) with [these names](Application::asked).
    Values,
    /// The web server passes the client, on [these terms](Application::lent). Its socket has been received by
    /// now.
    Lend,
    /// The web server shares memory, whose file has been received by now. It replaces an earlier area.
    Area(Area),
    /// The chunk of shared memory with that number belongs to the application again.
    Free(u16),
    /// An unknown management record. Answer it with [`record::unknown_type`].
    Unknown(u8),
}

/// Most bytes of a query for values: four are known, with names of at most 17 bytes each.
const MOST_VALUES: u16 = 1024;

impl Application {
    /// Creates a connection whose requests may have at most that many bytes of parameters.
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

    /// The names of the requested values, each with an empty value.
    pub fn asked(&self) -> Pairs<'_> {
        Pairs::of(&self.asked)
    }

    /// The terms on which the client of the current request is passed, if it is passed.
    pub fn lent(&self) -> Option<Lent<'_>> {
        Lent::read(&self.lent)
    }

    /// Tells the state machine that the current request has been answered and ended.
    pub fn end(&mut self) {
        self.request = None;
        self.forget_params();
        // The rest of the current record is skipped.
        self.content = Content::Other;
    }

    fn forget_params(&mut self) {
        self.lent.clear();
        self.params.clear();
        self.has_params = false;
    }

    /// Interprets bytes from the web server. Returns how many are consumed, and the next event. Call again
    /// with the rest until that is [`Asked::NeedInput`].
    ///
    /// # Errors
    ///
    /// The web server breaks the protocol. Close the connection.
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

    /// Determines from its header what a record contains.
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
            // A record of a request that has ended or never began. Section 3.3 requires that it is ignored.
            Some(Kind::AbortRequest | Kind::Params | Kind::Stdin | Kind::Data) if !is_ours => Content::Other,
            Some(Kind::AbortRequest) => Content::Abort,
            // The client cannot be matched to a request.
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

    /// The event of a complete record, if there is one.
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

/// Appends the answer to a query for values (section 4.1): the known ones, without multiplexing.
/// `connections` and `requests` are the application's maximum at a time, `transports` those that it supports.
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
