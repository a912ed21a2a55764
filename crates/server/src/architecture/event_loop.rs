//! The event loop of the event-driven architectures: get-events phase, accept phase, work phase, over and
//! over (Brecht et al. 2004, section 3.1; Pariag et al. 2007, section 3).
//!
//! The get-events phase gathers which sockets can go on. The accept phase takes connections out of the accept
//! queue, as many as the accept limit allows. The work phase lets every connection that can go on read,
//! answer and write for its share of the turn. Timers are looked at last. Nothing blocks but the get-events
//! phase, the disk, and sends if they shall ([`sends`](crate::sends) bounds them).
//!
//! What is left undone is remembered, not waited for: a connection that used up its share and a listener that
//! an accept limit left non-empty are both come back to after a get-events phase that does not wait. (An edge
//! trigger will not repeat itself for either.)

mod disk;
mod listings;
mod room;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use http1::Tick;
use sys::event::Events;
use sys::socket::{self, PeerAddress};
use sys::tcp_info::AcceptQueue;

use self::listings::Listings;
use self::room::Pressure;
use super::events::{EventMechanism, Registration};
use crate::accept::{self, AcceptPolicy, Cost, Gate, Queue};
use crate::allotment::Allotment;
use crate::config::{Sends, Settings, Wake};
use crate::content::Patience;
use crate::control::{Control, LetGo, Phase};
use crate::conversation::{Conversation, Turn};
use crate::counters::{ConnectionState, Failure, LoopPhase, Reset};
use crate::error_log::Limited;
use crate::helpers::Helpers;
use crate::listeners::{Listener, Share};
use crate::sends::BlockingSends;
use crate::service::Service;
use crate::slab::Slab;
use crate::timers::Timers;

/// One event loop and everything it serves.
pub struct EventLoop {
    service: Service,
    events: EventMechanism,
    /// What the last get-events phase brought, and when.
    ready: Events,
    turn_began: Tick,
    connections: Slab<Registered>,
    /// Those who wait for the disk, where the loop itself does not.
    helpers: Option<Helpers>,
    /// Listings to be made, where there are no helpers.
    listings: Listings,
    timers: Timers,
    ports: Vec<Port>,
    gate: Gate,
    accept_policy: AcceptPolicy,
    wake: Wake,
    /// Connections accepted since the listeners were last added.
    accepted_since_added: u64,
    work_phase_skips_new: bool,
    /// What the turn under way has come to so far.
    turn: accept::Turn,
    /// Its cost, if that is measured.
    cost: Option<TurnCost>,
    /// The thread's CPU time when the work before it ended, if its cost is to be measured.
    turning_since_ns: Option<u64>,
    /// When the phase under way began.
    phase_began_ns: u64,
    /// Connections for the coming work phase.
    work: Vec<u32>,
    /// Connections that have used up their share of this turn.
    unfinished: Vec<u32>,
    ending: Ending,
    drain_timeout_ticks: u32,
    control: Arc<Control>,
    /// How often the logs have been opened anew.
    reopenings: u32,
    pressure: Pressure,
    complaints: Limited,
}

/// What a turn takes, in nanoseconds of CPU time.
struct TurnCost {
    events: u32,
    /// From the end of work to the end of the get-events phase.
    overhead_ns: u64,
    /// The thread's CPU time then.
    began_ns: u64,
    /// From there to the end of work.
    useful_ns: u64,
}

/// A connection and what its socket is registered for.
struct Registered {
    conversation: Conversation,
    registration: Registration,
    /// It is due for a turn already: it gets one, however many reasons there are.
    due: bool,
}

/// A listener in the loop.
struct Port {
    listener: Arc<Listener>,
    registration: Registration,
    /// It may have connections waiting.
    pending: bool,
    /// It answers no new handshakes any more, if it is this server's alone, and is closed once it is empty
    /// after this.
    retiring: Option<Tick>,
}

/// How far the end of service has come.
#[derive(Clone, Copy)]
enum Ending {
    NotYet,
    /// Others accept now; connections live on, each to its next reply.
    Retired,
    Drain {
        /// Before this, idle connections are left open for a request that may be on its way.
        idle_until: Tick,
        /// At this, what is left is cut off.
        give_up: Tick,
    },
}

