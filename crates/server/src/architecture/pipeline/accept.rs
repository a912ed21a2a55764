//! The Accept stage. A thread for each address takes connections out of its accept queue. It hands them to
//! the Read stages of the lanes in turn, or to the lane that the address belongs to.
//!
//! The accept limit bounds how many of an acceptor's connections are ahead of it. A connection is ahead
//! until it has had its first turn, through Read and Write. When the limit is reached, the acceptor waits
//! for two things: all these connections have had their turn, and the poll stages have handed on all
//! connections with events. Without a limit the acceptor waits only for room in the queues.
//!
//! Waiting for less is not enough:
//!
//! - If it waited only until readers begin with the new connections: reading is cheap, so a thousand
//!   connections would wait to be written to.
//! - If it waited only until the new connections are served: they need no poll stage. The poll stage would
//!   get the CPU only when its time slice comes, and all older connections would wait for that.
//!
//! With `auto` the accept policy learns from turns. Here a turn lasts from one such wait to the next, less
//! the time that the acceptor slept while the stages had nothing to do. The work done is what readers and
//! writers took from their queues in that time. The work left over is what these queues hold. So the
//! ceiling is what the whole pipeline gets done within the target. The cost of a turn itself cannot be
//! measured, because threads wake each other. The acceptor assumes it to be a part of the cost of serving.
//! Each acceptor has its own limit. Connections that other acceptors brought in and no stage has worked on
//! yet count as left over for it, too.
//!
//! If there is a response target, each new connection also takes a [token](super::tokens). An acceptor that
//! finds no token leaves its clients in the accept queue, and sleeps until there is one. That time is not
//! part of a turn. During a drain the acceptor accepts all clients.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::thread;

use http1::Tick;
use sys::epoll::Epoll;
use sys::event::{Events, Interest};
use sys::poll;
use sys::tcp_info;

use super::Pipeline;
use super::lane::Lane;
use super::traveller::{Boxed, Traveller};
use super::wakeups::AcceptorWakeup;
use crate::accept::{AcceptPolicy, Cost, Gate, Turn};
use crate::architecture::common::listener_handles::{Accepted, ListenerHandle};
use crate::architecture::common::samples::{sample_queue, sample_wait};
use crate::channel::{Channel, Client};
use crate::config::Settings;
use crate::control::Phase;
use crate::counters::Stage;
use crate::error_log::Limited;
use crate::service::Service;

/// A listener of an acceptor.
struct Port {
    handle: ListenerHandle,
    /// Its number among all listeners of the pipeline.
    number: usize,
    /// The lane that it belongs to, if any.
    lane: Option<u16>,
    /// It may have connections waiting.
    pending: bool,
}

/// A thread of the stage.
pub(super) struct Acceptor<'p> {
    pipeline: &'p Pipeline,
    number: u16,
    service: Service,
    ports: Vec<Port>,
    epoll: Epoll,
    events: Events,
    gate: Gate,
    policy: AcceptPolicy,
    next_lane: usize,
    /// The connections to hand on next, for each lane.
    batches: Box<[VecDeque<Boxed>]>,
    work_phase_skips_new: bool,
    has_heard: Phase,
    /// Where the search for a connection that can make room continues: the lane, and the slot in each lane.
    lane_in_turn: usize,
    hands: Box<[u32]>,
    /// When connections were last ended in turn to make room.
    turns_given: Tick,
    /// When the current turn began, and how many connections the other threads had worked on by then.
    turn_began: (u64, u64),
    /// Totals of the turns since the accept policy last received their cost.
    costing: Costing,
    complaints: Limited,
}

/// The CPU time of the process at the start of a period, and the connections accepted and worked on since.
#[derive(Clone, Copy, Debug, Default)]
struct Costing {
    cpu_ns: u64,
    accepted: u32,
    worked: u32,
}

/// The assumed cost of a turn: this many turns cost as much as serving a connection once. A turn wakes four
/// threads one after the other. When a turn woke three threads, a connection took 39 to 43 us with a limit
/// of 1, and 25 to 32 with one of 10. The result has been above any fixed limit since
/// (docs/architectures.md).
const TURNS_FOR_A_CONNECTION: u64 = 2;

const LISTENERS: u64 = 0;
const WAKE: u64 = 1;

