//! Operations that somebody else makes: each is handed to a thread of its own, which says later what came of
//! it, as a ring does. One thread has all conversations, and hears of everything through one queue.
//!
//! What an operation works on is moved out of the conversation while it is under way, and comes back with its
//! completion. A conversation is not ended while any operation of it is under way, and a place is given to
//! another client only then. So a completion that comes late finds who it belongs to, and that is checked.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use server::config::Settings;
use server::conversation::{Conversation, Input, Operation, Runs, Unsent, Want};
use server::line::Line;
use server::service::Service;
use sys::socket::PeerAddress;

use crate::world;
use harness::Random;

/// How long nothing has to come for deadlines to be looked at.
const TICK: Duration = Duration::from_millis(5);
/// Milliseconds that a completion comes late at most.
const LATE_MS: usize = 3;
/// Bytes that are received at a time.
const RECEIVED: usize = 700;

/// What has happened.
enum Event {
    Accepted(TcpStream),
    Completed { place: usize, generation: u64, what: Completion },
}

/// What came of an operation.
enum Completion {
    Received(io::Result<Vec<u8>>),
    Sent(io::Result<usize>),
}

/// What is to be sent, moved out of the conversation.
enum Outgoing {
    Bytes(Vec<u8>),
    File { file: File, offset: u64, len: usize },
}

/// A client at its place.
struct Client {
    generation: u64,
    socket: TcpStream,
    conversation: Conversation,
    /// What has been received, and not been asked for.
    received: Vec<u8>,
    has_ended: bool,
    error: Option<io::Error>,
    is_receiving: bool,
    is_sending: bool,
    /// It is over when nothing is under way any more; by a reset, or not.
    over: Option<bool>,
}

/// All clients, and who makes their operations.
struct Loop {
    service: Service,
    clients: Vec<Option<Client>>,
    generation: u64,
    events: Sender<Event>,
    lateness: Random,
}

