//! User-level threads: straight-line code on many small stacks, over one kernel thread. As Knot on Capriccio
//! (Brecht et al. 2004, section 3.2; Pariag et al. 2007, section 4).
//!
//! - [`program`] is what each thread runs: accept, then read, answer and write until the client is silent.
//! - The [event loop](super::event_loop) is the scheduler. It finds out who can go on, accepts, and keeps
//!   time. A turn of a connection is a [resumption](Threads) of its thread.
//!
//! A thread parks where its client is not ready. By default it has its client for one request, so that a
//! client between requests needs no stack, only a record of the event loop. With `keep_stack` it has its
//! client until the connection ends, as in the papers.
//!
//! What waits for the disk goes to helper threads of the kernel, as in [`amped`](super::amped). Capriccio
//! had one scheduler. Here each worker has one, and there is a worker for each CPU. A connection stays with
//! its worker.

mod program;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use sys::coroutine;
use sys::stacks::{Guards, Stacks};

use self::program::{Park, Resume};
use super::common::failing::AbortIfPanicking;
use super::event_loop::{EventLoop, Name, Turns};
use crate::allotment::Allotment;
use crate::config::{Accepting, Settings};
use crate::control::Control;
use crate::handed_send::Until;
use crate::helpers::Helpers;
use crate::listeners::Share;
use crate::service::Service;

/// Serves as one of the processes, until drained, retired or stopped.
///
/// # Errors
///
/// The event mechanism, the stacks or the helpers cannot be set up, or the mechanism stops working.
pub fn run(
    mut service: Service,
    listeners: Share,
    settings: &Settings,
    control: Arc<Control>,
) -> io::Result<()> {
    // What a thread has left half done, no other can take up.
    let _guard = AbortIfPanicking;
    let helpers = Helpers::new(&settings.amped, service.content.resolvers(), service.counters)?;
    let threads = Threads::new(settings)?;
    if settings.user_threads.helpers_send {
        let all_at_once = std::mem::take(&mut service.sends_block);
        service.helpers_send = Some(if all_at_once { Until::All } else { Until::Something });
    }
    let mut events = EventLoop::new(service, listeners, settings, control)?.with_helpers(helpers)?;
    events.tells_of_ends();
    events.run_with(threads)
}

/// The threads of a worker.
struct Threads {
    stacks: Stacks,
    all: Vec<Thread>,
    /// Threads without a client, by number. The last one ran last.
    free: Vec<u32>,
    /// Clients that wait for a thread.
    waiting: VecDeque<Name>,
    /// The threads of connections, by slot.
    of: Vec<Option<(Name, u32)>>,
    keeps_stack: bool,
    /// Threads without a client accept.
    they_accept: bool,
    /// Whether the last thread that was to accept has accepted a connection.
    accepted: io::Result<bool>,
    /// Threads to be told that their clients' connections have ended.
    gone: Vec<u32>,
    /// The kernel has given no memory for another thread.
    is_exhausted: bool,
    /// Times that a thread has been resumed.
    switches: u64,
    /// The stack to look at next for the memory that it takes, and the second in which some were looked at.
    looks: (usize, u64),
}

/// Stacks that are looked at in a second.
const LOOKS: usize = 64;

/// Threads that accept in one turn, at most: the turns of others must come.
const MOST_ACCEPTING: u32 = 1024;

/// Most threads of a worker that has no bound on its connections.
const MOST_THREADS: usize = 1 << 17;

/// A thread, and whom it serves.
struct Thread {
    coroutine: coroutine::Thread<EventLoop, Resume, Park>,
    client: Option<Name>,
}

impl Threads {
    fn new(settings: &Settings) -> io::Result<Self> {
        let connections = Allotment::of(settings).connections;
        let guards = Guards::best();
        let asked = match settings.user_threads.threads {
            Some(threads) => threads.get() as usize,
            None => (connections as usize).min(MOST_THREADS),
        };
        let most = guards.most_stacks().map_or(asked, |allowed| asked.min(allowed)).max(1);
        let bytes = settings.user_threads.stack as usize;
        let stacks = Stacks::new(most, bytes, guards).map_err(|error| {
            let message = format!("cannot reserve address space for {most} stacks of {bytes} bytes: {error}");
            io::Error::new(error.kind(), message)
        })?;
        Ok(Self {
            stacks,
            all: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            of: Vec::new(),
            keeps_stack: settings.user_threads.keep_stack,
            they_accept: settings.user_threads.accepting == Accepting::Threads,
            accepted: Ok(false),
            gone: Vec::new(),
            is_exhausted: false,
            switches: 0,
            looks: (0, 0),
        })
    }

    /// Whether there is a thread without a client, or may be another one.
    fn has_free(&self) -> bool {
        !self.free.is_empty() || !self.is_exhausted && self.stacks.has_free()
    }

    /// The number of a thread without a client. `None`: all threads have one.
    fn take_free(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        if !self.has_free() {
            return None;
        }
        let stack = match self.stacks.take() {
            Ok(stack) => stack?,
            Err(error) => {
                let number = self.all.len();
                tracing::error!("no memory for more than {number} user-level threads: {error}");
                self.is_exhausted = true;
                return None;
            }
        };
        let program = if self.keeps_stack { program::for_connections } else { program::for_requests };
        let coroutine = coroutine::Thread::new(stack, program);
        self.all.push(Thread { coroutine, client: None });
        Some(self.all.len() as u32 - 1)
    }