/// How often an acceptor checks whether a connection can make room for waiting clients.
const PRESSURE_MS: u32 = 100;
/// How often an acceptor whose listeners retire checks how far that is.
const ENDING_MS: u32 = 10;
/// How often connections are ended in turn while there are too few slots.
const TURN_TICKS: u32 = 500 / Tick::MS;
/// How many connections are examined to find an idle one.
const LOOKS: u32 = 64;

impl<'p> Acceptor<'p> {
    /// The acceptor of that number, with its listeners. Each listener comes with its number and its lane.
    ///
    /// # Errors
    ///
    /// The kernel does not provide an epoll instance.
    pub(super) fn new(
        pipeline: &'p Pipeline,
        number: u16,
        service: Service,
        handles: Vec<(ListenerHandle, usize, Option<u16>)>,
        settings: &Settings,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(&pipeline.acceptors[usize::from(number)], WAKE, Interest::READABLE)?;
        for (handle, ..) in &handles {
            epoll.add(&*handle.listener, LISTENERS, Interest::READABLE)?;
        }
        let port = |(handle, number, lane)| Port { handle, number, lane, pending: true };
        let policy = AcceptPolicy::new(settings.event.accept_limit);
        policy.state().publish(service.counters);
        service.counters.stage_threads[Stage::Accept as usize].set(1);
        Ok(Self {
            turns_given: service.clock.tick,
            turn_began: (service.clock.ns, 0),
            pipeline,
            number,
            service,
            ports: handles.into_iter().map(port).collect(),
            epoll,
            events: Events::with_capacity(16),
            gate: Gate::new(u32::MAX),
            policy,
            next_lane: usize::from(number) % pipeline.lanes.len(),
            batches: pipeline.lanes.iter().map(|_| VecDeque::new()).collect(),
            work_phase_skips_new: settings.event.work_phase_skips_new,
            has_heard: Phase::Run,
            lane_in_turn: 0,
            hands: pipeline.lanes.iter().map(|_| 0).collect(),
            costing: Costing { cpu_ns: sys::clock::process_cpu_ns(), ..Costing::default() },
            complaints: Limited::default(),
        })
    }

    /// Accepts until its listeners are closed.
    ///
    /// # Errors
    ///
    /// Waiting for events stops working.
    pub(super) fn run(mut self) -> io::Result<()> {
        self.wakeup().is_of_this_thread();
        self.pipeline.control.arrive_with_all();
        while !self.pipeline.is_over.load(Ordering::Acquire) {
            self.service.begin_turn();
            self.heed_supervisor();
            self.accept_phase();
            let control = &self.pipeline.control;
            self.close_ports(|port, now| port.handle.is_over(now, control));
            if self.ports.is_empty() {
                break;
            }
            self.await_clients()?;
        }
        // Threads that wait for the last listener to close must learn that it is gone.
        self.pipeline.read_poll.wake();
        self.service.counters.stage_threads[Stage::Accept as usize].set(0);
        Ok(())
    }

