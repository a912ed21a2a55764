//! The Read stage: readers receive requests and plan replies. They send to a client only what no other
//! thread can send: the reply to a request that an application answers, and a file that is in no table
//! ([`Conversation::is_bound`](crate::conversation::Conversation::is_bound)).
//!
//! Readers may wait for a disk to find a file. Then the connections behind them in the queue wait too,
//! unless the lane has another reader. Readers do not wait for a file's contents, except where they send it
//! themselves. If a small body is not in memory, they leave it to the writers, like a large one.
//! [Listings](super::listings) of directories come last.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http1::Tick;

use super::Pipeline;
use super::lane::{Lane, place, token};
use super::listings::Listings;
use super::queue::Taken;
use super::traveller::{Boxed, Errand, Traveller};
use crate::architecture::common::token::{Kind, Token};
use crate::content::MayBlock;
use crate::conversation::{Next, Turn};
use crate::counters::Stage;
use crate::error_log::Limited;
use crate::registration::Registration;
use crate::service::Service;

/// A thread of the stage.
pub(super) struct Reader<'p> {
    pipeline: &'p Pipeline,
    lane: &'p Lane,
    /// Its number in the lane.
    number: u16,
    service: Service,
    /// The results of a batch: connections whose replies are to be sent, and connections to be read from
    /// again.
    to_write: VecDeque<Boxed>,
    again: Vec<Boxed>,
    listings: Listings,
    /// This reader knows that the service is ending.
    has_closed: bool,
    complaints: Limited,
}

impl<'p> Reader<'p> {
    /// The reader of that number of a lane.
    pub(super) fn new(pipeline: &'p Pipeline, lane: usize, number: u16, mut service: Service) -> Self {
        service.may_block = MayBlock::ForNames;
        service.hears_hang_ups = true;
        let bytes = Traveller::BYTES + super::waiting::All::<Boxed>::BYTES_EACH;
        service.counters.connection_bytes.raise_to(bytes as u64);
        Self {
            pipeline,
            lane: &pipeline.lanes[lane],
            number,
            service,
            to_write: VecDeque::new(),
            again: Vec::new(),
            listings: Listings::default(),
            has_closed: false,
            complaints: Limited::default(),
        }
    }

    /// Reads until the pipeline is over.
    pub(super) fn run(mut self) {
        self.pipeline.control.arrive();
        let is_steered = self.pipeline.is_steered;
        self.service.counters.stage_threads[Stage::Read as usize].set((!is_steered).into());
        let mut batch = Vec::new();
        loop {
            let at_once = self.pipeline.at_once(Stage::Read);
            let who = (Stage::Read, self.number, at_once);
            let timeout = self.timeout();
            let taken = super::take(who, &self.lane.reads, timeout, &mut self.service, &mut batch);
            self.service.begin_turn();
            self.note(taken, batch.len());
            if taken.is_closed {
                break;
            }
            self.serve_batch(at_once, &mut batch);
        }
    }

    /// Reads as a part of Read Poll, from the connections in its list and from the queue.
    pub(super) fn take_part(&mut self, line: &mut VecDeque<Boxed>) {
        let mut batch = Vec::new();
        self.service.begin_turn();
        self.service.level(&self.lane.stock);
        for traveller in line.drain(..) {
            self.serve(traveller);
        }
        let taken = self.lane.reads.take(0, self.pipeline.batch(), Some(Duration::ZERO), &mut batch);
        self.note(taken, batch.len());
        self.serve_batch(self.pipeline.batch(), &mut batch);
    }

    /// Reads from the taken connections, and from as many more as make up a batch.
    fn serve_batch(&mut self, at_once: usize, batch: &mut Vec<Boxed>) {
        let mut done = batch.len();
        self.serve_all(batch);
        while done < self.pipeline.batch() && done > 0 {
            let more = self.lane.reads.take(self.number.into(), at_once, Some(Duration::ZERO), batch);
            // No other thread learns of a poke, or of room.
            self.note(more, batch.len());
            if batch.is_empty() {
                break;
            }
            done += batch.len();
            self.serve_all(batch);
        }
        self.batch_ends();
    }

    /// Handles what was taken besides connections.
    fn note(&mut self, taken: Taken, count: usize) {
        super::note(Stage::Read, taken, count, &self.service);
        if taken.has_room {
            self.pipeline.read_poll.wake();
        }
        if taken.is_poked {
            self.service.clear_wakeup();
            self.let_called_go();
        }
    }

    fn serve_all(&mut self, batch: &mut Vec<Boxed>) {
        self.service.level(&self.lane.stock);
        for traveller in batch.drain(..) {
            self.serve(traveller);
            if super::takes_long(&self.service) {
                self.service.begin_turn();
                self.hand_on();
            }
        }
    }

    /// Hands on the connections to be written to, and those to be read from again.
    fn hand_on(&mut self) {
        let now_ns = self.service.clock.ns;
        let has_waited = !self.to_write.is_empty() && self.lane.writes.give(&mut self.to_write, now_ns);
        self.service.counters.stage_blocked[Stage::Read as usize].add(has_waited.into());
        self.lane.reads.give_back(&mut self.again, now_ns);
    }

