//! The client's side of one connection, as a state machine without IO.

use std::ops::Range;

use memchr::memchr;
use thiserror::Error;

use super::error::ReplyError;
use super::response::{BodyLength, ResponseHead};
use crate::Method;
use crate::chunked::{ChunkDecoder, Chunked};

/// The most bytes of a response's head, including status line and blank line.
pub const MAX_HEAD_BYTES: usize = 64 << 10;

/// The most requests that may be waiting for their replies on one connection.
pub const MAX_PIPELINED: u32 = 64;

/// The result of [`Connection::receive`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The input has nothing more to process: keep what was not consumed, and call again with more.
    NeedInput,
    /// The head of an interim response (1xx). Others and the final response of the same request follow.
    Interim(ResponseHead<'a>),
    /// The head of a final response.
    Head(ResponseHead<'a>),
    /// A piece of the body: this range of the input, never empty.
    Body(Range<usize>),
    /// The reply is complete.
    EndOfReply {
        /// Whether the connection may be used for more requests. If not, no further reply will come. Then
        /// close, or read on until the server closes, to check that it sends no byte before that.
        keep_alive: bool,
    },
    /// The server has closed, between replies or after the last. Requests that still [wait for their
    /// replies](Connection::awaited) will not be answered.
    Closed,
}

/// The maximum number of requests already wait for their replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{MAX_PIPELINED} requests await their replies already")]
pub struct PipelineFull;

/// The state of one connection in the client's role.
#[derive(Debug, Default)]
pub struct Connection {
    reading: Reading,
    awaited: Awaited,
    /// The last request offers to switch to another protocol.
    offers_upgrade: bool,
}

/// How input is interpreted.
#[derive(Debug)]
enum Reading {
    /// As a head that has begun or will begin.
    Head(Scan),
    /// As the body of a reply, and whether the connection stays open after it.
    Body(Body, bool),
    /// Never again.
    Over,
    Failed(ReplyError),
}

/// A body that is being received.
#[derive(Debug)]
enum Body {
    Length(u64),
    Chunked(ChunkDecoder),
    UntilClose,
}

impl Default for Reading {
    fn default() -> Self {
        Self::Head(Scan::default())
    }
}

impl Connection {
    /// A connection on which nothing has been sent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that a request has been (or is being) sent. Its reply comes after those of the requests
    /// before it.
    pub fn sent_request(&mut self, method: Method<'_>) -> Result<(), PipelineFull> {
        self.offers_upgrade = false;
        self.awaited.push(method == Method::Head)
    }

    /// Records that the request sent last offers to switch to another protocol (RFC 9110 section 7.8). It
    /// must be the only one that waits for its reply, as nothing may follow it. If the server does switch,
    /// the final head has the status 101. Everything behind that head belongs to the other protocol: do not
    /// pass it to [`receive`](Self::receive).
    pub fn offer_upgrade(&mut self) {
        debug_assert_eq!(self.awaited.count, 1);
        self.offers_upgrade = true;
    }

    /// How many requests wait for the end of their replies.
    pub fn awaited(&self) -> u32 {
        self.awaited.count
    }

    /// Takes input that starts at the first byte not consumed yet. Returns how much of it was consumed
    /// and what it means. `eof`: the server has closed its side. Call again with the rest until the event
    /// is [`NeedInput`](Event::NeedInput) or [`Closed`](Event::Closed).
    pub fn receive<'a>(&mut self, input: &'a [u8], eof: bool) -> Result<(usize, Event<'a>), ReplyError> {
        let received = match &mut self.reading {
            Reading::Head(_) => self.receive_head(input, eof),
            Reading::Body(body, keep_alive) => match body.take(input, eof) {
                Ok((consumed, Event::EndOfReply { .. })) => {
                    let keep_alive = *keep_alive;
                    self.end_reply(keep_alive);
                    Ok((consumed, Event::EndOfReply { keep_alive }))
                }
                other => other,
            },
            Reading::Over if !input.is_empty() => Err(ReplyError::Unexpected),
            Reading::Over => Ok((0, if eof { Event::Closed } else { Event::NeedInput })),
            Reading::Failed(error) => Err(*error),
        };
        if let Err(error) = received {
            self.reading = Reading::Failed(error);
        }
        received
    }

    /// How many of the next bytes are certainly body. A caller that does not need them can let the kernel
    /// drop them (`MSG_TRUNC`, tcp(7)) and report that with [`skipped`](Self::skipped). Valid only when
    /// all input received before has been consumed.
    pub fn skip_body_hint(&self) -> u64 {
        match &self.reading {
            Reading::Body(Body::Length(left), _) => *left,
            Reading::Body(Body::Chunked(decoder), _) => decoder.data_left(),
            Reading::Body(Body::UntilClose, _) => u64::MAX,
            Reading::Head(_) | Reading::Over | Reading::Failed(_) => 0,
        }
    }

    /// Records that `count` bytes of body were received and dropped, at most
    /// [`skip_body_hint`](Self::skip_body_hint).
    pub fn skipped(&mut self, count: u64) {
        debug_assert!(count <= self.skip_body_hint(), "skipping past the end of a body");
        match &mut self.reading {
            Reading::Body(Body::Length(left), _) => *left = left.saturating_sub(count),
            Reading::Body(Body::Chunked(decoder), _) => decoder.skip_data(count),
            _ => {}
        }
    }

    fn receive_head<'a>(&mut self, input: &'a [u8], eof: bool) -> Result<(usize, Event<'a>), ReplyError> {
        let Reading::Head(scan) = &mut self.reading else { unreachable!("called in this state only") };
        let Some(to_head) = self.awaited.first_is_head() else {
            return match (input.is_empty(), eof) {
                (true, true) => {
                    self.reading = Reading::Over;
                    Ok((0, Event::Closed))
                }
                (true, false) => Ok((0, Event::NeedInput)),
                (false, _) => Err(ReplyError::Unexpected),
            };
        };
        let Some(length) = scan.find_end(input)? else {
            return match (input.is_empty(), eof) {
                (_, false) => Ok((0, Event::NeedInput)),
                (true, true) => Err(ReplyError::NoReply),
                (false, true) => Err(ReplyError::CutShort),
            };
        };
        let head = ResponseHead::parse(&input[..length], to_head)?;
        match head.status.0 {
            101 if self.offers_upgrade => {
                self.awaited.pop();
                self.reading = Reading::Over;
            }
            101 => return Err(ReplyError::Switched),
            100..200 => {
                *scan = Scan::default();
                return Ok((length, Event::Interim(head)));
            }
            _ => {
                let body = match head.body {
                    BodyLength::Bytes(length) => Body::Length(length),
                    BodyLength::Chunked => Body::Chunked(ChunkDecoder::new()),
                    BodyLength::UntilClose => Body::UntilClose,
                };
                self.reading = Reading::Body(body, head.keep_alive);
            }
        }
        Ok((length, Event::Head(head)))
    }

    fn end_reply(&mut self, keep_alive: bool) {
        self.awaited.pop();
        self.reading = if keep_alive { Reading::Head(Scan::default()) } else { Reading::Over };
    }
}

