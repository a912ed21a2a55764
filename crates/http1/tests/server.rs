//! The server's connection step by step: limits, timers, and every way in which a connection ends.

use http1::{
    Connection, End, ErrorKind, Limits, Plan, Segment, Sheet, Stamp, Status, Step, Tick, Timeout, Timeouts,
    TimerKind,
};

/// A connection, its limits and clock, and the input that it has not consumed.
struct Peer {
    limits: Limits,
    now: Tick,
    connection: Connection<()>,
    input: Vec<u8>,
    eof: bool,
}

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

impl Peer {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let now = Tick(0);
        Self { connection: Connection::new(now, &limits), limits, now, input: Vec::new(), eof: false }
    }

    /// What is made of the input so far and this. Requests are answered, but nothing is sent.
    fn receives(&mut self, bytes: &str) -> String {
        self.input.extend_from_slice(bytes.as_bytes());
        let mut told = Vec::new();
        loop {
            match self.connection.receive(&self.limits, self.now, &self.input, self.eof) {
                Ok((consumed, step)) => {
                    let is_over = matches!(step, Step::NeedInput | Step::Paused | Step::Closed);
                    let (name, answer) = match step {
                        Step::NeedInput => ("more", None),
                        Step::Paused => ("paused", None),
                        Step::Closed => ("closed", None),
                        Step::Body(_) => ("body", None),
                        Step::EndOfRequest => ("end", None),
                        Step::Refused(_, error) => {
                            told.push(format!("{:?}", error.kind));
                            self.input.drain(..consumed);
                            self.answers(error.status());
                            return told.join(" ");
                        }
                        Step::Request(head) => {
                            (if head.terms.persistent { "request" } else { "last" }, Some(head.terms))
                        }
                    };
                    told.push(name.to_owned());
                    self.input.drain(..consumed);
                    if let Some(terms) = answer {
                        let mut plan = Plan::new(Sheet::default(), Status::OK, terms, &Stamp::new("", 0));
                        plan.text("text/plain", b"ok");
                        self.connection.respond(&self.limits, self.now, plan);
                    }
                    if is_over {
                        return told.join(" ");
                    }
                }
                Err(error) => {
                    told.push(format!("{:?}", error.kind));
                    if self.connection.owes_answer() {
                        self.answers(error.status());
                    }
                    return told.join(" ");
                }
            }
        }
    }

    /// The client shuts down its side.
    fn ends(&mut self) -> String {
        self.eof = true;
        self.receives("")
    }

    fn answers(&mut self, status: Status) {
        let terms = self.connection.error_terms();
        let mut plan = Plan::new(Sheet::default(), status, terms, &Stamp::new("", 0));
        plan.text("text/plain", b"no");
        self.connection.respond(&self.limits, self.now, plan);
    }

    /// Sends at most `most` bytes of what there is, and gives them.
    fn sends(&mut self, most: usize) -> String {
        let mut sent = Vec::new();
        while sent.len() < most {
            let Some(Segment::Own(bytes)) = self.connection.output().next() else { break };
            let piece = bytes[..bytes.len().min(most - sent.len())].to_vec();
            self.connection.sent(&self.limits, self.now, piece.len() as u64);
            sent.extend_from_slice(&piece);
        }
        String::from_utf8(sent).unwrap()
    }

    /// Sends all there is, releases the reply, and gives its status line's code.
    fn replies(&mut self) -> String {
        let sent = self.sends(usize::MAX);
        let ended = self.connection.release().expect("a reply was sent");
        assert!(ended.complete && ended.body_sent == 2);
        sent["HTTP/1.1 ".len()..][..3].to_owned()
    }

    fn passes(&mut self, ticks: u32) {
        self.now = self.now.after(ticks);
    }

    fn times_out(&mut self) -> Timeout {
        self.connection.timeout(&self.limits, self.now)
    }

    fn end(&self) -> End {
        self.connection.wants().end
    }
}