    /// Hands on the results of a batch, and tidies up.
    fn batch_ends(&mut self) {
        self.hand_on();
        if !self.listings.is_empty() {
            let mut again = Vec::new();
            self.listings.make_one(&mut self.service, &mut again);
            // What they have looked up is pinned for this reader, so only this reader can answer.
            for traveller in again {
                let now_ns = self.service.clock.ns;
                self.lane.reads.give_to(self.number.into(), traveller, now_ns);
            }
        }
        if self.service.has_chores() {
            self.see_to_links();
        }
        self.service.publish();
    }

    /// Receives from a connection, and plans its reply.
    fn serve(&mut self, mut traveller: Boxed) {
        if self.pipeline.closes.load(Ordering::Relaxed) {
            self.say_close(&mut traveller);
        }
        match std::mem::take(&mut traveller.errand) {
            Errand::GoOn => {}
            Errand::Expire => match traveller.conversation.expire(&mut self.service) {
                None => return self.settle(traveller, Turn::Blocked),
                Some(Next::Turn(turn)) => return self.settle(traveller, turn),
                Some(Next::Receive | Next::Send) => {}
            },
            Errand::GiveUp => traveller.conversation.give_up(&mut self.service),
        }
        if traveller.reader.is_none() {
            match traveller.conversation.receive(&mut self.service) {
                Next::Send if !traveller.conversation.is_bound() => {
                    return self.to_write.push_back(traveller);
                }
                Next::Receive | Next::Send => {}
                Next::Turn(turn) => return self.settle(traveller, turn),
            }
        }
        let turn = traveller.conversation.work(&mut self.service);
        self.settle(traveller, turn);
    }

    /// Handles a connection after its turn: waits for its socket, comes back to it, or ends it.
    fn settle(&mut self, mut traveller: Boxed, turn: Turn) {
        self.pipeline.had_a_turn(&mut traveller);
        traveller.reader = traveller.conversation.is_bound().then_some(self.number);
        match turn {
            Turn::Blocked if traveller.gives_way && traveller.conversation.machine().is_lingering() => {
                self.pipeline.close(traveller, &mut self.service, false);
            }
            Turn::Blocked => self.wait(traveller),
            Turn::Application => {
                let number = self.pipeline.number(&mut traveller);
                let name = token(Kind::Application, traveller.lane, number);
                traveller.conversation.name_queued(&mut self.service, name);
                self.wait(traveller);
            }
            Turn::Unfinished => self.come_back_to(traveller),
            Turn::Close => self.pipeline.close(traveller, &mut self.service, false),
            Turn::Disk(job) => {
                if let Some(traveller) = self.listings.put_off(traveller, *job) {
                    self.pipeline.close(traveller, &mut self.service, true);
                }
            }
            Turn::Reset => self.pipeline.close(traveller, &mut self.service, true),
        }
    }

    fn wait(&mut self, traveller: Boxed) {
        match self.pipeline.wait(traveller, self.service.clock.ns) {
            Ok(None) => {}
            Ok(Some(traveller)) => self.come_back_to(traveller),
            Err(unwatched) => {
                let message = format!("cannot wait for a connection: {}", unwatched.error);
                self.complaints.warn(self.service.clock.ms, &message);
                self.pipeline.close(unwatched.traveller, &mut self.service, true);
            }
        }
    }

    fn come_back_to(&mut self, traveller: Boxed) {
        match traveller.reader {
            Some(reader) => self.lane.reads.give_to(reader.into(), traveller, self.service.clock.ns),
            None => self.again.push(traveller),
        }
    }

    fn say_close(&mut self, traveller: &mut Traveller) {
        traveller.conversation.machine().drain();
        if !std::mem::replace(&mut self.has_closed, true) {
            // It does not keep connections to applications either. Other readers have their own.
            self.service.gateway.keep_none();
        }
    }

    /// Lets connections go on that need not wait in a queue any more. A connection that is
    /// already on its way to be read from checks for itself then.
    fn let_called_go(&mut self) {
        for token in self.service.called().into_iter().filter_map(Token::from_number) {
            let (_, number) = place(token);
            let traveller = self.lane.waiting.lock().take(number);
            if let Some(mut traveller) = traveller {
                traveller.passes(self.service.clock.ns);
                self.come_back_to(traveller);
            }
        }
    }

    /// Handles connections to applications that no request uses any more: stops watching those that it
    /// keeps, and closes the others. Also handles what this reader itself has released from a queue.
    #[cold]
    fn see_to_links(&mut self) {
        if self.service.do_chores() {
            self.let_called_go();
        }
        let (gateway, now) = (&mut self.service.gateway, self.service.clock.tick);
        while let Some((pool, mut link)) = gateway.take_resting() {
            if std::mem::take(&mut link.registration) != Registration::None {
                // Removing a registered socket cannot fail.
                let _ = self.pipeline.read_poll.epoll.remove(&link);
            }
            gateway.keep((pool, link), now);
        }
        // Closing a socket ends its registration.
        while gateway.take_retired().is_some() {}
    }

    /// How long the reader may wait for its queue.
    pub(super) fn timeout(&self) -> Option<Duration> {
        if !self.listings.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = self.service.clock.tick;
        let of_links = self.service.chores_are_due_at();
        let of_links = of_links.map(|at| u64::from(at.remaining(now).max(1) * Tick::MS));
        let of_log = self.service.logs.wait_at_most_ms(self.service.clock.ms);
        [of_links, of_log].into_iter().flatten().min().map(|ms| Duration::from_millis(ms.max(1)))
    }
}
