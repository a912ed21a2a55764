//! A client's handshake as work that may have to wait ([`Handshakes`](crate::handshakes)).
//!
//! When the first message has come whole, the handshake needs a place. It may get one at once, and is
//! computed here. Otherwise it waits, and the channel ends its turns with [`Turn::Application`] until it is
//! called. A client that leaves meanwhile gives its place back.

use std::io;

use super::{Channel, Tls};
use crate::conversation::{Input, Next, Turn};
use crate::handshakes::{Finished, Handshake, Handshakes, Job, Step};
use crate::service::Service;
use crate::tls::{Opened, Session};

/// What a flight of a handshake costs of the quantum: computing it takes as long as sending this much.
const COST_OF_FLIGHT: u64 = 64 << 10;

/// Where a client's handshake stands.
#[derive(Debug, Default)]
pub(super) enum Standing {
    /// It needs no place: its first message has not come, or the rest takes little.
    #[default]
    Free,
    /// It waits for a place, or is computed aside.
    Waits(Handshake),
    /// It is to be computed here.
    Here(Handshake),
    /// It was computed aside.
    Computed(Box<Finished>),
}

/// What came of trying to open what was received.
pub(super) enum Outcome {
    /// It was opened, or cannot be.
    Opened(io::Result<Opened>),
    /// It is no TLS, but a request.
    IsPlain,
    /// The handshake waits, is computed aside, or was refused.
    Waits,
}

/// Whether a client begins with a request instead of a handshake.
fn speaks_http(received: &[u8]) -> bool {
    received.first().is_some_and(u8::is_ascii_uppercase)
}

/// Whether these bytes begin with a whole record (RFC 8446 section 5.1).
fn has_a_record(sealed: &[u8]) -> bool {
    match sealed {
        [_, _, _, high, low, rest @ ..] => rest.len() >= u16::from_be_bytes([*high, *low]).into(),
        _ => false,
    }
}

impl Tls {
    /// Whether the handshake waits, or is computed aside.
    pub(in crate::channel) fn awaits_handshake(&self) -> bool {
        matches!(self.standing, Standing::Waits(_))
    }

    /// Names the handshake, which waits.
    pub(in crate::channel) fn name_handshake(&self, service: &mut Service, name: u64) {
        if let (Standing::Waits(handshake), Some(handshakes)) = (&self.standing, &mut service.handshakes) {
            handshakes.name(handshake, name);
        }
    }

    /// Has the thread compute the answer to what was received. That is kept, for if the thread has no time.
    ///
    /// # Errors
    ///
    /// There is no thread. The handshake comes back.
    fn is_computed_aside(
        &mut self,
        handshakes: &mut Handshakes,
        handshake: Handshake,
    ) -> Result<(), Handshake> {
        let Some(session) = self.session.take() else { return Err(handshake) };
        match handshakes.give(handshake, Job { session, sealed: self.partial.clone() }) {
            Ok(handshake) => {
                self.standing = Standing::Waits(handshake);
                Ok(())
            }
            Err(refused) => {
                let (handshake, job) = *refused;
                self.session = Some(job.session);
                Err(handshake)
            }
        }
    }

    /// What has come is still to be opened, so the next turn begins with that.
    fn has_something_to_open(&mut self) {
        (self.has_come, self.has_more) = (true, true);
    }
}

impl Channel {
    /// Begins a turn of a client that speaks TLS. Returns how the turn ends if the handshake waits.
    #[cold]
    pub(in crate::channel) fn begin_tls_turn(&mut self, service: &mut Service) -> Option<Turn> {
        service.change_stamps();
        self.send_own(service);
        if self.awaits_handshake() { self.attend_handshake(service) } else { None }
    }

    /// Ends a turn of a client that speaks TLS.
    #[cold]
    pub(in crate::channel) fn end_tls_turn(&mut self, service: &mut Service, next: Next) -> Next {
        service.change_stamps();
        if let (Some(tls), Some(handshakes)) = (&mut self.tls, &mut service.handshakes)
            && !tls.has_asked
            && self.conversation.requests() > 0
        {
            tls.has_asked = true;
            handshakes.has_asked();
        }
        match next {
            Next::Turn(Turn::Blocked) if self.awaits_handshake() => Next::Turn(Turn::Application),
            next => next,
        }
    }

    /// Sees whether a handshake that waits may go on. `None`: it may.
    fn attend_handshake(&mut self, service: &mut Service) -> Option<Turn> {
        if !self.conversation.is_open() || self.conversation.is_replying() {
            // Its time is over.
            self.give_handshake_up(service);
            return None;
        }
        if self.hung_up && self.line().has_hung_up() {
            return Some(Turn::Close);
        }
        let (tls, handshakes) = (self.tls.as_mut()?, service.handshakes.as_mut()?);
        let Standing::Waits(handshake) = std::mem::take(&mut tls.standing) else { return None };
        match handshakes.go_on(handshake, service.clock.tick) {
            Step::Waits(handshake) => {
                tls.standing = Standing::Waits(handshake);
                return Some(Turn::Application);
            }
            Step::Here(handshake) => tls.standing = Standing::Here(handshake),
            Step::Aside(handshake) => match tls.is_computed_aside(handshakes, handshake) {
                Ok(()) => return Some(Turn::Application),
                Err(handshake) => tls.standing = Standing::Here(handshake),
            },
            Step::Again(handshake) => {
                tls.session = service.tls_terms.as_deref().and_then(Session::new);
                tls.standing = Standing::Here(handshake);
            }
            Step::Computed(finished) => tls.standing = Standing::Computed(finished),
            Step::Refused => {
                self.conversation.breaks_off();
                return Some(Turn::Reset);
            }
        }
        if self.line().has_hung_up() {
            return Some(Turn::Close);
        }
        self.readable = true;
        if let Some(tls) = &mut self.tls {
            tls.has_something_to_open();
        }
        None
    }