/// Tokens of listeners, of the supervisor and of helpers lie above those of connections.
const LISTENERS: u64 = 1 << 32;
const SUPERVISOR: u64 = 1 << 33;
const HELPERS: u64 = 1 << 34;

/// How long a closing listener goes on accepting after it has refused new handshakes, for those under way to
/// finish.
const RETIRE_TICKS: u32 = 100 / Tick::MS;
/// Accepts between two re-addings of the listeners, each of which takes two system calls.
const RE_ADD_AFTER: u64 = 16;
/// How long a drain leaves idle connections open, so that a request that is on its way finds somebody.
const DRAIN_IDLE_TICKS: u32 = 500 / Tick::MS;
/// How many connections a work phase of limited length serves between two looks at the clock.
const WORK_BETWEEN_LOOKS: usize = 8;
/// How often the loop comes back to see whether somebody makes room for those who wait.
const PRESSURE_TICKS: u32 = 100 / Tick::MS;

impl EventLoop {
    /// Sets up the event mechanism and registers the listeners.
    ///
    /// # Errors
    ///
    /// The mechanism can't be set up.
    pub fn new(
        mut service: Service,
        listeners: Share,
        settings: &Settings,
        control: Arc<Control>,
    ) -> io::Result<Self> {
        let mut events = EventMechanism::new(settings.event.mechanism)?;
        events.watch(control.as_fd(), SUPERVISOR)?;
        service.patience = Patience::Files;
        if settings.send == Sends::Blocking {
            service.sends = Some(BlockingSends::of_many_clients(settings)?);
        }
        let (now, service_began_ns) = (service.clock.tick, service.clock.ns);
        let mut this = Self {
            service,
            events,
            ready: Events::with_capacity(Events::DEFAULT_CAPACITY),
            turn_began: now,
            connections: Slab::new(),
            helpers: None,
            listings: Listings::default(),
            timers: Timers::new(now),
            ports: Vec::new(),
            gate: Gate::new(Allotment::of(settings).connections),
            accept_policy: AcceptPolicy::new(settings.event.accept_limit),
            wake: settings.event.wake,
            accepted_since_added: 0,
            work_phase_skips_new: settings.event.work_phase_skips_new,
            turn: accept::Turn::default(),
            cost: None,
            turning_since_ns: None,
            phase_began_ns: service_began_ns,
            work: Vec::new(),
            unfinished: Vec::new(),
            ending: Ending::NotYet,
            drain_timeout_ticks: http1::Timeouts::ticks(settings.drain_timeout.as_millis() as u64),
            reopenings: control.reopenings(),
            control,
            pressure: Pressure::new(now),
            complaints: Limited::default(),
        };
        this.service.counters.accept_policy(&this.accept_policy.thoughts());
        if let (Some(common), Some(descriptor)) = (&this.service.common, this.events.descriptor()) {
            common.own(descriptor);
        }
        this.take_listeners(listeners)?;
        let bytes = Slab::<Registered>::SLOT_BYTES + Timers::BYTES_EACH + this.events.bytes_each();
        this.service.counters.connection_bytes.raise_to(bytes as u64);
        Ok(this)
    }

    /// Serves until drained or stopped.
    ///
    /// # Errors
    ///
    /// The event mechanism stops working.
    pub fn run(mut self) -> io::Result<()> {
        while self.control.phase() != Phase::Stop {
            self.get_events_phase()?;
            self.accept_phase()?;
            self.work_phase();
            self.take_cost();
            self.timers_phase();
            self.turn.busy_ns += self.phase_ends(LoopPhase::Work, sys::clock::monotonic_ns());
            if self.accept_policy.is_adaptive() {
                self.tell_policy();
            }
            self.make_a_listing();
            if self.has_ended() {
                break;
            }
            self.service.counters.phases.add(1);
        }
        Ok(())
    }