#[test]
fn requests_follow_one_another_when_replies_are_released() {
    let mut peer = Peer::new();
    assert!(peer.connection.is_idle());
    assert_eq!(peer.receives(&[GET, GET].concat()), "request paused");
    assert!(!peer.connection.is_idle() && peer.connection.is_replying());
    peer.sends(usize::MAX);
    assert_eq!(peer.receives(""), "paused", "the buffer of the reply is still lent");
    assert!(peer.connection.release().is_some());
    assert_eq!(peer.receives(""), "request paused");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.receives(""), "more");
    assert!(peer.connection.is_idle());
    assert_eq!(peer.connection.requests(), 2);
    assert_eq!(peer.ends(), "closed");
    assert_eq!(peer.end(), End::Close);
}

#[test]
fn a_client_that_shut_its_side_gets_its_replies() {
    let mut peer = Peer::new();
    peer.eof = true;
    assert_eq!(peer.receives(&[GET, GET].concat()), "request paused");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.receives(""), "request paused");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.receives(""), "closed");
    assert_eq!(peer.end(), End::Close);
}

#[test]
fn a_body_is_read_whether_the_reply_is_sent_before_or_after() {
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n";
    let mut peer = Peer::new();
    assert_eq!(peer.receives(post), "request more");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.end(), End::Open);
    assert_eq!(peer.receives(&["body", GET].concat()), "body end request paused");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.receives(&[post, "body"].concat()), "request body end paused");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.receives(""), "more");
}

#[test]
fn bodies_have_a_limit_however_they_are_framed() {
    let limits = || Limits { body: 20, ..Limits::default() };
    let head = "POST / HTTP/1.1\r\nHost: h\r\n";
    let mut peer = Peer::with(limits());
    assert_eq!(peer.receives(&format!("{head}Content-Length: 21\r\n\r\n")), "BodyTooLarge");
    assert_eq!(peer.replies(), "413");
    assert_eq!(peer.end(), End::ShutDown, "the body may be on its way: the reply must survive it");

    // Of chunks the data count, and a chunk that is too large is refused before it has come.
    for sizes in [&["15"][..], &["13", "2"], &["ffffffffffffffff"], &["14", "1"]] {
        let (last, within) = sizes.split_last().unwrap();
        let mut peer = Peer::with(limits());
        assert_eq!(peer.receives(&format!("{head}Transfer-Encoding: chunked\r\n\r\n")), "request more");
        for size in within {
            let data = "a".repeat(usize::from_str_radix(size, 16).unwrap());
            assert_eq!(
                peer.receives(&format!("{size};framing=\"of any length\"\r\n{data}\r\n")),
                "body more"
            );
        }
        assert_eq!(peer.receives(&format!("{last}\r\n")), "BodyTooLarge", "{sizes:?}");
        assert_eq!(peer.replies(), "200", "it was answered already");
        assert_eq!(peer.end(), End::ShutDown);
        assert_eq!(peer.receives("a\r\n"), "closed");
    }
    let mut peer = Peer::with(limits());
    let chunks = "1;a=b\r\na\r\n".repeat(20);
    let bodies = "body ".repeat(20);
    let request =
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\nTrailer: of some length\r\n\r\n");
    assert_eq!(peer.receives(&request), format!("request {bodies}end paused"));
}

#[test]
fn a_request_that_is_refused_is_told_of_and_is_the_last() {
    let limits = || Limits { body: 20, ..Limits::default() };
    for (fields, kind, status) in [
        ("Expect: more\r\n", "Expectation", "417"),
        ("Expect: more\r\nContent-Length: 4\r\n", "Expectation", "417"),
        ("Expect: more, 100-continue\r\n", "Expectation", "417"),
        ("Content-Length: 21\r\n", "BodyTooLarge", "413"),
    ] {
        let mut peer = Peer::with(limits());
        assert_eq!(peer.receives(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n{GET}")), kind);
        assert!(peer.sends(12).ends_with(status));
        peer.sends(usize::MAX);
        assert_eq!(peer.end(), End::ShutDown);
        assert_eq!(peer.receives(""), "closed", "what follows is no request");
    }
}

#[test]
fn one_who_expects_100_gets_the_final_reply_and_the_end() {
    let mut peer = Peer::new();
    let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n";
    assert_eq!(peer.receives(head), "last more");
    let reply = peer.sends(usize::MAX);
    assert!(reply.contains("Connection: close\r\n"), "{reply}");
    assert_eq!(peer.end(), End::ShutDown);

    // Without a body there is nothing to wait for, and empty members mean nothing.
    for expect in ["100-continue\r\nContent-Length: 0", "100-continue", "", ",", " , 100-continue,,"] {
        let mut peer = Peer::new();
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\nExpect: {expect}\r\n\r\n");
        assert_eq!(peer.receives(&head), "request paused", "{expect:?}");
    }
}

#[test]
fn the_last_request_allowed_says_close() {
    let mut peer = Peer::with(Limits { requests: 2, ..Limits::default() });
    assert_eq!(peer.receives(&[GET, GET, GET].concat()), "request paused");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.receives(""), "last paused");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.receives(""), "closed");
    assert_eq!(peer.end(), End::ShutDown, "the client may have sent more");
}

