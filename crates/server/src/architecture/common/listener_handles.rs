//! A thread's listeners: accepting from them, retiring them, releasing them.
//!
//! A listener that must not accept any more *retires*. If only this server has it, it answers no new
//! handshakes. It is emptied, and closed when the handshakes under way have had time to finish.
//!
//! If the threads of a process share listeners, the last thread that releases one closes it. If processes
//! share a descriptor table, the supervisor closes it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use http1::Tick;
use sys::socket::{self, PeerAddress};

use crate::accept::Gate;
use crate::channel::Client;
use crate::control::{Control, LetGo};
use crate::counters::Failure;
use crate::error_log::Limited;
use crate::listeners::{Listener, Share};
use crate::service::Service;

/// A thread's handle for a listener that it accepts from.
#[derive(Clone)]
pub(in crate::architecture) struct ListenerHandle {
    pub(in crate::architecture) listener: Arc<Listener>,
    /// The thread that drops the last copy is the last one of the process.
    held: Arc<()>,
    retiring: Retiring,
}

/// Whether a listener retires.
#[derive(Clone, Copy)]
enum Retiring {
    No,
    /// As soon as this worker's generation is [confirmed](Control::is_on_trial). Until then the previous
    /// generation accepts here.
    IfConfirmed,
    /// Until then, handshakes under way may finish.
    Until(Tick),
}

/// The result of accepting.
pub(in crate::architecture) enum Accepted {
    /// A client.
    Client(Client),
    /// A client of a network that keeps the queue of TLS handshakes from getting shorter. Its connection is
    /// reset.
    Refused,
    /// No client waits here.
    Nobody,
    /// The waiting client is gone, or there is room by now. Another attempt is worthwhile.
    TryAgain,
    /// The process has no descriptors left, and the gate is closed for a while.
    Paused,
}

/// How long a retiring listener continues to accept, for handshakes that were under way.
const RETIRE_TICKS: u32 = 100 / Tick::MS;

impl ListenerHandle {
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
        self.judge(service.accept(&self.listener), service, gate, complaints)
    }

    /// What it means that this was taken out of the accept queue.
    pub(in crate::architecture) fn judge(
        &self,
        accepted: io::Result<(OwnedFd, PeerAddress)>,
        service: &mut Service,
        gate: &mut Gate,
        complaints: &mut Limited,
    ) -> Accepted {
        let error = match accepted {
            Ok((socket, peer)) => {
                let listener = &self.listener;
                let address = listener.asked.as_ref().unwrap_or(&listener.address);
                let is_announced = service.proxies.announce_at(address);
                let speaks_tls = service.tls_terms.as_ref().is_some_and(|terms| terms.are_for(address));
                if speaks_tls
                    && !is_announced
                    && service.handshakes.as_ref().is_some_and(|handshakes| handshakes.refuses(&peer))
                {
                    // A socket that cannot be reset is closed when it is dropped.
                    let _ = socket::reset(socket);
                    return Accepted::Refused;
                }
                let waited_ms = None;
                return Accepted::Client(Client { socket, peer, is_announced, speaks_tls, waited_ms });
            }
            Err(error) => error,
        };
        match error.kind() {
            // `InvalidInput`: another orphaned worker has stopped this listener. A worker does that when
            // the queue is empty.
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
            // The client is gone already, or the network reports an error (accept(2), "Error handling").
            _ => {
                service.counters.error(Failure::Accept);
                Accepted::TryAgain
            }
        }
    }

    /// Called at the end of service. If the supervisor is gone, this worker itself must stop new
    /// handshakes.
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

    /// Whether it is to be emptied and then closed.
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

    /// Releases the listener. If no other thread has it, this process closes it and reports that to the
    /// supervisor. `left` are the other listeners, in this thread or in one that shares none with it: for
    /// each, whether it [retires](Self::is_retiring).
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
