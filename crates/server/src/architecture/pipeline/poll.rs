//! The poll stages. Read Poll learns which clients have sent input, and which deadlines have passed. Write
//! Poll learns which clients have room to be written to. Each stage hands these connections on in batches,
//! one for each lane.
//!
//! If there are four stages, Read Poll also reads, and Write Poll alternates with the writers. It hands
//! them the connections that can be written to. It polls again when the writers have finished all of them
//! (Pariag et al. 2007, section 4.3).
//!
//! Read Poll also receives the supervisor's requests, brings the service to its end, and runs the
//! [controllers](super::control).

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http1::Tick;
use sys::event::{Events, Interest};
use sys::poll;

use super::Pipeline;
use super::control::Controllers;
use super::ending::Keeper;
use super::lane::{Lane, Unwatched, place};
use super::read::Reader;
use super::traveller::{Boxed, Errand};
use super::waiting::Told;
use super::wakeups::{AcceptorWakeup, Poll};
use super::yielding::Yielding;
use crate::architecture::common::token::{Kind, Token};
use crate::counters::Stage;
use crate::error_log::Limited;
use crate::service::Service;

/// A running poll stage.
pub(super) struct PollStage<'p> {
    pipeline: &'p Pipeline,
    service: Service,
    stage: Stage,
    events: Events,
    /// Connections that go on, for each lane. They stay here while the next stage has no room.
    lines: Box<[VecDeque<Boxed>]>,
    /// Only in Read Poll.
    keeper: Option<Keeper>,
    controllers: Option<Controllers<'p>>,
    /// Only in Read Poll, if it also reads.
    reader: Option<Reader<'p>>,
    /// Only in Write Poll, if it alternates with the writers.
    takes_turns: bool,
    yielding: Yielding,
    complaints: Limited,
}

impl<'p> PollStage<'p> {
    /// Read Poll, with the controllers if there are any, and with a reader if it also reads.
    pub(super) fn read(
        pipeline: &'p Pipeline,
        service: Service,
        keeper: Keeper,
        controllers: Option<Controllers<'p>>,
        reader: Option<Reader<'p>>,
    ) -> Self {
        service.counters.stage_batch_limit.set(pipeline.batch() as u64);
        Self { keeper: Some(keeper), controllers, reader, ..Self::new(pipeline, service, Stage::ReadPoll) }
    }

    /// Write Poll, which may alternate with the writers.
    pub(super) fn write(pipeline: &'p Pipeline, service: Service, takes_turns: bool) -> Self {
        Self { takes_turns, ..Self::new(pipeline, service, Stage::WritePoll) }
    }

    fn new(pipeline: &'p Pipeline, service: Service, stage: Stage) -> Self {
        let lines = pipeline.lanes.iter().map(|_| VecDeque::new()).collect();
        let events = Events::with_capacity(Events::DEFAULT_CAPACITY);
        Self {
            pipeline,
            service,
            stage,
            events,
            lines,
            keeper: None,
            controllers: None,
            reader: None,
            takes_turns: false,
            yielding: Yielding::default(),
            complaints: Limited::default(),
        }
    }

    /// Polls until the pipeline is over.
    ///
    /// # Errors
    ///
    /// The event mechanism stops working.
    pub(super) fn run(mut self) -> io::Result<()> {
        self.service.counters.stage_threads[self.stage as usize].set(1);
        self.pipeline.control.arrive();
        while !self.pipeline.is_over.load(Ordering::Acquire) {
            let wait_ms = self.wait_at_most_ms();
            let began_ns = sys::clock::monotonic_ns();
            let count = self.poll().epoll.wait(&mut self.events, wait_ms)?;
            self.service.begin_turn();
            let counters = self.service.counters;
            counters.event_waits.add(1);
            if let Some(controllers) = &mut self.controllers {
                // Before this turn adds to the queues. What they hold now has waited for the stages.
                controllers.look(self.pipeline, self.service.clock.ns, counters);
            }
            counters.stage_idle_ns[self.stage as usize].add(self.service.clock.ns.saturating_sub(began_ns));
            let told = self.hear(count);
            let expired = self.stage == Stage::ReadPoll && self.expire();
            self.hand_on();
            if self.poll().pass_ends() {
                self.pipeline.acceptors.iter().for_each(AcceptorWakeup::stages_have_passed);
            }
            if told > 0 {
                counters.stage_batch(self.stage, told, 0);
                self.yielding.yield_now();
            }
            if let Some(keeper) = &mut self.keeper {
                keeper.see_to_the_end(self.pipeline, &self.service, told > 0 || expired, &mut self.lines);
                self.hand_on();
            }
        }
        Ok(())
    }

