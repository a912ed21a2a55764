//! A web server's end and an application's, with a network between them that cuts as it likes.

use fastcgi::record::{self, Kind, ProtocolStatus};
use fastcgi::transport::{self, Area, Filled, Lent, Returned};
use fastcgi::{Application, Asked, Output, Params, Role, Transports, WebServer};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Exchange {
    params: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    /// What is said, and whether it is for the error log.
    says: Vec<(bool, Vec<u8>)>,
    exit: u32,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let long = prop_oneof![8 => bytes(300), 1 => Just(vec![7; 65_000])];
    let params = prop::collection::vec((bytes(200), long), 0..8);
    let body = prop_oneof![3 => bytes(400), 1 => Just(vec![b'b'; 140_000])];
    let says = prop::collection::vec((any::<bool>(), bytes(300)), 0..6);
    (params, body, says, any::<u32>()).prop_map(|(params, body, says, exit)| Exchange {
        params,
        body,
        says,
        exit,
    })
}

/// Bytes on their way, of which the receiver sees as much at a time as the next cut says.
struct Wire<'a> {
    bytes: Vec<u8>,
    at: usize,
    seen: usize,
    cuts: &'a mut dyn Iterator<Item = usize>,
}

impl<'a> Wire<'a> {
    fn new(bytes: Vec<u8>, cuts: &'a mut dyn Iterator<Item = usize>) -> Self {
        Self { bytes, at: 0, seen: 0, cuts }
    }

    fn lent(&self) -> &[u8] {
        &self.bytes[self.at..self.seen]
    }

    /// `false`: there is no more.
    fn more(&mut self) -> bool {
        assert_eq!(self.at, self.seen, "input was left over");
        self.seen = (self.seen + self.cuts.next().unwrap_or(usize::MAX / 2).max(1)).min(self.bytes.len());
        self.at < self.seen
    }
}

fn ask(web_server: &mut WebServer, exchange: &Exchange) -> Vec<u8> {
    let mut out = Vec::new();
    let request = web_server.begin(&mut out, Role::Responder, true);
    let mut params = Params::new(&mut out, request);
    exchange.params.iter().for_each(|(name, value)| params.pair(name, value).unwrap());
    params.finish();
    record::stream(&mut out, Kind::Stdin, request, &exchange.body);
    record::end_of_stream(&mut out, Kind::Stdin, request);
    out
}

/// Answers what is asked, and checks that it is what was.
fn answer(application: &mut Application, exchange: &Exchange, mut wire: Wire<'_>) -> Vec<u8> {
    let (mut body, mut has_params) = (Vec::new(), false);
    loop {
        let (used, asked) = application.receive(wire.lent()).unwrap();
        match &asked {
            Asked::NeedInput => {}
            Asked::Begin(begun) => assert_eq!((begun.role, begun.keeps), (Role::Responder, true)),
            Asked::Params => {
                let pairs = application.params().map(Result::unwrap);
                let pairs: Vec<_> = pairs.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                assert!(pairs == exchange.params);
                has_params = true;
            }
            Asked::Stdin(range) => body.extend_from_slice(&wire.lent()[range.clone()]),
            Asked::EndOfStdin => break,
            other => panic!("{other:?}"),
        }
        wire.at += used;
        assert!(asked != Asked::NeedInput || wire.more(), "the request is not complete");
    }
    assert!(has_params && body == exchange.body);
    let request = application.request().unwrap().request;
    let mut out = Vec::new();
    for (is_error, text) in &exchange.says {
        record::stream(&mut out, if *is_error { Kind::Stderr } else { Kind::Stdout }, request, text);
    }
    record::end_of_stream(&mut out, Kind::Stdout, request);
    record::end_request(&mut out, request, exchange.exit, ProtocolStatus::RequestComplete);
    application.end();
    out
}

