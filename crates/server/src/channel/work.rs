//! A turn: receiving and sending alternately, until something would block or the quantum is used up. A
//! turn may also be only one of these stages, when other threads do the rest. All go through the same
//! code, of which there is one copy, so that the compiler joins its parts. With one copy for each, a
//! request takes 6% more instructions.

use std::os::fd::AsFd as _;

use super::Channel;
use crate::conversation::{Input, Next, Turn, WaitedFor, Want};
use crate::line::Line;
use crate::service::Service;

/// The stages of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stages {
    Both,
    Receiving,
    Sending,
}

impl Channel {
    /// Receives, answers and sends until the socket blocks, the conversation ends, or its quantum is used
    /// up.
    pub fn work(&mut self, service: &mut Service) -> Turn {
        match self.go_through(service, Stages::Both) {
            Next::Turn(turn) => turn,
            Next::Receive | Next::Send => Turn::Unfinished,
        }
    }

    /// The read stage: gives back what a finished reply held. Then it receives until there is a reply to
    /// send, or nothing can be done without an event. It never sends.
    pub fn receive(&mut self, service: &mut Service) -> Next {
        self.go_through(service, Stages::Receiving)
    }

    /// The write stage: sends until the reply is over, the socket is full, or its quantum is used up. It
    /// never receives, and gives nothing back. What a finished reply held is for
    /// [`conclude`](Self::conclude). If the conversation is over, it is for [`end`](Self::end).
    pub fn send(&mut self, service: &mut Service) -> Next {
        self.conversation.begins_to_send(service);
        self.go_through(service, Stages::Sending)
    }

    /// Gives back what a finished reply held. This must be in a worker that shares its open files with
    /// the worker that planned the reply. Returns whether to receive, to wait for an event, or to close
    /// the connection.
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
        let waits = if self.tls.is_some() { self.begin_tls_turn(service) } else { None };
        let next = match waits {
            Some(turn) => Next::Turn(turn),
            None => self.go_through_stages(service, stages),
        };
        if self.tls.is_some() { self.end_tls_turn(service, next) } else { next }
    }

    fn go_through_stages(&mut self, service: &mut Service, stages: Stages) -> Next {
        while self.conversation.is_held() {
            if let Some(turn) = self.attend_pause(service) {
                return Next::Turn(turn);
            }
        }
        // What a reply waited for matters to the stage that sends it.
        if self.conversation.is_paused() && stages == Stages::Receiving && self.conversation.is_replying() {
            return Next::Send;
        }
        let mut scratch = std::mem::take(&mut service.scratch);
        let mut input = Input::new(&mut scratch);
        let mut share = service.quantum;
        self.conversation.begins_turn(service);
        let mut resident = None;
        if self.conversation.is_paused() {
            // No stage has watched the socket meanwhile.
            self.readable = !self.ring.is_receiving;
            match self
                .conversation
                .go_on(service, Line::of(self.socket.as_fd(), self.tls.is_none(), self.blocks))
            {
                WaitedFor::Window(window) => resident = Some(window),
                WaitedFor::Room => self.writable = self.has_room_now(),
                WaitedFor::Else => {}
            }
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

    /// Handles what holds the conversation. `None`: it may continue.
    #[cold]
    fn attend_pause(&mut self, service: &mut Service) -> Option<Turn> {
        if self.conversation.waits_for_disk().is_some() {
            return Some(self.keep_waiting(service));
        }
        self.attend_application(service)
    }

    /// Handles an event while the conversation waits for the disk. It matters only if the connection
    /// broke.
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

    /// Begins a wait that this turn has led to.
    #[cold]
    fn begin_pause(&mut self, service: &mut Service) -> Turn {
        match self.conversation.take_job() {
            Some(job) => Turn::Disk(Box::new(job)),
            // The result of a pause that is already over is for the next turn.
            None => self.attend_pause(service).unwrap_or(Turn::Unfinished),
        }
    }
}
