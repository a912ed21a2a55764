//! Applications in the event loop, and queues. The loop watches the sockets of applications' servers for the
//! connections that have a request there, and those that are kept for other requests. It watches a wake-up,
//! the service's `wakeup`, for connections whose request or TLS handshake waits in a queue.

use std::os::fd::AsFd;

use sys::event::Ready;

use super::registered::Registered;
use super::{EventLoop, Name};
use crate::architecture::common::token::{Kind, Token};
use crate::gateway::Retired;
use crate::registration::Registration;

impl EventLoop {
    /// Watches the socket of an application's server for the connection in that slot. Returns whether that
    /// is possible.
    pub(super) fn watch_link(&mut self, index: u32) -> bool {
        let Some(registered) = self.connections.get_mut(index) else { return true };
        let token = Token { kind: Kind::Application, generation: registered.generation, index }.number();
        registered.conversation.name_queued(&mut self.service, token);
        if self.service.outbox.is_some() {
            return self.watch_link_by_ring(index);
        }
        let user = Name { index, generation: registered.generation };
        let Some((link, waits)) = registered.conversation.link() else { return true };
        link.watched_as = self.links.give(link.watched_as, user);
        if waits == (false, false) && !self.waiting.events.is_edge_triggered() {
            // Otherwise the mechanism would report again and again that a server has closed.
            self.waiting.events.remove_if(link.as_fd(), link.registration);
            link.registration = Registration::None;
            return true;
        }
        match self.waiting.events.await_events(link.as_fd(), link.watched_as, link.registration, waits) {
            Ok(registration) => {
                link.registration = registration;
                true
            }
            Err(error) => {
                let message = format!("cannot wait for an application: {error}");
                self.complaints.warn(self.service.clock.ms, &message);
                false
            }
        }
    }

    /// Whether the client in that slot is lent to an application and needs no attention. Then the loop does
    /// not watch it, unless watching costs nothing.
    pub(super) fn leaves_alone(&mut self, index: u32) -> bool {
        let Some(registered) = self.connections.get_mut(index) else { return false };
        let Some(may_be_watched) = registered.conversation.is_lent(self.waiting.events.is_edge_triggered())
        else {
            return false;
        };
        if !may_be_watched {
            self.waiting.events.remove_if(registered.conversation.as_fd(), registered.registration);
            registered.registration = Registration::None;
        }
        registered.keep_deadline(index, &mut self.waiting.timers);
        true
    }

    /// There is an event for the socket of an application's server.
    pub(super) fn heed_link(&mut self, token: Token, event: Ready) {
        let is_over = event.hang_up || event.error;
        // A ring watches a link for one user only, and names it after that.
        let of_ring =
            self.service.outbox.as_ref().map(|_| Name { index: token.index, generation: token.generation });
        let Some(Name { index, generation }) = of_ring.or_else(|| self.links.user(event.token)) else {
            return self.service.gateway.heed_kept(event.token, event.readable, is_over);
        };
        let token = Token { kind: Kind::Client, generation, index };
        let Some(registered) = Registered::named(&mut self.connections, token) else { return };
        let Some((link, _)) = registered.conversation.link() else { return };
        if link.watched_as != event.token {
            return;
        }
        link.note(event.readable, event.writable, is_over);
        self.agenda.add(index, registered);
    }

    /// The wake-up (`wakeup`) has been signalled.
    pub(super) fn heed_wakeup(&mut self) {
        self.service.clear_wakeup();
        self.let_called_go();
    }

    /// Lets connections go on that need not wait in a queue any more.
    fn let_called_go(&mut self) {
        for token in self.service.called().into_iter().filter_map(Token::from_number) {
            let Some(registered) = Registered::named(&mut self.connections, token) else { continue };
            self.agenda.add(token.index, registered);
        }
    }

    /// Handles connections to applications that no request uses any more: stops watching those that it
    /// keeps, and closes the others. Also handles what this worker itself has released from a queue.
    #[cold]
    pub(super) fn see_to_links(&mut self) {
        if self.service.do_chores() {
            self.let_called_go();
        }
        while let Some((pool, mut link)) = self.service.gateway.take_resting() {
            self.links.keep(link.watched_as);
            if !self.waiting.events.is_edge_triggered() || self.service.outbox.is_some() {
                // Otherwise the mechanism would report again and again that a server has closed.
                self.waiting.events.remove_if(link.as_fd(), link.registration);
                link.registration = Registration::None;
            }
            self.service.gateway.keep((pool, link), self.service.clock.tick);
        }
        while let Some(retired) = self.service.gateway.take_retired() {
            let Retired { socket, registration, watched_as, cancels } = retired;
            self.links.forget(watched_as);
            self.waiting.events.forget_closing(socket.as_fd(), registration);
            if let Some(ring) = self.waiting.events.ring() {
                // Closed behind its operations.
                cancels.inspect(|&name| ring.cancel(name));
                ring.close(socket);
            }
        }
    }
}
