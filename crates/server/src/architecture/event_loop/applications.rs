//! The event loop beside applications: the sockets of their servers are watched for the connections that have
//! a request there, and the bell for those whose request waits in a queue.

use std::os::fd::AsFd;

use sys::event::Ready;

use super::EventLoop;
use super::registered::Registered;
use crate::architecture::common::token::{Kind, Token};
use crate::registration::Registration;

impl EventLoop {
    /// Watches the socket of an application's server for the connection in that place; says whether that can
    /// be done.
    pub(super) fn watch_link(&mut self, index: u32) -> bool {
        let Some(registered) = self.connections.get_mut(index) else { return true };
        let token = Token { kind: Kind::Application, generation: registered.generation, index }.number();
        registered.conversation.name_queued(&self.service, token);
        let Some((link, waits)) = registered.conversation.link() else { return true };
        if link.watched_as != token {
            // It may be watched for the connection that has used it before.
            self.waiting.events.remove_if(link.as_fd(), link.registration);
            (link.registration, link.watched_as) = (Registration::None, token);
        }
        if waits == (false, false) && !self.waiting.events.is_edge_triggered() {
            // That a server has closed would be told again and again.
            self.waiting.events.remove_if(link.as_fd(), link.registration);
            link.registration = Registration::None;
            return true;
        }
        match self.waiting.events.await_events(link.as_fd(), token, link.registration, waits) {
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

    /// Whether the client in that place is lent to an application, and is left alone: it is not watched,
    /// unless that costs nothing.
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

    /// Something has come of the socket of a connection's application.
    pub(super) fn heed_link(&mut self, token: Token, event: Ready) {
        let Some(registered) = Registered::named(&mut self.connections, token) else { return };
        let Some((link, _)) = registered.conversation.link() else { return };
        link.note(event.readable, event.writable, event.hang_up || event.error);
        self.agenda.add(token.index, registered);
    }

    /// The bell has rung.
    pub(super) fn heed_bell(&mut self) {
        self.service.gateway.clear_bell();
        self.let_called_go();
    }

    /// Lets those go on whose requests need not wait in a queue any more.
    fn let_called_go(&mut self) {
        for token in self.service.gateway.called().filter_map(Token::from_number) {
            let Some(registered) = Registered::named(&mut self.connections, token) else { continue };
            self.agenda.add(token.index, registered);
        }
    }

    /// Sees to the connections to applications that no request uses any more: ceases to watch those that are
    /// kept, and closes the others. And to requests that this worker itself has let go.
    #[cold]
    pub(super) fn see_to_links(&mut self) {
        self.service.gateway.expire(self.service.clock.tick);
        if self.service.gateway.some_may_go() {
            self.let_called_go();
        }
        while let Some((pool, mut link)) = self.service.gateway.take_resting() {
            self.waiting.events.remove_if(link.as_fd(), link.registration);
            link.registration = Registration::None;
            self.service.gateway.keep((pool, link), self.service.clock.tick);
        }
        while let Some((socket, registration)) = self.service.gateway.take_retired() {
            self.waiting.events.forget_closing(socket.as_fd(), registration);
        }
    }
}
