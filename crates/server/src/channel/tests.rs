//! A reply that the client does not take, and what follows its request meanwhile: the rest of a body,
//! further requests, the end. Nothing of that is lost, and no loop runs without progress over it, whether
//! in one turn or between two stages.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use http1::Tick;
use sys::socket::PeerAddress;

use super::{Channel, Client};
use crate::access_log::AccessLogs;
use crate::config::{Settings, TrustedProxy};
use crate::content::{Content, Resolvers};
use crate::conversation::{Next, Turn};
use crate::counters::Counters;
use crate::queues::{Lines, Queues};
use crate::service::Service;

const LARGE: &str = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
const SMALL: &str = "GET /small HTTP/1.1\r\nHost: x\r\n\r\n";
const WITH_BODY: &str = "GET /large HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n";
const IN_CHUNKS: &str = "GET /large HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
const HEADER: &str = "PROXY TCP4 198.51.100.7 127.0.0.1 4660 80\r\n";
/// What a client does that sends no more.
const END: &str = "";

/// Far more stages than any conversation here needs in a turn.
const MOST_STAGES: usize = 100;

/// What a client sends while it takes nothing, how many replies it then receives, and whether that is the
/// end.
const CASES: [(&[&str], usize, bool); 10] = [
    (&[WITH_BODY, "12345"], 1, false),
    (&[WITH_BODY, "12", "345"], 1, false),
    (&[WITH_BODY, "12345", END], 1, true),
    (&[WITH_BODY, "12", END], 1, true),
    (&[WITH_BODY, "12345", LARGE, SMALL, END], 3, true),
    (&[IN_CHUNKS, "2\r\n12\r\n0\r\n", "\r\n", SMALL], 2, false),
    (&[IN_CHUNKS, "2\r\n12\r\nno"], 1, true),
    (&[LARGE, END], 1, true),
    (&[LARGE, SMALL, LARGE, SMALL, SMALL, END], 5, true),
    (&[LARGE, SMALL, "GET /sm"], 2, false),
];

#[test]
fn what_comes_behind_a_reply_that_blocks_is_neither_lost_nor_a_circle() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("large"), vec![b'-'; 2_000_000]).unwrap();
    fs::write(site.path().join("small"), "small").unwrap();
    for in_stages in [false, true] {
        for at_once in [false, true] {
            for (number, (pieces, replies, ends)) in CASES.into_iter().enumerate() {
                let (settled, is_settled) = mpsc::channel();
                let root = site.path().to_owned();
                thread::spawn(move || {
                    let seen = World::new(&root, in_stages).behind_a_reply(pieces, at_once);
                    settled.send(seen).unwrap();
                });
                let seen = is_settled.recv_timeout(Duration::from_secs(20));
                let case = format!("case {number}, in stages: {in_stages}, at once: {at_once}");
                assert_eq!(seen, Ok((replies, ends)), "{case}");
            }
        }
    }
}

/// The stage that sends the last reply need not read again, unless the client has had time to send
/// something.
#[test]
fn the_stage_that_sends_the_last_reply_ends_what_it_has_not_kept_waiting() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("small"), "small").unwrap();
    for (waited_ticks, is_over) in [(0, true), (1, false)] {
        let World { mut conversation, mut service, mut client, .. } = World::new(site.path(), true);
        client.write_all(b"GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        assert!(matches!(conversation.receive(&mut service), Next::Send));
        service.clock.tick = service.clock.tick.after(waited_ticks);
        assert!(matches!(conversation.send(&mut service), Next::Receive));
        let next = conversation.conclude(&mut service);
        assert_eq!(matches!(next, Next::Turn(Turn::Close)), is_over, "{waited_ticks}: {next:?}");
        conversation.end(&mut service);
    }
}

/// A slot is not kept for a peer whose PROXY header would not be trusted anyway.
#[test]
fn who_may_not_speak_for_others_is_closed_at_once_and_not_read_from() {
    let site = tempfile::tempdir().unwrap();
    for in_stages in [false, true] {
        for header in ["", HEADER] {
            let mut world = World::announced(site.path(), in_stages, Vec::new());
            world.client.write_all(header.as_bytes()).unwrap();
            assert!(matches!(world.turn(), Turn::Close), "in stages: {in_stages}, behind {header:?}");
            let counters = world.service.counters;
            assert_eq!((counters.proxy_headers_refused.get(), counters.bytes_received.get()), (1, 0));
        }
    }
}