/// Serves whoever connects.
pub(crate) fn serve(listener: TcpListener, settings: &Settings) {
    let (events, happened) = mpsc::channel();
    let accepted = events.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let _ = accepted.send(Event::Accepted(client.expect("a client")));
        }
    });
    let service = world::service(settings);
    let mut this = Loop { service, clients: Vec::new(), generation: 0, events, lateness: Random(1) };
    loop {
        let event = happened.recv_timeout(TICK);
        this.service.begin_turn();
        match event {
            Ok(Event::Accepted(socket)) => this.begin(socket),
            Ok(Event::Completed { place, generation, what }) => this.complete(place, generation, what),
            Err(RecvTimeoutError::Timeout) => (0..this.clients.len()).for_each(|place| this.look(place)),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Loop {
    fn begin(&mut self, socket: TcpStream) {
        let Ok(peer) = socket.peer_addr() else { return };
        self.generation += 1;
        let client = Client {
            generation: self.generation,
            socket,
            conversation: Conversation::new(PeerAddress::Inet(peer), false, None, &self.service),
            received: Vec::new(),
            has_ended: false,
            error: None,
            is_receiving: false,
            is_sending: false,
            over: None,
        };
        let place = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
        if place == self.clients.len() {
            self.clients.push(None);
        }
        self.clients[place] = Some(client);
        self.go_on(place);
    }

    /// Takes in what came of an operation.
    fn complete(&mut self, place: usize, generation: u64, what: Completion) {
        let client = self.clients[place].as_mut().expect("its place is kept until all has come back");
        assert_eq!(client.generation, generation, "a completion is for who asked for it");
        match what {
            Completion::Received(result) => {
                client.is_receiving = false;
                match result {
                    Ok(bytes) if bytes.is_empty() => client.has_ended = true,
                    Ok(bytes) => client.received = bytes,
                    Err(error) => client.error = Some(error),
                }
            }
            Completion::Sent(result) => {
                client.is_sending = false;
                // A reply that was broken off meanwhile has nobody who counts.
                if client.over.is_none() && client.conversation.is_replying() {
                    match result {
                        Ok(count) => client.conversation.sent(&mut self.service, count as u64),
                        Err(error) => {
                            client.conversation.not_sent(&mut self.service, Unsent::Broken(error));
                        }
                    }
                }
            }
        }
        self.go_on(place);
    }

    /// Looks whether a deadline has come.
    fn look(&mut self, place: usize) {
        let Some(client) = &mut self.clients[place] else { return };
        let now = self.service.clock.tick;
        if client.over.is_none() && client.conversation.deadline().is_some_and(|at| at.reached(now)) {
            let _ = client.conversation.expire(&mut self.service, Line::NONE);
            self.go_on(place);
        }
    }

    /// Goes on with a client as far as can be without what is under way.
    fn go_on(&mut self, place: usize) {
        let Some(client) = &mut self.clients[place] else { return };
        if client.over.is_none() && !client.is_sending {
            let over = self.converse(place);
            if let Some(client) = &mut self.clients[place] {
                client.over = over;
            }
        }
        let Some(client) = &mut self.clients[place] else { return };
        let Some(resets) = client.over else { return };
        if client.is_receiving || client.is_sending {
            // Ends what is under way. What was sent still goes out.
            if client.is_receiving {
                let _ = client.socket.shutdown(Shutdown::Read);
            }
            if resets && client.is_sending {
                let _ = client.socket.shutdown(Shutdown::Both);
            }
            return;
        }
        let client = self.clients[place].take().expect("it is there");
        client.conversation.end(&mut self.service);
        if resets {
            let _ = sys::socket::reset(client.socket.into());
        }
    }

    /// Says whether the connection is over, and whether by a reset.
    fn converse(&mut self, place: usize) -> Option<bool> {
        let mut scratch = std::mem::take(&mut self.service.scratch);
        let mut input = Input::new(&mut scratch);
        let client = self.clients[place].as_mut().expect("it is there");
        client.conversation.begins_turn(&self.service);
        let over = loop {
            let client = self.clients[place].as_mut().expect("it is there");
            let conversation = &mut client.conversation;
            if conversation.is_replying() {
                match outgoing(conversation, &self.service) {
                    Ok(outgoing) => self.send(place, outgoing),
                    Err(unsent) => {
                        conversation.not_sent(&mut self.service, unsent);
                        continue;
                    }
                }
                break None;
            }
            conversation.release(&mut self.service);
            let wanted = match conversation.wants(&input, || true) {
                Want::Nothing => break None,
                Want::Close => break Some(false),
                Want::Reset => break Some(true),
                Want::ShutDown => {
                    if client.socket.shutdown(Shutdown::Write).is_err() {
                        break Some(false);
                    }
                    conversation.output_is_shut(&self.service);
                    continue;
                }
                Want::Take(wanted) => {
                    conversation.take_up(&mut input);
                    wanted
                }
                Want::Input(wanted) => {
                    conversation.take_up(&mut input);
                    if !client.received.is_empty() {
                        let room = input.room();
                        let count = room.len().min(client.received.len());
                        room[..count].copy_from_slice(&client.received[..count]);
                        client.received.drain(..count);
                        input.filled(count);
                    } else if client.has_ended {
                        conversation.input_ends();
                    } else if let Some(error) = client.error.take() {
                        conversation.not_received(&mut self.service, &error);
                    } else if !wanted.is_behind() {
                        self.receive(place);
                        break None;
                    }
                    wanted
                }
            };
            let client = self.clients[place].as_mut().expect("it is there");
            if !client.conversation.take(&mut self.service, || Line::NONE, &mut input, wanted) {
                break Some(false);
            }
        };
        let client = self.clients[place].as_mut().expect("it is there");
        client.conversation.keep(&mut self.service, &input);
        self.service.scratch = scratch;
        over
    }

    fn receive(&mut self, place: usize) {
        let client = self.clients[place].as_mut().expect("it is there");
        if std::mem::replace(&mut client.is_receiving, true) {
            return;
        }
        self.submit(place, |mut socket| {
            let mut buffer = vec![0; RECEIVED];
            Completion::Received(socket.read(&mut buffer).map(|count| {
                buffer.truncate(count);
                buffer
            }))
        });
    }

    fn send(&mut self, place: usize, outgoing: Outgoing) {
        let client = self.clients[place].as_mut().expect("it is there");
        assert!(!std::mem::replace(&mut client.is_sending, true), "one send at a time");
        self.submit(place, |mut socket| {
            Completion::Sent(match outgoing {
                Outgoing::Bytes(bytes) => socket.write(&bytes),
                Outgoing::File { file, offset, len } => {
                    let mut bytes = vec![0; len];
                    file.read_at(&mut bytes, offset).and_then(|count| socket.write(&bytes[..count]))
                }
            })
        });
    }

    /// Has a thread make an operation, whose completion comes a while after it was made.
    fn submit(&mut self, place: usize, operation: impl FnOnce(TcpStream) -> Completion + Send + 'static) {
        let client = self.clients[place].as_ref().expect("it is there");
        let socket = client.socket.try_clone().expect("a descriptor");
        let (events, generation) = (self.events.clone(), client.generation);
        let late = Duration::from_millis(self.lateness.below(LATE_MS + 1) as u64);
        thread::spawn(move || {
            let what = operation(socket);
            thread::sleep(late);
            let _ = events.send(Event::Completed { place, generation, what });
        });
    }
}

/// What is to be sent next, moved out of the conversation.
fn outgoing(conversation: &Conversation, service: &Service) -> Result<Outgoing, Unsent> {
    const AT_ONCE: u64 = 64 << 10;
    let mut runs = Runs::new();
    match conversation.next_send(&service.content, &mut runs) {
        None => Err(Unsent::Changed),
        Some(Operation::Gather { .. }) => {
            Ok(Outgoing::Bytes(runs.iter().flat_map(|run| run.to_vec()).collect()))
        }
        Some(Operation::File { pin, offset, len }) => {
            let file = service.content.file(pin).ok_or(Unsent::Changed)?;
            let file = File::from(file.try_clone_to_owned().map_err(Unsent::Broken)?);
            Ok(Outgoing::File { file, offset, len: len.min(AT_ONCE) as usize })
        }
    }
}