    /// Waits until a socket can go on, a timer comes up or the supervisor calls, and sorts what came.
    fn get_events_phase(&mut self) -> io::Result<()> {
        let timeout_ms = self.wait_at_most_ms();
        let at_once = timeout_ms == Some(0);
        if !at_once {
            self.service.rest();
        }
        let turning_since_ns = self.turning_since_ns.take().filter(|_| at_once);
        let count = self.events.get(&mut self.ready, timeout_ms)?;
        self.service.counters.event_waits.add(1);
        self.service.begin_turn();
        self.turn_began = self.service.clock.tick;
        let spent_ns = self.phase_ends(LoopPhase::GetEvents, self.service.clock.ns);
        self.turn = accept::Turn { busy_ns: if at_once { spent_ns } else { 0 }, ..accept::Turn::default() };
        self.cost = turning_since_ns.map(|since_ns| {
            let began_ns = sys::clock::thread_cpu_ns();
            let overhead_ns = began_ns.saturating_sub(since_ns);
            TurnCost { events: count as u32, overhead_ns, began_ns, useful_ns: 0 }
        });
        // Those that the last work phase did not come to are first.
        if self.work.is_empty() {
            std::mem::swap(&mut self.work, &mut self.unfinished);
        } else {
            self.work.append(&mut self.unfinished);
        }
        for at in 0..count {
            let Some(event) = self.ready.get(at) else { break };
            if event.token < LISTENERS {
                let index = event.token as u32;
                if let Some(registered) = self.connections.get_mut(index) {
                    let gone = event.hang_up || event.error;
                    registered.conversation.note(event.readable, event.writable, gone);
                    if !std::mem::replace(&mut registered.due, true) {
                        self.work.push(index);
                    }
                }
            } else if event.token < SUPERVISOR {
                if let Some(port) = self.ports.get_mut((event.token - LISTENERS) as usize) {
                    port.pending = true;
                }
            } else if event.token < HELPERS {
                self.heed_supervisor();
            } else {
                self.heed_helpers();
            }
        }
        Ok(())
    }

    /// Takes connections out of the accept queues, at most as many as the accept limit says.
    fn accept_phase(&mut self) -> io::Result<()> {
        if !self.ports.iter().any(|port| port.pending) {
            return Ok(());
        }
        let mut sample =
            self.accept_policy.sampling_is_due(self.service.clock.ns) && self.sample_queue().is_some();
        let mut budget = self.accept_policy.budget().connections;
        let mut accepted = 0;
        for at in 0..self.ports.len() {
            while self.ports[at].pending && budget > 0 {
                if !self.has_room() {
                    break;
                }
                match self.service.accept(&self.ports[at].listener) {
                    Ok((socket, peer)) => {
                        budget -= 1;
                        accepted += 1;
                        if std::mem::take(&mut sample) {
                            self.sample_wait(&socket);
                        }
                        self.open(socket, peer);
                    }
                    Err(error) => self.accept_failed(at, &error),
                }
            }
        }
        self.service.counters.accept_phase(accepted);
        self.turn.accepted = accepted as u32;
        self.turn.busy_ns += self.phase_ends(LoopPhase::Accept, sys::clock::monotonic_ns());
        self.watch_listeners()?;
        self.leave_the_next_to_others(accepted)
    }

    /// Sees how many connections wait to be accepted, if the kernel tells.
    fn sample_queue(&mut self) -> Option<()> {
        let pending = self.ports.iter().filter(|port| port.pending);
        let queues = pending.filter_map(|port| sys::tcp_info::accept_queue(&*port.listener).ok());
        let seen = queues.reduce(|sum, queue| AcceptQueue {
            length: sum.length.saturating_add(queue.length),
            limit: sum.limit.saturating_add(queue.limit),
        })?;
        self.service.counters.accept_queue_seen(seen.length.into());
        self.accept_policy.queue_seen(Queue { length: seen.length, limit: seen.limit });
        Some(())
    }

    /// Sees how long a connection has waited, which was just accepted.
    fn sample_wait(&mut self, accepted: &OwnedFd) {
        if let Ok(ms) = sys::tcp_info::waited_ms(accepted) {
            self.service.counters.accept_wait_seen(ms.into());
            self.accept_policy.wait_seen(ms);
        }
    }

    /// Counts the time that a phase took, and tells it.
    fn phase_ends(&mut self, phase: LoopPhase, now_ns: u64) -> u64 {
        let began_ns = std::mem::replace(&mut self.phase_began_ns, now_ns);
        let spent_ns = now_ns.saturating_sub(began_ns);
        self.service.counters.spent(phase, spent_ns);
        spent_ns
    }

