//! A driver of two stages, good enough for a test: one thread receives from conversations, another sends to
//! them, and a third accepts them and owns those that wait. They move between the three by value.
//!
//! Each thread has a service of its own. The open files are the process's: whoever works has them meanwhile,
//! since a reply is planned in one thread and gives its pin back in another.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use server::config::{CommandLine, ListenAddress, Settings, Source};
use server::content::{Content, Resolver};
use server::conversation::{Conversation, Next, Turn};
use server::listeners::Listener;
use server::service::Service;
use socket2::SockRef;
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
    content: Mutex<Content>,
    to_receive: Sender<Box<Conversation>>,
    to_send: Sender<Box<Conversation>>,
    /// Those that wait for their sockets, by the token of the event.
    waiting: Mutex<HashMap<u64, Box<Conversation>>>,
    tokens: AtomicU64,
    poller: OwnedFd,
    accepts: AtomicU64,
}

const LISTENER: u64 = 0;

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
        let stages = Arc::new(Stages {
            content: Mutex::new(content(&settings)),
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

fn content(settings: &Settings) -> Content {
    let resolver = Arc::new(Resolver::new(&settings.files).expect("the root"));
    Content::new(resolver, &settings.files, 100, settings.limits.ranges)
}

impl Stages {
    fn read_stage(&self, inbox: &Receiver<Box<Conversation>>) {
        let mut service = self.service();
        for mut conversation in inbox {
            let next = self.lend_content(&mut service, |service| conversation.receive(service));
            self.hand_on(&mut service, conversation, &next, &self.to_receive);
        }
    }

    fn write_stage(&self, inbox: &Receiver<Box<Conversation>>) {
        let mut service = self.service();
        for mut conversation in inbox {
            let next = self.lend_content(&mut service, |service| conversation.send(service));
            self.hand_on(&mut service, conversation, &next, &self.to_send);
        }
    }

    /// Gives a conversation to whoever is next: this same stage, where it only has used up its share.
    fn hand_on(
        &self,
        service: &mut Service,
        conversation: Box<Conversation>,
        next: &Next,
        same: &Sender<Box<Conversation>>,
    ) {
        let reset = match next {
            Next::Receive => return self.to_receive.send(conversation).expect("a read stage"),
            Next::Send => return self.to_send.send(conversation).expect("a write stage"),
            Next::Turn(Turn::Unfinished) => return same.send(conversation).expect("this stage"),
            Next::Turn(Turn::Blocked) => return self.wait(conversation),
            Next::Turn(Turn::Close) => false,
            Next::Turn(Turn::Reset | Turn::Disk(_)) => true,
        };
        let socket = self.lend_content(service, |service| conversation.end(service));
        if reset {
            SockRef::from(&socket).set_linger(Some(Duration::ZERO)).expect("an option of sockets");
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
        let mut service = self.service();
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
                    Box::new(Conversation::new(socket, peer, &service))
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

    /// A thread's own service. Its content is never used.
    fn service(&self) -> Service {
        Service::new(content(&self.settings), &self.settings, Box::leak(Box::default()), None, None)
    }

    fn lend_content<T>(&self, service: &mut Service, act: impl FnOnce(&mut Service) -> T) -> T {
        service.begin_turn();
        let mut content = self.content.lock().expect("nobody panics with it");
        std::mem::swap(&mut *content, &mut service.content);
        let result = act(service);
        std::mem::swap(&mut *content, &mut service.content);
        result
    }
}