#[test]
fn draining_ends_with_the_next_reply() {
    let mut peer = Peer::new();
    peer.connection.drain();
    assert_eq!(peer.receives(GET), "last paused");
    assert!(peer.sends(usize::MAX).contains("Connection: close\r\n"));
    assert_eq!(peer.end(), End::ShutDown);
    peer.connection.write_side_shut(&peer.limits, peer.now);
    assert!(peer.connection.is_lingering() && peer.connection.wants().read);
    assert_eq!(peer.receives(GET), "closed");
    assert_eq!(peer.end(), End::Open, "the client has not closed");
    assert_eq!(peer.ends(), "closed");
    assert_eq!(peer.end(), End::Close);
}

#[test]
fn a_client_that_said_close_needs_no_lingering() {
    let mut peer = Peer::new();
    assert_eq!(peer.receives("GET / HTTP/1.0\r\n\r\n"), "last paused");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.end(), End::Close);
    assert_eq!(peer.receives(""), "closed");
    assert_eq!(peer.end(), End::Close);
}

#[test]
fn a_client_that_said_close_and_went_on_is_lingered_for() {
    for request in ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"] {
        let mut peer = Peer::new();
        assert_eq!(peer.receives(&[request, "\n"].concat()), "last paused");
        assert_eq!(peer.replies(), "200");
        assert_eq!(peer.receives(""), "closed");
        assert_eq!(peer.end(), End::ShutDown);
        peer.connection.write_side_shut(&peer.limits, peer.now);
        assert_eq!(peer.receives("more"), "closed");
        assert_eq!(
            (peer.end(), peer.connection.deadline()),
            (End::Open, Some(Tick(peer.limits.timeouts.linger)))
        );
        assert_eq!(peer.ends(), "closed");
        assert_eq!(peer.end(), End::Close);
    }
    // There is nobody to linger for when the reply could not be sent, and nothing is unread behind the end.
    let mut peer = Peer::new();
    peer.receives("GET / HTTP/1.0\r\n\r\n\n");
    peer.connection.send_failed();
    peer.connection.release();
    assert_eq!((peer.receives("").as_str(), peer.end()), ("closed", End::Close));
    let mut peer = Peer::new();
    peer.receives("GET / HTTP/1.0\r\n\r\n\n");
    peer.replies();
    assert_eq!((peer.ends().as_str(), peer.end()), ("closed", End::Close));
}

#[test]
fn only_idle_connections_are_closed_for_being_idle() {
    let mut fresh = Peer::new();
    assert!(fresh.connection.close_if_idle());
    assert_eq!(fresh.end(), End::Close);

    let mut peer = Peer::new();
    assert_eq!(peer.receives("GET"), "more");
    assert!(!peer.connection.close_if_idle());
    assert_eq!(peer.receives(&GET[3..]), "request paused");
    assert!(!peer.connection.close_if_idle());
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.receives("\r\n"), "more");
    assert!(peer.connection.close_if_idle(), "an empty line is no request");
    assert_eq!(peer.end(), End::ShutDown);
}

#[test]
fn an_early_end_is_answered_when_a_request_had_begun() {
    let mut peer = Peer::new();
    assert_eq!(peer.ends(), "closed");
    assert_eq!(peer.end(), End::Close);

    let mut peer = Peer::new();
    assert_eq!(peer.receives("GET /"), "more");
    assert_eq!(peer.ends(), "CutShort");
    assert_eq!(peer.replies(), "400");
    assert_eq!(peer.end(), End::Close);
}

