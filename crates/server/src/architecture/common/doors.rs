//! A thread's listeners: accepting from them, retiring them, letting go of them.
//!
//! A listener from which nobody is to accept any more *retires*. It answers no new handshakes, if it is this
//! server's alone, is emptied, and closed once those under way have had time to finish.
//!
//! Where the threads of a process have listeners in common, the last one that lets go closes. Where processes
//! have a descriptor table in common, the supervisor does.

use std::io;
use std::sync::Arc;

use http1::Tick;
use sys::socket;

use crate::accept::Gate;
use crate::channel::Client;
use crate::control::{Control, LetGo};
use crate::counters::Failure;
use crate::error_log::Limited;
use crate::listeners::{Listener, Share};
use crate::service::Service;

/// A listener that a thread accepts from.
#[derive(Clone)]
pub(in crate::architecture) struct Door {
    pub(in crate::architecture) listener: Arc<Listener>,
    /// Who lets go of the last of these is the last of the process.
    held: Arc<()>,
    retiring: Retiring,
}

/// Whether a door retires.
#[derive(Clone, Copy)]
enum Retiring {
    No,
    /// As soon as this worker's generation is [confirmed](Control::is_on_trial): until then the one before
    /// accepts here.
    IfConfirmed,
    /// Until then handshakes under way may finish.
    Until(Tick),
}

/// What came of accepting.
pub(in crate::architecture) enum Accepted {
    /// A client.
    Client(Client),
    /// Nobody waits here.
    Nobody,
    /// Whoever waited is gone, or there is room by now: it is worth another attempt.
    TryAgain,
    /// Descriptors have run out, and the gate is shut for a while.
    Paused,
}

/// How long a listener that retires goes on accepting, for handshakes that were under way.
const RETIRE_TICKS: u32 = 100 / Tick::MS;

impl Door {
    /// The listeners of a process. Each of its threads gets a copy.
    pub(in crate::architecture) fn all(share: Share) -> Vec<Self> {
        let open = |listener, retiring| Self { listener, held: Arc::new(()), retiring };
        let serving = share.serving.into_iter().map(|listener| open(listener, Retiring::No));
        let retiring = share.retiring.into_iter().map(|listener| open(listener, Retiring::IfConfirmed));
        serving.chain(retiring).collect()
    }

    /// Takes the first connection of the accept queue.
    pub(in crate::architecture) fn accept(
        &self,
        service: &mut Service,
        gate: &mut Gate,
        complaints: &mut Limited,
    ) -> Accepted {
        let error = match service.accept(&self.listener) {
            Ok((socket, peer)) => {
                let listener = &self.listener;
                let address = listener.asked.as_ref().unwrap_or(&listener.address);
                let is_announced = service.proxies.announce_at(address);
                return Accepted::Client(Client { socket, peer, is_announced, waited_ms: None });
            }
            Err(error) => error,
        };
        match error.kind() {
            // The latter where an orphan beside this one has stopped it, which it does when the queue is
            // empty.
            io::ErrorKind::WouldBlock | io::ErrorKind::InvalidInput => Accepted::Nobody,
            _ if socket::is_exhaustion(&error) => {
                service.counters.error(Failure::AcceptExhausted);
                // Files that are kept open without need make room for clients.
                if service.content.close_half() {
                    return Accepted::TryAgain;
                }
                gate.back_off(service.clock.tick);
                complaints.warn(service.clock.ms, &format!("accepting pauses: {error}"));
                Accepted::Paused
            }
            // The client is gone already, or the network says so (accept(2), "Error handling").
            _ => {
                service.counters.error(Failure::Accept);
                Accepted::TryAgain
            }
        }
    }

    /// At the end of service. Where the supervisor is gone, nobody else says that no new handshakes are to be
    /// answered.
    pub(in crate::architecture) fn drain(&mut self, now: Tick, control: &Control) {
        if control.is_orphaned() {
            self.listener.refuse_new_handshakes();
        }
        self.retire(now);
    }

    fn retire(&mut self, now: Tick) {
        if !matches!(self.retiring, Retiring::Until(_)) {
            self.retiring = Retiring::Until(now.after(RETIRE_TICKS));
        }
    }

    /// Whether it is to be emptied, and closed in a while.
    pub(in crate::architecture) fn is_retiring(&self) -> bool {
        !matches!(self.retiring, Retiring::No)
    }

    /// Whether it retires and is to be closed now.
    pub(in crate::architecture) fn is_over(&mut self, now: Tick, control: &Control) -> bool {
        if matches!(self.retiring, Retiring::IfConfirmed) && !control.is_on_trial() {
            self.retire(now);
        }
        let Retiring::Until(until) = self.retiring else { return false };
        self.listener.is_over(until.reached(now), !self.listener.has_queue())
    }

    /// Lets go of it. If no other thread has it, the listener is closed in this process, and the supervisor
    /// told. There are others `left`, in this thread or in one that has none in common with it: of each,
    /// whether it [retires](Self::is_retiring).
    pub(in crate::architecture) fn let_go(
        self,
        service: &Service,
        control: &Control,
        left: impl Iterator<Item = bool>,
    ) {
        if control.is_orphaned() {
            self.listener.stop_listening();
        }
        if Arc::into_inner(self.held).is_none() {
            return;
        }
        service.let_go_of_listener(&self.listener);
        let mut left = left.peekable();
        control.tell_let_go(if left.peek().is_none() {
            LetGo::All
        } else if left.any(|retires| retires) {
            LetGo::Nothing
        } else {
            LetGo::Retiring
        });
    }
}