impl Body {
    /// Takes the next piece of the body from `input`.
    fn take<'a>(&mut self, input: &'a [u8], eof: bool) -> Result<(usize, Event<'a>), ReplyError> {
        const END: Event<'_> = Event::EndOfReply { keep_alive: false };
        let (consumed, event) = match self {
            Self::Length(0) => (0, END),
            Self::UntilClose if input.is_empty() && eof => (0, END),
            Self::Length(_) | Self::UntilClose if input.is_empty() => (0, Event::NeedInput),
            Self::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= taken as u64;
                (taken, Event::Body(0..taken))
            }
            Self::UntilClose => (input.len(), Event::Body(0..input.len())),
            Self::Chunked(decoder) => match decoder.decode(input)? {
                (consumed, Chunked::NeedInput) => (consumed, Event::NeedInput),
                (consumed, Chunked::Data(range)) => (consumed, Event::Body(range)),
                (consumed, Chunked::End) => (consumed, END),
            },
        };
        if eof && event == Event::NeedInput {
            return Err(ReplyError::CutShort);
        }
        Ok((consumed, event))
    }
}

/// The requests that wait for their replies, in the order sent. Each needs only whether it was HEAD.
#[derive(Debug, Default)]
struct Awaited {
    is_head: u64,
    count: u32,
}

impl Awaited {
    fn push(&mut self, is_head: bool) -> Result<(), PipelineFull> {
        if self.count == MAX_PIPELINED {
            return Err(PipelineFull);
        }
        self.is_head |= u64::from(is_head) << self.count;
        self.count += 1;
        Ok(())
    }

    fn first_is_head(&self) -> Option<bool> {
        (self.count > 0).then_some(self.is_head & 1 == 1)
    }

    fn pop(&mut self) {
        self.is_head >>= 1;
        self.count = self.count.saturating_sub(1);
    }
}

