//! A turn: receiving and sending by turns, until something would block or the share is used. Or one stage of
//! it, where others do the rest: all go through the same code, of which there is one copy, so that the
//! compiler joins its parts. (With a copy for each, a request takes 6% more instructions.)

use http1::End;

use super::receive::Input;
use super::turn::{Next, Turn};
use super::{Conversation, Pause};
use crate::service::Service;

/// What a turn is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stages {
    Both,
    Receiving,
    Sending,
}

impl Conversation {
    /// Receives, answers and sends until the socket blocks, the conversation ends, or its share of the turn
    /// is used.
    pub fn work(&mut self, service: &mut Service) -> Turn {
        match self.go_through(service, Stages::Both) {
            Next::Turn(turn) => turn,
            Next::Receive | Next::Send => Turn::Unfinished,
        }
    }

    /// The read stage: gives back what a finished reply held, and receives until there is a reply to be sent
    /// or nothing can be done without an event. Never sends.
    pub fn receive(&mut self, service: &mut Service) -> Next {
        self.go_through(service, Stages::Receiving)
    }

    /// The write stage: sends until the reply is over, the socket is full, or its share is used. Never
    /// receives, and gives back nothing: what a finished reply held is for [`conclude`](Self::conclude), or
    /// where the conversation is over, for [`end`](Self::end).
    pub fn send(&mut self, service: &mut Service) -> Next {
        // Planned a while ago.
        self.carried_over |= self.active != service.clock.tick;
        self.go_through(service, Stages::Sending)
    }

    /// Behind a reply that is over: gives back what it held, in a worker that has its open files in common
    /// with whoever planned it. Says whether there is anything to be received, an event to be awaited, or the
    /// connection to be closed.
    pub fn conclude(&mut self, service: &mut Service) -> Next {
        self.release(service);
        if self.awaits_event() {
            return self.blocked();
        }
        let ends = self.machine.wants_end() == End::Close && !self.may_have_more(!self.rest.is_empty());
        if ends { Next::Turn(Turn::Close) } else { Next::Receive }
    }

    fn go_through(&mut self, service: &mut Service, stages: Stages) -> Next {
        while self.is_held() {
            if let Some(turn) = self.attend_pause(service) {
                return Next::Turn(turn);
            }
        }
        if self.is_announced
            && stages != Stages::Sending
            && self.machine.wants_end() == End::Open
            && let Some(turn) = self.hear_announcement(service)
        {
            return Next::Turn(turn);
        }
        // What a reply waited for concerns whoever sends it.
        if self.exchange.waiting.is_some() && stages == Stages::Receiving && self.machine.is_replying() {
            return Next::Send;
        }
        let mut scratch = std::mem::take(&mut service.scratch);
        let mut input = Input::new(&mut scratch);
        let mut share = service.quantum;
        self.active = service.clock.tick;
        let mut resident = self.go_on(service);
        let next = loop {
            if self.machine.is_replying()
                && stages != Stages::Receiving
                && let Next::Turn(turn) = self.send_on(service, &mut share, resident.take())
            {
                break Next::Turn(turn);
            }
            if stages == Stages::Sending {
                break Next::Receive;
            }
            self.release(service);
            match self.receive_on(service, &mut input, &mut share) {
                Next::Send if stages == Stages::Both => {}
                next => break next,
            }
        };
        self.keep(service, &input);
        service.scratch = scratch;
        if self.exchange.waiting.is_some() && matches!(next, Next::Turn(_)) {
            return Next::Turn(self.begin_pause(service));
        }
        next
    }

    /// Whether something else than its client has to be seen to first.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        match self.exchange.waiting.as_deref() {
            None => false,
            Some(Pause::Disk(waiting)) => !waiting.is_over(),
            Some(Pause::Application(_)) => true,
        }
    }

    /// Sees to what holds it. `None`: it may go on.
    #[cold]
    pub(super) fn attend_pause(&mut self, service: &mut Service) -> Option<Turn> {
        if self.waits_for_disk().is_some() {
            return Some(self.keep_waiting(service));
        }
        self.attend_application(service)
    }

    /// Has begun what it came to wait for in this turn.
    #[cold]
    fn begin_pause(&mut self, service: &mut Service) -> Turn {
        match self.take_job() {
            Some(job) => Turn::Disk(Box::new(job)),
            // What comes of a pause that is over already is for the next turn.
            None => self.attend_pause(service).unwrap_or(Turn::Unfinished),
        }
    }
}