    /// Tells the accept policy what came of the turn, and people what the policy thinks of it.
    fn tell_policy(&mut self) {
        let mut turn = self.turn;
        if let Some(TurnCost { events, overhead_ns, useful_ns, .. }) = self.cost.take() {
            let (accepted, worked) = (turn.accepted, turn.worked);
            self.accept_policy.cost_seen(Cost { overhead_ns, events, useful_ns, accepted, worked });
        }
        turn.left = self.work.len() as u32;
        turn.emptied = !self.ports.iter().any(|port| port.pending);
        self.accept_policy.turned(self.phase_began_ns, &turn);
        if let Some(thoughts) = self.accept_policy.news(self.phase_began_ns) {
            self.service.counters.accept_policy(&thoughts);
        }
    }

    /// Lets every connection that can go on do so, or as many as there is time for.
    fn work_phase(&mut self) {
        let mut work = std::mem::take(&mut self.work);
        let is_long = work.len() > WORK_BETWEEN_LOOKS;
        let limit_ns = if is_long { self.accept_policy.budget().work_ns } else { None };
        let until_ns = limit_ns.map(|ns| self.phase_began_ns.saturating_add(ns));
        let mut done = 0_usize;
        for &index in &work {
            if done.is_multiple_of(WORK_BETWEEN_LOOKS)
                && done > 0
                && until_ns.is_some_and(|until_ns| sys::clock::monotonic_ns() >= until_ns)
            {
                break;
            }
            done += 1;
            let Some(registered) = self.connections.get_mut(index) else { continue };
            // A place that was waited for may have gone to somebody else.
            if std::mem::take(&mut registered.due) {
                let turn = registered.conversation.work(&mut self.service);
                self.settle(index, turn);
            }
        }
        work.drain(..done);
        self.turn.worked = done as u32;
        self.work = work;
    }

    /// At the end of work: what it took, if that is measured, and where the next turn's cost begins, if it is
    /// due.
    fn take_cost(&mut self) {
        let is_due = self.accept_policy.cost_is_due(self.phase_began_ns);
        if self.cost.is_none() && !is_due {
            return;
        }
        let cpu_ns = sys::clock::thread_cpu_ns();
        if let Some(cost) = &mut self.cost {
            cost.useful_ns = cpu_ns.saturating_sub(cost.began_ns);
        }
        self.turning_since_ns = is_due.then_some(cpu_ns);
    }

    /// Looks at the connections whose wake-up has come. What a client has done since the get-events phase is
    /// not known yet, so the time of that phase counts, however long the work phase took.
    fn timers_phase(&mut self) {
        let now = self.turn_began;
        let mut helpers_are_slow = false;
        while let Some(index) = self.timers.expired(now) {
            // Whatever is done for a connection is no cost of turning around.
            self.turning_since_ns = None;
            let Some(registered) = self.connections.get_mut(index) else { continue };
            let due = registered.conversation.deadline().is_some_and(|deadline| deadline.reached(now));
            helpers_are_slow |= due && registered.conversation.waits_for_disk().is_some();
            let turn = if due { registered.conversation.timeout(&mut self.service) } else { None };
            match turn {
                Some(turn) => self.settle(index, turn),
                None => registered.keep_deadline(index, &mut self.timers),
            }
        }
        if helpers_are_slow {
            self.look_after_helpers();
        }
    }

    /// Goes on with ending; says whether it is complete.
    fn has_ended(&mut self) -> bool {
        let now = self.service.clock.tick;
        self.retire_listeners(now);
        match self.ending {
            Ending::NotYet => return false,
            Ending::Drain { give_up, .. } if give_up.reached(now) => {
                tracing::warn!("{} connections cut off: the drain timeout is over", self.connections.len());
                return true;
            }
            // A connection that had a turn since the last get-events phase may look idle and have a request
            // waiting.
            Ending::Drain { idle_until, .. }
                if self.ports.is_empty() && idle_until.reached(now) && self.turn.worked == 0 =>
            {
                self.close_idle_ones_if_all_are();
            }
            Ending::Retired | Ending::Drain { .. } => {}
        }
        self.ports.is_empty() && self.connections.is_empty()
    }

    /// Idle connections go last: as long as others are served, a request may still come on one of them.
    fn close_idle_ones_if_all_are(&mut self) {
        let busy = self.connections.iter_mut().any(|(_, registered)| {
            let machine = registered.conversation.machine();
            !machine.is_idle() && !machine.is_lingering()
        });
        if busy {
            return;
        }
        for index in 0..self.connections.slots() {
            let Some(registered) = self.connections.get_mut(index) else { continue };
            if registered.conversation.machine().close_if_idle() {
                let turn = registered.conversation.work(&mut self.service);
                self.settle(index, turn);
            }
        }
    }

