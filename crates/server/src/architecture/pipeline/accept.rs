//! The Accept stage: a thread for each address takes connections out of its accept queue, and hands them to
//! the Read stages of the lanes in turn, or of the lane that the address belongs to.
//!
//! The accept limit bounds how many of those that an acceptor has brought in are ahead of it: have not had
//! their first turn, through Read and Write. With so many it waits until all have had it, and the poll stages
//! have handed on those whom there is news of. (That readers have begun with the new ones is not enough:
//! reading is cheap, and a thousand would wait to be written to. Nor is it that these alone are served: they
//! need no poll stage, which would get the CPU when its time slice comes, while all who came before wait.)
//! Without a limit it waits for nothing but room in the queues.
//!
//! `auto` steers by turns. Here one lasts from one such wait to the next, less what the acceptor slept while
//! the stages had nothing to do; worked on is what readers and writers took of their queues meanwhile, and
//! left over what is in these. So the ceiling is what the whole pipeline gets done within the target. Nobody
//! can see what it costs to turn around, as threads wake each other; it goes with what serving costs. Each
//! acceptor has a limit of its own; what the others have brought in and nobody has worked on yet is left over
//! for it, too.
//!
//! If there is a response target, each new connection takes a [token](super::tokens) as well. An acceptor
//! that finds none leaves its clients where they are, and sleeps until there is one; that is no part of a
//! turn. A drain takes everybody in.

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
use super::bells::AcceptorBell;
use super::lane::Lane;
use super::traveller::{Boxed, Traveller};
use crate::accept::{AcceptPolicy, Cost, Gate, Turn};
use crate::architecture::common::doors::{Accepted, Door};
use crate::architecture::common::samples::{sample_queue, sample_wait};
use crate::channel::{Client, Plain};
use crate::config::Settings;
use crate::control::Phase;
use crate::counters::Stage;
use crate::error_log::Limited;
use crate::service::Service;

/// A listener of an acceptor's.
struct Port {
    door: Door,
    /// Its number among all of the pipeline.
    number: usize,
    /// The lane that it belongs to, if it belongs to one.
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
    /// What it hands on next, to each lane.
    batches: Box<[VecDeque<Boxed>]>,
    work_phase_skips_new: bool,
    has_heard: Phase,
    /// Where the search for somebody to make room goes on: the lane, and the place in each.
    lane_in_turn: usize,
    hands: Box<[u32]>,
    /// When places were last given by turns.
    turns_given: Tick,
    /// When the turn under way began, and how much the others had done by then.
    turn_began: (u64, u64),
    /// What has come of turns since the accept policy last heard of their cost.
    costing: Costing,
    complaints: Limited,
}

/// The CPU time of the process when something began, and what came of that.
#[derive(Clone, Copy, Debug, Default)]
struct Costing {
    cpu_ns: u64,
    accepted: u32,
    worked: u32,
}

/// So many turns are taken to cost what serving a connection once does: a turn wakes four threads one after
/// the other. While it woke three, a connection took 39 to 43 us with a limit of 1, and 25 to 32 with one of
/// 10. What follows from it has been above any fixed limit since (docs/architectures.md).
const TURNS_FOR_A_CONNECTION: u64 = 2;

const LISTENERS: u64 = 0;
const WAKE: u64 = 1;

/// How often it is looked whether somebody makes room for those who wait.
const PRESSURE_MS: u32 = 100;
/// How often an acceptor whose listeners retire looks how far that is.
const ENDING_MS: u32 = 10;
/// How often places are given by turns where there are too few.
const TURN_TICKS: u32 = 500 / Tick::MS;
/// How many connections are looked at for one that is idle.
const LOOKS: u32 = 64;

