//! A driver of two stages, good enough for a test: one thread receives from conversations, another sends to
//! them, and a third accepts them and owns those that wait. They move between the three by value.
//!
//! Each thread has a service of its own. The open files are the process's, in a shared table of which each
//! stage is a reader: the one plans replies, and pins what they are made of; the other sends from there. A
//! conversation whose reply is over goes back to the one, which gives back what it held.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use server::access_log::AccessLogs;
use server::config::{CommandLine, ListenAddress, Settings, Source};
use server::content::{Content, Resolvers, SharedFiles};
use server::conversation::{self, Conversation, Next, Turn};
use server::gateway::Queues;
use server::listeners::Listener;
use server::service::Service;
use socket2::SockRef;
use sys::descriptors::Ledger;
use tempfile::TempDir;

use crate::common::client::{Client, Reply};
use crate::common::site;
use crate::common::variant::Variant;

/// What runs in this process. Its threads end with the process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stages: Arc<Stages>,
    _directory: TempDir,
}

/// What the threads have in common.
struct Stages {
    settings: Settings,
    files: SharedFiles,
    to_receive: Sender<Box<Conversation>>,
    to_send: Sender<Box<Conversation>>,
    /// Those that wait for their sockets, by the token of the event.
    waiting: Mutex<HashMap<u64, Box<Conversation>>>,
    tokens: AtomicU64,
    poller: OwnedFd,
    accepts: AtomicU64,
}

const LISTENER: u64 = 0;

/// Those who read the table, by their places there: the stages, and the poller, which never asks.
const READ_STAGE: usize = 0;
const WRITE_STAGE: usize = 1;
const POLLER: usize = 2;
const THREADS: usize = 3;

const OPEN_FILES: u32 = 100;

/// The table's name in the ledger; threads are called by their places.
const KEEPER: u32 = THREADS as u32;

impl Server {
    pub(crate) fn start(variant: &Variant) -> Self {
        Self::with(variant, "")
    }

    pub(crate) fn with(_: &Variant, config: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        site::make(directory.path());
        let mut command_line = CommandLine::default();
        command_line.set("root", vec![directory.path().join("root").to_str().expect("a name").to_owned()]);
        command_line.set("listen", vec!["127.0.0.1:0".to_owned()]);
        let settings = Source { file: None, command_line }.load_text(config).expect("settings");
        let listener = Listener::open(&settings.listen[0], &settings).expect("a listener");
        let ListenAddress::Tcp(address) = listener.address else { panic!("opened as TCP") };
        let (to_receive, receiving) = channel();
        let (to_send, sending) = channel();
        let ledger = Ledger::new(1024).expect("room");
        let stages = Arc::new(Stages {
            files: SharedFiles::new(&settings.all_sites(), OPEN_FILES, THREADS, ledger, KEEPER)
                .expect("memory"),
            settings,
            to_receive,
            to_send,
            waiting: Mutex::default(),
            tokens: AtomicU64::new(LISTENER + 1),
            poller: epoll::create(CreateFlags::CLOEXEC).expect("an epoll instance"),
            accepts: AtomicU64::new(0),
        });
        for stage in [Stages::read_stage, Stages::write_stage].into_iter().zip([receiving, sending]) {
            let (run, inbox) = stage;
            let stages = Arc::clone(&stages);
            thread::spawn(move || run(&stages, &inbox));
        }
        thread::spawn({
            let stages = Arc::clone(&stages);
            move || stages.poll(&listener)
        });
        Self { address, stages, _directory: directory }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn get(&self, target: &str) -> Reply {
        self.connect().get(target)
    }

    /// The one count that the cases ask for.
    pub(crate) fn count(&self, path: &str) -> u64 {
        assert_eq!(path, "accepts");
        self.stages.accepts.load(Ordering::Relaxed)
    }
}

impl Stages {
    fn read_stage(&self, inbox: &Receiver<Box<Conversation>>) {
        let mut service = self.service(READ_STAGE);
        for mut conversation in inbox {
            service.begin_turn();
            let reset = match conversation.receive(&mut service) {
                Next::Receive | Next::Turn(Turn::Unfinished) => {
                    self.to_receive.send(conversation).expect("this stage");
                    continue;
                }
                Next::Send => {
                    self.to_send.send(conversation).expect("a write stage");
                    continue;
                }
                Next::Turn(Turn::Blocked) => {
                    self.wait(conversation);
                    continue;
                }
                Next::Turn(Turn::Close) => false,
                // It has no applications.
                Next::Turn(Turn::Reset | Turn::Disk(_) | Turn::Application) => true,
            };
            let socket = conversation.end(&mut service);
            if reset {
                SockRef::from(&socket).set_linger(Some(Duration::ZERO)).expect("an option of sockets");
            }
        }
    }