    /// What the supervisor wants: a census, logs opened anew, an end. A worker without room may have called
    /// as well, for somebody else to look at the listeners.
    fn heed_supervisor(&mut self) {
        self.control.heed();
        self.control.hear_round();
        self.service.publish();
        self.service.counters.connection_places.set(self.connections.slots().into());
        let connections = &mut self.connections;
        self.service.counters.answer_census(|| census(connections));
        if self.control.reopenings() != self.reopenings {
            self.reopenings = self.control.reopenings();
            self.service.reopen_logs();
        }
        for port in &mut self.ports {
            port.pending = true;
        }
        match (self.control.phase(), self.ending) {
            (Phase::Retire, Ending::NotYet) => self.retire(),
            (Phase::Drain, Ending::NotYet | Ending::Retired) => self.drain(),
            _ => {}
        }
    }

    /// Leaves the listeners to others. Idle connections stay until their next request or their timeout, so
    /// that no request is ever sent to a connection that closes.
    fn retire(&mut self) {
        self.ending = Ending::Retired;
        for port in std::mem::take(&mut self.ports) {
            // Others have the same socket open, so closing it here would not end its registration.
            self.events.remove_if(port.listener.as_fd(), port.registration);
            // From here on others are woken. For what came before, it may have been this process alone; the
            // supervisor wakes the others once more for what there is no room for.
            while self.has_room()
                && let Ok((socket, peer)) = self.service.accept(&port.listener)
            {
                self.service.counters.accept_phase(1);
                self.open(socket, peer);
            }
            self.service.let_go_of_listener(&port.listener);
        }
        self.tell_let_go();
        self.say_close_from_now_on();
        self.service.content.retire();
    }

    /// Accepts what is there, the listeners answering no new handshakes any more.
    fn drain(&mut self) {
        let now = self.service.clock.tick;
        self.ending = Ending::Drain {
            idle_until: now.after(DRAIN_IDLE_TICKS),
            give_up: now.after(self.drain_timeout_ticks),
        };
        let orphaned = self.control.is_orphaned();
        for port in &mut self.ports {
            if orphaned {
                port.listener.refuse_new_handshakes();
            }
            port.retire(now);
        }
        self.say_close_from_now_on();
    }

    fn say_close_from_now_on(&mut self) {
        for (_, registered) in self.connections.iter_mut() {
            registered.conversation.machine().drain();
        }
    }

    /// Takes a new connection into service.
    fn open(&mut self, socket: OwnedFd, peer: PeerAddress) {
        if let Some(common) = &self.service.common {
            common.own(&socket);
        }
        let mut conversation = Conversation::new(socket, peer, &self.service);
        if self.work_phase_skips_new {
            conversation.await_input();
        }
        if !matches!(self.ending, Ending::NotYet) {
            conversation.machine().drain();
        }
        self.service.counters.connections_opened.add(1);
        let registration = Registration::None;
        let due = !self.work_phase_skips_new;
        let index = self.connections.insert(Registered { conversation, registration, due });
        if let Some(registered) = self.connections.get_mut(index) {
            registered.keep_deadline(index, &mut self.timers);
        }
        if self.work_phase_skips_new {
            self.settle(index, Turn::Blocked);
        } else {
            self.work.push(index);
        }
    }

    /// Sees to a connection after its turn: waits for its socket, comes back to it, or ends it.
    fn settle(&mut self, index: u32, turn: Turn) {
        let Some(registered) = self.connections.get_mut(index) else { return };
        match turn {
            Turn::Blocked => {
                let Registered { conversation, registration, .. } = registered;
                let waits = conversation.waits_for();
                match self.events.await_events(conversation.as_fd(), u64::from(index), *registration, waits) {
                    Ok(new) => *registration = new,
                    Err(error) => {
                        self.complain(&format!("cannot wait for a connection: {error}"));
                        return self.close(index, true);
                    }
                }
                registered.keep_deadline(index, &mut self.timers);
            }
            Turn::Disk(job) => {
                self.put_off(index, *job);
                self.settle(index, Turn::Blocked);
            }
            Turn::Unfinished => {
                if !std::mem::replace(&mut registered.due, true) {
                    self.unfinished.push(index);
                }
                registered.keep_deadline(index, &mut self.timers);
            }
            Turn::Close => self.close(index, false),
            Turn::Reset => self.close(index, true),
        }
    }