fn hear(web_server: &mut WebServer, mut wire: Wire<'_>) -> (Vec<u8>, Vec<u8>, u32) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        let (used, output) = web_server.receive(wire.lent()).unwrap();
        match &output {
            Output::NeedInput => {}
            Output::Stdout(range) => stdout.extend_from_slice(&wire.lent()[range.clone()]),
            Output::Stderr(range) => stderr.extend_from_slice(&wire.lent()[range.clone()]),
            Output::End { exit } => return (stdout, stderr, *exit),
            other => panic!("{other:?}"),
        }
        wire.at += used;
        assert!(output != Output::NeedInput || wire.more(), "the reply is not complete");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_one_end_says_the_other_hears(
        exchanges in prop::collection::vec(exchange(), 1..4),
        cuts in prop::collection::vec(1_usize..2000, 0..200),
    ) {
        let (mut web_server, mut application) = (WebServer::default(), Application::new(1 << 20));
        let mut cuts = cuts.into_iter();
        for exchange in &exchanges {
            let asked = ask(&mut web_server, exchange);
            let answered = answer(&mut application, exchange, Wire::new(asked, &mut cuts));
            let (stdout, stderr, exit) = hear(&mut web_server, Wire::new(answered, &mut cuts));
            let said = |is_error| -> Vec<u8> {
                let of = exchange.says.iter().filter(|(error, _)| *error == is_error);
                of.flat_map(|(_, text)| text.clone()).collect()
            };
            prop_assert!(stdout == said(false) && stderr == said(true));
            prop_assert_eq!(exit, exchange.exit);
            prop_assert!(web_server.is_idle());
        }
    }
}

#[test]
fn an_application_does_one_thing_at_a_time() {
    let mut application = Application::new(100);
    let mut input = Vec::new();
    record::begin_request(&mut input, 1, Role::Responder, false);
    record::begin_request(&mut input, 2, Role::Responder, false);
    record::abort_request(&mut input, 2);
    record::abort_request(&mut input, 1);
    let mut told = Vec::new();
    let mut at = 0;
    loop {
        let (used, asked) = application.receive(&input[at..]).unwrap();
        at += used;
        if asked == Asked::NeedInput {
            break;
        }
        told.push(asked);
    }
    let refusal = Asked::Refuse(ProtocolStatus::CantMultiplex, 2);
    assert!(matches!(&told[..], [Asked::Begin(_), refused, Asked::Abort] if *refused == refusal), "{told:?}");
}

#[test]
fn values_are_told() {
    let mut application = Application::new(100);
    let mut input = record::header(Kind::GetValues, record::NO_REQUEST, 18).to_vec();
    input.extend_from_slice(b"\x0d\x00FCGI_MAX_REQS\x01\x00?");
    assert_eq!(application.receive(&input), Ok((input.len(), Asked::Values)));
    let mut out = Vec::new();
    fastcgi::values(&mut out, application.asked(), (5, 7), Transports::default());
    assert_eq!(out[..8], record::header(Kind::GetValuesResult, record::NO_REQUEST, 16));
    assert_eq!(&out[8..], b"\x0d\x01FCGI_MAX_REQS7");
}

#[test]
fn parameters_have_a_limit() {
    let mut application = Application::new(9);
    let mut input = Vec::new();
    record::begin_request(&mut input, 1, Role::Responder, false);
    let (begun, _) = application.receive(&input).unwrap();
    assert_eq!(begun, input.len());
    let mut params = Vec::new();
    let mut pairs = Params::new(&mut params, 1);
    pairs.pair(b"NAME", b"VALUE").unwrap();
    pairs.finish();
    assert_eq!(application.receive(&params), Err(fastcgi::Error::Params));
}

#[test]
fn what_is_left_of_a_request_that_was_ended_is_nobodys() {
    let mut application = Application::new(100);
    let mut input = Vec::new();
    record::begin_request(&mut input, 1, Role::Responder, true);
    record::end_of_stream(&mut input, Kind::Params, 1);
    record::stream(&mut input, Kind::Stdin, 1, b"body");
    let body = input.len() - 2;
    let mut at = 0;
    loop {
        let (used, asked) = application.receive(&input[at..body]).unwrap();
        at += used;
        match asked {
            Asked::Stdin(_) => application.end(),
            Asked::NeedInput => break,
            _ => {}
        }
    }
    record::begin_request(&mut input, 2, Role::Responder, true);
    let (_, asked) = application.receive(&input[at..]).unwrap();
    assert!(matches!(asked, Asked::Begin(begun) if begun.request == 2), "{asked:?}");
}

#[test]
fn parameters_that_are_complete_stay_so() {
    let mut application = Application::new(100);
    let mut input = Vec::new();
    record::begin_request(&mut input, 1, Role::Responder, true);
    record::end_of_stream(&mut input, Kind::Params, 1);
    record::stream(&mut input, Kind::Params, 1, b"\x01\x01ab");
    let mut at = 0;
    let error = loop {
        match application.receive(&input[at..]) {
            Ok((used, _)) => at += used,
            Err(error) => break error,
        }
    };
    assert_eq!(error, fastcgi::Error::Misplaced(Kind::Params as u8));
}

