//! A turn: receiving and sending by turns, until something would block or the share is used. Or one stage of
//! it, where others do the rest: all go through the same code, of which there is one copy, so that the
//! compiler joins its parts. (With a copy for each, a request takes 6% more instructions.)

use std::os::fd::AsFd as _;

use super::Plain;
use crate::conversation::{Input, Next, Turn, Want};
use crate::line::Line;
use crate::service::Service;

/// What a turn is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stages {
    Both,
    Receiving,
    Sending,
}

impl Plain {
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
        self.conversation.begins_to_send(service);
        self.go_through(service, Stages::Sending)
    }

    /// Behind a reply that is over: gives back what it held, in a worker that has its open files in common
    /// with whoever planned it. Says whether there is anything to be received, an event to be awaited, or the
    /// connection to be closed.
    pub fn conclude(&mut self, service: &mut Service) -> Next {
        self.conversation.release(service);
        match self.conversation.wants(&Input::new(&mut []), || self.suspects_input()) {
            Want::Nothing => self.blocked(),
            Want::Input(wanted) if !wanted.is_behind() && !self.readable => self.blocked(),
            Want::Close => Next::Turn(Turn::Close),
            Want::Take(_) | Want::Input(_) | Want::ShutDown | Want::Reset => Next::Receive,
        }
    }

    fn go_through(&mut self, service: &mut Service, stages: Stages) -> Next {
        while self.conversation.is_held() {
            if let Some(turn) = self.attend_pause(service) {
                return Next::Turn(turn);
            }
        }
        // What a reply waited for concerns whoever sends it.
        if self.conversation.is_paused() && stages == Stages::Receiving && self.conversation.is_replying() {
            return Next::Send;
        }
        let mut scratch = std::mem::take(&mut service.scratch);
        let mut input = Input::new(&mut scratch);
        let mut share = service.quantum;
        self.conversation.begins_turn(service);
        let mut resident = None;
        if self.conversation.is_paused() {
            // Nobody has listened meanwhile.
            self.readable = true;
            resident = self.conversation.go_on(service, Line::plain(self.socket.as_fd(), self.blocks));
        }
        let next = loop {
            if self.conversation.is_replying()
                && stages != Stages::Receiving
                && let Next::Turn(turn) = self.send_on(service, &mut share, resident.take())
            {
                break Next::Turn(turn);
            }
            if stages == Stages::Sending {
                break Next::Receive;
            }
            self.conversation.release(service);
            match self.receive_on(service, &mut input, &mut share) {
                Next::Send if stages == Stages::Both => {}
                next => break next,
            }
        };
        self.conversation.keep(service, &input);
        service.scratch = scratch;
        if self.conversation.is_paused() && matches!(next, Next::Turn(_)) {
            return Next::Turn(self.begin_pause(service));
        }
        next
    }

    /// Sees to what holds it. `None`: it may go on.
    #[cold]
    fn attend_pause(&mut self, service: &mut Service) -> Option<Turn> {
        if self.conversation.waits_for_disk().is_some() {
            return Some(self.keep_waiting(service));
        }
        self.attend_application(service)
    }

    /// An event while it waits for the disk: only that the connection broke is of interest.
    fn keep_waiting(&mut self, service: &mut Service) -> Turn {
        if let Some(job) = self.conversation.take_job() {
            return Turn::Disk(Box::new(job));
        }
        if self.hung_up && self.line().is_broken() {
            self.conversation.breaks_off_wait(service);
            return Turn::Close;
        }
        Turn::Blocked
    }

    /// Has begun what it came to wait for in this turn.
    #[cold]
    fn begin_pause(&mut self, service: &mut Service) -> Turn {
        match self.conversation.take_job() {
            Some(job) => Turn::Disk(Box::new(job)),
            // What comes of a pause that is over already is for the next turn.
            None => self.attend_pause(service).unwrap_or(Turn::Unfinished),
        }
    }
}