    fn close(&mut self, index: u32, reset: bool) {
        self.timers.cancel(index);
        let Some(registered) = self.connections.remove(index) else { return };
        self.events.forget_closing(registered.conversation.as_fd(), registered.registration);
        let socket = registered.conversation.end(&mut self.service);
        if let Some(common) = &self.service.common {
            common.leave(&socket);
        }
        self.service.counters.connections_closed.add(1);
        if reset {
            self.service.counters.reset(Reset::Local);
            // A socket that can't be reset is closed by being dropped.
            let _ = socket::reset(socket);
        }
    }

    fn accept_failed(&mut self, at: usize, error: &io::Error) {
        match error.kind() {
            // The latter where an orphan beside this one has stopped it, which it does when the queue is
            // empty.
            io::ErrorKind::WouldBlock | io::ErrorKind::InvalidInput => self.ports[at].pending = false,
            _ if socket::is_exhaustion(error) => {
                self.service.counters.error(Failure::AcceptExhausted);
                // Files that are kept open without need make room for clients.
                if !self.service.content.close_half() {
                    self.gate.back_off(self.service.clock.tick);
                    self.complain(&format!("accepting pauses: {error}"));
                }
            }
            // The client is gone already, or the network says so (accept(2), "Error handling").
            _ => self.service.counters.error(Failure::Accept),
        }
    }

    /// Level-triggered mechanisms report a listener for as long as it is non-empty: it is taken out while
    /// nothing can be accepted, or the loop would spin. So it is where only one process is woken, which must
    /// not be this one then.
    fn watch_listeners(&mut self) -> io::Result<()> {
        let now = self.service.clock.tick;
        let room = self.gate.room(self.connections.len(), now) > 0;
        let alone = self.wake != Wake::All;
        for (at, port) in self.ports.iter_mut().enumerate() {
            let wanted = room || !port.pending;
            port.registration = match (port.registration, wanted) {
                (Registration::None, true) => {
                    self.events.listen(port.listener.as_fd(), LISTENERS + at as u64, alone)?
                }
                (Registration::Edge, false) if !alone => Registration::Edge,
                (Registration::Level { .. } | Registration::Edge, false) => {
                    self.events.remove(port.listener.as_fd());
                    if alone {
                        // Nobody else was woken for what waits there.
                        self.control.call_others();
                    }
                    Registration::None
                }
                (unchanged, _) => unchanged,
            };
        }
        Ok(())
    }

    /// The kernel wakes whoever registered first among those that wait; re-adding a listener goes to the end
    /// of the line.
    fn leave_the_next_to_others(&mut self, accepted: u64) -> io::Result<()> {
        self.accepted_since_added += accepted;
        if self.wake != Wake::ReAdding || self.accepted_since_added < RE_ADD_AFTER {
            return Ok(());
        }
        self.accepted_since_added = 0;
        for port in &mut self.ports {
            self.events.remove_if(port.listener.as_fd(), port.registration);
            port.registration = Registration::None;
        }
        self.watch_listeners()
    }

    /// How long the get-events phase may wait.
    fn wait_at_most_ms(&mut self) -> Option<u32> {
        let now = self.service.clock.tick;
        if !self.unfinished.is_empty() || !self.work.is_empty() || !self.listings.is_empty() {
            return Some(0);
        }
        let pending = self.ports.iter().any(|port| port.pending);
        let open = self.connections.len();
        if pending && self.gate.room(open, now) > 0 {
            return Some(0);
        }
        let mut ticks = self.timers.ticks_to_next();
        if pending {
            let paused = self.gate.paused_until().map(|until| until.remaining(now).max(1));
            ticks = Some(sooner(ticks, paused.unwrap_or(PRESSURE_TICKS)));
        }
        if matches!(self.ending, Ending::Drain { .. })
            || self.ports.iter().any(|port| port.retiring.is_some())
        {
            ticks = Some(sooner(ticks, 1));
        }
        let mut ms = ticks.map(|ticks| ticks.saturating_mul(Tick::MS));
        if let Some(log) = &self.service.log
            && let Some(log_ms) = log.wait_at_most_ms(self.service.clock.ms)
        {
            ms = Some(sooner(ms, log_ms.min(u64::from(u32::MAX)) as u32));
        }
        ms
    }