/// All that an application is told by the bytes, cut into such pieces.
fn told(application: &mut Application, input: &[u8], step: usize) -> Vec<Asked> {
    let (mut at, mut told) = (0, Vec::new());
    for end in (0..input.len()).step_by(step).map(|from| (from + step).min(input.len())) {
        loop {
            let (used, asked) = application.receive(&input[at..end]).unwrap();
            at += used;
            if asked == Asked::NeedInput {
                break;
            }
            told.push(asked);
        }
    }
    told
}

#[test]
fn a_client_is_lent_and_given_back() {
    let lent = Lent { is_http11: true, is_persistent: true, has_body: false, server: b"sluice" };
    let mut input = Vec::new();
    record::begin_request(&mut input, 1, Role::Responder, true);
    transport::lend(&mut input, 1, lent);
    record::end_of_stream(&mut input, Kind::Params, 1);
    for step in 1..input.len() {
        let mut application = Application::new(100);
        assert!(matches!(
            &told(&mut application, &input, step)[..],
            [Asked::Begin(_), Asked::Lend, Asked::Params]
        ));
        assert_eq!(application.lent(), Some(lent));
        application.end();
        assert_eq!(application.lent(), None);
    }

    let returned = Returned { status: 200, is_whole: true, is_persistent: true, body: 5, sent: 105 };
    let mut web_server = WebServer::default();
    let request = web_server.begin(&mut Vec::new(), Role::Responder, true);
    let mut answer = Vec::new();
    transport::give_back(&mut answer, request, returned);
    assert_eq!(web_server.receive(&answer), Ok((answer.len(), Output::Returned(returned))));
}

#[test]
fn a_client_is_lent_for_one_request_and_once() {
    let lent = Lent { is_http11: true, is_persistent: true, has_body: true, server: b"" };
    let mut record = Vec::new();
    transport::lend(&mut record, 1, lent);
    let misplaced = Err(fastcgi::Error::Misplaced(Kind::Lend as u8));
    assert_eq!(Application::new(100).receive(&record), misplaced);
    let mut application = Application::new(100);
    let mut begin = Vec::new();
    record::begin_request(&mut begin, 1, Role::Responder, true);
    told(&mut application, &begin, 100);
    assert_eq!(application.receive(&record), Ok((record.len(), Asked::Lend)));
    assert_eq!(application.receive(&record), misplaced);
}

#[test]
fn chunks_go_to_and_fro() {
    let (area, filled) = (Area { chunks: 4, chunk_size: 65536 }, Filled { chunk: 3, length: 65536 });
    let mut input = Vec::new();
    transport::area(&mut input, area);
    transport::free(&mut input, 3);
    for step in 1..input.len() {
        let told = told(&mut Application::new(100), &input, step);
        assert_eq!(told, [Asked::Area(area), Asked::Free(3)]);
    }
    let mut web_server = WebServer::default();
    let request = web_server.begin(&mut Vec::new(), Role::Responder, true);
    let mut answer = Vec::new();
    transport::filled(&mut answer, request, filled);
    assert_eq!(web_server.receive(&answer), Ok((answer.len(), Output::Filled(filled))));
    let mut of_another = Vec::new();
    transport::filled(&mut of_another, request + 1, filled);
    let misplaced = Err(fastcgi::Error::Misplaced(Kind::Filled as u8));
    assert_eq!(web_server.receive(&of_another), misplaced);
}

#[test]
fn transports_are_asked_for() {
    let (mut question, mut answer) = (Vec::new(), Vec::new());
    transport::question(&mut question);
    let mut application = Application::new(100);
    assert_eq!(question.len() % 8, 0, "padded");
    let content = 8 + transport::QUESTION.len() + 2;
    assert_eq!(application.receive(&question), Ok((content, Asked::Values)));
    let known = Transports { pass_fd: true, shared_memory: true, waits: true };
    fastcgi::values(&mut answer, application.asked(), (1, 1), known);
    assert_eq!(WebServer::default().receive(&answer), Ok((answer.len(), Output::Knows(known))));
    answer.clear();
    fastcgi::values(&mut answer, application.asked(), (1, 1), Transports::default());
    let none = Output::Knows(Transports::default());
    assert_eq!(WebServer::default().receive(&answer), Ok((answer.len(), none)));
}
