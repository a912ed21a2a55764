//! The Write stage: writers send replies and close connections that end with their reply. They never
//! receive. A writer may have to wait for the disk, or for a client if sends block. Meanwhile the other
//! writers of its lane take from the queue.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Pipeline;
use super::lane::Lane;
use super::queue::{Queue, Taken};
use super::traveller::{Boxed, Errand, Traveller};
use crate::conversation::{Next, Turn};
use crate::counters::{InTime, Stage};
use crate::service::Service;

/// A thread of the stage.
pub(super) struct Writer<'p> {
    pipeline: &'p Pipeline,
    lane: &'p Lane,
    queue: &'p Queue<Boxed>,
    /// Its number in the lane.
    number: u16,
    service: Service,
    /// The results of a batch: connections to be written to again, and connections to be read from.
    again: Vec<Boxed>,
    to_read: Vec<Boxed>,
    /// How many connections it has worked on since it last handed something on.
    done: usize,
}

impl<'p> Writer<'p> {
    /// The writer of that number of a lane.
    pub(super) fn new(pipeline: &'p Pipeline, lane: usize, number: u16, service: Service) -> Self {
        service.counters.stage_threads[Stage::Write as usize].set((!pipeline.is_steered).into());
        let lane = &pipeline.lanes[lane];
        let queue = if pipeline.takes_turns { &lane.turn } else { &lane.writes };
        Self { pipeline, lane, queue, number, service, again: Vec::new(), to_read: Vec::new(), done: 0 }
    }

    /// Writes until the pipeline is over.
    pub(super) fn run(mut self) {
        self.pipeline.control.arrive();
        let mut batch = Vec::new();
        loop {
            let at_once = self.pipeline.at_once(Stage::Write);
            let timeout = self.service.logs.wait_at_most_ms(self.service.clock.ms);
            let timeout = timeout.map(|ms| Duration::from_millis(ms.max(1)));
            let who = (Stage::Write, self.number, at_once);
            let taken = super::take(who, self.queue, timeout, &mut self.service, &mut batch);
            self.service.begin_turn();
            self.note(taken, batch.len());
            if taken.is_closed {
                break;
            }
            let mut done = batch.len();
            self.serve_all(&mut batch);
            while done < self.pipeline.batch() && done > 0 {
                let more = self.queue.take(self.number.into(), at_once, Some(Duration::ZERO), &mut batch);
                // No other thread learns of room.
                self.note(more, batch.len());
                if batch.is_empty() {
                    break;
                }
                done += batch.len();
                self.serve_all(&mut batch);
            }
            self.hand_on();
            self.service.level(&self.lane.stock);
        }
    }

    fn note(&mut self, taken: Taken, count: usize) {
        super::note(Stage::Write, taken, count, &self.service);
        if taken.has_room {
            self.pipeline.write_poll.wake();
        }
    }

    fn serve_all(&mut self, batch: &mut Vec<Boxed>) {
        for traveller in batch.drain(..) {
            self.serve(traveller);
            self.done += 1;
            if super::takes_long(&self.service) {
                self.service.begin_turn();
                self.hand_on();
            }
        }
    }

    /// Hands on what has been done.
    fn hand_on(&mut self) {
        let now_ns = self.service.clock.ns;
        self.lane.reads.give_back(&mut self.to_read, now_ns);
        self.lane.writes.give_back(&mut self.again, now_ns);
        let done = std::mem::take(&mut self.done);
        if self.pipeline.takes_turns && self.lane.in_turn.fetch_sub(done, Ordering::AcqRel) == done {
            self.pipeline.write_poll.wake();
        }
    }

    /// Sends what there is room for.
    fn serve(&mut self, mut traveller: Boxed) {
        self.pipeline.had_a_turn(&mut traveller);
        let next = match traveller.conversation.send(&mut self.service) {
            Next::Receive => traveller.conversation.conclude(&mut self.service),
            next => next,
        };
        if !traveller.conversation.machine().is_replying() {
            self.reply_ends(&mut traveller);
        }
        match next {
            Next::Turn(Turn::Blocked) => match self.pipeline.wait(traveller, self.service.clock.ns) {
                Ok(None) => {}
                Ok(Some(traveller)) => self.come_back_to(traveller),
                // Readers close connections that cannot go on, and log why.
                Err(unwatched) => self.to_read.push(unwatched.traveller),
            },
            Next::Send | Next::Turn(Turn::Unfinished) => {
                let deadline = traveller.conversation.deadline();
                if deadline.is_some_and(|at| at.reached(self.service.clock.tick)) {
                    traveller.errand = Errand::Expire;
                    return self.to_read.push(traveller);
                }
                self.again.push(traveller);
            }
            // Connections that only readers may end do not come here.
            Next::Turn(Turn::Close) => self.pipeline.close(traveller, &mut self.service, false),
            Next::Turn(Turn::Reset) => self.pipeline.close(traveller, &mut self.service, true),
            Next::Receive | Next::Turn(Turn::Application | Turn::Disk(_)) => self.to_read.push(traveller),
        }
    }

    /// A reply has been sent. The time of the next one begins.
    fn reply_ends(&mut self, traveller: &mut Traveller) {
        let began_ns = std::mem::replace(&mut traveller.time_ns, self.service.clock.ns);
        if let Some(target_ns) = self.pipeline.target_ns {
            let is_late = sys::clock::monotonic_ns().saturating_sub(began_ns) > target_ns;
            let time = if is_late { InTime::Late } else { InTime::Timely };
            self.service.counters.admission_replies[time as usize].add(1);
        }
    }

    fn come_back_to(&mut self, mut traveller: Boxed) {
        if traveller.conversation.machine().is_replying() {
            self.again.push(traveller);
        } else {
            self.to_read.push(traveller);
        }
    }
}