/// How far a head has been scanned, so that a head that arrives byte by byte is not scanned again and
/// again. Positions are relative to its first byte.
#[derive(Debug, Default)]
struct Scan {
    scanned: u32,
    line_start: u32,
}

impl Scan {
    /// The length of the head, including its blank line, once it is complete. `input` starts with the
    /// head's first byte, and has at least the bytes of the last call.
    fn find_end(&mut self, input: &[u8]) -> Result<Option<usize>, ReplyError> {
        const START: &[u8] = b"HTTP/1.";
        let known = START.len().min(input.len());
        if input[..known] != START[..known] {
            return Err(ReplyError::Malformed);
        }
        let mut from = self.scanned as usize;
        while let Some(found) = input.get(from..).and_then(|rest| memchr(b'\n', rest)) {
            let line_feed = from + found;
            if line_feed >= MAX_HEAD_BYTES {
                return Err(ReplyError::HeadTooLarge);
            }
            if input[line_feed - 1] != b'\r' {
                return Err(ReplyError::Malformed);
            }
            if line_feed - 1 == self.line_start as usize {
                return Ok(Some(line_feed + 1));
            }
            from = line_feed + 1;
            self.line_start = from as u32;
        }
        if input.len() >= MAX_HEAD_BYTES {
            return Err(ReplyError::HeadTooLarge);
        }
        self.scanned = input.len() as u32;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Status, Version};

    const _: () = assert!(size_of::<Connection>() <= 128);

