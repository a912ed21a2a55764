//! The client of a request while its socket is passed to the application, and the return of the socket.

use fastcgi::transport::Returned;
use http1::{Limits, Tick};

use super::super::failure::Failure;
use super::super::lent_connection::{self, Lendable, Look};
use super::super::{Gateway, Tools};
use super::{Relay, Stage};

/// What is left to be done for a client that will get no reply, or no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// The client can be told so, if nothing has been sent to it.
    Answerable,
    /// The client can be told so, but its connection must end with that.
    AnswerableOnce,
    /// The application has sent this many bytes to the client, or may still send some. Or the client has a
    /// part of an interim reply, and can get nothing but the rest of it.
    Spoilt(u64),
}

impl Relay {
    /// Whether the client's socket is passed. Then nothing here may use it.
    pub fn is_lent(&self) -> bool {
        self.lent_connection.is_some()
    }

    /// Whether the client's socket is passed, or was.
    pub fn has_lent(&self) -> bool {
        self.has_lent
    }

    /// Checks on the client if its socket is passed. Returns whether the client takes the reply too
    /// slowly.
    pub fn check_lent_connection(&mut self, client: Lendable<'_>, limits: &Limits, now: Tick) -> bool {
        let Some(lent) = &mut self.lent_connection else { return false };
        let look = lent.look(client, limits, now);
        if look == Look::Busy {
            // The server waits for the client, or the server is at work.
            self.active = now;
        }
        look == Look::Slow
    }

    /// Takes the socket back, with the server's report.
    pub(super) fn take_back(
        &mut self,
        gateway: &Gateway,
        returned: Returned,
        tools: &Tools<'_>,
    ) -> Result<(), Failure> {
        let Some(lent) = &self.lent_connection else { return Err(Failure::Unasked) };
        let client = tools.client.ok_or(Failure::Unasked)?;
        let may_go_on = lent.end(client, returned, gateway.nodelay)?;
        self.lent_connection = None;
        self.terms.persistent &= may_go_on;
        if returned.sent == 0 {
            // The application sends its reply to this server.
            return Ok(());
        }
        self.course.has_reply();
        self.has_used = true;
        let is_persistent = returned.is_persistent && self.terms.persistent;
        self.returned = Some(Returned { is_persistent, ..returned });
        if returned.is_whole { Ok(()) } else { Err(Failure::Unfinished) }
    }

    /// The application's report, if it has sent the whole reply and has ended the request.
    pub fn returned(&self) -> Option<Returned> {
        self.returned.filter(|returned| returned.is_whole && matches!(self.stage, Stage::Over))
    }

    /// What can be done for the client after a failure. A server that has closed its connection is taken
    /// to have ended. Then the client is restored, as far as possible, to what it was before.
    pub fn afterwards(
        &mut self,
        client: Option<Lendable<'_>>,
        failure: &Failure,
        gateway: &Gateway,
    ) -> Afterwards {
        if self.interims.is_cut() {
            return Afterwards::Spoilt(0);
        }
        if let Some(returned) = self.returned {
            return Afterwards::Spoilt(returned.body);
        }
        let (Some(lent), Some(client)) = (self.lent_connection.take(), client) else {
            return Afterwards::Answerable;
        };
        let sent = lent.sent(client);
        if sent > 0 || !matches!(failure, Failure::Closed | Failure::Broken(_)) {
            return Afterwards::Spoilt(if sent == u64::MAX { 0 } else { sent });
        }
        lent_connection::put_back(client, gateway.nodelay);
        Afterwards::AnswerableOnce
    }
}