impl<'p> Acceptor<'p> {
    /// The acceptor of that number, which has these listeners, each with its number and its lane.
    ///
    /// # Errors
    ///
    /// The kernel gives no epoll.
    pub(super) fn new(
        pipeline: &'p Pipeline,
        number: u16,
        service: Service,
        doors: Vec<(Door, usize, Option<u16>)>,
        settings: &Settings,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(&pipeline.acceptors[usize::from(number)], WAKE, Interest::READABLE)?;
        for (door, ..) in &doors {
            epoll.add(&*door.listener, LISTENERS, Interest::READABLE)?;
        }
        let port = |(door, number, lane)| Port { door, number, lane, pending: true };
        let policy = AcceptPolicy::new(settings.event.accept_limit);
        policy.state().publish(service.counters);
        service.counters.stage_threads[Stage::Accept as usize].set(1);
        Ok(Self {
            turns_given: service.clock.tick,
            turn_began: (service.clock.ns, 0),
            pipeline,
            number,
            service,
            ports: doors.into_iter().map(port).collect(),
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
    /// Waiting does not work any more.
    pub(super) fn run(mut self) -> io::Result<()> {
        self.bell().is_of_this_thread();
        self.pipeline.control.arrive_with_all();
        while !self.pipeline.is_over.load(Ordering::Acquire) {
            self.service.begin_turn();
            self.heed_supervisor();
            self.accept_phase();
            let control = &self.pipeline.control;
            self.close_ports(|port, now| port.door.is_over(now, control));
            if self.ports.is_empty() {
                break;
            }
            self.await_clients()?;
        }
        // Those who wait for its last listener have to hear that it is gone.
        self.pipeline.read_poll.wake();
        self.service.counters.stage_threads[Stage::Accept as usize].set(0);
        Ok(())
    }

    fn bell(&self) -> &'p AcceptorBell {
        &self.pipeline.acceptors[usize::from(self.number)]
    }

    /// One such phase: as many as the accept limit allows.
    fn accept_phase(&mut self) {
        for port in &mut self.ports {
            // Where it is to be closed, empty once does not mean empty at the end.
            port.pending |= port.door.is_retiring();
        }
        if !self.ports.iter().any(|port| port.pending) {
            return;
        }
        let mut sample = self.policy.sampling_is_due(self.service.clock.ns) && self.sample_queue().is_some();
        let limit = self.policy.budget().connections;
        let ahead = self.bell().ahead();
        let mut accepted = 0;
        for at in 0..self.ports.len() {
            while self.ports[at].pending && ahead + accepted < limit && self.has_room() {
                let Port { door, lane, .. } = &self.ports[at];
                let lane = *lane;
                match door.accept(&mut self.service, &mut self.gate, &mut self.complaints) {
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

    /// Takes a place for a new connection, making room at the expense of others if need be.
    fn has_room(&mut self) -> bool {
        if self.gate.room(0, self.service.clock.tick) == 0 || !self.is_admitted() {
            return false;
        }
        if self.pipeline.take_place() {
            return true;
        }
        self.pipeline.is_crowded.store(true, Ordering::SeqCst);
        // It may have been given up just before that.
        if self.pipeline.take_place() {
            return true;
        }
        self.pipeline.tokens.put_back();
        let now = self.service.clock.tick;
        // That may be longer ago than ticks can tell the order of.
        let since = now.0.wrapping_sub(self.turns_given.0);
        if !self.close_an_idle_one() && since >= TURN_TICKS {
            self.turns_given = now;
            self.give_turns();
        }
        false
    }

    /// Takes a token, but for clients that are the last.
    fn is_admitted(&self) -> bool {
        self.pipeline.tokens.take(self.service.clock.ns) || self.has_heard != Phase::Run
    }

    /// Milliseconds until there is a token, if there is none.
    fn held_ms(&self) -> Option<u32> {
        let ns = self.pipeline.tokens.next_in_ns(self.service.clock.ns);
        (ns > 0).then(|| ns.div_ceil(1_000_000) as u32)
    }

    /// Takes a new connection into service.
    fn open(&mut self, client: Client, lane: Option<u16>) {
        let lane = lane.unwrap_or_else(|| {
            self.next_lane = (self.next_lane + 1) % self.pipeline.lanes.len();
            self.next_lane as u16
        });
        let mut conversation = Plain::new(client, &self.service);
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
            self.bell().handed_on();
            let traveller = Traveller::new(conversation, lane, Some(self.number), self.service.clock.ns);
            self.batches[usize::from(lane)].push_back(Box::new(traveller));
        }
    }

    /// Hands on what it has accepted, and waits while there is no room for it.
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

    /// Waits until all that it has handed on have had their first turn, and the poll stages have handed on
    /// those whom there is news of: nobody comes in ahead of them.
    fn await_stages(&self) {
        self.await_until(|| self.bell().ahead() == 0);
        for poll in [&self.pipeline.read_poll, &self.pipeline.write_poll] {
            if let Some(pass) = poll.pass_to_come() {
                self.await_until(|| poll.has_made(pass));
            }
        }
    }

    /// Waits until that is so, the supervisor calls, or all is over.
    fn await_until(&self, is_so: impl Fn() -> bool) {
        let is_over = || self.pipeline.is_over.load(Ordering::Acquire);
        let is_called = || self.pipeline.control.phase() != self.has_heard;
        while !is_so() && !is_over() && !is_called() {
            thread::park();
        }
    }

    /// Tells the accept policy what came of the turn, and people what the policy makes of it.
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

    /// Tells the accept policy what a connection costs, now and then.
    fn see_cost(&mut self, turn: &Turn) {
        self.costing.accepted += turn.accepted;
        self.costing.worked += turn.worked;
        if !self.policy.cost_is_due(self.service.clock.ns) {
            return;
        }
        let cpu_ns = sys::clock::process_cpu_ns();
        let since = std::mem::replace(&mut self.costing, Costing { cpu_ns, accepted: 0, worked: 0 });
        // Each connection is worked on twice, by a reader and a writer.
        let (accepted, worked) = (since.accepted, since.worked / 2);
        let useful_ns = cpu_ns.saturating_sub(since.cpu_ns);
        let overhead_ns = useful_ns.checked_div(worked.into()).unwrap_or(0) / TURNS_FOR_A_CONNECTION;
        self.policy.cost_seen(Cost { overhead_ns, events: 0, useful_ns, accepted, worked });
    }

    /// Waits until clients come, there is room for those who wait, or somebody calls.
    fn await_clients(&mut self) -> io::Result<()> {
        let now = self.service.clock.tick;
        let pending = self.ports.iter().any(|port| port.pending);
        let ending = self.ports.iter().any(|port| port.door.is_retiring());
        let paused = self.gate.paused_until().map(|until| until.remaining(now).max(1) * Tick::MS);
        let paused = paused.or_else(|| self.held_ms());
        let is_full = paused.is_some() || self.pipeline.is_crowded.load(Ordering::Acquire);
        if pending && !is_full && !ending {
            return Ok(());
        }
        let began_ns = sys::clock::monotonic_ns();
        let mut patience = ending.then_some(ENDING_MS);
        let is_called = if pending && is_full {
            // The listeners are not empty: waiting for them would be none.
            patience = patience.or(paused).or(Some(PRESSURE_MS));
            let [told] = poll::wait_for([(self.bell().as_fd(), Interest::READABLE)], patience)?;
            told.readable
        } else {
            self.epoll.wait(&mut self.events, patience)?;
            self.ports.iter_mut().for_each(|port| port.pending = true);
            self.events.iter().any(|event| event.token == WAKE)
        };
        if is_called {
            self.bell().clear();
            self.ports.iter_mut().for_each(|port| port.pending = true);
        }
        self.service.counters.event_waits.add(1);
        let ended_ns = sys::clock::monotonic_ns();
        let idle_ns = ended_ns.saturating_sub(began_ns);
        self.service.counters.stage_idle_ns[Stage::Accept as usize].add(idle_ns);
        if self.pipeline.left_over() == 0 {
            // No part of the turn.
            self.turn_began.0 = self.turn_began.0.saturating_add(idle_ns);
        }
        Ok(())
    }

    /// Sees how many connections wait to be accepted.
    fn sample_queue(&mut self) -> Option<()> {
        let pending = self.ports.iter().filter(|port| port.pending).map(|port| &port.door);
        sample_queue(pending, &mut self.policy, self.service.counters)
    }

    /// Does what the supervisor wants.
    fn heed_supervisor(&mut self) {
        let phase = self.pipeline.control.phase();
        if std::mem::replace(&mut self.has_heard, phase) == phase {
            return;
        }
        match phase {
            Phase::Run | Phase::Stop => {}
            Phase::Retire => {
                // For what came before, it may have been this process alone that was woken. The supervisor
                // wakes others once more for what there is no room for.
                self.ports.iter_mut().for_each(|port| port.pending = true);
                self.accept_phase();
                self.close_ports(|_, _| true);
            }
            Phase::Drain => {
                let now = self.service.clock.tick;
                self.ports.iter_mut().for_each(|port| port.door.drain(now, &self.pipeline.control));
            }
        }
    }

    fn close_ports(&mut self, are_over: impl Fn(&mut Port, Tick) -> bool) {
        let now = self.service.clock.tick;
        while let Some(at) = self.ports.iter_mut().position(|port| are_over(port, now)) {
            let port = self.ports.swap_remove(at);
            // Others have the same socket open, so closing it here would not end its registration. Removing
            // what is registered cannot fail.
            let _ = self.epoll.remove(&*port.door.listener);
            self.pipeline.shut(port.door, port.number, &self.service);
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
                let closes = waiting.at(index).is_some_and(|one| {
                    one.conversation.has_idled(now) && one.conversation.machine().close_if_idle()
                });
                if closes && let Some(mut traveller) = waiting.take_at(index) {
                    drop(waiting);
                    // It has its reply: how it takes the end is not awaited.
                    traveller.gives_way = true;
                    self.make_way(lane, traveller);
                    return true;
                }
            }
        }
        false
    }

    /// Has as many leave as wait to be accepted, of those who wait for their sockets.
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
                if one.conversation.dawdles(&self.service.limits, now) {
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

    /// Has one end that was taken from those who wait. It needs no room in the queue: it had a place in the
    /// pipeline before.
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

    /// The next place of that lane.
    fn next_in_turn(&mut self, places: u32) -> u32 {
        let hand = &mut self.hands[self.lane_in_turn];
        *hand = (*hand + 1) % places;
        *hand
    }

    /// How many wait to be accepted. Of Unix sockets the kernel tells no more than whether anybody does: that
    /// counts as a quarter of the places.
    fn count_outside(&self) -> u32 {
        let some = self.pipeline.open.load(Ordering::Acquire).div_ceil(4);
        let outside = |port: &Port| match tcp_info::accept_queue(&*port.door.listener) {
            Ok(queue) => queue.length,
            Err(_) if port.door.listener.has_queue() => some,
            Err(_) => 0,
        };
        self.ports.iter().filter(|port| port.pending).map(outside).fold(0, u32::saturating_add)
    }
}
