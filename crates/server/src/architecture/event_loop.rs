//! The event loop of the event-driven architectures: get-events phase, accept phase, work phase, repeat
//! (Brecht et al. 2004, section 3.1; Pariag et al. 2007, section 3).
//!
//! - The [get-events phase](get_events) finds out which sockets can go on.
//! - The [accept phase](accept_phase) takes connections out of the accept queue, as many as the accept
//!   limit allows.
//! - The [work phase](work_phase) lets every connection that can go on read, answer and write, for its
//!   quantum of the turn.
//! - Timers are checked last.
//!
//! Only the get-events phase, the disk, and sends that are set to block may block ([`sends`](crate::sends)
//! bounds these).
//!
//! The loop remembers unfinished work and does not wait for it. This is a connection that used up its
//! quantum, or a listener that an accept limit left non-empty. The loop comes back to both after a
//! get-events phase that does not wait, because an edge trigger reports neither of them again.

mod accept_phase;
mod accepting;
mod agenda;
mod applications;
mod by_networks;
mod by_ring;
mod disk;
mod ending;
mod get_events;
mod links;
mod listings;
mod measures;
mod postponed;
mod registered;
mod room;
mod served;
#[cfg(test)]
mod tests;
mod turns;
mod waiting;
mod work_phase;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use sys::ring::Ring;
use sys::socket;

use self::accepting::Accepting;
use self::agenda::Agenda;
use self::links::Links;
use self::measures::Measures;
use self::postponed::Postponed;
use self::registered::Registered;
pub(super) use self::served::Step;
use self::turns::Calls;
pub(super) use self::turns::Turns;
use self::waiting::Waiting;
use super::common::ending::Ending;
use super::common::token::{Kind, Token};
use super::events::{EventMechanism, Registration};
use crate::channel::{Channel, Client};
use crate::config::Settings;
use crate::content::MayBlock;
use crate::control::{Control, Phase};
use crate::conversation::Turn;
use crate::counters::Reset;
use crate::error_log::Limited;
use crate::listeners::Share;
use crate::outbox::Outbox;
use crate::sends::BlockingSends;
use crate::service::Service;
use crate::slab::Slab;
use crate::timers::Timers;

/// One event loop and everything it serves.
pub struct EventLoop {
    service: Service,
    connections: Slab<Registered>,
    links: Links,
    /// The generation of the last connection opened.
    generation: u16,
    accepting: Accepting,
    waiting: Waiting,
    agenda: Agenda,
    postponed: Postponed,
    measures: Measures,
    ending: Ending,
    control: Arc<Control>,
    complaints: Limited,
    /// If threads serve connections: those that have ended, for the threads that served them.
    ended: Option<Vec<Name>>,
}

/// Names a connection in its slot: no other connection of the next 65,535 in this loop has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) index: u32,
    pub(super) generation: u16,
}

const SUPERVISOR: u64 = Token::of(Kind::Supervisor).number();
const HELPERS: u64 = Token::of(Kind::Helpers).number();

impl EventLoop {
    /// Sets up the event mechanism and registers the listeners.
    ///
    /// # Errors
    ///
    /// The mechanism cannot be set up.
    pub fn new(
        service: Service,
        listeners: Share,
        settings: &Settings,
        control: Arc<Control>,
    ) -> io::Result<Self> {
        let events = EventMechanism::new(settings.event.mechanism)?;
        Self::with_mechanism(service, listeners, settings, control, events)
    }

    /// Sets up the loop with a ring.
    ///
    /// # Errors
    ///
    /// The ring does not watch the listeners.
    pub fn on_ring(
        service: Service,
        listeners: Share,
        settings: &Settings,
        control: Arc<Control>,
        ring: Ring,
    ) -> io::Result<Self> {
        Self::with_mechanism(service, listeners, settings, control, EventMechanism::Ring(Box::new(ring)))
    }

    fn with_mechanism(
        mut service: Service,
        listeners: Share,
        settings: &Settings,
        control: Arc<Control>,
        events: EventMechanism,
    ) -> io::Result<Self> {
        let now = service.clock.tick;
        let mut waiting = Waiting::new(events, now);
        waiting.events.watch(control.as_fd(), SUPERVISOR)?;
        let is_ring = waiting.events.ring().is_some();
        if is_ring {
            service.outbox = Some(Outbox::new(settings.uring.zero_copy));
            service.gateway.use_ring();
        }
        service.may_block = MayBlock::ForFiles;
        service.hears_hang_ups = waiting.events.is_edge_triggered();
        if service.sends_block {
            service.sends = Some(BlockingSends::of_many_clients(settings, &service.counters.alarm_rings)?);
        }
        if let Some(wakeup) = service.wakeup() {
            waiting.events.watch(wakeup, Token::of(Kind::Wakeup).number())?;
        }
        let mut this = Self {
            measures: Measures::new(&service.clock),
            service,
            connections: Slab::new(),
            links: Links::new(),
            generation: 0,
            accepting: Accepting::new(listeners, settings, now),
            waiting,
            // With a ring, a new connection waits until something was received.
            agenda: Agenda::new(settings.event.work_phase_skips_new || is_ring),
            postponed: Postponed::default(),
            ending: Ending::new(settings, Arc::clone(&control)),
            control,
            complaints: Limited::default(),
            ended: None,
        };
        this.accepting.policy.state().publish(this.service.counters);
        if let (Some(common), Some(descriptor)) = (&this.service.common, this.waiting.events.descriptor()) {
            common.own(descriptor);
        }
        this.watch_listeners()?;
        let bytes = Slab::<Registered>::SLOT_BYTES + Timers::BYTES_EACH + this.waiting.events.bytes_each();
        this.service.counters.connection_bytes.raise_to(bytes as u64);
        Ok(this)
    }