    fn awaiting(methods: &[Method<'_>]) -> Connection {
        let mut connection = Connection::new();
        for &method in methods {
            connection.sent_request(method).unwrap();
        }
        connection
    }

    /// All events for one input, on a line: heads as status and length, interim ones as status and fields,
    /// bodies as text.
    fn told(methods: &[Method<'_>], input: &str, eof: bool) -> String {
        let mut connection = awaiting(methods);
        let (mut told, mut at) = (Vec::new(), 0);
        loop {
            let rest = &input.as_bytes()[at..];
            let event = match connection.receive(rest, eof) {
                Ok((consumed, event)) => {
                    at += consumed;
                    event
                }
                Err(error) => {
                    assert_eq!(connection.receive(b"x", eof), Err(error), "an error sticks");
                    told.push(format!("{error:?}"));
                    return told.join(" ");
                }
            };
            match event {
                Event::Interim(head) => told.push(format!("{}({})", head.status.0, head.fields().count())),
                Event::Head(head) => told.push(format!("{}:{:?}", head.status.0, head.body)),
                Event::Body(range) => told.push(String::from_utf8(rest[range].to_vec()).unwrap()),
                Event::EndOfReply { keep_alive } => told.push(if keep_alive { "end" } else { "last" }.into()),
                Event::NeedInput => {
                    told.push(format!("more({})", input.len() - at));
                    return told.join(" ");
                }
                Event::Closed => {
                    told.push("closed".into());
                    return told.join(" ");
                }
            }
        }
    }

    fn get(input: &str, eof: bool) -> String {
        told(&[Method::Get], input, eof)
    }

    #[test]
    fn bodies_are_framed_by_the_rules() {
        for (fields, body, expected) in [
            ("Content-Length: 3\r\n", "abc", "200:Bytes(3) abc end more(0)"),
            ("Content-Length: 0\r\n", "", "200:Bytes(0) end more(0)"),
            ("Content-Length: 5\r\n", "abc", "200:Bytes(5) abc more(0)"),
            ("Transfer-Encoding: Chunked\r\n", "3\r\nabc\r\n0\r\n\r\n", "200:Chunked abc end more(0)"),
            ("", "abc", "200:UntilClose abc more(0)"),
            ("Connection: x, close\r\nContent-Length: 1\r\n", "a", "200:Bytes(1) a last more(0)"),
        ] {
            assert_eq!(get(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}"), false), expected, "{fields}");
        }
        assert_eq!(get("HTTP/1.1 200 OK\r\n\r\nabc", true), "200:UntilClose abc last closed");
    }

    #[test]
    fn some_replies_have_no_body_whatever_they_say() {
        let length = "Content-Length: 3\r\n\r\n";
        for status in ["204 No Content", "304 Not Modified"] {
            let expected = format!("{}:Bytes(0) end more(0)", &status[..3]);
            assert_eq!(get(&format!("HTTP/1.1 {status}\r\n{length}"), false), expected);
        }
        let both = format!("HTTP/1.1 200 OK\r\n{length}HTTP/1.1 200 OK\r\n{length}abc");
        let expected = "200:Bytes(0) end 200:Bytes(3) abc end more(0)";
        assert_eq!(told(&[Method::Head, Method::Get], &both, false), expected);
        assert_eq!(told(&[Method::Head], "HTTP/1.1 200 OK\r\n\r\n", false), "200:Bytes(0) end more(0)");
    }

    #[test]
    fn interim_responses_come_before_the_final_one() {
        let input = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nA: b\r\n\r\n\
                     HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
        assert_eq!(get(input, false), "100(0) 103(2) 200:Bytes(1) a end more(0)");
        let two = [input, input].concat();
        let expected = "100(0) 103(2) 200:Bytes(0) end Malformed";
        assert_eq!(told(&[Method::Head, Method::Get], &two, false), expected, "a body after HEAD");
        assert_eq!(get("HTTP/1.1 100 Continue\r\n\r\nHTTP", false), "100(0) more(4)");
        // They have no body, whatever they say.
        assert_eq!(get("HTTP/1.1 199 x\r\nContent-Length: 3\r\n\r\nHTTP", false), "199(1) more(4)");
        assert_eq!(get("HTTP/1.1 101 Switching Protocols\r\n\r\n", false), "Switched");
        let late = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 103 Early Hints\r\n\r\n";
        assert_eq!(get(late, false), "200:Bytes(1) a end Unexpected");
    }

    #[test]
    fn a_switch_that_was_offered_is_the_last_head() {
        let input = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\nabc";
        let mut connection = Connection::new();
        connection.sent_request(Method::Get).unwrap();
        connection.offer_upgrade();
        let (interim, event) = connection.receive(input, false).unwrap();
        assert!(matches!(event, Event::Interim(_)), "{event:?}");
        let (used, event) = connection.receive(&input[interim..], false).unwrap();
        assert_eq!(&input[interim + used..], b"abc");
        let Event::Head(head) = event else { panic!("{event:?}") };
        assert_eq!((head.status, head.field("upgrade")), (Status::SWITCHING_PROTOCOLS, Some(&b"a"[..])));
        assert_eq!(connection.awaited(), 0);
        assert_eq!(connection.receive(b"", true), Ok((0, Event::Closed)));
        // The next request on another connection offers nothing.
        let mut connection = Connection::new();
        connection.sent_request(Method::Get).unwrap();
        connection.offer_upgrade();
        let reply = b"HTTP/1.1 204 No Content\r\n\r\n";
        assert!(matches!(connection.receive(reply, false), Ok((_, Event::Head(_)))));
        assert!(matches!(connection.receive(b"", false), Ok((0, Event::EndOfReply { keep_alive: true }))));
        connection.sent_request(Method::Get).unwrap();
        let switch = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
        assert_eq!(connection.receive(switch, false), Err(ReplyError::Switched));
    }

    #[test]
    fn old_servers_close_unless_they_say_otherwise() {
        assert_eq!(get("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", true), "200:Bytes(1) a last closed");
        let keep = "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\na";
        assert_eq!(get(keep, false), "200:Bytes(1) a end more(0)");
        assert_eq!(get("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false), "Framing");
    }

    #[test]
    fn contradictory_framing_is_an_error() {
        for fields in [
            "Content-Length: 1\r\nContent-Length: 1",
            "Content-Length: 1, 1",
            "Content-Length: -1",
            "Content-Length:",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked, gzip",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: identity",
        ] {
            assert_eq!(get(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\na"), false), "Framing", "{fields}");
        }
    }

    #[test]
    fn malformed_heads_are_refused() {
        for input in [
            "ICY 200 OK\r\n\r\n",
            "\r\nHTTP/1.1 200 OK\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 99 Low\r\n\r\n",
            "HTTP/1.1 099 Low\r\n\r\n",
            "HTTP/1.1 1000 High\r\n\r\n",
            "HTTP/1.1 200 OK\n\n",
            "HTTP/1.1 200 OK\r\nA: b\n\r\n",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
            "x",
        ] {
            assert_eq!(get(input, false), "Malformed", "{input:?}");
        }
        // Applications may use the codes that HTTP does not define.
        for status in [600, 999] {
            let reply = format!("HTTP/1.1 {status} High\r\nContent-Length: 1\r\n\r\na");
            assert_eq!(get(&reply, false), format!("{status}:Bytes(1) a end more(0)"));
        }
    }

    #[test]
    fn heads_have_a_limit() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(MAX_HEAD_BYTES));
        assert_eq!(get(&long, false), "HeadTooLarge");
        assert_eq!(get(&format!("{long}\r\n\r\n"), false), "HeadTooLarge");
        // Only the bytes are limited, not the lines.
        for count in [63, 64, 65, 10_000] {
            let many = "A: b\r\n".repeat(count);
            let reply = format!("HTTP/1.1 200 OK\r\n{many}Content-Length: 1\r\n\r\na");
            assert_eq!(get(&reply, false), "200:Bytes(1) a end more(0)", "{count}");
        }
        let many = "A: b\r\n".repeat(MAX_HEAD_BYTES / 6);
        assert_eq!(get(&format!("HTTP/1.1 200 OK\r\n{many}\r\n"), false), "HeadTooLarge");
    }

    #[test]
    fn an_early_end_is_told_apart() {
        assert_eq!(told(&[], "", true), "closed");
        assert_eq!(get("", true), "NoReply");
        assert_eq!(get("HTTP/1.1 100 Continue\r\n\r\n", true), "100(0) NoReply");
        assert_eq!(get("HTTP", true), "CutShort");
        assert_eq!(get("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", true), "200:Bytes(2) a CutShort");
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
        assert_eq!(get(chunked, true), "200:Chunked a CutShort");
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
        assert_eq!(get(whole, true), "200:Bytes(1) a end closed");
    }

    #[test]
    fn bytes_beyond_the_reply_are_noticed() {
        assert_eq!(told(&[], "H", false), "Unexpected");
        let kept = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab";
        assert_eq!(get(kept, false), "200:Bytes(1) a end Unexpected");
        let last = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nab";
        assert_eq!(get(last, false), "200:Bytes(1) a last Unexpected");
    }

    #[test]
    fn requests_are_awaited_up_to_a_bound() {
        let mut connection = awaiting(&[Method::Get; MAX_PIPELINED as usize]);
        assert_eq!(connection.sent_request(Method::Get), Err(PipelineFull));
        let reply = b"HTTP/1.1 204 No Content\r\n\r\n";
        assert!(matches!(connection.receive(reply, false), Ok((_, Event::Head(_)))));
        assert_eq!(connection.receive(b"", false), Ok((0, Event::EndOfReply { keep_alive: true })));
        assert_eq!(connection.awaited(), MAX_PIPELINED - 1);
        assert_eq!(connection.sent_request(Method::Head), Ok(()));
    }

    #[test]
    fn bodies_can_be_skipped() {
        let mut connection = awaiting(&[Method::Get; 3]);
        assert_eq!(connection.skip_body_hint(), 0);
        let length = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na";
        let (consumed, _) = connection.receive(length, false).unwrap();
        assert_eq!(connection.receive(&length[consumed..], false), Ok((1, Event::Body(0..1))));
        assert_eq!(connection.skip_body_hint(), 99);
        connection.skipped(98);
        assert_eq!(connection.receive(b"", false), Ok((0, Event::NeedInput)));
        connection.skipped(1);
        assert_eq!(connection.receive(b"", false), Ok((0, Event::EndOfReply { keep_alive: true })));

        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n";
        let (consumed, _) = connection.receive(chunked, false).unwrap();
        assert_eq!(connection.skip_body_hint(), 0, "the size of the chunk has not been read");
        assert_eq!(connection.receive(&chunked[consumed..], false), Ok((4, Event::NeedInput)));
        connection.skipped(connection.skip_body_hint());
        let rest = b"\r\n0\r\n\r\n";
        assert_eq!(connection.receive(rest, false), Ok((7, Event::EndOfReply { keep_alive: true })));

        let (_, head) = connection.receive(b"HTTP/1.1 200 OK\r\n\r\n", false).unwrap();
        assert!(matches!(head, Event::Head(_)));
        assert_eq!(connection.skip_body_hint(), u64::MAX);
        connection.skipped(1 << 40);
        assert_eq!(connection.receive(b"", true), Ok((0, Event::EndOfReply { keep_alive: false })));
    }

    #[test]
    fn a_head_shows_its_fields() {
        let input =
            b"HTTP/1.1 206\r\nETag: \"a:b\"\r\nEmpty:\r\nVary: \t x \r\nvary: y\r\nContent-Length: 0\r\n\r\n";
        let mut connection = awaiting(&[Method::Get]);
        let Ok((_, Event::Head(head))) = connection.receive(input, false) else { panic!("not a head") };
        assert_eq!((head.status, head.version), (Status(206), Version::Http11));
        assert_eq!(head.field("etag"), Some(&b"\"a:b\""[..]));
        assert_eq!(head.field("EMPTY"), Some(&b""[..]));
        assert_eq!(head.field("Vary"), Some(&b"x"[..]));
        assert_eq!(head.field("Va"), None);
        assert_eq!(head.fields().count(), 5);
    }
}