    /// Takes over the listeners. Whatever was queued before they were registered is found by trying.
    fn take_listeners(&mut self, share: Share) -> io::Result<()> {
        let now = self.service.clock.tick;
        let port =
            |listener| Port { listener, registration: Registration::None, pending: true, retiring: None };
        self.ports.extend(share.serving.into_iter().map(port));
        self.ports.extend(share.retiring.into_iter().map(|listener| {
            let mut port = port(listener);
            port.retire(now);
            port
        }));
        self.watch_listeners()
    }

    /// Closes listeners that have refused new handshakes for long enough and are empty.
    fn retire_listeners(&mut self, now: Tick) {
        let before = self.ports.len();
        let mut at = 0;
        while at < self.ports.len() {
            let port = &mut self.ports[at];
            if port.is_over(now) {
                // Tokens are places: the last listener moves to this one's place and is registered anew.
                let gone = self.ports.swap_remove(at);
                self.events.remove_if(gone.listener.as_fd(), gone.registration);
                if self.control.is_orphaned() {
                    gone.listener.stop_listening();
                }
                self.service.let_go_of_listener(&gone.listener);
                if let Some(moved) = self.ports.get_mut(at) {
                    self.events.remove_if(moved.listener.as_fd(), moved.registration);
                    moved.registration = Registration::None;
                    moved.pending = true;
                    let alone = self.wake != Wake::All;
                    let registered = self.events.listen(moved.listener.as_fd(), LISTENERS + at as u64, alone);
                    moved.registration = registered.unwrap_or_default();
                }
                continue;
            }
            if port.retiring.is_some() {
                // Empty now does not mean empty at the end: look again until then.
                port.pending = true;
            }
            at += 1;
        }
        if self.ports.len() != before {
            self.tell_let_go();
        }
    }

    /// Where listeners are in common with the supervisor, it waits for this to close them.
    fn tell_let_go(&self) {
        let retiring = self.ports.iter().any(|port| port.retiring.is_some());
        self.control.tell_let_go(match (self.ports.is_empty(), retiring) {
            (true, _) => LetGo::All,
            (false, false) => LetGo::Retiring,
            (false, true) => LetGo::Nothing,
        });
    }

    fn close_all(&mut self) {
        for index in 0..self.connections.slots() {
            self.close(index, false);
        }
        self.service.publish();
    }

    fn complain(&mut self, message: &str) {
        if let Some(suppressed) = self.complaints.permit(self.service.clock.ms) {
            tracing::warn!(suppressed, "{message}");
        }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.close_all();
        if let (Some(common), Some(descriptor)) = (&self.service.common, self.events.descriptor()) {
            common.leave(descriptor);
        }
    }
}

/// The sooner of a time that may be none and another.
fn sooner(one: Option<u32>, other: u32) -> u32 {
    one.map_or(other, |one| one.min(other))
}

impl Registered {
    /// Has it looked at no later than its deadline: after whatever may have moved that, or used up the
    /// wake-up. Without a deadline it is due for a turn, which sees to it again.
    fn keep_deadline(&mut self, index: u32, timers: &mut Timers) {
        if let Some(deadline) = self.conversation.deadline() {
            timers.wake_by(index, deadline);
        }
    }
}

impl Port {
    fn retire(&mut self, now: Tick) {
        if self.retiring.is_none() {
            self.retiring = Some(now.after(RETIRE_TICKS));
            self.pending = true;
        }
    }

    /// Whether it retires and is to be closed now.
    fn is_over(&self, now: Tick) -> bool {
        self.retiring.is_some_and(|until| self.listener.is_over(until.reached(now), !self.pending))
    }
}

/// Connections by state, in the order of [`ConnectionState`].
fn census(connections: &mut Slab<Registered>) -> [u64; ConnectionState::NAMES.len()] {
    let mut counts = [0; ConnectionState::NAMES.len()];
    for (_, registered) in connections.iter_mut() {
        counts[registered.conversation.state() as usize] += 1;
    }
    counts
}
