//! Tests that every connection has a deadline or is due for a turn, and is handled by its deadline. This
//! must hold for all events in any order.
//!
//! The loop's phases run one by one over real sockets. The test itself sets the time and reports the
//! events.

use std::fs;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use http1::Tick;
use proptest::prelude::*;
use sys::socket::PeerAddress;

use super::EventLoop;
use crate::access_log::AccessLogs;
use crate::channel::Client;
use crate::config::Settings;
use crate::content::{Content, Resolvers};
use crate::control::Control;
use crate::counters::Counters;
use crate::helpers::Helpers;
use crate::listeners::Share;
use crate::queues::{Lines, Queues};
use crate::service::Service;

/// What clients send: parts of requests and whole ones, valid and invalid. Some have replies that the
/// client never reads.
const PIECES: [&str; 8] = [
    "G",
    "ET /small HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
    "12345",
    "GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
    // A listing. Helpers make it, if there are any.
    "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "BAD\r\n\r\n",
];

#[derive(Clone, Debug)]
enum Happening {
    Connects,
    /// One of the existing clients sends one of the [`PIECES`].
    Sends(usize, usize),
    /// Announces that it will send no more.
    HalfCloses(usize),
    Goes(usize),
    /// Some time passes: a timeout, or a part of it.
    Pass(u32),
    /// Connections must end with their next reply.
    Drain,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => Just(Happening::Connects),
        8 => (any::<usize>(), 0..PIECES.len()).prop_map(|(client, piece)| Happening::Sends(client, piece)),
        1 => any::<usize>().prop_map(Happening::HalfCloses),
        1 => any::<usize>().prop_map(Happening::Goes),
        6 => (1_u32..7_000).prop_map(Happening::Pass),
        1 => Just(Happening::Drain),
    ]
}

/// A loop without listeners, and its clients.
struct World {
    server: EventLoop,
    /// Each client with its slot in the loop.
    clients: Vec<(UnixStream, u32)>,
    now: Tick,
}

impl World {
    /// With helpers whose results never reach the loop, as if their disk hung, or without any.
    fn new(site: &Path, helped: bool) -> Self {
        let mut settings = Settings::new(site.to_owned());
        settings.files.listing = true;
        let counters: &'static Counters = Box::leak(Box::default());
        let sites = settings.all_sites();
        let resolvers = Arc::new(Resolvers::new(&sites).unwrap());
        let content = Content::new(Arc::clone(&resolvers), &sites, 100, settings.limits.ranges);
        let queue_handle = Queues::new(&settings, 1, 0, &mut Lines::default()).unwrap().queue_handle(0);
        let service =
            Service::new(content, &settings, counters, AccessLogs::default(), None, queue_handle).unwrap();
        let now = service.clock.tick;
        let control = Arc::new(Control::new().unwrap());
        let mut server = EventLoop::new(service, Share::default(), &settings, control).unwrap();
        if helped {
            let helpers = Helpers::new(&settings.amped, resolvers, counters).unwrap();
            server = server.with_helpers(helpers).unwrap();
        }
        Self { server, clients: Vec::new(), now }
    }

    fn happens(&mut self, happening: &Happening) {
        let count = self.clients.len().max(1);
        match *happening {
            Happening::Connects => {
                let (client, socket) = UnixStream::pair().unwrap();
                for end in [&client, &socket] {
                    end.set_nonblocking(true).unwrap();
                }
                self.server.open(Client {
                    socket: socket.into(),
                    peer: PeerAddress::Unix,
                    is_announced: false,
                    speaks_tls: false,
                    waited_ms: None,
                });
                let index = *self.server.agenda.work.last().expect("it is to have a turn");
                self.clients.push((client, index));
            }
            // The server may have closed before any of these.
            Happening::Sends(client, piece) => self.has_done(client % count, false, |mut socket| {
                let _ = socket.write_all(PIECES[piece].as_bytes());
            }),
            Happening::HalfCloses(client) => self.has_done(client % count, true, |socket| {
                let _ = socket.shutdown(Shutdown::Write);
            }),
            Happening::Goes(client) => self.has_done(client % count, true, |socket| {
                let _ = socket.shutdown(Shutdown::Both);
            }),
            Happening::Pass(ticks) => self.now = self.now.after(ticks),
            Happening::Drain => self.server.say_close_from_now_on(),
        }
        self.turn();
    }

    /// A client does something, and the loop learns of it. If another connection has the client's slot by
    /// now, that one receives a false event.
    fn has_done(&mut self, client: usize, hung_up: bool, act: impl FnOnce(&UnixStream)) {
        let Some((socket, index)) = self.clients.get(client) else { return };
        act(socket);
        if let Some(registered) = self.server.connections.get_mut(*index) {
            registered.conversation.note(true, false, hung_up);
            self.server.agenda.add(*index, registered);
        }
    }

    /// What the loop does between two get-events phases.
    fn turn(&mut self) {
        self.server.measures.turn_began = self.now;
        self.server.service.clock.tick = self.now;
        self.server.work_phase(&mut super::turns::Calls);
        self.server.agenda.take_up_unfinished();
        self.server.timers_phase();
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        for (index, registered) in self.server.connections.iter_mut() {
            let wake_up = self.server.waiting.timers.wakes_at(index);
            match registered.conversation.deadline() {
                Some(deadline) => {
                    let in_time = wake_up.is_some_and(|wake_up| wake_up.reached(deadline));
                    prop_assert!(
                        in_time,
                        "{index}: to be woken at {wake_up:?}, its deadline is {deadline:?}"
                    );
                }
                None => prop_assert!(registered.due, "{index}: it waits for nothing"),
            }
        }
        Ok(())
    }
}

#[test]
fn whoever_waits_is_looked_at_in_time() {
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("small"), "small").unwrap();
    fs::write(site.path().join("large"), vec![b'x'; 4 << 20]).unwrap();
    let cases = (any::<bool>(), prop::collection::vec(happening(), 1..60));
    crate::seeded::run(64, &cases, |(helped, happenings)| {
        let mut world = World::new(site.path(), helped);
        for happening in &happenings {
            world.happens(happening);
            world.check()?;
        }
        // No timeout is longer than a minute, and no client does anything any more.
        for _ in 0..60 {
            world.happens(&Happening::Pass(1_000));
            world.check()?;
        }
        prop_assert_eq!(world.server.connections.len(), 0, "places are free again");
        Ok(())
    });
}