    /// Gives free threads to clients that wait for one.
    fn serve_waiting(&mut self, events: &mut EventLoop) {
        while !self.waiting.is_empty()
            && let Some(number) = self.take_free()
        {
            let Some(client) = self.waiting.pop_front() else { return };
            if events.has_thread(client) {
                self.begin(events, number, client);
            } else {
                self.free.push(number);
            }
        }
    }

    /// Lets a free thread serve a client.
    fn begin(&mut self, events: &mut EventLoop, number: u32, client: Name) {
        self.serve(number, Some(client));
        self.resume(events, number, Resume::Client(client));
    }

    /// The thread serves another client from now on, or none. Any thread may serve the one that it had.
    fn serve(&mut self, number: u32, client: Option<Name>) {
        let before = std::mem::replace(&mut self.all[number as usize].client, client);
        if let Some(before) = before {
            self.of[before.index as usize].take_if(|(of, _)| *of == before);
        }
        let Some(client) = client else { return };
        let slot = client.index as usize;
        if self.of.len() <= slot {
            self.of.resize(slot + 1, None);
        }
        // The slot's last connection has ended, but its thread has not been told yet.
        self.gone.extend(self.of[slot].replace((client, number)).map(|(_, number)| number));
    }

    /// Tells threads that the connections of their clients have ended.
    fn tell_of_ends(&mut self, events: &mut EventLoop) {
        loop {
            while let Some(client) = events.take_ended() {
                let Some(slot) = self.of.get_mut(client.index as usize) else { continue };
                self.gone.extend(slot.take_if(|(of, _)| *of == client).map(|(_, number)| number));
            }
            let Some(number) = self.gone.pop() else { return };
            self.resume(events, number, Resume::Gone);
        }
    }

    /// Runs a thread until it waits for its client, or for another one.
    fn resume(&mut self, events: &mut EventLoop, number: u32, mut with: Resume) {
        loop {
            self.switches += 1;
            let thread = &mut self.all[number as usize];
            match thread.coroutine.resume(events, with) {
                Some(Park::Busy(turn)) => {
                    if let Some(client) = thread.client {
                        events.wait(client, turn);
                    }
                    return;
                }
                Some(Park::Free) => {
                    self.serve(number, None);
                    self.free.push(number);
                    events.set_full(false);
                    return;
                }
                Some(Park::Next(client)) => {
                    // It may have ended meanwhile; the thread will see that.
                    let is_open = events.has_thread(client);
                    self.serve(number, is_open.then_some(client));
                }
                Some(Park::Accepted(accepted)) => self.accepted = accepted,
                None => return,
            }
            with = Resume::Ready;
        }
    }
}

impl Threads {
    /// Writes what other processes read of the threads.
    fn publish(&mut self, events: &EventLoop) {
        let (counters, now_secs) = events.counters_and_seconds();
        let all = self.all.len() as u64;
        counters.user_threads.set(all);
        counters.user_threads_busy.set(all - self.free.len() as u64);
        counters.user_threads_awaited.set(self.waiting.len() as u64);
        counters.user_thread_switches.add(std::mem::take(&mut self.switches));
        let (from, looked_secs) = self.looks;
        if looked_secs != now_secs && self.stacks.begun() > 0 {
            let (most, bytes) = self.stacks.touched(from, LOOKS).unwrap_or((0, 0));
            counters.user_thread_stack_bytes.raise_to(most as u64);
            let begun = self.stacks.begun();
            let looked = (begun - from).clamp(1, LOOKS);
            counters.user_thread_stacks_bytes.set((bytes * begun / looked) as u64);
            self.looks = (if from + LOOKS < begun { from + LOOKS } else { 0 }, now_secs);
        }
    }
}

impl Turns for Threads {
    fn accept(&mut self, events: &mut EventLoop) -> io::Result<()> {
        if !self.they_accept {
            return events.accept_phase();
        }
        self.tell_of_ends(events);
        for _ in 0..MOST_ACCEPTING {
            let has_free = self.has_free();
            events.set_full(!has_free);
            // Only the end of a connection that keeps a thread makes room.
            if !has_free && !self.keeps_stack || !events.may_accept() {
                return events.watch_listeners();
            }
            let Some(number) = self.take_free() else { continue };
            self.resume(events, number, Resume::Accept);
            if !std::mem::replace(&mut self.accepted, Ok(false))? {
                break;
            }
        }
        Ok(())
    }

    #[inline]
    fn turn(&mut self, events: &mut EventLoop, index: u32) {
        let Some(client) = events.take_due(index) else { return };
        match self.of.get(index as usize) {
            Some(&Some((of, number))) if of == client => self.resume(events, number, Resume::Ready),
            _ => {
                if self.waiting.is_empty()
                    && let Some(number) = self.take_free()
                {
                    return self.begin(events, number, client);
                }
                events.await_thread(client);
                self.waiting.push_back(client);
            }
        }
        self.serve_waiting(events);
    }

    fn turn_ends(&mut self, events: &mut EventLoop) {
        self.tell_of_ends(events);
        self.serve_waiting(events);
        // Threads that have begun just now may have closed connections as well.
        self.tell_of_ends(events);
        self.publish(events);
    }

    fn end(&mut self, events: &mut EventLoop) {
        for number in 0..self.all.len() as u32 {
            self.resume(events, number, Resume::End);
        }
    }
}