    /// Serves until drained or stopped.
    ///
    /// # Errors
    ///
    /// The event mechanism stops working.
    pub fn run(self) -> io::Result<()> {
        self.run_with(Calls)
    }

    /// Serves until drained or stopped. Connections have their turns by `turns`.
    ///
    /// # Errors
    ///
    /// The event mechanism stops working.
    pub(super) fn run_with(mut self, mut turns: impl Turns) -> io::Result<()> {
        self.control.arrive();
        let served = self.serve(&mut turns);
        turns.end(&mut self);
        served
    }

    fn serve(&mut self, turns: &mut impl Turns) -> io::Result<()> {
        while self.control.phase() != Phase::Stop {
            self.get_events_phase()?;
            turns.accept(self)?;
            self.work_phase(turns);
            self.timers_phase();
            if self.service.has_chores() {
                self.see_to_links();
            }
            self.turn_ends();
            self.make_a_listing();
            turns.turn_ends(self);
            if self.has_ended() {
                break;
            }
            self.service.counters.phases.add(1);
        }
        Ok(())
    }

    /// Starts to serve a new connection.
    fn open(&mut self, client: Client) {
        if let Some(common) = &self.service.common {
            common.own(&client.socket);
        }
        let mut conversation = Channel::new(client, &self.service);
        if self.agenda.skips_new {
            conversation.await_input();
        }
        if self.ending.has_begun() {
            conversation.machine().drain();
        }
        self.service.counters.connections_opened.add(1);
        self.generation = self.generation.wrapping_add(1);
        let (registration, generation) = (Registration::None, self.generation);
        let due = !self.agenda.skips_new;
        let (awaits_thread, links) = (false, 0);
        let registered = Registered { conversation, registration, generation, links, due, awaits_thread };
        let index = self.connections.insert(registered);
        if let Some(registered) = self.connections.get_mut(index) {
            if let Some(ring) = self.waiting.events.ring() {
                ring.register(registered.conversation.as_fd());
            }
            registered.keep_deadline(index, &mut self.waiting.timers);
        }
        if self.agenda.skips_new {
            self.settle(index, Turn::Blocked);
        } else {
            self.agenda.work.push(index);
        }
    }

    /// Handles a connection after its turn: waits for its socket, comes back to it, or ends it.
    fn settle(&mut self, index: u32, turn: Turn) {
        if self.service.outbox.is_some() {
            self.hand_to_ring(index);
        }
        let Some(registered) = self.connections.get_mut(index) else { return };
        match turn {
            Turn::Blocked if self.service.outbox.is_some() => self.await_ring(index),
            Turn::Blocked => {
                let Registered { conversation, registration, generation, .. } = registered;
                let token = Token { kind: Kind::Client, generation: *generation, index }.number();
                let waits = conversation.waits_for();
                match self.waiting.events.await_events(conversation.as_fd(), token, *registration, waits) {
                    Ok(new) => *registration = new,
                    Err(error) => {
                        let message = format!("cannot wait for a connection: {error}");
                        self.complaints.warn(self.service.clock.ms, &message);
                        return self.close(index, true);
                    }
                }
                registered.keep_deadline(index, &mut self.waiting.timers);
            }
            Turn::Application => {
                if !self.watch_link(index) {
                    return self.close(index, true);
                }
                if !self.leaves_alone(index) {
                    self.settle(index, Turn::Blocked);
                }
            }
            Turn::Disk(job) => {
                self.put_off(index, *job);
                self.settle(index, Turn::Blocked);
            }
            Turn::Unfinished => {
                self.agenda.add_unfinished(index, registered);
                registered.keep_deadline(index, &mut self.waiting.timers);
            }
            Turn::Close => self.close(index, false),
            Turn::Reset => self.close(index, true),
        }
    }

    fn close(&mut self, index: u32, reset: bool) {
        self.waiting.timers.cancel(index);
        let Some(registered) = self.connections.remove(index) else { return };
        if self.service.outbox.is_some() {
            return self.close_by_ring(index, registered, reset);
        }
        if let Some(ended) = &mut self.ended {
            ended.push(Name { index, generation: registered.generation });
        }
        if registered.conversation.was_lent() || registered.conversation.awaits_send() {
            // While another process has a copy of the socket, closing it does not end its registration.
            self.waiting.events.remove_if(registered.conversation.as_fd(), registered.registration);
        } else {
            self.waiting.events.forget_closing(registered.conversation.as_fd(), registered.registration);
        }
        let socket = registered.conversation.end(&mut self.service);
        if let Some(common) = &self.service.common {
            common.leave(&socket);
        }
        self.service.counters.connections_closed.add(1);
        if reset {
            self.service.counters.reset(Reset::Local);
            // A socket that cannot be reset is closed when it is dropped.
            let _ = socket::reset(socket);
        }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        for index in 0..self.connections.slots() {
            self.close(index, false);
        }
        self.service.gateway.keep_none();
        self.see_to_links();
        self.service.publish();
        if let (Some(common), Some(descriptor)) = (&self.service.common, self.waiting.events.descriptor()) {
            common.leave(descriptor);
        }
    }
}
