//! A turn: receiving and sending by turns, until something would block or the share is used.

use http1::End;

use super::receive::Input;
use super::turn::{Next, Turn};
use super::{Conversation, Pause};
use crate::service::Service;

impl Conversation {
    /// Receives, answers and sends until the socket blocks, the conversation ends, or its share of the turn
    /// is used.
    pub fn work(&mut self, service: &mut Service) -> Turn {
        while self.is_held() {
            if let Some(turn) = self.attend_pause(service) {
                return turn;
            }
        }
        if self.is_announced
            && self.machine.wants_end() == End::Open
            && let Some(turn) = self.hear_announcement(service)
        {
            return turn;
        }
        let mut scratch = std::mem::take(&mut service.scratch);
        let mut input = Input::new(&mut scratch);
        let mut share = service.quantum;
        self.active = service.clock.tick;
        let mut resident = self.go_on(service);
        let turn = loop {
            if self.machine.is_replying() {
                if let Next::Turn(turn) = self.send_on(service, &mut share, resident.take()) {
                    break turn;
                }
                self.release(service);
                if self.awaits_event() {
                    break Turn::Blocked;
                }
            }
            if let Next::Turn(turn) = self.receive_on(service, &mut input, &mut share) {
                break turn;
            }
        };
        self.keep(service, &input);
        service.scratch = scratch;
        self.end_turn(service, turn)
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

    /// Leaves it to whoever comes next.
    pub(super) fn leave(&mut self, service: &mut Service, next: Next) -> Next {
        match next {
            Next::Turn(turn) => Next::Turn(self.end_turn(service, turn)),
            next => {
                self.carried_over |= self.machine.is_replying();
                next
            }
        }
    }

    #[inline]
    fn end_turn(&mut self, service: &mut Service, turn: Turn) -> Turn {
        self.carried_over |= self.machine.is_replying();
        if self.exchange.waiting.is_some() { self.begin_pause(service) } else { turn }
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