    fn write_stage(&self, inbox: &Receiver<Box<Conversation>>) {
        let mut service = self.service(WRITE_STAGE);
        for mut conversation in inbox {
            service.begin_turn();
            match conversation.send(&mut service) {
                Next::Send | Next::Turn(Turn::Unfinished) => self.to_send.send(conversation),
                Next::Turn(Turn::Blocked) => {
                    self.wait(conversation);
                    Ok(())
                }
                // Those that end, too.
                Next::Receive | Next::Turn(_) => self.to_receive.send(conversation),
            }
            .expect("both stages");
        }
    }

    /// Leaves a conversation to the poller until its socket can go on. From here on it may be anywhere.
    fn wait(&self, conversation: Box<Conversation>) {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        let (readable, writable) = conversation.waits_for();
        let mut flags = EventFlags::ONESHOT;
        flags.set(EventFlags::IN | EventFlags::RDHUP, readable);
        flags.set(EventFlags::OUT, writable);
        let mut waiting = self.waiting.lock().expect("nobody panics with it");
        epoll::add(&self.poller, conversation.as_fd(), EventData::new_u64(token), flags).expect("room");
        waiting.insert(token, conversation);
    }

    /// Accepts, and has those go on whose sockets can.
    fn poll(&self, listener: &Listener) {
        let mut service = self.service(POLLER);
        epoll::add(&self.poller, listener, EventData::new_u64(LISTENER), EventFlags::IN).expect("room");
        let mut events = Vec::with_capacity(16);
        loop {
            events.clear();
            epoll::wait(&self.poller, rustix::buffer::spare_capacity(&mut events), None).expect("events");
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                let conversation = if token == LISTENER {
                    let Ok((socket, peer)) = service.accept(listener) else { continue };
                    service.begin_turn();
                    self.accepts.fetch_add(1, Ordering::Relaxed);
                    Box::new(Conversation::new(
                        conversation::Client { socket, peer, is_announced: false, waited_ms: None },
                        &service,
                    ))
                } else {
                    let mut waiting = self.waiting.lock().expect("nobody panics with it");
                    let mut conversation = waiting.remove(&token).expect("an event comes once");
                    epoll::delete(&self.poller, conversation.as_fd()).expect("it is registered");
                    let gone = flags.intersects(EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR);
                    conversation.note(flags.contains(EventFlags::IN), flags.contains(EventFlags::OUT), gone);
                    conversation
                };
                self.to_receive.send(conversation).expect("a read stage");
            }
        }
    }

    /// The service of a thread.
    fn service(&self, thread: usize) -> Service {
        let sites = self.settings.all_sites();
        let resolvers = Arc::new(Resolvers::new(&sites).expect("the root"));
        let table = self.files.for_worker(thread, thread as u32);
        let content = Content::sharing(resolvers, table, &sites, self.settings.limits.ranges);
        let desk = Queues::new(&self.settings, 1, None).expect("queues").desk(0);
        Service::new(content, &self.settings, Box::leak(Box::default()), AccessLogs::default(), None, desk)
    }
}