    /// Gives the handshake's place back, if it has one.
    pub(in crate::channel) fn give_handshake_up(&mut self, service: &mut Service) {
        let (Some(tls), Some(handshakes)) = (&mut self.tls, &mut service.handshakes) else { return };
        if let Standing::Waits(handshake) | Standing::Here(handshake) = std::mem::take(&mut tls.standing) {
            handshakes.give_up(handshake);
        }
    }

    /// Opens what was received, or has the handshake wait for that.
    pub(super) fn open(
        &mut self,
        service: &mut Service,
        sealed: &mut [u8],
        input: &mut Input<'_>,
        share: &mut u64,
    ) -> Outcome {
        let Some(tls) = &mut self.tls else { return Outcome::Waits };
        match std::mem::take(&mut tls.standing) {
            Standing::Free => {}
            Standing::Here(handshake) => return self.shakes_hands(service, handshake, sealed, share),
            Standing::Computed(finished) => return self.takes_computed(*finished, sealed),
            Standing::Waits(handshake) => {
                tls.standing = Standing::Waits(handshake);
                self.keep_partial(sealed, service);
                return Outcome::Waits;
            }
        }
        let Some(session) = &mut tls.session else { return Outcome::Waits };
        if !session.is_begun() && speaks_http(sealed) {
            service.counters.tls_failures.add(1);
            return Outcome::IsPlain;
        }
        if session.has_a_costly_answer_to_come() && has_a_record(sealed) {
            return self.asks_for_a_place(service, sealed, share);
        }
        let was_leaving = tls.leaving.len();
        let opened = session.open(sealed, input.room(), &mut tls.leaving);
        if tls.leaving.len() > was_leaving {
            *share = share.saturating_sub(COST_OF_FLIGHT);
        }
        Outcome::Opened(opened)
    }

    /// The first message has come.
    fn asks_for_a_place(&mut self, service: &mut Service, sealed: &mut [u8], share: &mut u64) -> Outcome {
        let Some(handshakes) = &mut service.handshakes else { return Outcome::Waits };
        let step = handshakes.begin(self.conversation.peer(), service.clock.tick);
        if !matches!(step, Step::Here(_)) {
            self.keep_partial(sealed, service);
        }
        let (Some(tls), Some(handshakes)) = (&mut self.tls, &mut service.handshakes) else {
            return Outcome::Waits;
        };
        match step {
            Step::Here(handshake) => return self.shakes_hands(service, handshake, sealed, share),
            Step::Aside(handshake) => {
                if let Err(handshake) = tls.is_computed_aside(handshakes, handshake) {
                    service.buffers.give(std::mem::take(&mut tls.partial));
                    return self.shakes_hands(service, handshake, sealed, share);
                }
            }
            Step::Waits(handshake) => tls.standing = Standing::Waits(handshake),
            Step::Computed(_) | Step::Again(_) | Step::Refused => self.conversation.breaks_off(),
        }
        Outcome::Waits
    }

    /// Computes the answer to what was received.
    fn shakes_hands(
        &mut self,
        service: &mut Service,
        handshake: Handshake,
        sealed: &mut [u8],
        share: &mut u64,
    ) -> Outcome {
        let Some(tls) = &mut self.tls else { return Outcome::Waits };
        let (began_ns, began_cpu_ns) = (sys::clock::monotonic_ns(), sys::clock::thread_cpu_ns());
        let opened = match &mut tls.session {
            // The first messages carry nothing for the conversation.
            Some(session) => session.open(sealed, &mut [], &mut tls.leaving),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        *share = share.saturating_sub(COST_OF_FLIGHT);
        if let Some(handshakes) = &mut service.handshakes {
            let took_ns = sys::clock::monotonic_ns() - began_ns;
            handshakes.computed(handshake, took_ns, sys::clock::thread_cpu_ns() - began_cpu_ns);
        }
        Outcome::Opened(opened)
    }

    /// Takes over what the thread has computed. `sealed` is what it has had, and what has come since.
    fn takes_computed(&mut self, finished: Finished, sealed: &mut [u8]) -> Outcome {
        let Some(tls) = &mut self.tls else { return Outcome::Waits };
        let Finished { job, leaving, opened, .. } = finished;
        tls.session = Some(job.session);
        tls.leaving = leaving;
        // A message in several records may have been put together there.
        let had = job.sealed.len().min(sealed.len());
        sealed[..had].copy_from_slice(&job.sealed[..had]);
        if sealed.len() > had {
            tls.has_something_to_open();
            self.readable = true;
        }
        Outcome::Opened(opened)
    }
}