#[test]
fn a_broken_body_ends_the_connection_after_the_reply() {
    let mut peer = Peer::new();
    let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(peer.receives(head), "request more");
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.receives("1\n"), "Chunk");
    assert!(!peer.connection.owes_answer());
    assert_eq!(peer.end(), End::ShutDown);
}

#[test]
fn failures_to_send_close_and_broken_promises_reset() {
    let mut peer = Peer::new();
    assert_eq!(peer.receives(&[GET, GET].concat()), "request paused");
    peer.sends(10);
    peer.connection.send_failed();
    assert_eq!(peer.end(), End::Close);
    assert!(peer.connection.release().is_some_and(|ended| !ended.complete));
    assert_eq!(peer.receives(""), "closed");

    let mut peer = Peer::new();
    assert_eq!(peer.receives(GET), "request paused");
    peer.connection.abort();
    assert_eq!(peer.end(), End::Reset);
    assert!(!peer.connection.wants().write);
    assert!(peer.connection.release().is_some());
}

#[test]
fn a_dribbled_head_is_timed_from_its_first_byte() {
    let mut peer = Peer::new();
    let header = peer.limits.timeouts.header;
    assert_eq!(peer.connection.deadline(), Some(Tick(header)));
    assert_eq!(peer.receives("GET "), "more");
    peer.passes(header - 1);
    assert_eq!(peer.receives("/"), "more");
    assert_eq!(peer.times_out(), Timeout::NotYet);
    peer.passes(1);
    assert_eq!(peer.times_out(), Timeout::Answer(TimerKind::Header, ErrorKind::HeaderTimeout.into()));
    peer.answers(ErrorKind::HeaderTimeout.status());
    assert_eq!(peer.replies(), "408");
    assert_eq!(peer.end(), End::ShutDown);
}

#[test]
fn content_answers_no_head_even_when_it_is_refused() {
    for refused in ["HEAD / HTTP/1.1\r\n\r\n", "HEAD  / HTTP/1.1\r\n\r\n"] {
        let mut peer = Peer::new();
        peer.receives(refused);
        assert!(!peer.connection.error_terms().body, "{refused}");
    }
    let mut peer = Peer::new();
    peer.receives("GET / HTTP/1.1\r\n\r\n");
    assert!(peer.connection.error_terms().body);
}

#[test]
fn silence_is_closed_without_a_word() {
    let mut peer = Peer::new();
    peer.passes(peer.limits.timeouts.header);
    assert_eq!(peer.times_out(), Timeout::Ended(TimerKind::Header));
    assert_eq!(peer.end(), End::Close);

    let mut peer = Peer::new();
    assert_eq!(peer.receives(GET), "request paused");
    peer.passes(1000);
    assert_eq!(peer.replies(), "200");
    assert_eq!(peer.connection.deadline(), Some(Tick(1000 + peer.limits.timeouts.idle)));
    assert_eq!(peer.receives("G"), "more");
    assert_eq!(peer.connection.deadline(), Some(Tick(1000 + peer.limits.timeouts.header)));
}

#[test]
fn an_idle_connection_is_closed_when_its_time_is_up() {
    let mut peer = Peer::new();
    assert_eq!(peer.receives(GET), "request paused");
    assert_eq!(peer.replies(), "200");
    peer.passes(peer.limits.timeouts.idle);
    assert_eq!(peer.receives("\r\n"), "more", "empty lines win no time");
    assert_eq!(peer.times_out(), Timeout::Ended(TimerKind::Idle));
    assert_eq!(peer.end(), End::Close);
}

#[test]
fn a_body_must_keep_its_rate() {
    let ticks = Timeouts::ticks(1000);
    let timeouts = Timeouts { body: ticks, body_rate: 10, ..Timeouts::default() };
    let mut peer = Peer::with(Limits { timeouts, ..Limits::default() });
    assert_eq!(peer.receives("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"), "request more");
    assert_eq!(peer.replies(), "200");
    peer.receives("0123456789");
    peer.passes(ticks);
    assert_eq!(peer.times_out(), Timeout::NotYet);
    assert_eq!(peer.connection.deadline(), Some(peer.now.after(ticks)));
    peer.receives("012345678");
    peer.passes(ticks);
    assert_eq!(peer.times_out(), Timeout::Ended(TimerKind::Body), "it was answered already");
    assert_eq!(peer.end(), End::ShutDown);
}