    fn poll(&self) -> &'p Poll {
        if self.stage == Stage::ReadPoll { &self.pipeline.read_poll } else { &self.pipeline.write_poll }
    }

    /// Queues the connections that have events, and returns how many there are.
    fn hear(&mut self, count: usize) -> u64 {
        let (mut all, mut lane) = (None, usize::MAX);
        let mut told_of = 0;
        for at in 0..count {
            let Some(event) = self.events.get(at) else { break };
            let Some(token) = Token::from_number(event.token) else { continue };
            let told = (event.readable, event.writable, event.hang_up || event.error);
            let told = match token.kind {
                Kind::Client => Told { client: told, ..Told::default() },
                Kind::Application => Told { link: told, ..Told::default() },
                Kind::Wakeup => {
                    let (lane, reader) = self.pipeline.reader_at(token.index as usize);
                    self.pipeline.lanes[lane].reads.poke(reader);
                    continue;
                }
                Kind::Supervisor => {
                    // Releases the lock, because the supervisor's census counts the waiting connections.
                    (all, lane) = (None, usize::MAX);
                    if let Some(keeper) = &mut self.keeper {
                        keeper.heed_supervisor(self.pipeline, &self.service);
                    }
                    continue;
                }
                Kind::Helpers => {
                    self.poll().clear();
                    continue;
                }
                Kind::Listener => continue,
            };
            let (of, number) = place(token);
            if of != lane {
                drop(all.take());
                all = Some(self.pipeline.lanes[of].waiting.lock());
                lane = of;
            }
            let Some(mut traveller) = all.as_mut().and_then(|all| all.tell(number, told)) else { continue };
            traveller.note(told);
            told_of += 1;
            self.pipeline.line_up(traveller, self.service.clock.ns, &mut self.lines[of]);
        }
        told_of
    }

    /// Queues the connections whose deadlines have passed; returns whether there are any.
    fn expire(&mut self) -> bool {
        let (now, mut some) = (self.service.clock.tick, false);
        for (lane, line) in self.pipeline.lanes.iter().zip(&mut self.lines) {
            let mut waiting = lane.waiting.lock();
            while let Some(mut traveller) =
                waiting.expired(now, |traveller| traveller.conversation.deadline())
            {
                traveller.errand = Errand::Expire;
                self.pipeline.line_up(traveller, self.service.clock.ns, line);
                some = true;
            }
        }
        some
    }

    /// Hands on as many connections as there is room for, or does the next step itself.
    fn hand_on(&mut self) {
        if let Some(reader) = &mut self.reader {
            return reader.take_part(&mut self.lines[0]);
        }
        if self.takes_turns {
            return self.have_writers_turn();
        }
        let now_ns = self.service.clock.ns;
        for (lane, line) in self.pipeline.lanes.iter().zip(&mut self.lines) {
            if line.is_empty() {
                continue;
            }
            let queue = if self.stage == Stage::ReadPoll { &lane.reads } else { &lane.writes };
            queue.offer(line, now_ns);
            if !line.is_empty() {
                self.service.counters.stage_blocked[self.stage as usize].add(1);
            }
        }
    }

    /// Makes the writers write to all connections that can be written to, and waits for the writers. These
    /// are connections with events, and connections whose sockets have not been found full.
    fn have_writers_turn(&mut self) {
        let (lane, ready) = (&self.pipeline.lanes[0], &mut self.lines[0]);
        let mut planned = Vec::new();
        lane.writes.take(0, self.pipeline.batch(), Some(Duration::ZERO), &mut planned);
        for traveller in planned {
            let (_, needs_room) = traveller.conversation.waits_for();
            if !needs_room {
                ready.push_back(traveller);
                continue;
            }
            match self.pipeline.wait(traveller, self.service.clock.ns) {
                Ok(None) => {}
                Ok(Some(traveller)) => ready.push_back(traveller),
                // Readers close connections that cannot go on.
                Err(Unwatched { traveller, error }) => {
                    let message = format!("cannot wait for a connection: {error}");
                    self.complaints.warn(self.service.clock.ms, &message);
                    lane.reads.give_back(&mut vec![traveller], self.service.clock.ns);
                }
            }
        }
        if ready.is_empty() {
            return;
        }
        lane.in_turn.store(ready.len(), Ordering::Release);
        lane.turn.give(ready, self.service.clock.ns);
        let poll = &self.pipeline.write_poll;
        while lane.in_turn.load(Ordering::Acquire) > 0 && !self.pipeline.is_over.load(Ordering::Acquire) {
            // Other wake-ups are handled when the writers have finished.
            if poll::wait_for([(poll.as_fd(), Interest::READABLE)], None).is_ok() {
                poll.clear();
            }
        }
    }

    /// How long the stage may wait for events.
    fn wait_at_most_ms(&mut self) -> Option<u32> {
        if self.takes_turns && !self.pipeline.lanes[0].writes.may_sleep() {
            return Some(0);
        }
        let keeper = self.keeper.as_ref()?;
        let now = self.service.clock.tick;
        let look = |lane: &Lane| lane.waiting.lock().ticks_to_look(now);
        let timers = self.pipeline.lanes.iter().filter_map(look).min();
        let ticks = if keeper.is_ending() { Some(timers.map_or(1, |ticks| ticks.min(1))) } else { timers };
        let ms = ticks.map(|ticks| ticks.saturating_mul(Tick::MS));
        let due = self.controllers.as_ref().map(|all| all.due_in_ms(sys::clock::monotonic_ns()));
        let ms = ms.into_iter().chain(due).min();
        let Some(reader) = &self.reader else { return ms };
        if !self.pipeline.lanes[0].reads.may_sleep() {
            return Some(0);
        }
        let timeout = reader.timeout().map(|timeout| timeout.as_millis() as u32);
        [ms, timeout].into_iter().flatten().min()
    }
}

/// Watches the wake-up that reports on what a worker had waiting in a queue.
pub(super) fn watch_wakeup(poll: &Poll, service: &Service, reader: usize) -> io::Result<()> {
    let Some(wakeup) = service.wakeup() else { return Ok(()) };
    let token = Token { kind: Kind::Wakeup, generation: 0, index: reader as u32 };
    poll.epoll.add(wakeup.as_fd(), token.number(), Interest::READABLE.on_edge())
}