    fn wakeup(&self) -> &'p AcceptorWakeup {
        &self.pipeline.acceptors[usize::from(self.number)]
    }

    /// One accept phase: accepts as many connections as the accept limit allows.
    fn accept_phase(&mut self) {
        for port in &mut self.ports {
            // If the listener is to be closed, a queue that was empty once need not be empty at the end.
            port.pending |= port.handle.is_retiring();
        }
        if !self.ports.iter().any(|port| port.pending) {
            return;
        }
        let mut sample = self.policy.sampling_is_due(self.service.clock.ns) && self.sample_queue().is_some();
        let limit = self.policy.budget().connections;
        let ahead = self.wakeup().ahead();
        let mut accepted = 0;
        for at in 0..self.ports.len() {
            while self.ports[at].pending && ahead + accepted < limit && self.has_room() {
                let Port { handle, lane, .. } = &self.ports[at];
                let lane = *lane;
                match handle.accept(&mut self.service, &mut self.gate, &mut self.complaints) {
                    Accepted::Client(mut client) => {
                        accepted += 1;
                        if std::mem::take(&mut sample) {
                            client.waited_ms =
                                sample_wait(&client.socket, &mut self.policy, self.service.counters);
                        }
                        self.open(client, lane);
                        if accepted.is_multiple_of(self.pipeline.batch() as u32) {
                            self.hand_on();
                        }
                        continue;
                    }
                    Accepted::Refused => accepted += 1,
                    Accepted::Nobody => self.ports[at].pending = false,
                    Accepted::TryAgain | Accepted::Paused => {}
                }
                self.pipeline.open.fetch_sub(1, Ordering::AcqRel);
                self.pipeline.tokens.put_back();
            }
        }
        self.hand_on();
        self.service.counters.accept_phase(accepted.into());
        if ahead + accepted >= limit {
            self.await_stages();
        }
        self.turn_ends(accepted);
    }

    /// Takes a slot for a new connection. If necessary, makes room by ending another one.
    fn has_room(&mut self) -> bool {
        if self.gate.room(0, self.service.clock.tick) == 0 || !self.is_admitted() {
            return false;
        }
        if self.pipeline.take_place() {
            return true;
        }
        self.pipeline.is_crowded.store(true, Ordering::SeqCst);
        // A slot may have become free just before that.
        if self.pipeline.take_place() {
            return true;
        }
        self.pipeline.tokens.put_back();
        let now = self.service.clock.tick;
        // That may be so long ago that ticks no longer show which came first.
        let since = now.0.wrapping_sub(self.turns_given.0);
        if !self.close_an_idle_one() && since >= TURN_TICKS {
            self.turns_given = now;
            self.give_turns();
        }
        false
    }

    /// Takes a token, except for the last clients, before the listeners are closed.
    fn is_admitted(&self) -> bool {
        self.pipeline.tokens.take(self.service.clock.ns) || self.has_heard != Phase::Run
    }

    /// Milliseconds until there is a token, if there is none.
    fn held_ms(&self) -> Option<u32> {
        let ns = self.pipeline.tokens.next_in_ns(self.service.clock.ns);
        (ns > 0).then(|| ns.div_ceil(1_000_000) as u32)
    }

    /// Starts to serve a new connection.
    fn open(&mut self, client: Client, lane: Option<u16>) {
        let lane = lane.unwrap_or_else(|| {
            self.next_lane = (self.next_lane + 1) % self.pipeline.lanes.len();
            self.next_lane as u16
        });
        let mut conversation = Channel::new(client, &self.service);
        self.service.counters.connections_opened.add(1);
        if self.work_phase_skips_new {
            conversation.await_input();
            let now_ns = self.service.clock.ns;
            let traveller = Box::new(Traveller::new(conversation, lane, None, now_ns));
            match self.pipeline.wait(traveller, now_ns) {
                Ok(None) => {}
                Ok(Some(traveller)) => self.batches[usize::from(lane)].push_back(traveller),
                Err(unwatched) => {
                    let message = format!("cannot wait for a connection: {}", unwatched.error);
                    self.complaints.warn(self.service.clock.ms, &message);
                    self.pipeline.close(unwatched.traveller, &mut self.service, true);
                }
            }
        } else {
            self.wakeup().handed_on();
            let traveller = Traveller::new(conversation, lane, Some(self.number), self.service.clock.ns);
            self.batches[usize::from(lane)].push_back(Box::new(traveller));
        }
    }

    /// Hands on what it has accepted, and waits while the queues have no room.
    fn hand_on(&mut self) {
        let counters = self.service.counters;
        for (lane, batch) in self.pipeline.lanes.iter().zip(&mut self.batches) {
            if batch.is_empty() {
                continue;
            }
            counters.stage_batch(Stage::Accept, batch.len() as u64, 0);
            let has_waited = lane.reads.give(batch, self.service.clock.ns);
            counters.stage_blocked[Stage::Accept as usize].add(has_waited.into());
        }
    }

    /// Waits until all connections that it handed on have had their first turn, and the poll stages have
    /// handed on all connections with events. So no new connection comes in ahead of them.
    fn await_stages(&self) {
        self.await_until(|| self.wakeup().ahead() == 0);
        for poll in [&self.pipeline.read_poll, &self.pipeline.write_poll] {
            if let Some(pass) = poll.pass_to_come() {
                self.await_until(|| poll.has_made(pass));
            }
        }
    }

    /// Waits until the condition holds, the supervisor calls, or the pipeline ends.
    fn await_until(&self, is_so: impl Fn() -> bool) {
        let is_over = || self.pipeline.is_over.load(Ordering::Acquire);
        let is_called = || self.pipeline.control.phase() != self.has_heard;
        while !is_so() && !is_over() && !is_called() {
            thread::park();
        }
    }

    /// Passes the result of the turn to the accept policy, and publishes the policy's state.
    fn turn_ends(&mut self, accepted: u32) {
        if !self.policy.is_adaptive() {
            return;
        }
        let now_ns = sys::clock::monotonic_ns();
        let done = self.pipeline.connections_worked_on();
        let (began_ns, done_before) = std::mem::replace(&mut self.turn_began, (now_ns, done));
        let turn = Turn {
            busy_ns: now_ns.saturating_sub(began_ns),
            accepted,
            worked: done.wrapping_sub(done_before).min(u32::MAX.into()) as u32,
            left: self.pipeline.left_over() as u32,
            emptied: !self.ports.iter().any(|port| port.pending),
        };
        self.policy.turned(now_ns, &turn);
        self.see_cost(&turn);
        if let Some(state) = self.policy.news(now_ns) {
            state.publish(self.service.counters);
        }
    }

    /// Passes the cost of a connection to the accept policy from time to time.
    fn see_cost(&mut self, turn: &Turn) {
        self.costing.accepted += turn.accepted;
        self.costing.worked += turn.worked;
        if !self.policy.cost_is_due(self.service.clock.ns) {
            return;
        }
        let cpu_ns = sys::clock::process_cpu_ns();
        let since = std::mem::replace(&mut self.costing, Costing { cpu_ns, accepted: 0, worked: 0 });
        // A reader and a writer each work on every connection.
        let (accepted, worked) = (since.accepted, since.worked / 2);
        let useful_ns = cpu_ns.saturating_sub(since.cpu_ns);
        let overhead_ns = useful_ns.checked_div(worked.into()).unwrap_or(0) / TURNS_FOR_A_CONNECTION;
        self.policy.cost_seen(Cost { overhead_ns, events: 0, useful_ns, accepted, worked });
    }

    /// Waits until clients arrive, there is room for waiting clients, or another thread wakes this one.
    fn await_clients(&mut self) -> io::Result<()> {
        let now = self.service.clock.tick;
        let pending = self.ports.iter().any(|port| port.pending);
        let ending = self.ports.iter().any(|port| port.handle.is_retiring());
        let paused = self.gate.paused_until().map(|until| until.remaining(now).max(1) * Tick::MS);
        let paused = paused.or_else(|| self.held_ms());
        let is_full = paused.is_some() || self.pipeline.is_crowded.load(Ordering::Acquire);
        if pending && !is_full && !ending {
            return Ok(());
        }
        let began_ns = sys::clock::monotonic_ns();
        let mut timeout = ending.then_some(ENDING_MS);
        let is_called = if pending && is_full {
            // The accept queues are not empty, so waiting for the listeners would return at once.
            timeout = timeout.or(paused).or(Some(PRESSURE_MS));
            let [told] = poll::wait_for([(self.wakeup().as_fd(), Interest::READABLE)], timeout)?;
            told.readable
        } else {
            self.epoll.wait(&mut self.events, timeout)?;
            self.ports.iter_mut().for_each(|port| port.pending = true);
            self.events.iter().any(|event| event.token == WAKE)
        };
        if is_called {
            self.wakeup().clear();
            self.ports.iter_mut().for_each(|port| port.pending = true);
        }
        self.service.counters.event_waits.add(1);
        let ended_ns = sys::clock::monotonic_ns();
        let idle_ns = ended_ns.saturating_sub(began_ns);
        self.service.counters.stage_idle_ns[Stage::Accept as usize].add(idle_ns);
        if self.pipeline.left_over() == 0 {
            // Not part of the turn.
            self.turn_began.0 = self.turn_began.0.saturating_add(idle_ns);
        }
        Ok(())
    }

    /// Samples how many connections wait to be accepted.
    fn sample_queue(&mut self) -> Option<()> {
        let pending = self.ports.iter().filter(|port| port.pending).map(|port| &port.handle);
        sample_queue(pending, &mut self.policy, self.service.counters)
    }

    /// Does what the supervisor requests.
    fn heed_supervisor(&mut self) {
        let phase = self.pipeline.control.phase();
        if std::mem::replace(&mut self.has_heard, phase) == phase {
            return;
        }
        match phase {
            Phase::Run | Phase::Stop => {}
            Phase::Retire => {
                // The kernel may have woken only this process for connections that came before. For those
                // that find no room here, the supervisor wakes other processes once more.
                self.ports.iter_mut().for_each(|port| port.pending = true);
                self.accept_phase();
                self.close_ports(|_, _| true);
            }
            Phase::Drain => {
                let now = self.service.clock.tick;
                self.ports.iter_mut().for_each(|port| port.handle.drain(now, &self.pipeline.control));
            }
        }
    }

    fn close_ports(&mut self, are_over: impl Fn(&mut Port, Tick) -> bool) {
        let now = self.service.clock.tick;
        while let Some(at) = self.ports.iter_mut().position(|port| are_over(port, now)) {
            let port = self.ports.swap_remove(at);
            // Other processes have the same socket open, so closing it here would not end its registration.
            // Removing a registered socket cannot fail.
            let _ = self.epoll.remove(&*port.handle.listener);
            self.pipeline.shut(port.handle, port.number, &self.service);
        }
    }

    /// Closes a connection that has been idle for a while, if one is found quickly.
    fn close_an_idle_one(&mut self) -> bool {
        let now = self.service.clock.tick;
        for _ in 0..self.pipeline.lanes.len() {
            let lane = self.next_lane_in_turn();
            let mut waiting = lane.waiting.lock();
            for _ in 0..LOOKS.min(waiting.places()) {
                let index = self.next_in_turn(waiting.places());
                let closes = waiting
                    .at(index)
                    .is_some_and(|one| one.conversation.has_idled(now) && one.conversation.close_if_idle());
                if closes && let Some(mut traveller) = waiting.take_at(index) {
                    drop(waiting);
                    // The client has its reply, so the server does not wait for the client to close.
                    traveller.gives_way = true;
                    self.make_way(lane, traveller);
                    return true;
                }
            }
        }
        false
    }

    /// Ends as many of the connections that wait for their sockets as there are clients to accept. A client
    /// that is too slow must leave now; any other connection ends with its next reply.
    fn give_turns(&mut self) {
        let now = self.service.clock.tick;
        let mut outside = self.count_outside();
        for _ in 0..self.pipeline.lanes.len() {
            let lane = self.next_lane_in_turn();
            let places = lane.waiting.lock().places();
            for _ in 0..places {
                if outside == 0 {
                    return;
                }
                let index = self.next_in_turn(places);
                let mut waiting = lane.waiting.lock();
                let Some(one) = waiting.at(index) else { continue };
                if one.conversation.is_too_slow(&self.service.limits, now) {
                    Pipeline::ask_to_leave(one);
                    let Some(traveller) = waiting.take_at(index) else { continue };
                    drop(waiting);
                    self.make_way(lane, traveller);
                } else if !one.conversation.machine().drain() {
                    continue;
                }
                outside -= 1;
            }
        }
    }

    /// Hands a connection that was waiting to the Read stage, which ends it. This needs no room in the
    /// queue: the connection had a slot in the pipeline before.
    fn make_way(&mut self, lane: &Lane, mut traveller: Boxed) {
        self.service.counters.connections_closed_under_pressure.add(1);
        let now_ns = self.service.clock.ns;
        traveller.passes(now_ns);
        match traveller.reader {
            Some(reader) => lane.reads.give_to(reader.into(), traveller, now_ns),
            None => lane.reads.give_back(&mut vec![traveller], now_ns),
        }
    }

    fn next_lane_in_turn(&mut self) -> &'p Lane {
        self.lane_in_turn = (self.lane_in_turn + 1) % self.pipeline.lanes.len();
        &self.pipeline.lanes[self.lane_in_turn]
    }

    /// The next slot of that lane.
    fn next_in_turn(&mut self, places: u32) -> u32 {
        let hand = &mut self.hands[self.lane_in_turn];
        *hand = (*hand + 1) % places;
        *hand
    }

    /// How many clients wait to be accepted. For Unix sockets the kernel reports only whether there are
    /// any. That counts as a quarter of the open connections.
    fn count_outside(&self) -> u32 {
        let some = self.pipeline.open.load(Ordering::Acquire).div_ceil(4);
        let outside = |port: &Port| match tcp_info::accept_queue(&*port.handle.listener) {
            Ok(queue) => queue.length,
            Err(_) if port.handle.listener.has_queue() => some,
            Err(_) => 0,
        };
        self.ports.iter().filter(|port| port.pending).map(outside).fold(0, u32::saturating_add)
    }
}