/// When others wait for its slot, a client that sends its PROXY header in small pieces does not keep it.
#[test]
fn a_client_is_not_active_before_its_proxy_has_said_who_it_is() {
    let site = tempfile::tempdir().unwrap();
    for in_stages in [false, true] {
        let mut world = World::announced(site.path(), in_stages, vec![TrustedProxy::Unix]);
        let accepted = world.service.clock.tick;
        for byte in HEADER.bytes() {
            let now = world.service.clock.tick;
            assert_eq!(world.conversation.has_idled(now), now != accepted);
            world.service.clock.tick = now.after(1000 / Tick::MS);
            world.client.write_all(&[byte]).unwrap();
            world.conversation.note(true, false, false);
            assert!(matches!(world.turn(), Turn::Blocked));
        }
        assert!(!world.conversation.has_idled(world.service.clock.tick));
        assert_eq!(world.conversation.peer(), &PeerAddress::Inet("198.51.100.7:4660".parse().unwrap()));
    }
}

/// One conversation and its client.
struct World {
    conversation: Channel,
    service: Service,
    client: UnixStream,
    in_stages: bool,
}

impl World {
    fn new(root: &Path, in_stages: bool) -> Self {
        Self::of(&Settings::new(root.to_owned()), in_stages, false)
    }

    /// A connection to an address where connections begin with a PROXY header. `trusted_proxies` may send
    /// one.
    fn announced(root: &Path, in_stages: bool, trusted_proxies: Vec<TrustedProxy>) -> Self {
        let settings = Settings { trusted_proxies, ..Settings::new(root.to_owned()) };
        Self::of(&settings, in_stages, true)
    }

    fn of(settings: &Settings, in_stages: bool, is_announced: bool) -> Self {
        let sites = settings.all_sites();
        let resolvers = Arc::new(Resolvers::new(&sites).unwrap());
        let content = Content::new(resolvers, &sites, 10, settings.limits.ranges);
        let counters: &'static Counters = Box::leak(Box::default());
        let queue_handle = Queues::new(settings, 1, 0, &mut Lines::default()).unwrap().queue_handle(0);
        let service =
            Service::new(content, settings, counters, AccessLogs::default(), None, queue_handle).unwrap();
        let (client, socket) = UnixStream::pair().unwrap();
        for end in [&client, &socket] {
            end.set_nonblocking(true).unwrap();
        }
        let conversation = Channel::new(
            Client {
                socket: socket.into(),
                peer: PeerAddress::Unix,
                is_announced,
                speaks_tls: false,
                waited_ms: None,
            },
            &service,
        );
        Self { conversation, service, client, in_stages }
    }

    /// Sends these pieces, and then takes what there is. Returns how many replies, and whether the server
    /// closed.
    fn behind_a_reply(mut self, pieces: &[&str], at_once: bool) -> (usize, bool) {
        let mut turn = Turn::Unfinished;
        let mut hung_up = false;
        for (number, piece) in pieces.iter().enumerate() {
            self.client.write_all(piece.as_bytes()).unwrap();
            if *piece == END {
                self.client.shutdown(Shutdown::Write).unwrap();
                hung_up = true;
            }
            if !at_once || number + 1 == pieces.len() {
                self.conversation.note(true, false, hung_up);
                turn = self.turn();
                assert!(matches!(turn, Turn::Blocked), "{turn:?} behind {piece:?}");
                assert!(self.conversation.waits_for().1, "the reply is not taken");
            }
        }
        let mut received = Vec::new();
        while matches!(turn, Turn::Blocked) {
            let before = received.len();
            // The read fails with `WouldBlock` when the socket is empty.
            let _ = self.client.read_to_end(&mut received);
            if received.len() == before {
                break;
            }
            self.conversation.note(false, true, false);
            turn = self.turn();
        }
        let _ = self.client.read_to_end(&mut received);
        let heads = received.windows(13).filter(|bytes| bytes == b"HTTP/1.1 200 ").count();
        let ends = match turn {
            Turn::Blocked => self.conversation.machine().is_lingering(),
            turn => matches!(turn, Turn::Close),
        };
        self.conversation.end(&mut self.service);
        (heads, ends)
    }

    /// A turn, or as many as are possible at once.
    fn turn(&mut self) -> Turn {
        let Self { conversation, service, .. } = self;
        if !self.in_stages {
            loop {
                match conversation.work(service) {
                    Turn::Unfinished => {}
                    turn => return turn,
                }
            }
        }
        let mut next = Next::Receive;
        let mut unfinished = 0;
        for _ in 0..MOST_STAGES {
            let was_sending = matches!(next, Next::Send);
            next = if was_sending { conversation.send(service) } else { conversation.receive(service) };
            match next {
                Next::Turn(Turn::Unfinished) if was_sending => next = Next::Send,
                Next::Turn(Turn::Unfinished) => next = Next::Receive,
                Next::Turn(turn) => return turn,
                Next::Receive | Next::Send => continue,
            }
            unfinished += 1;
        }
        panic!("{MOST_STAGES} stages, of which {unfinished} used up their share");
    }
}