#[test]
fn a_reader_must_keep_its_rate() {
    let ticks = Timeouts::ticks(1000);
    let timeouts = Timeouts { write: ticks, write_rate: 10, ..Timeouts::default() };
    let mut peer = Peer::with(Limits { timeouts, ..Limits::default() });
    assert_eq!(peer.receives(GET), "request paused");
    peer.sends(10);
    peer.passes(ticks);
    assert_eq!(peer.times_out(), Timeout::NotYet);
    peer.sends(9);
    peer.passes(ticks);
    assert_eq!(peer.times_out(), Timeout::Ended(TimerKind::Write));
    assert_eq!(peer.end(), End::Reset);
    assert!(peer.connection.release().is_some_and(|ended| !ended.complete));
}

#[test]
fn the_servers_delays_are_not_the_clients() {
    let ticks = Timeouts::ticks(1000);
    let timeouts =
        Timeouts { write: ticks, write_rate: 10, body: ticks, body_rate: 10, ..Timeouts::default() };
    let mut peer = Peer::with(Limits { timeouts, ..Limits::default() });
    assert_eq!(peer.receives("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"), "request more");
    peer.passes(ticks / 2);
    peer.connection.stall(peer.now);
    peer.passes(ticks);
    peer.connection.stall(peer.now);
    peer.passes(ticks);
    assert_eq!((peer.connection.deadline(), peer.times_out()), (None, Timeout::NotYet));
    peer.connection.resume(peer.now);
    assert_eq!(peer.connection.deadline(), Some(peer.now.after(ticks - ticks / 2)), "half of it is left");
    peer.connection.resume(peer.now.after(1));
    assert_eq!(peer.times_out(), Timeout::NotYet);
    peer.passes(ticks - ticks / 2);
    assert_eq!(peer.times_out(), Timeout::Ended(TimerKind::Write));
}

#[test]
fn lingering_has_an_end() {
    let mut peer = Peer::new();
    assert_eq!(peer.receives("BAD\r\n\r\n"), "RequestLine");
    assert_eq!(peer.replies(), "400");
    peer.connection.write_side_shut(&peer.limits, peer.now);
    assert_eq!(peer.receives("more and more"), "closed");
    peer.passes(peer.limits.timeouts.linger);
    assert_eq!(peer.times_out(), Timeout::Ended(TimerKind::Linger));
    assert_eq!(peer.end(), End::Close);
}

/// Somebody else needs the place: what is given up ends as it does when its time is over, only sooner.
#[test]
fn what_is_given_up_ends_as_by_its_timer() {
    const POST: &str = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n";
    let silent = |_: &mut Peer| {};
    let head = |peer: &mut Peer| drop(peer.receives("GET /"));
    let body = |peer: &mut Peer| {
        peer.receives(POST);
        peer.replies();
    };
    let reader = |peer: &mut Peer| drop(peer.receives(GET));
    let body_and_reader = |peer: &mut Peer| drop(peer.receives(POST));
    let idle = |peer: &mut Peer| {
        peer.receives(GET);
        peer.replies();
    };
    let lingering = |peer: &mut Peer| {
        peer.receives("BAD\r\n\r\n");
        peer.replies();
        peer.connection.write_side_shut(&peer.limits, peer.now);
    };
    let ways: [&dyn Fn(&mut Peer); 7] = [&silent, &head, &body, &reader, &body_and_reader, &idle, &lingering];
    for (number, begin) in ways.into_iter().enumerate() {
        let (mut given_up, mut timed_out) = (Peer::new(), Peer::new());
        begin(&mut given_up);
        begin(&mut timed_out);
        timed_out.passes(Timeouts::ticks(1_000_000));
        assert_eq!(given_up.connection.give_up(), timed_out.times_out(), "{number}");
        assert_eq!(given_up.connection.wants(), timed_out.connection.wants(), "{number}");
    }
    let mut peer = Peer::new();
    idle(&mut peer);
    assert!(peer.connection.close_if_idle());
    assert_eq!(peer.connection.give_up(), Timeout::NotYet, "it ends already");
}
